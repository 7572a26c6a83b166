"""What the tests of block lists share: a folder of blocks in memory, a writer of new objects, rows by small numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import shake_128
from typing import TYPE_CHECKING

from wormdb.engine.blocks.grow import Growth, GrowthResult
from wormdb.engine.blocks.runs import Runs
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.log.clock import MiscClock
from wormdb.engine.log.objects import ObjectWriter
from wormdb.engine.state.projection import Sizes
from wormdb.format import json
from wormdb.format.block import Row
from wormdb.format.key import encode_key
from wormdb.storage.memory import MemoryStore
from wormdb.storage.meter import MeteredRequest, MeteredStore
from wormdb.storage.pool import SerialPool
from wormdb.system.clock import ManualClock, SeededChance

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wormdb.format.blocklist import BlockEntry

__all__ = ["Folder", "key_of", "noise", "row", "rows"]

SMALL = Sizes(block_target=2_000, run_smallest=6_000)


def name_of(number: int) -> str:
    return f"k{number:06d}"


def key_of(number: int) -> bytes:
    """The key of the id that stands for a number: in the order of the numbers."""
    return encode_key(name_of(number))


def noise(number: int, rev: int, size: int) -> str:
    """Text that does not compress to less than half."""
    return shake_128(f"{number} {rev}".encode()).hexdigest((size + 1) // 2)[:size]


def row(number: int, rev: int = 1, *, seq: int = 1, pad: int = 50) -> Row:
    """A document; its content depends on number and revision."""
    identity = name_of(number)
    document = json.encode_document({"_id": identity, "r": rev, "pad": noise(number, rev, pad)})
    return Row(identity, rev, seq, document)


def rows(numbers: Iterable[int], rev: int = 1, *, pad: int = 50) -> list[tuple[bytes, Row]]:
    """Several, in order of key."""
    return [(key_of(number), row(number, rev, pad=pad)) for number in sorted(set(numbers))]


@dataclass
class Folder:
    """One folder of blocks and the list of them as a root would have it."""

    sizes: Sizes = SMALL
    grown: GrowthResult = field(default_factory=lambda: GrowthResult((), ()))

    def __post_init__(self) -> None:
        self.requests: list[MeteredRequest] = []
        self.memory = MemoryStore()
        self.store = MeteredStore(self.memory, hook=self.requests.append)
        self.pool = SerialPool()
        self.writer = ObjectWriter(self.store, self.pool, MiscClock(ManualClock()), SeededChance(1))

    def shelf(self, *, memory_bytes_max: int = 1 << 20) -> Shelf:
        """A shelf that knows nothing yet."""
        return Shelf(self.store, self.pool, "c/.worm.db/data/", memory_bytes_max=memory_bytes_max)

    def runs(self, shelf: Shelf | None = None) -> Runs:
        """The list, read by somebody who knows nothing yet."""
        return Runs(shelf or self.shelf(), self.grown.entries, self.grown.pages)

    def grow(self, new: Sequence[tuple[bytes, Row]], run: int) -> GrowthResult:
        """Add rows."""
        self.grown = Growth(self.runs(), self.writer, self.sizes).grow(new, run=run)
        return self.grown

    def adopt(self, entries: Sequence[BlockEntry], run: int) -> GrowthResult:
        """Add blocks."""
        self.grown = Growth(self.runs(), self.writer, self.sizes).adopt(entries, run=run)
        return self.grown

    def taken(self) -> list[str]:
        """What was read since the last call: the endings of the keys, in order."""
        endings = [request.key.rpartition(".")[2] for request in self.requests]
        self.requests.clear()
        return endings
