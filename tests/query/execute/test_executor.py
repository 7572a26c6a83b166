"""What the executor promises beside the rows: limits, time, states that are gone, and no more ids than are needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests.query.execute.world import World
from wormdb.bql.parse import parse_filter
from wormdb.bql.projection import parse_projection
from wormdb.bql.sorting import parse_sort
from wormdb.engine.blocks.portion import DOCUMENT
from wormdb.engine.tree.definition import Index
from wormdb.engine.tree.entries import Range
from wormdb.engine.tree.statistics import IndexStatistics
from wormdb.errors import LimitExceededError, SnapshotTooOldError, UnavailableError
from wormdb.format import json
from wormdb.format.key import encode_key
from wormdb.query.execute.answer import count, count_plan, explain, run, run_plan
from wormdb.query.execute.executor import Demand, QueryLimits, scan_index
from wormdb.query.execute.explain import explain_plan
from wormdb.query.execute.measure import Watch
from wormdb.query.plan import (
    Cost,
    Fetch,
    IdLookup,
    IndexCount,
    IndexScan,
    Intersection,
    Order,
    Part,
    QueryPlan,
    Residual,
    Scan,
    Union,
)
from wormdb.query.request import QueryRequest
from wormdb.query.sources.source import Facts, IndexFacts
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.engine.state.view import StoredVersion
    from wormdb.engine.tree.entries import Entry
    from wormdb.query.execute.explain import PlanStep
    from wormdb.query.plan import Node

EVERYTHING_READ = Scan(("_id", DOCUMENT))
ONES = Range.prefix(encode_key(1))


@pytest.fixture(scope="module")
def world() -> World:
    world = World(["byN", "byT"], ["n", "a.b"])
    world.save([{"_id": number, "n": number % 3, "t": [number % 3, 9], "b": number} for number in range(20)])
    world.forward()
    world.save([{"_id": 30, "n": 1, "t": 1}])
    return world


# --- limits ---


@pytest.mark.parametrize("root", [EVERYTHING_READ, Fetch(IndexScan("byN", (Range(),))), Scan(("_id", "n"))])
def test_a_query_that_looks_at_too_many_rows_is_given_up(world: World, root: Node) -> None:
    assert len(list(run_plan(root, QueryRequest(rows_max=21), world.source()))) == 21
    with pytest.raises(LimitExceededError, match="max_scanned, 20, rows") as caught:
        list(run_plan(root, QueryRequest(rows_max=20), world.source()))
    assert "raise max_scanned" in caught.value.fix


@pytest.mark.parametrize("rows_max", [3, 4, 7])
@pytest.mark.parametrize(
    "child",
    [EVERYTHING_READ, IndexScan("byN", (Range(),)), Residual(EVERYTHING_READ, parse_filter({"b": {"$lt": 3}}))],
)
def test_rows_that_a_limit_does_not_need_are_not_looked_at(world: World, child: Node, rows_max: int) -> None:
    asked = QueryRequest(rows_max=rows_max, limit=3)
    assert len(list(run_plan(Part(Fetch(child), 0, 3), asked, world.source()))) == 3
    with pytest.raises(LimitExceededError):
        list(run_plan(Part(Fetch(child), 0, rows_max + 1), asked, world.source()))


def test_ids_that_are_named_are_looked_at(world: World) -> None:
    keys = tuple(map(encode_key, range(5)))
    assert len(list(run_plan(IdLookup(keys), QueryRequest(rows_max=5), world.source()))) == 5
    with pytest.raises(LimitExceededError):
        list(run_plan(IdLookup(keys), QueryRequest(rows_max=4), world.source()))


class Ticking(ManualClock):
    """A second passes whenever somebody looks."""

    def monotonic(self) -> float:
        self.advance(1)
        return super().monotonic()


@pytest.mark.parametrize("root", [EVERYTHING_READ, Fetch(IdLookup((encode_key(1),))), Fetch(IndexScan("byN", (ONES,)))])
def test_a_query_that_takes_too_long_is_given_up(world: World, root: Node) -> None:
    with pytest.raises(UnavailableError, match="timeout_seconds have passed") as caught:
        list(run_plan(root, QueryRequest(deadline=1.0), world.source(), clock=Ticking()))
    assert "raise timeout_seconds" in caught.value.fix
    assert list(run_plan(root, QueryRequest(deadline=1.0), world.source(), clock=ManualClock()))


def test_a_deadline_counts_for_counts_and_for_what_is_analyzed(world: World) -> None:
    late = QueryRequest(filter=parse_filter({"b": 1}), deadline=0.0)
    for work in (count, lambda *args, **more: explain(*args, analyze=True, **more), lambda *a, **m: list(run(*a, **m))):
        with pytest.raises(UnavailableError):
            work(late, world.source(), clock=ManualClock())


# --- states that are gone ---


@pytest.mark.parametrize("kind", ["/data/", "/indexes/"])
def test_a_state_whose_objects_are_gone_says_so(kind: str) -> None:
    world = World(["byN"])
    world.save([{"_id": number, "n": number} for number in range(5)])
    world.forward()
    source = world.cold()
    for page in world.rig.store.list("things/"):
        for info in page.objects:
            if kind in info.key:
                world.rig.store.delete(info.key)
    rows = run_plan(Fetch(IndexScan("byN", (Range(),))), QueryRequest(), source)
    with pytest.raises(SnapshotTooOldError):
        next(rows)


# --- nodes ---


def ids(root: Node, source: Any, request: QueryRequest | None = None) -> list[Any]:
    return [hit.document["_id"] for hit in run_plan(root, request or QueryRequest(), source)]


def test_ids_come_in_order_of_id_from_unions_and_intersections(world: World) -> None:
    source = world.source()
    by_n, by_t = IndexScan("byN", (ONES,)), IndexScan("byT", (Range.prefix(encode_key(9)),))
    some = IdLookup(tuple(map(encode_key, (4, 5, 99))))
    assert ids(Fetch(Intersection((by_n, by_t))), source) == [1, 4, 7, 10, 13, 16, 19]
    assert ids(Intersection((some, by_n)), source) == [4]
    assert ids(Union((some, Intersection((by_n, some)))), source) == [4, 5]
    assert ids(Union((by_n,)), source) == [1, 4, 7, 10, 13, 16, 19, 30]
    assert ids(Intersection((IdLookup(()), by_n)), source) == []
    assert ids(Part(some, 1, 5), source) == [5]


def test_only_ids_that_exist_are_counted(world: World) -> None:
    source, asked = world.source(), QueryRequest(is_count=True)
    some = IdLookup(tuple(map(encode_key, (4, 5, 99))))
    assert count_plan(some, asked, source) == 2
    assert count_plan(Union((some, IndexScan("byN", (ONES,)))), asked, source) == 9
    assert count_plan(Intersection((some, IndexScan("byN", (ONES,)))), asked, source) == 1
    assert count_plan(Intersection((some, some)), asked, source) == 2


def test_documents_come_once_however_many_entries_they_have(world: World) -> None:
    found = ids(IndexScan("byT", (Range(),)), world.source())
    assert sorted(found) == [*range(20), 30]
    assert found[:8] == [0, 3, 6, 9, 12, 15, 18, 1]
    assert ids(IndexScan("byT", (Range(),), reverse=True), world.source())[:2] == [19, 18]


def test_an_order_of_many_documents_holds_the_first(world: World) -> None:
    big = World()
    big.save([{"_id": number, "x": number * 7919 % 2_003} for number in range(2_000)])
    source, sort = big.source(), parse_sort("-x")
    expected = sorted(range(2_000), key=lambda number: -(number * 7919 % 2_003))
    for first in (0, 1, 30, 1_999, None):
        # By documents, in batches, because no column tells x.
        root = Order(Fetch(IdLookup(tuple(sorted(map(encode_key, range(2_000)))))), sort, first)
        assert ids(root, source, QueryRequest(sort=sort)) == expected[:first]


def test_filters_are_asked_of_columns_or_of_documents(world: World) -> None:
    tree = parse_filter({"n": 1, "b": {"$gt": 3}})
    expected = [4, 7, 10, 13, 16, 19]
    for names in (("_id",), ("_id", "n"), ("_id", "n", "b"), ("_id", DOCUMENT)):
        assert ids(Residual(Scan(names), tree), world.source()) == expected


def test_the_next_page_begins_below_the_innermost_part(world: World) -> None:
    source, sort = world.source(), parse_sort("n")
    scan = IndexScan("byN", (Range(),))
    first = list(run_plan(Fetch(Part(scan, 0, 5)), QueryRequest(sort=sort, limit=5), source))
    asked = QueryRequest(sort=sort, limit=3, after=first[-1].order)
    assert [hit.document["_id"] for hit in first] == [0, 3, 6, 9, 12]
    assert ids(Part(Fetch(Part(scan, 0, 3)), 0, 3), source, asked) == [15, 18, 1]


# --- projections by columns ---


def test_columns_show_what_the_document_would() -> None:
    world = World((), ["a.b", "a.c", "n"])
    values: list[Any] = [{"b": 1}, {"c": 2}, {}, None, 5, [{"b": 1}], [], {"b": None, "x": 1}]
    documents = [{"_id": place, "a": value, "n": place} for place, value in enumerate(values)]
    world.save([*documents, {"n": 8, "_id": 8}])
    world.forward()
    asked = QueryRequest(projection=parse_projection(["n", "a.c", "a.b"]))
    rows = [hit.document for hit in run_plan(Scan(("_id", "a.b", "a.c", "n")), asked, world.source())]
    assert [row.get("a", "nothing") for row in rows] == [
        {"b": 1},
        {"c": 2},
        {},
        "nothing",
        "nothing",
        [{"b": 1}],
        [],
        {"b": None},
        "nothing",
    ]
    assert {tuple(row) for row in rows} == {("_id", "n", "a"), ("_id", "n")}


def test_the_element_that_matched_is_shown_by_every_plan(world: World) -> None:
    tree = parse_filter({"t": {"$gt": 1}})
    asked = QueryRequest(filter=tree, limit=2, projection=parse_projection({"t.$": 1}, query=tree))
    for root in (Part(Residual(Scan(("_id", "t")), tree), 0, 2), Part(Residual(EVERYTHING_READ, tree), 0, 2)):
        assert [hit.document for hit in run_plan(root, asked, world.source())] == [
            {"_id": 0, "t": [9]},
            {"_id": 1, "t": [9]},
        ]


# --- entries that are asked for ---


@dataclass
class Listed:
    """An index of numbers, and a source of nothing else; what is asked of it is noted."""

    numbers: Sequence[int]
    statistics: IndexStatistics | None = None
    may_have_arrays: bool = False
    asked: list[Any] = field(default_factory=list)
    read: int = 0

    @property
    def facts(self) -> Facts:
        index = IndexFacts(Index("byN", ("n",)), 2, self.statistics, (self.may_have_arrays,))
        return Facts(rows=len(self.numbers), indexes=(index,))

    def entries(self, name: str) -> Listed:
        assert name == "byN"
        return self

    def scan(self, span: Range = Range(), *, reverse: bool = False, limit: int | None = None) -> Iterator[Entry]:  # noqa: B008 - a value
        self.asked.append(limit)
        found = self._within(span)
        for entry in (found[::-1] if reverse else found)[:limit]:
            self.read += 1
            yield entry

    def ranges(self, spans: Sequence[Range]) -> list[list[Entry]]:
        self.asked.append(len(spans))
        return [self._within(span) for span in spans]

    def _within(self, span: Range) -> list[Entry]:
        entries = [(encode_key(one) + encode_key(one), json.encode(one)) for one in self.numbers]
        return [entry for entry in entries if entry[0] in span]

    def count(self, span: Range = Range()) -> int:  # noqa: B008 - a value
        return len(self._within(span))

    def fetch(self, keys: Sequence[bytes]) -> dict[bytes, StoredVersion]:
        raise AssertionError(keys)


def scanned(source: Any, node: IndexScan, demand: Demand) -> list[bytes]:
    return [
        key
        for batch in scan_index(node, source, demand, QueryLimits(QueryRequest(), ManualClock()))
        for key in batch.keys
    ]


@pytest.mark.parametrize("reverse", [False, True])
def test_as_many_entries_are_asked_for_as_will_be_taken(reverse: bool) -> None:
    source = Listed(range(500))
    node = IndexScan("byN", (Range(),), reverse=reverse)
    batches = scan_index(node, source, Demand(20, is_firm=True), QueryLimits(QueryRequest(), ManualClock()))  # type: ignore[arg-type] # no scans
    assert len(next(batches)) == 20
    assert (source.asked, source.read) == ([20], 20)
    rest = [key for batch in batches for key in batch.keys]
    assert len(rest) == 480
    assert source.asked == [20, None]
    expected = [encode_key(number) for number in (range(479, -1, -1) if reverse else range(20, 500))]
    assert rest == expected


def test_a_loose_demand_reads_as_it_goes() -> None:
    source = Listed(range(500))
    batches = scan_index(IndexScan("byN", (Range(),)), source, Demand(20), QueryLimits(QueryRequest(), ManualClock()))  # type: ignore[arg-type] # no scans
    assert len(next(batches)) == 20
    assert (source.asked, source.read) == ([None], 20)


def test_small_ranges_are_read_side_by_side() -> None:
    spans = tuple(Range.prefix(encode_key(number)) for number in range(0, 100, 2))
    measured = IndexStatistics(entries=100, distinct=100)
    expected = [encode_key(number) for number in range(0, 100, 2)]
    for statistics in (None, measured):
        source = Listed(range(100), statistics)
        assert scanned(source, IndexScan("byN", spans), Demand()) == expected
        assert source.asked == [50]
        assert scanned(source, IndexScan("byN", spans, reverse=True), Demand()) == expected[::-1]


def test_large_ranges_are_read_one_by_one() -> None:
    spans = (Range(high=encode_key(50)), Range(encode_key(60)))
    source = Listed(range(100), IndexStatistics(entries=100_000, distinct=100))
    assert len(scanned(source, IndexScan("byN", spans), Demand())) == 90
    assert source.asked == [None, None]


def test_a_range_that_is_read_to_its_end_is_asked_for_at_once() -> None:
    source = Listed(range(100), IndexStatistics(entries=100, distinct=100))
    assert len(scanned(source, IndexScan("byN", (ONES,)), Demand())) == 1
    assert (source.asked, source.read) == ([1], 0)


# --- what is measured ---


def steps(step: PlanStep) -> list[tuple[str, int]]:
    assert step.taken is not None
    return [(step.name, step.taken.rows), *(found for child in step.children for found in steps(child))]


def test_every_node_tells_its_rows(world: World) -> None:
    watch = Watch(ManualClock(), world.store.mark)
    ones, twos = IndexScan("byN", (ONES,)), IndexScan("byN", (Range.prefix(encode_key(2)),))
    some = IdLookup(tuple(map(encode_key, (4, 5, 99))))
    inner = Intersection((some, Union((ones, twos))))
    root = Part(Residual(Fetch(inner), parse_filter({"n": 1})), 0, 5)
    source = world.source()
    assert len(list(run_plan(root, QueryRequest(), source, watch=watch))) == 1
    explained = explain_plan(QueryPlan(root, "index_lookup", "", Cost()), source.facts, taken_of=watch.taken)
    assert steps(explained.plan) == [
        ("Part", 1),
        ("Residual", 1),
        ("Fetch", 2),
        ("Intersection", 2),
        ("IdLookup", 3),
        ("Union", 14),
        ("IndexScan", 8),
        ("IndexScan", 6),
    ]


def test_requests_belong_to_the_nodes_that_make_them() -> None:
    world = World(["byN"])
    world.save([{"_id": number, "n": number} for number in range(5)])
    world.forward()
    source, asked = world.cold(), QueryRequest(filter=parse_filter({"n": {"$gte": 3}}), is_count=True)
    counted = IndexCount("byN", (Range(encode_key(3)),))
    watch = Watch(ManualClock(), world.store.mark)
    assert count_plan(counted, asked, source, watch=watch) == 2
    assert (watch.taken(counted).requests, watch.taken(counted).bytes > 0) == (1, True)
    assert watch.taken(counted).dollars == pytest.approx(0.4e-6)
    leaf = IndexScan("byN", (Range(encode_key(3)),))
    root = Fetch(leaf)
    assert len(list(run_plan(root, QueryRequest(), source, watch=watch))) == 2
    assert watch.taken(leaf).requests == 0, "the node is known by now"
    assert watch.taken(root).requests == 2 * source.facts.blocks, "a map and a page of each"
    assert watch.taken(counted).requests == 1
