"""From a request to a plan: simplify the filter, propose ways, make them cheaper, take the cheapest.

    request ─ simplify (logical) ─ propose (physical) ─ optimize (optimizer) ─ estimate (cost) ─▶ plan

A plan cache skips the choice: for a shape that was planned before only the chosen way is built, with the values of
this request.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.bql.projection import fields_needed
from wormdb.bql.tree import EVERYTHING, Filter, MatchAll, MatchNone, shape_text
from wormdb.errors import InvalidRequestError
from wormdb.query.logical.rules import simplify
from wormdb.query.optimizer.rules import optimize
from wormdb.query.physical import indexes, nearest, scans, searches
from wormdb.query.physical.nearest import NearestWay
from wormdb.query.physical.question import Candidate, Question, Way, filter_paths, join_names
from wormdb.query.plan import (
    Cost,
    Empty,
    Fetch,
    Fused,
    IndexScan,
    Intersection,
    Order,
    Part,
    QueryPlan,
    Rank,
    RejectedPlan,
    Residual,
    Scan,
    Union,
)
from wormdb.query.planner.cache import PlanCache, PlanChoice
from wormdb.query.planner.cost import Estimate, estimate, speed_of
from wormdb.query.planner.template import make_template
from wormdb.query.request import STRATEGIES, QueryRequest, Strategy
from wormdb.query.selectivity import Selectivity

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterator, Sequence

    from wormdb.bql.nearest import Near
    from wormdb.bql.search.rank import Search
    from wormdb.bql.search.search import SearchQuery
    from wormdb.format.path import Path
    from wormdb.query.plan import Node
    from wormdb.query.sources.source import Facts

__all__ = ["are_alike", "candidates", "make_plan", "shape_key"]

_WAYS: Final[dict[str, Callable[[Question, Way], Iterator[Candidate]]]] = {
    "identity": indexes.propose_ids,
    "counting": indexes.propose_count,
    "ordered": indexes.propose_ordered,
    "single": indexes.propose_single,
    "intersection": indexes.propose_intersection,
    "union": indexes.propose_union,
    "columns": scans.propose_columns,
    "full": scans.propose_documents,
}
"""By the first name of a way; of equally cheap ones the first is taken."""

_ENTRIES_GROWTH: Final = 4
_ENTRIES_FEW: Final = 64
_REJECTED_MAX: Final = 8
_CONTRADICTION: Final = "the filter matches nothing"


@dataclass(frozen=True, slots=True)
class _RatedCandidate:
    candidate: Candidate
    root: Node
    estimate: Estimate
    score: float


def make_plan(request: QueryRequest, facts: Facts, cache: PlanCache | None = None) -> QueryPlan:
    """The cheapest plan for a request by what is known. No requests.

    Raises InvalidRequestError if the strategy that was asked for cannot answer it.
    """
    if request.near is not None and request.search is not None:
        return _fused_plan(request, request.near, request.search, facts, cache)
    if request.near is not None:
        return _nearest_plan(request, request.near, facts, cache)
    if request.search is not None:
        return _search_plan(request, request.search, facts, cache)
    key = None if cache is None else shape_key(request)
    if cache is not None and (choice := cache.find(key, facts)) is not None:
        plan = _planned_again(request, facts, choice)
        if plan is not None:
            return plan
    question = Question(request, facts, _simplified(request.filter, facts))
    if isinstance(question.tree, MatchNone):
        return _empty(request)
    best, others = _rate(question, is_due=cache is not None and cache.is_due(key))
    reason, rejected = best.candidate.reason(), _rejected(question, best, others)
    if cache is not None:
        is_simple = question.tree is request.filter
        entries = _entries(best.root, facts)
        cache.keep(
            key,
            PlanChoice(
                best.candidate.way,
                facts.version,
                facts.index_definitions,
                is_simple=is_simple,
                is_plain=optimize(best.candidate.root, Selectivity(facts), with_sample=False) is best.candidate.root,
                entries=entries,
                reason=reason,
                cost=best.estimate.cost,
                rejected=rejected,
                level=facts.kept.level,
                template=make_template(best.root, request, facts) if is_simple else None,
                patience=_patience(question, best, others),
            ),
        )
    return QueryPlan(best.root, best.candidate.strategy, reason, best.estimate.cost, rejected)


def candidates(request: QueryRequest, facts: Facts, *, without: Collection[str] = ()) -> list[QueryPlan]:
    """All plans that would answer a request, the cheapest first. No requests.

    `without` names rules of the optimizer to leave out.
    """
    if request.near is not None and request.search is not None:
        return [_fused_plan(request, request.near, request.search, facts)]
    if request.near is not None:
        return _nearest_plans(
            request, _nearest_ways(request, nearest.resolve(request.near, facts), facts, without=without), facts
        )
    if request.search is not None:
        return _search_plans(request, searches.resolve_search(request.search, facts), facts)
    question = Question(request, facts, _simplified(request.filter, facts))
    if isinstance(question.tree, MatchNone):
        return [_empty(request)]
    return [
        QueryPlan(rated.root, rated.candidate.strategy, rated.candidate.reason(), rated.estimate.cost)
        for rated in _rated(question, without)
        if request.strategy in {None, rated.candidate.strategy}
    ]


def _simplified(tree: Filter, facts: Facts) -> Filter:
    plain = {
        path[:depth]
        for each in facts.indexes
        for path, has_arrays in zip(each.index.paths, each.may_have_arrays, strict=True)
        if not has_arrays
        for depth in range(1, len(path) + 1)
    }

    def may_have_arrays(path: Path) -> bool:
        return path not in plain

    return simplify(tree, arrays=may_have_arrays)


# --- the choice ---


def _rated(question: Question, without: Collection[str] = (), *, has_nodes: bool = False) -> list[_RatedCandidate]:
    selectivity, speed = Selectivity(question.facts), speed_of(question.facts)
    found = []
    for propose in _WAYS.values():
        for candidate in propose(question, ()):
            root = optimize(candidate.root, selectivity, without=without)
            expected = estimate(root, question.facts, selectivity, question.request.first, has_nodes=has_nodes)
            found.append(_RatedCandidate(candidate, root, expected, expected.score(speed)))
    return sorted(found, key=lambda rated: rated.score)


def _rate(question: Question, *, is_due: bool) -> tuple[_RatedCandidate, list[_RatedCandidate]]:
    """The best that may be used, and all others; `is_due` if the nodes of an index are to be read for later requests.

    What is kept makes a plan cheaper, so that the cheapest for each request may stay the same for ever: columns that
    were read once are scanned again and again beside an index that was never read. See `_patience`.
    """
    rated = _rated(question, has_nodes=is_due)
    wanted = question.request.strategy
    allowed = [each for each in rated if wanted in {None, each.candidate.strategy}]
    if not allowed:
        assert wanted is not None, "a full scan is always possible"
        reason, fix = _unavailable(question, wanted)
        raise InvalidRequestError(f"Strategy {wanted!r} not available", reason=reason, fix=fix)
    best = allowed[0]
    return best, [each for each in rated if each is not best]


def _patience(question: Question, best: _RatedCandidate, others: Sequence[_RatedCandidate]) -> int:
    """After how many requests of this shape what they took too much is what it takes to read an index; 0 for never.

    As with rented skis: buying them when the rents have reached their price costs twice the least at most.
    """
    if question.request.strategy is not None or best.candidate.strategy == "index_lookup":
        return 0
    selectivity, speed = Selectivity(question.facts), speed_of(question.facts)
    found = []
    for each in others:
        if each.candidate.strategy != "index_lookup":
            continue
        later = estimate(each.root, question.facts, selectivity, question.request.first, has_nodes=True).score(speed)
        if later < best.score:
            found.append(ceil((each.score - later) / (best.score - later)))
    return min(found, default=0)


def _rejected(question: Question, best: _RatedCandidate, others: Sequence[_RatedCandidate]) -> tuple[RejectedPlan, ...]:
    found = []
    for each in others[:_REJECTED_MAX]:
        reason = f"{each.score / max(best.score, 1.0):.1f} times the cost"
        if question.request.strategy not in {None, each.candidate.strategy}:
            reason = f"strategy {question.request.strategy} was asked for"
        found.append(RejectedPlan(each.candidate.strategy, each.candidate.what, each.estimate.cost, reason))
    possible = {best.candidate.strategy, *(each.candidate.strategy for each in others)}
    found += [
        RejectedPlan(strategy, strategy, None, _unavailable(question, strategy)[0])
        for strategy in STRATEGIES
        if strategy not in possible
    ]
    return tuple(found)


def _unavailable(question: Question, strategy: Strategy) -> tuple[str, str]:
    """Why a strategy cannot answer, and what to do about it."""
    if strategy == "index_lookup":
        has_indexes = bool(question.facts.indexes)
        fields = join_names(filter_paths(question.tree)) or ("a field" if has_indexes else "a field of the filter")
        return "no index serves the filter" if has_indexes else "no index", f"create an index on {fields}"
    reason = scans.why_no_scan(question) if strategy == "manifest_scan" else scans.why_no_fetch(question)
    if reason is not None and reason.startswith("documents"):
        return reason, "select only fields of the manifest, or use manifest_fetch"
    return reason or "columns do not narrow", "add these fields to the manifest, or leave the strategy to the planner"


def _empty(request: QueryRequest) -> QueryPlan:
    return QueryPlan(Empty(), request.strategy or "index_lookup", _CONTRADICTION, Cost())


# --- the nearest, and texts ---


def _nearest_plan(request: QueryRequest, near: Near, facts: Facts, cache: PlanCache | None) -> QueryPlan:
    """The cheapest plan for the nearest documents. No requests. Raises InvalidRequestError."""
    resolved = nearest.resolve(near, facts)
    if cache is None:
        return _nearest_plans(request, _nearest_ways(request, resolved, facts), facts)[0]
    # Of all documents, what is shown of the nearest does not change how they are found.
    is_plain = request.filter is EVERYTHING and request.strategy is None and not request.is_count
    shape = (request.limit is None, bool(request.offset)) if is_plain else shape_key(request)
    key = (shape, nearest.shape_of(resolved))
    if (choice := cache.find_fresh(key, facts) if is_plain else cache.find(key, facts)) is not None:
        again = _nearest_again(request, resolved, facts, choice, cache)
        if again is not None:
            return again
    ways = _nearest_ways(request, resolved, facts)
    plan = _nearest_plans(request, ways, facts)[0]
    if ways:
        way = ways[0][1]
        is_listed = way.names[0] == nearest.LISTS
        entries = Selectivity(facts).share(way.tree) * facts.rows if is_listed else _entries(plan.root, facts)
        choice = _choice(way.names, facts, plan, entries, is_simple=way.tree is request.filter)
        lists = nearest.find_lists(way.root) if is_plain and is_listed else None
        cache.keep(key, replace(choice, lists=lists))
    return plan


def _nearest_again(
    request: QueryRequest, near: Near, facts: Facts, choice: PlanChoice, cache: PlanCache
) -> QueryPlan | None:
    """The chosen way to the nearest with what this request asks for; None if it has to be chosen anew."""
    if choice.lists is not None:
        root = nearest.rank(request, nearest.lists_again(choice.lists, near))
        return QueryPlan(root, "nearest", choice.reason, choice.cost, choice.rejected, is_cached=True)
    if choice.way[0] != nearest.LISTS:
        found = _planned_again(nearest.matching_request(request, near), facts, choice)
        if found is None:
            return None
        return msgspec.structs.replace(found, root=nearest.rank(request, Rank(found.root, near)))
    tree = request.filter if choice.is_simple else _simplified(request.filter, facts)
    share = 1.0
    if isinstance(tree, MatchNone):
        return None
    if not isinstance(tree, MatchAll):
        share = Selectivity(facts).share(tree)
        fewest, most = sorted((share * facts.rows, choice.entries))
        if most > _ENTRIES_GROWTH * fewest + _ENTRIES_FEW:
            return None

    def find_ids() -> Node:
        return make_plan(nearest.ids_request(nearest.matching_request(request, near)), facts, cache).root

    way = next(nearest.propose_lists(request, near, facts, tree, find_ids, share, names=choice.way), None)
    if way is None:
        return None
    return QueryPlan(way.root, way.strategy, way.reason, choice.cost, choice.rejected, is_cached=True)


def _choice(way: Way, facts: Facts, plan: QueryPlan, entries: float, *, is_simple: bool) -> PlanChoice:
    """What is kept of the plan of a ranking."""
    return PlanChoice(
        way,
        facts.version,
        facts.index_definitions,
        is_simple=is_simple,
        is_plain=False,
        entries=entries,
        reason=plan.reason,
        cost=plan.cost,
        rejected=plan.rejected,
        level=facts.kept.level,
    )


def _nearest_ways(
    request: QueryRequest, near: Near, facts: Facts, *, without: Collection[str] = ()
) -> list[tuple[Estimate, NearestWay]]:
    """The ways to the nearest documents, the cheapest first; none if the filter matches nothing. No requests.

    `near` was resolved. Raises InvalidRequestError.
    """
    matching = nearest.matching_request(request, near)
    question = Question(matching, facts, _simplified(matching.filter, facts))
    if isinstance(question.tree, MatchNone):
        return []
    tree, selectivity, speed = question.tree, Selectivity(facts), speed_of(facts)
    if request.strategy is not None:
        _rate(question, is_due=False)  # raises if it is impossible
    ways = [
        NearestWay(found.strategy, found.what, nearest.why_exact(found.reason()), root, found.way, tree)
        for rated in _rated(question, without)
        for found in (rated.candidate,)
        # Without a filter, columns narrow nothing: all documents would be fetched one by one.
        if request.strategy == found.strategy
        or (request.strategy is None and (question.conjunction.filters or found.way != ("columns", "fetch")))
        for root in (nearest.rank(request, Rank(rated.root, near)),)
    ]
    if not near.is_exact and request.strategy is None:
        share = 1.0 if isinstance(tree, MatchAll) else selectivity.share(tree)

        def find_ids() -> Node:
            return _rated(Question(nearest.ids_request(matching), facts, tree), without)[0].root

        ways += nearest.propose_lists(request, near, facts, tree, find_ids, share)
    return sorted(
        ((estimate(way.root, facts, selectivity), way) for way in ways), key=lambda pair: pair[0].score(speed)
    )


def _nearest_plans(request: QueryRequest, ways: Sequence[tuple[Estimate, NearestWay]], facts: Facts) -> list[QueryPlan]:
    if not ways:
        return [_empty(request)]
    speed = speed_of(facts)
    least = max(ways[0][0].score(speed), 1.0)
    rejected = tuple(
        RejectedPlan(way.strategy, way.what, each.cost, f"{each.score(speed) / least:.1f} times the cost")
        for each, way in ways[1 : 1 + _REJECTED_MAX]
    )
    return [QueryPlan(way.root, way.strategy, way.reason, each.cost, rejected) for each, way in ways]


def _search_plan(request: QueryRequest, query: SearchQuery, facts: Facts, cache: PlanCache | None) -> QueryPlan:
    """The cheapest plan for a text search. No requests. Raises InvalidRequestError."""
    search = searches.resolve_search(query, facts)
    if cache is None or search.tree is None:
        return _search_plans(request, search, facts)[0]
    key = searches.shape_of(request, search, facts)
    if (choice := cache.find_fresh(key, facts)) is not None:
        tree = request.filter if choice.is_simple else _simplified(request.filter, facts)
        if not isinstance(tree, MatchNone):
            strategy: Strategy = "index_lookup" if choice.way[1:] else "full_scan"
            root = searches.arrange(request, search, tree, choice.way[1] if choice.way[1:] else None)
            return QueryPlan(root, strategy, choice.reason, choice.cost, choice.rejected, is_cached=True)
    plan = _search_plans(request, search, facts)[0]
    scan = searches.find_scan(plan.root)
    if scan is not None:
        way = ("search",) if scan.index is None else ("search", scan.index)
        cache.keep(key, _choice(way, facts, plan, 0.0, is_simple=scan.filter is request.filter))
    return plan


def _search_plans(request: QueryRequest, search: Search, facts: Facts) -> list[QueryPlan]:
    """The plans for a text search, the cheapest first. No requests. Raises InvalidRequestError."""
    tree = _simplified(request.filter, facts)
    if isinstance(tree, MatchNone) or search.tree is None:
        return [_empty(request)]
    speed = speed_of(facts)
    rated: list[tuple[float, QueryPlan]] = []
    ways: list[tuple[Strategy, str | None, str]] = [("full_scan", None, searches.SCAN_REASON)]
    if searches.is_listed(search, facts):
        ways.append(("index_lookup", search.index, f"text index {search.index} has the words"))
    for strategy, index, reason in ways:
        root = searches.arrange(request, search, tree, index)
        expected = estimate(root, facts, Selectivity(facts))
        rated.append((expected.score(speed), QueryPlan(root, strategy, reason, expected.cost)))
    rated.sort(key=lambda each: each[0])
    allowed = [each for each in rated if request.strategy in {None, each[1].strategy}]
    if not allowed:
        raise InvalidRequestError(
            f"Strategy {request.strategy!r} not available",
            reason=f"of a text search {searches.SCAN_REASON}, or a text index has the words",
            fix="leave the strategy to the planner",
        )
    return [_with_rejected(plan, score, rated) for score, plan in allowed]


def _fused_plan(
    request: QueryRequest, near: Near, query: SearchQuery, facts: Facts, cache: PlanCache | None = None
) -> QueryPlan:
    """The plan for the nearest and a text search together: both as deep as the nearest go. Raises as both."""
    plain = replace(request, near=None, search=None, limit=None, offset=0, is_count=False)
    closest = _nearest_plan(replace(plain, near=near), near, facts, cache)
    searched = _search_plan(replace(plain, search=query, limit=near.k), query, facts, cache)
    root: Node = Fused(closest.root, searched.root, query.weight)
    if request.limit is not None or request.offset:
        root = Part(root, request.offset, request.limit)
    reason = f"nearest: {closest.reason}; search: {searched.reason}"
    is_cached = closest.is_cached and searched.is_cached
    cost, rejected = closest.cost + searched.cost, (*closest.rejected, *searched.rejected)
    return QueryPlan(root, closest.strategy, reason, cost, rejected, is_cached)


def _with_rejected(plan: QueryPlan, score: float, rated: Sequence[tuple[float, QueryPlan]]) -> QueryPlan:
    others = [
        RejectedPlan(other.strategy, other.reason, other.cost, f"{rate / max(score, 1.0):.1f} times the cost")
        for rate, other in rated
        if other is not plan
    ]
    return msgspec.structs.replace(plan, rejected=tuple(others))


# --- the same choice again ---


def shape_key(request: QueryRequest) -> Hashable:
    """What requests have in common that can be answered in the same way. No requests."""
    projection = request.projection
    needed = None if projection is None else fields_needed(projection)
    return (
        shape_text(request.filter),
        request.sort.fields,
        request.limit is None,
        request.first and request.first.bit_length(),
        bool(request.offset),
        request.after is None,
        needed if needed is None else frozenset(needed),
        projection is not None and bool(projection.arrays),
        request.strategy,
        request.is_count,
    )


def _planned_again(request: QueryRequest, facts: Facts, choice: PlanChoice) -> QueryPlan | None:
    """The chosen way with the values of this request; None if it is impossible or would read far more than then."""
    bound = None if choice.template is None else choice.template.bind(request, facts)
    if choice.template is not None and bound is not None:
        root, span = bound
        # What else an estimate of a single value has does not depend on the value.
        known = facts.find_index(choice.template.index)
        statistics = None if known is None else known.statistics
        if statistics is not None and statistics.estimate(span) > _ENTRIES_GROWTH * choice.entries + _ENTRIES_FEW:
            return None
        return QueryPlan(root, "index_lookup", choice.reason, choice.cost, choice.rejected, is_cached=True)
    tree = request.filter if choice.is_simple else _simplified(request.filter, facts)
    if isinstance(tree, MatchNone):
        return None
    kind, *names = choice.way
    candidate = next(_WAYS[kind](Question(request, facts, tree), tuple(names)), None)
    if candidate is None:
        return None
    root = candidate.root
    if not choice.is_plain:
        root = optimize(root, Selectivity(facts), with_sample=False)
    if _entries(root, facts) > _ENTRIES_GROWTH * choice.entries + _ENTRIES_FEW:
        return None
    return QueryPlan(root, candidate.strategy, choice.reason, choice.cost, choice.rejected, is_cached=True)


def are_alike(one: Node, other: Node) -> bool:
    """Whether two plans of one request go the same way, in whatever order they test conditions. No requests."""
    while isinstance(one, Fetch | Residual | Order | Part):
        if type(other) is not type(one):
            return False
        one, other = one.child, other.child
    if isinstance(one, Scan):
        return isinstance(other, Scan) and one.names == other.names
    return one == other


def _entries(root: Node, facts: Facts) -> float:
    """Entries of indexes that a plan reads at most, about."""
    scans = list(_index_scans(root))
    if not scans:
        return 0.0
    selectivity = Selectivity(facts)
    return sum(selectivity.entries(scan.index, scan.spans) for scan in scans)


def _index_scans(node: Node) -> Iterator[IndexScan]:
    while isinstance(node, Fetch | Residual | Order | Rank | Part):
        node = node.child
    if isinstance(node, IndexScan):
        yield node
    elif isinstance(node, Union | Intersection):
        for child in node.children:
            yield from _index_scans(child)
