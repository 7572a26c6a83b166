"""Plans carried out over a source: rows stream through the nodes, some at a time, and no more than are taken.

Where a plan gives a node less than it needs (columns that do not tell a path, ids without documents) the documents are
fetched, so every tree of nodes that finds the right rows gives the right answer; only what it costs depends on the
plan.

Memory: a batch of a block's columns or of 1,024 documents for each node; an order without `first` holds all of its
rows; `Union`, `Intersection` and indexes of arrays hold the keys of their ids.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec
import pyarrow as pa

from wormdb.bql.match import compile_filter
from wormdb.engine.blocks.portion import DOCUMENT, VERSION, Portion
from wormdb.engine.state.view import id_key
from wormdb.engine.tree.entries import Entry, Range
from wormdb.errors import LimitExceededError, UnavailableError
from wormdb.query.columns.match import compile_columns
from wormdb.query.columns.order import sort_paths
from wormdb.query.execute.order import Ordering, is_by_id, order_keys
from wormdb.query.execute.rows import ColumnBatch, DocumentBatch, KeyBatch, ReadBatch, RowBatch
from wormdb.query.physical.question import filter_paths
from wormdb.query.plan import (
    Empty,
    Fetch,
    Fused,
    IdLookup,
    IndexScan,
    Intersection,
    NearestScan,
    Node,
    Order,
    Part,
    Rank,
    Residual,
    Scan,
    TextScan,
    Union,
)
from wormdb.query.sources.source import is_list_source, is_nearest_source
from wormdb.system.deadline import current

if TYPE_CHECKING:
    from wormdb.format.kinds import Document
    from wormdb.query.execute.measure import Watch
    from wormdb.query.request import QueryRequest
    from wormdb.query.sources.source import Entries, Facts, IndexFacts, QuerySource
    from wormdb.system.clock import Clock

__all__ = [
    "BATCH_MAX",
    "Demand",
    "Executor",
    "QueryLimits",
    "count_entries",
    "find_asked_paths",
    "find_page_node",
    "in_batches",
    "scan_index",
]


# --- The ids that indexes find: entries of ranges, what several have in common, and what they have together.

BATCH_MAX: Final = 1_024
"""Rows that go through a plan at once, where they are not a block's."""
_BATCH_FIRST: Final = 128
"""Ids of the first batch if it is not known how many are needed."""
_AT_ONCE_ENTRIES: Final = 2_048
"""Ranges that have no more entries than this together, about, are read side by side."""
_AT_ONCE_SPANS: Final = 256


class Demand(msgspec.Struct, frozen=True):
    """How many rows will be taken."""

    rows: int | None = None
    """None: all."""
    is_firm: bool = False
    """Whether exactly these rows are taken; otherwise more may be asked for later."""
    in_order: bool = True
    """Whether the order of the node is wanted; otherwise rows may come in any."""
    narrow: Callable[[Portion, pa.Array | pa.ChunkedArray], Portion] | None = None
    """Which rows of a portion and a mask matter, where not all of the mask do."""

    @property
    def first(self) -> int:
        """How many to begin with."""
        return _BATCH_FIRST if self.rows is None else max(1, min(self.rows, BATCH_MAX))

    def loosened(self) -> Demand:
        """The same number to begin with, and perhaps more."""
        return Demand(self.rows, in_order=self.in_order)


