"""Nodes on one memory store and a clock that is moved by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wormdb.api.database import Database
from wormdb.jobs.node.node import Node
from wormdb.settings import Settings
from wormdb.storage.memory import MemoryStore
from wormdb.storage.meter import MeteredStore
from wormdb.storage.pool import SerialPool
from wormdb.system.clock import ManualClock, SeededChance

if TYPE_CHECKING:
    from wormdb.jobs.node.pace import Pace
    from wormdb.storage.meter import MeteredRequest
    from wormdb.storage.store import Store
    from wormdb.system.clock import Clock, Uptime

__all__ = ["Rig", "Skewed", "live"]


@dataclass(frozen=True)
class Skewed:
    """The clocks of a machine whose wall clock was set wrong."""

    clock: ManualClock
    skew_ms: int

    def now_ms(self) -> int:
        return self.clock.now_ms() + self.skew_ms

    def monotonic(self) -> float:
        return self.clock.monotonic()

    def uptime(self) -> Uptime:
        return self.clock.uptime()

    def sleep(self, seconds: float) -> None:
        self.clock.sleep(seconds)


@dataclass
class Rig:
    """A bucket, its time, and what was asked of it."""

    clock: ManualClock = field(default_factory=ManualClock)
    requests: list[MeteredRequest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = MemoryStore(clock=self.clock)
        self._seeds = iter(range(10_000))

    def database(
        self, settings: Settings | None = None, store: Store | None = None, clock: Clock | None = None
    ) -> Database:
        """A process that knows nothing yet."""
        clock = clock or self.clock
        return Database(
            MeteredStore(store or self.store, clock=clock, hook=self.requests.append),
            SerialPool(),
            settings=settings or Settings(forward="manual", forward_interval_ms=0),
            schema=None,
            actor=None,
            clock=clock,
            chance=SeededChance(next(self._seeds)),
        )

    def node(
        self, node: int | None = None, *, pace: Pace | None = None, store: Store | None = None, skew_ms: int = 0
    ) -> Node:
        """A node that was not started yet, on a machine whose wall clock is so far ahead."""
        clock = Skewed(self.clock, skew_ms)
        database = self.database(store=store, clock=clock)
        return Node(database, node=node, pace=pace, clock=clock, chance=SeededChance(next(self._seeds)))

    def started(self, node: int | None = None, *, pace: Pace | None = None, skew_ms: int = 0) -> Node:
        """A node that holds its id."""
        made = self.node(node, pace=pace, skew_ms=skew_ms)
        made.start()
        return made


def live(rig: Rig, seconds: float, *nodes: Node) -> None:
    """Let time pass, and nodes do what is due in it."""
    end = rig.clock.monotonic() + seconds
    due = dict.fromkeys([(node, act) for node in nodes for act in ("beat", "work")], rig.clock.monotonic())
    while True:
        now = rig.clock.monotonic()
        for (node, act), when in due.items():
            if when <= now and not node.ended.is_set():
                due[node, act] = now + (node.beat() if act == "beat" else node.work())
        following = min([end, *(when for (node, _), when in due.items() if not node.ended.is_set())])
        rig.clock.advance(max(following - now, 0.0))
        if following >= end:
            return
