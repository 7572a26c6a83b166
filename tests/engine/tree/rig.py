"""What the tests of indexes share: a folder of nodes in memory, names in a row, and a shelf that counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from wormdb.engine.tree.change import BulkLoad, TreeChange, apply
from wormdb.engine.tree.entries import Range
from wormdb.engine.tree.membership import build_filter_of, extend_filter_of
from wormdb.engine.tree.nodes import NodeLimits, NodeMaker, StoreNodes, Tree
from wormdb.engine.tree.tree import TreeReader, verify
from wormdb.format.key import encode_key, prefix_end
from wormdb.format.membership import key_hashes
from wormdb.storage.memory import MemoryStore
from wormdb.storage.meter import MeteredStore
from wormdb.storage.pool import SerialPool
from wormdb.storage.store import IfAbsent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wormdb.engine.tree.entries import Change, Entry
    from wormdb.engine.tree.membership import FilterChange, KeyFilter
    from wormdb.engine.tree.nodes import NewNode
    from wormdb.format.node import Child
    from wormdb.format.root import ObjectRef

__all__ = ["FOLDER", "SCOPE", "Shelf", "build_filter", "encode_compound", "extend_filter", "numbered", "span_of"]

FOLDER = "indexes/email/"
SCOPE = "c0ffee/"


def numbered(number: int) -> bytes:
    """A key that sorts as its number."""
    return b"key-%08d" % number


def build_filter(keys: Iterable[bytes], maker: NodeMaker) -> FilterChange:
    """A filter over keys."""
    return build_filter_of(key_hashes(keys), maker)


def extend_filter(known: KeyFilter, keys: Iterable[bytes], maker: NodeMaker) -> FilterChange:
    """A filter with more keys."""
    return extend_filter_of(known, key_hashes(keys), maker)


def encode_compound(*values: Any) -> bytes:
    """The joined key of several values."""
    return b"".join(map(encode_key, values))


def span_of(
    lower: bytes | None = None,
    upper: bytes | None = None,
    *,
    lower_inclusive: bool = True,
    upper_inclusive: bool = True,
) -> Range:
    """Entries whose value's key (or the first values' joined keys) lies between two; None is no bound."""
    low: bytes | None = b""
    if lower is not None:
        low = lower if lower_inclusive else prefix_end(lower)
    high = upper if upper is None or not upper_inclusive else prefix_end(upper)
    return Range(b"", b"") if low is None else Range(low, high)


@dataclass
class Shelf:
    """Nodes in a store in memory. `limits` are small, so that few entries make a high tree."""

    limits: NodeLimits = field(default_factory=lambda: NodeLimits(4, 4 * 64))
    store: MeteredStore = field(default_factory=lambda: MeteredStore(MemoryStore()))

    def __post_init__(self) -> None:
        numbers = count()
        self.maker = NodeMaker(lambda: f"{next(numbers):016x}-00000000", SCOPE, self.limits)

    def write(self, objects: Iterable[NewNode]) -> None:
        for new in objects:
            self.store.put(FOLDER + new.name, new.body, IfAbsent())

    def remove(self, refs: Iterable[Child | ObjectRef]) -> None:
        for ref in refs:
            self.store.head(FOLDER + ref.name)
            self.store.delete(FOLDER + ref.name)

    def names(self) -> set[str]:
        return {info.key.removeprefix(FOLDER) for page in self.store.list() for info in page.objects}

    def load(self, entries: Iterable[Entry]) -> Tree:
        load = BulkLoad(entries, self.maker)
        self.write(load)
        return load.tree

    def apply(self, tree: Tree, changes: Sequence[Change]) -> TreeChange:
        applied = apply(tree, changes, self.nodes(), self.maker)
        self.write(applied.written)
        return applied

    def nodes(self, *, memory_bytes_max: int = 0) -> StoreNodes:
        """Cold unless told otherwise: every node is a GET."""
        return StoreNodes(self.store, FOLDER, pool=SerialPool(), scope=SCOPE, memory_bytes_max=memory_bytes_max)

    def reader(self, tree: Tree) -> TreeReader:
        return TreeReader(tree, self.nodes())

    def check(self, tree: Tree) -> None:
        assert verify(tree, self.nodes()) == []

    def gets(self) -> int:
        return self.store.mark().gets