def scan_index(node: IndexScan, source: QuerySource, demand: Demand, limits: QueryLimits) -> Iterator[KeyBatch]:
    """The ids of the entries of ranges, each once, in the order of its first entry.

    An index of which a document may have several entries keeps the
    keys of all ids seen. Costs as `Entries`: ranges of few entries are read side by side, others one after the other.
    """
    facts = source.facts.find_index(node.index)
    index, spans = source.entries(node.index), node.spans
    entries: Iterator[Entry]
    if len(spans) == 1 and not demand.is_firm and _size(spans[0], facts) <= (demand.rows or _AT_ONCE_ENTRIES):
        # One range of few entries, as most have: it is read at once, without the steps for many.
        (found,) = index.ranges(spans)
        entries = reversed(found) if node.reverse else iter(found)
    else:
        entries = _entries(index, spans[::-1] if node.reverse else spans, facts, node.reverse, demand)
    keys: Iterator[bytes] = map(id_key, map(_identity, entries))
    if facts is None or True in facts.may_have_arrays:
        keys = _distinct(keys)
    size = demand.first
    while some := list(islice(keys, asked := limits.allowed(size))):
        limits.look(len(some))
        yield KeyBatch(some)
        if len(some) < asked:
            return
        size = min(2 * size, BATCH_MAX)


_identity = itemgetter(1)


def _distinct(keys: Iterable[bytes]) -> Generator[bytes, None, None]:
    seen: set[bytes] = set()
    for key in keys:
        if key not in seen:
            seen.add(key)
            yield key


def _entries(
    index: Entries, spans: Sequence[Range], facts: IndexFacts | None, reverse: bool, demand: Demand
) -> Iterator[Entry]:
    for group, size in _groups(spans, facts, demand):
        # Of one range that is read to its end all leaves are asked for at once, if they are few.
        if len(group) == 1 and (demand.rows is not None or size > _AT_ONCE_ENTRIES):
            yield from _one_by_one(index, group[0], reverse, demand)
            continue
        for found in index.ranges(group):
            yield from reversed(found) if reverse else found


def _one_by_one(index: Entries, span: Range, reverse: bool, demand: Demand) -> Iterator[Entry]:
    """The entries of one range; if more than were asked for are needed after all, the others too."""
    if not demand.is_firm or demand.rows is None:
        yield from index.scan(span, reverse=reverse)
        return
    taken, last = 0, b""
    for entry in index.scan(span, reverse=reverse, limit=demand.rows):
        yield entry
        taken, last = taken + 1, entry[0]
    if taken == demand.rows:
        rest = Range(span.low, last) if reverse else Range(last + b"\0", span.high)
        yield from index.scan(rest, reverse=reverse)


def _groups(spans: Sequence[Range], facts: IndexFacts | None, demand: Demand) -> Iterator[tuple[list[Range], int]]:
    """Ranges to read side by side: several small ones, or one; and how many entries they have, about."""
    enough = _AT_ONCE_ENTRIES if demand.rows is None else min(2 * demand.rows, _AT_ONCE_ENTRIES)
    group: list[Range] = []
    total = 0
    for span in spans:
        size = _size(span, facts)
        if group and (total + size > enough or len(group) >= _AT_ONCE_SPANS):
            yield group, total
            group, total = [], 0
            enough = min(2 * enough, _AT_ONCE_ENTRIES)
        group.append(span)
        total += size
    if group:
        yield group, total


def _size(span: Range, facts: IndexFacts | None) -> int:
    """How many entries a range has, about: a guess for a narrow one without statistics."""
    if facts is None or facts.statistics is None:
        return _AT_ONCE_ENTRIES + 1 if span.high is None else 16
    return min(facts.statistics.estimate(span), facts.statistics.entries)


def count_entries(index: Entries, spans: Iterable[Range]) -> int:
    """How many entries ranges have. Costs as `Entries.count` for each."""
    return sum(index.count(span) for span in spans)


# --- How far a query may go: rows that it looks at, and time.


