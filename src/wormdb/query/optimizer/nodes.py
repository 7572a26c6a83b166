"""Going through a plan from its leaves up."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from wormdb.query.plan import Fetch, Intersection, Order, Part, Residual, Union

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.query.plan import IdLookup, IndexScan, Node

__all__ = ["rebuilt"]


def rebuilt(node: Node, change: Callable[[Node], Node]) -> Node:
    """The tree with every node changed, those below first; the same object if nothing did. No requests."""
    if isinstance(node, Fetch | Residual | Order | Part):
        child = rebuilt(node.child, change)
        return change(node if child is node.child else replace(node, child=child))
    if isinstance(node, Union | Intersection):
        children = tuple([_ids(rebuilt(child, change)) for child in node.children])
        same = all(map(lambda one, other: one is other, children, node.children))
        return change(node if same else type(node)(children))
    return change(node)


def _ids(node: Node) -> IndexScan | Union | Intersection | IdLookup:
    from wormdb.query.plan import IdLookup, IndexScan

    assert isinstance(node, IndexScan | Union | Intersection | IdLookup), "a part of ids stays one"
    return node
