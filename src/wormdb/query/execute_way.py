"""What a plan asks for on the way from its root down to the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.query.columns.order import sort_paths
from wormdb.query.execute.rows import filter_paths
from wormdb.query.plan import Fetch, Order, Part, Residual

if TYPE_CHECKING:
    from wormdb.query.plan import Node

__all__ = ["asked_of_documents", "place_of_after"]


def place_of_after(root: Node) -> Node:
    """The node of which only the rows behind the page before count: below the first order, or else the first part."""
    way = _way_down(root)
    for kind in (Order, Part):
        places = [place for place, node in enumerate(way) if isinstance(node, kind)]
        if places:
            return way[places[-1] + 1]
    return root


def asked_of_documents(root: Node, columns: frozenset[str]) -> frozenset[str]:
    """The paths that filters and orders of a plan ask for; of an order behind a filter only those that are columns."""
    way = _way_down(root)
    filtered = frozenset[str]().union(*(filter_paths(node.filter) for node in way if isinstance(node, Residual)))
    ordered = frozenset[str]().union(*(sort_paths(node.sort) for node in way if isinstance(node, Order)))
    return filtered | (ordered & columns if filtered else ordered)


def _way_down(root: Node) -> list[Node]:
    """The nodes from the root to the first one that has no single child."""
    way = [root]
    while isinstance(node := way[-1], Fetch | Residual | Order | Part):
        way.append(node.child)
    return way
