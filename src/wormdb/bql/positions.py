"""Which element of an array a filter matched: what `$` stands for in updates and projections.

It is the first element with which alone in the array the document would still match, conditions about the array as a
whole ($size, $exists) and negations left aside. MongoDB leaves open what `$` means if different conditions are met by
different elements; here it then stands for none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wormdb.bql.match import compile_filter
from wormdb.bql.tree import (
    EVERYTHING,
    NOTHING,
    All,
    And,
    Exists,
    In,
    MatchAll,
    MatchNone,
    Not,
    Or,
    Size,
    conjunction,
    disjunction,
)
from wormdb.format.path import Path, get_direct, is_position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wormdb.bql.tree import Filter
    from wormdb.format.kinds import Document

__all__ = ["compile_positions", "names_array"]


def names_array(tree: Filter, array: Path) -> bool:
    """Whether a filter has a condition on the elements of `array`, so that `$` can stand for one. No requests."""
    return _is_about(tree, array)


def compile_positions(tree: Filter, arrays: Iterable[str]) -> Callable[[Document], dict[str, int]]:
    """A function that tells, for a document that matches, the position that matched in each of `arrays`.

    Where another array stands on the way, it is the position in that one. An array without such an element is left
    out. No requests.
    """
    finders = [(array, _finder(tree, tuple(array.split(".")))) for array in arrays]

    def find(document: Document) -> dict[str, int]:
        found = ((array, finder(document)) for array, finder in finders)
        return {array: position for array, position in found if position is not None}

    return find


def _finder(tree: Filter, array: Path) -> Callable[[Document], int | None]:
    if not _is_about(tree, array):
        return lambda _: None
    ways = [array[:size] for size in range(1, len(array) + 1)]
    tests = [(way, compile_filter(_restricted(tree, way))) for way in ways]

    def find(document: Document) -> int | None:
        for way, matches in tests:
            elements = get_direct(document, way)
            if type(elements) is list:
                alone = (matches(_with(document, way, [element])) for element in elements)
                return next((position for position, is_match in enumerate(alone) if is_match), None)
        return None

    return find


def _with(document: Document, path: Path, value: Any) -> Document:
    name, *rest = path
    return {**document, name: _with(document[name], tuple(rest), value) if rest else value}


def _is_about(tree: Filter, array: Path) -> bool:
    match tree:
        case And(filters) | Or(filters):
            return any(_is_about(child, array) for child in filters)
        case MatchAll() | MatchNone() | Not() | Size() | Exists():
            return False
        case _:
            return _is_below(tree.path, array)


def _is_below(path: Path, array: Path) -> bool:
    """Whether a path leads to elements of the array, whichever they are."""
    return path[: len(array)] == array and not any(map(is_position, path[len(array) : len(array) + 1]))


def _restricted(tree: Filter, array: Path) -> Filter:
    """What one element has to fulfil: conditions that it cannot fulfil alone are left out."""
    match tree:
        case And(filters):
            return conjunction([_restricted(child, array) for child in filters])
        case Or(filters) if _is_about(tree, array):
            # A branch that says nothing of the array tells no element.
            return disjunction([_restricted(child, array) if _is_about(child, array) else NOTHING for child in filters])
        case MatchAll() | MatchNone():
            return tree
        case Or() | Not():
            return EVERYTHING if _touches(tree, array) else tree
        case All(path, values) if _is_below(path, array):
            return In(path, values)
        case Size() | Exists():
            return EVERYTHING if _overlaps(tree.path, array) else tree
        case _:
            return EVERYTHING if _overlaps(tree.path, array) and not _is_below(tree.path, array) else tree


def _touches(tree: Filter, array: Path) -> bool:
    match tree:
        case And(filters) | Or(filters):
            return any(_touches(child, array) for child in filters)
        case Not(child):
            return _touches(child, array)
        case MatchAll() | MatchNone():
            return False
        case _:
            return _overlaps(tree.path, array)


def _overlaps(path: Path, array: Path) -> bool:
    shorter = min(len(path), len(array))
    return path[:shorter] == array[:shorter]
