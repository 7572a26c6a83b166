"""Nodes of an index tree: how large they are, how new ones are made, how stored ones are fetched."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import accumulate
from operator import add
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, Self

from wormdb.errors import NotFoundError, SnapshotTooOldError
from wormdb.format.frame import corrupt
from wormdb.format.node import Child, Inner, Leaf, Node, decode_node, encode_node, shared_prefix
from wormdb.format.root import ObjectRef
from wormdb.settings import KIB, MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store

__all__ = [
    "InnerPart",
    "LeafPart",
    "NewNode",
    "NodeLimits",
    "NodeMaker",
    "NodePart",
    "NodeSource",
    "StoreNodes",
    "Tree",
    "fetch_object",
    "gone_is_old",
    "separator",
]

ENTRIES_TARGET: Final = 1024
BYTES_TARGET: Final = 256 * KIB
DECODED_BYTES_MAX: Final = 32 * MIB
"""About what the decoded nodes of one index may take in memory."""
_ENTRY_MEMORY: Final = 100  # of the two objects and the places of an entry in a decoded node, about


@dataclass(frozen=True, slots=True)
class Tree:
    """One state of an index, as a value: its top node, levels and entries. Empty: no node, no level."""

    root: ObjectRef | None = None
    height: int = 0
    entries: int = 0

    @property
    def top(self) -> Child | None:
        """The top node as its parent would know it."""
        return None if self.root is None else Child(self.root.name, self.root.sha256, self.entries)


@dataclass(frozen=True, slots=True)
class NewNode:
    """An object for the caller to write, before the root that leads to it."""

    name: str
    body: bytes

    @property
    def ref(self) -> ObjectRef:
        """How others name it."""
        return ObjectRef(name=self.name, sha256=sha256(self.body).digest(), length=len(self.body))


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """How much a node holds: a bulk load fills it to the target, half as much again splits it, a quarter joins it.

    An entry weighs its share of a full node at least, so bytes matter only where keys are long.
    """

    entries_target: int = ENTRIES_TARGET
    bytes_target: int = BYTES_TARGET

    def __post_init__(self) -> None:
        assert self.entries_target >= 4, "a quarter of a node is one entry at least"
        assert self.bytes_target >= self.entries_target, "an entry has a byte at least"

    @property
    def target(self) -> int:
        """The weight of a full node."""
        return self.bytes_target // self.entries_target * self.entries_target

    def weights(self, sizes: Sequence[int]) -> list[int]:
        """What entries of these sizes weigh."""
        share = self.bytes_target // self.entries_target
        if max(sizes, default=0) <= share:
            return [share] * len(sizes)
        return [max(share, size) for size in sizes]

    def is_over(self, count: int, size: int) -> bool:
        """Whether a node of this many entries and bytes must be split."""
        return 2 * count > 3 * self.entries_target or 2 * size > 3 * self.bytes_target

    def is_small(self, count: int, size: int) -> bool:
        """Whether a node of this many entries and bytes should join a neighbour."""
        return 4 * count < self.entries_target and 4 * size < self.bytes_target

    def cuts(self, sizes: Sequence[int], least: int) -> list[int]:
        """Where to cut entries of these sizes into parts of about equal weight, each of `least` entries or more.

        Returns the end of each part; one part if they are not over the limit.
        """
        count = len(sizes)
        if not self.is_over(count, sum(sizes)):
            return [count]
        ends = list(accumulate(self.weights(sizes)))
        parts = min(max(2, -(-ends[-1] // self.target)), max(1, count // least))
        cuts = [0]
        for part in range(1, parts):
            even = bisect_left(ends, ends[-1] * part // parts) + 1
            cuts.append(min(max(even, cuts[-1] + least), count - least * (parts - part)))
        return [*cuts[1:], count]


@dataclass(frozen=True, slots=True)
class NodeMaker:
    """Makes the bytes of new nodes. `name` gives a name never used before; `scope` is what their identities begin with.

    A node says in itself which object it is (`scope` + name), so one that was copied elsewhere is noticed.
    """

    name: Callable[[], str]
    scope: str = ""
    limits: NodeLimits = field(default_factory=NodeLimits)

    def make(self, node: Node) -> tuple[NewNode, Child]:
        """The node as an object to write, and as its parent names it. No requests."""
        name = self.name()
        body = encode_node(node, identity=self.scope + name)
        count = len(node.keys) if isinstance(node, Leaf) else sum(child.count for child in node.children)
        return NewNode(name, body), Child(name, sha256(body).digest(), count)

    def read(self, new: NewNode) -> Node:
        """The node in an object that this maker made."""
        return decode_node(new.body, name=new.name, identity=self.scope + new.name)


class NodeSource(Protocol):
    """Where stored nodes come from: verified, several at once side by side."""

    def key(self, name: str) -> str:
        """The object key of a node, for messages."""
        ...

    def leaves(self, refs: Sequence[Child]) -> list[Leaf]:
        """Nodes of the lowest level, in the order asked. 1 GET each that is not held; raises CorruptionError."""
        ...

    def inners(self, refs: Sequence[Child]) -> list[Inner]:
        """Nodes of a higher level, in the order asked. 1 GET each that is not held; raises CorruptionError."""
        ...


class StoreNodes:
    """The nodes in one folder of a store. Thread-safe.

    The bytes of nodes are cached by a `CachedStore` below, if there is one; the nodes last used are kept here
    unpacked.
    """

    def __init__(
        self, store: Store, folder: str, *, pool: Pool, scope: str = "", memory_bytes_max: int = DECODED_BYTES_MAX
    ) -> None:
        """`folder` ends with /; `scope` is the maker's. No requests."""
        assert folder.endswith("/"), folder
        self._store = store
        self._folder = folder
        self._pool = pool
        self._scope = scope
        self._held: OrderedDict[bytes, tuple[Node, int]] = OrderedDict()
        self._held_bytes = 0
        self._held_bytes_max = memory_bytes_max
        self._lock = threading.Lock()

    def key(self, name: str) -> str:
        """The object key of a node."""
        return self._folder + name

    def leaves(self, refs: Sequence[Child]) -> list[Leaf]:
        """Nodes of the lowest level. 1 GET each that is not held; raises CorruptionError, SnapshotTooOldError."""
        if len(refs) == 1 and type(leaf := self.held(refs[0])) is Leaf:
            return [leaf]
        nodes = self._fetch(refs)
        leaves = [node for node in nodes if isinstance(node, Leaf)]
        if len(leaves) != len(nodes):
            self._refuse_kind(refs, nodes, Leaf)
        return leaves

    def inners(self, refs: Sequence[Child]) -> list[Inner]:
        """Nodes of a higher level. 1 GET each that is not held; raises CorruptionError, SnapshotTooOldError."""
        if len(refs) == 1 and type(inner := self.held(refs[0])) is Inner:
            return [inner]
        nodes = self._fetch(refs)
        inners = [node for node in nodes if isinstance(node, Inner)]
        if len(inners) != len(nodes):
            self._refuse_kind(refs, nodes, Inner)
        return inners

    def bodies(self, refs: Sequence[ObjectRef]) -> list[bytes]:
        """The bytes of objects beside the nodes. 1 GET each; raises CorruptionError, SnapshotTooOldError."""
        return list(self._pool.map(self._body, refs))

    @property
    def held_count(self) -> int:
        """How many nodes are kept unpacked."""
        return len(self._held)

    def held(self, ref: Child) -> Node | None:
        """A node if it is kept. No requests."""
        with self._lock:
            held = self._held.get(ref.sha256)
            if held is None:
                return None
            self._held.move_to_end(ref.sha256)
            return held[0]

    def _refuse_kind(self, refs: Sequence[Child], nodes: Sequence[Node], kind: type) -> None:
        name = next(ref.name for ref, node in zip(refs, nodes, strict=True) if not isinstance(node, kind))
        corrupt(self.key(name), f"it should be {'a leaf' if kind is Leaf else 'an inner node'} at its level")

    def _fetch(self, refs: Sequence[Child]) -> list[Node]:
        with self._lock:
            found = {ref.sha256: node for ref in refs if (node := self._find(ref.sha256)) is not None}
        missing = list({ref.sha256: ref for ref in refs if ref.sha256 not in found}.values())
        read = map(self._read, missing) if len(missing) == 1 else self._pool.map(self._read, missing)
        for ref, node in zip(missing, read, strict=True):
            found[ref.sha256] = node
            with self._lock:
                self._keep(ref.sha256, node)
        return [found[ref.sha256] for ref in refs]

    def _read(self, ref: Child) -> Node:
        body = self._body(ref)
        return decode_node(body, name=self.key(ref.name), identity=self._scope + ref.name)

    def _body(self, ref: Child | ObjectRef) -> bytes:
        return fetch_object(self._store, self.key(ref.name), ref.sha256)

    def _find(self, digest: bytes) -> Node | None:
        held = self._held.get(digest)
        if held is None:
            return None
        self._held.move_to_end(digest)
        return held[0]

    def _keep(self, digest: bytes, node: Node) -> None:
        if digest in self._held:
            return
        cost = sum(map(len, node.keys)) + _ENTRY_MEMORY * len(node.keys)
        cost += sum(map(len, node.values)) if isinstance(node, Leaf) else 2 * _ENTRY_MEMORY * len(node.children)
        self._held[digest] = node, cost
        self._held_bytes += cost
        while self._held_bytes > self._held_bytes_max:
            _, (_, dropped) = self._held.popitem(last=False)
            self._held_bytes -= dropped


