"""Numbers, sizes, times and values as people read them."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from wormdb.format.kinds import Decimal128
from wormdb.jobs.plain_text import plain_of

__all__ = ["cell_of", "cut", "is_number", "number_text", "one_line", "size_text", "time_text", "width_of"]

_WIDE: Final = frozenset("WF")


def size_text(count: float) -> str:
    """Bytes in decimal units: 847 KB, 2.1 MB."""
    if count < 1000:
        return f"{count:.0f} B"
    for unit in ("KB", "MB", "GB", "TB"):
        count /= 1000
        # 999.6 would be shown as 1000 of this unit: it is 1.0 of the next one.
        if count < 999.5:
            return f"{count:.1f} {unit}" if count < 99.95 else f"{count:.0f} {unit}"
    return f"{count / 1000:,.1f} PB"


def time_text(moment: datetime | None) -> str:
    """A time to the second, in UTC; two dashes for none."""
    return "--" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def number_text(value: Any) -> str:
    """A number with commas between thousands, anything else as in a cell."""
    if isinstance(value, Decimal128):
        value = value.to_decimal()
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return f"{value:,}"
    return cell_of(value)


def is_number(value: Any) -> bool:
    """Whether it stands at the right of its column."""
    return isinstance(value, int | float | Decimal128) and not isinstance(value, bool)


def cell_of(value: Any) -> str:
    """A value in one line of a table; nothing for a missing one."""
    if value is None:
        return "null"
    return one_line(plain_of(value) or "")


def one_line(text: str) -> str:
    """The text with · for every letter that takes no place of its own: newlines, controls, what changes the order."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "·" for letter in text)


def width_of(text: str) -> int:
    """How many places of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(_places(letter) for letter in text)


def cut(text: str, width: int) -> str:
    """The text, or its beginning and … if it takes more places than there are."""
    if width_of(text) <= width:
        return text
    taken, kept = 1, []
    for letter in text:
        taken += _places(letter)
        if taken > width:
            break
        kept.append(letter)
    return "".join(kept) + "…"


def _places(letter: str) -> int:
    if unicodedata.combining(letter) or unicodedata.category(letter) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(letter) in _WIDE else 1
