"""What every way of access gets and gives, and the nodes that all of them put above the rows that they find."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from wormdb.bql.projection import Projection, fields_needed
from wormdb.bql.tree import And, Conforms, Filter, MatchAll, MatchNone, Not, Or
from wormdb.engine.blocks.portion import DOCUMENT
from wormdb.engine.tree.entries import Range
from wormdb.query.physical.access import IndexAccess, find_accesses
from wormdb.query.physical.terms import Conjunction, KeyRanges, Term, intersect_keys, intersect_ranges
from wormdb.query.plan import ALL_IDS, Fetch, IdLookup, Ids, IndexScan, Intersection, Node, Order, Part, Residual, Union
from wormdb.query.request import BY_ID, QueryRequest, Strategy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from wormdb.bql.sorting import SortSpec
    from wormdb.query.sources.source import Facts

__all__ = [
    "COMPLEMENT",
    "Candidate",
    "IdSpan",
    "Question",
    "Way",
    "add_order",
    "add_part",
    "add_residual",
    "filter_paths",
    "find_ids",
    "finish",
    "join_names",
    "order_paths",
    "shown_columns",
]

Way = tuple[str, ...]
"""How a plan was made, by names and never by values: the kind of access, and indexes or numbers behind it."""

COMPLEMENT: Final = bytes(range(255, -1, -1))
"""Turns the key of a descending order into that of the ascending one, and back."""
_IDENTITY = ("_id",)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to answer."""

    way: Way
    strategy: Strategy
    what: str
    """For people: `index byStatus`."""
    reason: Callable[[], str]
    """Why it is good, for people: made only for the plan that is chosen."""
    root: Node


@dataclass(frozen=True, slots=True)
class IdSpan:
    """A range of keys of ids that has all rows, and the places of the filters that hold for all of it."""

    span: Range
    covered: frozenset[int]


@dataclass(frozen=True, eq=False)
class Question:
    """A request, analysed once for all ways of access."""

    request: QueryRequest
    facts: Facts
    tree: Filter
    """Its filter, simplified."""

    @cached_property
    def conjunction(self) -> Conjunction:
        """The filter as conditions that all hold."""
        return Conjunction.of(self.tree)

    @cached_property
    def sort(self) -> SortSpec:
        """The order that the plan must give: BY_ID for a count, and for every way to write the order of ids."""
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
        """How many rows are needed from the first one on; None for all."""
        return None if self.request.limit is None else self.request.offset + self.request.limit

    @property
    def is_plain_count(self) -> bool:
        """Whether the number of all rows is wanted and nothing else."""
        request = self.request
        return request.is_count and request.after is None and request.limit is None and not request.offset

    @cached_property
    def accesses(self) -> Sequence[IndexAccess]:
        """What each index can narrow."""
        return [access for facts in self.facts.indexes for access in find_accesses(facts, self.conjunction)]

    def find_access(self, name: str, option: str) -> IndexAccess | None:
        """The access of that index and option, if the filter has it."""
        facts = self.facts.find_index(name)
        found = [] if facts is None else find_accesses(facts, self.conjunction)
        return next((access for access in found if str(access.option) == option), None)

    @cached_property
    def id_span(self) -> IdSpan:
        """Where a scan has to look."""
        keys = _id_keys(self.conjunction)
        span, covered = ALL_IDS, frozenset[int]()
        if keys is not None and keys.ranges:
            span = Range(keys.ranges[0].low, keys.ranges[-1].high)
            covered = _covered_by_ids(self.conjunction) if len(keys.ranges) == 1 else covered
        after = self.request.after
        if after is not None and self.is_whole_id:
            rest = Range(high=after.translate(COMPLEMENT)) if self.is_reverse else Range(after)
            span = next(iter(intersect_ranges((span,), (rest,))), Range(b"", b""))
        return IdSpan(span, covered)


# --- Conditions on the id.


