"""Answers to requests: rows one after the other, a number, an aggregation, a table, or how it would be done."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, repeat
from itertools import count as count_from
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from wormdb.bql.positions import compile_positions
from wormdb.bql.projection import Branch, FirstMatch, Part, Projection, Whole, fields_needed, parse_projection, project
from wormdb.bql.tree import MatchAll
from wormdb.engine.state.view import StoredVersion
from wormdb.format import json
from wormdb.format.kinds import MISSING, Document
from wormdb.format.path import TRAVERSED, Path, is_position
from wormdb.query.columns.order import sort_paths
from wormdb.query.execute.executor import Executor, count_entries
from wormdb.query.execute.order import order_keys
from wormdb.query.execute.rows import ColumnBatch, DocumentBatch, IdBatch, KeyBatch, ReadBatch, RowBatch
from wormdb.query.plan import IndexCount, Node
from wormdb.query.planner.planner import are_alike, make_plan
from wormdb.query.sources.source import CountingSource, QuerySource
from wormdb.system.clock import Clock, SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from wormdb.bql.aggregation import Aggregation
    from wormdb.bql.sorting import SortSpec
    from wormdb.engine.blocks.portion import Portion
    from wormdb.query.execute.explain import Explanation
    from wormdb.query.execute.measure import Metered, Watch
    from wormdb.query.planner.cache import PlanCache
    from wormdb.query.request import QueryRequest

__all__ = [
    "Hit",
    "RankedRows",
    "aggregate",
    "aggregate_plan",
    "count",
    "count_plan",
    "explain",
    "is_planned_alike",
    "needed_request",
    "run",
    "run_plan",
    "run_ranked",
    "scores_of",
    "tabulate",
    "tabulate_plan",
]


def run(
    request: QueryRequest, source: QuerySource, *, cache: PlanCache | None = None, clock: Clock | None = None
) -> Iterator[Hit]:
    """The rows of an answer, in its order. Nothing is read until the first is asked for; costs what the plan costs.

    Raises LimitExceededError over `rows_max`, UnavailableError at the deadline by `clock`, SnapshotTooOldError if the
    state is so old that objects of it are gone (then ask a new one), CorruptionError.
    """
    return run_plan(make_plan(request, source.facts, cache).root, request, source, clock=clock)


def run_plan(
    root: Node, request: QueryRequest, source: QuerySource, *, clock: Clock | None = None, watch: Watch | None = None
) -> Iterator[Hit]:
    """As `run`, by a given plan; `watch` measures its nodes."""
    executor = Executor(request, source, clock or SystemClock(), watch)
    # Rows of a batch go on without a step of Python for each: they are most of what a long answer costs.
    return chain.from_iterable(map(HitMaker(request, executor.fetch, executor.scores).hits, executor.batches(root)))


def run_ranked(
    request: QueryRequest,
    source: QuerySource,
    *,
    cache: PlanCache | None = None,
    clock: Clock | None = None,
    with_hits: bool = True,
) -> Iterator[RankedRows]:
    """As `run` of a request with scores: the rows in parts, as its plan finds them.

    Without `with_hits`, rows of which only ids are shown may come as their ids.
    """
    executor = Executor(request, source, clock or SystemClock())
    maker: HitMaker | None = None
    for batch in executor.batches(make_plan(request, source.facts, cache).root):
        if type(batch) is IdBatch and not with_hits:
            yield RankedRows(batch.scores, ids=batch.ids)
        else:
            maker = maker or HitMaker(request, executor.fetch, executor.scores)
            hits = list(maker.hits(batch))
            yield RankedRows(scores_of(hits), hits)


def is_planned_alike(request: QueryRequest, source: QuerySource, *, cache: PlanCache | None = None) -> bool:
    """Whether the first rows of a request come by the same plan as all of them. No requests."""
    whole = make_plan(replace(request, first=None), source.facts, cache)
    return are_alike(make_plan(request, source.facts, cache).root, whole.root)


def count(
    request: QueryRequest, source: QuerySource, *, cache: PlanCache | None = None, clock: Clock | None = None
) -> int:
    """How many rows the answer has. No requests for all documents; raises what `run` does."""
    if _is_of_all(request) and not request.is_ranked and isinstance(source, CountingSource):
        return _in_part(source.count_all(), request)
    asked = replace(request, is_count=True)
    return count_plan(make_plan(asked, source.facts, cache).root, asked, source, clock=clock)


def count_plan(
    root: Node, request: QueryRequest, source: QuerySource, *, clock: Clock | None = None, watch: Watch | None = None
) -> int:
    """As `count`, by a given plan; `watch` measures its nodes."""
    if isinstance(root, IndexCount):
        return _in_part(
            _entries(root, source) if watch is None else watch.count(root, lambda: _entries(root, source)), request
        )
    executor = Executor(request, source, clock or SystemClock(), watch)
    batches = executor.batches(root, in_order=False)
    return sum(len(executor.fetch(one) if isinstance(one, KeyBatch) and not one.is_sure else one) for one in batches)


def explain(
    request: QueryRequest,
    source: QuerySource,
    *,
    cache: PlanCache | None = None,
    analyze: bool = False,
    meter: Callable[[], Metered] | None = None,
    clock: Clock | None = None,
) -> Explanation:
    """How a request is answered. No requests; with `analyze` it is answered, and the rows are thrown away.

    Then `meter` tells what the store has counted: `MeteredStore.mark`. Raises what `run` does.
    """
    from wormdb.query.execute.explain import expect, explain_plan
    from wormdb.query.execute.measure import Watch

    plan = make_plan(request, source.facts, cache)
    if not analyze:
        return explain_plan(plan, source.facts)
    clock = clock or SystemClock()
    watch, expected = Watch(clock, meter), expect(plan, source.facts)

    def answer() -> int:
        if request.is_count:
            return count_plan(plan.root, request, source, clock=clock, watch=watch)
        return sum(1 for _ in run_plan(plan.root, request, source, clock=clock, watch=watch))

    taken = watch.whole(answer)
    return explain_plan(plan, source.facts, expected=expected, taken_of=watch.taken, taken=taken)


def _entries(node: IndexCount, source: QuerySource) -> int:
    return count_entries(source.entries(node.index), node.spans)


def _is_of_all(request: QueryRequest) -> bool:
    return isinstance(request.filter, MatchAll) and request.after is None


def _in_part(rows: int, request: QueryRequest) -> int:
    left = max(rows - request.offset, 0)
    return left if request.limit is None else min(left, request.limit)


# --- Aggregations of what a request finds: on columns where its plan reads columns, on documents otherwise.


def aggregate(
    aggregation: Aggregation,
    request: QueryRequest,
    source: QuerySource,
    *,
    cache: PlanCache | None = None,
    clock: Clock | None = None,
) -> dict[str, Any]:
    """What `wormdb.bql.aggregation.aggregate` gives for the documents that a request finds.

    Costs what the plan costs for rows of the fields that are needed; a mere count what `count` costs. Raises what `run`
    does, and LimitExceededError over GROUPS_MAX.
    """
    asked = needed_request(aggregation, request)
    if asked is None:
        return {"count": count(request, source, cache=cache, clock=clock)}
    return aggregate_plan(make_plan(asked, source.facts, cache).root, aggregation, asked, source, clock=clock)


def needed_request(aggregation: Aggregation, request: QueryRequest) -> QueryRequest | None:
    """What an aggregation needs of the documents of a request; None if it only counts them. No requests."""
    from wormdb.bql.aggregation import aggregation_fields

    fields = aggregation_fields(aggregation)
    return replace(request, projection=parse_projection(_needed(fields))) if fields else None


def aggregate_plan(
    root: Node, aggregation: Aggregation, asked: QueryRequest, source: QuerySource, *, clock: Clock | None = None
) -> dict[str, Any]:
    """The result by a given plan; `asked` is what `needed_request` returned."""
    executor = Executor(asked, source, clock or SystemClock())
    showing = HitMaker(asked, executor.fetch)
    from wormdb.bql.aggregation import AggregationState
    from wormdb.query.columns.tally import ColumnTally

    columns, documents = ColumnTally(aggregation), AggregationState(aggregation)
    for batch in executor.batches(root, in_order=False):
        if isinstance(batch, ColumnBatch) and batch.covers(columns.paths):
            columns.add(batch.portion)
        else:
            for hit in showing.hits(batch):
                documents.add(hit.document)
    tally = columns.tally()
    tally.merge(documents)
    return tally.result()


def _needed(paths: Iterable[str]) -> list[str]:
    """The parts of documents that have all values of some paths; a number in a path may be a position in an array."""
    found: set[str] = set()
    for path in paths:
        names: list[str] = []
        for segment in path.split("."):
            if names and is_position(segment):
                break
            names.append(segment)
        found.add(".".join(names))
    return sorted(path for path in found if not any(path.startswith(f"{other}.") for other in found))


# --- The rows of an answer for a table: as columns where the plan reads columns, as rows otherwise.


def tabulate(
    request: QueryRequest,
    source: QuerySource,
    paths: Collection[str],
    *,
    cache: PlanCache | None = None,
    clock: Clock | None = None,
) -> Iterator[Portion | list[Hit]]:
    """The rows of an answer, in its order: portions where there is a column for each of `paths`, rows elsewhere.

    Without `paths` there are rows only. Costs as `wormdb.query.execute.answer.run`, and raises what that does.
    """
    root = make_plan(request, source.facts, cache).root
    return tabulate_plan(root, request, source, paths, clock=clock)


def tabulate_plan(
    root: Node, request: QueryRequest, source: QuerySource, paths: Collection[str], *, clock: Clock | None = None
) -> Iterator[Portion | list[Hit]]:
    """As `tabulate`, by a given plan."""
    executor = Executor(request, source, clock or SystemClock())
    showing = HitMaker(request, executor.fetch, executor.scores)
    for batch in executor.batches(root):
        if paths and isinstance(batch, ColumnBatch) and batch.covers(paths):
            yield batch.portion
        else:
            yield list(showing.hits(batch))


# --- Rows as they are handed out: whole documents, or what a projection shows of them.
#
# Columns alone give what a projection shows of the whole document, or the document is fetched: where a path crosses an
# array, and where columns say of an embedded document only that fields of it are missing. Fields are shown in the order
# of the projection, the id first, wherever they were read from.

SHOWN_AT_ONCE: Final = 1_024
"""Rows that are decoded together."""


class Hit(msgspec.Struct, frozen=True):
    """One row of an answer."""

    places: Places
    row: int
    """The number of the row in `places`, from 0."""
    held: StoredVersion | None
    """What is stored; None if the request has a projection."""
    document: Document
    """Normalized: projected if the request has a projection, otherwise whole; empty if the row is raw."""
    text: bytes | None = None
    """The document as it is stored, if the request asks for raw rows."""
    score: float | None = None
    """Its score, if rows were ranked."""

    @property
    def key(self) -> bytes:
        """The key of its id."""
        return self.places.keys[self.row]

    @property
    def order(self) -> bytes:
        """Its sort key (`wormdb.bql.sorting.sort_key`): the place of the row, for page tokens."""
        return self.places.orders[self.row]


def scores_of(hits: Iterable[Hit]) -> list[float]:
    """The scores of rows that were ranked. No requests."""
    return list(map(_score_of, hits))


_score_of: Callable[[Hit], float] = attrgetter("score")


class RankedRows(msgspec.Struct, frozen=True):
    """Some rows that were ranked, as their plan found them together."""

    scores: list[float]
    hits: list[Hit] | tuple[()] = ()
    ids: list[Any] | None = None
    """The ids in place of the rows, if nothing else is shown."""


class Places:
    """Where some rows stand, made when the place of the first is wanted: most answers have no next page."""

    __slots__ = ("_batch", "_keys", "_orders", "_sort")

    def __init__(self, batch: ReadBatch, sort: SortSpec) -> None:
        """Nothing is made yet."""
        self._batch = batch
        self._sort = sort
        self._keys: Sequence[bytes] | None = None
        self._orders: Sequence[bytes] | None = None

    @property
    def keys(self) -> Sequence[bytes]:
        """The keys of the ids."""
        if self._keys is None:
            self._keys = self._batch.keys
        return self._keys

    @property
    def orders(self) -> Sequence[bytes]:
        """The sort keys."""
        if self._orders is None:
            self._orders = order_keys(self._batch, self._sort)
        return self._orders


_NO_VALUES: Final[Document] = {}
_NO_SCORES: Final[Mapping[bytes, float]] = {}
_text_of = attrgetter("document")


class HitMaker:
    """Makes the rows of one answer."""

    __slots__ = ("_fetch", "_is_raw", "_projected", "_request", "_scores", "_sort")

    def __init__(
        self,
        request: QueryRequest,
        fetch: Callable[[RowBatch], DocumentBatch],
        scores: Mapping[bytes, float] = _NO_SCORES,
    ) -> None:
        """`fetch` gives the documents of rows, in their order, without those that do not exist. No requests."""
        self._scores = scores
        self._sort = request.sort
        self._fetch = fetch
        self._is_raw = request.is_raw
        self._request = request
        self._projected: _ProjectionShape | None = None

    def hits(self, batch: RowBatch) -> Iterator[Hit]:
        """The rows of a batch. Costs a fetch of those of which columns do not tell enough."""
        # A batch may be a whole block: decoded, its documents are many times as large as they are stored.
        rows = len(batch.keys) if isinstance(batch, DocumentBatch) else len(batch)
        if rows <= SHOWN_AT_ONCE:
            return self._some(batch)
        return chain.from_iterable(
            self._some(batch.cut(start, min(start + SHOWN_AT_ONCE, rows))) for start in range(0, rows, SHOWN_AT_ONCE)
        )

    def _some(self, batch: RowBatch) -> Iterator[Hit]:
        if self._is_raw:
            return self._raw(batch)
        if type(batch) is IdBatch:
            places = Places(batch, self._sort)
            return map(Hit, repeat(places), count_from(0), repeat(None), batch.documents, repeat(None), batch.scores)
        projected, projection = self._projected, self._request.projection
        if projected is None and projection is not None:
            projected = self._projected = _ProjectionShape(projection, self._request)
        if projected is None:
            return self._whole(batch if isinstance(batch, DocumentBatch) else self._fetch(batch))
        if isinstance(batch, ColumnBatch) and projected.paths and batch.covers(projected.needs):
            return self._by_columns(batch, projected)
        found = self._fetch(batch)
        documents = found.fields(projected.names) if projected.names else found.documents
        shown = map(projected.of_document, documents)
        places, scores = Places(found, self._sort), map(self._scores.get, found.keys) if self._scores else repeat(None)
        return map(Hit, repeat(places), range(len(found)), repeat(None), shown, repeat(None), scores)

    def _whole(self, found: DocumentBatch) -> Iterator[Hit]:
        assert found.helds is not None, "versions are read with whole documents"
        places, scores = Places(found, self._sort), map(self._scores.get, found.keys) if self._scores else repeat(None)
        return map(Hit, repeat(places), range(len(found.helds)), found.helds, found.documents, repeat(None), scores)

    def _raw(self, batch: RowBatch) -> Iterator[Hit]:
        """The rows as they are stored: nothing is decoded that a filter or an order did not decode."""
        texts: Iterable[bytes]
        if isinstance(batch, ColumnBatch) and batch.is_whole:
            known: ReadBatch = batch
            texts = batch.portion.documents()
        else:
            known = self._fetch(batch)
            assert known.helds is not None, "versions are read with whole documents"
            texts = map(_text_of, known.helds)
        places, scores = Places(known, self._sort), map(self._scores.get, known.keys) if self._scores else repeat(None)
        return map(Hit, repeat(places), count_from(0), repeat(None), repeat(_NO_VALUES), texts, scores)

    def _by_columns(self, batch: ColumnBatch, projected: _ProjectionShape) -> Iterator[Hit]:
        assert not self._request.is_ranked, "ranked rows are not found by columns"
        places = Places(batch, self._sort)
        if projected.plain:
            rows = zip(*map(batch.portion.values, projected.plain), strict=True)
            for row, values in enumerate(rows):
                found = zip(projected.plain, values, strict=True)
                yield Hit(places, row, None, {name: value for name, value in found if value is not MISSING})
            return
        assembled = list(_assembled(batch.portion, projected.paths))
        vague = [
            row
            for row, (document, is_stored) in enumerate(assembled)
            if not is_stored and not _is_told(projected.branch, document)
        ]
        if vague:
            asked = self._fetch(batch.pick(vague))
            for row, document in zip(vague, asked.documents, strict=True):
                assembled[row] = document, True
        for row, (document, _) in enumerate(assembled):
            yield Hit(places, row, None, projected.of_document(document))


class _ProjectionShape:
    """A projection, and what it needs."""

    def __init__(self, projection: Projection, request: QueryRequest) -> None:
        self._projection = projection
        self._positions = compile_positions(request.filter, projection.arrays)
        self.branch = projection.parts
        needed = None if projection.arrays else fields_needed(projection)
        self.paths: Sequence[str] = sorted(needed or ())
        """What columns must tell; nothing if they cannot tell enough."""
        self.needs = sort_paths(request.sort).union(self.paths)
        """The columns of these paths and of the order."""
        self.names = {"_id", *(path.partition(".")[0] for path in self.paths)} if self.paths else None
        """The fields of a document that have them; None if the whole document is needed."""
        parts = projection.parts.parts
        is_plain = self.paths and all(isinstance(part, Whole) for part in parts.values())
        self.plain: Sequence[str] = _in_order(parts) if is_plain else ()
        """The fields, if all of them are shown whole and none is a part of another."""

    def of_document(self, document: Document) -> Document:
        projection = self._projection
        matched = self._positions(document) if projection.arrays else None
        shown = project(projection, document, matched=matched)
        return _arranged(self.branch, shown) if projection.mode == "include" else shown


def _assembled(portion: Portion, paths: Sequence[str]) -> Iterator[tuple[Document, bool]]:
    """For each row a document that at `paths` has what the stored one has there.

    Where a path crosses an array it is the stored one, and the flag beside it is true.
    """
    parts = [tuple(path.split(".")) for path in paths]
    for row, values in enumerate(zip(*map(portion.values, paths), strict=True)):
        if TRAVERSED in values:
            yield json.decode_document(portion.documents([row])[0], name="document"), True
        else:
            yield _nested(zip(parts, values, strict=True)), False


def _nested(values: Iterable[tuple[Path, Any]]) -> Document:
    document: Document = {}
    for path, value in values:
        if value is not MISSING:
            inner: Any = document
            for segment in path[:-1]:
                inner = inner.setdefault(segment, {})
            inner[path[-1]] = value
    return document


def _is_told(branch: Branch, document: Document) -> bool:
    """Whether a document made of columns shows what the stored one does: they cannot tell an empty part from none."""
    inner = ((part, document.get(name)) for name, part in branch.parts.items() if isinstance(part, Branch))
    return all(type(value) is dict and _is_told(part, value) for part, value in inner)


def _arranged(branch: Branch, shown: Document) -> Document:
    """The same fields in the order of the projection: the id first, and those of $elemMatch last."""
    parts = branch.parts
    return {name: _arranged_value(parts[name], shown[name]) for name in _in_order(parts) if name in shown}


def _in_order(parts: Mapping[str, Part]) -> list[str]:
    return sorted(parts, key=lambda name: name != "_id" and 1 + isinstance(parts[name], FirstMatch))


def _arranged_value(part: Any, value: Any) -> Any:
    if not isinstance(part, Branch):
        return value
    if type(value) is list:
        return [_arranged_value(part, element) for element in value]
    return _arranged(part, value) if type(value) is dict else value
