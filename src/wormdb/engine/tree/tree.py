"""Reading a tree: look-ups, ranges in both directions, counts.

A tree is a value, so a reader sees one state however long it takes. Requests are counted in nodes: those of the
upper levels are few and stay in caches.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wormdb.engine.tree.entries import ALL_ENTRIES, Entry, Range
from wormdb.errors import CorruptionError, Problem, SnapshotTooOldError, UnsupportedFormatError
from wormdb.format.node import Child, Inner, Leaf, Node

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.engine.tree.nodes import NodeSource, Tree

__all__ = ["TreeReader", "entries_of", "overlapping", "verify"]


LEAVES_AHEAD_MAX: Final = 16
"""Leaves that a scan asks for at once, after it has begun with fewer."""


def overlapping(node: Inner, span: Range) -> slice:
    """Which children of a node may hold keys of a range that is not empty."""
    first = bisect_right(node.keys, span.low)
    last = len(node.keys) if span.high is None else bisect_left(node.keys, span.high)
    return slice(first, last + 1)


@dataclass(slots=True)
class _Pace:
    """How many leaves to ask for next: few at first, and never more than the rest of a limit needs."""

    remaining: int | None
    ahead: int = 1

    def take(self, children: Sequence[Child], start: int) -> int:
        """How many of the leaves from `start` on to ask for now."""
        if self.remaining is None:
            count, self.ahead = self.ahead, min(2 * self.ahead, LEAVES_AHEAD_MAX)
            return count
        entries = 0
        for count, child in enumerate(children[start : start + LEAVES_AHEAD_MAX], 1):
            entries += child.count
            if entries >= self.remaining:
                return count
        return LEAVES_AHEAD_MAX


@dataclass(frozen=True, slots=True)
class TreeReader:
    """One state of an index and where its nodes come from.

    Every method may raise CorruptionError, naming the damaged node, and SnapshotTooOldError if a
    newer state has replaced this one so long ago that its nodes were removed.
    """

    tree: Tree
    nodes: NodeSource

    def get(self, key: bytes) -> bytes | None:
        """The value of a key. As many GETs as the tree has levels, fewer if nodes are held."""
        child = self.tree.top
        if child is None:
            return None
        for _ in range(self.tree.height - 1):
            (inner,) = self.nodes.inners([child])
            child = inner.children[bisect_right(inner.keys, key)]
        (leaf,) = self.nodes.leaves([child])
        place = bisect_left(leaf.keys, key)
        return leaf.values[place] if place < len(leaf.keys) and leaf.keys[place] == key else None

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of keys, in their order. 1 GET for each node touched, one round trip a level."""
        found = self.ranges([Range.between(key, key) for key in keys])
        return [entries[0][1] if entries else None for entries in found]

    def prefix_many(self, prefixes: Sequence[bytes]) -> list[list[Entry]]:
        """The entries under each of some prefixes. 1 GET for each node touched, one round trip a level."""
        return self.ranges([Range.prefix(prefix) for prefix in prefixes])

    def ranges(self, spans: Sequence[Range]) -> list[list[Entry]]:
        """The entries of each of some ranges, all in memory. 1 GET for each node touched, one round trip a level."""
        if len(spans) == 1:
            return [self._range(spans[0])]
        found: list[list[Entry]] = [[] for _ in spans]
        top = self.tree.top
        wanted = [place for place, span in enumerate(spans) if not span.empty]
        if top is None or not wanted:
            return found
        frontier = [(top, wanted)]
        for _ in range(self.tree.height - 1):
            inners = self.nodes.inners([child for child, _ in frontier])
            frontier = [
                share
                for inner, (_, places) in zip(inners, frontier, strict=True)
                for share in _shares(inner, spans, places)
            ]
        leaves = self.nodes.leaves([child for child, _ in frontier])
        for leaf, (_, places) in zip(leaves, frontier, strict=True):
            for place in places:
                found[place] += entries_of(leaf, spans[place])
        return found

    def _range(self, span: Range) -> list[Entry]:
        top = self.tree.top
        if top is None or (span.high is not None and span.high <= span.low):
            return []
        children: tuple[Child, ...] = (top,)
        for _ in range(self.tree.height - 1):
            inners = self.nodes.inners(children)
            if len(inners) == 1:
                children = inners[0].children[overlapping(inners[0], span)]
            else:
                children = tuple([child for inner in inners for child in inner.children[overlapping(inner, span)]])
        found: list[Entry] = []
        for leaf in self.nodes.leaves(children):
            found += entries_of(leaf, span)
        return found

    def scan(self, span: Range = ALL_ENTRIES, *, reverse: bool = False, limit: int | None = None) -> Iterator[Entry]:
        """The entries of a range in order of key, or against it.

        1 GET for each node touched. Leaves are asked for side by side: 1, 2, 4 and up to 16 at once, or as many
        as `limit` needs by the counts of their parents.
        """
        top = self.tree.top
        if top is None or span.empty or limit == 0:
            return
        pace = _Pace(limit)
        for leaf in self._leaves([top], self.tree.height, span, reverse, pace):
            entries = entries_of(leaf, span)
            if reverse:
                entries.reverse()
            if pace.remaining is None:
                yield from entries
                continue
            yield from entries[: pace.remaining]
            pace.remaining -= len(entries)
            if pace.remaining <= 0:
                return

    def prefix(self, prefix: bytes, *, reverse: bool = False, limit: int | None = None) -> Iterator[Entry]:
        """The entries whose keys start with `prefix`; costs as `scan`."""
        return self.scan(Range.prefix(prefix), reverse=reverse, limit=limit)

    def leaf_refs(self) -> Iterator[Child]:
        """Every leaf in order of key, as its parent names it. 1 GET for each node above the leaves."""
        return (child for child, level in self.refs() if level == 1)

    def refs(self) -> Iterator[tuple[Child, int]]:
        """Every node with its level, where leaves are 1, parents first. 1 GET for each node above the leaves."""
        top = self.tree.top
        if top is not None:
            yield from self._refs(top, self.tree.height)

    def _refs(self, child: Child, level: int) -> Iterator[tuple[Child, int]]:
        yield child, level
        if level > 1:
            (inner,) = self.nodes.inners([child])
            for below in inner.children:
                yield from self._refs(below, level - 1)

    def count(self, span: Range = ALL_ENTRIES) -> int:
        """How many entries a range has, without reading what lies inside: 2 GETs a level at most."""
        return self.count_many([span])[0]

    def count_many(self, spans: Sequence[Range]) -> list[int]:
        """How many entries each of some ranges has. 2 GETs a level and range at most, one round trip a level."""
        totals = [0] * len(spans)
        top = self.tree.top
        wanted = [place for place, span in enumerate(spans) if not span.empty]
        if top is None or not wanted:
            return totals
        frontier = _settle([_Bounded(top, b"", None, wanted)], spans, totals)
        for _ in range(self.tree.height - 1):
            inners = self.nodes.inners([node.child for node in frontier])
            ends = [
                end for inner, node in zip(inners, frontier, strict=True) for end in _ends(inner, node, spans, totals)
            ]
            frontier = _settle(ends, spans, totals)
        for leaf, node in zip(self.nodes.leaves([node.child for node in frontier]), frontier, strict=True):
            for place in node.places:
                chosen = _within(leaf, spans[place])
                totals[place] += chosen.stop - chosen.start
        return totals

    def _leaves(self, children: Sequence[Child], level: int, span: Range, reverse: bool, pace: _Pace) -> Iterator[Leaf]:
        if level == 1:
            start = 0
            while start < len(children):
                stop = start + pace.take(children, start)
                yield from self.nodes.leaves(children[start:stop])
                start = stop
            return
        for child in children:
            (inner,) = self.nodes.inners([child])
            below = inner.children[overlapping(inner, span)]
            yield from self._leaves(below[::-1] if reverse else below, level - 1, span, reverse, pace)


