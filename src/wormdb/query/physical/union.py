"""$or: the rows of its branches, if each of them can be found by ids or by an index."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from wormdb.bql.tree import MatchNone, Or
from wormdb.query.physical.compound import accesses
from wormdb.query.physical.finish import finish
from wormdb.query.physical.identity import id_lookup
from wormdb.query.physical.question import Candidate
from wormdb.query.physical.single import covering
from wormdb.query.physical.terms import Conjunction
from wormdb.query.plan import Empty, IndexScan, Union

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.bql.tree import Filter
    from wormdb.query.physical.compound import Access
    from wormdb.query.physical.question import Question, Way
    from wormdb.query.plan import IdLookup, Intersection
    from wormdb.query.source import Facts

    Ids = IndexScan | Union | Intersection | IdLookup

__all__ = ["branches_of", "loose", "propose"]

_LOOSE = 1_000_000_000


def propose(question: Question, names: Way = ()) -> Iterator[Candidate]:
    """A candidate for each $or of the conjunction, or only for the one at a place."""
    for place, each in enumerate(question.conjunction.filters):
        if not isinstance(each, Or) or (names and names != (str(place),)):
            continue
        found = branches_of(each, question.facts)
        if found is None:
            continue
        union, is_covered = found
        covered = frozenset([place] if is_covered else [])
        root = finish(question, union, covered) if union.children else Empty()
        reason = partial(covering, question, f"union of {len(union.children)}", covered)
        yield Candidate(("union", str(place)), "index_lookup", "union of indexes", reason, root)


def branches_of(tree: Or, facts: Facts) -> tuple[Union, bool] | None:
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


def loose(access: Access) -> float:
    """About how many entries an access reads; for choosing among indexes."""
    statistics = access.facts.statistics
    if statistics is None:
        return _LOOSE / (1 + len(access.used))
    return sum(max(statistics.estimate(span), statistics.entries_per_value) for span in access.spans)


def _branch(branch: Filter, facts: Facts) -> tuple[Ids | None, bool] | None:
    """The best way to the rows of one branch; None for its ids if it has no rows."""
    conjunction = Conjunction.of(branch)
    every = frozenset(range(len(conjunction.filters)))
    by_id = id_lookup(conjunction)
    if by_id is not None:
        return by_id[0], by_id[1] == every
    found = [access for each in facts.indexes for access in accesses(each, conjunction)]
    if found:
        best = min(found, key=loose)
        return IndexScan(best.name, best.spans) if best.spans else None, best.covered == every
    for each in conjunction.filters:
        inner = branches_of(each, facts) if isinstance(each, Or) else None
        if inner is not None:
            return inner[0], inner[1] and len(every) == 1
    return None
