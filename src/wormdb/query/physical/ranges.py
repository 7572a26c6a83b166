"""Order as ranges of keys: $gt, $gte, $lt, $lte, $startsWith, and expressions that begin with a text.

A comparison stays within the bracket of its value's type, and NaN, the least of the numbers, is in no relation but
equality.
"""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Any, Final

from wormdb.bql.tree import Compare, RegexMatch, StartsWith
from wormdb.engine.tree.entries import Range
from wormdb.format.key import encode_key, prefix_end
from wormdb.format.kinds import Kind, Regex, kind_of
from wormdb.query.physical.keys import NOWHERE, Keys

if TYPE_CHECKING:
    from wormdb.bql.tree import Comparison, Filter

__all__ = ["narrowing"]

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
