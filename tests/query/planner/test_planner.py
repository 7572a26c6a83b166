"""Which plan is chosen: for each request the plan as text, over a shop that is large and one that is small."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from wormdb.bql.parse import parse_filter
from wormdb.bql.projection import parse_projection
from wormdb.bql.sorting import parse_sort, sort_key
from wormdb.engine.tree.definition import Index
from wormdb.engine.tree.statistics import IndexStatistics
from wormdb.errors import InvalidRequestError
from wormdb.format.key import encode_key
from wormdb.query.execute.explain import explain_plan
from wormdb.query.planner.planner import make_plan
from wormdb.query.request import QueryRequest
from wormdb.query.sources.source import Facts, IndexFacts

if TYPE_CHECKING:
    from wormdb.query.execute.explain import PlanStep
    from wormdb.query.plan import QueryPlan

ROWS = 100_000


def index(name: str, *fields: str, distinct: int, arrays: bool = False, sparse: bool = True) -> IndexFacts:
    """As it was measured: a value in every 32nd part of its numbers."""
    bounds = tuple(encode_key(ROWS * part // 32) for part in range(1, 32))
    ranks = tuple(ROWS * part // 32 for part in range(1, 32))
    statistics = IndexStatistics(entries=ROWS, distinct=distinct, bounds=bounds, ranks=ranks)
    return IndexFacts(Index(name, fields, sparse=sparse), 2, statistics, tuple(arrays for _ in fields))


SAMPLE = tuple(
    {"_id": f"{number:05}", "status": ["new", "paid", "sent", "void"][number % 4], "total": number, "city": "x"}
    for number in range(100)
)
SHOP = Facts(
    rows=ROWS,
    blocks=2,
    document_bytes=100_000_000,
    column_bytes={"status": 50_000, "total": 800_000, "name": 2_000_000},
    indexes=(
        index("byCity", "city", "total", distinct=90_000),
        index("byCustomer", "customer", distinct=20_000),
        index("byDate", "date", distinct=90_000, sparse=False),
        index("byEmail", "email", distinct=ROWS),
        index("byTag", "tags", distinct=50_000, arrays=True),
    ),
    sample=SAMPLE,
    version=7,
)


def request(written: dict[str, Any], **options: Any) -> QueryRequest:
    sort, select = options.pop("sort", None), options.pop("select", None)
    return QueryRequest(
        filter=parse_filter(written),
        sort=parse_sort(sort),
        projection=None if select is None else parse_projection(select),
        **options,
    )


def text_of(plan: QueryPlan, facts: Facts = SHOP) -> str:
    """The plan in one line, from the top down."""

    def written(step: PlanStep) -> str:
        inner = ", ".join(map(written, step.children))
        detail = f" [{step.detail}]" if step.detail else ""
        return f"{step.name}{detail}" + (f" < ({inner})" if len(step.children) > 1 else f" < {inner}" if inner else "")

    return f"{plan.strategy}: {written(explain_plan(plan, facts).plan)}"


CHOICES: list[tuple[QueryRequest, str]] = [
    (request({"_id": "00007"}), "index_lookup: Fetch < IdLookup [1 id]"),
    (request({"_id": {"$in": ["00009", "00007"]}}), "index_lookup: Fetch < IdLookup [2 ids]"),
    (request({"_id": {"$gte": "00090"}}), "full_scan: Scan [_id, $doc; a range of ids]"),
    (request({"_id": {"$gt": "b", "$lt": "a"}}), "index_lookup: Empty"),
    # one index
    (request({"email": "a@b"}), "index_lookup: Fetch < IndexScan [byEmail, 1 range]"),
    (
        request({"customer": "c1", "status": "paid"}),
        'index_lookup: Residual [{"status":{"$eq":"paid"}}] < Fetch < IndexScan [byCustomer, 1 range]',
    ),
    (
        request({"customer": {"$in": ["c1", "c2", "c3"]}}, sort="total"),
        "index_lookup: Order [total] < Fetch < IndexScan [byCustomer, 3 ranges]",
    ),
    (
        request({"city": 7, "total": {"$gt": 5, "$lt": 9}}),
        "index_lookup: Fetch < Union < IndexScan [byCity, 1 range]",
    ),
    (request({"tags": "vip"}), "index_lookup: Fetch < IndexScan [byTag, 1 range]"),
    (
        request({"tags": {"$gt": "a", "$lt": "b"}}),
        "index_lookup: Fetch < Intersection < (IndexScan [byTag, 1 range], IndexScan [byTag, 1 range])",
    ),
    # its order
    (
        request({"city": 7}, sort="-total", limit=10),
        "index_lookup: Fetch < Part [limit 10] < IndexScan [byCity, 1 range, backwards]",
    ),
    (
        request({"city": 7}, sort="date", limit=10),
        "index_lookup: Part [limit 10] < Order [date, first 10] < Fetch < IndexScan [byCity, 1 range]",
    ),
    (
        request({}, sort="-date", limit=10, offset=5),
        "index_lookup: Fetch < Part [offset 5, limit 10] < IndexScan [byDate, 1 range, backwards]",
    ),
    (request({}, sort="date"), "full_scan: Order [date] < Scan [_id, $doc]"),
    # several
    (
        request({"$or": [{"email": "x"}, {"customer": "y"}, {"_id": "00003"}]}),
        (
            "index_lookup: Fetch < Union < "
            "(IndexScan [byEmail, 1 range], IndexScan [byCustomer, 1 range], IdLookup [1 id])"
        ),
    ),
    (
        request({"$or": [{"email": "x"}, {"note": "y"}]}),
        'full_scan: Residual [{"$or":[{"email":{"$eq":"x"}},{"note":{"$eq":"y"}}]}] < Scan [_id, $doc]',
    ),
    (
        request({"date": {"$gte": 99_000}, "city": {"$lt": 3_000}}),
        "index_lookup: Fetch < Intersection < (IndexScan [byCity, 1 range], IndexScan [byDate, 1 range])",
    ),
    # columns
    (
        request({"status": "paid"}, select=["name"]),
        'manifest_scan: Residual [{"status":{"$eq":"paid"}}] < Scan [_id, name, status; blocks by status]',
    ),
    (
        request({"status": 1}, sort="-total", limit=9),
        (
            'manifest_fetch: Fetch < Part [limit 9] < Order [-total, first 9] < Residual [{"status":{"$eq":1}}]'
            " < Scan [_id, status, total; blocks by status]"
        ),
    ),
    (request({}, limit=5), "manifest_fetch: Fetch < Part [limit 5] < Scan [_id]"),
    (
        request({"status": "paid"}),
        'full_scan: Residual [{"status":{"$eq":"paid"}}] < Scan [_id, $doc; blocks by status]',
    ),
    (request({"note": "x"}), 'full_scan: Residual [{"note":{"$eq":"x"}}] < Scan [_id, $doc; blocks by note]'),
    (request({}), "full_scan: Scan [_id, $doc]"),
    # numbers
    (request({"customer": "c1"}, is_count=True), "index_lookup: IndexCount [byCustomer, 1 range]"),
    (request({"date": {"$gt": 5}}, is_count=True, sort="name"), "index_lookup: IndexCount [byDate, 1 range]"),
    (
        request({"status": "paid"}, is_count=True),
        'manifest_scan: Residual [{"status":{"$eq":"paid"}}] < Scan [_id, status; blocks by status]',
    ),
    (request({}, is_count=True), "index_lookup: IndexCount [byDate, 1 range]"),
]


@pytest.mark.parametrize(("asked", "expected"), CHOICES, ids=[text for _, text in CHOICES])
def test_the_cheapest_way_is_taken(asked: QueryRequest, expected: str) -> None:
    assert text_of(make_plan(asked, SHOP)) == expected


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (request({"email": "a@b"}), "index byEmail covers filter"),
        (request({"email": "a@b", "n": 1}), "index byEmail narrows, documents are tested for: n"),
        (request({"city": 7}, sort="total"), "index byCity gives the order and covers filter"),
        (request({}, sort="date", limit=1), "index byDate gives the order"),
        (request({"status": "paid"}, select=["name"]), "manifest has all needed fields"),
        (request({}, sort="name", limit=1), "manifest narrows, documents needed for: all fields"),
        (request({"status": "x"}, limit=1, select=["name", "n"]), "manifest narrows, documents needed for: n"),
        (request({"note": "x"}), "manifest lacks: note"),
        (request({"a": {"$in": []}}), "the filter matches nothing"),
    ],
)
def test_the_reason_is_told(asked: QueryRequest, reason: str) -> None:
    assert make_plan(asked, SHOP).reason == reason


@pytest.mark.parametrize(
    ("asked", "fields", "reason"),
    [
        (request({"status": "paid"}, select=["name"]), ("status", "name"), "manifest has all needed fields"),
        (request({"status": "paid"}, select=["createdAt"]), ("status",), "manifest has all needed fields"),
        (request({"status": "paid"}, select=["name"]), ("status",), "columns have all needed fields"),
        (request({"status": "paid"}, select=["name"]), (), "columns have all needed fields"),
        (request({"status": "x"}, limit=1, select=["name", "n"]), ("name",), "columns narrow, documents needed for: n"),
        (request({"note": "x"}), ("note",), "older blocks lack: note"),
        (request({"note": "x"}), (), "columns lack: note"),
    ],
)
def test_the_manifest_is_named_where_it_has_the_fields(
    asked: QueryRequest, fields: tuple[str, ...], reason: str
) -> None:
    """Blocks have other columns too: of indexes, and of fields that are declared."""
    columns = {**SHOP.column_bytes, "createdAt": 10}
    facts = replace(SHOP, manifest=fields, column_bytes=columns)
    plan = make_plan(asked, facts)
    assert plan.reason == reason
    assert explain_plan(plan, facts).manifest_fields == fields


def test_a_small_collection_is_read_at_once() -> None:
    small = replace(SHOP, rows=100, blocks=1, document_bytes=50_000)
    assert make_plan(request({"customer": "c1"}), small).strategy == "full_scan"
    assert make_plan(request({"customer": "c1"}), Facts(rows=3)).reason == "no manifest"


def test_a_page_begins_where_the_one_before_ended() -> None:
    last = {"_id": "00009", "date": 5}
    sort = parse_sort("date")
    asked = replace(request({}, sort="date", limit=10), after=sort_key(sort)(last))
    assert text_of(make_plan(asked, SHOP)) == "index_lookup: Part [limit 10] < Fetch < IndexScan [byDate, 1 range]"
    assert f"low={encode_key(5) + encode_key('00009')!r}" in str(make_plan(asked, SHOP).root)
    by_id = replace(request({"note": 1}), after=encode_key("00009"))
    assert f"low={encode_key('00009')!r}" in str(make_plan(by_id, SHOP).root)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (request({"note": 1}, strategy="index_lookup"), "no index serves the filter (create an index on note)"),
        (request({"note": 1}, strategy="manifest_scan"), "manifest lacks: note (add these fields to the manifest"),
        (request({"status": 1}, strategy="manifest_scan"), "documents are needed for: all fields (select only fields"),
        (request({"note": 1}, strategy="manifest_fetch"), "manifest lacks: note (add these fields to the manifest"),
    ],
)
def test_a_strategy_that_cannot_answer_is_refused(asked: QueryRequest, message: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        make_plan(asked, SHOP)
    assert str(refused.value).startswith(f"Strategy '{asked.strategy}' not available: {message}")


def test_without_indexes_and_columns_only_a_full_scan_is_left() -> None:
    facts = replace(SHOP, indexes=(), column_bytes={})
    plan = make_plan(request({"status": "paid"}), facts)
    assert plan.strategy == "full_scan"
    assert [(each.strategy, each.reason) for each in plan.rejected] == [
        ("index_lookup", "no index"),
        ("manifest_scan", "no manifest"),
        ("manifest_fetch", "no manifest"),
    ]


def test_rejected_plans_have_their_cost() -> None:
    plan = make_plan(request({"email": "a@b"}, strategy="full_scan"), SHOP)
    assert plan.strategy == "full_scan"
    first = plan.rejected[0]
    assert (first.strategy, first.what) == ("index_lookup", "index byEmail (email) in order")
    assert first.reason == "strategy full_scan was asked for"
    assert first.cost is not None
    assert first.cost.requests < 5