def _shares(inner: Inner, spans: Sequence[Range], places: Sequence[int]) -> list[tuple[Child, list[int]]]:
    """The children that some of the ranges reach, in order of key, each with those ranges."""
    shares: dict[int, list[int]] = {}
    for place in places:
        chosen = overlapping(inner, spans[place])
        for child in range(chosen.start, chosen.stop):
            shares.setdefault(child, []).append(place)
    return [(inner.children[child], shares[child]) for child in sorted(shares)]


@dataclass(frozen=True, slots=True)
class _Bounded:
    """A node, the range of keys it may hold, and the ranges to count that reach into it."""

    child: Child
    low: bytes
    high: bytes | None
    places: list[int]

    def lies_in(self, span: Range) -> bool:
        return span.low <= self.low and (span.high is None or (self.high is not None and self.high <= span.high))


def _settle(nodes: Sequence[_Bounded], spans: Sequence[Range], totals: list[int]) -> list[_Bounded]:
    """Count the nodes that lie inside a range whole; return those that reach over an end of one."""
    left = []
    for node in nodes:
        over = []
        for place in node.places:
            if node.lies_in(spans[place]):
                totals[place] += node.child.count
            else:
                over.append(place)
        if over:
            left.append(_Bounded(node.child, node.low, node.high, over))
    return left


