from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from bson import Decimal128, ObjectId
from hypothesis import given
from hypothesis import strategies as st

from wormdb.errors import WormError
from wormdb.files.contents.values import value_text, values_text
from wormdb.format.key import encode_key
from wormdb.format.values import normalize
from wormdb.testing.strategies import numbers, strings, values

DATE = datetime(2026, 2, 24, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("active", "active"),
        ("", ""),
        ("2026-02-24", "2026-02-24"),
        ("0123", "0123"),
        ("5", '"5"'),
        ("-1.5e3", '"-1.5e3"'),
        ("true", '"true"'),
        ("null", '"null"'),
        ('"quoted"', '"\\"quoted\\""'),
        ("[1]", '"[1]"'),
        ("{}", '"{}"'),
        ("nothing", "nothing"),
        (5, "5"),
        (5.0, "5"),
        (-0.0, "0"),
        (0.5, "0.5"),
        (Decimal128("5.00"), "5"),
        (Decimal128("0.50"), "0.5"),
        (Decimal128("0.10"), '{"$numberDecimal":"0.1"}'),
        (True, "true"),
        (None, "null"),
        ([], "[]"),
        ({"a": [1.0]}, '{"a":[1]}'),
        (DATE, '{"$date":"2026-02-24T12:00:00Z"}'),
        (ObjectId("0" * 24), '{"$oid":"000000000000000000000000"}'),
    ],
)
def test_the_text_of_a_value(value: Any, text: str) -> None:
    assert value_text(value) == text


def test_dates_of_declared_fields_are_plain() -> None:
    assert value_text(DATE, plain_dates=True) == "2026-02-24T12:00:00.000Z"
    assert value_text("x", plain_dates=True) == "x"
    assert values_text([DATE, DATE, "5"], [True, False, False]) == (
        '["2026-02-24T12:00:00.000Z",{"$date":"2026-02-24T12:00:00Z"},"5"]'
    )


@given(values() | numbers() | strings(), values() | numbers() | strings())
def test_texts_are_equal_exactly_for_equal_values(one: Any, two: Any) -> None:
    assert (value_text(one) == value_text(two)) == (encode_key(one) == encode_key(two))
    assert (values_text([one, two], [False] * 2) == values_text([two, one], [False] * 2)) == (
        encode_key(one) == encode_key(two)
    )


@given(numbers(), st.sampled_from([int, float, lambda number: Decimal128(str(number))]))
def test_a_number_has_one_text_in_every_type_that_has_it(number: Any, cast: Any) -> None:
    try:
        other = normalize(cast(number.to_decimal() if isinstance(number, Decimal128) else number))
        same = encode_key(other) == encode_key(number)
    except (ValueError, ArithmeticError, WormError):
        return
    assert (value_text(other) == value_text(number)) == same
