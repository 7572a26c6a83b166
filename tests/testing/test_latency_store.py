"""The latency store: waits by kind of request, drawn from the given chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wormdb.errors import NotFoundError
from wormdb.storage.memory import MemoryStore
from wormdb.storage.store import ByteRange
from wormdb.system.clock import ManualClock, SeededChance
from wormdb.testing.fault_store import FaultStore
from wormdb.testing.latency_store import S3_LIKE, Latency, LatencyProfile, LatencyStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.storage.store import Store

PROFILE = LatencyProfile(get=Latency(1), head=Latency(2), list=Latency(4), put=Latency(8), delete=Latency(16))


@pytest.mark.parametrize(
    ("call", "milliseconds"),
    [
        (lambda store: store.get("k0"), 1),
        (lambda store: store.get_range("k0", ByteRange(0, 1)), 1),
        (lambda store: store.get_ranges("k0", [ByteRange(0, 1), ByteRange(10**6, 1)]), 1),
        (lambda store: store.probe("missing"), 1),
        (lambda store: store.head("k0"), 2),
        (lambda store: list(store.list()), 12),
        (lambda store: list(store.list("none/")), 4),
        (lambda store: store.put("k0", b""), 8),
        (lambda store: store.delete("k0"), 16),
        (lambda store: store.delete_many([f"x{number}" for number in range(2001)]), 48),
    ],
)
def test_each_kind_takes_its_time(call: Callable[[Store], object], milliseconds: int) -> None:
    inner = MemoryStore()
    for number in range(5):
        inner.put(f"k{number}", b"")
    clock = ManualClock()
    store = LatencyStore(FaultStore(inner, page_keys=2), clock=clock, chance=SeededChance(1), profile=PROFILE)
    call(store)
    assert clock.monotonic() * 1000 == pytest.approx(milliseconds)


def test_a_failure_takes_time_too() -> None:
    clock = ManualClock()
    store = LatencyStore(MemoryStore(), clock=clock, chance=SeededChance(1), profile=PROFILE)
    with pytest.raises(NotFoundError):
        store.head("missing")
    assert clock.monotonic() == pytest.approx(0.002)


def test_a_request_is_executed_in_the_middle_of_its_time() -> None:
    clock = ManualClock(start_ms=0)
    inner = MemoryStore(clock=clock)
    store = LatencyStore(inner, clock=clock, chance=SeededChance(1), profile=PROFILE)
    assert store.put("a", b"").time == 4
    assert clock.now_ms() == 8


def test_draws_have_the_median_and_the_tail_asked_for() -> None:
    chance = SeededChance(3)
    draws = sorted(S3_LIKE.put.seconds(chance) * 1000 for _ in range(20_000))
    assert draws[10_000] == pytest.approx(100, rel=0.05)
    assert draws[19_800] == pytest.approx(195, rel=0.1)
    assert draws[0] > 0


def test_the_same_seed_takes_the_same_time() -> None:
    totals = []
    for _ in range(2):
        clock = ManualClock()
        store = LatencyStore(MemoryStore(), clock=clock, chance=SeededChance(9))
        for number in range(20):
            store.put(f"{number}", b"")
        totals.append(clock.monotonic())
    assert totals[0] == totals[1]
