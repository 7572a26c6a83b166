"""Conditions with their signs, and when one implies another.

A condition holds if *some* value of its path passes. So a narrower test implies a wider one on every path, but two
tests without a common value exclude each other only where the path has a single value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from wormdb.bql.tree import All, And, Compare, Filter, Not, Or, RegexMatch
from wormdb.format.kinds import Regex
from wormdb.format.wrappers import regex_options
from wormdb.query.logical.values import intersect_spans, is_apart, is_within, join_spans

if TYPE_CHECKING:
    from wormdb.format.path import Path
    from wormdb.query.logical.scope import Scope

__all__ = [
    "PAIRS_MAX",
    "Group",
    "Groups",
    "Literal",
    "condition_of",
    "excludes",
    "groups_of",
    "implies",
    "literal_of",
    "pairs_of",
    "subject_of",
]

PAIRS_MAX: Final = 24
"""Up to this many conditions on one path are compared with each other; of more, none are."""


class Literal(NamedTuple):
    """A filter that has no negation at its top, and whether it has to match or not to match."""

    leaf: Filter
    positive: bool

    @property
    def opposite(self) -> Literal:
        """The complement."""
        return Literal(self.leaf, not self.positive)


Group: TypeAlias = list[tuple[int, Literal]]
"""Literals about the same thing, each with its place in the list that they came from."""

Groups: TypeAlias = "dict[Path | type, Group]"
"""Literals by what they are about."""


def literal_of(child: Filter) -> Literal:
    """A filter without the negations at its top."""
    positive = True
    while type(child) is Not:
        child, positive = child.filter, not positive
    return Literal(child, positive)


def groups_of(tree: And | Or, scope: Scope) -> Groups:
    """The literals of a list by what they are about; made once for all rules."""
    known = scope.groups.get(id(tree))
    if known is None:
        groups: Groups = {}
        for place, child in enumerate(tree.filters):
            literal = literal_of(child)
            groups.setdefault(subject_of(literal), []).append((place, literal))
        scope.groups[id(tree)] = known = tree, groups
    return known[1]


def subject_of(literal: Literal) -> Path | type:
    """What a literal is about: its path, or what it is if it has none."""
    path: Path | type = getattr(literal.leaf, "path", type(literal.leaf))
    return path


def pairs_of(groups: Groups) -> list[Group]:
    """The groups whose literals should be compared with each other."""
    return [group for group in groups.values() if 1 < len(group) <= PAIRS_MAX]


def condition_of(path: Path, value: Any) -> Filter:
    """What one value of $in or $all asks."""
    if type(value) is Regex:
        return RegexMatch(path, value.pattern, "".join(sorted(set(regex_options(value)) - {"u"})))
    return Compare(path, "eq", value)


def excludes(a: Literal, b: Literal, scope: Scope) -> bool:
    """Whether no document can match both."""
    return implies(a, b.opposite, scope)


def implies(a: Literal, b: Literal, scope: Scope) -> bool:
    """Whether every document that matches `a` matches `b`; both are of one group. False where it is not known."""
    if a.leaf is b.leaf:
        return a.positive is b.positive
    if type(a.leaf) is All or type(b.leaf) is All:
        return _implies_by_parts(a, b, scope)
    return _implies_by_values(a, b, scope) or (a.positive is b.positive and _is_same(a.leaf, b.leaf, scope))


def _implies_by_parts(a: Literal, b: Literal, scope: Scope) -> bool:
    """$all of several values is all of several conditions, and its complement any of their complements."""
    if not a.positive and (parts := _parts(a)):
        return all(implies(part, b, scope) for part in parts)
    if b.positive and (parts := _parts(b)):
        return all(implies(a, part, scope) for part in parts)
    return any(implies(part, b, scope) for part in _parts(a)) or any(implies(a, part, scope) for part in _parts(b))


def _parts(literal: Literal) -> list[Literal]:
    if type(literal.leaf) is not All or len(literal.leaf.values) > PAIRS_MAX:
        return []
    path = literal.leaf.path
    return [Literal(condition_of(path, value), literal.positive) for value in literal.leaf.values]


def _is_same(a: Filter, b: Filter, scope: Scope) -> bool:
    """Whether two filters are written in the same way; exact sets of values tell more than that."""
    if type(a) is not type(b):
        return False
    values = scope.values_of(a)
    return (values is None or not values.is_exact) and a == b


def _implies_by_values(a: Literal, b: Literal, scope: Scope) -> bool:
    path: Path | None = getattr(a.leaf, "path", None)
    if path is None or (a.positive and not b.positive and not scope.is_single(path)):
        return False
    first, second = scope.values_of(a.leaf), scope.values_of(b.leaf)
    if first is None or second is None:
        return False
    if a.positive is not b.positive:
        if a.positive:
            return is_apart(intersect_spans(first.most, second.most), scope.domain(path))
        return scope.is_filled(path) and is_within(scope.domain(path), join_spans([*first.least, *second.least]))
    if not a.positive:
        first, second = second, first
    return is_within(intersect_spans(first.most, scope.domain(path)), second.least)