class QueryLimits:
    """What one request allows."""

    def __init__(self, request: QueryRequest, clock: Clock) -> None:
        """No rows have been read."""
        self._rows_max = request.rows_max
        self._deadline = request.deadline
        self._clock = clock
        self._looked_at = 0

    @property
    def are_rows_counted(self) -> bool:
        """Whether the number of rows that are read has a limit."""
        return self._rows_max is not None

    def allowed(self, rows: int) -> int:
        """How many of `rows` rows to take at once: as many as the limit leaves, and at least one."""
        return rows if self._rows_max is None else max(1, min(rows, self._rows_max - self._looked_at))

    def look(self, rows: int) -> None:
        """Count rows that are about to be read. Raises LimitExceededError, UnavailableError."""
        self._looked_at += rows
        if self._rows_max is not None and self._looked_at > self._rows_max:
            raise LimitExceededError(
                "the query was given up",
                reason=f"it looked at more than max_scanned, {self._rows_max:,}, rows",
                fix="narrow the filter, create an index for it, or raise max_scanned",
            )
        self.check_time()

    def check_time(self) -> None:
        """Raise UnavailableError after the deadline."""
        call = current()
        if call is not None:
            call.step()
        if self._deadline is not None and self._clock.monotonic() >= self._deadline:
            raise UnavailableError(
                "the query was given up",
                reason="timeout_seconds have passed",
                fix="narrow the filter, create an index for it, or raise timeout_seconds",
            )


# --- What a plan asks for on the way from its root down to the rows.


def find_page_node(root: Node) -> Node:
    """The node of which only the rows behind the page before count: below the first order, or else the first part."""
    way = _way_down(root)
    for kind in (Order, Part):
        places = [place for place, node in enumerate(way) if isinstance(node, kind)]
        if places:
            return way[places[-1] + 1]
    return root


def find_asked_paths(root: Node, facts: Facts) -> frozenset[str]:
    """The paths that filters and orders of a plan read; of an order behind a filter only those that are columns."""
    way = _way_down(root)
    filtered = frozenset[str]().union(*(filter_paths(node.filter) for node in way if isinstance(node, Residual)))
    ordered = frozenset[str]().union(*(sort_paths(node.sort) for node in way if isinstance(node, Order)))
    return filtered | (ordered & facts.columns if filtered and ordered else ordered)


def _way_down(root: Node) -> list[Node]:
    """The nodes from the root to the first one that has no single child."""
    way = [root]
    while isinstance(node := way[-1], Fetch | Residual | Order | Rank | Part):
        way.append(node.child)
    return way


WHOLE_ROWS: Final = 8 * BATCH_MAX
"""Rows with documents that go through a plan together."""
_ALL = Demand()


