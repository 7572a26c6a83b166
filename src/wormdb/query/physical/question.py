"""What every way of access is given, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from wormdb.bql.projection import fields_needed
from wormdb.bql.tree import And, MatchAll, MatchNone, Not, Or
from wormdb.query.physical.compound import accesses
from wormdb.query.physical.terms import Conjunction
from wormdb.query.request import BY_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from wormdb.bql.projection import Projection
    from wormdb.bql.sorting import SortSpec
    from wormdb.bql.tree import Filter
    from wormdb.query.physical.compound import Access
    from wormdb.query.plan import Node
    from wormdb.query.request import Request, Strategy
    from wormdb.query.source import Facts

__all__ = ["Candidate", "Question", "Way", "listed", "paths_of", "shown_by", "sorted_by"]

Way = tuple[str, ...]
"""How a plan was made, by names and never by values: the kind of access, and indexes or numbers behind it."""

_IDENTITY = ("_id",)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to answer."""

    way: Way
    strategy: Strategy
    what: str
    """For people: `index byStatus`."""
    reason: Callable[[], str]
    """Why it is good, for people: made only for the plan that is taken."""
    root: Node


@dataclass(frozen=True, eq=False)
class Question:
    """A request that was looked at once for all ways."""

    request: Request
    facts: Facts
    tree: Filter
    """Its filter, simplified."""

    @cached_property
    def conjunction(self) -> Conjunction:
        """The filter as conditions that all hold."""
        return Conjunction.of(self.tree)

    @cached_property
    def sort(self) -> SortSpec:
        """The order that is needed: none for a number, and by id what says the same."""
        sort = self.request.sort
        if self.request.is_count and self.request.after is None:
            return BY_ID
        return BY_ID if len(sort.fields) == 1 and sort.fields[0].path == _IDENTITY and not self.is_reverse else sort

    @property
    def is_reverse(self) -> bool:
        """Whether ties are broken by the greater id."""
        return self.request.sort.is_id_descending

    @property
    def is_whole_id(self) -> bool:
        """Whether the order is that of ids, upwards or downwards."""
        fields = self.sort.fields
        return not fields or fields[0].path == _IDENTITY

    @property
    def stop(self) -> int | None:
        """How many rows are looked at from the first one on; None for all."""
        return None if self.request.limit is None else self.request.offset + self.request.limit

    @property
    def is_plain_count(self) -> bool:
        """Whether the number of all rows is wanted and nothing else."""
        request = self.request
        return request.is_count and request.after is None and request.limit is None and not request.offset

    @cached_property
    def accesses(self) -> Sequence[Access]:
        """What each index can narrow."""
        return [access for facts in self.facts.indexes for access in accesses(facts, self.conjunction)]

    def named(self, name: str, option: str) -> Access | None:
        """One of these."""
        facts = self.facts.find_index(name)
        found = [] if facts is None else accesses(facts, self.conjunction)
        return next((access for access in found if str(access.option) == option), None)


# --- The paths that a filter, an order and a projection look at.


def paths_of(tree: Filter) -> frozenset[str]:
    """The paths of all conditions, dotted. No requests."""
    match tree:
        case MatchAll() | MatchNone():
            return frozenset()
        case And(filters) | Or(filters):
            return frozenset().union(*map(paths_of, filters))
        case Not(child):
            return paths_of(child)
        case _:
            return frozenset([".".join(tree.path)])


def sorted_by(sort: SortSpec) -> frozenset[str]:
    """The paths of an order. No requests."""
    return frozenset(".".join(field.path) for field in sort.fields)


def shown_by(projection: Projection | None, columns: AbstractSet[str]) -> frozenset[str] | None:
    """The columns that show all that a projection does; None if only whole documents do. No requests.

    Of `a.b` a column does not tell whether a document without it has `a`, which would be shown: so the column of
    `a` is taken. Which element a query matched, only a document tells.
    """
    needed = None if projection is None or projection.arrays else fields_needed(projection)
    if needed is None:
        return None
    shown = frozenset(path.partition(".")[0] for path in needed)
    return shown if shown <= columns else None


def listed(paths: Iterable[str]) -> str:
    """Some paths for people."""
    return ", ".join(sorted(paths))
