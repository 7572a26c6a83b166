"""Tests of one value: what each kind of condition asks of a value that stands at its path.

A test is given normalized values and MISSING. Arrays are gone through before (`wormdb.bql.reach`): to a test an array
is one value.
"""

from __future__ import annotations

import operator
from datetime import datetime
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any, Final

from wormdb.bql.regex import compile_regex
from wormdb.format.key import encode_key
from wormdb.format.kinds import (
    MISSING,
    Decimal128,
    Kind,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    kind_of,
)
from wormdb.format.order import compare
from wormdb.format.wrappers import regex_options
from wormdb.settings import INT_MAX, INT_MIN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wormdb.bql.tree import Comparison, Mod

    Test = Callable[[Any], bool]

__all__ = [
    "always",
    "check_comparison",
    "check_contains",
    "check_membership",
    "check_mod",
    "check_regex",
    "is_null",
    "is_present",
    "never",
]

_RELATIONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "eq": operator.eq,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
_ORDERED_BY_PYTHON: Final = (str, bool, datetime, ObjectId)


def always(_: Any) -> bool:
    """True."""
    return True


def never(_: Any) -> bool:
    """False."""
    return False


def is_null(value: Any) -> bool:
    """Whether a value is null, or is not there."""
    return value is None or value is MISSING


def is_present(value: Any) -> bool:
    """Whether a value is there."""
    return value is not MISSING


# --- comparison ---


def check_comparison(op: Comparison, value: Any) -> Test:
    """Whether a value is in the relation `op` to `value`: only within the bracket of its type.

    null equals missing. MinKey and MaxKey compare with every value. NaN equals NaN, and has no other relation.
    """
    kind = kind_of(value)
    if kind is Kind.NULL:
        return never if op in {"gt", "lt"} else is_null
    if kind is Kind.NUMBER:
        return _check_number(op, value)
    if kind is Kind.MINKEY or kind is Kind.MAXKEY:
        return _check_end(op, kind)
    if type(value) in _ORDERED_BY_PYTHON:
        return _check_plain(op, value)
    return _check_compared(op, value)


def _check_plain(op: Comparison, value: Any) -> Test:
    kind, holds = type(value), _RELATIONS[op]
    if kind is str and op == "eq":  # text equals nothing but text: no need to look at the type
        return lambda other: bool(other == value)
    return lambda other: type(other) is kind and holds(other, value)


def _check_compared(op: Comparison, value: Any) -> Test:
    kind, holds = kind_of(value), _RELATIONS[op]
    return lambda other: kind_of(other) is kind and holds(compare(other, value), 0)


def _check_number(op: Comparison, value: float | Decimal128) -> Test:
    if _is_nan(value):
        return never if op in {"gt", "lt"} else _is_nan
    if type(value) is Decimal128:
        return _check_compared_number(op, value)
    holds, exactly = _RELATIONS[op], _check_compared_number(op, value)

    def test(other: Any) -> bool:
        kind = type(other)
        if kind is int or kind is float:  # Python compares the two exactly, and NaN as we want it
            return holds(other, value)
        return kind is Decimal128 and exactly(other)

    return test


def _check_compared_number(op: Comparison, value: float | Decimal128) -> Test:
    compared = _check_compared(op, value)
    return lambda other: compared(other) and not _is_nan(other)


def _is_nan(value: Any) -> bool:
    if type(value) is float:
        return isnan(value)
    return type(value) is Decimal128 and bool(value.to_decimal().is_nan())


def _check_end(op: Comparison, kind: Kind) -> Test:
    """MinKey is below and MaxKey above everything else, missing fields too."""
    itself = MinKey if kind is Kind.MINKEY else MaxKey
    inward = "gt" if kind is Kind.MINKEY else "lt"
    if op == inward:
        return lambda other: type(other) is not itself
    if op == f"{inward}e":
        return always
    return (lambda other: type(other) is itself) if op in {"eq", "gte", "lte"} else never


# --- lists ---


def check_membership(values: Sequence[Any]) -> Test:
    """Whether a value equals one of `values`, or matches a regular expression among them; null equals missing."""
    expressions = [check_regex(value.pattern, regex_options(value)) for value in values if type(value) is Regex]
    texts = frozenset(value for value in values if type(value) is str)
    equals = _equals_any(values)
    missing = any(value is None for value in values)

    def test(value: Any) -> bool:
        if type(value) is str:
            return value in texts
        return missing if value is MISSING else equals(value)

    if not expressions:
        return test
    return lambda value: test(value) or any(matches(value) for matches in expressions)


def _equals_any(values: Sequence[Any]) -> Test:
    keys = frozenset(map(encode_key, values))
    kinds = frozenset(map(kind_of, values))
    numbers = frozenset(value for value in values if type(value) is int or type(value) is float)
    # Python finds an int or a float in a set by exact value, whichever of the two it is; only NaN it does not find.
    plain = not any(type(value) is Decimal128 or _is_nan(value) for value in values)

    def test(value: Any) -> bool:
        if plain and (type(value) is int or type(value) is float):
            return value in numbers
        return kind_of(value) in kinds and encode_key(value) in keys

    return test


def check_contains(value: Any) -> Test:
    """Whether an array has an element equal to `value`, or a text has it as a part."""
    equals = check_comparison("eq", value)

    def test(other: Any) -> bool:
        if type(other) is list:
            return any(map(equals, other))
        return type(other) is str and type(value) is str and value in other

    return test


# --- text, numbers, types ---


def check_regex(pattern: str, options: str) -> Test:
    """Whether a text holds a match, or a value is this very expression, option u aside."""
    finds = compile_regex(pattern, options)
    letters = set(options) - {"u"}

    def test(value: Any) -> bool:
        if type(value) is str:
            return finds(value)
        return type(value) is Regex and value.pattern == pattern and set(regex_options(value)) - {"u"} == letters

    return test


def check_mod(condition: Mod) -> Test:
    """Whether the whole part of a number leaves the remainder, which has the sign of the number."""
    divisor, remainder = abs(condition.divisor), condition.remainder

    def test(value: Any) -> bool:
        kind = type(value)
        if kind is not int:
            if kind is not float and kind is not Decimal128:
                return False
            number = value.to_decimal() if kind is Decimal128 else value
            if not isfinite(number) or not INT_MIN <= number <= INT_MAX:
                return False
            value = int(number)
        return bool((value % divisor if value >= 0 else -(-value % divisor)) == remainder)

    return test
