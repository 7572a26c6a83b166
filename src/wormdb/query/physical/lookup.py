"""Equality as single keys: $eq, $in, $contains, null, a missing field, whole arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wormdb.bql.tree import Compare, Contains, Exists, In, Not
from wormdb.engine.tree.definition import lookup_keys
from wormdb.engine.tree.entries import Range
from wormdb.format.key import encode_key
from wormdb.format.kinds import Regex
from wormdb.query.physical.keys import NOWHERE, NULL_KEY, Keys, points

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.bql.tree import Filter

__all__ = ["equality_keys", "lookup"]


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
