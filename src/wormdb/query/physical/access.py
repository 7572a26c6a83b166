"""The ranges of one index in which all rows of a conjunction stand: the rule of the prefix.

Fields of an index are taken from the first on, as long as each is fixed to one key; the first one that is not ends
the walk with its ranges. An index of one field is the shortest case.

    index (country, city)    {"country": "DE", "city": {"$gt": "K"}, "size": 3}    DE/K… to the end of DE

Where a field may hold arrays, its conditions may be met by different elements, so only one of them narrows. Fields
that lie in the same array may be met by different elements too, unless one $elemMatch asks for both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wormdb.engine.tree.entries import Range
from wormdb.format.key import prefix_end
from wormdb.query.physical.terms import Conjunction, KeyRanges, Term, intersect_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.query.sources.source import IndexFacts

__all__ = ["IndexAccess", "NarrowedField", "find_accesses", "group_terms", "ranges_behind"]


@dataclass(frozen=True, slots=True)
class IndexAccess:
    """Ranges of an index, and what is known of the documents that have entries in them."""

    facts: IndexFacts
    spans: tuple[Range, ...]
    used: frozenset[int]
    """The filters of the conjunction that narrowed it."""
    covered: frozenset[int]
    """Those that need no test any more."""
    is_one_entry: bool
    """Whether a document has one entry in the ranges at most."""
    option: int = 0
    """Which of the conditions of a field with arrays was taken."""

    @property
    def name(self) -> str:
        """The name of the index."""
        return self.facts.index.name


@dataclass(frozen=True, slots=True)
class NarrowedField:
    """A field of an index and the terms that narrow it."""

    place: int
    keys: KeyRanges
    terms: tuple[Term, ...]
    has_arrays: bool

    @property
    def exact(self) -> list[Term]:
        """The terms for which the keys are all that is asked."""
        return [term for term in self.terms if term.is_exact(has_arrays=self.has_arrays)]


def find_accesses(facts: IndexFacts, conjunction: Conjunction) -> Iterator[IndexAccess]:
    """The ways in which an index narrows a conjunction, one for each condition that may lead. No requests."""
    first = group_terms(facts, 0, conjunction)
    for option, leading in enumerate(first):
        taken = [leading]
        for place in range(1, len(facts.index.fields)):
            if taken[-1].keys.point is None:
                break
            groups = [group for group in group_terms(facts, place, conjunction) if _may_join(facts, taken, group)]
            if not groups:
                break
            taken.append(min(groups, key=_looseness))
        if facts.index.sparse and all(each.keys.takes_nothing for each in taken):
            continue
        yield _access(facts, taken, conjunction, option)


def group_terms(facts: IndexFacts, place: int, conjunction: Conjunction) -> list[NarrowedField]:
    """How the terms of one field narrow it: all at once, or each alone if there may be arrays. No requests."""
    has_arrays, has_texts = facts.may_have_arrays[place], facts.has_texts(place)
    terms = [
        term
        for term in conjunction.by_field.get(facts.index.fields[place], ())
        if term.is_usable(has_arrays=has_arrays, has_texts=has_texts)
    ]
    if not terms:
        return []
    if not has_arrays:
        keys = terms[0].keys if len(terms) == 1 else intersect_keys(term.keys for term in terms)
        return [NarrowedField(place, keys, tuple(terms), has_arrays)]
    groups: dict[object, list[Term]] = {}
    for number, term in enumerate(terms):
        groups.setdefault(("element", term.conjunct) if term.is_of_value else number, []).append(term)
    return [
        NarrowedField(place, intersect_keys(term.keys for term in group), tuple(group), has_arrays)
        for group in groups.values()
    ]


def ranges_behind(prefix: bytes, ranges: Sequence[Range]) -> tuple[Range, ...]:
    """Ranges of the keys of a field that comes behind fixed ones."""
    if not prefix:
        return tuple(ranges)
    end = prefix_end(prefix)
    return tuple([Range(prefix + span.low, end if span.high is None else prefix + span.high) for span in ranges])


def _access(facts: IndexFacts, taken: Sequence[NarrowedField], conjunction: Conjunction, option: int) -> IndexAccess:
    prefix = b"".join([each.keys.ranges[0].low for each in taken[:-1]])
    spans = ranges_behind(prefix, taken[-1].keys.ranges)
    fixed = {each.place for each in taken if each.keys.point is not None}
    return IndexAccess(
        facts,
        spans,
        frozenset(term.conjunct for each in taken for term in each.terms),
        conjunction.covered(term for each in taken for term in each.exact),
        all(place in fixed or not arrays for place, arrays in enumerate(facts.may_have_arrays)),
        option,
    )


def _may_join(facts: IndexFacts, taken: Sequence[NarrowedField], group: NarrowedField) -> bool:
    """Whether a document that meets all of them has one entry that meets all of them."""
    return not group.has_arrays or all(not each.has_arrays or _are_apart(facts, each, group) for each in taken)


def _are_apart(facts: IndexFacts, one: NarrowedField, other: NarrowedField) -> bool:
    """Whether two fields, which may both hold arrays, are never met by different elements of one array."""
    first, second = facts.index.paths[one.place], facts.index.paths[other.place]
    if first[0] != second[0]:
        return True  # in one document only one of the two leads to an array, or the index would have refused it
    left, right = one.terms[0], other.terms[0]
    if left.element is None or left.element != right.element or left.conjunct != right.conjunct:
        return False
    depth = len(left.element)
    return len(first) > depth and len(second) > depth and first[depth] != second[depth]


def _looseness(group: NarrowedField) -> tuple[bool, int]:
    return not group.keys.are_points, len(group.keys.ranges)
