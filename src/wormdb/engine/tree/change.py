"""Changing a tree: a batch of puts and deletes makes a new tree that shares what it did not touch.

Down: the changes are shared out level by level, and only the nodes they reach are read. Up: each reached
leaf is rewritten once, then each node above it once. A node that became too small joins a neighbour, one that
became too large is divided; the new nodes are handed to the caller, who writes them before anything names them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from heapq import merge
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Final

from wormdb.engine.tree.nodes import InnerPart, LeafPart, NewNode, NodeMaker, NodePart, NodeSource, Tree
from wormdb.engine.tree.tree import TreeReader
from wormdb.format.node import Child, Inner, Leaf, Node, shared_prefix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wormdb.engine.tree.entries import Change, Entry

__all__ = ["BulkLoad", "TreeChange", "apply", "merged"]

LEAVES_AT_ONCE: Final = 64
"""Leaves unpacked in memory at one time; what is made of them is held packed."""


@dataclass(frozen=True, slots=True)
class TreeChange:
    """A tree after a batch: what to write first, children before their parents, and what it no longer needs."""

    tree: Tree
    written: tuple[NewNode, ...] = ()
    retired: tuple[Child, ...] = ()


def apply(tree: Tree, changes: Sequence[Change], nodes: NodeSource, maker: NodeMaker) -> TreeChange:
    """The tree after `changes`, whose keys ascend: a value puts, None deletes. `tree` stays as it is.

    Changes that change nothing cost no node. 1 GET for each node reached and for each neighbour that a small one
    joins, one or two round trips a level; writes nothing. Raises CorruptionError, SnapshotTooOldError.
    """
    assert all(one[0] < other[0] for one, other in pairwise(changes)), "changes out of order"
    return _Editor(tree, changes, nodes, maker).run() if changes else TreeChange(tree)


@dataclass(slots=True)
class _ChangedNode:
    """A node that some changes lead to. `outcome` is what takes its place; None if it stays as it is."""

    ref: Child
    low: bytes
    changes: tuple[int, int]
    outcome: list[NodePart | _StoredChild] | None = None
    inner: Inner | None = None
    below: dict[int, _ChangedNode] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _StoredChild:
    """A child in the row of its parent that is stored, or made already."""

    low: bytes
    ref: Child


class _Editor:
    def __init__(self, tree: Tree, changes: Sequence[Change], nodes: NodeSource, maker: NodeMaker) -> None:
        self._tree = tree
        self._changes = changes
        self._keys = [key for key, _ in changes]
        self._nodes = nodes
        self._maker = maker
        self._limits = maker.limits
        self._made: dict[str, NewNode] = {}
        self._retired: list[Child] = []

    def run(self) -> TreeChange:
        top = self._tree.top
        if top is None:
            whole = self._merged(LeafPart(b"", [], []), (0, len(self._changes)))
            tree = Tree() if whole is None else self._rooted(whole, 1)
        else:
            reached = _ChangedNode(top, b"", (0, len(self._changes)))
            levels = self._descend(reached)
            self._rewrite_leaves(levels[-1])
            for above, level in enumerate(reversed(levels[:-1]), 1):
                self._rewrite_inners(level, above)
            if reached.outcome is None:
                return TreeChange(self._tree)
            (content,) = reached.outcome
            assert isinstance(content, NodePart), "the top is made last"
            tree = self._rooted(content, self._tree.height)
        return TreeChange(tree, tuple(self._made.values()), tuple(self._retired))

    # --- down ---

    def _descend(self, top: _ChangedNode) -> list[list[_ChangedNode]]:
        levels = [[top]]
        for _ in range(self._tree.height - 1):
            level = levels[-1]
            for reached, inner in zip(level, self._nodes.inners([node.ref for node in level]), strict=True):
                reached.inner = inner
                self._share(reached, inner)
            levels.append([below for reached in level for below in reached.below.values()])
        return levels

    def _share(self, reached: _ChangedNode, inner: Inner) -> None:
        """Which child each change of a node leads to; children come in order."""
        start, stop = reached.changes
        while start < stop:
            place = bisect_right(inner.keys, self._keys[start])
            end = stop if place == len(inner.keys) else bisect_left(self._keys, inner.keys[place], start, stop)
            low = inner.keys[place - 1] if place else reached.low
            reached.below[place] = _ChangedNode(inner.children[place], low, (start, end))
            start = end

    # --- up ---

    def _rewrite_leaves(self, level: Sequence[_ChangedNode]) -> None:
        for start in range(0, len(level), LEAVES_AT_ONCE):
            window = level[start : start + LEAVES_AT_ONCE]
            for reached, leaf in zip(window, self._nodes.leaves([node.ref for node in window]), strict=True):
                part = self._merged(LeafPart.of(reached.low, leaf), reached.changes)
                if part is not None:
                    self._retired.append(reached.ref)
                    # What may have to join a neighbour waits for it; the rest is made now, to hold no more than needed.
                    waits = self._tree.height == 1 or part.is_small(self._limits)
                    reached.outcome = [part] if waits else list(self._slots(part))

    def _merged(self, leaf: LeafPart, changes: tuple[int, int]) -> LeafPart | None:
        """A leaf with its changes, None if they change nothing."""
        entries = dict(zip(leaf.keys, leaf.items, strict=True))
        changed = False
        for key, value in self._changes[slice(*changes)]:
            if entries.get(key) == value:
                continue
            changed = True
            if value is None:
                del entries[key]
            else:
                entries[key] = value
        if not changed:
            return None
        keys = sorted(entries)
        low = _low_of(leaf.low, keys[0]) if keys else leaf.low
        return LeafPart(low, keys, [entries[key] for key in keys])

    def _rewrite_inners(self, level: Sequence[_ChangedNode], height: int) -> None:
        """Give each node of a level its new content; `height` is the level of its children, leaves are 1."""
        changed = [reached for reached in level if any(below.outcome is not None for below in reached.below.values())]
        rows = [self._joined(_row(reached)) for reached in changed]
        opened = [self._open(row) for row in rows]
        parts = iter(self._load([kept for chosen in opened for kept in chosen], height))
        for reached, row, chosen in zip(changed, rows, opened, strict=True):
            content = {kept.ref.name: part for kept, part in zip(chosen, parts, strict=False)}
            filled = [content.get(slot.ref.name, slot) if isinstance(slot, _StoredChild) else slot for slot in row]
            reached.outcome = [self._written(reached.low, self._joined(filled))]
            self._retired.append(reached.ref)

    def _joined(self, row: Sequence[NodePart | _StoredChild]) -> list[NodePart | _StoredChild]:
        """A row without empty parts, and with each small part joined to a part beside it."""
        joined: list[NodePart | _StoredChild] = []
        for slot in row:
            last = joined[-1] if joined else None
            if isinstance(slot, NodePart) and not slot.keys:
                continue
            if isinstance(slot, NodePart) and isinstance(last, NodePart) and self._is_small(last, slot):
                joined[-1] = last.joined(slot)
            else:
                joined.append(slot)
        return joined

    def _is_small(self, *parts: NodePart) -> bool:
        return any(part.is_small(self._limits) for part in parts)

    def _open(self, row: Sequence[NodePart | _StoredChild]) -> list[_StoredChild]:
        """The neighbours that small parts should join: of two one that is new, else the one with fewer entries."""
        chosen = {}
        for place, slot in enumerate(row):
            if isinstance(slot, NodePart) and slot.is_small(self._limits):
                beside = (*row[place - 1 : place], *row[place + 1 : place + 2])
                kept = [near for near in beside if isinstance(near, _StoredChild)]
                if kept:
                    near = min(kept, key=lambda near: (near.ref.name not in self._made, near.ref.count))
                    chosen[near.ref.name] = near
        return [slot for slot in row if isinstance(slot, _StoredChild) and slot.ref.name in chosen]

    def _load(self, kept: Sequence[_StoredChild], height: int) -> list[NodePart]:
        """The content of nodes that are about to be replaced."""
        refs = [slot.ref for slot in kept if slot.ref.name not in self._made]
        self._retired += refs
        stored: Iterator[Node] = iter(self._nodes.leaves(refs) if height == 1 else self._nodes.inners(refs))
        parts: list[NodePart] = []
        for slot in kept:
            new = self._made.pop(slot.ref.name, None)
            node = next(stored) if new is None else self._maker.read(new)
            parts.append(LeafPart.of(slot.low, node) if isinstance(node, Leaf) else InnerPart.of(slot.low, node))
        return parts

    def _written(self, low: bytes, row: Sequence[NodePart | _StoredChild]) -> InnerPart:
        """The parent of a row, whose parts become nodes."""
        kept = [made for slot in row for made in ([slot] if isinstance(slot, _StoredChild) else self._slots(slot))]
        # What was first may be gone: then the node begins with what is first now.
        return InnerPart(kept[0].low if kept else low, [slot.low for slot in kept], [slot.ref for slot in kept])

    def _slots(self, content: NodePart) -> Iterator[_StoredChild]:
        """A part as one new node or several."""
        for part in content.divided(self._limits):
            yield _StoredChild(part.low, self._make(part))

    def _make(self, part: NodePart) -> Child:
        new, child = self._maker.make(part.node())
        self._made[new.name] = new
        return child

    # --- the top ---

    def _rooted(self, top: NodePart, height: int) -> Tree:
        """The tree whose highest content is `top`, with as few levels as it needs."""
        while isinstance(top, InnerPart) and len(top.items) == 1:
            # An only child takes its parent's place, under a new name.
            height -= 1
            (top,) = self._load([_StoredChild(b"", top.items[0])], height)
        if not top.keys:
            return Tree()
        while len(parts := top.divided(self._limits)) > 1:
            top = self._written(b"", parts)
            height += 1
        root = self._make(parts[0])
        return Tree(self._made[root.name].ref, height, root.count)


def _low_of(low: bytes, first: bytes) -> bytes:
    """What separates a leaf from the one before it, when `first` is its first key: of no key that it had before.

    A separator is the beginning of the first key behind it; one that outlived its key would tell of it for ever.
    """
    return low if first.startswith(low) else first[: shared_prefix(low, first) + 1]


def _row(reached: _ChangedNode) -> list[NodePart | _StoredChild]:
    """The children of a node in order, the changed ones as parts."""
    assert reached.inner is not None, "a node above the leaves was read on the way down"
    lows = (reached.low, *reached.inner.keys)
    row: list[NodePart | _StoredChild] = []
    for place, (low, child) in enumerate(zip(lows, reached.inner.children, strict=True)):
        below = reached.below.get(place)
        row += [_StoredChild(low, child)] if below is None or below.outcome is None else below.outcome
    return row


# --- Building a tree from sorted entries, bottom-up, in memory that does not grow with their number.


class BulkLoad:
    """Iterate it once for the nodes to write, children before their parents; then `tree` is there.

    Each level holds back less than two nodes, so that no last node is left small.
    """

    def __init__(self, entries: Iterable[Entry], maker: NodeMaker) -> None:
        """The keys of `entries` ascend. Nothing is read yet."""
        self._entries = iter(entries)
        self._maker = maker
        self._limits = maker.limits
        self._levels: list[NodePart] = []
        self._weights: list[list[int]] = []
        self._tree: Tree | None = None

    @property
    def tree(self) -> Tree:
        """What was built, once all nodes were taken."""
        assert self._tree is not None, "nodes are left to be taken"
        return self._tree

    def __iter__(self) -> Iterator[NewNode]:
        while taken := list(islice(self._entries, self._limits.entries_target)):
            keys, values = zip(*taken, strict=True)
            yield from self._add(0, LeafPart(b"", list(keys), list(values)))
        yield from self._finish()

    def _add(self, level: int, more: NodePart) -> Iterator[NewNode]:
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

    def _emit(self, level: int, part: NodePart) -> Iterator[NewNode]:
        new, child = self._maker.make(part.node())
        yield new
        yield from self._add(level + 1, InnerPart(part.low, [part.low], [child]))

    def _finish(self) -> Iterator[NewNode]:
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
