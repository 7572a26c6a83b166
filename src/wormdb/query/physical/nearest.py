"""The nearest documents: which of those that match are scored, and by what."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, floor
from typing import TYPE_CHECKING, Final

from wormdb.bql.projection import parse_projection
from wormdb.bql.tree import Filter, MatchAll
from wormdb.engine.lists.probes import RECALL, count_probes, count_ranges, expect_recall
from wormdb.errors import InvalidRequestError
from wormdb.query.plan import Fetch, NearestScan, Node, Part, Rank, Residual
from wormdb.query.request import BY_ID, PlanStrategy, QueryRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from wormdb.bql.nearest import Near
    from wormdb.query.physical.question import Way
    from wormdb.query.sources.source import Facts, VectorFacts

__all__ = [
    "LISTS",
    "NearestWay",
    "find_lists",
    "find_scan",
    "ids_request",
    "lists_again",
    "matching_request",
    "propose_lists",
    "rank",
    "resolve",
    "shape_of",
    "why_exact",
]

MORE_LISTS_MAX: Final = 4.0
"""With a filter as many times as many lists are read as it finds fewer documents, but not more than this …"""
FEW_SHARE: Final = 2
"""… unless it finds at most this many times the rows that are read without it: then all of them are."""
ENOUGH_LEAST: Final = 2
"""Candidates beside the wanted rows that are scored by their documents at least …"""
ENOUGH_SHARE: Final = 5
"""… one for each of this many wanted rows: codes put few of the best behind others …"""
LEAST_SHARE: Final = 1e-9
LISTS: Final = "lists"
"""The first name of a way by lists of an index."""
_ONLY: Final = (LISTS, "only matches")
_TESTED: Final = (LISTS, "candidates tested")


@dataclass(frozen=True, slots=True)
class NearestWay:
    """One way to find the nearest documents."""

    strategy: PlanStrategy
    what: str
    reason: str
    root: Node
    names: Way
    """What names it among the ways of its shape: LISTS and how they are used, or how all matches are found."""
    tree: Filter
    """The simplified filter."""


def resolve(near: Near, facts: Facts) -> Near:
    """What is asked for, by the distance of the index if none was given, ready or not. No requests.

    Raises InvalidRequestError if no index serves it and an exact answer was not asked for, if indexes of the field are
    by several distances and none was given, and for a vector of another length than the index has.
    """
    what = f"near {near.field}"
    distances = list({each.distance: None for each in facts.vectors if each.path == near.path})
    if near.distance is None and len(distances) > 1:
        raise InvalidRequestError(
            what,
            reason=f"there are indexes by {' and by '.join(distances)}",
            fix=f'say which is meant, such as distance="{distances[0]}"',
        )
    resolved = near.by(near.distance or (distances[0] if distances else "cosine"))
    found = facts.find_vectors(near.path, resolved.distance) or facts.find_vectors(near.path)
    if found is None and not near.is_exact:
        # The root that is known may be from before the index was ready: its documents answer.
        alike = [each for each in facts.vectors if each.path == near.path and each.distance == resolved.distance]
        found = next((each for each in alike if each.is_built), None)
        resolved = resolved if found is None else replace(resolved, is_exact=True)
    if found is None:
        if near.is_exact:
            return resolved
        reason = f"no vector index on {near.field} is ready"
        fix = f'create_vector_index("{near.field}", dimensions={len(near.vector)}), or ask with exact=True'
        if distances:
            fix = "wait for its build, which forward() and nodes go on with, or ask with exact=True"
        raise InvalidRequestError(what, reason=reason, fix=fix)
    if len(near.vector) != found.dimensions and not near.is_past:
        raise InvalidRequestError(
            what,
            reason=f"index {found.name} has {found.dimensions} dimensions, the vector {len(near.vector)}",
            fix="make the vector as those of the documents were made",
        )
    if found.distance != resolved.distance and not near.is_exact:
        raise InvalidRequestError(
            what,
            reason=f"index {found.name} is by {found.distance}, not by {resolved.distance}",
            fix="leave out distance, or ask with exact=True",
        )
    return resolved


def matching_request(request: QueryRequest, near: Near) -> QueryRequest:
    """What finds all documents that may be ranked, with their vectors. No requests."""
    return replace(
        request,
        near=None,
        sort=BY_ID,
        limit=None,
        offset=0,
        projection=parse_projection([near.field]),
        is_count=False,
        is_raw=False,
    )


def ids_request(matching: QueryRequest) -> QueryRequest:
    """What finds the ids alone of all documents that match. No requests."""
    return replace(matching, projection=parse_projection(["_id"]))


def shape_of(near: Near) -> Hashable:
    """What a choice of a way depends on, of what is asked for: not the vector. No requests."""
    return near.path, len(near.vector), near.k, near.distance, near.recall, near.is_exact, near.min_score is None


def propose_lists(  # noqa: PLR0913 - what is known of the filter, and which way is asked for
    request: QueryRequest,
    near: Near,
    facts: Facts,
    tree: Filter,
    find_ids: Callable[[], Node],
    share: float,
    *,
    names: Way = (),
) -> Iterator[NearestWay]:
    """The ways by lists of the index: alone, with the filter on candidates, or only of ids that match. No requests.

    `find_ids` gives what finds the ids that match, `share` is their share of all documents. With `names` only that way.
    """
    found = facts.find_vectors(near.path, near.distance)
    assert found is not None, "without an index only an exact answer is possible"
    probes: int | None = count_probes(found.lists, near.recall, found.calibration)
    measured = None if found.is_stale else expect_recall(probes, found.calibration)
    recall = measured or near.recall or RECALL
    enough = near.k + max(near.k // ENOUGH_SHARE, ENOUGH_LEAST)
    if isinstance(tree, MatchAll):
        root = Rank(Fetch(NearestScan(found.name, near, probes)), near, enough)
        reason = f"index {found.name}, {_lists(probes, found)}, recall about {_told(recall)}"
        yield NearestWay("nearest", f"lists of {found.name}", reason, rank(request, root), (LISTS,), tree)
        return
    if probes is not None:
        # Fewer rows of a list match, so more lists are needed, also where those that match lie elsewhere.
        is_few = share * facts.rows <= FEW_SHARE * found.entries * probes / found.lists
        probes = ceil(probes * min(1.0 / max(share, LEAST_SHARE), MORE_LISTS_MAX))
        probes = None if is_few or probes >= found.lists else probes
    reason = f"index {found.name}, {_lists(probes, found)}"
    if names in {(), _ONLY}:
        only = Rank(Fetch(NearestScan(found.name, near, probes, find_ids())), near, enough)
        what = f"lists of {found.name}, only matches"
        yield NearestWay("nearest", what, f"{reason}, only matches", rank(request, only), _ONLY, tree)
    if names in {(), _TESTED}:
        tested = Rank(Residual(Fetch(NearestScan(found.name, near, probes)), tree), near, enough)
        what = f"lists of {found.name}, candidates tested"
        yield NearestWay("nearest", what, f"{reason}, candidates tested", rank(request, tested), _TESTED, tree)


def find_lists(root: Node) -> Rank | None:
    """What ranks the candidates of an index, in a way without a filter. No requests."""
    ranked = root.child if isinstance(root, Part) else root
    return ranked if isinstance(ranked, Rank) and find_scan(ranked) is not None else None


def find_scan(ranked: Rank) -> NearestScan | None:
    """The lists of which all candidates are ranked; None if something else decides about them. No requests."""
    scan = ranked.child.child if type(ranked.child) is Fetch else None
    return scan if type(scan) is NearestScan and scan.child is None else None


def lists_again(ranked: Rank, near: Near) -> Rank:
    """What `find_lists` found, for another vector of the same shape. No requests."""
    scan = find_scan(ranked)
    assert scan is not None, "it was found so"
    return Rank(Fetch(NearestScan(scan.index, near, scan.probes)), near, ranked.enough)


def _told(recall: float) -> str:
    """Two digits, of little that is missed three; never more than it is."""
    parts = 1_000 if recall > 0.99 else 100
    return f"{floor(recall * parts + 1e-6) / parts:g}"


def _lists(probes: int | None, found: VectorFacts) -> str:
    if probes is None:
        return "all lists"
    return f"{'' if probes <= count_ranges(probes) else 'about '}{probes:,} of {found.lists:,} lists"


def rank(request: QueryRequest, root: Node) -> Node:
    """The rows between offset and limit of what is ranked. No requests."""
    return root if request.limit is None and not request.offset else Part(root, request.offset, request.limit)


def why_exact(reason: str) -> str:
    """What an exact plan does, and how the matches are found. No requests."""
    return f"exact, every match is scored; {reason}"
