"""How many requests plans take: exactly, cold and warm."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.engine.blocks.rig import noise
from tests.engine.bulk.stage_rig import MANUAL
from tests.engine.rig import Rig, insert, save
from wormdb.bql.parse import parse_filter
from wormdb.bql.projection import parse_projection
from wormdb.bql.sorting import parse_sort
from wormdb.engine.forward.forward import DEFAULT_SIZES, Sizes
from wormdb.format.event import SchemaChanged
from wormdb.query.execute.answer import count, count_plan, explain, run, run_plan
from wormdb.query.planner.planner import candidates
from wormdb.query.request import STRATEGIES, QueryRequest
from wormdb.query.sources.engine import EngineSource
from wormdb.schema.load import load_model
from wormdb.storage.meter import MeteredStore

if TYPE_CHECKING:
    from wormdb.engine.ledger import Ledger
    from wormdb.query.plan import QueryPlan
    from wormdb.storage.meter import MeteredRequest as Sent

ROWS = 2_000
MODEL = load_model(
    "Thing",
    {
        "path": "@things/(id:any)",
        "manifest": {"enabled": True, "fields": ["n", "g"]},
        "indexes": {"byN": {"field": "n", "sparse": False}, "byG": {"field": "g"}},
    },
).canonical()


class Bucket:
    """A collection of one block, one process that knows it, and what is asked of the store."""

    def __init__(self, rows: int = ROWS, sizes: Sizes = DEFAULT_SIZES) -> None:
        self.rig = Rig()
        self.sent: list[Sent] = []
        self.store = MeteredStore(self.rig.store, hook=self.sent.append)
        self.ledger = self.rig.ledger(self.store, MANUAL, sizes)
        changes = [insert(number, n=number, g=number % 100, pad=noise(number, 1, 120)) for number in range(rows)]
        self.ledger.commit(self.rig.batch(*changes, events=(SchemaChanged(definition=MODEL),)))
        self.ledger.forward()

    def source(self, ledger: Ledger | None = None) -> EngineSource:
        ledger = ledger or self.ledger
        source = EngineSource(ledger.view(), ledger)
        self.sent.clear()
        return source

    def cold(self) -> EngineSource:
        return self.source(self.rig.ledger(self.store, MANUAL))

    def asked(self) -> dict[str, int]:
        """How often what was asked for since then."""
        found = Counter(_kind(one.key) for one in self.sent)
        self.sent.clear()
        return dict(found)


def _kind(key: str) -> str:
    if "/indexes/" in key:
        return "node"
    return "map" if key.endswith(".map") else "data" if "/data/" in key else key


@pytest.fixture(scope="module")
def bucket() -> Bucket:
    return Bucket()


def chosen(request: QueryRequest, source: EngineSource, strategy: str, what: str = "") -> QueryPlan:
    """The cheapest plan of a strategy."""
    found = candidates(request, source.facts)
    return next(plan for plan in found if plan.strategy == strategy and what in repr(plan.root))


EQUALITY = QueryRequest(filter=parse_filter({"n": 1_234}))
GROUP = parse_filter({"g": 7})
NEWEST = QueryRequest(sort=parse_sort("-n"), limit=20)
SHOWN = QueryRequest(filter=GROUP, projection=parse_projection(["n"]))

PARTS = QueryRequest(filter=GROUP, sort=parse_sort("pad"), projection=parse_projection({"g": 0}))

PAGES = {"map": 1, "data": 1}
NODES = {"node": 2}
CASES: list[tuple[str, QueryRequest, str, int, dict[str, int], dict[str, int]]] = [
    ("an id", QueryRequest(filter=parse_filter({"_id": 77})), "index_lookup", 1, PAGES, {"data": 1}),
    ("an id beyond all", QueryRequest(filter=parse_filter({"_id": "x"})), "index_lookup", 0, {}, {}),
    ("equality", EQUALITY, "index_lookup", 1, NODES | PAGES, {"data": 1}),
    ("an order", NEWEST, "index_lookup", 20, NODES | PAGES, {"data": 1}),
    # The columns lie together; the footer is at the other end of the block.
    ("columns", SHOWN, "manifest_scan", 20, {"map": 1, "data": 2}, {"data": 2}),
    ("columns, then documents", QueryRequest(filter=GROUP), "manifest_fetch", 20, {"map": 1, "data": 3}, {"data": 3}),
    # A block of this size is read whole, without asking for its map first.
    ("documents", QueryRequest(filter=GROUP), "full_scan", 20, {"data": 1}, {"data": 1}),
    ("documents in part", PARTS, "full_scan", 20, {"data": 1}, {"data": 1}),
]
"""What is asked, how, how many rows it has, and what is read by a process that knows nothing, and by one that does."""


@pytest.mark.parametrize(
    ("request_", "strategy", "rows", "cold", "warm"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_plan_takes_so_many_requests(
    bucket: Bucket, request_: QueryRequest, strategy: str, rows: int, cold: dict[str, int], warm: dict[str, int]
) -> None:
    source = bucket.cold()
    plan = chosen(request_, source, strategy)
    bucket.asked()
    for expected in (cold, warm):
        assert len(list(run_plan(plan.root, request_, source))) == rows
        assert bucket.asked() == expected


def test_a_count_reads_the_ends_of_its_range(bucket: Bucket) -> None:
    source = bucket.cold()
    asked = QueryRequest(filter=parse_filter({"n": {"$gte": 100, "$lt": 1_900}}), is_count=True)
    plan = chosen(asked, source, "index_lookup", "IndexCount")
    for expected in ({"node": 3}, {}):
        assert count_plan(plan.root, asked, source) == 1_800
        assert bucket.asked() == expected


def test_a_count_without_an_index_reads_one_column(bucket: Bucket) -> None:
    source = bucket.cold()
    asked = QueryRequest(filter=parse_filter({"g": {"$mod": [10, 3]}}), is_count=True)
    plan = chosen(asked, source, "manifest_scan")
    assert count_plan(plan.root, asked, source) == 200
    assert bucket.asked() == {"map": 1, "data": 2}


def test_the_number_of_all_documents_is_known(bucket: Bucket) -> None:
    source = bucket.cold()
    assert count(QueryRequest(), source) == ROWS
    assert count(QueryRequest(offset=10, limit=5), source) == 5
    assert count(QueryRequest(offset=ROWS - 2, limit=5), source) == 2
    assert bucket.asked() == {}


def test_facts_and_plans_take_no_requests(bucket: Bucket) -> None:
    source = bucket.cold()
    assert source.facts.rows == ROWS
    assert explain(QueryRequest(filter=GROUP), source).strategy in STRATEGIES
    assert bucket.asked() == {}


def test_nothing_is_read_before_the_first_row_is_taken(bucket: Bucket) -> None:
    source = bucket.cold()
    rows = run(EQUALITY, source)
    assert bucket.asked() == {}
    assert next(rows).document["n"] == 1_234


def test_what_the_tail_has_takes_no_requests() -> None:
    bucket = Bucket(rows=50)
    bucket.ledger.commit(bucket.rig.batch(save(7, n=1_000, g=-1)))
    source = bucket.source()
    for written in ({"_id": 7}, {"n": 1_000}, {"g": -1}):
        asked = QueryRequest(filter=parse_filter(written))
        list(run_plan(chosen(asked, source, "index_lookup").root, asked, source))
        bucket.asked()
        assert [hit.document["_id"] for hit in run_plan(chosen(asked, source, "index_lookup").root, asked, source)] == [
            7
        ]
        assert bucket.asked() == {}


# --- no more than a limit needs ---


def test_a_limit_reads_the_first_block_only() -> None:
    bucket = Bucket(rows=800, sizes=Sizes(block_target=10_000))
    source = bucket.source()
    assert source.facts.blocks > 5
    plan = chosen(QueryRequest(limit=5), source, "full_scan")
    assert len(list(run_plan(plan.root, QueryRequest(limit=5), source))) == 5
    assert bucket.asked() == {"data": 1}


def test_a_filter_reads_on_until_the_limit_is_met() -> None:
    bucket = Bucket(rows=800, sizes=Sizes(block_target=10_000))
    source = bucket.source()
    asked = QueryRequest(filter=parse_filter({"pad": {"$regex": "^a"}}), limit=3)
    plan = chosen(asked, source, "full_scan")
    assert len(list(run_plan(plan.root, asked, source))) == 3
    assert bucket.asked()["data"] < source.facts.blocks / 2
