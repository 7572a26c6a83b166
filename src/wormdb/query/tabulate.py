"""The rows of an answer for a table: as columns where the plan reads columns, as rows otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.query.execute.execute import Executor
from wormdb.query.execute.rows import Columns
from wormdb.query.execute.show import Showing
from wormdb.query.planner.planner import make_plan
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from wormdb.engine.blocks.portion import Portion
    from wormdb.query.execute.show import Hit
    from wormdb.query.plan import Node
    from wormdb.query.planner.cache import PlanCache
    from wormdb.query.request import Request
    from wormdb.query.source import Source
    from wormdb.system.clock import Clock

__all__ = ["tabulate", "tabulate_plan"]


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
