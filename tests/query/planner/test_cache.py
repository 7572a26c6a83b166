"""The cache keeps which way was chosen, by shape, for one root and its indexes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tests.query.planner.test_planner import SHOP, index, request, text_of
from wormdb.bql.nearest import Near
from wormdb.bql.search.fields import parse_fields
from wormdb.bql.search.search import SearchQuery
from wormdb.query.physical import searches
from wormdb.query.plan import Cost
from wormdb.query.planner.cache import PlanCache, PlanChoice
from wormdb.query.planner.planner import make_plan, shape_key
from wormdb.query.sources.source import NothingKept, TextFacts, VectorFacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.query.request import QueryRequest

ASKED = request({"customer": "c1", "status": "paid"})


def test_the_same_shape_is_planned_once() -> None:
    cache = PlanCache()
    first = make_plan(ASKED, SHOP, cache)
    again = make_plan(request({"customer": "c2", "status": "new"}), SHOP, cache)
    assert (first.is_cached, again.is_cached) == (False, True)
    assert text_of(again) == text_of(first).replace("paid", "new")
    assert again.root != first.root
    assert (again.reason, again.rejected, again.cost) == (first.reason, first.rejected, first.cost)
    assert len(cache) == 1


@pytest.mark.parametrize(
    "other",
    [
        request({"customer": "c1", "status": 5}),
        request({"customer": "c1", "status": {"$gt": "paid"}}),
        request({"customer": "c1"}),
        replace(ASKED, limit=3),
        replace(ASKED, offset=3),
        replace(ASKED, after=b"x"),
        replace(ASKED, is_count=True),
        replace(ASKED, strategy="index_lookup"),
        request({"customer": "c1", "status": "paid"}, sort="name"),
        request({"customer": "c1", "status": "paid"}, select=["name"]),
    ],
    ids=str,
)
def test_another_request_has_another_key(other: QueryRequest) -> None:
    assert shape_key(other) != shape_key(ASKED)
    cache = PlanCache()
    make_plan(ASKED, SHOP, cache)
    assert not make_plan(other, SHOP, cache).is_cached


def test_another_root_or_other_indexes_are_planned_anew() -> None:
    cache = PlanCache()
    make_plan(ASKED, SHOP, cache)
    assert not make_plan(ASKED, replace(SHOP, version=8), cache).is_cached
    changed = replace(SHOP, version=8, indexes=(index("byCustomer", "customer", "status", distinct=20_000),))
    assert not make_plan(ASKED, changed, cache).is_cached
    assert make_plan(ASKED, changed, cache).is_cached


def test_nothing_that_depends_on_values_is_kept() -> None:
    """A filter that contradicts itself says nothing about others of its shape."""
    cache = PlanCache()
    empty = make_plan(request({"date": {"$gt": 5, "$lt": 3}}), SHOP, cache)
    full = make_plan(request({"date": {"$gt": 3, "$lt": 5}}), SHOP, cache)
    assert text_of(empty) == "index_lookup: Empty"
    assert text_of(full) == "index_lookup: Fetch < Union < IndexScan [byDate, 1 range]"
    again = make_plan(request({"date": {"$gt": 5, "$lt": 3}}), SHOP, cache)
    assert text_of(again) == "index_lookup: Empty"


def test_a_range_that_is_much_wider_is_planned_anew() -> None:
    cache = PlanCache()
    narrow = make_plan(request({"date": {"$gt": 99_999}}), SHOP, cache)
    wide = make_plan(request({"date": {"$gt": 5}}), SHOP, cache)
    assert (narrow.strategy, wide.strategy, wide.is_cached) == ("index_lookup", "full_scan", False)


VECTORS = VectorFacts("byLook", ("look",), 2, "cosine", entries=90_000, lists=700, runs=1, bytes=9_000_000)
TEXTS = TextFacts("words", parse_fields(["title"]), is_ready=True)
RANKED = replace(SHOP, rows=100_000, document_bytes=200_000_000, vectors=(VECTORS,), texts=(TEXTS,))


def near(*vector: float, k: int = 5, written: Any = None) -> QueryRequest:
    return replace(request(written or {}), near=Near(("look",), vector, k))


def test_another_vector_is_planned_once() -> None:
    cache = PlanCache()
    first, again = make_plan(near(1, 0), RANKED, cache), make_plan(near(0, 1), RANKED, cache)
    assert (first.is_cached, again.is_cached) == (False, True)
    assert again == msgspec.structs.replace(make_plan(near(0, 1), RANKED), is_cached=True)
    assert not make_plan(near(0, 1, k=6), RANKED, cache).is_cached


def test_nearest_of_other_values_of_a_filter_are_planned_once_if_about_as_many_match() -> None:
    cache = PlanCache()
    first = make_plan(near(1, 0, written={"customer": "c1"}), RANKED, cache)
    again = make_plan(near(0, 1, written={"customer": "c2"}), RANKED, cache)
    assert (first.is_cached, again.is_cached) == (False, True)
    assert again.root == make_plan(near(0, 1, written={"customer": "c2"}), RANKED).root
    narrow = make_plan(near(1, 0, written={"date": {"$gt": 99_999}}), RANKED, cache)
    wide = make_plan(near(1, 0, written={"date": {"$gt": 5}}), RANKED, cache)
    assert (narrow.is_cached, wide.is_cached) == (False, False)
    assert wide.root == make_plan(near(1, 0, written={"date": {"$gt": 5}}), RANKED).root


def test_other_words_are_planned_once() -> None:
    cache = PlanCache()
    asked = [replace(request({}), search=SearchQuery(text)) for text in ("red shoes", "old hats", "hats", '"old hats"')]
    plans = [make_plan(each, RANKED, cache) for each in asked]
    assert [plan.is_cached for plan in plans] == [False, True, False, False]
    assert [plan.root for plan in plans] == [make_plan(each, RANKED).root for each in asked]
    scan = searches.find_scan(plans[1].root)
    assert scan is not None
    assert scan.index == "words"
    both = [replace(near(1, 0), search=SearchQuery(text)) for text in ("red shoes", "old hats")]
    fused = [make_plan(each, RANKED, cache) for each in both]
    assert [plan.is_cached for plan in fused] == [False, True]
    assert [plan.root for plan in fused] == [make_plan(each, RANKED).root for each in both]


def test_those_longest_unused_are_dropped() -> None:
    cache = PlanCache(2)
    requests = [request({name: 1}) for name in ("email", "customer", "date")]
    make_plan(requests[0], SHOP, cache)
    make_plan(requests[1], SHOP, cache)
    assert make_plan(requests[0], SHOP, cache).is_cached
    make_plan(requests[2], SHOP, cache)
    assert [cache.find(shape_key(each), SHOP) is not None for each in requests] == [True, False, True]
    cache.clear()
    assert len(cache) == 0


def test_a_cache_of_no_size_keeps_nothing() -> None:
    cache = PlanCache(0)
    cache.keep("shape", PlanChoice(("full",), 1, (), is_simple=True, is_plain=True, entries=0, reason="", cost=Cost()))
    assert len(cache) == 0


class OnlyColumnsKept(NothingKept):
    """What a process keeps that has read columns and never an index."""

    level = 1

    def columns(self, names: Sequence[str]) -> float:
        return 1.0

    def maps(self) -> float:
        return 1.0


def test_columns_are_scanned_beside_an_index_only_until_reading_it_would_have_paid() -> None:
    cache = PlanCache()
    columns = {"email": 200_000}
    facts = replace(SHOP, rows=10_000, blocks=1, column_bytes=columns, is_distant=True, kept=OnlyColumnsKept())
    asked = request({"email": "c1"})
    plans = [make_plan(asked, facts, cache) for _ in range(2_000)]
    ways = [plan.strategy for plan in plans]
    first = ways.index("index_lookup")
    assert set(ways[:first]) == {"manifest_fetch"}
    assert 1 < first < 1_000
    assert plans[first + 1].strategy == "index_lookup"
    assert plans[first + 1].is_cached
