"""An index that has the rows in the order of the request, so that a limit pulls little and nothing is sorted.

Its fields are, in their order, those of the sort, all in one direction; between them may be fields that the
filter fixes to one value. There may be no field behind, because ties are broken by id. Where a sort field may hold
arrays, a document stands at its least (descending: greatest) element, but only if the whole range is read. Behind an
array on the way it may stand elsewhere: elements that are no documents have no entry, and count as null in an order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wormdb.engine.tree.entries import Range
from wormdb.query.physical.compound import ranges_behind, usable_groups
from wormdb.query.physical.finish import finish
from wormdb.query.physical.identity import COMPLEMENT
from wormdb.query.physical.keys import intersected
from wormdb.query.physical.question import Candidate
from wormdb.query.physical.single import covering
from wormdb.query.plan import Empty, IndexScan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.bql.sorting import SortField
    from wormdb.query.physical.compound import Fixed
    from wormdb.query.physical.question import Question, Way
    from wormdb.query.source import IndexFacts

__all__ = ["propose"]


@dataclass(slots=True)
class _Walk:
    """What was found on the way through the fields of an index."""

    left: list[SortField]
    """Sort fields that are still to come."""
    prefix: list[Fixed] = field(default_factory=list)
    """Fields fixed before the first sort field."""
    leading: Fixed | None = None
    """What narrows the first sort field."""
    used: list[Fixed] = field(default_factory=list)
    """Everything whose keys all entries of the answer are in."""
    has_begun: bool = False
    has_arrays: bool = False
    """Whether a sort field may have them."""
    is_plain: bool = True
    """Whether the key of an entry, behind the prefix, is the sort key."""


def propose(question: Question, names: Way = ()) -> Iterator[Candidate]:
    """A candidate for each index that has the order, or only for the one named."""
    sort = _directed(question)
    if sort is None:
        return
    for facts in question.facts.indexes:
        if names and names != (facts.index.name,):
            continue
        walk = _walk(facts, question, sort)
        if walk is not None and _has_every_row(facts, walk):
            yield _candidate(question, facts, walk)


def _directed(question: Question) -> list[SortField] | None:
    """The fields of the sort without the id; None if the id goes against the first field."""
    fields = list(question.sort.fields)
    if fields and fields[-1].path == ("_id",):
        last = fields.pop()
        if last.descending is not question.is_reverse:
            return None
    return fields


def _walk(facts: IndexFacts, question: Question, sort: Sequence[SortField]) -> _Walk | None:
    walk = _Walk(list(sort))
    for place, path in enumerate(facts.index.paths):
        groups = usable_groups(facts, place, question.conjunction)
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


def _fixing(groups: Sequence[Fixed], walk: _Walk) -> Fixed | None:
    """A condition on a field with arrays that fixes one entry of each document: one field in front may have that."""
    if walk.has_begun or any(each.has_arrays for each in walk.prefix):
        return None
    return next((group for group in groups if group.has_arrays and group.keys.point is not None), None)


def _take_fixed(walk: _Walk, group: Fixed | None) -> bool:
    if group is None:
        return False
    if walk.has_begun:
        walk.is_plain = False
    else:
        walk.prefix.append(group)
    walk.used.append(group)
    return True


def _has_every_row(facts: IndexFacts, walk: _Walk) -> bool:
    """Whether all entries of each document that matters are there, and none of them lies out of the range."""
    if walk.has_arrays and any(each.has_arrays for each in walk.prefix):
        return False
    if not facts.index.sparse:
        return True
    known = [each for each in walk.used if each in walk.prefix or each is walk.leading]
    return any(not each.keys.takes_nothing for each in known)


def _candidate(question: Question, facts: IndexFacts, walk: _Walk) -> Candidate:
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
        return covering(question, f"index {name} gives the order and" if walk.has_begun else f"index {name}", covered)

    return Candidate(("ordered", name), "index_lookup", what, reason, root)


def _behind_page(question: Question, walk: _Walk, prefix: bytes, spans: tuple[Range, ...]) -> tuple[Range, ...]:
    """Only what may come after the page before, if entries are sorted by the very bytes of sort keys."""
    after = question.request.after
    if after is None or not walk.is_plain:
        return spans
    rest = Range(high=prefix + after.translate(COMPLEMENT)) if question.is_reverse else Range(prefix + after)
    return intersected(spans, (rest,))
