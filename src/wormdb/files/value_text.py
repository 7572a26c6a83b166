"""Values as the names of an index file's entries: text that people read, equal exactly for equal values.

Text is itself, unless it could be taken for another value: then it is written with quotes. Everything else is compact
extended JSON. Numbers that are equal have one text whatever their type, as they have one key in an index.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import msgspec

from wormdb.files.plain import iso_text
from wormdb.format import json
from wormdb.format.kinds import Decimal128
from wormdb.limits import INT_MAX, INT_MIN

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["value_text", "values_text"]

_BEGINS: Final = frozenset('"[{-0123456789tfn')


def value_text(value: Any, *, plain_dates: bool = False) -> str:
    """The text of a normalized value; `plain_dates` if the field is declared a date. No requests."""
    if type(value) is datetime and plain_dates:
        return iso_text(value)
    if type(value) is str:
        return json.encode(value).decode() if _is_json(value) else value
    return json.encode(_comparable(value)).decode()


def values_text(values: Sequence[Any], plain_dates: Sequence[bool]) -> str:
    """The text of the values of several fields, in order: an array of JSON. No requests."""
    parts = [
        iso_text(value) if type(value) is datetime and plain else _comparable(value)
        for value, plain in zip(values, plain_dates, strict=True)
    ]
    return json.encode(parts).decode()


def _is_json(text: str) -> bool:
    """Whether text could be taken for the JSON of another value."""
    if text[:1] not in _BEGINS:
        return False
    try:
        msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    return True


def _comparable(value: Any) -> Any:
    """A value with each number in the first of the forms that have it exactly: integer, double, decimal."""
    if type(value) is dict:
        return {name: _comparable(item) for name, item in value.items()}
    if type(value) is list:
        return [_comparable(item) for item in value]
    if type(value) is float:
        return int(value) if value.is_integer() and INT_MIN <= value <= INT_MAX else value
    return _comparable_decimal(value) if type(value) is Decimal128 else value


def _comparable_decimal(value: Decimal128) -> Any:
    exact = value.to_decimal()
    if not exact.is_finite():
        return float(exact)
    if INT_MIN <= exact <= INT_MAX and exact == exact.to_integral_value():
        return int(exact)
    nearest = float(exact)
    if isfinite(nearest) and Decimal(nearest) == exact:
        return nearest
    return Decimal128(exact.normalize())
