"""Arithmetic of updates, with MongoDB's rules for types.

Two integers give an integer of 64 bits or an error, never another number. A double with an integer gives a double. A
Decimal128 with anything gives a Decimal128 of 34 digits; a double counts with its first 15 digits there, as it is
meant to be read.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from wormdb.errors import LimitExceededError
from wormdb.format.kinds import Decimal128
from wormdb.settings import INT_MAX, INT_MIN

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DECIMAL128", "Number", "add", "is_number", "multiply", "to_decimal128", "zero_like"]

Number: TypeAlias = int | float | Decimal128

DECIMAL128: Final = Context(prec=34, rounding=ROUND_HALF_EVEN, Emin=-6143, Emax=6144, clamp=1, traps=[])
"""IEEE 754's decimal128: what is too large is infinite, what is too small is rounded."""

_DOUBLE_DIGITS: Final = 15
_DOUBLE: Final = Context(prec=_DOUBLE_DIGITS, rounding=ROUND_HALF_EVEN, Emin=-6143, Emax=6144, traps=[])


def is_number(value: Any) -> bool:
    """Whether a normalized value is a number; booleans are none."""
    return type(value) in {int, float, Decimal128}


def add(a: Number, b: Number) -> Number:
    """The sum; LimitExceededError if two integers give one over 64 bits. No requests."""
    return _calculate(a, b, lambda x, y: x + y, DECIMAL128.add)


def multiply(a: Number, b: Number) -> Number:
    """The product; LimitExceededError if two integers give one over 64 bits. No requests."""
    return _calculate(a, b, lambda x, y: x * y, DECIMAL128.multiply)


def zero_like(number: Number) -> Number:
    """Zero, of the type of `number`."""
    return Decimal128("0") if isinstance(number, Decimal128) else type(number)(0)


def to_decimal128(number: Decimal) -> Decimal128:
    """`number` rounded to 34 digits; every NaN is the one that JSON can write."""
    rounded = DECIMAL128.create_decimal(number)
    return Decimal128("NaN") if rounded.is_nan() else Decimal128(rounded)


def _calculate(
    a: Number, b: Number, plain: Callable[[Any, Any], Any], exact: Callable[[Decimal, Decimal], Decimal]
) -> Number:
    if isinstance(a, Decimal128) or isinstance(b, Decimal128):
        return to_decimal128(exact(_as_decimal(a), _as_decimal(b)))
    if isinstance(a, float) or isinstance(b, float):
        return float(plain(float(a), float(b)))
    result = int(plain(a, b))
    if not INT_MIN <= result <= INT_MAX:
        raise LimitExceededError("the result is an integer over 64 bits", fix="store the field as Decimal128 or double")
    return result


def _as_decimal(number: Number) -> Decimal:
    if isinstance(number, Decimal128):
        return number.to_decimal()
    if isinstance(number, int):
        return Decimal(number)
    exact = Decimal.from_float(number)  # noqa: FURB164 - Decimal(float) would mind the caller's context
    if not isfinite(number) or not number:
        return exact
    rounded = _DOUBLE.create_decimal(exact)
    return rounded.quantize(Decimal((0, (1,), rounded.adjusted() - _DOUBLE_DIGITS + 1)), context=_DOUBLE)
