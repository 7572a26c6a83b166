"""A database on simulated time, with a node beside it, and every request counted at the prices of S3.

Nothing waits: time passes when it is told to, and the node does what it would have done meanwhile.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

from wormdb.api.database import Database
from wormdb.jobs.node.node import Node
from wormdb.settings import Settings
from wormdb.storage.memory import MemoryStore
from wormdb.storage.meter import S3_STANDARD, MeteredStore
from wormdb.storage.pool import ThreadPool
from wormdb.system.clock import ManualClock, SeededChance

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

    from wormdb.storage.meter import MeteredRequest, Usage

__all__ = ["DAY", "HOUR", "Rig", "documents", "kind_of_key"]

HOUR = 3_600.0
DAY = 24 * HOUR
BATCH_SECONDS = 0.1
"""What a batch of a thousand takes on S3, about: as fast as one writer goes."""


def kind_of_key(key: str) -> str:
    """What an object is for: the folder below `.worm.db`, or the system file at the root."""
    below = key.partition(".worm.db/")[2]
    return below.partition("/")[0] if below else key.partition("/")[0]


def documents(count: int, *, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Documents of about 250 bytes with random ids and a unique value each."""
    chance = random.Random(seed)
    for number in range(count):
        yield {
            "id": f"{chance.getrandbits(96):024x}",
            "email": f"user{chance.getrandbits(64):016x}@example.org",
            "name": f"Name {chance.randrange(5_000)} Surname {chance.randrange(20_000)}",
            "city": f"City {chance.randrange(500)}",
            "amount": chance.randrange(1_000_000) / 100,
            "note": f"{chance.getrandbits(256):064x}",
            "number": number,
        }


class Rig:
    """One store in memory, one writer, and (after `serve`) one node; a context manager."""

    def __init__(self, settings: Settings | None = None) -> None:
        """`settings` are the writer's; without any it leaves bringing forward to the node, or to who calls it."""
        self.clock = ManualClock()
        self.store = MemoryStore(None, clock=self.clock)
        self.counted: Counter[tuple[str, str]] = Counter()
        self.metered = MeteredStore(self.store, prices=S3_STANDARD, clock=self.clock, hook=self._count)
        self._pool = ThreadPool(4)
        self._seeds = iter(range(1, 100))
        self.database = self._open(settings or Settings(forward="manual"))
        self.node: Node | None = None
        self._beat = self._work = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.close()

    def _open(self, settings: Settings) -> Database:
        return Database(
            self.metered,
            self._pool,
            settings=settings,
            schema=None,
            actor=None,
            clock=self.clock,
            chance=SeededChance(next(self._seeds)),
        )

    def _count(self, request: MeteredRequest) -> None:
        self.counted[request.kind.value, kind_of_key(request.key)] += 1

    def serve(self) -> None:
        """Start a node; from now on passing time is its time too."""
        self.node = Node(self._open(Settings(forward="manual")), clock=self.clock, chance=SeededChance(99))
        self.node.start()
        self._beat = self._work = self.clock.monotonic()

    def pass_time(self, seconds: float) -> None:
        """Let so much time go by, with all that the node does in it."""
        end = self.clock.monotonic() + seconds
        while self.node is not None and min(self._beat, self._work) <= end:
            self.clock.advance(max(0.0, min(self._beat, self._work) - self.clock.monotonic()))
            if self._beat <= self.clock.monotonic():
                self._beat = self.clock.monotonic() + self.node.beat()
            if self._work <= self.clock.monotonic():
                self._work = self.clock.monotonic() + self.node.work()
        self.clock.advance(max(0.0, end - self.clock.monotonic()))

    def used(self) -> Usage:
        """All requests so far, in dollars of S3."""
        return self.metered.mark()

    def stored(self) -> Counter[str]:
        """Bytes by kind of object."""
        found: Counter[str] = Counter()
        for page in self.store.list():
            for entry in page.objects:
                found[kind_of_key(entry.key)] += entry.size
        return found
