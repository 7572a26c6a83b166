"""Building a tree from sorted entries, bottom-up, in memory that does not grow with their number."""

from __future__ import annotations

from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

from wormdb.engine.tree.nodes import NewObject, Tree
from wormdb.engine.tree.tree import TreeReader
from wormdb.index.part import InnerPart, LeafPart

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wormdb.engine.tree.entries import Entry
    from wormdb.engine.tree.nodes import NodeMaker, NodeSource
    from wormdb.index.part import Part

__all__ = ["BulkLoad", "merged"]


class BulkLoad:
    """Iterate it once for the nodes to write, children before their parents; then `tree` is there.

    Each level holds back less than two nodes, so that no last node is left small.
    """

    def __init__(self, entries: Iterable[Entry], maker: NodeMaker) -> None:
        """The keys of `entries` ascend. Nothing is read yet."""
        self._entries = iter(entries)
        self._maker = maker
        self._limits = maker.limits
        self._levels: list[Part] = []
        self._weights: list[list[int]] = []
        self._tree: Tree | None = None

    @property
    def tree(self) -> Tree:
        """What was built, once all nodes were taken."""
        assert self._tree is not None, "nodes are left to be taken"
        return self._tree

    def __iter__(self) -> Iterator[NewObject]:
        while taken := list(islice(self._entries, self._limits.entries_target)):
            keys, values = zip(*taken, strict=True)
            yield from self._add(0, LeafPart(b"", list(keys), list(values)))
        yield from self._finish()

    def _add(self, level: int, more: Part) -> Iterator[NewObject]:
        """Append to what a level holds back, and give off whole nodes while there is enough for two."""
        if level == len(self._levels):
            self._levels.append(type(more)(more.low, [], []))
            self._weights.append([])
        held, weights = self._levels[level], self._weights[level]
        held.keys += more.keys
        held.items += more.items
        weights += self._limits.weights(more.sizes())
        if sum(weights) < 2 * self._limits.target:
            return
        ends = self._whole_nodes(weights)
        self._levels[level], self._weights[level] = held.slice(ends[-1], len(held.keys)), weights[ends[-1] :]
        for start, stop in zip([0, *ends[:-1]], ends, strict=True):
            yield from self._emit(level, held.slice(start, stop))

    def _whole_nodes(self, weights: Sequence[int]) -> list[int]:
        """Where nodes of the target weight end, as long as the rest is enough for another; one at least."""
        target = self._limits.target
        rest, filled, ends = sum(weights), 0, []
        for place, weight in enumerate(weights, 1):
            if filled and filled + weight > target:
                rest, filled = rest - filled, 0
                ends.append(place - 1)
                if rest < 2 * target:
                    break
            filled += weight
        return ends

    def _emit(self, level: int, part: Part) -> Iterator[NewObject]:
        new, child = self._maker.make(part.node())
        yield new
        yield from self._add(level + 1, InnerPart(part.low, [part.low], [child]))

    def _finish(self) -> Iterator[NewObject]:
        level = 0
        while level < len(self._levels):
            parts = self._levels[level].divided(self._limits)
            if len(parts) == 1 and level + 1 == len(self._levels):
                new, child = self._maker.make(parts[0].node())
                yield new
                self._tree = Tree(new.ref, level + 1, child.count)
                return
            for part in parts:
                yield from self._emit(level, part)
            level += 1
        self._tree = Tree()


def merged(trees: Sequence[Tree], nodes: NodeSource) -> Iterator[Entry]:
    """The entries of several trees without a key in common, in order of key.

    So entries that come in another order and do not fit into memory are sorted by part, each part bulk loaded into
    a tree of its own, and the whole from these. 1 GET a node.
    """
    return merge(*(TreeReader(tree, nodes).scan() for tree in trees))
