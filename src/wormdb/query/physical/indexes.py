"""Ways by ids and by indexes: ids that the filter names, one index, several of them, a number, an order."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Final

from wormdb.bql.tree import Filter, MatchAll, MatchNone, Or
from wormdb.engine.tree.entries import Range
from wormdb.query.physical.access import IndexAccess, NarrowedField, find_accesses, group_terms, ranges_behind
from wormdb.query.physical.question import COMPLEMENT, Candidate, filter_paths, find_ids, finish, join_names
from wormdb.query.physical.terms import Conjunction, intersect_ranges
from wormdb.query.plan import Empty, Ids, IndexCount, IndexScan, Intersection, Union

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.bql.sorting import SortField
    from wormdb.query.physical.question import Question, Way
    from wormdb.query.sources.source import Facts, IndexFacts

__all__ = [
    "propose_count",
    "propose_ids",
    "propose_intersection",
    "propose_ordered",
    "propose_single",
    "propose_union",
]


def propose_ids(question: Question, _: Way = ()) -> Iterator[Candidate]:
    """The documents of the ids that the filter names."""
    found = find_ids(question.conjunction)
    if found is not None:
        lookup, covered = found
        root = finish(question, lookup, covered)
        yield Candidate(("identity",), "index_lookup", "ids", lambda: "the filter names ids", root)


# --- One index: the documents of the entries in its ranges.


def propose_single(question: Question, names: Way = ()) -> Iterator[Candidate]:
    """A candidate for each access of each index, or only for the one named."""
    named = question.find_access(*names) if names else None
    for access in [named] if named is not None else () if names else question.accesses:
        scan = IndexScan(access.name, access.spans)
        root = finish(question, scan, access.covered) if access.spans else Empty()
        reason = partial(_tell_coverage, question, f"index {access.name}", access.covered)
        way = ("single", access.name, str(access.option))
        yield Candidate(way, "index_lookup", f"index {_label(access)}", reason, root)


def _tell_coverage(question: Question, what: str, covered: frozenset[int]) -> str:
    """Why an access is good: for people."""
    left = question.conjunction.without(covered)
    if isinstance(left, MatchAll):
        return f"{what} covers filter"
    return f"{what} narrows, documents are tested for: {join_names(filter_paths(left))}"


def _label(access: IndexAccess) -> str:
    return f"{access.name} ({access.facts.index.label})"


# --- Only a number: how many entries an index has in ranges, without reading what lies inside.


def propose_count(question: Question, names: Way = ()) -> Iterator[Candidate]:
    """Indexes in whose ranges each matching document has one entry and no other document has any."""
    if not question.is_plain_count:
        return
    for name, option, spans in _countable(question):
        if not names or names == (name, option):
            root = IndexCount(name, spans) if spans else Empty()
            reason = partial("index {} counts the rows".format, name)
            yield Candidate(("counting", name, option), "index_lookup", f"count of index {name}", reason, root)


def _countable(question: Question) -> Iterator[tuple[str, str, tuple[Range, ...]]]:
    if not question.conjunction.filters:
        for facts in question.facts.indexes:
            if not facts.index.sparse and not any(facts.may_have_arrays):
                yield facts.index.name, "all", (Range(),)
    for access in question.accesses:
        if access.is_one_entry and len(access.covered) == len(question.conjunction.filters):
            yield access.name, str(access.option), access.spans


# --- An index that has the rows in the order of the request, so that a limit reads little and nothing is sorted.
#
# Its fields are those of the sort, in their order and all in one direction; between them may be fields that the filter
# fixes to one value. There may be no field behind, because ties are broken by id. Where a sort field may hold arrays, a
# document stands at its least (descending: greatest) element, but only if the whole range is read. Behind an array on
# the way it may stand elsewhere: elements that are not documents have no entry, and count as null in an order.


@dataclass(slots=True)
class _IndexWalk:
    """What was found on the way through the fields of an index."""

    left: list[SortField]
    """Sort fields that are still to come."""
    prefix: list[NarrowedField] = field(default_factory=list)
    """Fields fixed before the first sort field."""
    leading: NarrowedField | None = None
    """What narrows the first sort field."""
    used: list[NarrowedField] = field(default_factory=list)
    """Everything whose keys all entries of the answer are in."""
    has_begun: bool = False
    has_arrays: bool = False
    """Whether a sort field may have them."""
    is_plain: bool = True
    """Whether the key of an entry, behind the prefix, is the sort key."""


def propose_ordered(question: Question, names: Way = ()) -> Iterator[Candidate]:
    """A candidate for each index that has the order, or only for the one named."""
    sort = _directed(question)
    if sort is None:
        return
    for facts in question.facts.indexes:
        if names and names != (facts.index.name,):
            continue
        walk = _walk(facts, question, sort)
        if walk is not None and _has_every_row(facts, walk):
            yield _ordered_candidate(question, facts, walk)


def _directed(question: Question) -> list[SortField] | None:
    """The fields of the sort without the id; None if the id goes against the first field."""
    fields = list(question.sort.fields)
    if fields and fields[-1].path == ("_id",):
        last = fields.pop()
        if last.descending is not question.is_reverse:
            return None
    return fields


def _walk(facts: IndexFacts, question: Question, sort: Sequence[SortField]) -> _IndexWalk | None:
    walk = _IndexWalk(list(sort))
    for place, path in enumerate(facts.index.paths):
        groups = group_terms(facts, place, question.conjunction)
        group = None if facts.may_have_arrays[place] or not groups else groups[0]
        is_fixed = group is not None and group.keys.point is not None
        is_next = bool(walk.left) and walk.left[0].path == path
        if is_next and not is_fixed:
            if facts.may_have_arrays[place] and len(path) > 1:
                return None
            if walk.left.pop(0).descending is not question.is_reverse:
                return None
            if not walk.has_begun and group is not None:
                walk.leading = group
                walk.used.append(group)
            walk.has_begun = True
            walk.has_arrays = walk.has_arrays or facts.may_have_arrays[place]
        elif not _take_fixed(walk, group if is_fixed else _fixing(groups, walk)):
            return None
        elif is_next:
            walk.left.pop(0)
            walk.is_plain = False
    return None if walk.left else walk


def _fixing(groups: Sequence[NarrowedField], walk: _IndexWalk) -> NarrowedField | None:
    """A condition on a field with arrays that fixes one entry of each document: one field in front may have that."""
    if walk.has_begun or any(each.has_arrays for each in walk.prefix):
        return None
    return next((group for group in groups if group.has_arrays and group.keys.point is not None), None)


def _take_fixed(walk: _IndexWalk, group: NarrowedField | None) -> bool:
    if group is None:
        return False
    if walk.has_begun:
        walk.is_plain = False
    else:
        walk.prefix.append(group)
    walk.used.append(group)
    return True


def _has_every_row(facts: IndexFacts, walk: _IndexWalk) -> bool:
    """Whether all entries of each document that matters are there, and none of them lies out of the range."""
    if walk.has_arrays and any(each.has_arrays for each in walk.prefix):
        return False
    if not facts.index.sparse:
        return True
    known = [each for each in walk.used if each in walk.prefix or each is walk.leading]
    return any(not each.keys.takes_nothing for each in known)


def _ordered_candidate(question: Question, facts: IndexFacts, walk: _IndexWalk) -> Candidate:
    name = facts.index.name
    prefix = b"".join([each.keys.ranges[0].low for each in walk.prefix])
    spans = ranges_behind(prefix, (Range(),) if walk.leading is None else walk.leading.keys.ranges)
    narrowing = [*walk.prefix, *([] if walk.leading is None else [walk.leading])]
    covered = question.conjunction.covered(term for each in narrowing for term in each.exact)
    spans = _behind_page(question, walk, prefix, spans)
    scan = IndexScan(name, spans, reverse=question.is_reverse)
    root = finish(question, scan, covered, in_order=True) if spans else Empty()
    what = f"index {name} ({facts.index.label}) in order"

    def reason() -> str:
        if not narrowing:
            return f"index {name} gives the order"
        return _tell_coverage(
            question, f"index {name} gives the order and" if walk.has_begun else f"index {name}", covered
        )

    return Candidate(("ordered", name), "index_lookup", what, reason, root)


def _behind_page(question: Question, walk: _IndexWalk, prefix: bytes, spans: tuple[Range, ...]) -> tuple[Range, ...]:
    """Only what may come after the page before, if entries are sorted by the very bytes of sort keys."""
    after = question.request.after
    if after is None or not walk.is_plain:
        return spans
    rest = Range(high=prefix + after.translate(COMPLEMENT)) if question.is_reverse else Range(prefix + after)
    return intersect_ranges(spans, (rest,))


# --- Several indexes at once: the ids that all of them have.

_INDEXES_MAX: Final = 4
"""All pairs of that many best indexes are tried, and all of them together."""


def propose_intersection(question: Question, names: Way = ()) -> Iterator[Candidate]:
    """Pairs of the best indexes that each answer something else, and all of these; or only those named."""
    for chosen in _named_accesses(question, names) if names else _different_accesses(question):
        way = ("intersection", *(part for access in chosen for part in (access.name, str(access.option))))
        covered = frozenset[int]().union(*(access.covered for access in chosen))
        scans = tuple(IndexScan(access.name, access.spans) for access in chosen)
        root = finish(question, Intersection(scans), covered) if all(scan.spans for scan in scans) else Empty()
        label = " and ".join(f"index {access.name}" for access in chosen)
        yield Candidate(way, "index_lookup", label, partial(_tell_coverage, question, label, covered), root)


def _named_accesses(question: Question, names: Way) -> Iterator[Sequence[IndexAccess]]:
    found = [question.find_access(*each) for each in zip(names[::2], names[1::2], strict=True)]
    known = [access for access in found if access is not None]
    if len(known) == len(found):
        yield known


def _different_accesses(question: Question) -> Iterator[Sequence[IndexAccess]]:
    best = sorted(question.accesses, key=_estimate_entries)[:_INDEXES_MAX]
    yield from (pair for pair in combinations(best, 2) if _are_different(pair))
    apart: list[IndexAccess] = []
    for access in best:
        if all(_are_different((access, other)) for other in apart):
            apart.append(access)
    if len(apart) > 2:
        yield apart


def _are_different(pair: Sequence[IndexAccess]) -> bool:
    """Whether each of the two answers something that the other one does not."""
    one, other = pair
    if one.name == other.name:
        return one.option != other.option
    return not one.used & other.used


# --- $or: the rows of its branches, if each of them can be found by ids or by an index.

_LOOSE = 1_000_000_000


def propose_union(question: Question, names: Way = ()) -> Iterator[Candidate]:
    """A candidate for each $or of the conjunction, or only for the one at a place."""
    for place, each in enumerate(question.conjunction.filters):
        if not isinstance(each, Or) or (names and names != (str(place),)):
            continue
        found = _find_branches(each, question.facts)
        if found is None:
            continue
        union, is_covered = found
        covered = frozenset([place] if is_covered else [])
        root = finish(question, union, covered) if union.children else Empty()
        reason = partial(_tell_coverage, question, f"union of {len(union.children)}", covered)
        yield Candidate(("union", str(place)), "index_lookup", "union of indexes", reason, root)


def _find_branches(tree: Or, facts: Facts) -> tuple[Union, bool] | None:
    """The rows of all branches, and whether none of them is to be tested; None if a branch has no way. No requests."""
    children: list[Ids] = []
    is_covered = True
    for branch in tree.filters:
        if isinstance(branch, MatchNone):
            continue
        found = _branch(branch, facts)
        if found is None:
            return None
        ids, is_whole = found
        is_covered = is_covered and is_whole
        children += [] if ids is None else ids.children if isinstance(ids, Union) else [ids]
    return Union(tuple(children)), is_covered


def _estimate_entries(access: IndexAccess) -> float:
    """About how many entries an access reads; for choosing among indexes."""
    statistics = access.facts.statistics
    if statistics is None:
        return _LOOSE / (1 + len(access.used))
    return sum(max(statistics.estimate(span), statistics.entries_per_value) for span in access.spans)


def _branch(branch: Filter, facts: Facts) -> tuple[Ids | None, bool] | None:
    """The best way to the rows of one branch; None for its ids if it has no rows."""
    conjunction = Conjunction.of(branch)
    every = frozenset(range(len(conjunction.filters)))
    by_id = find_ids(conjunction)
    if by_id is not None:
        return by_id[0], by_id[1] == every
    found = [access for each in facts.indexes for access in find_accesses(each, conjunction)]
    if found:
        best = min(found, key=_estimate_entries)
        return IndexScan(best.name, best.spans) if best.spans else None, best.covered == every
    for each in conjunction.filters:
        inner = _find_branches(each, facts) if isinstance(each, Or) else None
        if inner is not None:
            return inner[0], inner[1] and len(every) == 1
    return None
