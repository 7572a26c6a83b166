"""Conditions that say nothing new go, and lists of values are joined.

    a > 3, and a > 5                a > 5: also if a has many values
    a > 3, or a > 5                 a > 3
    a = 1, or a in [2, 3]           a in [1, 2, 3]
    not (a = 1), and not (a = 2)    not (a in [1, 2])
    a in [1, 2, 3], and a > 1       a in [2, 3] if a has one value
    a = 1, and not (a = 2)          a = 1 if a has one value
    a, and any of (a, b)            a
    a, and any of (not a, b)        a, and b

Any of several is the complement of all of their complements. So there is one piece of code for both: under an `Or`
every sign is turned round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wormdb.bql.tree import And, Compare, Filter, In, Or, conjunction, disjunction, negation
from wormdb.format.key import encode_key
from wormdb.format.kinds import Regex
from wormdb.query.logical.literals import (
    PAIRS_MAX,
    Literal,
    excludes,
    groups_of,
    implies,
    literal_of,
    pairs_of,
    subject_of,
)
from wormdb.query.logical.values import has_all, has_any, point_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb.query.logical.literals import Group, Groups
    from wormdb.query.logical.scope import Scope

__all__ = ["redundancy"]


def redundancy(tree: Filter, scope: Scope) -> Filter:
    """The list with one redundancy less; itself if there is none."""
    assert isinstance(tree, And | Or)
    groups = groups_of(tree, scope)
    dual = Or if type(tree) is And else And
    if len(groups) == len(tree.filters) and dual not in groups:
        return tree  # every condition is about something else
    work = _Work(tree, groups, scope)
    for step in (work.join_lists, work.drop_implied, work.trim_lists, work.shorten_clauses):
        step()
        if work.is_changed:
            return work.result()
    return tree


class _Work:
    """The items of one list, and what has become of them. All signs are those that they would have under an `And`."""

    def __init__(self, tree: And | Or, groups: Groups, scope: Scope) -> None:
        self.is_changed = False
        self._is_and = type(tree) is And
        self._items: list[Filter | None] = list(tree.filters)
        self._groups = groups if self._is_and else {key: list(_turned(group)) for key, group in groups.items()}
        self._scope = scope

    def result(self) -> Filter:
        """The list of what is left."""
        kept = [item for item in self._items if item is not None]
        return conjunction(kept) if self._is_and else disjunction(kept)

    def join_lists(self) -> None:
        """What must equal none of several values: one list of them."""
        for group in self._groups.values():
            equal = [(place, each.leaf) for place, each in group if not each.positive and _values(each.leaf)]
            if len(equal) > 1:
                (place, first), *others = equal
                assert isinstance(first, In | Compare)
                joined = _distinct(value for _, leaf in equal for value in _values(leaf))
                self._set(place, Literal(In(first.path, joined), positive=False))
                for place, _ in others:
                    self._set(place, None)

    def drop_implied(self) -> None:
        """What another condition implies."""
        for group in pairs_of(self._groups):
            left: Group = []
            for place, literal in group:
                if any(implies(other, literal, self._scope) for _, other in left):
                    self._set(place, None)
                    continue
                for dropped in [item for item in left if implies(literal, item[1], self._scope)]:
                    self._set(dropped[0], None)
                    left.remove(dropped)
                left.append((place, literal))

    def trim_lists(self) -> None:
        """Values in lists that other conditions exclude, where there is only one value."""
        for group in pairs_of(self._groups):
            for place, literal in group:
                leaf = literal.leaf
                if type(leaf) is In and literal.positive and self._scope.is_single(leaf.path):
                    others = [other for _, other in group if other is not literal]
                    kept = tuple([value for value in leaf.values if self._is_possible(value, others)])
                    if len(kept) < len(leaf.values):
                        self._set(place, Literal(In(leaf.path, kept), positive=True))
                        return  # the others were compared with the longer list

    def _is_possible(self, value: Any, others: list[Literal]) -> bool:
        if type(value) is Regex:
            return True
        point = point_of(value)
        for leaf, positive in others:
            values = self._scope.values_of(leaf)
            if values is not None and not (
                has_any(values.most, point) if positive else not has_all(values.least, point)
            ):
                return False
        return True

    def shorten_clauses(self) -> None:
        """Any of several, one of which holds already or cannot hold any more."""
        for place, _ in self._groups.get(Or if self._is_and else And, ()):
            clause = self._items[place]
            if not isinstance(clause, And | Or):  # it is negated
                continue
            found = [self._known(child) for child in clause.filters]
            if True in found:
                self._items[place] = None
                self.is_changed = True
            elif False in found:
                kept = [child for child, known in zip(clause.filters, found, strict=True) if known is None]
                self._items[place] = disjunction(kept) if self._is_and else conjunction(kept)
                self.is_changed = True

    def _known(self, child: Filter) -> bool | None:
        """Whether the other conditions imply an item of a clause, or its complement."""
        literal = literal_of(child)
        group = self._groups.get(subject_of(literal), ())
        if not group or len(group) > PAIRS_MAX or isinstance(child, And | Or):
            return None
        literal = literal if self._is_and else literal.opposite
        if any(implies(other, literal, self._scope) for _, other in group):
            return True
        return False if any(excludes(other, literal, self._scope) for _, other in group) else None

    def _set(self, place: int, literal: Literal | None) -> None:
        self.is_changed = True
        if literal is None:
            self._items[place] = None
        else:
            self._items[place] = literal.leaf if literal.positive is self._is_and else negation(literal.leaf)


def _turned(group: Group) -> Group:
    return [(place, literal.opposite) for place, literal in group]


def _values(leaf: Filter) -> tuple[Any, ...]:
    """The values of a condition that is a list of values, or one."""
    if type(leaf) is In:
        return leaf.values
    if type(leaf) is not Compare or leaf.op != "eq" or type(leaf.value) is Regex:  # in a list that would match texts
        return ()
    return (leaf.value,)


def _distinct(values: Iterable[Any]) -> tuple[Any, ...]:
    """In the order of a list, each once."""
    by_key: dict[bytes, Any] = {}
    for value in values:
        by_key.setdefault(encode_key(value), value)
    return tuple([by_key[key] for key in sorted(by_key)])