def _ends(inner: Inner, node: _Bounded, spans: Sequence[Range], totals: list[int]) -> list[_Bounded]:
    """The first and the last child that each range reaches; those between lie inside it and are counted."""
    shares: dict[int, list[int]] = {}
    for place in node.places:
        chosen = overlapping(inner, spans[place])
        first, last = chosen.start, chosen.stop - 1
        totals[place] += sum(child.count for child in inner.children[first + 1 : last])
        for child in {first, last}:
            shares.setdefault(child, []).append(place)
    lows, highs = (node.low, *inner.keys), (*inner.keys, node.high)
    return [_Bounded(inner.children[child], lows[child], highs[child], share) for child, share in shares.items()]


def entries_of(leaf: Leaf, span: Range) -> list[Entry]:
    """The entries of a leaf in a range."""
    first = bisect_left(leaf.keys, span.low)
    last = len(leaf.keys) if span.high is None else bisect_left(leaf.keys, span.high)
    return list(zip(leaf.keys[first:last], leaf.values[first:last], strict=True))


def _within(leaf: Leaf, span: Range) -> slice:
    last = len(leaf.keys) if span.high is None else bisect_left(leaf.keys, span.high)
    return slice(bisect_left(leaf.keys, span.low), last)


# --- Check a whole tree: every node against what its parent says of it.

NODES_AT_ONCE: Final = 16

_Limits = tuple["Child", bytes, "bytes | None"]


def verify(tree: Tree, nodes: NodeSource) -> list[Problem]:
    """Everything that is wrong with a tree, each with the object key of the node; nothing if it is sound.

    Hashes, kinds, levels, the order of keys, separators, counts, and that no node is named twice. What lies below a
    node that cannot be read is not looked at. 1 GET a node, 16 side by side.
    """
    if tree.root is None:
        sound = tree.height == tree.entries == 0
        return [] if sound else [Problem("", f"a tree without nodes should have {tree.entries} entries")]
    top = tree.top
    assert top is not None
    return list(_TreeCheck(nodes).below([(top, b"", None)], tree.height))


class _TreeCheck:
    def __init__(self, nodes: NodeSource) -> None:
        self._nodes = nodes
        self._seen: set[str] = set()

    def below(self, children: Sequence[_Limits], level: int) -> Iterator[Problem]:
        """Problems of nodes of one level, where leaves are level 1, and of all beneath them."""
        for start in range(0, len(children), NODES_AT_ONCE):
            window = children[start : start + NODES_AT_ONCE]
            for (child, low, high), node in zip(
                window, self._fetch([child for child, _, _ in window], level), strict=True
            ):
                if isinstance(node, Problem):
                    yield node
                    continue
                yield from (
                    Problem(self._nodes.key(child.name), fault) for fault in self._faults(child, node, low, high)
                )
                if isinstance(node, Inner):
                    bounds = zip(node.children, (low, *node.keys), (*node.keys, high), strict=True)
                    yield from self.below(list(bounds), level - 1)

    def _fetch(self, refs: Sequence[Child], level: int) -> Sequence[Node | Problem]:
        fetch = self._nodes.leaves if level == 1 else self._nodes.inners
        try:
            return fetch(refs)
        except (CorruptionError, SnapshotTooOldError, UnsupportedFormatError) as error:
            if len(refs) > 1:
                return [found for ref in refs for found in self._fetch([ref], level)]
            return [Problem(error.key or self._nodes.key(refs[0].name), error.reason, error.fix)]

    def _faults(self, child: Child, node: Node, low: bytes, high: bytes | None) -> Iterator[str]:
        if child.name in self._seen:
            yield "it is in the tree twice"
        self._seen.add(child.name)
        inner = isinstance(node, Inner)
        count = sum(below.count for below in node.children) if isinstance(node, Inner) else len(node.keys)
        if count != child.count:
            yield f"it has {count} entries and its parent says {child.count}"
        # A separator may not repeat its parent's: the child between the two could hold nothing.
        if node.keys and (node.keys[0] < low or (inner and node.keys[0] == low)):
            yield "its first key is below the separator of its parent"
        if node.keys and high is not None and node.keys[-1] >= high:
            yield "its last key is not below the next separator of its parent"
        if not node.keys and not inner:
            yield "it is a leaf without entries"
