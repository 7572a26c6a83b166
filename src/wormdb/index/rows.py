"""What a document has at the paths of an index: one row of values for each entry it gets.

The rules are MongoDB's. An array is gone through element by element, and all paths that lead through the
same array stand at the same element, so {"a": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]} has the rows (1, 2) and (3, 4)
at a.x and a.y. Two different arrays in one document would multiply, and are refused.
"""

from __future__ import annotations

import enum
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from wormdb.errors import InvalidRequestError
from wormdb.format.kinds import MISSING
from wormdb.format.path import walk, within

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.format.kinds import Document
    from wormdb.format.path import Path, Place

__all__ = ["EMPTY", "Empty", "Row", "rows_of"]


class Empty(enum.Enum):
    """The class of `EMPTY`."""

    EMPTY = enum.auto()

    def __repr__(self) -> str:
        return "[]"

    __str__ = __repr__


EMPTY: Final = Empty.EMPTY
"""An array without elements: it has no element to stand for it, and sorts below null."""

Row = tuple[Any, ...]
"""One value a path; MISSING where there is none, EMPTY for an empty array."""


def rows_of(document: Document, paths: Sequence[Path]) -> list[Row]:
    """All rows of a normalized document, one at least, perhaps with repeats. No requests.

    Where an array ends a path, its elements count; an array among them is one value. On the way only elements that are
    documents count, and a number in a path is a position unless an element has a field of that name: then it
    is both. An array that gives nothing counts as a missing field. Raises InvalidRequestError if two paths lead to
    different arrays.
    """
    return list(_rows([(document, path) for path in paths]))


def _rows(places: Sequence[Place]) -> Iterator[Row]:
    reached = [walk(value, path) for value, path in places]
    arrays = {id(value): value for value, rest in reached if rest is not None}
    if not arrays:
        yield tuple(value for value, _ in reached)
        return
    if len(arrays) > 1:
        raise InvalidRequestError(
            "two fields of one index are arrays in one document",
            reason="an index takes the elements of one array only, because those of two would multiply",
            fix="make one index for each of the two fields, or store one of them without an array",
        )
    (array,) = arrays.values()
    anything = False
    for position, element in enumerate(array):
        options = [[(value, None)] if rest is None else within(element, position, rest) for value, rest in reached]
        if any(option for option, (_, rest) in zip(options, reached, strict=True) if rest is not None):
            anything = True
            for chosen in product(*(option or [(MISSING, None)] for option in options)):
                yield from _rows(chosen)
    if not anything:
        yield tuple(_nothing(array, rest) if rest is not None else value for value, rest in reached)


def _nothing(array: list[Any], rest: Path) -> Any:
    return EMPTY if not array and not rest else MISSING
