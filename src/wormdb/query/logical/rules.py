"""The rules in their order, and how they run: from the leaves up, each filter until no rule changes it.

Every rule is exact: the smaller filter matches the same documents, whatever arrays, nulls and missing fields they have.
No rule makes a filter longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from operator import is_
from typing import TYPE_CHECKING, Final, NamedTuple

from wormdb.bql.tree import All, And, Compare, ElemMatch, Exists, Filter, In, Mod, Not, Or, Size, Type
from wormdb.query.logical.contradiction import contradiction
from wormdb.query.logical.double_negation import double_negation
from wormdb.query.logical.flatten import flatten
from wormdb.query.logical.folding import folding
from wormdb.query.logical.redundancy import redundancy
from wormdb.query.logical.scope import Scope, always_true
from wormdb.query.logical.tautology import tautology

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from wormdb.format.path import Path

    Step = Callable[[Filter, Scope], Filter]

__all__ = ["PASSES_MAX", "RULES", "FilterRule", "simplify"]

PASSES_MAX: Final = 100
"""Changes of one filter; each leaves less, so this only guards against a mistake in a rule."""


@dataclass(frozen=True, slots=True)
class FilterRule:
    """A change of one filter whose parts are settled; it returns the filter itself where there is nothing to do."""

    name: str
    on: tuple[type[Filter], ...]
    """The filters that it is for."""
    apply: Step
    is_early: bool = False
    """Whether it also runs before the parts are settled, to spare them work."""


RULES: Final = (
    FilterRule("folding", (And, Or, Not, In, All, ElemMatch, Mod), folding),
    FilterRule("flatten", (And, Or), flatten, is_early=True),
    FilterRule("double_negation", (Not,), double_negation),
    FilterRule("contradiction", (And, Compare, ElemMatch, Size, All, Type), contradiction),
    FilterRule("tautology", (Or, Compare, Exists), tautology),
    FilterRule("redundancy", (And, Or), redundancy),
)
"""In this order at every filter."""


def simplify(tree: Filter, *, arrays: Callable[[Path], bool] = always_true, without: Collection[str] = ()) -> Filter:
    """A filter that matches the same documents and is not longer; the filter itself if it cannot be made shorter.

    `arrays` tells whether some document may have an array at a path or on the way. `without` names rules to leave out.
    Documents have an `_id` as the engine takes it. No requests.
    """
    return _settled(tree, Scope(arrays), _steps(frozenset(without)))


class _Steps(NamedTuple):
    """What runs on each kind of filter, before and after its parts are settled."""

    early: Mapping[type, tuple[Step, ...]]
    late: Mapping[type, tuple[Step, ...]]


@lru_cache(maxsize=128)
def _steps(without: frozenset[str]) -> _Steps:
    rules = [rule for rule in RULES if rule.name not in without]
    return _Steps(_by_kind([rule for rule in rules if rule.is_early]), _by_kind(rules))


def _by_kind(rules: Sequence[FilterRule]) -> Mapping[type, tuple[Step, ...]]:
    kinds = {kind for rule in rules for kind in rule.on}
    return {kind: tuple(rule.apply for rule in rules if kind in rule.on) for kind in kinds}


def _settled(tree: Filter, scope: Scope, steps: _Steps) -> Filter:
    for _ in range(PASSES_MAX):
        if id(tree) in scope.settled:
            break
        for step in steps.early.get(type(tree), ()):
            tree = step(tree, scope)
        tree = _with_settled_parts(tree, scope, steps)
        for step in steps.late.get(type(tree), ()):
            changed = step(tree, scope)
            if changed is not tree:
                tree = changed
                break
        else:
            scope.settled[id(tree)] = tree
            break
    return tree


def _with_settled_parts(tree: Filter, scope: Scope, steps: _Steps) -> Filter:
    if isinstance(tree, And | Or):
        parts = tuple([_settled(child, scope, steps) for child in tree.filters])
        return tree if all(map(is_, parts, tree.filters)) else type(tree)(parts)
    if type(tree) is Not:
        part = _settled(tree.filter, scope, steps)
        return tree if part is tree.filter else Not(part)
    if type(tree) is ElemMatch:
        part = _settled(tree.filter, scope.within(), steps)
        return tree if part is tree.filter else ElemMatch(tree.path, part, tree.kind)
    return tree
