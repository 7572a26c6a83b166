"""Which values a condition takes: exactly, or between two bounds where only the value itself can tell."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from math import isnan, nan
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never

from wormdb.bql.tree import Compare, Comparison, EndsWith, Exists, In, Mod, RegexMatch, StartsWith, Type
from wormdb.format.key import encode_key, prefix_end
from wormdb.format.kinds import Decimal128, Kind, MaxKey, MinKey, Regex, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


__all__ = [
    "ALL",
    "NONE",
    "Spans",
    "TestedCondition",
    "ValueSet",
    "bracket",
    "has_all",
    "has_any",
    "intersect_spans",
    "is_apart",
    "is_unusual",
    "is_within",
    "join_spans",
    "point_of",
    "value_set",
]


# --- Sets of values as spans of keys: ascending, apart from each other, each from its first key up to its second.
#
# The keys are those of `wormdb.format.key`, so the order is that of MongoDB. A bracket of types reaches up to the tag
# of the next one: together the brackets leave no gap.

Spans: TypeAlias = tuple[tuple[bytes, bytes], ...]
"""Pairs (first key, first key after)."""

_TAG_STEP: Final = 8

NONE: Final[Spans] = ()
ALL: Final[Spans] = ((bytes((Kind.MINKEY,)), bytes((Kind.MAXKEY + _TAG_STEP,))),)
"""Every value, and missing."""


def bracket(kind: Kind) -> tuple[bytes, bytes]:
    """The span of all values of one bracket."""
    return bytes((kind,)), bytes((kind + _TAG_STEP,))


def join_spans(spans: Iterable[tuple[bytes, bytes]]) -> Spans:
    """What any of them holds; they may come in any order, overlap, and be empty."""
    found: list[tuple[bytes, bytes]] = []
    for low, high in sorted(spans):
        if low >= high:
            continue
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return tuple(found)


def intersect_spans(a: Spans, b: Spans) -> Spans:
    """What both hold."""
    if b is ALL:
        return a
    found = []
    left = right = 0
    while left < len(a) and right < len(b):
        low, high = max(a[left][0], b[right][0]), min(a[left][1], b[right][1])
        if low < high:
            found.append((low, high))
        if a[left][1] <= b[right][1]:
            left += 1
        else:
            right += 1
    return tuple(found)


def is_apart(a: Spans, b: Spans) -> bool:
    """Whether they have nothing in common."""
    return not intersect_spans(a, b)


def is_within(a: Spans, b: Spans) -> bool:
    """Whether `b` holds all of `a`."""
    place = 0
    for low, high in a:
        while place < len(b) and b[place][1] < high:
            place += 1
        if place == len(b) or low < b[place][0]:
            return False
    return True


def has_any(spans: Spans, span: tuple[bytes, bytes]) -> bool:
    """Whether some of one span is held."""
    place = bisect_right(spans, span)
    return (place > 0 and spans[place - 1][1] > span[0]) or (place < len(spans) and spans[place][0] < span[1])


def has_all(spans: Spans, span: tuple[bytes, bytes]) -> bool:
    """Whether the whole of one span is held."""
    place = bisect_right(spans, (span[0], b"\xff"))  # no span ends there
    return place > 0 and spans[place - 1][1] >= span[1]


TestedCondition: TypeAlias = Compare | In | Exists | Type | Mod | RegexMatch | StartsWith | EndsWith
"""Conditions that hold if some value of their path passes a test, the elements of an array and itself among them."""


@dataclass(frozen=True, slots=True)
class ValueSet:
    """All of `least` passes the test of a condition, and nothing outside of `most` does."""

    least: Spans
    most: Spans

    @property
    def is_exact(self) -> bool:
        """Whether the two are one."""
        return self.least is self.most


_NUMBERS: Final = bracket(Kind.NUMBER)
_STRINGS: Final = bracket(Kind.STRING)
_AFTER_NAN: Final = encode_key(nan) + b"\0"
_NULLS: Final = (bracket(Kind.MISSING)[0], bracket(Kind.NULL)[1])
_TEXTS: Final = (_STRINGS, bracket(Kind.REGEX))
_PRESENT: Final = join_spans([bracket(kind) for kind in Kind if kind is not Kind.MISSING])
_ALONE: Final = {Kind.MINKEY, Kind.MAXKEY}
_UNUSUAL: Final = frozenset({type(None), MinKey, MaxKey, list, dict, Regex})
_NUMBER_TYPES: Final = frozenset({"double", "int", "long", "decimal"})
_TYPES: Final = {
    "string": Kind.STRING,
    "object": Kind.DOCUMENT,
    "array": Kind.ARRAY,
    "binData": Kind.BINARY,
    "objectId": Kind.OBJECTID,
    "bool": Kind.BOOLEAN,
    "date": Kind.DATE,
    "null": Kind.NULL,
    "regex": Kind.REGEX,
    "timestamp": Kind.TIMESTAMP,
    "minKey": Kind.MINKEY,
    "maxKey": Kind.MAXKEY,
}


def value_set(condition: TestedCondition) -> ValueSet:
    """The values that pass the test of a condition."""
    match condition:
        case Compare(_, op, value):
            return _exactly(_comparison(op, value))
        case In(_, values):
            return _membership(values)
        case Exists():
            return _exactly(_PRESENT)
        case Type(_, names):
            return _of_types(names)
        case Mod():
            return ValueSet(NONE, ((_AFTER_NAN, _NUMBERS[1]),))
        case RegexMatch():
            return ValueSet(NONE, _TEXTS)
        case StartsWith(_, prefix):
            return _exactly((_beginning(prefix),))
        case EndsWith():
            return ValueSet(NONE, (_STRINGS,))
        case _:
            assert_never(condition)


def is_unusual(value: Any) -> bool:
    """Whether a comparison with this value may hold for every value of a path, or for none."""
    kind = type(value)
    return kind in _UNUSUAL or ((kind is float or kind is Decimal128) and _is_nan(value))


def _is_nan(value: Any) -> bool:
    if type(value) is float:
        return isnan(value)
    return type(value) is Decimal128 and bool(value.to_decimal().is_nan())


def _exactly(spans: Spans) -> ValueSet:
    return ValueSet(spans, spans)


def point_of(value: Any) -> tuple[bytes, bytes]:
    """What equals a value; null equals missing.

    No key begins with another, so nothing lies between a key and the same with a NUL.
    """
    if value is None:
        return _NULLS
    kind = kind_of(value)
    if kind in _ALONE:
        return bracket(kind)
    key = encode_key(value)
    return key, key + b"\0"


def _comparison(op: Comparison, value: Any) -> Spans:
    if op == "eq":
        return (point_of(value),)
    kind = kind_of(value)
    if kind is Kind.NULL or _is_nan(value):
        return NONE if op in {"gt", "lt"} else (point_of(value),)
    low, high = (_AFTER_NAN, _NUMBERS[1]) if kind is Kind.NUMBER else bracket(kind)
    if kind in _ALONE:  # the ends of the order compare with every value
        (low, high), (start, end) = ALL[0], (low, high)
    else:
        start, end = point_of(value)
    if op in {"gt", "gte"}:
        low = end if op == "gt" else start
    else:
        high = start if op == "lt" else end
    return ((low, high),) if low < high else NONE


def _membership(values: Sequence[Any]) -> ValueSet:
    points = join_spans([point_of(value) for value in values if type(value) is not Regex])
    if any(type(value) is Regex for value in values):
        return ValueSet(points, join_spans([*points, *_TEXTS]))
    return _exactly(points)


def _of_types(names: Sequence[str]) -> ValueSet:
    least = [bracket(_TYPES[name]) for name in names if name in _TYPES]
    numbers = _NUMBER_TYPES.intersection(names)
    if not numbers or numbers == _NUMBER_TYPES:
        return _exactly(join_spans([*least, _NUMBERS] if numbers else least))
    return ValueSet(join_spans(least), join_spans([*least, _NUMBERS]))


def _beginning(prefix: str) -> tuple[bytes, bytes]:
    if not prefix:
        return _STRINGS
    stem = encode_key(prefix)[:-1]
    end = prefix_end(stem)
    assert end is not None
    return stem, end
