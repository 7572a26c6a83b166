"""The nearest vectors and text searches by `format("worm")`: ranked by the driver, read by tasks.

    spark.read.format("worm").option("near", '{"embedding": {"vector": [0.1, 0.2], "k": 10}}')
    spark.read.format("worm").option("search", "red shoes").option("limit", "100")

The driver finds the ids and scores, which are few, in the pinned state; tasks read the documents, as those of any scan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from wormdb.bql.nearest import parse_near
from wormdb.bql.projection import parse_projection
from wormdb.bql.search.search import parse_written_search
from wormdb.bql.tree import EVERYTHING
from wormdb.errors import InvalidRequestError
from wormdb.format import json
from wormdb.jobs.scan import written_filter
from wormdb.jobs.shares import TASK_IDS, Share
from wormdb.query.execute.answer import run
from wormdb.query.request import QueryRequest
from wormdb.query.sources.engine import EngineSource
from wormdb.query.sources.past import PastSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wormdb.jobs.state import PinnedState

__all__ = ["RANKING_OPTIONS", "RankedShare", "rank_shares", "read_ranking"]

RANKING_OPTIONS: Final = frozenset({"near", "search", "limit"})
"""What a reader takes that gives only the best rows."""


@dataclass(frozen=True, slots=True)
class RankedShare:
    """What one task reads: some ids, the best first, and their scores."""

    share: Share
    scores: tuple[float, ...]


def read_ranking(options: Mapping[str, str]) -> QueryRequest | None:
    """What `near`, `search` and `limit` ask for, without a filter; None if neither of the first two is there.

    Raises InvalidRequestError. No requests.
    """
    near, search, limit = (options.get(name) for name in ("near", "search", "limit"))
    if near is None and search is None:
        if limit is not None:
            raise InvalidRequestError(
                f"option limit={limit}", reason="it goes with near or search", fix="use DataFrame.limit"
            )
        return None
    if limit is not None and not (limit.isdecimal() and int(limit)):
        raise InvalidRequestError(f"option limit={limit}", reason="it must be a number", fix="give 1 or more")
    return QueryRequest(
        limit=None if limit is None else int(limit),
        projection=parse_projection(["_id"]),
        near=None if near is None else parse_near(_parsed("near", near)),
        search=None if search is None else parse_written_search(_parsed("search", search)),
    )


def _parsed(name: str, text: str) -> Any:
    """JSON if it begins with a brace; a search may be text."""
    if not text.lstrip().startswith("{"):
        if name == "search":
            return text
        raise InvalidRequestError(
            f"option {name}={text:.80}",
            reason="it must be a JSON object",
            fix="""write '{"embedding": {"vector": [0.1, 0.2], "k": 10}}'""",
        )
    return json.parse(text, operators=True)


def rank_shares(state: PinnedState, request: QueryRequest, filter_text: str | None) -> list[RankedShare]:
    """The ids that are found in a state, the best first, in shares. Costs what the plan of the query costs.

    Raises InvalidRequestError, also for an index that is not ready, CorruptionError, SnapshotTooOldError.
    """
    tree = EVERYTHING if filter_text is None else written_filter(state.where, filter_text)
    asked = replace(request, filter=tree)
    if state.as_of is not None and asked.near is not None:
        # Indexes are of the present: of another moment every match is scored.
        asked = replace(asked, near=replace(asked.near, is_exact=True))
    found = list(_hits(state, asked))
    parts = [found[start : start + TASK_IDS] for start in range(0, len(found), TASK_IDS)] or [[]]
    return [
        RankedShare(Share(keys=tuple(key for key, _ in part), rows=len(part)), tuple(score for _, score in part))
        for part in parts
    ]


def _hits(state: PinnedState, request: QueryRequest) -> Iterator[tuple[bytes, float]]:
    view = state.view()
    if view is not None:
        source: EngineSource | PastSource = EngineSource(view, state.ledger)
    else:
        assert state.as_of is not None
        source = PastSource(state.newest(), state.ledger.shown_history(state.newest()), state.as_of)
    for hit in run(request, source):
        assert hit.score is not None, "rows of a ranked answer have scores"
        yield hit.key, hit.score
