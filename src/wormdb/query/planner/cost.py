"""What a plan is expected to take: requests, bytes and rows, and one number to compare plans by.

An estimate goes down the tree with the number of rows that the node above will take, and comes up with what the node
costs for that. The tail is in memory, so its rows cost no requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

from wormdb.engine.blocks.portion import DOCUMENT
from wormdb.query.plan import (
    Cost,
    Empty,
    Fetch,
    IdLookup,
    IndexCount,
    IndexScan,
    Intersection,
    Order,
    Part,
    Residual,
    Scan,
    Union,
)
from wormdb.settings import KIB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.engine.tree.entries import Range
    from wormdb.query.plan import Node
    from wormdb.query.selectivity import Selectivity
    from wormdb.query.sources.source import Facts

__all__ = ["DOCUMENT_ROW_BYTES", "REQUEST_BYTES", "Estimate", "estimate"]

Leaf: TypeAlias = Empty | Scan | IdLookup | IndexScan | IndexCount
Inner: TypeAlias = Intersection | Union | Fetch | Residual | Order | Part

REQUEST_BYTES: Final = 100 * KIB
"""Bytes that take about as long as one request, which costs money besides."""
DOCUMENT_ROW_BYTES: Final = 100
"""Bytes that take as long as decoding and testing a document, besides its own."""
COLUMN_ROW_BYTES: Final = 1
"""Bytes for one row of columns: it is tested together with thousands of others."""
ENTRY_BYTES: Final = 48
"""An entry of an index, as it is stored and read."""
NODE_ENTRIES: Final = 400
"""Entries in a leaf of an index."""
PAGE_BYTES: Final = 64 * KIB
"""The part of a block that is read for one document."""

LEAST: Final = 1e-9
"""Takes the place of a share of 0, by which nothing can be divided."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a node and all nodes below it take."""

    cost: Cost
    rows: float
    """Rows that it gives."""
    work: float = 0.0
    """Time of the processor, as bytes."""

    @property
    def score(self) -> float:
        """Plans with a lower one are better: bytes, and everything else as bytes."""
        return self.cost.requests * REQUEST_BYTES + self.cost.bytes + self.work


def estimate(
    node: Node,
    facts: Facts,
    selectivity: Selectivity,
    wanted: float | None = None,
    seen: dict[int, Estimate] | None = None,
) -> Estimate:
    """What a node takes if the node above reads `wanted` of its rows; None for all. No requests.

    `seen` is filled with what was found for each node, by `id`.
    """
    found = _Estimator(facts, selectivity, seen)
    return found.of(node, wanted)


