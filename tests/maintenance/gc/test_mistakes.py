"""Each rule of garbage collection, and what happens without it: a schedule that shows why it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.maintenance.gc.rig import SCHEDULES
from tests.simulation.mutants import rewritten
from wormdb.errors import WormError
from wormdb.maintenance.gc.collect import _CollectionRound
from wormdb.maintenance.gc.jobs import OpenJobs
from wormdb.maintenance.gc.retired import RetiredObjects

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    Mistake = Callable[[], AbstractContextManager[object]]

MISTAKES: dict[str, tuple[str, Mistake]] = {
    "the root is not swapped": (
        "slow_publisher",
        lambda: rewritten(_CollectionRound, ("if has_orphans or following != self.root:", "if False:")),
    ),
    "the tail is not asked": (
        "attached_in_the_tail",
        lambda: rewritten(_CollectionRound, ("attached_names(place, tail)", "attached_names(place, [])")),
    ),
    "open jobs are not asked": (
        "slow_job",
        lambda: rewritten(OpenJobs, ("if not opened:\n        return None", "return None")),
    ),
    "what an open job reads is not kept": (
        "slow_tasks",
        lambda: rewritten(RetiredObjects, ("return self.read_since is None or", "return True or")),
    ),
    "a job is given up without a word": (
        "forgotten_job",
        lambda: rewritten(
            _CollectionRound, ("if stale and not is_dry:", "if not all(map(jobs.jobs.known.pop, stale)):")
        ),
    ),
    "retired objects have no grace": (
        "slow_reader",
        lambda: rewritten(RetiredObjects, ("self.now - one.at < RETIRED_MS", "self.now < one.at")),
    ),
    "retired objects go before they are dated": (
        "slow_reader",
        lambda: rewritten(RetiredObjects, ("if one.at is None or", "if one.at is None:\n        return True\n    if")),
    ),
    "retired objects are taken for orphans": (
        "slow_reader",
        lambda: rewritten(_CollectionRound, ("or info.key in known.kept or", "or")),
    ),
    "the time is the local clock's": (
        "fast_clock",
        lambda: rewritten(_CollectionRound, ("now = self.state.time", "now = site.runtime.clock.now_ms()")),
    ),
    "entries go before the swap": (
        "overtaken",
        lambda: rewritten(
            _CollectionRound,
            ("self._swap(retired, due", "self._delete(found.entries)\n    self._swap(retired, due"),
        ),
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_no_schedule_breaks_a_promise(name: str) -> None:
    SCHEDULES[name]()


@pytest.mark.parametrize("name", MISTAKES)
def test_the_mistake_is_found(name: str) -> None:
    schedule, apply = MISTAKES[name]
    with apply(), pytest.raises((AssertionError, WormError)):
        SCHEDULES[schedule]()


def test_every_schedule_finds_a_mistake() -> None:
    assert {schedule for schedule, _ in MISTAKES.values()} == set(SCHEDULES)
