"""Garbage collection in a simulated run: in virtual hours instead of days, and nothing may be left at the end."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING
from unittest import mock

from tests.simulation.projections import named_by, retired_by
from tests.simulation.replay import Violation
from tests.simulation.store import PATHS
from wormdb.maintenance.gc import collect as gc
from wormdb.maintenance.gc import jobs as gc_jobs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.nodes import World

__all__ = ["clean_up", "short_lives"]

ORPHAN_MS = 600_000
"""Instead of a day: that publishers are slower than this must not matter, because the root was swapped."""
ROUNDS = 3
WAIT_MS = 3_700_000
"""Between two of them: longer than anything retired stays."""


@contextmanager
def short_lives() -> Iterator[None]:
    """Objects without a name are garbage after minutes."""
    with ExitStack() as stack:
        for module in (gc, gc_jobs):
            stack.enter_context(mock.patch.object(module, "ORPHAN_MS", ORPHAN_MS))
        yield


def clean_up(world: World) -> None:
    """Collect in calm weather, until nothing is left. Raises Violation for an object that is not needed."""
    keeper = world.node("cleaner")
    with world.scheduler.inside(keeper.process):
        for _ in range(ROUNDS):
            world.scheduler.sleep(WAIT_MS)
            keeper.collect()
        jobs = keeper.ledger.view().jobs.known.values()
    store, root = world.bucket.objects, world.bucket.roots[-1]
    kept = named_by(store, PATHS, root) | retired_by(store, PATHS, root) | {PATHS.root, PATHS.gc_probe}
    there = {found.key for page in store.list(PATHS.folder) for found in page.objects}
    left = {key for key in there - kept if not key.startswith(PATHS.entries) and not key.endswith(".retired")}
    if left and not any(job.state == "open" for job in jobs):
        raise Violation(f"{sorted(left)[:5]} is not needed, and was not removed")
