"""Queries that are built step by step, and the mistakes of queries however they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.api.market import MARKET, filled
from wormdb.bql.parse import parse_filter
from wormdb.errors import InvalidRequestError, LimitExceededError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.api.query import Query


@pytest.fixture(scope="module")
def orders() -> Iterator[Collection[Document]]:
    with wormdb.connect("memory://", schema=MARKET) as db:
        yield filled(db).model("Order")


# What is built, and the same as a filter.
CONDITIONS: list[tuple[Callable[[Query[Document]], Query[Document]], dict[str, Any]]] = [
    (lambda it: it.eq("customerId", "ada"), {"customerId": "ada"}),
    (lambda it: it.ne("customerId", "ada"), {"customerId": {"$ne": "ada"}}),
    (lambda it: it.gt("total", 50), {"total": {"$gt": 50}}),
    (lambda it: it.gte("total", 50), {"total": {"$gte": 50}}),
    (lambda it: it.lt("total", 50), {"total": {"$lt": 50}}),
    (lambda it: it.lte("total", 50), {"total": {"$lte": 50}}),
    (lambda it: it.in_("total", [50, 60, 7]), {"total": {"$in": [50, 60, 7]}}),
    (lambda it: it.nin("total", [50, 60, 7]), {"total": {"$nin": [50, 60, 7]}}),
    (lambda it: it.exists("nothing"), {"nothing": {"$exists": True}}),
    (lambda it: it.exists("nothing", False), {"nothing": {"$exists": False}}),
    (lambda it: it.contains("tags", "odd"), {"tags": {"$contains": "odd"}}),
    (lambda it: it.starts_with("customerId", "no"), {"customerId": {"$startsWith": "no"}}),
    (lambda it: it.ends_with("customerId", "b"), {"customerId": {"$endsWith": "b"}}),
    (lambda it: it.regex("customerId", "bod"), {"customerId": {"$regex": "bod"}}),
    (lambda it: it.regex("customerId", "BOD", "i"), {"customerId": {"$regex": "BOD", "$options": "i"}}),
    (lambda it: it.where("total>50").where({"tags": "x"}), {"$and": [{"total": {"$gt": 50}}, {"tags": "x"}]}),
    (lambda it: it.or_({"total": 10}, "total=20", it.eq("total", 30)), {"$or": [{"total": t} for t in (10, 20, 30)]}),
    (lambda it: it.or_("total>50"), {"total": {"$gt": 50}}),
]


@pytest.mark.parametrize(("build", "written"), CONDITIONS)
def test_conditions_are_those_of_filters(
    orders: Collection[Document], build: Callable[[Query[Document]], Query[Document]], written: dict[str, Any]
) -> None:
    query = build(orders.query())
    assert query.execute() == orders.find_all(written)
    assert query.count() == orders.count(written)
    assert query.filter == parse_filter(written)


def test_all_conditions_hold_and_options_replace(orders: Collection[Document]) -> None:
    query = orders.query().eq("customerId", "ada").gt("total", 0).sort("total").sort("-total").limit(1).limit(2)
    assert [row.id for row in query] == ["o09", "o06"]
    assert [row.id for row in query.offset(1)] == ["o06", "o03"]
    assert query.sort("total", "desc").execute() == query.execute() == query.sort(("total", -1)).execute()
    assert [row.id for row in orders.query().sort("customerId", "-total").limit(2)] == ["o09", "o06"]


def test_a_query_does_not_change(orders: Collection[Document]) -> None:
    ada = orders.query().eq("customerId", "ada")
    ada.gt("total", 50)
    ada.limit(1)
    assert ada.count() == 4
    with pytest.raises(AttributeError):
        setattr(ada, "_filters", ())  # noqa: B010 - a type checker refuses the plain way


def test_parts_and_refs(orders: Collection[Document]) -> None:
    row: dict[str, Any] | None = orders.query().eq("id", "o01").select("total").first()
    assert row == {"id": "o01", "total": 10}
    assert orders.query().eq("id", "o01").select({"total": 1, "_id": 0}).execute() == [{"total": 10}]
    assert orders.query().select({"tags.$": 1}).eq("tags", "x").first() == {"id": "o01", "tags": ["x"]}
    found = orders.query().eq("id", "o01").populate("customer").first()
    assert found is not None
    assert found["customer"]["name"] == "Bob"
    assert orders.query().gt("total", 9999).first() is None


def test_aggregations_of_queries(orders: Collection[Document]) -> None:
    query = orders.query().lt("total", 60)
    assert query.aggregate(count=True, sum="total") == {"count": 6, "sum": 150}
    assert query.distinct("customerId") == ["ada", "bob", "nobody"]
    with pytest.raises(InvalidRequestError, match="leave out limit"):
        query.limit(3).aggregate(count=True)


def test_strategies_and_moments(orders: Collection[Document]) -> None:
    assert orders.query().strategy("full_scan").explain().strategy == "full_scan"
    assert orders.query().as_of(0).execute() == []


def test_a_query_shows_what_it_asks(orders: Collection[Document]) -> None:
    query = orders.query().eq("customerId", "ada").limit(3)
    assert repr(query) == 'Query(Order, {"customerId":{"$eq":"ada"}}, limit=3)'


# --- mistakes ---

MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"limit": 0}, "limit must be a whole number of 1 or more, not 0 (leave it out for all rows)"),
    ({"limit": -3}, "limit must be a whole number of 1 or more, not -3"),
    ({"limit": True}, "1 or more, not True"),
    ({"limit": "10"}, "1 or more, not '10'"),
    ({"offset": -1}, "offset must be a whole number of 0 or more, not -1"),
    ({"max_scanned": 0}, "max_scanned must be a whole number of 1 or more, not 0"),
    ({"timeout_seconds": 0}, "timeout_seconds must be a number above 0, not 0"),
    ({"timeout_seconds": float("nan")}, "above 0, not nan"),
    ({"timeout_seconds": "1"}, "above 0, not '1'"),
    ({"strategy": "index"}, "there is no strategy 'index'"),
    ({"sort": {"total": "up"}}, "'up' is not a direction"),
    ({"select": "total"}, "a projection is a list of names or a document"),
    ({"select": {"a": 1, "b": 0}}, "both shown and left out"),
    ({"as_of": "yesterday"}, "it must be a time in ISO 8601"),
    ({"as_of": -1}, "a log number is 0 or more"),
    ({"filter": {"total": {"$gtt": 1}}}, "did you mean '$gt'?"),
    ({"filter": "total"}, "an operator is missing"),
    ({"filter": ["total"]}, "a filter of type list: it is neither a mapping nor text"),
    ({"filter": 7}, "find_by_id takes an id"),
    ({"skip": 3}, "there is no option 'skip' (it is called 'offset' here)"),
    ({"projection": ["a"]}, "it is called 'select' here"),
    ({"limt": 3}, "did you mean 'limit'?"),
    ({"_strategy": "full_scan"}, "it is called 'strategy' here"),
]


@pytest.mark.parametrize(("asked", "reason"), MISTAKES)
def test_mistakes_are_told_before_anything_is_asked(
    orders: Collection[Document], asked: dict[str, Any], reason: str
) -> None:
    calls: list[Callable[..., Any]] = [orders.find, orders.find_all, orders.explain]
    for call in calls:
        with pytest.raises(InvalidRequestError) as caught:
            call(**asked)
        assert reason in str(caught.value)
        assert caught.value.fix


def test_steps_tell_their_mistakes_at_once(orders: Collection[Document]) -> None:
    query = orders.query()
    steps: list[Callable[[], Any]] = [
        lambda: query.limit(0),
        lambda: query.offset(-1),
        lambda: query.sort("$a"),
        lambda: query.select({"a": 1, "b": 0}),
        lambda: query.eq("$a", 1),
        lambda: query.in_("a", "text"),
        lambda: query.where("a"),
        query.or_,
        lambda: query.as_of("yesterday"),
    ]
    for step in steps:
        with pytest.raises(InvalidRequestError):
            step()


def test_what_is_asked_of_one_row_takes_no_pages(orders: Collection[Document]) -> None:
    call: Any = orders.find_one
    for option in ({"limit": 3}, {"offset": 1}, {"page": "x"}):
        with pytest.raises(InvalidRequestError, match="there is no option"):
            call(**option)


def test_rows_and_time_can_be_limited(orders: Collection[Document]) -> None:
    with pytest.raises(LimitExceededError):
        orders.find_all("total=70", max_scanned=5, strategy="full_scan")
    assert len(orders.find_all("total=70", max_scanned=12, strategy="full_scan")) == 1
    with pytest.raises(UnavailableError):
        orders.find_all("total=70", timeout_seconds=1e-9, strategy="full_scan")
    assert len(orders.find_all("total=70", timeout_seconds=60)) == 1


def test_a_strategy_that_cannot_be_is_refused(orders: Collection[Document]) -> None:
    with pytest.raises(InvalidRequestError, match="Strategy 'index_lookup' not available"):
        orders.find_all("total=70", strategy="index_lookup")
