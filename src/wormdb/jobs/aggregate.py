"""Aggregate: the functions of `Collection.aggregate` over a collection of any size.

Each piece of work adds up its rows, from columns alone; what it has is merged. Sums are exact until the end, so the
result is the same however the work was cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from wormdb.bql.aggregation import Aggregation, AggregationState, parse_aggregation
from wormdb.engine.blocks.portion import DOCUMENT
from wormdb.format import json
from wormdb.format.path import is_position
from wormdb.jobs.scan import JobScan
from wormdb.jobs.work import Output, ProgressListener, Runner
from wormdb.query.columns.tally import ColumnTally

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wormdb.api.options import WrittenFilter
    from wormdb.jobs.place import Where

__all__ = ["AggregateOptions", "aggregate"]


@dataclass(frozen=True, slots=True)
class AggregateOptions:
    """Which documents are looked at."""

    filter: WrittenFilter = None
    as_of: str | None = None
    tasks: int | None = None
    """How many pieces of work are wanted."""


def aggregate(
    where: Where,
    functions: Mapping[str, Any],
    options: AggregateOptions,
    runner: Runner,
    told: ProgressListener | None = None,
) -> dict[str, Any]:
    """What `Collection.aggregate(**functions)` gives. Costs a scan of the columns that it needs.

    Raises InvalidRequestError with all mistakes, LimitExceededError for too many groups or values, and what the first
    piece that failed raised.
    """
    aggregation = parse_aggregation(functions)
    given = {name: list(value) if isinstance(value, tuple) else value for name, value in functions.items()}
    scan = JobScan.of(where, options.filter, options.as_of)
    work = _Aggregate(scan, json.encode(given).decode())
    tally = AggregationState(aggregation)
    for state in runner.run("aggregate", work, scan.items(options.tasks), told):
        tally.take(state)
    return tally.result()


@dataclass(frozen=True, slots=True)
class _Aggregate:
    """Adds up one piece; a value that can be sent."""

    scan: JobScan
    functions: str

    def __call__(self, body: bytes, /) -> Output:
        """The state of a tally. Costs the scan of one piece."""
        aggregation = _read(self.functions)
        columns = ColumnTally(aggregation)
        rows = 0
        if _is_told(columns.paths):
            for portion in self.scan.portions(body, ["_id", *sorted(columns.paths - {"_id"})]):
                columns.add(portion)
                rows += portion.rows
            return Output(columns.tally().state(), rows)
        tally = AggregationState(aggregation)
        for portion in self.scan.portions(body, ["_id", DOCUMENT]):
            for text in portion.documents():
                tally.add(json.decode_document(text, name="document"))
            rows += portion.rows
        return Output(tally.state(), rows)


@lru_cache(maxsize=4)
def _read(functions: str) -> Aggregation:
    return parse_aggregation(json.parse(functions, operators=True))


def _is_told(paths: Iterable[str]) -> bool:
    """Whether columns tell the values of paths: a number in a path may be a position in an array."""
    return not any(is_position(segment) for path in paths for segment in path.split("."))
