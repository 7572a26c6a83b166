"""What a plan is expected to take: requests, bytes and time of the processor, and one time to compare plans by.

An estimate goes down the tree with the number of rows that the node above will take, and comes up with what the node
costs for that. What this process keeps costs neither requests nor bytes, and the tail is in memory already.

    time = round trips x latency + requests x price of one + bytes / bandwidth + processor

The constants are of one machine, as `python -m benchmarks.plans` prints them. Only how they compare matters, and that
is much the same elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, assert_never

from wormdb.bql.search.expression import has_phrases
from wormdb.bql.tree import MatchAll
from wormdb.engine.blocks.portion import DOCUMENT
from wormdb.engine.lists.probes import count_ranges
from wormdb.query.physical.question import filter_paths, order_paths
from wormdb.query.plan import (
    ALL_IDS,
    Cost,
    Empty,
    Fetch,
    Fused,
    IdLookup,
    IndexCount,
    IndexScan,
    Intersection,
    NearestScan,
    Order,
    Part,
    Rank,
    Residual,
    Scan,
    TextScan,
    Union,
)
from wormdb.query.selectivity import Selectivity, is_point
from wormdb.settings import KIB, MIB, RANGE_GAP_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.bql.search.rank import Search
    from wormdb.bql.tree import Filter
    from wormdb.engine.tree.entries import Range
    from wormdb.query.plan import Node
    from wormdb.query.sources.source import Facts

__all__ = ["DISTANT", "NEAR", "Estimate", "StoreSpeed", "estimate", "speed_of"]

Leaf: TypeAlias = Empty | Scan | IdLookup | IndexScan | TextScan | IndexCount
Form: TypeAlias = Literal["ids", "columns", "texts", "documents"]
Inner: TypeAlias = Intersection | Union | NearestScan | Fetch | Residual | Order | Rank | Fused | Part

# --- How fast a store is, in microseconds.


@dataclass(frozen=True, slots=True)
class StoreSpeed:
    """What requests to a kind of store take."""

    latency: float
    """From a request to the first byte of its answer."""
    request: float
    """What a request takes besides: of the processor, and its price."""
    byte: float


DISTANT: Final = StoreSpeed(latency=10_000, request=2_000, byte=0.02)
"""A cloud. The price of a request is taken for a millisecond and a half."""
NEAR: Final = StoreSpeed(latency=100, request=200, byte=0.0005)
"""A folder, which may lie on another machine, or memory."""
SIDE_BY_SIDE: Final = 16
"""Requests that are sent at once, about."""

# --- What the processor does in a microsecond or so. Each is one thing of its kind.

ENTRY: Final = 1.3
"""An entry of an index, from a leaf that is kept to the key of its id."""
NODE: Final = 230.0
"""A leaf of an index, unpacked; those above are shorter."""
ROW: Final = 13.0
"""A document by its id, from a row that is kept, decoded."""
PAGE: Final = 150.0
"""A page of documents, unpacked, with the row that is looked for."""
PAGE_ROW: Final = 3.2
"""Another row of a page of which more than one is looked for."""
SEARCHED_ROWS: Final = 4.5
"""As many of these as one row of a page takes to be searched."""
DECODED: Final = 9.0
"""A document of a scan that is part of the answer."""
TESTED: Final = 2.0
"""A decoded document that is tested."""
ORDERED: Final = 6.0
"""A decoded document that is put in order."""
SEARCHED: Final = 30.0
"""A document whose words are cut out and compared."""
LISTED: Final = 0.3
"""An entry of the list of a word, joined with others and scored."""
SEARCHED_SHARE: Final = 0.02
"""The share of documents that a search is taken to find."""
VECTOR: Final = 10.0
"""A vector of a document that is scored …"""
COORDINATE: Final = 0.03
"""… and each of its numbers …"""
COORDINATE_READ: Final = 0.12
"""… which is decoded before."""
NEAREST: Final = 500.0
"""A search in an index of vectors, however short."""
CODE: Final = 0.1
"""A vector of a list, put in order …"""
PRODUCT: Final = 0.0002
"""… and each of its numbers, multiplied."""
MATCHED: Final = 0.3
"""An id that a filter finds, as one of those that may be among the nearest."""
JOINED: Final = 0.35
"""Requests for each list that is read: those that lie together are one."""
LISTS_WHOLE_BYTES: Final = 1 * MIB
"""Lists up to this size are one request."""
CELL: Final = 0.004
"""A value of a column that is kept, tested together with thousands of others."""
CELL_UNPACKED: Final = 0.03
"""A value of a column as it is stored."""
CELL_MADE: Final = 1.2
"""A value of a path that is no column, from the document of its row."""
TEXT: Final = 0.6
"""A stored document of a scan, not decoded."""
CHANGED: Final = 40.0
"""The entries of a document that the tail changed, before and after."""
SCAN: Final = 150.0
"""A scan of columns, however short."""
BLOCK: Final = 450.0
"""A block of which something is unpacked, however little."""
SEARCH: Final = 20.0
"""A range of an index, however short."""

ENTRY_BYTES: Final = 8
"""An entry of an index, as it is stored."""
NODE_ENTRIES: Final = 1_000
"""Entries in a leaf of an index."""
PAGE_BYTES: Final = 64 * KIB
"""What the documents of a page are, not packed."""
PACKED: Final = 0.25
"""What documents take in a block, compared with their JSON, about."""
GROUP_ROWS: Final = 16_384
"""Rows of a block whose columns lie together at most …"""
GROUP_BYTES: Final = 16 * MIB
"""… and what their documents are at most, not packed."""
WHOLE_BYTES: Final = 64 * KIB
"""A block up to this size is one request …"""
DOCUMENTS_WHOLE_BYTES: Final = 4 * MIB
"""… and one up to this size, if its documents are read."""

LEAST: Final = 1e-9
"""Takes the place of a share of 0, by which nothing can be divided."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a node and all nodes below it take."""

    cost: Cost
    rows: float
    """Rows that it gives."""
    spread: float = 1.0
    """The share of the ids among which the rows lie that are taken: of the first rows in order of id, only a part."""
    kept: float | None = None
    """Which share of what the node itself reads is kept; None if it reads nothing."""
    rows_kept: float = 0.0
    """Which share of the documents of the rows is kept."""
    form: Form = "ids"
    """What is known of the rows: `texts` are documents that are not decoded."""

    def score(self, speed: StoreSpeed) -> float:
        """Plans with a lower one are better: about how many microseconds it takes."""
        cost = self.cost
        waiting = max(cost.rounds, cost.requests / SIDE_BY_SIDE) * speed.latency
        return waiting + cost.requests * speed.request + cost.bytes * speed.byte + cost.processor_ms * 1_000


