"""Conditions with their signs, and when one implies another.

A condition holds if *some* value of its path passes. So a narrower test implies a wider one on every path, but two
tests without a common value exclude each other only where the path has a single value.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

from wormdb.bql.tree import All, Compare, Filter, Not, RegexMatch
from wormdb.format.kinds import Regex
from wormdb.format.wrappers import regex_options
from wormdb.query.logical.spans import is_apart, is_within, joined, shared

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb.format.path import Path
    from wormdb.query.logical.scope import Scope

__all__ = ["PAIRS_MAX", "Literal", "condition_of", "excludes", "groups_of", "implies", "literal_of", "pairs_of"]

PAIRS_MAX: Final = 24
"""Of so many conditions on one path, each is compared with each; of more, none."""


class Literal(NamedTuple):
    """A filter that has no negation at its top, and whether it has to match or not to match."""

    leaf: Filter
    positive: bool

    @property
    def opposite(self) -> Literal:
        """The complement."""
        return Literal(self.leaf, not self.positive)


Group: TypeAlias = "list[tuple[int, Literal]]"
"""Literals about the same thing, each with its place among the filters that they came from."""


def literal_of(child: Filter) -> Literal:
    """A filter without the negations at its top."""
    positive = True
    while type(child) is Not:
        child, positive = child.filter, not positive
    return Literal(child, positive)


def groups_of(filters: Iterable[Filter]) -> dict[Path | type, Group]:
    """The literals of the filters, by their paths; those without one by what they are."""
    groups: dict[Path | type, Group] = defaultdict(list)
    for place, child in enumerate(filters):
        literal = literal_of(child)
        groups[getattr(literal.leaf, "path", None) or _without_path(literal.leaf)].append((place, literal))
    return groups


def _without_path(leaf: Filter) -> Path | type:
    return () if hasattr(leaf, "path") else type(leaf)


def pairs_of(groups: dict[Path | type, Group]) -> list[Group]:
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
    first, second = scope.values_of(a.leaf), scope.values_of(b.leaf)
    if first is None or second is None:
        return False
    path = cast("Compare", a.leaf).path  # what is tested by values has a path
    if a.positive and b.positive:
        return is_within(shared(first.most, scope.domain(path)), second.least)
    if not a.positive and not b.positive:
        return is_within(shared(second.most, scope.domain(path)), first.least)
    if a.positive:
        common = shared(first.most, second.most)
        return (not common or is_apart(common, scope.domain(path))) and scope.is_single(path)
    return scope.is_filled(path) and is_within(scope.domain(path), joined([*first.least, *second.least]))
