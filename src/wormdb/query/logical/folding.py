"""Constants worked out: lists of one value and of none, and what everything and nothing make of their surroundings.

a in [1]                        a = 1
a in []                         nothing
a has all of [/x/]              a matches x
all of (a, everything)          a
an element that is nothing      nothing
a mod 3 is 5                    nothing
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.bql.tree import (
    EVERYTHING,
    NOTHING,
    All,
    And,
    ElemMatch,
    Filter,
    In,
    MatchAll,
    MatchNone,
    Mod,
    Not,
    Or,
    conjunction,
    disjunction,
)
from wormdb.query.logical.literals import condition_of

if TYPE_CHECKING:
    from wormdb.query.logical.scope import Scope

__all__ = ["folding"]


def folding(tree: Filter, _: Scope) -> Filter:
    """The filter without constants in it."""
    match tree:
        case And(filters):
            return _fold_all(tree, filters)
        case Or(filters):
            return _fold_any(tree, filters)
        case Not(child):
            return NOTHING if type(child) is MatchAll else EVERYTHING if type(child) is MatchNone else tree
        case In(path, values) | All(path, values):
            return NOTHING if not values else condition_of(path, values[0]) if len(values) == 1 else tree
        case ElemMatch(_, child):
            return NOTHING if type(child) is MatchNone else tree
        case Mod(_, divisor, remainder):
            return NOTHING if abs(remainder) >= abs(divisor) else tree
        case _:
            return tree


def _fold_all(tree: And, filters: tuple[Filter, ...]) -> Filter:
    kinds = set(map(type, filters))
    if MatchNone in kinds:
        return NOTHING
    return conjunction([item for item in filters if type(item) is not MatchAll]) if MatchAll in kinds else tree


def _fold_any(tree: Or, filters: tuple[Filter, ...]) -> Filter:
    kinds = set(map(type, filters))
    if MatchAll in kinds:
        return EVERYTHING
    return disjunction([item for item in filters if type(item) is not MatchNone]) if MatchNone in kinds else tree
