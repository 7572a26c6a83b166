"""The baton: one task at a time, time that jumps, and no way to hang unseen."""

from __future__ import annotations

import threading

import pytest

from tests.simulation.scheduler import (
    BatonLock,
    Process,
    ProcessClock,
    ProcessCrash,
    RunawayError,
    Scheduler,
    cooperative_locks,
)
from wormdb.system.clock import SeededChance

HOUR_MS = 3_600_000.0


def test_tasks_run_in_the_order_of_their_virtual_times() -> None:
    scheduler = Scheduler(SeededChance(1))
    seen: list[tuple[float, str]] = []

    def body(name: str, delays: list[float]) -> None:
        for delay in delays:
            scheduler.sleep(delay)
            seen.append((scheduler.now, name))

    scheduler.spawn("slow", lambda: body("slow", [HOUR_MS, HOUR_MS]))
    scheduler.spawn("fast", lambda: body("fast", [1, 2, 3]))
    scheduler.run()
    assert seen == [(1, "fast"), (3, "fast"), (6, "fast"), (HOUR_MS, "slow"), (2 * HOUR_MS, "slow")]


def order_of(seed: int) -> list[str]:
    scheduler = Scheduler(SeededChance(seed))
    seen: list[str] = []

    def body() -> None:
        for _ in range(3):
            scheduler.sleep(1)
            seen.append(scheduler.current.name)

    for name in "abc":
        scheduler.spawn(name, body)
    scheduler.run()
    return seen


def test_the_seed_decides_who_is_next_and_decides_the_same_way_again() -> None:
    orders = {tuple(order_of(seed)) for seed in range(10)}
    assert len(orders) > 3
    assert order_of(7) == order_of(7)


def test_what_a_task_raises_ends_the_run() -> None:
    scheduler = Scheduler(SeededChance(1))
    unwound = []

    def other() -> None:
        try:
            scheduler.sleep(HOUR_MS)
        finally:
            unwound.append(True)

    def failing() -> None:
        scheduler.sleep(1)
        raise KeyError("found")

    scheduler.spawn("other", other)
    scheduler.spawn("failing", failing)
    with pytest.raises(KeyError, match="found"):
        scheduler.run()
    assert unwound == [True]


def test_tasks_that_wait_for_each_other_are_named() -> None:
    scheduler = Scheduler(SeededChance(1))
    one, two = BatonLock(scheduler), BatonLock(scheduler)

    def body(first: BatonLock, second: BatonLock) -> None:
        with first:
            scheduler.sleep(1)
            with second:
                pass

    scheduler.spawn("ada", lambda: body(one, two))
    scheduler.spawn("bob", lambda: body(two, one))
    with pytest.raises(RunawayError, match="ada, bob"):
        scheduler.run()


def test_a_run_without_end_is_stopped() -> None:
    scheduler = Scheduler(SeededChance(1), events_max=100)

    def body() -> None:
        while True:
            scheduler.sleep(1)

    scheduler.spawn("endless", body)
    with pytest.raises(RunawayError, match="100 events"):
        scheduler.run()


@pytest.mark.parametrize("is_reentrant", [False, True])
def test_a_lock_is_held_by_one_task_also_while_it_waits(is_reentrant: bool) -> None:
    scheduler = Scheduler(SeededChance(1))
    lock = BatonLock(scheduler, reentrant=is_reentrant)
    inside: list[str] = []

    def body() -> None:
        for _ in range(3):
            with lock:
                assert inside == []
                inside.append(scheduler.current.name)
                if is_reentrant:
                    with lock:
                        scheduler.sleep(1)
                scheduler.sleep(1)
                assert not lock.acquire(blocking=False) or is_reentrant
                if is_reentrant:
                    lock.release()
                inside.clear()

    for name in "abc":
        scheduler.spawn(name, body)
    scheduler.run()


def test_an_event_of_the_engine_wakes_its_waiters_and_leaves_other_threads_alone() -> None:
    scheduler = Scheduler(SeededChance(1))
    event = threading.Event()
    woken = []

    def wait() -> None:
        event.wait()
        woken.append(scheduler.now)

    def tell() -> None:
        scheduler.sleep(500)
        event.set()

    scheduler.spawn("waits", wait)
    scheduler.spawn("tells", tell)
    with cooperative_locks(scheduler):
        assert not threading.Event().wait(0.001)
        scheduler.run()
    assert woken == [500]


def test_a_paused_process_goes_on_after_the_pause_and_a_suspended_one_does_not_count_it() -> None:
    scheduler = Scheduler(SeededChance(1))
    process = Process("p")
    clock = ProcessClock(scheduler, process, skew_ms=600_000)
    seen = []

    def body() -> None:
        with scheduler.inside(process):
            clock.sleep(10)
            seen.append((scheduler.now, clock.monotonic(), clock.now_ms()))

    def nemesis() -> None:
        scheduler.sleep(5_000)
        scheduler.pause(process, HOUR_MS, suspended=True)

    scheduler.spawn("body", body)
    scheduler.spawn("nemesis", nemesis)
    scheduler.run()
    assert seen == [(5_000 + HOUR_MS, 5.0, 1_700_000_000_000 + 5_000 + 3_600_000 + 600_000)]


def test_a_crash_unwinds_every_task_of_the_process_and_no_other() -> None:
    scheduler = Scheduler(SeededChance(1))
    dying, living = Process("dying"), Process("living")
    seen = []

    def body(process: Process) -> None:
        try:
            with scheduler.inside(process):
                scheduler.sleep(HOUR_MS)
            seen.append((process.name, "done", scheduler.now))
        except ProcessCrash:
            seen.append((process.name, "crashed", scheduler.now))

    for process in (dying, dying, living):
        scheduler.spawn(f"in {process.name}", lambda process=process: body(process))  # type: ignore[misc] # bound at once

    def nemesis() -> None:
        scheduler.sleep(7)
        scheduler.kill(dying)

    scheduler.spawn("nemesis", nemesis)
    scheduler.run()
    assert seen == [("dying", "crashed", 7), ("dying", "crashed", 7), ("living", "done", HOUR_MS)]
    with pytest.raises(ProcessCrash):
        dying.check()


def test_the_shortest_sleep_moves_the_clock() -> None:
    """A loop that sleeps until a deadline would run for ever between two floats."""
    scheduler = Scheduler(SeededChance(1))
    process = Process("p")
    clock = ProcessClock(scheduler, process)
    seen: list[float] = []

    def body() -> None:
        with scheduler.inside(process):
            scheduler.sleep(HOUR_MS)
            seen.append(clock.monotonic())
            clock.sleep(9e-13)
            seen.append(clock.monotonic())

    scheduler.spawn("node", body)
    scheduler.run()
    assert seen[0] < seen[1]
