"""Lists in lists of the same kind become one: all of (all of (a, b), c) is all of (a, b, c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.bql.tree import And, Filter, Or

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.query.logical.scope import Scope

__all__ = ["flatten"]


def flatten(tree: Filter, _: Scope) -> Filter:
    """The list with the items of its lists of the same kind in their places, at every depth."""
    assert isinstance(tree, And | Or)
    kind = type(tree)
    if not any(type(child) is kind for child in tree.filters):
        return tree
    return kind(tuple(_items(tree)))


def _items(tree: And | Or) -> Iterator[Filter]:
    for child in tree.filters:
        if isinstance(child, And | Or) and type(child) is type(tree):
            yield from _items(child)
        else:
            yield child
