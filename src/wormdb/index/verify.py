"""Check a whole tree: every node against what its parent says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wormdb.errors import CorruptionError, Problem, SnapshotTooOldError, UnsupportedFormatError
from wormdb.format.node import Inner

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.engine.tree.nodes import NodeSource, Tree
    from wormdb.format.node import Child, Node

__all__ = ["verify"]

NODES_AT_ONCE: Final = 16

_Bounded = tuple["Child", bytes, "bytes | None"]


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
    return list(_Check(nodes).below([(top, b"", None)], tree.height))


class _Check:
    def __init__(self, nodes: NodeSource) -> None:
        self._nodes = nodes
        self._seen: set[str] = set()

    def below(self, children: Sequence[_Bounded], level: int) -> Iterator[Problem]:
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
