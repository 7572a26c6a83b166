"""Shares by statistics of fields: near the truth when they are fresh, bounded by the sample when they are not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wormdb.bql.match import compile_filter
from wormdb.bql.parse import parse_filter
from wormdb.format.key import encode_key
from wormdb.format.kinds import MISSING
from wormdb.jobs.analyze import AnalyzedState, FieldTally, statistics_of
from wormdb.query.selectivity import Selectivity
from wormdb.query.sources.source import Facts

if TYPE_CHECKING:
    from wormdb.format.field_statistics import FieldStatistics


def statistics(path: str, documents: list[dict[str, Any]]) -> FieldStatistics:
    """What an analysis of all of them says."""
    tally = FieldTally()
    values = [document.get(path, MISSING) for document in documents]
    tally.add(values)
    flat = [item for value in values for item in (value if type(value) is list else (value,))]
    sampled = sorted((item for item in flat if item is not MISSING and item is not None), key=encode_key)
    return statistics_of(path, tally, sampled, AnalyzedState(1, 0, len(documents), 0, 1.0))


def facts_of(documents: list[dict[str, Any]], *paths: str, sample: int = 0) -> Facts:
    fields = {path: statistics(path, documents) for path in paths}
    return Facts(rows=len(documents), fields=fields, sample=tuple(documents[:sample]))


def share(facts: Facts, written: dict[str, Any]) -> float:
    return Selectivity(facts).share(parse_filter(written))


MANY = [
    {"_id": number, "n": number, "kind": "rare" if number == 7 else f"k{number % 5}", "x": None if number % 4 else 1}
    for number in range(10_000)
]
KNOWN = facts_of(MANY, "n", "kind", "x")


@pytest.mark.parametrize(
    "written",
    [
        {"kind": "rare"},
        {"kind": "k2"},
        {"kind": {"$in": ["k1", "rare"]}},
        {"kind": {"$ne": "k1"}},
        {"x": None},
        {"x": 1},
        {"x": {"$exists": True}},
        {"n": {"$gte": 5_000}},
        {"n": {"$lt": 2_500}},
        {"n": {"$gt": 2_000, "$lte": 4_000}},
        {"kind": {"$startsWith": "k"}},
        {"$or": [{"kind": "k0"}, {"kind": "k1"}]},
        {"n": {"$lt": 5_000}, "kind": "k3"},
    ],
)
def test_a_share_is_near_the_truth(written: dict[str, Any]) -> None:
    matches = compile_filter(parse_filter(written))
    truth = sum(map(matches, MANY)) / len(MANY)
    assert share(KNOWN, written) == pytest.approx(truth, rel=0.11, abs=0.06 if "$gt" in str(written) else 0.001)


def test_a_rare_value_is_told_from_a_frequent_one() -> None:
    sampled = replace(KNOWN, sample=tuple(MANY[1_000:1_100]))
    without = replace(sampled, fields={})
    assert share(without, {"kind": "rare"}) == pytest.approx(0.001)
    assert share(sampled, {"kind": "rare"}) == pytest.approx(0.0001)
    assert share(sampled, {"kind": "nowhere"}) == pytest.approx(0.1 / len(MANY))
    assert share(sampled, {"n": 70_000}) == pytest.approx(0.1 / len(MANY))


def test_the_sample_limits_what_old_statistics_say() -> None:
    """They were of other documents: all of them had n = 1, and now none of a hundred has, or each tenth."""
    old = {"n": statistics("n", [{"n": 1}] * 1_000)}
    none = tuple({"_id": number, "n": 2} for number in range(100))
    assert share(Facts(rows=1_000, fields=old, sample=none), {"n": 1}) == pytest.approx(0.03)
    some = tuple({"_id": number, "n": 2 if number < 8 else 1} for number in range(100))
    assert share(Facts(rows=1_000, fields=old, sample=some), {"n": 2}) == pytest.approx(0.02)
    enough = tuple({"_id": number, "n": 1 if number % 10 else 2} for number in range(100))
    assert share(Facts(rows=1_000, fields=old, sample=enough), {"n": 2}) == pytest.approx(0.1)


VALUES = st.none() | st.integers(-3, 3) | st.text("ab", max_size=2) | st.lists(st.integers(0, 2), max_size=2)


@given(st.lists(st.fixed_dictionaries({}, optional={"a": VALUES}), min_size=1, max_size=40), VALUES, st.data())
def test_a_share_is_always_one(documents: list[dict[str, Any]], value: Any, data: st.DataObject) -> None:
    """Whatever the values are: above 0, at most 1; and with few different values equality is counted."""
    facts = facts_of(documents, "a")
    operator = data.draw(st.sampled_from(["$eq", "$ne", "$gt", "$lte", "$in", "$exists"]))
    operand = [value] if operator == "$in" else True if operator == "$exists" else value
    assert 0 < share(facts, {"a": {operator: operand}}) <= 1
    if type(value) in (int, str) and not any(type(one.get("a")) is list for one in documents):
        truth = sum(type(one.get("a")) is type(value) and one["a"] == value for one in documents)
        assert share(facts, {"a": value}) == pytest.approx(max(truth, 0.1) / len(documents))
