"""Answers to requests: rows one after the other, a number, or how it would be done."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wormdb.bql.aggregation import AggregationState, aggregation_fields
from wormdb.bql.projection_parse import parse_projection
from wormdb.bql.tree import MatchAll
from wormdb.format.path import is_position
from wormdb.query.columns.groups import ColumnTally
from wormdb.query.execute.execute import Executor
from wormdb.query.execute.explain import explain_plan
from wormdb.query.execute.ids import count_entries
from wormdb.query.execute.measure import Watch
from wormdb.query.execute.rows import Columns, Keys
from wormdb.query.execute.show import Hit, Showing
from wormdb.query.plan import IndexCount
from wormdb.query.planner.planner import make_plan
from wormdb.query.source import Counted
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from wormdb.bql.aggregation import Aggregation
    from wormdb.engine.blocks.portion import Portion
    from wormdb.query.execute.explain import Explanation
    from wormdb.query.execute.measure import Metered
    from wormdb.query.plan import Node
    from wormdb.query.planner.cache import PlanCache
    from wormdb.query.request import Request
    from wormdb.query.source import Source
    from wormdb.system.clock import Clock

__all__ = [
    "Hit",
    "aggregate",
    "aggregate_plan",
    "count",
    "count_plan",
    "explain",
    "needed_request",
    "run",
    "run_plan",
    "tabulate",
    "tabulate_plan",
]


def run(
    request: Request, source: Source, *, cache: PlanCache | None = None, clock: Clock | None = None
) -> Iterator[Hit]:
    """The rows of an answer, in its order. Nothing is read until the first is asked for; costs what the plan costs.

    Raises LimitExceededError over `rows_max`, UnavailableError at the deadline by `clock`, SnapshotTooOldError if the
    state is so old that objects of it are gone (then ask a new one), CorruptionError.
    """
    plan = make_plan(request, source.facts, cache)
    yield from run_plan(plan.root, request, source, clock=clock)


def run_plan(
    root: Node, request: Request, source: Source, *, clock: Clock | None = None, watch: Watch | None = None
) -> Iterator[Hit]:
    """The same by a plan that is given; `watch` measures its nodes."""
    executor = Executor(request, source, clock or SystemClock(), watch)
    showing = Showing(request, executor.fetch)
    for batch in executor.batches(root):
        yield from showing.hits(batch)


def count(request: Request, source: Source, *, cache: PlanCache | None = None, clock: Clock | None = None) -> int:
    """How many rows the answer has. No requests for all documents; raises what `run` does."""
    if _is_of_all(request) and isinstance(source, Counted):
        return _in_part(source.count_all(), request)
    asked = replace(request, is_count=True)
    return count_plan(make_plan(asked, source.facts, cache).root, asked, source, clock=clock)


def count_plan(
    root: Node, request: Request, source: Source, *, clock: Clock | None = None, watch: Watch | None = None
) -> int:
    """The same by a plan that is given; `watch` measures its nodes."""
    if isinstance(root, IndexCount):
        return _in_part(
            _entries(root, source) if watch is None else watch.count(root, lambda: _entries(root, source)), request
        )
    executor = Executor(request, source, clock or SystemClock(), watch)
    batches = executor.batches(root, in_order=False)
    return sum(len(executor.fetch(one) if isinstance(one, Keys) and not one.is_sure else one) for one in batches)


def explain(
    request: Request,
    source: Source,
    *,
    cache: PlanCache | None = None,
    analyze: bool = False,
    meter: Callable[[], Metered] | None = None,
    clock: Clock | None = None,
) -> Explanation:
    """How a request is answered. No requests; with `analyze` it is answered, and the rows are thrown away.

    Then `meter` tells what the store has counted: `MeteredStore.mark`. Raises what `run` does.
    """
    plan = make_plan(request, source.facts, cache)
    if not analyze:
        return explain_plan(plan, source.facts)
    clock = clock or SystemClock()
    watch = Watch(clock, meter)

    def answer() -> int:
        if request.is_count:
            return count_plan(plan.root, request, source, clock=clock, watch=watch)
        return sum(1 for _ in run_plan(plan.root, request, source, clock=clock, watch=watch))

    taken = watch.whole(answer)
    return explain_plan(plan, source.facts, taken_of=watch.taken, taken=taken)


def _entries(node: IndexCount, source: Source) -> int:
    return count_entries(source.entries(node.index), node.spans)


def _is_of_all(request: Request) -> bool:
    return isinstance(request.filter, MatchAll) and request.after is None


def _in_part(rows: int, request: Request) -> int:
    left = max(rows - request.offset, 0)
    return left if request.limit is None else min(left, request.limit)


# --- Aggregations of what a request finds: on columns where its plan reads columns, on documents otherwise.


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
    columns, documents = ColumnTally(aggregation), AggregationState(aggregation)
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


# --- The rows of an answer for a table: as columns where the plan reads columns, as rows otherwise.


def tabulate(
    request: Request,
    source: Source,
    paths: Collection[str],
    *,
    cache: PlanCache | None = None,
    clock: Clock | None = None,
) -> Iterator[Portion | list[Hit]]:
    """The rows of an answer, in its order: portions where there is a column for each of `paths`, rows elsewhere.

    Without `paths` there are rows only. Costs as `wormdb.query.execute.answer.run`, and raises what that does.
    """
    root = make_plan(request, source.facts, cache).root
    return tabulate_plan(root, request, source, paths, clock=clock)


def tabulate_plan(
    root: Node, request: Request, source: Source, paths: Collection[str], *, clock: Clock | None = None
) -> Iterator[Portion | list[Hit]]:
    """The same by a plan that is given."""
    executor = Executor(request, source, clock or SystemClock())
    showing = Showing(request, executor.fetch)
    for batch in executor.batches(root):
        if paths and isinstance(batch, Columns) and batch.covers(paths):
            yield batch.portion
        else:
            yield list(showing.hits(batch))
