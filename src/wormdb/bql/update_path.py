"""Paths of updates: dotted, with positional segments.

`$` is the element of the array that the query matched, `$[]` each element, `$[name]` each that matches the array filter
of that name. A segment of digits is a position where an array stands, and the name of a field elsewhere.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from wormdb.errors import InvalidRequestError
from wormdb.format.path import is_position, parse_path

if TYPE_CHECKING:
    from wormdb.format.path import Path

__all__ = ["EACH", "IDENTIFIER", "MATCHED", "filter_name", "is_identity", "parse_update_path", "segment_order"]

MATCHED: Final = "$"
EACH: Final = "$[]"
IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""What an array filter may be called."""

_FILTERED: Final = re.compile(r"\$\[([A-Za-z_][A-Za-z0-9_]*)?\]")


def parse_update_path(text: str) -> Path:
    """The segments of the path of an update, positional ones as they are written.

    Raises InvalidRequestError for what no path is: also for a positional segment in first place, for two of `$`, and
    for `$` after `$[]` or `$[name]`; LimitExceededError. No requests.
    """
    if not isinstance(text, str):
        raise InvalidRequestError(f"a path is text, not {type(text).__name__}", fix="write it as 'a.b.c'")
    segments = text.split(".")
    parse_path(
        ".".join("x" if filter_name(segment) is not None or segment == MATCHED else segment for segment in segments)
    )
    what = f"path {text[:80]!r} cannot be used"
    if segments[0].startswith("$"):
        raise InvalidRequestError(
            what, reason="no array stands before the positional segment", fix="name the array first"
        )
    if MATCHED in segments:
        place = segments.index(MATCHED)
        if MATCHED in segments[place + 1 :]:
            raise InvalidRequestError(what, reason="it has two segments `$`", fix="use `$[name]` and an array filter")
        if any(segment.startswith("$[") for segment in segments[:place]):
            reason = "`$` follows a segment that stands for several elements"
            raise InvalidRequestError(what, reason=reason, fix="use `$[name]` and an array filter")
    return tuple(segments)


def filter_name(segment: str) -> str | None:
    """The name of the array filter of `$[name]`, "" of `$[]`, None of any other segment."""
    found = _FILTERED.fullmatch(segment)
    return None if found is None else found[1] or ""


def is_identity(path: Path) -> bool:
    """Whether the path is the id of a document or leads into it."""
    return path[0] in {"_id", "id"}


def segment_order(segment: str) -> tuple[bool, int, str]:
    """Keys in the order in which updates are applied: positions as numbers, then names; new fields come in it."""
    return (False, int(segment), "") if is_position(segment) else (True, 0, segment)