@dataclass(frozen=True, slots=True)
class _Estimator:
    facts: Facts
    selectivity: Selectivity
    seen: dict[int, Estimate] | None

    def of(self, node: Node, wanted: float | None) -> Estimate:
        found = self._of_leaf(node, wanted) if isinstance(node, Leaf) else self._of_inner(node, wanted)
        if self.seen is not None:
            self.seen[id(node)] = found
        return found

    def _of_leaf(self, node: Leaf, wanted: float | None) -> Estimate:
        match node:
            case Empty():
                return Estimate(Cost(), 0.0)
            case Scan():
                return self._scan(node, wanted)
            case IdLookup(keys):
                return Estimate(Cost(rows=len(keys)), min(len(keys), self.facts.rows))
            case IndexScan(name, spans):
                return self._entries(name, len(spans), self.selectivity.entries(name, spans), wanted)
            case IndexCount(name, spans):
                return self._count(name, spans)
            case _:
                assert_never(node)

    def _of_inner(self, node: Inner, wanted: float | None) -> Estimate:
        match node:
            case Intersection() | Union():
                return self._combined(node)
            case Fetch(child):
                return self._fetch(self.of(child, wanted), wanted)
            case Residual(child, tree):
                share = self.selectivity.share(tree)
                below = self.of(child, None if wanted is None else wanted / max(share, LEAST))
                return Estimate(below.cost, below.rows * share, below.work)
            case Order(child):
                below = self.of(child, None)
                return Estimate(below.cost, below.rows, below.work + below.rows * COLUMN_ROW_BYTES)
            case Part(child, offset, limit):
                most = wanted if limit is None else float(limit) if wanted is None else min(limit, wanted)
                below = self.of(child, None if most is None else offset + most)
                rows = max(below.rows - offset, 0.0)
                return Estimate(below.cost, rows if limit is None else min(rows, limit), below.work)
            case _:
                assert_never(node)

    def _scan(self, node: Scan, wanted: float | None) -> Estimate:
        facts = self.facts
        rows = facts.rows * self.selectivity.share_of_ids(node.span)
        taken = rows if wanted is None else min(wanted, rows)
        # A block is read whole, however few of its rows are taken.
        blocks = ceil(facts.blocks * taken / facts.rows) if facts.rows else 0
        share = blocks / facts.blocks if facts.blocks else 0.0
        has_documents = DOCUMENT in node.names
        size = sum(facts.column_bytes.get(name, 0) for name in node.names) + facts.document_bytes * has_documents
        work = taken * (DOCUMENT_ROW_BYTES if has_documents else COLUMN_ROW_BYTES * len(node.names))
        return Estimate(Cost(float(blocks), size * share, taken), rows, work)

    def _entries(self, name: str, spans: int, found: float, wanted: float | None) -> Estimate:
        taken = found if wanted is None else min(wanted, found)
        height = self._height(name)
        leaves = max(taken / NODE_ENTRIES, min(spans, taken), 1.0)
        # The upper levels are shared by all ranges, and stay in caches.
        requests = height - 1 + leaves if height else 0.0
        return Estimate(Cost(requests, requests * NODE_ENTRIES * ENTRY_BYTES, taken), found, taken * ENTRY_BYTES)

    def _count(self, name: str, spans: Sequence[Range]) -> Estimate:
        """One way down to each end of a range, and only one if both ends are in one leaf."""
        height = self._height(name)
        is_wide = self.selectivity.entries(name, spans) > NODE_ENTRIES * len(spans)
        nodes = float(height + max(height - 1, 0) * is_wide) * len(spans)
        return Estimate(Cost(nodes, nodes * NODE_ENTRIES * ENTRY_BYTES), 1.0)

    def _combined(self, node: Intersection | Union) -> Estimate:
        """All children are read whole. Their conditions are taken to be independent of each other."""
        parts = [self.of(child, None) for child in node.children]
        cost = sum((part.cost for part in parts), Cost())
        work = sum(part.work for part in parts)
        every = float(self.facts.rows)
        if isinstance(node, Union):
            return Estimate(cost, min(sum(part.rows for part in parts), every), work)
        rows = every
        for part in parts:
            rows *= min(part.rows / every, 1.0) if every else 0.0
        return Estimate(cost, rows, work)

    def _fetch(self, below: Estimate, wanted: float | None) -> Estimate:
        """Documents by id: one request for each page that has some of them."""
        facts = self.facts
        # Shares are guesses: what is expected to find less than one row is taken to find one.
        found = max(below.rows, 1.0) if facts.rows else 0.0
        rows = found if wanted is None else min(found, wanted)
        stored = rows * (1.0 - min(facts.tail_rows / facts.rows, 1.0)) if facts.rows else 0.0
        pages = max(facts.document_bytes / PAGE_BYTES, float(facts.blocks))
        touched = pages * (1.0 - (1.0 - 1.0 / pages) ** stored) if pages >= 1.0 else 0.0
        size = touched / pages * facts.document_bytes if pages else 0.0
        cost = below.cost + Cost(touched, size, rows)
        return Estimate(cost, below.rows, below.work + rows * DOCUMENT_ROW_BYTES)

    def _height(self, name: str) -> int:
        found = self.facts.find_index(name)
        return 0 if found is None else found.height
