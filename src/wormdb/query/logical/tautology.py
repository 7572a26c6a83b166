"""What every document matches becomes everything.

a = 1, or not (a = 1)           everything
a > 3, or not (a = 5)           everything: also if a has many values
not (a = 1), or not (a = 2)     everything if a has one value; an array [1, 2] matches neither
a exists, or a = null           everything; not for a.b, which may have no value at all behind an array
_id exists                      everything
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from wormdb.bql.tree import EVERYTHING, Compare, Exists, Filter, Or
from wormdb.query.logical.literals import groups_of, implies, pairs_of
from wormdb.query.logical.values import is_unusual, is_within

if TYPE_CHECKING:
    from wormdb.query.logical.scope import Scope

__all__ = ["tautology"]


def tautology(tree: Filter, scope: Scope) -> Filter:
    """Everything, if that is seen; else the filter itself."""
    if type(tree) is Or:
        return EVERYTHING if _has_tautology(tree, scope) else tree
    return EVERYTHING if _is_certain(tree, scope) else tree


def _has_tautology(tree: Or, scope: Scope) -> bool:
    for group in pairs_of(groups_of(tree, scope)):
        for (_, a), (_, b) in combinations(group, 2):
            if implies(a.opposite, b, scope):
                return True
    return False


def _is_certain(leaf: Filter, scope: Scope) -> bool:
    if not isinstance(leaf, Compare | Exists) or (type(leaf) is Compare and not is_unusual(leaf.value)):
        return False
    values = scope.values_of(leaf)
    assert values is not None
    return is_within(scope.domain(leaf.path), values.least) and scope.is_filled(leaf.path)
