"""The content of a node in the making: too large, too small or just right, not yet written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from operator import add
from typing import TYPE_CHECKING, Any, ClassVar, Final

from wormdb.engine.tree.nodes import separator
from wormdb.format.node import Inner, Leaf

if TYPE_CHECKING:
    from typing import Self

    from wormdb.engine.tree.nodes import NodeLimits
    from wormdb.format.node import Node

__all__ = ["InnerPart", "LeafPart", "Part"]

_CHILD_BYTES: Final = 64  # of a child's name, hash and count


class Part(ABC):
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


class LeafPart(Part):
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


class InnerPart(Part):
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
