"""What a call of a process that knows nothing asks a store for: rounds, requests and bytes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import wormdb
from wormdb.system.clock import SystemChance, SystemClock
from wormdb.testing.latency_store import Latency, LatencyProfile, LatencyStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb import Database
    from wormdb.storage.meter import MeteredRequest
    from wormdb.storage.store import Store

__all__ = ["ColdCall", "call_cold"]

REQUEST_MS: Final = 100
"""Long beside what is done between requests, so that those of one round overlap."""


@dataclass(frozen=True)
class ColdCall:
    """What one call asked for. Rounds are the longest chain of requests of which each began when one had ended."""

    rounds: int
    requests: int
    bytes: int


def call_cold(store: Store, call: Callable[[Database], object]) -> ColdCall:
    """Connect, call once, and count."""
    profile = LatencyProfile(*(Latency(REQUEST_MS),) * 5)
    slow = LatencyStore(store, profile=profile, clock=SystemClock(), chance=SystemChance())
    spans: list[tuple[float, float]] = []
    size = 0

    def count(request: MeteredRequest) -> None:
        nonlocal size
        end = time.perf_counter()
        spans.append((end, end - request.seconds))
        size += request.bytes_down

    database = wormdb.connect(slow, settings=wormdb.Settings(forward="manual"), hook=count)
    call(database)
    last, rounds = float("-inf"), 0
    for end, start in sorted(spans):
        if start >= last:
            last, rounds = end, rounds + 1
    return ColdCall(rounds, len(spans), size)
