"""The nearest documents: which of those that match are scored, and by what."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from wormdb.bql.projection import parse_projection
from wormdb.errors import InvalidRequestError
from wormdb.query.plan import Node, Part, Rank
from wormdb.query.request import BY_ID, QueryRequest

if TYPE_CHECKING:
    from wormdb.bql.nearest import Near
    from wormdb.query.sources.source import Facts

__all__ = ["matching_request", "rank", "resolve", "why_exact"]


def resolve(near: Near, facts: Facts) -> Near:
    """What is asked for, by the distance of the index if none was given. No requests.

    Raises InvalidRequestError if no index serves it and an exact answer was not asked for, and for a vector of another
    length than the index has.
    """
    what = f"near {near.field}"
    found = facts.find_vectors(near.path)
    if found is None:
        if not near.is_exact:
            reason = f"no vector index on {near.field} is ready"
            raise InvalidRequestError(what, reason=reason, fix="ask with exact=True, which scores every match")
        return near.by(near.distance or "cosine")
    if len(near.vector) != found.dimensions:
        raise InvalidRequestError(
            what,
            reason=f"index {found.name} has {found.dimensions} dimensions, the vector {len(near.vector)}",
            fix="make the vector as those of the documents were made",
        )
    if near.distance not in {None, found.distance} and not near.is_exact:
        raise InvalidRequestError(
            what,
            reason=f"index {found.name} is by {found.distance}, not by {near.distance}",
            fix="leave out distance, or ask with exact=True",
        )
    return near.by(near.distance or found.distance)


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


def rank(request: QueryRequest, near: Near, matching: Node) -> Node:
    """The plan that ranks what another finds. No requests."""
    root: Node = Rank(matching, near)
    return root if request.limit is None and not request.offset else Part(root, request.offset, request.limit)


def why_exact(reason: str) -> str:
    """What an exact plan does, and how the matches are found. No requests."""
    return f"exact, every match is scored; {reason}"