def find_ids(conjunction: Conjunction) -> tuple[IdLookup, frozenset[int]] | None:
    """The ids that a conjunction names, and the filters that hold for them; None if it names none. No requests."""
    keys = _id_keys(conjunction)
    if keys is None or not keys.are_points:
        return None
    return IdLookup(tuple([span.low for span in keys.ranges])), _covered_by_ids(conjunction)


def _id_keys(conjunction: Conjunction) -> KeyRanges | None:
    """An id is one value, so all conditions on it narrow together."""
    keys = [term.keys for term in _id_terms(conjunction)]
    return intersect_keys(keys) if keys else None


def _covered_by_ids(conjunction: Conjunction) -> frozenset[int]:
    return conjunction.covered(term for term in _id_terms(conjunction) if term.is_exact(has_arrays=False))


def _id_terms(conjunction: Conjunction) -> list[Term]:
    """The conditions on the id as a whole."""
    return [term for term in conjunction.by_field.get("_id", ()) if not term.keys.is_for_elements]


# --- From ids to the rows of an answer: fetch, test, order, cut.


def finish(question: Question, ids: Ids, covered: frozenset[int], *, in_order: bool = False) -> Node:
    """The plan over ids that have at least all rows of the answer; `covered` filters hold for all of them."""
    left = question.conjunction.without(covered)
    if not question.sort.fields and not in_order:
        ids = Union((ids,)) if isinstance(ids, IndexScan) and not question.request.is_count else ids
        in_order = True
    certain = isinstance(left, MatchAll) and question.request.after is None and not _may_miss(ids)
    if certain and question.request.is_count:
        return add_part(question, ids)
    if certain and in_order:
        return Fetch(add_part(question, ids))  # only the rows that are shown are fetched
    node: Node = add_residual(Fetch(ids), left)
    return add_part(question, node if in_order else add_order(question, node))


def add_residual(node: Node, left: Filter) -> Node:
    """Put a filter above a node: only rows that match."""
    return node if isinstance(left, MatchAll) else Residual(node, left)


def add_order(question: Question, node: Node) -> Node:
    """Put the request's order above a node."""
    return Order(node, question.sort, question.stop)


def add_part(question: Question, node: Node) -> Node:
    """The rows between offset and limit of the request."""
    request = question.request
    if request.limit is None and not request.offset:
        return node
    return Part(node, request.offset, request.limit)


def _may_miss(ids: Ids) -> bool:
    """Whether there may be ids among them that no document has."""
    if isinstance(ids, Union):
        return any(map(_may_miss, ids.children))
    if isinstance(ids, Intersection):
        return all(map(_may_miss, ids.children))
    return isinstance(ids, IdLookup)


# --- The paths that a filter, an order and a projection read.


def filter_paths(tree: Filter) -> frozenset[str]:
    """The dotted paths of all conditions: whether a document matches depends on nothing else. No requests."""
    match tree:
        case MatchAll() | MatchNone():
            return frozenset()
        case And(filters) | Or(filters):
            return frozenset().union(*map(filter_paths, filters))
        case Not(child):
            return filter_paths(child)
        case Conforms():
            return frozenset([DOCUMENT])  # no column tells
        case _:
            return frozenset([".".join(tree.path)])


def order_paths(sort: SortSpec) -> frozenset[str]:
    """The paths that an order names. No requests."""
    return frozenset(".".join(field.path) for field in sort.fields)


def shown_columns(projection: Projection | None, columns: AbstractSet[str]) -> frozenset[str] | None:
    """The columns that show all that a projection does; None if only whole documents do. No requests.

    A column of `a.b` does not tell whether a document without it has `a`, which would be shown: so the column of `a`
    is used. Only a document tells which element a query matched.
    """
    needed = None if projection is None or projection.arrays else fields_needed(projection)
    if needed is None:
        return None
    shown = frozenset(path.partition(".")[0] for path in needed)
    return shown if shown <= columns else None


def join_names(paths: Iterable[str]) -> str:
    """Paths as people read them: sorted, with commas."""
    return ", ".join(sorted(paths))
