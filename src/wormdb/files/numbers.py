"""One form for numbers that are equal, whatever their type: integer before double before decimal."""

from __future__ import annotations

from decimal import Context, Decimal
from math import isfinite
from typing import Any, Final

from wormdb.format.kinds import Decimal128
from wormdb.settings import INT_MAX, INT_MIN

__all__ = ["one_form"]

_ALL_DIGITS: Final = Context(prec=34, Emin=-6143, Emax=6144)
"""Of a Decimal128: no digit is rounded away."""


def one_form(value: Any) -> Any:
    """A number in the first of the three types that has it exactly; any other value as it is. No requests."""
    if type(value) is float:
        # The largest integer is no double: the one above it is, and does not fit.
        return int(value) if value.is_integer() and INT_MIN <= value < INT_MAX else value
    return _of_decimal(value) if type(value) is Decimal128 else value


def _of_decimal(value: Decimal128) -> Any:
    exact = value.to_decimal()
    if not exact.is_finite():
        return float(exact)
    if INT_MIN <= exact <= INT_MAX and exact == exact.to_integral_value():
        return int(exact)
    nearest = float(exact)
    if isfinite(nearest) and Decimal(nearest) == exact:
        return nearest
    return Decimal128(exact.normalize(_ALL_DIGITS))
