"""What leaves out most comes first: conditions of a filter, and the parts of an intersection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.bql.tree import And, ElemMatch, Filter, Or, RegexMatch
from wormdb.query.plan import IdLookup, IndexScan, Intersection, Node, Residual, Union, rebuild

if TYPE_CHECKING:
    from wormdb.query.selectivity import Selectivity

__all__ = ["selective_first"]


def selective_first(node: Node, selectivity: Selectivity) -> Node:
    """A plan whose tests are in the order that ends soonest. No requests."""

    def change(each: Node) -> Node:
        if isinstance(each, Residual) and isinstance(each.filter, And):
            # Sorting keeps the order of those that are equally good.
            ranked = tuple(sorted(each.filter.filters, key=lambda one: _effort(one) * selectivity.share(one)))
            return each if ranked == each.filter.filters else Residual(each.child, And(ranked))
        if isinstance(each, Intersection):
            children = tuple(sorted(each.children, key=lambda one: _size(one, selectivity)))
            return each if children == each.children else Intersection(children)
        return each

    return rebuild(node, change)


def _effort(tree: Filter) -> float:
    """How long a test takes, with a comparison as 1."""
    if isinstance(tree, And | Or):
        return float(sum(map(_effort, tree.filters)))
    return 4.0 if isinstance(tree, RegexMatch | ElemMatch) else 1.0


def _size(child: IndexScan | Union | Intersection | IdLookup, selectivity: Selectivity) -> float:
    if isinstance(child, IdLookup):
        return float(len(child.keys))
    if isinstance(child, IndexScan):
        return selectivity.entries(child.index, child.spans)
    sizes = [_size(each, selectivity) for each in child.children]
    return min(sizes, default=0.0) if isinstance(child, Intersection) else sum(sizes)
