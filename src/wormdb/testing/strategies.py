"""Hypothesis strategies for values: all types, and the corners where databases go wrong.

Needs hypothesis, which is a development dependency: import this module in tests only.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, Final

from bson import Binary, Decimal128, MaxKey, MinKey, ObjectId, Regex, Timestamp
from hypothesis import strategies as st

from wormdb.settings import INT_MAX, INT_MIN

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["dates", "decimals", "documents", "field_names", "ids", "numbers", "scalars", "strings", "values"]

_EDGES: Final = (0, 2**31, 2**32, 2**53, 2**62, 2**63)
_EDGE_INTS: Final = sorted(
    {
        sign * edge + step
        for edge in _EDGES
        for sign in (-1, 1)
        for step in (-1025, -2, -1, 0, 1, 2, 1025)
        if INT_MIN <= sign * edge + step <= INT_MAX
    }
)
_EDGE_FLOATS: Final = (
    0.0,
    -0.0,
    math.nan,
    math.inf,
    -math.inf,
    5e-324,
    -5e-324,
    2.2250738585072014e-308,
    1.7976931348623157e308,
    -1.7976931348623157e308,
    0.1,
    0.5,
    2.0**53,
    2.0**53 + 2,
    -(2.0**53),
    2.0**63,
    -(2.0**63),
    1e16,
)
_EDGE_DECIMALS: Final = (
    "NaN",
    "Infinity",
    "-Infinity",
    "0",
    "-0",
    "0E+6111",
    "0E-6176",
    "1E-6176",
    "-1E-6176",
    "9.999999999999999999999999999999999E+6144",
    "-9.999999999999999999999999999999999E+6144",
    "1E+400",
    "-1E+400",
    "1E-400",
    "0.1",
    "0.10",
    "0.1000000000000000055511151231257827",
    "9007199254740993",
    "9223372036854775807.5",
    "9223372036854775808",
    "-9223372036854775809",
    "0.5",
    "0.50",
)
_DECIMAL_DIGITS: Final = Context(prec=34, Emin=-6143, Emax=6144, clamp=1, traps=[])
_EDGE_TEXTS: Final = (
    "",
    "\0",
    "\1",
    "a\0b",
    "a",
    "A",
    "ab",
    "$",
    "$oid",
    ".",
    "..",
    ".worm",
    "\x7f",
    "é",
    "e\u0301",
    "\uffff",
    "\U0001f600",
    "null",
)


def strings() -> SearchStrategy[str]:
    """Text without halves of surrogate pairs."""
    return st.sampled_from(_EDGE_TEXTS) | st.text(max_size=12)


def field_names() -> SearchStrategy[str]:
    """Names that a field may have; digits among them, because paths read them in two ways."""
    common = st.sampled_from(["a", "b", "c", "0", "1", "_id", "é", "A"])
    return common | st.text(min_size=1, max_size=6).filter(
        lambda name: not name.startswith("$") and "." not in name and "\0" not in name
    )


def decimals() -> SearchStrategy[Decimal128]:
    """Decimal128 of every size: 34 digits, exponents to 6144, equal or next to doubles."""
    near_floats = st.floats(allow_nan=False, allow_infinity=False).map(
        lambda number: Decimal128(_DECIMAL_DIGITS.create_decimal_from_float(number))
    )
    built = st.builds(
        lambda sign, digits, exponent: Decimal128(Decimal((sign, tuple(map(int, str(digits))), exponent))),
        st.integers(0, 1),
        st.integers(0, 10**34 - 1),
        st.sampled_from([0, -1, 1, -34, 280, -330, 6111, -6176]) | st.integers(-6176, 6111),
    )
    whole = st.integers(INT_MIN, INT_MAX).map(lambda number: Decimal128(str(number)))
    return st.sampled_from(_EDGE_DECIMALS).map(Decimal128) | near_floats | built | whole


def numbers() -> SearchStrategy[int | float | Decimal128]:
    """Numbers of all three types, crowded where they nearly meet."""
    integers = st.sampled_from(_EDGE_INTS) | st.integers(INT_MIN, INT_MAX) | st.integers(-9, 9)
    floats = st.sampled_from(_EDGE_FLOATS) | st.floats() | st.sampled_from(_EDGE_INTS).map(float)
    return integers | floats | decimals()


def dates() -> SearchStrategy[datetime]:
    """Dates of the years 1 to 9999 in UTC, to the millisecond."""
    first, last = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    edges = (first, last, epoch, epoch - timedelta(milliseconds=1), epoch + timedelta(milliseconds=1))
    span = (last - first) // timedelta(milliseconds=1)
    return st.sampled_from(edges) | st.integers(0, span).map(lambda count: first + timedelta(milliseconds=count))


def _binaries() -> SearchStrategy[bytes | Binary]:
    data = st.binary(max_size=9)
    typed = st.builds(Binary, data, st.sampled_from([1, 2, 3, 4, 5, 128, 255]))
    return data | typed | st.builds(Binary, st.binary(min_size=16, max_size=16), st.just(4))


def _object_ids() -> SearchStrategy[ObjectId]:
    return st.binary(min_size=12, max_size=12).map(ObjectId)


def _timestamps() -> SearchStrategy[Timestamp]:
    part = st.sampled_from([0, 1, 2**31, 2**32 - 1]) | st.integers(0, 2**32 - 1)
    return st.builds(Timestamp, part, part)


def _regexes() -> SearchStrategy[Regex[str]]:
    patterns = st.text(max_size=6).filter(lambda text: "\0" not in text)
    return st.builds(Regex, patterns, st.sampled_from(["", "i", "im", "ilmsux", "x"]))


def scalars() -> SearchStrategy[Any]:
    """Every value that holds no other."""
    return st.one_of(
        st.none(),
        st.booleans(),
        numbers(),
        strings(),
        _binaries(),
        _object_ids(),
        dates(),
        _timestamps(),
        _regexes(),
        st.builds(MinKey),
        st.builds(MaxKey),
    )


def values() -> SearchStrategy[Any]:
    """Normalized values of every type, nested a few levels."""
    return st.recursive(
        scalars(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(field_names(), inner, max_size=4),
        max_leaves=10,
    )


def documents() -> SearchStrategy[dict[str, Any]]:
    """Normalized documents."""
    return st.dictionaries(field_names(), values(), max_size=5)


def ids() -> SearchStrategy[Any]:
    """Whatever may be an `_id`, hostile names included."""
    hostile = [
        "../x",
        ".worm",
        ".",
        "..",
        "CON",
        "nul.txt",
        "a/b",
        "a\\b",
        "%i1",
        "%25",
        "a\0b",
        "a.",
        " ",
        "é",
        "e\u0301",
    ]
    texts = st.sampled_from(hostile) | st.text(min_size=1, max_size=20)
    finite = numbers().filter(
        lambda number: number.to_decimal().is_finite() if isinstance(number, Decimal128) else math.isfinite(number)
    )
    return st.one_of(texts, finite, _binaries(), _object_ids(), dates(), _timestamps(), st.booleans())
