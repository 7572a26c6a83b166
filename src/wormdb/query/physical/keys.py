"""Where the values stand that a condition asks for: ranges of the keys of single values.

What an entry of an index says about a document, and what it does not, decides how far ranges can be trusted:

- Every document that meets the condition has an entry in the ranges, unless a sparse index leaves it out. It does so
  only with null, missing fields and empty arrays, so ranges that `takes_nothing` may not find them there.
- The other way round holds only where it is said: `is_exact` for fields without arrays, `is_exact_in_arrays` for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Any, Final

from wormdb.bql.tree import Compare, Contains, Exists, In, Not, RegexMatch, StartsWith
from wormdb.engine.tree.definition import lookup_keys
from wormdb.engine.tree.entries import Range
from wormdb.format.key import encode_key, prefix_end
from wormdb.format.kinds import MISSING, Kind, Regex, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wormdb.bql.tree import Comparison, Filter

__all__ = [
    "NOWHERE",
    "NULL_KEY",
    "Keys",
    "common_keys",
    "equality_keys",
    "intersected",
    "joined",
    "lookup",
    "narrowing",
    "points",
]

NULL_KEY: Final = encode_key(None)
_NOTHING_KEYS: Final = (NULL_KEY, encode_key(MISSING))


@dataclass(frozen=True, slots=True)
class Keys:
    """Ranges of keys, ascending and apart from each other; a key is in one or out, with whatever follows it."""

    ranges: tuple[Range, ...]
    are_points: bool = False
    """Whether each range is that of one key, which is its `low`."""
    is_exact: bool = False
    """Whether a document without arrays on the way meets the condition if its value is in the ranges."""
    is_exact_in_arrays: bool = False
    """Whether any document does of which one value is in the ranges."""
    is_for_plain: bool = False
    """Whether they are right only for a field without arrays."""
    is_for_elements: bool = False
    """Whether they are right only for a field whose texts are all elements of arrays."""

    @property
    def point(self) -> bytes | None:
        """The one key, if it is one."""
        return self.ranges[0].low if self.are_points and len(self.ranges) == 1 else None

    @property
    def takes_nothing(self) -> bool:
        """Whether null, a missing field or an empty array may be in them."""
        return any(key in span for span in self.ranges for key in _NOTHING_KEYS)


NOWHERE: Final = Keys((), are_points=True, is_exact=True, is_exact_in_arrays=True)
"""Those of a condition that nothing meets."""


def points(keys: Iterable[bytes], *, is_exact: bool = True, is_exact_in_arrays: bool = True) -> Keys:
    """Some single keys."""
    ranges = tuple([Range.prefix(key) for key in sorted(set(keys))])
    return Keys(ranges, are_points=True, is_exact=is_exact, is_exact_in_arrays=is_exact_in_arrays)


def common_keys(all_keys: Iterable[Keys]) -> Keys:
    """The keys of several conditions that are about the same single value; at least one."""
    first, *others = all_keys
    for other in others:
        ranges = intersected(first.ranges, other.ranges)
        first = Keys(
            ranges,
            are_points=first.are_points or other.are_points,
            is_exact=first.is_exact and other.is_exact,
            is_for_elements=first.is_for_elements or other.is_for_elements,
        )
    return first


def intersected(some: tuple[Range, ...], others: tuple[Range, ...]) -> tuple[Range, ...]:
    """What lies in a range of both."""
    found = []
    place = other = 0
    while place < len(some) and other < len(others):
        left, right = some[place], others[other]
        high = right.high if left.high is None else left.high if right.high is None else min(left.high, right.high)
        span = Range(max(left.low, right.low), high)
        if not span.empty:
            found.append(span)
        if high == left.high:
            place += 1
        else:
            other += 1
    return tuple(found)


def joined(spans: Iterable[Range]) -> tuple[Range, ...]:
    """The same keys in ranges that ascend and do not touch."""
    found: list[Range] = []
    for span in sorted((span for span in spans if not span.empty), key=lambda span: span.low):
        last = found[-1] if found else None
        if last is None or (last.high is not None and last.high < span.low):
            found.append(span)
        elif last.high is not None and (span.high is None or span.high > last.high):
            found[-1] = Range(last.low, span.high)
    return tuple(found)


# --- Equality as single keys: $eq, $in, $contains, null, a missing field, whole arrays.


def lookup(condition: Filter) -> Keys | None:
    """The keys under which documents stand that meet a condition; None if it is no equality. No requests."""
    match condition:
        case Compare(_, "eq", value):
            return equality_keys([value])
        case Compare(_, op, None):  # null is in no other relation than equality
            return NOWHERE if op in {"gt", "lt"} else equality_keys([None])
        case In(_, values):
            # An expression among the values matches texts, which stand anywhere.
            return None if any(type(value) is Regex for value in values) else equality_keys(values)
        case Contains(_, value) if type(value) is str:
            # Of a plain text it would be a part, and those stand anywhere.
            key = Range.prefix(encode_key(value))
            return Keys((key,), are_points=True, is_exact=True, is_exact_in_arrays=True, is_for_elements=True)
        case Contains(_, value):
            return points(lookup_keys(value), is_exact=False, is_exact_in_arrays=False)
        case Not(Exists()):
            return points([NULL_KEY], is_exact=False, is_exact_in_arrays=False)
        case Not(Compare(_, "eq", None)):
            # An array without documents has no value at a path through it, and yet stands under null.
            null = Range.prefix(NULL_KEY)
            return Keys((Range(b"", null.low), Range(null.high or b"")), is_exact=True, is_for_plain=True)
        case _:
            return None


def equality_keys(values: Sequence[Any]) -> Keys:
    """The keys of documents of which some value equals one of these. No requests."""
    has_arrays = any(type(value) is list for value in values)
    if not has_arrays and len(values) == 1:
        key = encode_key(values[0])
        return Keys((Range.prefix(key),), are_points=True, is_exact=True, is_exact_in_arrays=key != NULL_KEY)
    keys = [key for value in values for key in lookup_keys(value)]
    # Null is also the key of arrays through which a path finds nothing, and those equal nothing.
    return points(keys, is_exact=not has_arrays, is_exact_in_arrays=not has_arrays and NULL_KEY not in keys)


# --- Order as ranges of keys: $gt, $gte, $lt, $lte, $startsWith, and expressions that begin with a text.
#
# A comparison stays within the bracket of its value's type, and NaN, the least of the numbers, is in no relation but
# equality.

_NAN_KEY: Final = encode_key(nan)
_BRACKETS: Final = {kind: Range.prefix(bytes((kind,))) for kind in Kind}
_NUMBERS: Final = Range(prefix_end(_NAN_KEY) or b"", _BRACKETS[Kind.NUMBER].high)
# An array is entered by its elements, so its own place is not to be found; the two ends compare with every type.
_UNORDERED: Final = frozenset({Kind.ARRAY, Kind.NULL, Kind.MINKEY, Kind.MAXKEY})
_SPECIAL: Final = frozenset(r".^$*+?{}[]\|()")
_COUNTED: Final = frozenset("*?{")


def narrowing(condition: Filter) -> Keys | None:
    """The ranges in which documents have a value that meets a condition; None if it gives none. No requests."""
    match condition:
        case Compare(_, op, value) if op != "eq" and kind_of(value) not in _UNORDERED:
            return _compared(op, value)
        case StartsWith(_, prefix):
            return Keys((_texts(prefix),), is_exact=True, is_exact_in_arrays=True)
        case RegexMatch(_, pattern, options) if not set(options) & {"i", "m", "x"}:
            return _expression(pattern)
        case _:
            return None


def _compared(op: Comparison, value: Any) -> Keys:
    kind, key = kind_of(value), encode_key(value)
    if key == _NAN_KEY:
        equal = Keys((Range.prefix(key),), are_points=True, is_exact=True, is_exact_in_arrays=True)
        return NOWHERE if op in {"gt", "lt"} else equal
    bracket = _NUMBERS if kind is Kind.NUMBER else _BRACKETS[kind]
    if op in {"gt", "gte"}:
        span = Range((key if op == "gte" else prefix_end(key)) or b"", bracket.high)
    else:
        span = Range(bracket.low, key if op == "lt" else prefix_end(key))
    return NOWHERE if span.empty else Keys((span,), is_exact=True, is_exact_in_arrays=True)


def _texts(prefix: str) -> Range:
    """All texts that start with one: their keys start with its key without the end."""
    return Range.prefix(encode_key(prefix)[:-1])


def _expression(pattern: str) -> Keys | None:
    """Texts that start as the pattern does, and the values that are this very expression, whatever their options."""
    text = _beginning(pattern)
    if not text:
        return None
    return Keys((_texts(text), Range.prefix(encode_key(Regex(pattern))[:-1])))


def _beginning(pattern: str) -> str:
    """The text with which every match of a pattern begins; empty if that is not plain."""
    if not pattern.startswith("^") or "|" in pattern:
        return ""
    body = pattern[1:]
    end = next((place for place, letter in enumerate(body) if letter in _SPECIAL), len(body))
    return body[: end - 1] if end < len(body) and end and body[end] in _COUNTED else body[:end]
