from __future__ import annotations

import math
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from bson import Decimal128
from hypothesis import given
from hypothesis import strategies as st

from wormdb.bql import accumulators, aggregation
from wormdb.bql.accumulators import ACCUMULATORS
from wormdb.bql.aggregation import (
    AggregationState,
    GroupResult,
    aggregate,
    aggregation_fields,
    parse_aggregation,
    value_of,
)
from wormdb.bql.numbers import ExactSum
from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.format.kinds import MISSING, equal
from wormdb.format.order import compare
from wormdb.settings import INT_MAX, INT_MIN
from wormdb.testing.strategies import numbers, values

if TYPE_CHECKING:
    from decimal import Decimal

DAY = datetime(2026, 1, 1, tzinfo=UTC)
INVOICES: list[dict[str, Any]] = [
    {"_id": 1, "status": "paid", "amount": 100, "currency": "USD"},
    {"_id": 2, "status": "paid", "amount": 50, "currency": "EUR"},
    {"_id": 3, "status": "draft", "amount": 25.5, "currency": "USD"},
    {"_id": 4, "amount": "n/a", "currency": "USD"},
    {"_id": 5, "status": None, "currency": "USD"},
]

# Why, documents, options, result.
CASES: list[tuple[str, list[dict[str, Any]], dict[str, Any], dict[str, Any]]] = [
    ("count", INVOICES, {"count": True}, {"count": 5}),
    ("min and max", INVOICES[:3], {"min": "amount", "max": "amount"}, {"min": 25.5, "max": 100}),
    (
        "groups by value; missing and null are one group",
        INVOICES,
        {"group_by": "status", "count": True},
        {"groups": {"null": {"count": 2}, "draft": {"count": 1}, "paid": {"count": 2}}},
    ),
    (
        "several functions",
        INVOICES,
        {"groupBy": "status", "sum": "amount", "avg": "amount"},
        {
            "groups": {
                "null": {"sum": 0, "avg": None},
                "draft": {"sum": 25.5, "avg": 25.5},
                "paid": {"sum": 150, "avg": 75.0},
            }
        },
    ),
    (
        "several fields a function",
        [{"a": 1, "b": 2}, {"a": 3, "b": 4}],
        {"sum": ["a", "b"], "max": ["a"], "count": True},
        {"sum": {"a": 4, "b": 6}, "max": {"a": 3}, "count": 2},
    ),
    (
        "several group fields: a list in JSON is the name",
        INVOICES[:3],
        {"group_by": ["status", "currency"], "count": True},
        {
            "groups": {
                '["draft","USD"]': {"count": 1},
                '["paid","EUR"]': {"count": 1},
                '["paid","USD"]': {"count": 1},
            }
        },
    ),
    ("a list of one group field", [{"a": "x"}], {"group_by": ["a"], "count": True}, {"groups": {"x": {"count": 1}}}),
    ("nothing at all", [], {"count": True, "sum": "a", "avg": "a"}, {"count": 0, "sum": 0, "avg": None}),
    ("nothing to compare", [], {"min": "a", "max": "a", "distinct": "a"}, {"min": None, "max": None, "distinct": []}),
    ("no groups", [], {"group_by": "a", "count": True}, {"groups": {}}),
    ("functions that are off", [{"a": 1}], {"count": False, "sum": "a", "avg": None, "group_by": None}, {"sum": 1}),
    ("the id by its name", INVOICES, {"max": "id", "min": "_id"}, {"max": 5, "min": 1}),
    # numbers
    ("integers stay integers", [{"a": 1}, {"a": 2}], {"sum": "a", "avg": "a"}, {"sum": 3, "avg": 1.5}),
    ("a double makes a double", [{"a": 1}, {"a": 2.0}], {"sum": "a", "avg": "a"}, {"sum": 3.0, "avg": 1.5}),
    (
        "a Decimal128 makes a Decimal128",
        [{"a": 1}, {"a": Decimal128("0.10")}, {"a": Decimal128("0.2")}],
        {"sum": "a", "avg": "a"},
        {"sum": Decimal128("1.30"), "avg": Decimal128("0.4333333333333333333333333333333333")},
    ),
    ("cents add up", [{"a": 0.1}] * 10, {"sum": "a", "avg": "a"}, {"sum": 1.0, "avg": 0.1}),
    ("large and small doubles", [{"a": 1e100}, {"a": 1.0}, {"a": -1e100}], {"sum": "a"}, {"sum": 1.0}),
    (
        "an integer over 64 bits is exact",
        [{"a": INT_MAX}, {"a": INT_MAX}],
        {"sum": "a", "avg": "a"},
        {"sum": Decimal128("18446744073709551614"), "avg": 9.223372036854775807e18},
    ),
    ("back within 64 bits", [{"a": INT_MAX}, {"a": 1}, {"a": -1}], {"sum": "a"}, {"sum": INT_MAX}),
    ("too large for a double", [{"a": 1e308}, {"a": 1e308}], {"sum": "a", "avg": "a"}, {"sum": math.inf, "avg": 1e308}),
    ("infinity", [{"a": math.inf}, {"a": 1}], {"sum": "a", "avg": "a"}, {"sum": math.inf, "avg": math.inf}),
    ("both infinities", [{"a": math.inf}, {"a": -math.inf}], {"sum": "a"}, {"sum": math.nan}),
    ("NaN", [{"a": math.nan}, {"a": Decimal128("1")}], {"sum": "a"}, {"sum": Decimal128("NaN")}),
    (
        "what is no number does not count",
        [{"a": "5"}, {"a": True}, {"a": None}, {"a": [7]}, {"a": DAY}, {}, {"a": 3}],
        {"sum": "a", "avg": "a", "count": True},
        {"sum": 3, "avg": 3.0, "count": 7},
    ),
    # order
    (
        "min and max over all types; null and missing do not count",
        [{"a": None}, {}, {"a": "x"}, {"a": 5}, {"a": DAY}],
        {"min": "a", "max": "a"},
        {"min": 5, "max": DAY},
    ),
    ("arrays are compared as a whole", [{"a": [9]}, {"a": 10}], {"min": "a", "max": "a"}, {"min": 10, "max": [9]}),
    ("of equal numbers the plainest", [{"a": 1.0}, {"a": 1}], {"min": "a", "max": "a"}, {"min": 1, "max": 1}),
    # groups
    (
        "names that could be read as JSON are quoted",
        [
            {"a": "5"},
            {"a": 5},
            {"a": "null"},
            {"a": None},
            {"a": "tea"},
            {"a": True},
            {"a": '"'},
            {"a": ""},
            {"a": "-"},
        ],
        {"group_by": "a", "count": True},
        {
            "groups": {
                "null": {"count": 1},
                "5": {"count": 1},
                "": {"count": 1},
                '"': {"count": 1},
                "-": {"count": 1},
                '"5"': {"count": 1},
                '"null"': {"count": 1},
                "tea": {"count": 1},
                "true": {"count": 1},
            }
        },
    ),
    (
        "equal numbers are one group",
        [{"a": 1.0}, {"a": 1}, {"a": Decimal128("1.00")}],
        {"group_by": "a", "count": True},
        {"groups": {"1": {"count": 3}}},
    ),
    (
        "an array is a key as a whole",
        [{"a": [1, 2]}, {"a": [1, 2]}, {"a": 1}],
        {"group_by": "a", "count": True},
        {"groups": {"1": {"count": 1}, "[1,2]": {"count": 2}}},
    ),
    (
        "through an array a path has an array",
        [{"a": [{"b": 1}, {"b": 2}, 3, {}]}],
        {"group_by": "a.b", "sum": "a.b", "max": "a.b"},
        {"groups": {"[1,2]": {"sum": 0, "max": [1, 2]}}},
    ),
    ("dotted fields", [{"a": {"b": 1}}, {"a": {"b": 2}}, {"a": 5}], {"sum": "a.b"}, {"sum": 3}),
    # distinct
    (
        "distinct values in their order, elements of arrays each",
        [{"a": [3, 1]}, {"a": "x"}, {"a": 1.0}, {"a": None}, {}, {"a": []}, {"a": [[1]]}],
        {"distinct": "a"},
        {"distinct": [None, 1, 3, "x", [1]]},
    ),
    ("distinct through arrays", [{"a": [{"b": 2}, {"b": [1, 2]}, 9]}], {"distinct": "a.b"}, {"distinct": [1, 2]}),
]


