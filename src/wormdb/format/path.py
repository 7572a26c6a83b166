"""Dotted paths through documents and arrays, as MongoDB resolves them.

A path such as `items.price` or `items.0.price` names fields by segments. Two readings exist:

- `resolve` answers queries. Arrays on the way are gone through implicitly, so a path may have many
  values, or none.
- `get_direct` answers columns, which hold one value a document: it stops at the first array on the
  way and says so.
"""

from __future__ import annotations

import enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.format.kinds import MISSING, Document
from wormdb.settings import DOCUMENT_DEPTH_MAX, FIELD_NAME_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator


__all__ = [
    "TRAVERSED",
    "Path",
    "Place",
    "TraversedSentinel",
    "get_direct",
    "is_position",
    "parse_path",
    "resolve",
    "walk",
    "within",
]

_PATHS_KEPT: Final = 4_096  # the same few are parsed again for every query

Path = tuple[str, ...]
"""A parsed path: one segment or more."""

Place = tuple[Any, "Path | None"]
"""A value and what is left of the path to go from there; None: the value is the one that counts."""


class TraversedSentinel(enum.Enum):
    """The class of `TRAVERSED`."""

    TRAVERSED = enum.auto()

    def __repr__(self) -> str:
        return "TRAVERSED"

    __str__ = __repr__


TRAVERSED: Final = TraversedSentinel.TRAVERSED
"""The path crosses an array, so it has no single value: ask `resolve`."""


def parse_path(text: str) -> Path:
    """The segments of a dotted path.

    Raises InvalidRequestError for an empty path or segment, a segment that starts with `$`, NUL, and
    halves of surrogate pairs; LimitExceededError over DOCUMENT_DEPTH_MAX segments or for a segment
    over FIELD_NAME_BYTES_MAX. No requests.
    """
    if not isinstance(text, str):
        raise InvalidRequestError(f"a path is text, not {type(text).__name__}", fix="write it as 'a.b.c'")
    return _parsed(str(text))


@lru_cache(_PATHS_KEPT)
def _parsed(text: str) -> Path:
    path = tuple(text.split("."))
    if len(path) > DOCUMENT_DEPTH_MAX:
        reason = f"DOCUMENT_DEPTH_MAX is {DOCUMENT_DEPTH_MAX} levels"
        raise LimitExceededError(f"a path of {len(path)} segments is too deep", reason=reason, fix="shorten the path")
    for segment in path:
        _check_segment(segment, text)
    return path


def _check_segment(segment: str, text: str) -> None:
    what = f"path {text[:80]!r} cannot be used"
    if not segment:
        raise InvalidRequestError(what, reason="a segment is empty", fix="name a field between all dots")
    if segment.startswith("$"):
        reason = f"segment {segment[:40]!r} starts with $, and no field does"
        raise InvalidRequestError(what, reason=reason, fix="name a field there")
    if "\0" in segment:
        raise InvalidRequestError(what, reason="it holds NUL, and no field name does", fix="remove it")
    try:
        size = len(segment.encode())
    except UnicodeEncodeError:
        reason = "it holds half of a surrogate pair, which is not a character"
        raise InvalidRequestError(what, reason=reason, fix="clean the text") from None
    if size > FIELD_NAME_BYTES_MAX:
        reason = f"a segment of {size} bytes is over FIELD_NAME_BYTES_MAX, {FIELD_NAME_BYTES_MAX}"
        raise LimitExceededError(what, reason=reason, fix="no field has such a name: shorten it")


def resolve(document: Document, path: Path, *, expand: bool = True) -> list[Any]:
    """All values of `path` in `document`, in MongoDB's order of matching. No requests.

    - Through documents the path goes field by field. Where a field is absent, or a value that is
      neither document nor array stands in the way, the value is MISSING.
    - Where an array stands on the way, each element that is a document is tried with the rest of
      the path, and each gives its values (or MISSING). Elements of other kinds give nothing, and
      arrays directly within the array are not gone through: one level is implicit at each step.
    - A segment of digits is also the position of an element: that element is then tried with what
      follows the segment, whatever its kind. Both readings apply, first as field name, then as
      position: `a.0` finds {"a": [{"0": 1}]} twice.
    - At the end of the path an array gives its elements and then itself, so that both {a: 1} and
      {a: [1, 2]} match; not with `expand=False`, which $size and $elemMatch need, and not an
      array reached by position.
    - An array on the way may give nothing at all: `a.b` of {"a": [1]} is [], not [MISSING]. That
      is why {"a.b": null} does not match that document.
    """
    return list(_in_document(document, path, expand))


def _in_document(document: Document, path: Path, expand: bool) -> Iterator[Any]:
    value: Any = document
    for place, segment in enumerate(path):
        if type(value) is not dict:
            value = MISSING
            break
        value = value.get(segment, MISSING)
        if type(value) is list and place + 1 < len(path):
            yield from _in_array(value, path[place + 1 :], expand)
            return
    if expand and type(value) is list:
        yield from value
    yield value


def _in_array(array: list[Any], path: Path, expand: bool) -> Iterator[Any]:
    """The values of `path` in an array on the way; `path` is not empty."""
    position = int(path[0]) if is_position(path[0]) else None
    for place, element in enumerate(array):
        if type(element) is dict:
            yield from _in_document(element, path, expand)
        if place == position:
            yield from _at_position(element, path[1:], expand)


def _at_position(element: Any, path: Path, expand: bool) -> Iterator[Any]:
    if not path:
        yield element
    elif type(element) is dict:
        yield from _in_document(element, path, expand)
    elif type(element) is list:
        yield from _in_array(element, path, expand)


def is_position(segment: str) -> bool:
    """Digits without leading zeros, and few enough for any array there can be."""
    return segment.isascii() and segment.isdigit() and len(segment) < 10 and (segment == "0" or segment[0] != "0")


def get_direct(document: Document, path: Path) -> Any:
    """The one value of `path`, MISSING, or TRAVERSED. No requests.

    The value is what stands at the end when only documents were crossed; it may itself be an array
    or a document. MISSING: a field is absent, or a value that is neither document nor array
    stands in the way. TRAVERSED: an array stands in the way (segments of digits included), so
    that `resolve` has to tell.
    """
    value: Any = document
    for segment in path:
        if type(value) is not dict:
            return TRAVERSED if type(value) is list else MISSING
        value = value.get(segment, MISSING)
    return value


def walk(value: Any, path: Path | None) -> Place:
    """Through documents and positions to a value that counts, or to an array to go through. No requests."""
    if path is None:
        return value, None
    for place, segment in enumerate(path):
        if type(value) is dict:
            value = value.get(segment, MISSING)
        elif type(value) is not list:
            return MISSING, None
        elif not is_position(segment) or any(type(element) is dict and segment in element for element in value):
            return value, path[place:]
        else:
            value = value[int(segment)] if int(segment) < len(value) else MISSING
            if place + 1 == len(path):
                return value, None  # an array reached by its position is one value
    return value, () if type(value) is list else None


def within(element: Any, position: int, rest: Path | None) -> list[Place]:
    """How a path goes on in one element of an array: not at all, once, or by name and by position."""
    if not rest:
        return [(element, None)]
    places: list[Place] = []
    if type(element) is dict:
        places.append((element, rest))
    if rest[0] == str(position):
        places.append((element, rest[1:] or None))
    return places
