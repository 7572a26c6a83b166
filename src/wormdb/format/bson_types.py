"""The names of BSON's types: one table for schemas, indexes, queries and messages.

Two vocabularies name them, MongoDB's ("int", "bool", "objectId") and Kronotop's ("int32", "boolean", "objectid"). Both
are taken everywhere, in any case of letters. An index stores MongoDB's names, and a model Kronotop's where it has one:
that is what older releases read in each place.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from wormdb.format.kinds import Binary, Decimal128, MaxKey, MinKey, ObjectId, Regex, Timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "NUMBERS",
    "TYPE_CODES",
    "TYPE_NAMES",
    "bson_type_of",
    "check_type",
    "stored_in_model",
    "takes_value",
    "unknown_type",
]


@dataclass(frozen=True, slots=True)
class _BsonType:
    alias: str
    """MongoDB's name."""
    code: int
    kinds: tuple[type, ...] = ()
    """Of normalized values; an integer is an int or a long by its size. None: no document here holds it."""
    name: str = ""
    """Kronotop's name, if it has another."""


_TYPES: Final = (
    _BsonType("double", 1, (float,)),
    _BsonType("string", 2, (str,)),
    _BsonType("object", 3, (dict,)),
    _BsonType("array", 4, (list,)),
    _BsonType("binData", 5, (bytes, Binary), "binary"),
    _BsonType("undefined", 6),
    _BsonType("objectId", 7, (ObjectId,), "objectid"),
    _BsonType("bool", 8, (bool,), "boolean"),
    _BsonType("date", 9, (datetime,), "datetime"),
    _BsonType("null", 10, (type(None),)),
    _BsonType("regex", 11, (Regex,)),
    _BsonType("dbPointer", 12),
    _BsonType("javascript", 13),
    _BsonType("symbol", 14),
    _BsonType("javascriptWithScope", 15),
    _BsonType("int", 16, (), "int32"),
    _BsonType("timestamp", 17, (Timestamp,)),
    _BsonType("long", 18, (), "int64"),
    _BsonType("decimal", 19, (Decimal128,), "decimal128"),
    _BsonType("minKey", -1, (MinKey,)),
    _BsonType("maxKey", 127, (MaxKey,)),
)

TYPE_CODES: Final = {each.alias: each.code for each in _TYPES}
"""The types by MongoDB's name; those that no document here holds are known too, and never match."""
NUMBERS: Final = ("double", "int", "long", "decimal")
"""What "number" stands for."""

_KINDS: Final = {each.alias: each.kinds for each in _TYPES}
_IN_MODELS: Final = {each.alias: each.name or each.alias for each in _TYPES} | {"number": "number"}
_ALIASES: Final = {alias.lower(): alias for alias in _IN_MODELS} | {
    name.lower(): alias for alias, name in _IN_MODELS.items()
}
TYPE_NAMES: Final = tuple(dict.fromkeys([*(name for name in _IN_MODELS.values()), *_IN_MODELS]))
"""Every name of both vocabularies, and "number" for the four types of numbers."""

_WIDER: Final = {
    "long": ("int", "long"),
    "double": ("int", "double"),
    "decimal": NUMBERS,
    "number": NUMBERS,
}
"""Types that a type takes besides its own, because nothing of a value is lost."""
_INT32_MIN: Final = -(2**31)
_INT32_MAX: Final = 2**31 - 1


def bson_type_of(name: object) -> str | None:
    """MongoDB's name of the type that a name of either vocabulary means, or "number"; None if it means none."""
    return _ALIASES.get(name.lower()) if isinstance(name, str) else None


def stored_in_model(alias: str) -> str:
    """The name that a model stores for MongoDB's."""
    return _IN_MODELS[alias]


def unknown_type(name: object) -> tuple[str, str]:
    """The reason and the fix for a name that means no type."""
    return f"{name!r:.60} names no type", f"write one of {', '.join(TYPE_NAMES)}"


def check_type(aliases: Sequence[str]) -> Callable[[Any], bool]:
    """Whether a value has one of these types; an integer is an int if it fits in 32 bits, else a long."""
    kinds = {kind for alias in aliases for kind in _KINDS.get(alias, ())}
    short, long = "int" in aliases, "long" in aliases
    if short and long:
        kinds.add(int)
    if short is long:
        return lambda value: type(value) in kinds

    def test(value: Any) -> bool:
        if type(value) is int:
            return (_INT32_MIN <= value <= _INT32_MAX) is short
        return type(value) in kinds

    return test


@cache
def takes_value(alias: str) -> Callable[[Any], bool]:
    """Whether an index or a model takes a value where it names this type; None stands for nothing there."""
    test = check_type(_WIDER.get(alias, (alias,)))
    return lambda value: value is None or test(value)
