"""Nodes of a simulated run: the real database code, each with its own clocks, and ways to hurt them."""

from __future__ import annotations

from bisect import bisect_left
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING
from unittest import mock

from tests.simulation.draws import Draws
from tests.simulation.history import History
from tests.simulation.projections import JOBS_REMEMBERED, LOADS_KEPT
from tests.simulation.remembered import remembered_blocks
from tests.simulation.scheduler import Process, ProcessClock
from tests.simulation.store import COLLECTION, Bucket, SimStore
from wormdb.api.database import Database
from wormdb.engine import ledger
from wormdb.engine.blocks import runs as block_runs
from wormdb.engine.commit.turns import TurnLook, WriterTurns
from wormdb.engine.forward import build as index_build
from wormdb.engine.history import fold
from wormdb.engine.index import shelf as index_shelf
from wormdb.engine.ledger import Ledger
from wormdb.engine.state import jobs
from wormdb.engine.state import successor as succession
from wormdb.engine.tree.nodes import NodeLimits
from wormdb.format.event import IndexBuilding, IndexFailed, IndexReady, JobAborted, JobAttached, JobOpened
from wormdb.storage.meter import MeteredStore
from wormdb.storage.pool import SerialPool
from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.history import Call
    from tests.simulation.scheduler import Scheduler
    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.engine.commit.commit import CommitResult
    from wormdb.engine.commit.operations import Pending
    from wormdb.engine.index.shelf import IndexShelf
    from wormdb.engine.ledger import Runtime
    from wormdb.engine.state.view import View
    from wormdb.settings import Settings
    from wormdb.system.clock import Chance, Clock

__all__ = ["Node", "World", "reckless_turns", "tiny_objects"]

OF_THE_ENGINE = (IndexBuilding, IndexReady, IndexFailed, JobOpened, JobAttached, JobAborted)
"""Events that no client sends: the engine commits them, on its own or for a batch that was noted before."""


@contextmanager
def tiny_objects(*, step_entries: int = 2) -> Iterator[None]:
    """Ledgers made inside write trees of a few entries a node, list blocks in pages, and build indexes in small steps.

    So a few documents make all the objects that many would.
    """
    limits = partial(NodeLimits, 4, 256)
    builder = partial(index_build.Builder, chunk_entries=step_entries)
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(index_shelf, "NodeLimits", limits))
        stack.enter_context(mock.patch.object(index_build, "Builder", builder))
        stack.enter_context(mock.patch.object(block_runs, "LIST_INLINE_BYTES_MAX", 900))
        stack.enter_context(mock.patch.object(block_runs, "LIST_PAGE_BLOCKS", 2))
        stack.enter_context(mock.patch.object(succession, "RETIRED_INLINE_MAX", 12))
        stack.enter_context(mock.patch.object(fold, "LOADS_KEPT", LOADS_KEPT))
        stack.enter_context(mock.patch.object(jobs, "JOBS_REMEMBERED", JOBS_REMEMBERED))
        stack.enter_context(remembered_blocks())
        yield


class _RecklessTurns(WriterTurns):
    """Turns by chance: any writer may gather, offer, wait or write at any time, and every answer must be right."""

    def _is_so(self, probability: float) -> bool:
        return self._chance.fraction() < probability

    def next_look(self) -> TurnLook | None:
        return super().next_look() if self._is_so(0.3) else None

    @property
    def gathers(self) -> bool:
        return self._is_so(0.7)

    @property
    def is_gathered(self) -> bool:
        return self._is_so(0.5)

    def next_offer_look(self) -> float | None:
        return self._chance.fraction() * 0.05 if self._is_so(0.8) else None


@contextmanager
def reckless_turns() -> Iterator[None]:
    """Ledgers made inside take no turns, so that what is offered is taken, forgotten and written again all the time."""
    with mock.patch.object(ledger, "WriterTurns", _RecklessTurns):
        yield


