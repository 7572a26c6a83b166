"""Vectors as documents hold them: arrays of numbers, or BSON's packed form (Binary of subtype 9); float32 at run time.

What is compared is always the float32 nearest to each number, so that both forms of one vector are one vector.
"""

from __future__ import annotations

import sys
from array import array
from math import isfinite, nan
from typing import Any, Final

from wormdb.format.kinds import Binary, Decimal128
from wormdb.settings import VECTOR_DIMENSIONS_MAX

__all__ = ["VECTOR_SUBTYPE", "pack_vector", "read_vector"]

VECTOR_SUBTYPE: Final = 9
"""The subtype of Binary that holds a vector."""
_INT8: Final = 0x03
_FLOAT32: Final = 0x27
_NUMBERS: Final = frozenset({int, float})
_BEYOND: Final = 1 << 128
"""No float32 is as large."""
_HEAD_BYTES: Final = 2
"""The type of the numbers, and a count of bits that only vectors of single bits use."""


def read_vector(value: Any, dimensions: int | None = None) -> array[float] | str:
    """The vector that a normalized value is, as float32; or the reason why it is none, as text.

    With `dimensions` it must have that many numbers, otherwise 1 to VECTOR_DIMENSIONS_MAX. No requests.
    """
    found = _read_binary(value) if isinstance(value, Binary) else _read_array(value)
    if isinstance(found, str):
        return found
    if dimensions is not None and len(found) != dimensions:
        return f"it must have {dimensions:,} numbers, not {len(found):,}"
    if not 1 <= len(found) <= VECTOR_DIMENSIONS_MAX:
        return f"it must have 1 to {VECTOR_DIMENSIONS_MAX:,} numbers, not {len(found):,}"
    # Sums of up to 4,096 float32 stay within float64, so only what is not finite makes the sum so.
    return found if isfinite(sum(found)) else _fault(value, found)


def pack_vector(vector: array[float]) -> Binary:
    """A vector in BSON's packed form: float32, 4 bytes a number. No requests."""
    packed = array("f", vector)
    if sys.byteorder == "big":
        packed.byteswap()
    return Binary(bytes([_FLOAT32, 0]) + packed.tobytes(), VECTOR_SUBTYPE)


def _read_array(value: Any) -> array[float] | str:
    if type(value) is not list:
        return f"it must be an array of numbers, not {type(value).__name__}"
    kinds = set(map(type, value))
    if not kinds <= _NUMBERS:
        if not kinds <= {*_NUMBERS, Decimal128}:
            place = next(place for place, each in enumerate(value) if type(each) not in {*_NUMBERS, Decimal128})
            return f"number {place} must be a number, not {type(value[place]).__name__}"
        value = [_float_of(each) if type(each) is Decimal128 else each for each in value]
    try:
        return array("f", value)
    except OverflowError:  # of a whole number, which has no end in Python
        place = next(place for place, each in enumerate(value) if type(each) is int and abs(each) >= _BEYOND)
        return f"number {place} is beyond float32: a whole number of {value[place].bit_length():,} bits"


def _float_of(value: Decimal128) -> float:
    found = value.to_decimal()
    return nan if found.is_nan() else float(found)  # one that signals has no float


def _read_binary(value: Binary) -> array[float] | str:
    if value.subtype != VECTOR_SUBTYPE:
        return f"it must be Binary of subtype {VECTOR_SUBTYPE}, not {value.subtype}"
    body = bytes(value)
    kind = body[0] if len(body) >= _HEAD_BYTES else None
    if kind == _INT8 and not body[1]:
        return array("f", array("b", body[_HEAD_BYTES:]))
    if kind == _FLOAT32 and not body[1] and not (len(body) - _HEAD_BYTES) % 4:
        found = array("f", body[_HEAD_BYTES:])
        if sys.byteorder == "big":
            found.byteswap()
        return found
    return "its numbers must be float32 or int8"


def _fault(value: Any, found: array[float]) -> str:
    """Why a vector with a number that is not finite is refused."""
    place = next(place for place, number in enumerate(found) if not isfinite(number))
    given = value[place] if type(value) is list else found[place]
    if isinstance(given, Decimal128):
        given = _float_of(given)
    if isfinite(given):
        return f"number {place} is beyond float32: {given!r:.40}"
    return f"number {place} must be finite, not {given!r}"
