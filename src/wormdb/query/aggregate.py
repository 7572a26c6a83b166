"""Aggregations of what a request finds: on columns where its plan reads columns, on documents otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wormdb.bql.aggregation import Tally, aggregation_fields
from wormdb.bql.projection_parse import parse_projection
from wormdb.format.path import is_position
from wormdb.query.columns.groups import ColumnTally
from wormdb.query.execute.answer import count
from wormdb.query.execute.execute import Executor
from wormdb.query.execute.rows import Columns
from wormdb.query.execute.show import Showing
from wormdb.query.planner.planner import make_plan
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb.bql.aggregation import Aggregation
    from wormdb.query.plan import Node
    from wormdb.query.planner.cache import PlanCache
    from wormdb.query.request import Request
    from wormdb.query.source import Source
    from wormdb.system.clock import Clock

__all__ = ["aggregate", "aggregate_plan", "needed_request"]


def aggregate(
    aggregation: Aggregation,
    request: Request,
    source: Source,
    *,
    cache: PlanCache | None = None,
    clock: Clock | None = None,
) -> dict[str, Any]:
    """What `wormdb.bql.aggregation.aggregate` gives for the documents that a request finds.

    Costs what the plan costs for rows of the fields that are needed; a mere count what `count` costs. Raises what `run`
    does, and LimitExceededError over GROUPS_MAX.
    """
    asked = needed_request(aggregation, request)
    if asked is None:
        return {"count": count(request, source, cache=cache, clock=clock)}
    return aggregate_plan(make_plan(asked, source.facts, cache).root, aggregation, asked, source, clock=clock)


def needed_request(aggregation: Aggregation, request: Request) -> Request | None:
    """What an aggregation needs of the documents of a request; None if it only counts them. No requests."""
    fields = aggregation_fields(aggregation)
    return replace(request, projection=parse_projection(_needed(fields))) if fields else None


def aggregate_plan(
    root: Node, aggregation: Aggregation, asked: Request, source: Source, *, clock: Clock | None = None
) -> dict[str, Any]:
    """The result by a plan that is given, for what `needed_request` gave."""
    executor = Executor(asked, source, clock or SystemClock())
    showing = Showing(asked, executor.fetch)
    columns, documents = ColumnTally(aggregation), Tally(aggregation)
    for batch in executor.batches(root, in_order=False):
        if isinstance(batch, Columns) and batch.covers(columns.paths):
            columns.add(batch.portion)
        else:
            for hit in showing.hits(batch):
                documents.add(hit.document)
    tally = columns.tally()
    tally.merge(documents)
    return tally.result()


def _needed(paths: Iterable[str]) -> list[str]:
    """The parts of documents that have all values of some paths; a number in a path may be a position in an array."""
    found: set[str] = set()
    for path in paths:
        names: list[str] = []
        for segment in path.split("."):
            if names and is_position(segment):
                break
            names.append(segment)
        found.add(".".join(names))
    return sorted(path for path in found if not any(path.startswith(f"{other}.") for other in found))