class Executor:
    """Carries out one plan for one request."""

    __slots__ = ("_after_below", "_limits", "_root", "clock", "request", "scores", "source", "watch")

    def __init__(self, request: QueryRequest, source: QuerySource, clock: Clock, watch: Watch | None = None) -> None:
        """Nothing is read yet; `watch` measures nodes."""
        self.request = request
        self.source = source
        self.clock = clock
        self.watch = watch
        self.scores: dict[bytes, float] = {}
        """By key the scores of rows that were ranked, filled before the first of them is given."""
        self._root: Node = Empty()
        self._after_below: Node | None = None
        self._limits = QueryLimits(request, clock)

    def batches(self, root: Node, *, in_order: bool = True) -> Iterator[RowBatch]:
        """The rows that a plan finds, in its order or in any. Nothing is read until the first batch is taken.

        Raises LimitExceededError over `rows_max`, UnavailableError at the deadline, and what the source raises.
        """
        self._after_below = None if self.request.after is None else find_page_node(root)
        self._root = root
        return self._run(root, Demand(self.request.first, in_order=in_order))

    def look(self, rows: int) -> None:
        """Count rows that are about to be read. Raises LimitExceededError, UnavailableError."""
        self._limits.look(rows)

    def fetch(self, batch: RowBatch) -> DocumentBatch:
        """The whole documents of rows, in their order; without those that do not exist.

        Versions are there if the request shows whole documents.
        """
        if isinstance(batch, DocumentBatch):
            return batch
        if isinstance(batch, ColumnBatch) and batch.is_whole:
            return batch.decoded()
        keys = batch.keys
        held = self.source.fetch(keys)
        self._limits.check_time()
        there = keys if len(held) == len(keys) else [key for key in keys if key in held]
        return DocumentBatch(there, None, list(map(held.__getitem__, there)))

    # --- nodes ---

    def _run(self, node: Node, demand: Demand) -> Iterator[RowBatch]:
        if type(node) is IndexScan:
            found: Iterator[RowBatch] = scan_index(node, self.source, demand, self._limits)
        else:
            step = self._steps.get(type(node))
            assert step is not None, "a count has no rows"
            found = step(self, node, demand)
        if node is self._after_below:
            found = self._after(found)
        return found if self.watch is None else self.watch.over(node, found)

    def _nothing(self, _: Empty, __: Demand) -> Iterator[RowBatch]:
        return iter(())

    def _scan(self, node: Scan, demand: Demand) -> Iterator[RowBatch]:
        """The portions of a scan; where documents are read, also columns for what is asked of them above.

        Blocks without such a column make it of their documents, which is faster than to decode each.
        """
        is_whole = DOCUMENT in node.names
        asked = find_asked_paths(self._root, self.source.facts) if is_whole else ()
        names = dict.fromkeys(["_id", *node.names, *asked])
        if is_whole and self.request.projection is None and not self.request.is_count:
            names[VERSION] = None
        span, after = node.span, self.request.after
        if after is not None and is_by_id(self.request.sort):
            span = Range(max(span.low, after + b"\0"), span.high)
        portions = self.source.scan(
            list(names), span=span, bounds=node.bounds, in_order=demand.in_order, rows=demand.rows
        )
        size = demand.first
        for portion in portions:
            # Documents are much longer than columns: what is made of them on the way is not made of a whole block.
            start, most = 0, WHOLE_ROWS if is_whole else portion.rows
            while start < portion.rows:
                # A block has more rows than are needed; they only matter where they are counted.
                taken = self._limits.allowed(size) if self._limits.are_rows_counted else most
                self._limits.look(min(taken, portion.rows - start))
                yield ColumnBatch(portion.slice(start, start + taken), is_whole)
                start, size = start + taken, min(2 * size, BATCH_MAX)

    def _searched(self, node: TextScan, demand: Demand) -> Iterator[RowBatch]:
        from wormdb.query.execute.search import search_texts  # few processes search texts

        self._steps[TextScan] = search_texts
        return search_texts(self, node, demand)

    def documents(self) -> Iterator[DocumentBatch]:
        """All documents, some at a time, in any order."""
        for portion in self.source.scan(["_id", DOCUMENT], in_order=False):
            for start in range(0, portion.rows, BATCH_MAX):
                stop = min(start + BATCH_MAX, portion.rows)
                self._limits.look(stop - start)
                yield ColumnBatch(portion.slice(start, stop), is_whole=True).decoded()

    def _named(self, node: IdLookup, demand: Demand) -> Iterator[RowBatch]:
        for batch in in_batches(node.keys, demand, is_sure=False):
            self._limits.look(len(batch))
            yield batch

    def _nearest(self, node: NearestScan, demand: Demand) -> Iterator[RowBatch]:
        return (KeyBatch(some, is_sure=False) for some in self.candidates(node, demand.first))

    def candidates(self, node: NearestScan, first: int) -> Iterator[list[bytes]]:
        """The keys of candidates, `first` of them and then twice as many each time. Costs as `Candidates`."""
        source = self.source
        assert is_nearest_source(source), "the facts have an index of vectors"
        reader = source.nearest(node.index)
        if not reader.is_asked and is_list_source(source):
            source.expect_documents()
        among = None if node.child is None else self._ids(node.child)[0]
        size = min(first, BATCH_MAX)
        parts = reader.candidates(node.near, node.probes, among, first=size)
        keys: list[bytes] = []
        while True:
            wanted = self._limits.allowed(size)
            while len(keys) < wanted and (more := next(parts, None)) is not None:
                keys += more
            if not keys:
                return
            some, keys = keys[:wanted], keys[wanted:]
            self._limits.look(len(some))
            yield some
            size = min(2 * size, BATCH_MAX)

    def _combined(self, node: Intersection | Union, demand: Demand) -> Iterator[RowBatch]:
        first, *others = node.children
        keys, is_sure = self._ids(first)
        for child in others:
            if isinstance(node, Intersection) and not keys:
                break
            more, is_more_sure = self._ids(child)
            if isinstance(node, Union):
                keys, is_sure = keys | more, is_sure and is_more_sure
            else:
                keys, is_sure = keys & more, is_sure or is_more_sure
        yield from in_batches(sorted(keys), demand, is_sure=is_sure)

    def _ids(self, node: Node) -> tuple[set[bytes], bool]:
        """The keys of all ids that a node finds, and whether all of them exist."""
        keys: set[bytes] = set()
        is_sure = True
        for batch in self._run(node, _ALL):
            keys.update(batch.keys)
            is_sure = is_sure and not (isinstance(batch, KeyBatch) and not batch.is_sure)
        return keys, is_sure

    def _fetched(self, node: Fetch, demand: Demand) -> Iterator[RowBatch]:
        size = BATCH_MAX if demand.rows is None else demand.first
        for batch in self._run(node.child, demand):
            rows = len(batch.keys) if type(batch) is KeyBatch else len(batch)
            for start in range(0, rows, size):
                found = self.fetch(batch if rows <= size else batch.cut(start, min(start + size, rows)))
                if found.keys:
                    yield found
            size = min(2 * size, BATCH_MAX)

    def _residual(self, node: Residual, demand: Demand) -> Iterator[RowBatch]:
        names = filter_paths(node.filter)
        columns = compile_columns(node.filter)
        matches: Callable[[Document], bool] | None = None  # made for the first documents: most filters never see any
        for batch in self._run(node.child, demand.loosened()):
            known = self._told(batch, names)
            if isinstance(known, ColumnBatch):
                mask = columns.mask(known.portion)
                narrow = demand.narrow or Portion.filter
                found: ReadBatch = ColumnBatch(narrow(known.portion, mask), known.is_whole)
            else:
                matches = matches or compile_filter(node.filter)
                found = known.pick([row for row, document in enumerate(known.documents) if matches(document)])
            if len(found):
                yield found

    def _ordered(self, node: Order, _: Demand) -> Iterator[RowBatch]:
        paths = sort_paths(node.sort)
        ordering = Ordering(node.sort, node.first)
        # A measurement counts every row that matches, and rows before a page are not among the first of it.
        is_plain = self.watch is None and self.request.after is None
        demand = Demand(in_order=False, narrow=ordering.narrowed if is_plain else None)
        for batch in self._run(node.child, demand):
            ordering.add(self._told(batch, paths))
        self._limits.check_time()
        yield from ordering.rows(BATCH_MAX)

    def _ranked(self, node: Rank, _: Demand) -> Iterator[RowBatch]:
        from wormdb.query.execute.rank import Ranking, rank_candidates  # few queries ask for vectors

        if self.watch is None and type(node.child) is Fetch and type(node.child.child) is NearestScan:
            # The same documents are near to many questions: what is kept of them is scored without a fetch.
            yield from rank_candidates(self, node, node.child.child)
            return
        ranking, paths, taken = Ranking(node.near), (node.near.field,), 0
        for batch in self._run(node.child, Demand(in_order=False) if node.enough is None else Demand(node.enough)):
            # Decoded, vectors are many times as long as they are stored.
            for start in range(0, len(batch), BATCH_MAX):
                ranking.add(self._told(batch.cut(start, min(start + BATCH_MAX, len(batch))), paths))
                self._limits.check_time()
            taken += len(batch)
            if node.enough is not None and taken >= node.enough:
                break
        found, scores = ranking.finish()
        self.scores.update(scores)
        if len(found):
            yield found

    def _fused(self, node: Fused, demand: Demand) -> Iterator[RowBatch]:
        from wormdb.bql.search.fusion import fuse  # few queries ask for both

        nearest, searched = (
            [key for batch in self._run(child, _ALL) for key in self._sure(batch).keys]
            for child in (node.nearest, node.searched)
        )
        found = fuse(nearest, searched, node.weight)
        self.scores.clear()
        self.scores.update(found)
        yield from in_batches([key for key, _ in found], demand, is_sure=True)

    def _part(self, node: Part, demand: Demand) -> Iterator[RowBatch]:
        child = node.child
        if type(child) is TextScan and child.is_bare and not node.offset and demand.rows is None:
            return self._run(child, Demand(node.limit, is_firm=True))  # it stops by itself
        return self._cut(node, demand)

    def _cut(self, node: Part, demand: Demand) -> Iterator[RowBatch]:
        # Which rows are in a part depends on their order; how many there are does not.
        in_order = demand.in_order or not self.request.is_count
        wanted = node.limit if demand.rows is None else demand.rows
        if node.limit is not None and demand.rows is not None and node.limit < demand.rows:
            wanted = node.limit
        stop = None if wanted is None else node.offset + wanted
        skip, left = node.offset, node.limit
        if left == 0:
            return
        for batch in self._run(node.child, Demand(stop, left is not None or demand.is_firm, in_order)):
            rows = self._sure(batch)
            if skip:
                start, skip = min(skip, len(rows)), max(skip - len(rows), 0)
                rows = rows.cut(start, len(rows))
            count = len(rows)
            if left is not None and count > left:
                rows, count = rows.cut(0, left), left
            if count:
                yield rows
            if left is not None:
                left -= count
                if not left:
                    return

    _steps: ClassVar[dict[type, Callable[[Executor, Any, Demand], Iterator[RowBatch]]]] = {
        Empty: _nothing,
        Scan: _scan,
        IdLookup: _named,
        TextScan: _searched,
        Intersection: _combined,
        Union: _combined,
        NearestScan: _nearest,
        Fetch: _fetched,
        Residual: _residual,
        Order: _ordered,
        Rank: _ranked,
        Fused: _fused,
        Part: _part,
    }
    """How the rows of each kind of node are found."""

    # --- what nodes need ---

    def _sure(self, batch: RowBatch) -> RowBatch:
        """Rows that exist."""
        return self.fetch(batch) if isinstance(batch, KeyBatch) and not batch.is_sure else batch

    def _told(self, batch: RowBatch, names: Iterable[str]) -> ReadBatch:
        """Rows with all that is to know about some paths: by columns, or by documents."""
        if isinstance(batch, DocumentBatch) or (isinstance(batch, ColumnBatch) and batch.covers(names)):
            return batch
        if isinstance(batch, ColumnBatch) and batch.is_whole:
            return batch.decoded()
        return self.fetch(batch)

    def _after(self, found: Iterator[RowBatch]) -> Iterator[RowBatch]:
        """Only rows behind the last one of the page before."""
        sort, after = self.request.sort, self.request.after or b""
        names = sort_paths(sort)
        for batch in found:
            known = batch if is_by_id(sort) else self._told(batch, names)
            orders = known.keys if isinstance(known, KeyBatch) else order_keys(known, sort)
            rows = [row for row, order in enumerate(orders) if order > after]
            if rows:
                yield known if len(rows) == len(known) else known.pick(rows)


def in_batches(keys: Sequence[bytes], demand: Demand, *, is_sure: bool) -> Iterator[RowBatch]:
    """Rows of which the keys are known, some at a time. No requests."""
    size = BATCH_MAX if demand.rows is None else demand.first
    start = 0
    while start < len(keys):
        yield KeyBatch(keys[start : start + size], is_sure)
        start += size
        size = min(2 * size, BATCH_MAX)
