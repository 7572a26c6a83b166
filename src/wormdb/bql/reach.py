"""Whether some value of a path passes a test: the walk of `wormdb.format.path.resolve`, made ready once.

Nothing is split or looked up per document, no list of values is made, and the walk ends at the first value that
passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wormdb.format.kinds import MISSING
from wormdb.format.path import is_position

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.format.kinds import Document
    from wormdb.format.path import Path

    Test = Callable[[Any], bool]

__all__ = ["any_value"]


def any_value(path: Path, test: Test, *, expand: bool = True) -> Callable[[Document], bool]:
    """A function that tells whether a value of `path` passes `test`; without a path, `test` itself. No requests.

    Which values a path has, and what `expand` does, is told at `resolve`.
    """
    if not path:
        return test
    in_document, _ = _walks(path, test, expand=expand)
    return in_document


def _end(name: str, test: Test, *, expand: bool) -> Callable[[Document], bool]:
    """The last step: the elements of an array and then itself, or the value alone."""

    def each(document: Document) -> bool:
        value = document.get(name, MISSING)
        if type(value) is list:
            for element in value:
                if test(element):
                    return True
        return test(value)

    def whole(document: Document) -> bool:
        return test(document.get(name, MISSING))

    return each if expand else whole


def _walks(path: Path, test: Test, *, expand: bool) -> tuple[Callable[[Document], bool], Callable[[list[Any]], bool]]:
    """How the walk goes on when it stands at a document, and when at an array."""
    name, rest = path[0], path[1:]
    position = int(name) if is_position(name) else None
    if not rest:
        in_document = _end(name, test, expand=expand)
        return in_document, _in_array(in_document, position, test)
    later_document, later_array = _walks(rest, test, expand=expand)

    def further_document(document: Document) -> bool:
        value = document.get(name, MISSING)
        if type(value) is dict:
            return later_document(value)
        return later_array(value) if type(value) is list else test(MISSING)

    def further_element(element: Any) -> bool:
        if type(element) is dict:
            return later_document(element)
        return type(element) is list and later_array(element)

    return further_document, _in_array(further_document, position, further_element)


def _in_array(in_document: Callable[[Document], bool], position: int | None, at: Test) -> Callable[[list[Any]], bool]:
    """Every element that is a document, and the one at the position if the name is one."""

    def by_name(array: list[Any]) -> bool:
        return any(type(element) is dict and in_document(element) for element in array)

    if position is None:
        return by_name

    def by_name_or_position(array: list[Any]) -> bool:
        return (position < len(array) and at(array[position])) or by_name(array)

    return by_name_or_position