@pytest.mark.parametrize(("why", "documents", "options", "expected"), CASES, ids=[case[0] for case in CASES])
def test_results(why: str, documents: list[dict[str, Any]], options: dict[str, Any], expected: dict[str, Any]) -> None:
    parsed = parse_aggregation(options)
    found = aggregate(parsed, documents)
    assert set(expected) == set(found)
    for name, value in expected.items():
        assert equal(value, found[name]), found
    assert equal(aggregate(parsed, documents[::-1]), found)


MISTAKES: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({}, [("", "at least one operation")]),
    ({"group_by": "a"}, [("", "at least one operation")]),
    ({"count": 1}, [("count", "true or false")]),
    ({"count": "a"}, [("count", "true or false")]),
    ({"sum": 5}, [("sum", "text")]),
    ({"sum": ["a", 5, "b..c"]}, [("sum[1]", "text"), ("sum[2]", "empty")]),
    ({"sum": []}, [("sum", "no field")]),
    ({"avg": "$a"}, [("avg", "starts with $")]),
    ({"group_by": [], "count": True}, [("group_by", "no field")]),
    ({"group_by": "a", "groupBy": "b", "count": True}, [("groupBy", "twice")]),
    ({"summ": "a", "median": "b", "count": True}, [("summ", "no such function"), ("median", "no such function")]),
]


