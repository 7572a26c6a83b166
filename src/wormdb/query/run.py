"""Answers to requests: rows one after the other, a number, or how it would be done."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wormdb.bql.tree import Everything
from wormdb.clock import SystemClock
from wormdb.engine.portion import DOCUMENT
from wormdb.query.execute import Executor
from wormdb.query.execute_ids import count_entries
from wormdb.query.execute_rows import Keys
from wormdb.query.execute_show import Hit, Showing
from wormdb.query.plan import Cost, IndexCount, Order, Part, Plan, Residual, Scan
from wormdb.query.source import Counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.clock import Clock
    from wormdb.query.plan import Node
    from wormdb.query.request import Request
    from wormdb.query.source import Source

__all__ = ["Hit", "count", "count_plan", "run", "run_plan"]


def run(request: Request, source: Source, *, cache: Any = None, clock: Clock | None = None) -> Iterator[Hit]:
    """The rows of an answer, in its order. Nothing is read until the first is asked for; costs what the plan costs.

    Raises LimitExceededError over `rows_max`, UnavailableError at the deadline by `clock`, SnapshotTooOldError if the
    state is so old that objects of it are gone (then ask a new one), CorruptionError.
    """
    plan = _planned(request, source, cache)
    yield from run_plan(plan.root, request, source, clock=clock)


def run_plan(root: Node, request: Request, source: Source, *, clock: Clock | None = None) -> Iterator[Hit]:
    """The same by a plan that is given."""
    executor = Executor(request, source, clock or SystemClock())
    showing = Showing(request, executor.fetch)
    for batch in executor.batches(root):
        yield from showing.hits(batch)


def count(request: Request, source: Source, *, cache: Any = None, clock: Clock | None = None) -> int:
    """How many rows the answer has. No requests for all documents; raises what `run` does."""
    if _is_of_all(request) and isinstance(source, Counted):
        return _in_part(source.count_all(), request)
    asked = replace(request, is_count=True)
    return count_plan(_planned(asked, source, cache).root, asked, source, clock=clock)


def count_plan(root: Node, request: Request, source: Source, *, clock: Clock | None = None) -> int:
    """The same by a plan that is given."""
    if isinstance(root, IndexCount):
        return _in_part(count_entries(source.entries(root.index), root.spans), request)
    executor = Executor(request, source, clock or SystemClock())
    batches = executor.batches(root)
    return sum(len(executor.fetch(one) if isinstance(one, Keys) and not one.is_sure else one) for one in batches)


def _is_of_all(request: Request) -> bool:
    return isinstance(request.filter, Everything) and request.after is None


def _in_part(rows: int, request: Request) -> int:
    left = max(rows - request.offset, 0)
    return left if request.limit is None else min(left, request.limit)


def _planned(request: Request, source: Source, cache: Any) -> Plan:  # noqa: ARG001 - one plan for all
    root: Node = Residual(Scan(("_id", DOCUMENT)), request.filter)
    if request.sort.fields:
        first = None if request.limit is None else request.offset + request.limit
        root = Order(root, request.sort, first)
    if request.limit is not None or request.offset:
        root = Part(root, request.offset, request.limit)
    return Plan(root, "full_scan", "", Cost())