@contextmanager
def gone_is_old(key: str) -> Iterator[None]:
    """A read of an object that a root names: SnapshotTooOldError if there is no such object."""
    try:
        yield
    except NotFoundError as error:
        if error.key != key:
            raise  # the bucket is missing, not this object
        raise SnapshotTooOldError(
            f"object {key}", reason="its root has been replaced, and it was removed", key=key
        ) from error


def fetch_object(store: Store, key: str, digest: bytes) -> bytes:
    """The bytes of an immutable object that a root names. 1 GET.

    Raises CorruptionError if they are not those that `digest` is of, SnapshotTooOldError if there is no such object.
    """
    with gone_is_old(key):
        body = store.get(key).body
    if sha256(body).digest() != digest:
        corrupt(key, "its SHA-256 is not the one that names it")
    return body


def separator(left: bytes, right: bytes) -> bytes:
    """The shortest key above `left` and not above `right`."""
    assert left < right, "keys out of order"
    return right[: shared_prefix(left, right) + 1]


# --- The content of a node in the making: too large, too small or just right, not yet written.

_CHILD_BYTES: Final = 64  # of a child's name, hash and count


class NodePart(ABC):
    """Keys and one item for each: values in a leaf, children in an inner node.

    `low` separates the part from what is to its left. Parts are made anew, never changed.
    """

    __slots__ = ("items", "keys", "low")
    least: ClassVar[int]
    """Entries that a part must have when a larger one is divided."""

    def __init__(self, low: bytes, keys: list[bytes], items: list[Any]) -> None:
        """Takes the lists as they are."""
        assert len(keys) == len(items), "one item a key"
        self.low = low
        self.keys = keys
        self.items = items

    @abstractmethod
    def sizes(self) -> list[int]:
        """Bytes of each entry."""

    @abstractmethod
    def low_at(self, place: int) -> bytes:
        """What separates the entries from `place` on from those before; `place` is not 0."""

    @abstractmethod
    def node(self) -> Node:
        """As a node to store."""

    def is_small(self, limits: NodeLimits) -> bool:
        """Whether it should join a neighbour."""
        count = len(self.keys)
        return limits.is_small(count, 0) and limits.is_small(count, sum(self.sizes()))

    def joined(self, right: Self) -> Self:
        """Both as one."""
        return type(self)(self.low, self.keys + right.keys, self.items + right.items)

    def divided(self, limits: NodeLimits) -> list[Self]:
        """As one part if it is not over the limit, else as several of about the same weight."""
        ends = limits.cuts(self.sizes(), self.least)
        return [self.slice(start, stop) for start, stop in zip([0, *ends[:-1]], ends, strict=True)]

    def slice(self, start: int, stop: int) -> Self:
        """The entries from `start` to below `stop`."""
        low = self.low_at(start) if start else self.low
        return type(self)(low, self.keys[start:stop], self.items[start:stop])


