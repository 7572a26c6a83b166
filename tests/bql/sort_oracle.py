"""By which values MongoDB sorts a document: the rules of its index keys, followed step by step on plain values.

A sort takes the first of the keys that an index over its fields would have for the document. Written from what the
server does, without the code under test: a walk that consumes all paths at once, one array at a time.
"""

from __future__ import annotations

from typing import Any

__all__ = ["NOTHING", "Refused", "sort_rows"]


class Refused(Exception):  # noqa: N818 - it is an answer
    """The server refuses the document: two arrays side by side, or a number that is a name and a position."""


class _Nothing:
    def __repr__(self) -> str:
        return "NOTHING"


NOTHING = _Nothing()
"""An empty array at the end of a path, which is below null."""
_ABSENT = object()

_Path = tuple[str, ...]


def sort_rows(document: dict[str, Any], paths: list[_Path]) -> list[tuple[Any, ...]]:
    """The rows of values, None for what is missing; at least one. Raises Refused."""
    rows: list[tuple[Any, ...]] = []
    _rows(document, [(path, _ABSENT) for path in paths], [None] * len(paths), rows)
    return rows


def _rows(
    document: dict[str, Any], left: list[tuple[_Path | None, Any]], fixed: list[Any], rows: list[tuple[Any, ...]]
) -> None:
    """`left` has for each path what is still to go, and the value that a position leads to, if it does."""
    fixed, rest = list(fixed), [path for path, _ in left]
    arrays: dict[int, list[Any]] = {}
    is_whole = False
    for place, (path, at_position) in enumerate(left):
        if path is None:
            continue
        is_there = path[0] in document
        if is_there and at_position is not _ABSENT:
            raise Refused
        value, behind, is_nested = _next(document, path) if is_there else _by_position(at_position)
        if value is _ABSENT:
            fixed[place], rest[place] = None, None
        elif isinstance(value, list):
            rest[place] = behind
            arrays[place] = value
            is_whole = is_whole or is_nested
        else:
            fixed[place], rest[place] = value, None
    if not arrays:
        rows.append(tuple(fixed))
        return
    array, *others = arrays.values()
    if any(other is not array for other in others):
        raise Refused
    if not array:
        _element(NOTHING, array, (rest, fixed, list(arrays), [_ABSENT] * len(rest)), rows, is_whole=False)
        return
    sought = [_ABSENT if not path else _positioned(array, path) for path in rest]
    for element in array:
        _element(element, array, (rest, fixed, list(arrays), sought), rows, is_whole=is_whole)


def _element(
    element: Any,
    array: list[Any],
    state: tuple[list[_Path | None], list[Any], list[int], list[Any]],
    rows: list[tuple[Any, ...]],
    *,
    is_whole: bool,
) -> None:
    rest, fixed, ending, sought = state
    fixed, following = list(fixed), list(rest)
    for place in ending:
        if following[place] == ():
            fixed[place], following[place] = (array if is_whole else element), None
    document = element if isinstance(element, dict) else {}
    _rows(document, list(zip(following, sought, strict=True)), fixed, rows)


def _next(value: Any, path: _Path) -> tuple[Any, _Path, bool]:
    """Through documents to the end of a path or to the first array, with what is left of the path then."""
    for place, segment in enumerate(path):
        if isinstance(value, list):
            return value, path[place:], False
        value = value.get(segment, _ABSENT) if isinstance(value, dict) else _ABSENT
        if value is _ABSENT:
            return _ABSENT, (), False
    return value, (), False


def _positioned(array: list[Any], path: _Path) -> Any:
    """What a position leads to, with the rest of the path and whether the element is an array; or absent."""
    segment = path[0]
    if not (segment.isdigit() and str(int(segment)) == segment and int(segment) < len(array)):
        return _ABSENT
    element = array[int(segment)]
    value, behind, _ = _next(element, path[1:])
    return value, behind, isinstance(element, list)


def _by_position(found: Any) -> tuple[Any, _Path, bool]:
    return (_ABSENT, (), False) if found is _ABSENT else found
