"""Projections: which parts of a document are shown, by MongoDB's rules.

Parts are either named (inclusion) or left out (exclusion); only the id may be the exception. Fields are shown in the
order of the document. Paths go through arrays at every level; a number in a path is a name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, assert_never

from wormdb.errors import InvalidRequestError, Problem
from wormdb.format.kinds import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from wormdb.format.kinds import Document

__all__ = [
    "EVERYTHING",
    "Branch",
    "FirstMatch",
    "Part",
    "Projection",
    "QueryMatch",
    "Slice",
    "Whole",
    "fields_needed",
    "project",
]


@dataclass(frozen=True, slots=True)
class Whole:
    """The whole value: shown by an inclusion, left out by an exclusion."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Elements of an array from `skip` on, from the end if it is negative; `limit` None: all of them."""

    skip: int
    limit: int | None


@dataclass(frozen=True, slots=True)
class FirstMatch:
    """The first element of an array that matches a filter of its own ($elemMatch)."""

    text: str
    matches: Callable[[list[Any]], bool] = field(compare=False, repr=False)
    """Whether an array has such an element."""


@dataclass(frozen=True, slots=True)
class QueryMatch:
    """The element that the query matched (`field.$`), of the first array on the path `array`."""

    array: str


@dataclass(frozen=True, slots=True)
class Branch:
    """Parts of a document, or of the documents of an array, by name."""

    parts: Mapping[str, Part]


Part: TypeAlias = Whole | Slice | FirstMatch | QueryMatch | Branch
Positions: TypeAlias = "Mapping[str, int] | None"
"""Of each array that is asked for the position of the query's match; None if no `$` is, or none any more."""


@dataclass(frozen=True, slots=True)
class Projection:
    """A checked projection; made by `wormdb.bql.projection_parse.parse_projection`."""

    mode: Literal["include", "exclude"]
    parts: Branch
    arrays: tuple[str, ...] = ()
    """The arrays of which the query's match is shown."""


EVERYTHING: Final = Projection("exclude", Branch({}))
"""Shows whole documents."""


def project(projection: Projection, document: Document, *, matched: Mapping[str, int] | None = None) -> Document:
    """What `projection` shows of a normalized document: a new document that may share parts with it.

    `matched` has the position of the query's match in each of `projection.arrays` (see `wormdb.bql.positions`). Raises
    InvalidRequestError if it is needed and not there. No requests.
    """
    positions = (matched or {}) if projection.arrays else None
    if projection.mode == "exclude":
        return _without(projection.parts, document, positions)
    shown = _only(projection.parts, document, positions)
    # As in MongoDB, fields of $elemMatch come behind the others.
    late = [name for name, part in projection.parts.parts.items() if type(part) is FirstMatch and name in shown]
    for name in late:
        shown[name] = shown.pop(name)
    return shown


def fields_needed(projection: Projection) -> set[str] | None:
    """The paths that hold all that a projection shows; None for whole documents. No requests."""
    return None if projection.mode == "exclude" else set(_paths(projection.parts, ""))


def _paths(branch: Branch, prefix: str) -> Iterator[str]:
    for name, part in branch.parts.items():
        if isinstance(part, Branch):
            yield from _paths(part, f"{prefix}{name}.")
        else:
            yield prefix + name


# `inner`: an array that stands directly in another one was entered. Names go through those, but $slice does not.


def _only(branch: Branch, document: Document, matched: Positions, *, inner: bool = False) -> Document:
    parts = branch.parts
    found = (
        (name, _shown(parts[name], value, matched, inner=inner)) for name, value in document.items() if name in parts
    )
    return {name: value for name, value in found if value is not MISSING}


def _shown(part: Part, value: Any, matched: Positions, *, inner: bool) -> Any:
    if type(part) is Whole:
        return value
    if not isinstance(part, Branch):
        return _elements(part, value, matched, inner=inner)
    if type(value) is dict:
        return _only(part, value, matched, inner=inner)
    if type(value) is list:
        array = None if matched is None else _queried_below(part)
        if array is not None:  # the element is one of the first array on the way
            value, matched = _queried(value, array, matched or {}), None
        containers = [element for element in value if type(element) in {dict, list}]
        return [_shown(part, element, matched, inner=inner or type(element) is list) for element in containers]
    return MISSING


def _without(branch: Branch, document: Document, matched: Positions, *, inner: bool = False) -> Document:
    parts = branch.parts
    found = (
        (name, _left(parts[name], value, matched, inner=inner) if name in parts else value)
        for name, value in document.items()
    )
    return {name: value for name, value in found if value is not MISSING}


def _left(part: Part, value: Any, matched: Positions, *, inner: bool) -> Any:
    if type(part) is Whole:
        return MISSING
    if not isinstance(part, Branch):
        return _elements(part, value, matched, inner=inner)
    if type(value) is dict:
        return _without(part, value, matched, inner=inner)
    if type(value) is list:
        return [_left(part, element, matched, inner=inner or type(element) is list) for element in value]
    return value


def _elements(part: Whole | Slice | FirstMatch | QueryMatch, value: Any, matched: Positions, *, inner: bool) -> Any:
    match part:
        case Slice(skip, limit):
            return _sliced(value, skip, limit) if type(value) is list and not inner else value
        case FirstMatch():
            elements = value if type(value) is list else []
            return next(([element] for element in elements if part.matches([element])), MISSING)
        case QueryMatch(array):
            return _queried(value, array, matched) if type(value) is list and matched is not None else value
        case Whole():
            return value
        case _:
            assert_never(part)


def _queried_below(branch: Branch) -> str | None:
    """The array of the `$` that stands somewhere below."""
    for part in branch.parts.values():
        found = (
            _queried_below(part) if isinstance(part, Branch) else part.array if isinstance(part, QueryMatch) else None
        )
        if found is not None:
            return found
    return None


def _sliced(array: list[Any], skip: int, limit: int | None) -> list[Any]:
    start = skip if skip >= 0 else max(len(array) + skip, 0)
    return array[start:] if limit is None else array[start : start + limit]


def _queried(array: list[Any], path: str, matched: Mapping[str, int]) -> list[Any]:
    position = matched.get(path)
    if position is None or position >= len(array):
        problem = Problem(
            f"{path}.$", "the query matched no element of this array", "put a condition on the array into the filter"
        )
        raise InvalidRequestError("the projection cannot be used on a document", problems=[problem])
    return [array[position]]
