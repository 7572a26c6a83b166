"""A part of an intersection that another part implies, or of a union that another part has, is not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.query.physical.terms import intersect_ranges
from wormdb.query.plan import IdLookup, IndexScan, Intersection, Node, Union, rebuild

if TYPE_CHECKING:
    from wormdb.query.selectivity import Selectivity

    Ids = IndexScan | Union | Intersection | IdLookup

__all__ = ["redundant_scans"]


def redundant_scans(node: Node, _: Selectivity) -> Node:
    """A plan without parts that change nothing. No requests."""
    return rebuild(node, _dropped)


def _dropped(node: Node) -> Node:
    if isinstance(node, Union):
        kept = [one for place, one in enumerate(node.children) if not _is_held(place, node.children)]
        return node if len(kept) == len(node.children) else Union(tuple(kept))
    if isinstance(node, Intersection):
        kept = [one for place, one in enumerate(node.children) if not _is_implied(place, node.children)]
        return node if len(kept) == len(node.children) else Intersection(tuple(kept))
    return node


def _is_held(place: int, children: tuple[Ids, ...]) -> bool:
    """Whether another child has all rows of this one; of equal ones the first is kept."""
    one = children[place]
    return any(
        _is_part(one, other) and (number < place or not _is_part(other, one))
        for number, other in enumerate(children)
        if number != place
    )


def _is_implied(place: int, children: tuple[Ids, ...]) -> bool:
    """Whether this child has all rows of another one."""
    one = children[place]
    return any(
        _is_part(other, one) and (number < place or not _is_part(one, other))
        for number, other in enumerate(children)
        if number != place
    )


def _is_part(one: Ids, other: Ids) -> bool:
    """Whether the first has no row that the second has not."""
    if isinstance(one, IndexScan) and isinstance(other, IndexScan):
        return one.index == other.index and intersect_ranges(one.spans, other.spans) == one.spans
    if isinstance(one, IdLookup) and isinstance(other, IdLookup):
        return set(one.keys) <= set(other.keys)
    return one == other
