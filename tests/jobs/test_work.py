"""Pieces of work: their order, their progress, and what is said when one fails."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from wormdb.errors import CorruptionError, InvalidRequestError
from wormdb.jobs.place import Where
from wormdb.jobs.work import Course, Item, JobProgress, LocalRunner, Output
from wormdb.system.clock import ManualClock


@dataclass(frozen=True)
class Doubling:
    """Twice the bytes; refuses some."""

    broken: frozenset[bytes] = frozenset()

    def __call__(self, body: bytes, /) -> Output:
        if body in self.broken:
            raise CorruptionError("block b7", reason="it is cut off", fix="restore it")
        return Output(body * 2, rows=3)


ITEMS = [Item(f"part {number}", bytes([number]), size=10, rows=3) for number in range(1, 6)]


@pytest.mark.parametrize("threads", [1, 4])
def test_results_come_in_the_order_of_items(threads: int) -> None:
    steps: list[JobProgress] = []
    found = LocalRunner(threads).run("double", Doubling(), ITEMS, steps.append)
    assert found == [item.body * 2 for item in ITEMS]
    assert [step.done for step in steps] == [0, 1, 2, 3, 4, 5]
    assert (steps[-1].size, steps[-1].rows, steps[-1].seconds_left) == (50, 15, 0)
    assert LocalRunner(threads).run("double", Doubling(), []) == []


def test_a_failure_names_the_part_and_the_reason_and_the_others_go_on() -> None:
    steps: list[JobProgress] = []
    with pytest.raises(CorruptionError) as caught:
        LocalRunner(2).run("double", Doubling(frozenset({b"\2", b"\4"})), ITEMS, steps.append)
    assert str(caught.value) == (
        "double stopped at part 2: block b7: it is cut off; 1 more of 5 parts failed (restore it)"
    )
    assert steps[-1].done == 5


def test_time_left_follows_from_bytes() -> None:
    clock, steps = ManualClock(0), list[JobProgress]()
    course = Course("x", [Item("a", b"", size=30), Item("b", b"", size=90)], clock, steps.append)
    clock.sleep(2)
    course.finished(0, 7)
    assert (steps[-1].seconds, steps[-1].seconds_left, steps[-1].rows) == (2, 6, 7)
    course.at(2)
    course.at(1)
    assert (steps[-1].done, steps[-1].size) == (2, 120)


def test_a_job_needs_a_collection() -> None:
    with pytest.raises(InvalidRequestError, match="either a model or a collection"):
        Where.named("memory://x")