class LeafPart(NodePart):
    """Keys and values."""

    __slots__ = ()
    least = 1

    @classmethod
    def of(cls, low: bytes, leaf: Leaf) -> LeafPart:
        """A stored leaf, opened; `low` is its separator in its parent."""
        return cls(low, list(leaf.keys), list(leaf.values))

    def sizes(self) -> list[int]:
        """Bytes of each key and value."""
        return list(map(add, map(len, self.keys), map(len, self.items)))

    def low_at(self, place: int) -> bytes:
        """The shortest key between two entries."""
        return separator(self.keys[place - 1], self.keys[place])

    def node(self) -> Leaf:
        """As a leaf."""
        return Leaf(tuple(self.keys), tuple(self.items))


class InnerPart(NodePart):
    """Children, each with the key that separates it from the one before.

    The first child's key is not stored in the node; it counts when the node joins the one to its left.
    """

    __slots__ = ()
    least = 2

    @classmethod
    def of(cls, low: bytes, inner: Inner) -> InnerPart:
        """A stored inner node, opened; `low` is its separator in its parent."""
        return cls(low, [low, *inner.keys], list(inner.children))

    def sizes(self) -> list[int]:
        """Bytes of each separator and child."""
        return [_CHILD_BYTES + len(key) for key in self.keys]

    def low_at(self, place: int) -> bytes:
        """The separator of that child."""
        return self.keys[place]

    def node(self) -> Inner:
        """As an inner node."""
        return Inner(tuple(self.keys[1:]), tuple(self.items))