def speed_of(facts: Facts) -> StoreSpeed:
    """How fast the store of a source is taken to be."""
    return DISTANT if facts.is_distant else NEAR


def estimate(
    node: Node,
    facts: Facts,
    selectivity: Selectivity,
    wanted: float | None = None,
    seen: dict[int, Estimate] | None = None,
    *,
    has_nodes: bool = False,
) -> Estimate:
    """What a plan takes if `wanted` of its rows are read; None for all. No requests.

    With `has_nodes` as if all nodes of indexes were kept: what the plan takes once it was used for a while.

    `seen` is filled with what was found for each node, by `id`. `selectivity` remembers for other plans of the same
    request what was found out about the rows of the answer.
    """
    found = _Estimator(facts, selectivity, _asked_of(node), seen, has_nodes).of(node, wanted)
    if found.form == "texts":
        found = _above(found, found.rows, found.rows * DECODED)
        if seen is not None:
            seen[id(node)] = found
    return found


def _asked_of(root: Node) -> frozenset[str]:
    """The paths that the filters and orders of a plan read."""
    found: frozenset[str] = frozenset()
    node = root
    while isinstance(node, Fetch | Residual | Order | Rank | Part):
        if isinstance(node, Residual):
            found |= filter_paths(node.filter)
        elif isinstance(node, Order):
            found |= order_paths(node.sort)
        node = node.child
    return found


