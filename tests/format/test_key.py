from __future__ import annotations

import decimal
import math
import struct
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from bson import Decimal128
from hypothesis import given
from hypothesis import strategies as st

from tests.format.test_order import ASCENDING, EQUAL, exact
from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.format.key import check_index_key, encode_key, encode_keys, prefix_end
from wormdb.format.order import compare
from wormdb.format.values import MISSING
from wormdb.settings import INDEX_KEY_BYTES_MAX
from wormdb.testing.strategies import numbers, strings, values

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def sign(a: bytes, b: bytes) -> int:
    return (a > b) - (a < b)


def test_the_documented_order_holds_for_bytes() -> None:
    keys = [encode_key(value) for value in ASCENDING]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)
    backwards = [encode_key(value, descending=True) for value in ASCENDING]
    assert backwards == sorted(backwards, reverse=True)


@pytest.mark.parametrize(("a", "b"), EQUAL)
def test_equal_values_have_one_key(a: Any, b: Any) -> None:
    assert encode_key(a) == encode_key(b)


@given(values() | st.just(MISSING), values())
def test_bytes_compare_as_values(a: Any, b: Any) -> None:
    assert sign(encode_key(a), encode_key(b)) == compare(a, b)
    assert sign(encode_key(a, descending=True), encode_key(b, descending=True)) == -compare(a, b)


@given(values(), values(), values())
def test_bytes_compare_as_values_behind_equal_parts(shared: Any, a: Any, b: Any) -> None:
    wraps: list[Callable[[Any], Any]] = [
        lambda value: [shared, value],
        lambda value: [shared, value, shared],
        lambda value: {"k": shared, "z": value},
        lambda value: {"k": [value, shared]},
    ]
    for wrap in wraps:
        assert sign(encode_key(wrap(a)), encode_key(wrap(b))) == compare(wrap(a), wrap(b)) == compare(a, b)


@given(st.lists(numbers(), min_size=2, max_size=8))
def test_number_keys_compare_as_fractions(several: list[float | Decimal128]) -> None:
    for a in several:
        for b in several:
            left, right = exact(a), exact(b)
            assert sign(encode_key(a), encode_key(b)) == (left > right) - (left < right), (a, b)


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(-3, 3))
def test_decimals_next_to_a_double(double: float, step: int) -> None:
    """Decimals that share their first digits with a double fall on the right side of it."""
    context = decimal.Context(prec=34, Emin=-6143, Emax=6144, clamp=1, traps=[])
    near = context.create_decimal_from_float(double)
    for _ in range(abs(step)):
        near = near.next_plus(context) if step > 0 else near.next_minus(context)
    number = Decimal128(near)
    expected = (Fraction(near) > Fraction(double)) - (Fraction(near) < Fraction(double))
    assert sign(encode_key(number), encode_key(double)) == expected


@given(strings(), strings())
def test_string_keys_compare_as_utf8(a: str, b: str) -> None:
    assert sign(encode_key(a), encode_key(b)) == sign(a.encode(), b.encode())


def joined(found: Sequence[Any], descending: Sequence[bool]) -> bytes:
    """The key of several values, as sorting joins them."""
    pairs = zip(found, descending, strict=True)
    return b"".join(encode_key(value, descending=reverse) for value, reverse in pairs)


@given(
    st.lists(values(), min_size=2, max_size=2),
    st.lists(values(), min_size=2, max_size=2),
    st.tuples(st.booleans(), st.booleans()),
)
def test_joined_keys_compare_by_component(a: list[Any], b: list[Any], directions: tuple[bool, bool]) -> None:
    found = 0
    for left, right, descending in zip(a, b, directions, strict=True):
        found = found or compare(left, right) * (-1 if descending else 1)
    assert sign(joined(a, directions), joined(b, directions)) == found


@given(values(), values())
def test_no_key_is_a_proper_prefix_of_another(a: Any, b: Any) -> None:
    left, right = encode_key(a), encode_key(b)
    assert left == right or not (left.startswith(right) or right.startswith(left))


@given(values(), values(), values(), st.booleans())
def test_a_first_component_selects_a_range(wanted: Any, other: Any, second: Any, descending: bool) -> None:
    start = encode_key(wanted, descending=descending)
    end = prefix_end(start)
    assert end is not None
    for first in (wanted, other):
        key = joined([first, second], [descending, False])
        assert (start <= key < end) is (compare(first, wanted) == 0)


@given(strings(), strings())
def test_a_text_prefix_selects_a_range(prefix: str, text: str) -> None:
    start = encode_key(prefix)[:-1]
    end = prefix_end(start)
    assert end is not None
    assert (start <= encode_key(text) < end) is text.startswith(prefix)


@given(st.binary(max_size=4), st.binary(max_size=6))
def test_prefix_end_is_the_least_bound(prefix: bytes, key: bytes) -> None:
    end = prefix_end(prefix)
    if end is None:
        assert set(prefix) <= {0xFF}
    else:
        assert prefix < end
        assert not end.startswith(prefix)
        assert (prefix <= key < end) is key.startswith(prefix)


def test_common_numbers_and_texts_are_short() -> None:
    assert encode_key(1) == encode_key(1.0) == b"\x20\xbf\xf0" + bytes(7)
    assert [len(encode_key(number)) for number in (0, -1, 2**53, 0.1, math.nan)] == [10] * 5
    assert encode_key("ab") == b"\x28ab\0"
    assert len(encode_key(Decimal128("1.234567890123456789012345678901234E-6000"))) == 30
    assert encode_key(-1.5) == b"\x20" + bytes(255 - byte for byte in struct.pack(">d", -1.5)) + b"\0"


def test_the_callers_decimal_context_does_not_matter() -> None:
    expected = encode_key(Decimal128("0.1000000000000000055511151231257828"))
    with decimal.localcontext() as context:
        context.prec = 3
        context.traps[decimal.FloatOperation] = True
        context.traps[decimal.Inexact] = True
        assert encode_key(Decimal128("0.1000000000000000055511151231257828")) == expected
        assert encode_key(2**63 - 1) > encode_key(2**63 - 2)


def test_what_is_no_value_is_refused() -> None:
    for value in ((1,), [(1,)], {"a": object()}):
        with pytest.raises(InvalidRequestError, match="normalize"):
            encode_key(value)


@pytest.mark.parametrize("step", [-1, 0, 1])
def test_index_keys_are_limited(step: int) -> None:
    key = encode_key("x" * (INDEX_KEY_BYTES_MAX - 2 + step))
    assert len(key) == INDEX_KEY_BYTES_MAX + step
    if step <= 0:
        assert check_index_key(key, index="byName") is key
    else:
        with pytest.raises(LimitExceededError, match="byName"):
            check_index_key(key, index="byName")


@given(st.lists(values()) | st.lists(st.text(st.sampled_from("\0\1aé\U0001f600"), max_size=4)))
def test_many_keys_are_the_same_as_one_by_one(many: list[Any]) -> None:
    assert encode_keys(many) == [encode_key(value) for value in many]
