"""A filter as a conjunction, and what of it keys can answer: one term for each condition on one path."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from wormdb.bql.tree import All, And, Compare, Contains, ElemMatch, Exists, MatchAll, Not, RegexMatch, conjunction
from wormdb.engine.tree.entries import Range
from wormdb.format.kinds import Regex
from wormdb.format.path import is_position
from wormdb.format.wrappers import regex_options
from wormdb.query.physical.keys import common_keys, lookup, narrowing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wormdb.bql.tree import Filter
    from wormdb.format.path import Path
    from wormdb.query.physical.keys import Keys

__all__ = ["Conjunction", "Term", "bounds_of"]


@dataclass(frozen=True, eq=False, slots=True)
class Term:
    """One condition on the values of one path; two terms are the same only if they are one object."""

    field: str
    keys: Keys
    conjunct: int
    """The place of the filter that it comes from."""
    element: Path | None = None
    """The array of which one element must meet this term and all others of the same filter."""
    is_of_value: bool = False
    """Whether it is about the element itself: then all such terms of a filter are about one value."""
    is_by_position: bool = False
    """Whether a segment of the path may be a position in an array."""
    is_of_array: bool = False
    """Whether the condition is about an array as a whole."""

    def is_usable(self, *, has_arrays: bool, has_texts: bool = True) -> bool:
        """Whether every document that meets it has an entry in its keys, sparse indexes aside."""
        if self.keys.is_for_elements and has_texts:
            return False
        if not has_arrays:
            return True
        if self.keys.is_for_plain:
            return False
        # By position an array is one value, and a document in it misses the field of that name.
        return not self.is_by_position or not (self.is_of_array or self.keys.takes_nothing)

    def is_exact(self, *, has_arrays: bool) -> bool:
        """Whether each entry in its keys belongs to a document that meets it."""
        if self.element is not None:
            return False
        if not has_arrays:
            return self.keys.is_exact
        return self.keys.is_exact_in_arrays and not self.is_by_position


@dataclass(frozen=True, eq=False)
class Conjunction:
    """Filters that must all hold, and their terms."""

    filters: tuple[Filter, ...]
    terms: tuple[Term, ...]
    said: dict[int, tuple[Term, ...]]
    """Of filters that terms can say whole, by place, all the terms that this takes."""

    @classmethod
    def of(cls, tree: Filter) -> Conjunction:
        """The conjunction that a filter is; of one filter if it is none. No requests."""
        filters = tuple(_flat(tree))
        terms: list[Term] = []
        said: dict[int, tuple[Term, ...]] = {}
        for place, each in enumerate(filters):
            found, is_whole = _terms(each, place)
            terms += found
            if is_whole and found:
                said[place] = tuple(found)
        return cls(filters, tuple(terms), said)

    @cached_property
    def by_field(self) -> dict[str, list[Term]]:
        """The terms by path."""
        found: dict[str, list[Term]] = {}
        for term in self.terms:
            found.setdefault(term.field, []).append(term)
        return found

    def covered(self, exact: Iterable[Term]) -> frozenset[int]:
        """The places of filters that hold for all documents for which these terms do."""
        known = set(exact)
        return frozenset(place for place, terms in self.said.items() if known.issuperset(terms))

    def without(self, covered: frozenset[int]) -> Filter:
        """What is left to test."""
        return conjunction(each for place, each in enumerate(self.filters) if place not in covered)


def _flat(tree: Filter) -> Iterator[Filter]:
    match tree:
        case MatchAll():
            return
        case And(filters):
            for child in filters:
                yield from _flat(child)
        case _:
            yield tree


def _terms(each: Filter, place: int) -> tuple[list[Term], bool]:
    """The terms of one filter, and whether all of them together say what it says."""
    match each:
        case All(path, values):
            parts: list[Filter] = [
                RegexMatch(path, value.pattern, regex_options(value))
                if type(value) is Regex
                else Compare(path, "eq", value)
                for value in values
            ]
            terms = [term for part in parts if (term := _term(part, place)) is not None]
            return terms, len(terms) == len(parts)
        case ElemMatch(path, child, kind):
            return list(_of_element(path, child, place, is_of_value=kind == "value")), False
        case _:
            term = _term(each, place)
            return ([] if term is None else [term]), True


def _term(condition: Filter, place: int) -> Term | None:
    path = _path(condition)
    keys = lookup(condition) or narrowing(condition) if path else None
    if keys is None or path is None:
        return None
    is_of_array = isinstance(condition, Contains | Not)
    return Term(".".join(path), keys, place, is_by_position=_has_position(path), is_of_array=is_of_array)


def _path(condition: Filter) -> Path | None:
    match condition:
        case Not(Exists() | Compare() as child):
            return child.path
        case _:
            path: Path | None = getattr(condition, "path", None)
            return path


def _of_element(array: Path, child: Filter, place: int, *, is_of_value: bool) -> Iterator[Term]:
    """The terms of conditions that one element of an array meets."""
    if _has_position(array):
        return
    for condition in _flat(child):
        if isinstance(condition, Contains | Not | All | ElemMatch):
            continue
        path = getattr(condition, "path", None)
        if path is None or bool(path) is is_of_value or _has_position(("", *path)):
            continue
        keys = lookup(condition) or narrowing(condition)
        # An array among the elements has none of the fields that a document may miss, and no entry says so.
        if keys is None or (keys.takes_nothing and not is_of_value):
            continue
        yield Term(".".join((*array, *path)), keys, place, element=array, is_of_value=is_of_value)


def _has_position(path: Path) -> bool:
    return any(map(is_position, path[1:]))


# --- Which values every row of an answer has, for leaving out blocks by the least and greatest values of their columns.


def bounds_of(conjunction: Conjunction) -> dict[str, Range]:
    """By path a range: each row of the answer has a value in it, or an array at the path or on the way. No requests.

    Of a path that leads to no array all conditions hold for one value, so what is left of all ranges is taken.
    """
    found: dict[str, Range] = {}
    for path, terms in conjunction.by_field.items():
        if path == "_id":
            continue  # a scan has a range of ids
        keys = [term.keys for term in terms if not term.keys.is_for_elements]
        if keys:
            ranges = common_keys(keys).ranges
            found[path] = Range(ranges[0].low, ranges[-1].high) if ranges else Range(b"", b"")
    return found