@dataclass(frozen=True, slots=True)
class _Estimator:
    facts: Facts
    selectivity: Selectivity
    asked: frozenset[str]
    seen: dict[int, Estimate] | None
    has_nodes: bool

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
                found = min(len(keys), self.facts.rows)
                return Estimate(Cost(rows=len(keys)), found, rows_kept=self._rows_kept(self.facts.kept.keys(keys)))
            case IndexScan():
                return self._entries(node, wanted)
            case TextScan(search, tree, index) if index is not None:
                return self._lists(search, tree, wanted)
            case TextScan(_, tree):
                below = self._scan(Scan(("_id", DOCUMENT)), None)
                expected = self.facts.rows * SEARCHED_SHARE * self.selectivity.share(tree)
                return replace(_above(below, expected, below.rows * (DECODED + SEARCHED)), spread=1.0, form="ids")
            case IndexCount(name, spans):
                return self._count(name, spans)
            case _:
                assert_never(node)

    def _of_inner(self, node: Inner, wanted: float | None) -> Estimate:
        match node:
            case Intersection() | Union():
                return self._combined(node, wanted)
            case Fetch(child):
                return self._fetch(self.of(child, wanted), wanted)
            case Residual(child, tree):
                share = self.selectivity.share(tree)
                below = self.of(child, None if wanted is None else wanted / max(share, LEAST))
                tested = below.rows if wanted is None else min(below.rows, wanted / max(share, LEAST))
                return _above(below, below.rows * share, tested * TESTED if below.form == "documents" else 0.0)
            case Order(child):
                below = self.of(child, None)
                work = below.rows * (ORDERED if below.form == "documents" else CELL)
                return replace(_above(below, below.rows, work), spread=1.0)
            case NearestScan():
                return self._nearest(node, wanted)
            case Rank(child, near, enough):
                below = self.of(child, None if enough is None else float(enough))
                scored = below.rows if enough is None else min(below.rows, enough)
                work = scored * (VECTOR + len(near.vector) * (COORDINATE + COORDINATE_READ))
                return replace(_above(below, min(below.rows, near.k), work), spread=1.0, form="documents")
            case Fused(nearest, searched):
                one, other = self.of(nearest, None), self.of(searched, None)
                return Estimate(one.cost + other.cost, one.rows + other.rows)
            case Part(child, offset, limit):
                most = wanted if limit is None else float(limit) if wanted is None else min(limit, wanted)
                below = self.of(child, None if most is None else offset + most)
                rows = max(below.rows - offset, 0.0)
                return _above(below, rows if limit is None else min(rows, limit), 0.0)
            case _:
                assert_never(node)

    def _rows_kept(self, share: float) -> float:
        """The share of the rows of a leaf that is kept, if not more is known of the rows of the answer.

        They are the same whatever finds them: where an index finds that they are kept, they are for a scan as well.
        """
        known = self.selectivity.rows_kept = max(self.selectivity.rows_kept, share)
        return known

    def _lists(self, search: Search, tree: Filter, wanted: float | None) -> Estimate:
        """The lists of the words, the ids of what is taken; and documents, where a filter or a phrase needs them."""
        facts, words = self.facts, len(search.terms)
        share = max(self.selectivity.share(tree), LEAST)
        entries = facts.rows * SEARCHED_SHARE
        taken = entries if wanted is None else min(wanted / share, entries)
        requests = 2.0 + words + min(taken, 8.0)
        cost = Cost(requests, ENTRY_BYTES * entries * words, taken, 3.0, entries * words * LISTED / 1_000)
        found = Estimate(cost, entries)
        if not isinstance(tree, MatchAll) or (search.tree is not None and has_phrases(search.tree)):
            found = self._fetch(found, taken)
        return replace(found, rows=entries * share, form="ids")

    # --- scans ---

    def _scan(self, node: Scan, wanted: float | None) -> Estimate:
        facts = self.facts
        rows = facts.rows * self.selectivity.share_of_ids(node.span)
        taken = rows if wanted is None else min(wanted, rows)
        # A block is read whole, however few of its rows are taken; documents of a large one come by row groups.
        has_documents = DOCUMENT in node.names
        is_large = facts.document_bytes > DOCUMENTS_WHOLE_BYTES * facts.blocks
        blocks = ceil(facts.blocks * taken / facts.rows) if facts.rows else 0
        share = blocks / facts.blocks if facts.blocks else 0.0
        if facts.rows and (node.span != ALL_IDS or (has_documents and is_large)):
            share = min(share, (taken + self._group_rows()) / facts.rows)
        read = max(facts.rows * share, taken)
        # Blocks that lack one column, as a rule those of before, lack the others too.
        lacking = 0 if has_documents else max(facts.lacking_bytes.get(name, 0) for name in node.names)
        documents = facts.document_bytes if has_documents else lacking
        size = sum(facts.column_bytes.get(name, 0) for name in node.names) + documents
        decoded = 0.0 if has_documents else facts.kept.columns(node.names)
        missing = (1.0 - decoded) * (1.0 - facts.kept.documents())
        columns = len(node.names) - has_documents
        work = SCAN + (1.0 - decoded) * blocks * BLOCK + read * columns * (CELL + (1.0 - decoded) * CELL_UNPACKED)
        if has_documents:
            made = len(self.asked - facts.columns)
            work += read * (TEXT + made * CELL_MADE)
        elif lacking:
            work += read * min(lacking / facts.document_bytes, 1.0) * (1.0 - decoded) * (TEXT + columns * CELL_MADE)
        requests, rounds = self._asked_for_blocks(blocks, columns, has_documents=has_documents)
        cost = Cost(requests * missing, size * share * missing, taken, rounds * (missing > 0), work / 1_000)
        return Estimate(
            cost,
            rows,
            taken / facts.rows if facts.rows else 1.0,
            1.0 - missing,
            self._rows_kept(facts.kept.all_rows()),
            "texts" if has_documents else "columns",
        )

    def _asked_for_blocks(self, blocks: int, columns: int, *, has_documents: bool) -> tuple[float, float]:
        """The requests of a scan of some blocks, and how many of them wait for one another."""
        facts = self.facts
        length = facts.document_bytes / max(facts.blocks, 1)
        if length <= (DOCUMENTS_WHOLE_BYTES if has_documents else WHOLE_BYTES):
            return float(blocks), float(blocks > 0)
        groups = ceil(facts.rows / max(facts.blocks, 1) / self._group_rows())
        maps = 1.0 - facts.kept.maps()
        return blocks * (maps + groups * min(columns, 2)), 1.0 + (maps > 0)

    def _group_rows(self) -> float:
        """Rows of a row group: of a range of ids no less is read at its end."""
        length = self.facts.document_bytes / max(self.facts.rows, 1) / PACKED
        return min(GROUP_ROWS, max(GROUP_BYTES / max(length, 1.0), 1.0))

    # --- indexes ---

    def _entries(self, node: IndexScan, wanted: float | None) -> Estimate:
        name, spans = node.index, node.spans
        found = self.selectivity.entries(name, spans)
        taken = found if wanted is None else min(wanted, found)
        height = self._height(name)
        kept = 1.0 if self.has_nodes else self.facts.kept.nodes(name, spans, reverse=node.reverse)
        leaves = max(taken / NODE_ENTRIES, min(len(spans), taken), 1.0)
        # The upper levels are shared by all ranges, and stay in caches.
        nodes = (height - 1 + leaves) * (1.0 - kept) if height else 0.0
        work = taken * ENTRY + leaves * (1.0 - kept) * NODE + len(spans) * SEARCH + self._tail(name)
        cost = Cost(nodes, nodes * NODE_ENTRIES * ENTRY_BYTES, taken, height * (kept < 1.0), work / 1_000)
        first = None if wanted is None else ceil(taken)
        rows_kept = self._rows_kept(self.facts.kept.rows(name, spans, reverse=node.reverse, first=first))
        spread = taken / max(found, LEAST) if len(spans) == 1 and self._is_by_id(node) else 1.0
        return Estimate(cost, found, spread, kept, rows_kept)

    def _is_by_id(self, node: IndexScan) -> bool:
        """Whether the entries of a range come in order of id, because all have one value."""
        found = self.facts.find_index(node.index)
        return found is not None and len(found.index.fields) == 1 and is_point(node.spans[0])

    def _count(self, name: str, spans: Sequence[Range]) -> Estimate:
        """One way down to each end of a range, and only one if both ends are in one leaf."""
        height, kept = self._height(name), self.facts.kept.nodes(name, spans)
        is_wide = self.selectivity.entries(name, spans) > NODE_ENTRIES * len(spans)
        nodes = float(height + max(height - 1, 0) * is_wide) * len(spans) * (1.0 - kept)
        work = (1 + is_wide) * len(spans) * (1.0 - kept) * NODE + len(spans) * SEARCH + self._tail(name)
        cost = Cost(nodes, nodes * NODE_ENTRIES * ENTRY_BYTES, 0.0, height * (kept < 1.0), work / 1_000)
        return Estimate(cost, 1.0, kept=kept)

    def _combined(self, node: Intersection | Union, wanted: float | None) -> Estimate:
        """All children are read whole. Their conditions are taken to be independent of each other."""
        parts = [self.of(child, None) for child in node.children]
        cost = sum((part.cost for part in parts), Cost())
        every = float(self.facts.rows)
        rows_kept = max(part.rows_kept for part in parts)
        if isinstance(node, Union):
            rows = min(sum(part.rows for part in parts), every)
        else:
            rows = every
            for part in parts:
                rows *= min(part.rows / every, 1.0) if every else 0.0
        spread = 1.0 if wanted is None else min(wanted / max(rows, LEAST), 1.0)
        return Estimate(cost, rows, spread, rows_kept=rows_kept)

    def _nearest(self, node: NearestScan, wanted: float | None) -> Estimate:
        """Lists of an index of vectors: those of large objects by ranges, small objects whole."""
        found = self.facts.find_vectors_named(node.index)
        assert found is not None, "the facts have the index of the plan"
        probes = found.lists if node.probes is None else min(node.probes, found.lists)
        share = probes / found.lists
        is_large = found.bytes > LISTS_WHOLE_BYTES
        requests = found.runs + (found.lists > 1) + (min(JOINED * probes, count_ranges(probes)) if is_large else 0.0)
        size = found.bytes * (share if is_large else 1.0) + found.lists * (found.dimensions + 4.0)
        scanned = found.entries * share
        work = NEAREST + scanned * (CODE + found.dimensions * PRODUCT) + found.lists * found.dimensions * PRODUCT
        rows, cost = scanned + self.facts.tail_rows, Cost()
        if node.child is not None:
            below = self.of(node.child, None)
            cost, rows = below.cost, min(below.rows, rows)
            work += below.rows * MATCHED
        rounds = 1.0 + (found.lists > 1) + is_large
        cost += Cost(requests, size, scanned, rounds * (found.runs > 0), work / 1_000)
        taken = rows if wanted is None else min(rows, wanted)
        return Estimate(cost, taken, kept=0.0, rows_kept=self._rows_kept(self.facts.kept.all_rows()))

    def _tail(self, name: str) -> float:
        """What it takes to find the entries of changed documents, which is done once for each index."""
        return 0.0 if self.facts.kept.has_tail(name) else self.facts.tail_rows * CHANGED

    def _height(self, name: str) -> int:
        found = self.facts.find_index(name)
        return 0 if found is None else found.height

    # --- documents by id ---

    def _fetch(self, below: Estimate, wanted: float | None) -> Estimate:
        """Documents by id: pages that have some of them, those close together in one request."""
        facts = self.facts
        # Shares are guesses: what is expected to find less than one row is taken to find one.
        found = max(below.rows, 1.0) if facts.rows else 0.0
        rows = found if wanted is None else min(found, wanted)
        stored = rows * (1.0 - min(facts.tail_rows / facts.rows, 1.0)) if facts.rows else 0.0
        missing = stored * (1.0 - below.rows_kept)
        # What blocks have besides columns is documents: as much as columns at least, which have a part of the same.
        texts = max(facts.document_bytes - sum(facts.column_bytes.values()), facts.document_bytes / 2)
        pages = max(texts / (PAGE_BYTES * PACKED), float(facts.blocks))
        region = max(pages * min(below.spread, 1.0), 1.0) if pages else 0.0
        touched = region * (1.0 - (1.0 - 1.0 / region) ** missing) if region > 1.0 else min(region, missing)
        length = texts / pages if pages else 0.0
        reach = RANGE_GAP_BYTES_MAX / max(length, 1.0)  # pages between two that one request reads
        apart = touched * (1.0 - touched / region) ** reach if region else 0.0
        blocks = min(max(facts.blocks * below.spread, 1.0), touched)
        requests = max(apart, blocks)
        size = length * min(touched + (touched - requests) * min(reach / 2, region / max(touched, 1.0) - 1.0), region)
        # A scan of columns has read what must be known of blocks that it did not read whole.
        is_known = below.form == "columns" and facts.document_bytes > WHOLE_BYTES * facts.blocks
        maps = 1.0 - facts.kept.maps() if touched and not is_known else 0.0
        # A page of which few rows are wanted is searched, one of which many are is unpacked row by row.
        unpacked = min(touched * facts.rows / max(pages, 1.0), max(missing - touched, 0.0) * SEARCHED_ROWS)
        work = rows * ROW + touched * PAGE + unpacked * PAGE_ROW
        absent = 1.0 - facts.kept.documents()
        rounds = (touched > 0 and absent > 0) + (maps > 0)
        cost = below.cost + Cost(requests * absent + maps * blocks, size * absent, rows, rounds, work / 1_000)
        return Estimate(cost, below.rows, below.spread, below.rows_kept, 1.0, "documents")


def _above(below: Estimate, rows: float, work: float) -> Estimate:
    """What a node that reads nothing makes of what comes from below."""
    return replace(below, cost=below.cost + Cost(processor_ms=work / 1_000), rows=rows, kept=None)
