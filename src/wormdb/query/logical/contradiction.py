"""What no document can match becomes nothing.

a = 1, and not (a = 1)          nothing
a = 5, and not (a > 3)          nothing: also if a has many values, for one of them is 5
a = 1, and a = 2                nothing if a has one value; an array [1, 2] matches both
a has 2 elements                nothing if a is never an array
_id = null                      nothing: no id is null
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from wormdb.bql.tree import NOTHING, All, And, Compare, ElemMatch, Filter, Size, Type
from wormdb.query.logical.literals import PAIRS_MAX, Literal, condition_of, excludes, groups_of, pairs_of
from wormdb.query.logical.values import is_apart, is_unusual

if TYPE_CHECKING:
    from wormdb.query.logical.scope import Scope

__all__ = ["contradiction"]


def contradiction(tree: Filter, scope: Scope) -> Filter:
    """Nothing, if that is seen; else the filter itself."""
    if type(tree) is And:
        return NOTHING if _has_contradiction(tree, scope) else tree
    return NOTHING if _is_impossible(tree, scope) else tree


def _has_contradiction(tree: And, scope: Scope) -> bool:
    for group in pairs_of(groups_of(tree, scope)):
        for (_, a), (_, b) in combinations(group, 2):
            if excludes(a, b, scope):
                return True
    return False


def _is_impossible(leaf: Filter, scope: Scope) -> bool:
    if isinstance(leaf, ElemMatch | Size):
        return scope.has_no_array(leaf.path)
    if type(leaf) is All:
        return _are_apart(leaf, scope)
    if not isinstance(leaf, Compare | Type) or (type(leaf) is Compare and not is_unusual(leaf.value)):
        return False
    values = scope.values_of(leaf)
    return values is not None and is_apart(values.most, scope.domain(leaf.path))


def _are_apart(leaf: All, scope: Scope) -> bool:
    """Whether one value would have to be two."""
    if not 1 < len(leaf.values) <= PAIRS_MAX or not scope.is_single(leaf.path):
        return False
    asked = [Literal(condition_of(leaf.path, value), positive=True) for value in leaf.values]
    return any(excludes(a, b, scope) for a, b in combinations(asked, 2))