@pytest.mark.parametrize(("options", "expected"), MISTAKES)
def test_mistakes(options: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_aggregation(options)
    assert [path for path, _ in expected] == [problem.path for problem in caught.value.problems]
    for (_, part), problem in zip(expected, caught.value.problems, strict=True):
        assert part in problem.reason
        assert problem.fix


def test_the_paths_that_are_read() -> None:
    assert aggregation_fields(parse_aggregation({"count": True})) == set()
    options = {"group_by": ["a", "id"], "sum": "b.c", "max": ["a", "d"], "count": True}
    assert aggregation_fields(parse_aggregation(options)) == {"a", "_id", "b.c", "d"}


def test_groups_have_their_values() -> None:
    tally = AggregationState(parse_aggregation({"group_by": ["a", "b"], "count": True}))
    for document in ({"a": 1, "b": "x"}, {"a": DAY}, {"a": 1.0, "b": "x"}):
        tally.add(document)
    assert tally.groups() == [GroupResult((1, "x"), {"count": 2}), GroupResult((DAY, None), {"count": 1})]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregation, "GROUPS_MAX", 3)
    monkeypatch.setattr(accumulators, "GROUPS_MAX", 3)
    documents = [{"a": number} for number in (1, 2, 3, 1)]
    for options in ({"group_by": "a", "count": True}, {"distinct": "a"}):
        parsed = parse_aggregation(options)
        aggregate(parsed, documents)
        with pytest.raises(LimitExceededError, match="GROUPS_MAX"):
            aggregate(parsed, [*documents, {"a": 4}])


# --- whatever the order and the parts ---

FUNCTIONS = {name: True if name == "count" else "a" for name in ACCUMULATORS}
SMALL = st.sampled_from([0, 1, 1.0, Decimal128("1.0"), -0.0, 0.0, None, "x", "y", [1], [1.0], {"b": 1}, {"b": 1.0}])
ROWS = st.lists(st.fixed_dictionaries({}, optional={"a": SMALL | values(), "g": SMALL, "h": SMALL}), max_size=8)


@given(ROWS, st.randoms(use_true_random=False), st.sampled_from([None, "g", ["g", "h"], "a"]))
def test_neither_order_nor_parts_matter(rows: list[dict[str, Any]], chance: Any, group_by: Any) -> None:
    parsed = parse_aggregation({**FUNCTIONS, "group_by": group_by})
    expected = aggregate(parsed, rows)
    shuffled = list(rows)
    chance.shuffle(shuffled)
    assert equal(expected, aggregate(parsed, shuffled))
    tallies = [AggregationState(parsed) for _ in range(3)]
    for row in rows:
        chance.choice(tallies).add(row)
    total = AggregationState(parsed)
    for tally in tallies:
        total.merge(tally)
    assert equal(expected, total.result())


