"""Negations that cancel out: not (not a) is a, and what is negated in a negated list is lifted out of it.

De Morgan's laws are used only where conditions lose their negation, because a plan can look for what has to be there
and not for what has not:

    none of (not a, not b, c, d)    a, and b, and none of (c, d)
    not all of (not a, not b)       a, or b
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.bql.tree import And, Filter, Not, Or, conjunction, disjunction

if TYPE_CHECKING:
    from wormdb.query.logical.scope import Scope

__all__ = ["double_negation"]


def double_negation(tree: Filter, _: Scope) -> Filter:
    """A negation without negations directly below it."""
    assert type(tree) is Not
    child = tree.filter
    if type(child) is Not:
        return child.filter
    if type(child) is Or:
        return _lifted(tree, child)
    if type(child) is And:
        lifted = [item.filter for item in child.filters if type(item) is Not]
        return disjunction(lifted) if len(lifted) == len(child.filters) else tree
    return tree


def _lifted(tree: Not, child: Or) -> Filter:
    lifted = [item.filter for item in child.filters if type(item) is Not]
    if not lifted:
        return tree
    rest = [item for item in child.filters if type(item) is not Not]
    return conjunction([*lifted, Not(disjunction(rest))] if rest else lifted)
