"""How a query is answered, as a tree of steps that an executor follows.

Leaves find rows, the nodes above narrow, order and complete them:

    Part(limit 20)                          Part(limit 20)
      Fetch                                   Filter(residual)
        Part(limit 20)                          Fetch
          Order(-population)                      IndexScan(country: "DE")
            Filter(country = "DE")
              Scan(_id, country, population)

A plan is for one request and one state: values and ranges are in it. What is kept for other requests of the
same shape is only which way was chosen (`wormdb.query.planner.cache`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from wormdb.bql.nearest import Near
from wormdb.bql.search.rank import Search
from wormdb.bql.sorting import SortSpec
from wormdb.bql.tree import Filter
from wormdb.engine.tree.entries import Range
from wormdb.query.request import PlanStrategy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


__all__ = [
    "ALL_IDS",
    "Cost",
    "Empty",
    "Fetch",
    "Fused",
    "IdLookup",
    "Ids",
    "IndexCount",
    "IndexScan",
    "Intersection",
    "NearestScan",
    "Node",
    "Order",
    "Part",
    "QueryPlan",
    "Rank",
    "RejectedPlan",
    "Residual",
    "Scan",
    "TextScan",
    "Union",
    "rebuild",
]

ALL_IDS: Final = Range()


class Empty(msgspec.Struct, frozen=True):
    """No rows: the filter contradicts itself."""


@dataclass(frozen=True, slots=True)
class Scan:
    """Columns of every document, or of those whose ids are in `span`, in order of id.

    `names` has `_id` always, and DOCUMENT if whole documents are read: then it is a full scan.
    """

    names: tuple[str, ...]
    span: Range = ALL_IDS
    bounds: Mapping[str, Range] = field(default_factory=dict)
    """By path: every row of the answer has a value in each, or an array there or on the way; so blocks that have
    neither are left out."""


class IdLookup(msgspec.Struct, frozen=True):
    """Ids by their keys, ascending and distinct; those of documents that do not exist among them."""

    keys: tuple[bytes, ...]


class IndexScan(msgspec.Struct, frozen=True):
    """The ids of the entries of ranges of one index, each id once, in the order of its first entry.

    Ranges ascend and do not overlap; `reverse` reads them from the end. Where the request's order is that of the
    entries, there is no `Order` above, and a `Part` above pulls only what it needs.
    """

    index: str
    spans: tuple[Range, ...]
    reverse: bool = False


class TextScan(msgspec.Struct, frozen=True):
    """The ids of documents that a text search and a filter find, the best first and ties in order of id."""

    search: Search
    filter: Filter
    index: str | None = None
    """The text index whose lists tell; without it all documents are read."""
    is_bare: bool = False
    """Whether lists tell all that is shown: nothing but ids, and every candidate is a row."""


class Intersection(msgspec.Struct, frozen=True):
    """The ids that all children have, in order of id."""

    children: tuple[Ids, ...]


class Union(msgspec.Struct, frozen=True):
    """The ids that any child has, each once, in order of id."""

    children: tuple[Ids, ...]


class IndexCount(msgspec.Struct, frozen=True):
    """Only the number of entries in ranges of an index; each document has at most one entry there."""

    index: str
    spans: tuple[Range, ...]


class Fetch(msgspec.Struct, frozen=True):
    """The whole documents of the ids below, in the order below; those that do not exist are left out."""

    child: Node


class Residual(msgspec.Struct, frozen=True):
    """Only rows that match; by columns if `child` has no documents yet, otherwise by documents."""

    child: Node
    filter: Filter


class Order(msgspec.Struct, frozen=True):
    """Rows in an order; with `first`, memory holds at most about that many of them."""

    child: Node
    sort: SortSpec
    first: int | None = None


class NearestScan(msgspec.Struct, frozen=True):
    """Ids of an index of vectors, about the nearest first: of the `probes` lists nearest to what is asked for.

    With `child` only ids that it finds.
    """

    index: str
    near: Near
    probes: int | None
    """None for all lists."""
    child: Node | None = None


class Rank(msgspec.Struct, frozen=True):
    """The rows with the best scores, the best first and ties in order of id; `near` has a distance."""

    child: Node
    near: Near
    enough: int | None = None
    """How many rows are taken, where the best are among the first; None for all."""


class Fused(msgspec.Struct, frozen=True):
    """The rows of two rankings as one, by their places in both; the best first, ties in order of id."""

    nearest: Node
    searched: Node
    weight: float
    """How much the search counts, where the nearest count 1."""


class Part(msgspec.Struct, frozen=True):
    """Rows without the first `offset`, and `limit` at most."""

    child: Node
    offset: int = 0
    limit: int | None = None


Ids: TypeAlias = IndexScan | Union | Intersection | IdLookup
"""Nodes that find ids."""
Node: TypeAlias = (
    Empty
    | Scan
    | IdLookup
    | IndexScan
    | TextScan
    | Intersection
    | Union
    | IndexCount
    | NearestScan
    | Fetch
    | Residual
    | Order
    | Rank
    | Fused
    | Part
)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a plan is expected to take."""

    requests: float = 0.0
    bytes: float = 0.0
    rows: float = 0.0
    """Rows that are read and tested."""
    rounds: float = 0.0
    """Round trips: requests of which each waits for the one before."""
    processor_ms: float = 0.0
    """Time of the processor."""

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.requests + other.requests,
            self.bytes + other.bytes,
            self.rows + other.rows,
            self.rounds + other.rounds,
            self.processor_ms + other.processor_ms,
        )


@dataclass(frozen=True, slots=True)
class RejectedPlan:
    """A way that was possible and is not taken, or was asked for and is not possible."""

    strategy: PlanStrategy
    what: str
    """For people: `index status`, `columns status, total`."""
    cost: Cost | None
    reason: str


class QueryPlan(msgspec.Struct, frozen=True):
    """A tree, and why it is this one."""

    root: Node
    strategy: PlanStrategy
    reason: str
    cost: Cost
    rejected: tuple[RejectedPlan, ...] = ()
    is_cached: bool = False
    """Whether the choice came from the plan cache."""


def rebuild(node: Node, change: Callable[[Node], Node]) -> Node:
    """The tree with every node changed, those below first; the same object if nothing did. No requests."""
    if isinstance(node, Fetch | Residual | Order | Rank | Part):
        child = rebuild(node.child, change)
        return change(node if child is node.child else msgspec.structs.replace(node, child=child))
    if isinstance(node, NearestScan) and node.child is not None:
        child = rebuild(node.child, change)
        return change(node if child is node.child else msgspec.structs.replace(node, child=child))
    if isinstance(node, Union | Intersection):
        children = tuple([_ids(rebuild(child, change)) for child in node.children])
        same = all(map(lambda one, other: one is other, children, node.children))
        return change(node if same else type(node)(children))
    return change(node)


def _ids(node: Node) -> Ids:
    assert isinstance(node, IndexScan | Union | Intersection | IdLookup), "a part of ids stays one"
    return node