def exact(number: Any) -> Fraction:
    return Fraction(number.to_decimal()) if isinstance(number, Decimal128) else Fraction(number)


def is_finite(number: Any) -> bool:
    return number.to_decimal().is_finite() if isinstance(number, Decimal128) else math.isfinite(number)


@given(st.lists(numbers(), max_size=8))
def test_sums_are_the_exact_ones_rounded_once(items: list[Any]) -> None:
    total = ExactSum()
    for item in items:
        total.add(item)
    found = total.total()
    kinds = set(map(type, items))
    if not all(map(is_finite, items)):
        assert not is_finite(found)
        return
    expected = sum(map(exact, items), Fraction(0))
    if Decimal128 in kinds:
        assert isinstance(found, Decimal128)
        check_rounding(found.to_decimal(), expected)
    elif float in kinds:
        assert type(found) is float
        assert found == nearest_double(expected)
    else:
        assert type(found) is int or not INT_MIN <= expected <= INT_MAX
        assert exact(found) == expected


@given(st.lists(numbers().filter(is_finite), min_size=1, max_size=8))
def test_averages_are_the_exact_ones_rounded_once(items: list[Any]) -> None:
    total = ExactSum()
    for item in items:
        total.add(item)
    found = total.mean()
    expected = sum(map(exact, items), Fraction(0)) / len(items)
    if isinstance(found, Decimal128):
        check_rounding(found.to_decimal(), expected)
    else:
        assert found == nearest_double(expected)


def nearest_double(number: Fraction) -> float:
    try:
        return number.numerator / number.denominator
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def check_rounding(found: Decimal, expected: Fraction) -> None:
    """Within half a unit of the last of 34 digits, or beyond the largest Decimal128."""
    if found.is_infinite():
        assert abs(expected) > 9 * Fraction(10) ** 6144
        return
    digits = len(found.as_tuple().digits)
    power: Any = found.as_tuple().exponent
    unit = Fraction(10) ** power
    assert digits <= 34
    assert abs(Fraction(found) - expected) <= unit / 2
    if Fraction(found) != expected:
        assert digits == 34 or power == -6176


@given(st.lists(st.fixed_dictionaries({}, optional={"a": SMALL | values()}), max_size=6))
def test_min_max_and_distinct_by_the_order_of_values(items: list[dict[str, Any]]) -> None:
    found = aggregate(parse_aggregation({"min": "a", "max": "a", "distinct": "a"}), items)
    present = [item["a"] for item in items if item.get("a") is not None]
    if not present:
        assert found["min"] is found["max"] is None
    else:
        assert all(compare(found["min"], value) <= 0 <= compare(found["max"], value) for value in present)
        assert any(equal(found["min"], value) for value in present)
        assert any(equal(found["max"], value) for value in present)
    listed = [
        value for item in items if "a" in item for value in (item["a"] if type(item["a"]) is list else [item["a"]])
    ]
    assert all(compare(left, right) < 0 for left, right in zip(found["distinct"], found["distinct"][1:], strict=False))
    assert all(any(compare(value, other) == 0 for other in found["distinct"]) for value in listed)
    assert all(any(equal(value, other) for other in listed) for value in found["distinct"])


@pytest.mark.parametrize(
    ("document", "path", "expected"),
    [
        ({"a": 1}, "a", 1),
        ({}, "a", MISSING),
        ({"a": 5}, "a.b", MISSING),
        ({"a": [1, {"b": 2}, {}, [{"b": 3}]]}, "a.b", [2]),
        ({"a": []}, "a.b", []),
        ({"a": [1]}, "a.0", []),
        ({"a": [{"b": [{"c": 1}, {"c": 2}]}, {"b": {"c": 3}}]}, "a.b.c", [[1, 2], 3]),
    ],
)
def test_values_of_paths_are_those_of_expressions(document: dict[str, Any], path: str, expected: Any) -> None:
    found = value_of(document, tuple(path.split(".")))
    assert found is expected if expected is MISSING else equal(found, expected)
