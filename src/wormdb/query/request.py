"""What is asked: a filter, an order, a part of the rows, and what is wanted of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from wormdb.bql.sorting import SortSpec
from wormdb.bql.tree import EVERYTHING, Filter

if TYPE_CHECKING:
    from wormdb.bql.nearest import Near
    from wormdb.bql.projection import Projection
    from wormdb.bql.search.search import SearchQuery

__all__ = ["BY_ID", "STRATEGIES", "PlanStrategy", "QueryRequest", "Strategy"]

Strategy: TypeAlias = Literal["index_lookup", "manifest_scan", "manifest_fetch", "full_scan"]
"""How a query is answered, by the names that users see."""

PlanStrategy: TypeAlias = Strategy | Literal["nearest"]
"""The same, and what only the planner takes: lists of an index of vectors."""

BY_ID: Final = SortSpec()

STRATEGIES: Final[tuple[Strategy, ...]] = get_args(Strategy)


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """One query, parsed and checked. A value without a place: any source can answer it."""

    filter: Filter = EVERYTHING
    sort: SortSpec = BY_ID
    limit: int | None = None
    offset: int = 0
    projection: Projection | None = None
    """None for whole documents."""
    after: bytes | None = None
    """Only rows whose sort key (`wormdb.bql.sorting.sort_key`) comes after this one: the last of the page before."""
    strategy: Strategy | None = None
    """The only strategy that may be used."""
    rows_max: int | None = None
    """The most rows that may be read; more raise LimitExceededError."""
    deadline: float | None = None
    """The deadline on the monotonic clock, in seconds; after it the query raises UnavailableError."""
    is_raw: bool = False
    """Rows are wanted as they are stored, not decoded; only of whole documents."""
    first: int | None = None
    """How many rows are taken first, by a caller that may stop then, or go on; None if it takes all of them."""
    near: Near | None = None
    """Of the rows that match only those with the nearest vectors, the nearest first; then there is no other order."""
    search: SearchQuery | None = None
    """Of the rows that match only those that a text search finds, the best first unless there is another order."""
    is_count: bool = False
    """Only the number of rows is wanted, not the rows."""

    @property
    def is_ranked(self) -> bool:
        """Whether rows have scores."""
        return self.near is not None or self.search is not None
