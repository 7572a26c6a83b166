"""Values as text for other programs, and rows of them as lines of CSV."""

from __future__ import annotations

from datetime import UTC, datetime
from math import isfinite
from typing import TYPE_CHECKING, Any

from wormdb.api.records import safe_cell
from wormdb.format import json
from wormdb.format.kinds import MISSING, Decimal128, ObjectId

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["csv_line", "plain_of"]


def plain_of(value: Any) -> str | None:
    """A value as text for other programs: text, numbers and times as they are, others as JSON; None for null."""
    if value is None or value is MISSING:
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, Decimal128 | ObjectId):
        return str(value)
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return json.encode(value).decode()


def csv_line(values: Iterable[Any], *, is_safe: bool = False) -> bytes:
    """A line as RFC 4180 has it. Null and missing are empty, empty text is "". No requests.

    With `is_safe` no text of it is a formula for a spreadsheet, as `safe_cell` says.
    """
    if is_safe:
        values = [safe_cell(value) if isinstance(value, str) else value for value in values]
    return (",".join([_quoted(plain_of(value)) for value in values]) + "\r\n").encode()


def _quoted(text: str | None) -> str:
    if text is None:
        return ""
    if text and not any(sign in text for sign in ',"\r\n') and text.strip() == text:
        return text
    return '"' + text.replace('"', '""') + '"'
