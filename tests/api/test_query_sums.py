"""Aggregations of a collection: those of the pure language, on columns and on documents."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from bson import Decimal128
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from tests.api.market import MARKET, filled, spent
from wormdb.bql.aggregation import aggregate, parse_aggregation
from wormdb.bql.match import compile_filter
from wormdb.bql.parse import parse_filter
from wormdb.errors import InvalidRequestError
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document


@pytest.fixture(scope="module", params=[False, True], ids=["tail", "forwarded"])
def orders(request: pytest.FixtureRequest) -> Iterator[Collection[Document]]:
    with wormdb.connect("memory://", schema=MARKET) as db:
        yield filled(db, "Order", forwarded=request.param).model("Order")


def test_results_have_the_shapes_that_are_documented(orders: Collection[Document]) -> None:
    assert orders.aggregate(count=True) == {"count": 12}
    assert orders.aggregate(count=True, sum="total", avg="total", min="total", max="total") == {
        "count": 12,
        "sum": 660,
        "avg": 55.0,
        "min": 0,
        "max": 110,
    }
    assert orders.aggregate(group_by="customerId", sum="total", filter="total>=30") == {
        "groups": {"ada": {"sum": 180}, "bob": {"sum": 210}, "nobody": {"sum": 240}}
    }
    assert orders.aggregate(group_by=["productId", "customerId"], count=True, filter={"total": {"$lt": 20}}) == {
        "groups": {'["p1","ada"]': {"count": 1}, '["p1","bob"]': {"count": 1}}
    }
    assert orders.aggregate(sum=["total", "nothing"]) == {"sum": {"total": 660, "nothing": 0}}
    assert orders.aggregate(count=True, sum="total", filter="total>9999") == {"count": 0, "sum": 0}


def test_different_values(orders: Collection[Document]) -> None:
    assert orders.distinct("customerId") == ["ada", "bob", "nobody"]
    assert orders.distinct("tags", "total<=10") == ["even", "odd", "x"]
    assert orders.distinct("id", {"total": {"$gt": 90}}) == ["o10", "o11"]
    assert orders.distinct("tags.0", "total<=10") == ["even", "odd"]
    assert orders.distinct("nothing") == []


def test_mistakes(orders: Collection[Document]) -> None:
    call: Any = orders.aggregate
    with pytest.raises(InvalidRequestError, match="needs at least one operation"):
        call()
    with pytest.raises(InvalidRequestError, match="count is true or false"):
        call(count="total")
    distinct: Any = orders.distinct
    for field in (["a"], None, ""):
        with pytest.raises(InvalidRequestError):
            distinct(field)


def test_sums_of_decimals_are_exact() -> None:
    with wormdb.connect("memory://") as db:
        db["sums"].insert_many([{"n": Decimal128("0.1")} for _ in range(10)])
        assert db["sums"].aggregate(sum="n") == {"sum": Decimal128("1.0")}


def test_columns_suffice(url: str) -> None:
    """Groups of declared fields read no documents; a count reads nothing but the log."""
    with wormdb.connect(url, schema=MARKET) as db:
        orders = filled(db, "Order", forwarded=True).model("Order")
        orders.aggregate(group_by="customerId", sum="total")
        assert spent(db, lambda: orders.aggregate(count=True)).requests == 1
        explained = orders.explain(select=["customerId", "total"])
        assert explained.strategy == "manifest_scan"


# --- the pure language ---

ANYTHING = wormdb.connect("memory://", clock=ManualClock())
NUMBERS = count()
VALUES = st.one_of(st.integers(-3, 3), st.sampled_from(["a", "1", ""]), st.none(), st.booleans(), st.just(0.5))
FIELD = st.one_of(VALUES, st.lists(VALUES, max_size=2), st.fixed_dictionaries({}, optional={"x": VALUES, "0": VALUES}))
FIELD = st.one_of(FIELD, st.lists(FIELD, max_size=2))
DOCUMENTS = st.lists(st.fixed_dictionaries({}, optional={"a": FIELD, "b": FIELD}), max_size=6)
PATHS = st.sampled_from(["a", "b", "a.x", "a.0", "b.0.x", "id"])
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "group_by": st.one_of(PATHS, st.lists(PATHS, min_size=1, max_size=2, unique=True)),
        "count": st.just(True),
        "sum": PATHS,
        "avg": PATHS,
        "min": PATHS,
        "max": st.lists(PATHS, min_size=1, max_size=2, unique=True),
    },
).filter(lambda options: options.keys() - {"group_by"})


@given(DOCUMENTS, OPTIONS, st.sampled_from([{}, {"a": {"$ne": 1}}, {"b": {"$exists": True}}]), st.booleans(), PATHS)
@settings(max_examples=40, deadline=None)
def test_results_are_those_of_the_pure_language(
    documents: list[dict[str, Any]], options: dict[str, Any], written: dict[str, Any], forwarded: bool, field: str
) -> None:
    stored = [{"_id": number, **document} for number, document in enumerate(documents)]
    found = list(filter(compile_filter(parse_filter(written)), stored))
    things = ANYTHING[f"things{next(NUMBERS)}"]
    things.insert_many(stored)
    if stored:
        things.create_index("a", wait=forwarded)
    if stored and forwarded:
        things.forward()
    assert things.aggregate(**options, filter=written) == aggregate(parse_aggregation(options), found)
    assert things.distinct(field, written) == aggregate(parse_aggregation({"distinct": field}), found)["distinct"]
