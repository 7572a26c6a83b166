"""Named predicates: filters that a collection knows by name, and `{"$fn": name}` in another filter.

A function is a filter and never code. It may use others, as long as none uses itself in the end. Before anything is
asked, each use is replaced by what the name stands for, so that a filter with functions is an ordinary filter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wormdb.bql.tree import And, Filter, FunctionCall, Not, Or, calls_in, conjunction, disjunction, has_calls, negation
from wormdb.errors import InvalidRequestError, LimitExceededError, NotFoundError
from wormdb.schema.problems import did_you_mean
from wormdb.settings import FILTER_CONDITIONS_MAX, FILTER_DEPTH_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping


__all__ = ["Functions"]


@dataclass(frozen=True, slots=True)
class Functions:
    """The functions of one collection, by name."""

    bodies: Mapping[str, Filter] = field(default_factory=dict)
    collection: str = ""

    def expanded(self, tree: Filter) -> Filter:
        """The filter without names: what each stands for is in its place. No requests.

        Raises NotFoundError for a name that is not registered, LimitExceededError for a filter that becomes too large.
        """
        if not has_calls(tree):
            return tree
        self._check_size(tree)
        return self._expanded(tree, {})

    def check(self, name: str, tree: Filter) -> None:
        """Raise if `tree` cannot be what `name` stands for. No requests.

        InvalidRequestError if it would use itself; NotFoundError, LimitExceededError as `expanded`.
        """
        following = Functions({**self.bodies, name: tree}, self.collection)
        following.check_cycles(name)
        for body in following.bodies.values():
            following.expanded(body)

    def users(self, name: str) -> list[str]:
        """The functions that name a function, sorted. No requests."""
        return sorted(each for each, body in self.bodies.items() if name in calls_in(body))

    def unknown(self, name: str) -> NotFoundError:
        """What is raised for a name that is not registered. No requests."""
        return NotFoundError(
            f"Function {name!r:.100} is not registered in {self.collection}",
            fix=did_you_mean(name, list(self.bodies)) or "register it: collection.functions.register(name, filter)",
        )

    def _body(self, name: str) -> Filter:
        body = self.bodies.get(name)
        if body is None:
            raise self.unknown(name)
        return body

    def check_cycles(self, name: str, above: tuple[str, ...] = ()) -> None:
        """Raise InvalidRequestError if a function uses itself in the end, NotFoundError if one is missing."""
        if name in above:
            ring = " → ".join((*above[above.index(name) :], name))
            raise InvalidRequestError(
                f"function {above[0]}",
                reason=f"it would use itself: {ring}",
                fix="write one without the others",
            )
        for used in dict.fromkeys(calls_in(self._body(name))):
            self.check_cycles(used, (*above, name))

    def _check_size(self, tree: Filter) -> None:
        """Raise LimitExceededError before anything is made that is too large."""
        conditions, depth = self._measured(tree, {})
        if conditions > FILTER_CONDITIONS_MAX or depth > FILTER_DEPTH_MAX:
            raise LimitExceededError(
                f"a filter of {conditions:,} conditions, {depth:,} deep, with its functions",
                reason=f"at most {FILTER_CONDITIONS_MAX:,} conditions and a depth of {FILTER_DEPTH_MAX:,} are allowed",
                fix="write it with fewer functions",
            )

    def _measured(self, tree: Filter | FunctionCall, known: dict[str, tuple[int, int]]) -> tuple[int, int]:
        """How many conditions a filter has when it is expanded, and how deep it is."""
        match tree:
            case FunctionCall(name=name):
                if name not in known:
                    known[name] = self._measured(self._body(name), known)
                return known[name]
            case And(filters=children) | Or(filters=children):
                found = [self._measured(child, known) for child in children]
                return sum(count for count, _ in found), 1 + max(depth for _, depth in found)
            case Not(filter=child):
                count, depth = self._measured(child, known)
                return count, depth + 1
            case _:
                return 1, 1

    def _expanded(self, tree: Filter | FunctionCall, known: dict[str, Filter]) -> Filter:
        match tree:
            case FunctionCall(name=name):
                if name not in known:
                    known[name] = self._expanded(self._body(name), known)
                return known[name]
            case And(filters=children):
                return conjunction(self._expanded(child, known) for child in children)
            case Or(filters=children):
                return disjunction(self._expanded(child, known) for child in children)
            case Not(filter=child):
                return negation(self._expanded(child, known))
            case _:
                return tree
