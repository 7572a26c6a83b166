from __future__ import annotations

import decimal
import math
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import pytest
from bson import Binary, Decimal128, MaxKey, MinKey, ObjectId, Regex, Timestamp
from hypothesis import given

from wormdb.errors import InvalidRequestError
from wormdb.format.order import compare
from wormdb.format.values import MISSING
from wormdb.testing.strategies import numbers, values

ASCENDING: list[Any] = [
    MinKey(),
    MISSING,
    None,
    math.nan,
    -math.inf,
    Decimal128("-9.999999999999999999999999999999999E+6144"),
    -1.7976931348623157e308,
    -(2**63),
    -(2**53) - 1,
    -(2.0**53),
    -1,
    Decimal128("-0.5"),
    Decimal128("-0.1000000000000000055511151231257828"),
    -0.1,
    Decimal128("-0.1000000000000000055511151231257827"),
    Decimal128("-0.10000000000000000001"),
    Decimal128("-0.1"),
    Decimal128("-0.09999999999999999999"),
    -5e-324,
    Decimal128("-1E-1000"),
    Decimal128("-2E-6000"),
    Decimal128("-1.5E-6000"),
    Decimal128("-1E-6000"),
    Decimal128("-1E-6176"),
    0,
    Decimal128("1E-6176"),
    Decimal128("1E-6000"),
    Decimal128("1.5E-6000"),
    Decimal128("1E-1000"),
    5e-324,
    Decimal128("0.1"),
    Decimal128("0.10000000000000000001"),
    Decimal128("0.100000000000000001"),
    0.1,
    Decimal128("0.1000000000000000055511151231257828"),
    1,
    2.0**53,
    2**53 + 1,
    Decimal128("9007199254740993.5"),
    2**63 - 1,
    2.0**63,
    1.7976931348623157e308,
    Decimal128("1E+309"),
    math.inf,
    "",
    "\0",
    "\1",
    "A",
    "a",
    "a\0",
    "aa",
    "é",
    "\uffff",
    "\U0001f600",
    {},
    {"b": None},
    {"a": 1},
    {"a": 1, "b": 1},
    {"a": 2},
    {"b": 1},
    {"a": "x"},
    [],
    [MinKey()],
    [1],
    [1, 0],
    [2],
    ["a"],
    [[]],
    b"",
    Binary(b"", 5),
    b"\xff",
    Binary(b"\0", 1),
    b"\0\0",
    ObjectId(b"\0" * 12),
    ObjectId(b"\1" + b"\0" * 11),
    False,
    True,
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, tzinfo=UTC),
    datetime(2020, 1, 1, tzinfo=UTC),
    Timestamp(0, 4294967295),
    Timestamp(1, 0),
    Regex("a"),
    Regex("a", "i"),
    Regex("a", "im"),
    Regex("a", "m"),
    Regex("ab"),
    MaxKey(),
]

EQUAL: list[tuple[Any, Any]] = [
    (0.0, -0.0),
    (0, Decimal128("-0E+6111")),
    (1, 1.0),
    (1, Decimal128("1.00")),
    (0.5, Decimal128("0.500")),
    (2**53, 2.0**53),
    (2**53 + 1, Decimal128("9007199254740993.00")),
    (Decimal128("0.1"), Decimal128("0.100")),
    (Decimal128("-1E-6000"), Decimal128("-1.00E-6000")),
    (Decimal128("1E+6111"), Decimal128("1.0E+6111")),
    (math.nan, Decimal128("NaN")),
    (math.inf, Decimal128("Infinity")),
    (-math.inf, Decimal128("-Infinity")),
    (-(2**63), -(2.0**63)),
    ({"a": [1, {"b": 2}]}, {"a": [1.0, {"b": Decimal128("2.0")}]}),
    (MinKey(), MinKey()),
    (MISSING, MISSING),
    (None, None),
]


def test_the_documented_order() -> None:
    for place, a in enumerate(ASCENDING):
        for other, b in enumerate(ASCENDING):
            assert compare(a, b) == (place > other) - (place < other), (a, b)


@pytest.mark.parametrize(("a", "b"), EQUAL)
def test_equal_though_not_identical(a: Any, b: Any) -> None:
    assert compare(a, b) == compare(b, a) == 0


def test_true_is_not_one_and_key_order_counts() -> None:
    assert compare(True, 1) == 1
    assert compare(False, 0) == 1
    assert compare({"a": 1, "b": 2}, {"b": 2, "a": 1}) == -1


def exact(number: float | Decimal128) -> tuple[int, Fraction]:
    """An independent model of a number: NaN, -infinity, finite, infinity; then a fraction."""
    plain = number.to_decimal() if isinstance(number, Decimal128) else number
    text = str(plain).lower()  # not math.isinf, which makes a float of a decimal first
    if "nan" in text:
        return (0, Fraction(0))
    if "inf" in text:
        return (1 if text.startswith("-") else 3, Fraction(0))
    return (2, Fraction(plain))


@given(numbers(), numbers())
def test_numbers_compare_as_fractions(a: float | Decimal128, b: float | Decimal128) -> None:
    left, right = exact(a), exact(b)
    assert compare(a, b) == (left > right) - (left < right)


@given(values(), values(), values())
def test_compare_is_a_total_order(a: Any, b: Any, c: Any) -> None:
    assert compare(a, a) == 0
    assert compare(a, b) == -compare(b, a)
    if compare(a, b) <= 0 and compare(b, c) <= 0:
        assert compare(a, c) <= 0


def test_the_callers_decimal_context_does_not_matter() -> None:
    with decimal.localcontext() as context:
        context.prec = 3
        context.traps[decimal.FloatOperation] = True
        context.traps[decimal.Inexact] = True
        assert compare(Decimal128("0.1"), 0.1) == -1
        assert compare(Decimal128("1234567890123456789"), 1234567890123456788) == 1


def test_what_is_no_value_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="normalize"):
        compare((1,), [1])