class _WitnessedDatabase(Database):
    """A database whose commits are noted in a history."""

    def __init__(self, store: SimStore, history: History, settings: Settings, clock: Clock, chance: Chance) -> None:
        super().__init__(
            MeteredStore(store, clock=clock),
            SerialPool(),
            settings=settings,
            schema=None,
            actor=None,
            clock=clock,
            chance=chance,
        )
        self.ledger = _WitnessedLedger(self, history)

    def _ledger(self, prefix: str) -> Ledger:
        assert prefix == COLLECTION, prefix
        return self.ledger

    def runtime(self) -> Runtime:
        return self._ledgers.runtime


class _WitnessedLedger(Ledger):
    def __init__(self, database: _WitnessedDatabase, history: History) -> None:
        super().__init__(COLLECTION, database.runtime())
        self._history = history

    def newest(self) -> View:
        return self._head.view()

    def commit(self, pending: Pending, **options: float) -> CommitResult:
        if not any(isinstance(event, OF_THE_ENGINE) for event in pending.events):
            self._history.sent(pending.id)
        return super().commit(pending, **options)


@dataclass
class World(Draws):
    """Everything that the tasks of one run share."""

    seed: int
    scheduler: Scheduler
    bucket: Bucket
    chance: Chance
    settings: Settings
    history: History = field(init=False)
    nodes: list[Node] = field(default_factory=list)
    unknown: list[Call] = field(default_factory=list)
    """Calls whose outcome is to be resolved."""
    workers: int = 0
    """Clients that have not finished."""

    def __post_init__(self) -> None:
        self.history = History(self.bucket)

    def node(self, name: str, distance: float = 1.0, *, is_right: bool = False) -> Node:
        """A new node, so far away; perhaps with a clock that is right."""
        node = Node(self, name, distance, is_right=is_right)
        self.nodes.append(node)
        return node


class Node:
    """One machine: a process at a time, restarted after a crash with the same clocks and nothing remembered."""

    def __init__(self, world: World, name: str, distance: float, *, is_right: bool = False) -> None:
        """Starts at once."""
        self.name = name
        self.highest_acked = 0
        self._world = world
        self._distance = distance
        self._lives = 0
        self._skew_ms = world.between(-600_000, 600_000) if world.likely(0.5) else 0.0
        self._drift = world.between(0.98, 1.02)
        if is_right:
            self._skew_ms, self._drift = 0.0, 1.0
        self.start()

    def start(self) -> None:
        """Begin a life: a new process, a database that knows nothing."""
        world = self._world
        self._lives += 1
        self.highest_acked = 0
        self.process = Process(f"{self.name}.{self._lives}")
        self.clock = ProcessClock(world.scheduler, self.process, skew_ms=self._skew_ms, drift=self._drift)
        chance = SeededChance(int.from_bytes(world.chance.token(8), "big"))
        store = SimStore(world.bucket, self.process, self.clock, self._distance)
        self._database = _WitnessedDatabase(store, world.history, world.settings, self.clock, chance)

    @property
    def ledger(self) -> Ledger:
        """The engine of this life."""
        return self._database.ledger

    def collect(self) -> None:
        """Collect garbage."""
        self._database.gc([COLLECTION])

    @property
    def is_building(self) -> bool:
        """Whether this life knows of an index that is not ready yet. No requests."""
        return bool(self._database.ledger.newest().definition.unbuilt)

    @property
    def trees(self) -> IndexShelf:
        """The trees that this life knows."""
        return self._database.ledger.trees

    @property
    def collection(self) -> Collection[Document]:
        """The collection as users hold it."""
        return self._database[COLLECTION.removesuffix("/")]

    def known_ago(self, stale_ms: float) -> int:
        """How far the log went so long ago by this node's monotonic clock; 0 if that clock has ever stood still."""
        if self.process.suspended_ms:
            return 0
        moment = self._world.scheduler.now - stale_ms / self._drift
        return bisect_left(self._world.bucket.landed, moment)

    def jump(self, jump_ms: float) -> None:
        """Set the wall clock wrong, as an operator or NTP would."""
        self._skew_ms = jump_ms
        self.clock.skew_ms = self._skew_ms

    def set_right(self) -> None:
        """The wall clock is set to the true time."""
        self.jump(self._world.scheduler.now * (1 - self._drift))
