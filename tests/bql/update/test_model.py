"""Random updates give what the plain model gives."""

from __future__ import annotations

import copy
import math
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from bson import Decimal128
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.bql.update.model import RefusedError, updated
from wormdb.bql.numbers import add, multiply
from wormdb.bql.update.update import OPERATORS, apply_update, parse_update
from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.format.kinds import equal
from wormdb.format.path import get_direct
from wormdb.format.values import normalize_document
from wormdb.settings import INT_MAX, INT_MIN
from wormdb.testing.strategies import numbers

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
FILTERS: list[dict[str, Any]] = [{"x": {"$gt": 1}}, {"y.a": 1}]

SCALARS = st.sampled_from([0, 1, 2, -3, 1.0, 2.5, "s", "", None, True, INT_MAX, INT_MIN])
NAMES = st.sampled_from(["a", "b", "c", "0", "1"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
DOCUMENTS = st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES, max_size=3)
SEGMENTS = st.sampled_from(["a", "b", "0", "1", "3", "$[]", "$[x]", "$[y]", "$"])
PATHS = st.builds(
    lambda first, rest: ".".join([first, *rest]), st.sampled_from(["a", "b", "c"]), st.lists(SEGMENTS, max_size=3)
)
PLAIN_PATHS = st.builds(
    lambda first, rest: ".".join([first, *rest]),
    st.sampled_from(["a", "b", "c", "d"]),
    st.lists(st.sampled_from(["a", "b", "0"]), max_size=2),
)
WHOLE = st.integers(-4, 4)


def pushes() -> st.SearchStrategy[Any]:
    each = st.fixed_dictionaries(
        {"$each": st.lists(VALUES, max_size=3)},
        optional={"$position": WHOLE, "$slice": WHOLE, "$sort": st.just(1)},
    )
    return each | SCALARS


OPERANDS: dict[str, st.SearchStrategy[Any]] = {
    "$set": VALUES,
    "$setOnInsert": VALUES,
    "$unset": st.just(""),
    "$inc": st.sampled_from([0, 1, -2, 0.5, INT_MAX]),
    "$mul": st.sampled_from([0, 1, -2, 0.5]),
    "$min": VALUES,
    "$max": VALUES,
    "$currentDate": st.just(value=True),
    "$push": pushes(),
    "$addToSet": SCALARS | st.fixed_dictionaries({"$each": st.lists(VALUES, max_size=3)}),
    "$pull": SCALARS | st.sampled_from([{"$gte": 1}, {"a": 1}, {"$in": [1, "s"]}, {}, [1]]),
    "$pullAll": st.lists(VALUES, max_size=3),
    "$bit": st.dictionaries(st.sampled_from(["and", "or", "xor"]), st.sampled_from([0, 1, 6, -3, INT_MAX]), min_size=1),
    "$pop": st.sampled_from([1, -1]),
    "$rename": PLAIN_PATHS,
}


@st.composite
def updates(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(OPERATORS), min_size=1, max_size=3, unique=True))
    return {
        name: draw(st.dictionaries(PLAIN_PATHS if name == "$rename" else PATHS, OPERANDS[name], min_size=1, max_size=2))
        for name in names
    }


def used_filters(update: dict[str, Any]) -> list[dict[str, Any]]:
    text = " ".join(path for fields in update.values() for path in fields)
    return [item for item, mark in zip(FILTERS, ("$[x]", "$[y]"), strict=True) if mark in text]


def test_every_operator_is_in_the_model() -> None:
    assert set(OPERATORS) == set(OPERANDS)


@settings(max_examples=max(150, settings().max_examples))
@given(DOCUMENTS, updates(), st.integers(0, 2), st.booleans())
def test_updates_do_what_the_model_does(
    document: dict[str, Any], written: dict[str, Any], position: int, is_insert: bool
) -> None:
    filters = used_filters(written)
    try:
        update = parse_update(written, array_filters=filters)
    except InvalidRequestError:
        assume(False)
    before = copy.deepcopy(document)
    found = {array: get_direct(document, tuple(array.split("."))) for array in update.arrays}
    matched = {array: position for array, value in found.items() if isinstance(value, list) and position < len(value)}
    expected: dict[str, Any] | None
    try:
        expected = updated(document, written, filters=filters, matched=matched, now=NOW, is_insert=is_insert)
    except RefusedError:
        expected = None
    try:
        result = apply_update(update, document, matched=matched, now=NOW, is_insert=is_insert)
    except InvalidRequestError:
        assert expected is None
    else:
        assert expected is not None
        assert equal(expected, result)
        assert equal(normalize_document(result), result)
        assert equal(apply_update(update, document, matched=matched, now=NOW, is_insert=is_insert), result)
    assert equal(before, document)


def exact(number: Any) -> Fraction:
    return Fraction(number.to_decimal()) if isinstance(number, Decimal128) else Fraction(number)


def is_finite(number: Any) -> bool:
    return number.to_decimal().is_finite() if isinstance(number, Decimal128) else math.isfinite(number)


def last_digit(number: Any) -> Fraction:
    exponent: int = number.to_decimal().as_tuple().exponent
    return Fraction(10) ** exponent


@given(numbers(), numbers())
def test_arithmetic_is_exact_or_rounded_by_its_type(a: Any, b: Any) -> None:
    for calculate, operation in ((add, Fraction.__add__), (multiply, Fraction.__mul__)):
        kinds = {type(a), type(b)}
        kind = Decimal128 if Decimal128 in kinds else float if float in kinds else int
        if kind is int:
            whole = operation(exact(a), exact(b))
            if INT_MIN <= whole <= INT_MAX:
                assert calculate(a, b) == whole
            else:
                try:
                    calculate(a, b)
                except LimitExceededError:
                    continue
                raise AssertionError
            continue
        result = calculate(a, b)
        assert type(result) is kind
        if not is_finite(a) or not is_finite(b):
            assert not is_finite(result) or (kind is Decimal128 and exact(result) == 0)
        elif kind is Decimal128 and float not in kinds and is_finite(result):
            whole = operation(exact(a), exact(b))
            unit = last_digit(result)
            assert abs(exact(result) - whole) <= unit / 2


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_counts_with_15_digits_beside_a_decimal(number: float) -> None:
    result = add(number, Decimal128("0"))
    assert isinstance(result, Decimal128)
    assert result.to_decimal() == Decimal128(f"{number:.14e}").to_decimal()
