"""MongoDB's comparison order over all values, as one function.

MinKey < missing < null < numbers < strings < documents < arrays < binary < ObjectId < booleans
< dates < timestamps < regular expressions < MaxKey.

`wormdb.format.key` writes the same order as bytes; a property test holds the two together.
"""

from __future__ import annotations

from decimal import Decimal
from math import isnan
from typing import TYPE_CHECKING, Any, Final

from wormdb.format.kinds import Binary, Decimal128, Document, Kind, Regex, Timestamp, kind_of
from wormdb.format.wrappers import regex_options

if TYPE_CHECKING:
    from collections.abc import Callable


__all__ = ["compare"]


def compare(a: Any, b: Any) -> int:
    """-1, 0 or 1 as `a` is less than, equal to or greater than `b`; both normalized, or MISSING.

    Numbers compare by exact value whatever their type; NaN equals NaN and is the least number;
    -0.0 equals 0.0. Strings compare by their UTF-8 bytes. Documents compare field by field in
    their order: first the kinds of the two values, then the names, then the values; arrays by
    element; a proper prefix is less. Binary compares by length, subtype, then bytes.
    Raises InvalidRequestError for anything but a normalized value. No requests.
    """
    kind, other = kind_of(a), kind_of(b)
    if kind is not other:
        return -1 if kind < other else 1
    order = _ORDERS.get(kind)
    return 0 if order is None else order(a, b)


def _sign(a: Any, b: Any) -> int:
    return int(a > b) - int(a < b)


def _numbers(a: float | Decimal128, b: float | Decimal128) -> int:
    left = a.to_decimal() if isinstance(a, Decimal128) else a
    right = b.to_decimal() if isinstance(b, Decimal128) else b
    if _is_nan(left) or _is_nan(right):
        return _is_nan(right) - _is_nan(left)
    if isinstance(left, Decimal) is not isinstance(right, Decimal):
        left, right = _as_decimal(left), _as_decimal(right)
    return _sign(left, right)


def _is_nan(number: float | Decimal) -> bool:
    return number.is_nan() if isinstance(number, Decimal) else isnan(number)


def _as_decimal(number: float | Decimal) -> Decimal:
    """Exactly that number; Decimal(float) and mixed comparisons would mind the caller's context."""
    return Decimal.from_float(number) if isinstance(number, float) else Decimal(number)  # noqa: FURB164 - see above


def _strings(a: str, b: str) -> int:
    return _sign(a, b)


def _documents(a: Document, b: Document) -> int:
    for (name, value), (other_name, other) in zip(a.items(), b.items(), strict=False):
        found = _sign(kind_of(value), kind_of(other)) or _strings(name, other_name) or compare(value, other)
        if found:
            return found
    return _sign(len(a), len(b))


def _arrays(a: list[Any], b: list[Any]) -> int:
    for value, other in zip(a, b, strict=False):
        if found := compare(value, other):
            return found
    return _sign(len(a), len(b))


def _binaries(a: bytes | Binary, b: bytes | Binary) -> int:
    return _sign((len(a), getattr(a, "subtype", 0), bytes(a)), (len(b), getattr(b, "subtype", 0), bytes(b)))


def _timestamps(a: Timestamp, b: Timestamp) -> int:
    return _sign((a.time, a.inc), (b.time, b.inc))


def _regexes(a: Regex[str], b: Regex[str]) -> int:
    return _sign((a.pattern, regex_options(a)), (b.pattern, regex_options(b)))


# Python compares str by code point, which is the order of UTF-8 bytes (unlike that of UTF-16).
_ORDERS: Final[dict[Kind, Callable[[Any, Any], int]]] = {
    Kind.NUMBER: _numbers,
    Kind.STRING: _strings,
    Kind.DOCUMENT: _documents,
    Kind.ARRAY: _arrays,
    Kind.BINARY: _binaries,
    Kind.OBJECTID: _sign,
    Kind.BOOLEAN: _sign,
    Kind.DATE: _sign,
    Kind.TIMESTAMP: _timestamps,
    Kind.REGEX: _regexes,
}
