"""Comparisons of number columns that are exact across integers, doubles and decimals.

Arrow compares within one type. So a number of another type becomes a bound of the column's own type that divides its
values in the same way: of integers, `x > 2.5` is `x > 2`; of doubles, `x > 2**53 + 1` is `x > 2.0**53`.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor, inf, isfinite, isnan, nan, nextafter
from typing import TYPE_CHECKING, Any, Final

from wormdb.format.kinds import Decimal128
from wormdb.settings import INT_MAX, INT_MIN

if TYPE_CHECKING:
    from wormdb.bql.tree import Comparison

__all__ = ["DECIMAL_MAX", "as_double", "as_unscaled", "double_bound", "exact", "integer_bound", "is_nan"]

DECIMAL_MAX: Final = 10**38 - 1
"""The greatest unscaled value of a column of decimals."""


def exact(number: float | Decimal128) -> Fraction | float:
    """A number as a fraction; infinities and NaN as they are."""
    if type(number) is Decimal128:
        decimal = number.to_decimal()
        if decimal.is_nan():
            return nan
        return Fraction(decimal) if decimal.is_finite() else float(decimal)
    assert isinstance(number, int | float)
    return Fraction(number) if isfinite(number) else number


def is_nan(value: Any) -> bool:
    """Whether a normalized value is NaN, of either type that has it."""
    if type(value) is float:
        return isnan(value)
    return type(value) is Decimal128 and bool(value.to_decimal().is_nan())


def integer_bound(
    op: Comparison, number: float | Decimal128, *, scale: int = 0, least: int = INT_MIN, most: int = INT_MAX
) -> tuple[Comparison, int] | bool:
    """What to ask of integers `n` from `least` to `most`, so that `n / 10**scale` is in that relation to a number.

    A bool if all or none of them are.
    """
    value = exact(number)
    if isinstance(value, float):
        return not isnan(value) and op in (("lt", "lte") if value > 0 else ("gt", "gte"))
    value *= 10**scale
    if op == "eq" and value.denominator != 1:
        return False
    bound = floor(value) if op in {"gt", "lte"} else ceil(value)
    if bound > most:
        return op in {"lt", "lte"}
    if bound < least:
        return op in {"gt", "gte"}
    return op, bound


def double_bound(op: Comparison, number: float | Decimal128) -> tuple[Comparison, float] | bool:
    """What to ask of doubles, so that they are in that relation to a number other than NaN; False: none is."""
    value = exact(number)
    if isinstance(value, float):
        return op, value
    double = _nearest(value)
    if _is_double(value, double):
        return op, double
    if op == "eq":
        return False
    below = nextafter(double, -inf) if double > value else double
    return ("gt", below) if op in {"gt", "gte"} else ("lt", nextafter(below, inf))


def as_unscaled(number: float | Decimal128, *, scale: int = 0, least: int = INT_MIN, most: int = INT_MAX) -> int | None:
    """The integer `n` between two for which `n / 10**scale` is the number; None if there is none."""
    found = integer_bound("eq", number, scale=scale, least=least, most=most)
    return None if isinstance(found, bool) else found[1]


def as_double(number: float | Decimal128) -> float | None:
    """The double that is the number; None if there is none, or it is NaN."""
    value = exact(number)
    if isinstance(value, float):
        return None if isnan(value) else value
    double = _nearest(value)
    return double if _is_double(value, double) else None


def _nearest(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def _is_double(value: Fraction, double: float) -> bool:
    return double not in (inf, -inf) and Fraction(double) == value
