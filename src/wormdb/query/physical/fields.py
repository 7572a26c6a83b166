"""The paths that a filter, an order and a projection look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.bql.projection import fields_needed
from wormdb.bql.tree import And, Everything, Not, Nothing, Or

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from wormdb.bql.projection import Projection
    from wormdb.bql.sorting import SortSpec
    from wormdb.bql.tree import Filter

__all__ = ["listed", "paths_of", "shown_by", "sorted_by"]


def paths_of(tree: Filter) -> frozenset[str]:
    """The paths of all conditions, dotted. No requests."""
    match tree:
        case Everything() | Nothing():
            return frozenset()
        case And(filters) | Or(filters):
            return frozenset().union(*map(paths_of, filters))
        case Not(child):
            return paths_of(child)
        case _:
            return frozenset([".".join(tree.path)])


def sorted_by(sort: SortSpec) -> frozenset[str]:
    """The paths of an order. No requests."""
    return frozenset(".".join(field.path) for field in sort.fields)


def shown_by(projection: Projection | None, columns: AbstractSet[str]) -> frozenset[str] | None:
    """The columns that show all that a projection does; None if only whole documents do. No requests.

    Of `a.b` a column does not tell whether a document without it has `a`, which would be shown: so the column of
    `a` is taken. Which element a query matched, only a document tells.
    """
    needed = None if projection is None or projection.arrays else fields_needed(projection)
    if needed is None:
        return None
    shown = frozenset(path.partition(".")[0] for path in needed)
    return shown if shown <= columns else None


def listed(paths: Iterable[str]) -> str:
    """Some paths for people."""
    return ", ".join(sorted(paths))
