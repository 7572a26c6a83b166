"""Whatever stands behind an operator, the language takes it or refuses it by a typed error."""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from bson import Binary, Code, DatetimeMS, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.son import SON

from wormdb.bql.match import compile_filter
from wormdb.bql.parse import FIELD_OPERATORS, LOGICAL_OPERATORS, parse_filter
from wormdb.bql.projection import parse_projection, project
from wormdb.bql.update.update import OPERATORS, apply_update, parse_update
from wormdb.errors import WormError

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DOCUMENTS: list[dict[str, Any]] = [{"_id": 1, "a": [1, {"b": 2}, [3]]}, {"_id": 2, "a": "x"}, {"_id": 3}]


class Colour(IntEnum):
    RED = 1


def endless(kind: type) -> Any:
    """A value that holds itself."""
    value: Any = kind()
    if kind is dict:
        value["x"] = value
    else:
        value.append(value)
    return value


def deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


ODD: dict[str, Any] = {
    "an object": object(),
    "a complex number": 1j,
    "Python's Decimal": Decimal(1),
    "a signalling NaN": Decimal("sNaN"),
    "a Decimal128 over all": Decimal128("9E+6144"),
    "NaN of Decimal128": Decimal128("NaN"),
    "a fraction": Fraction(1, 2),
    "a range": range(3),
    "a bytearray": bytearray(b"x"),
    "a view of memory": memoryview(b"x"),
    "an enum": Colour.RED,
    "a UUID": UUID(int=1),
    "a day": date(2026, 1, 1),
    "a time of day": time(1),
    "a span of time": timedelta(1),
    "a naive date": datetime(2026, 1, 1),  # noqa: DTZ001 - it is meant to be naive
    "Ellipsis": ...,
    "a type": int,
    "a function": deep,
    "nested deep": deep(300),
    "a list in itself": endless(list),
    "a document in itself": endless(dict),
    "an integer over 64 bits": 2**70,
    "half of a pair": "\ud800",
    "NUL": "\0",
    "a name that is a number": {1: 2},
    "an empty name": {"": 1},
    "a dotted name": {"a.b": 1},
    "an unknown operator": {"$x": 1},
    "Int64": Int64(1),
    "SON": SON([("a", 1)]),
    "Code": Code("x"),
    "DBRef": DBRef("a", 1),
    "an ordered dict": OrderedDict(a=1),
    "a deque": deque([1]),
    "a set": {1, 2},
    "a tuple": (1, 2),
    "an empty tuple": (),
    "NaN": float("nan"),
    "infinity": float("inf"),
    "a pattern": re.compile("a"),
    "a pattern of bytes": re.compile(b"a"),
    "a pattern that looks ahead": re.compile("(?=a)"),
    "half a pattern": Regex("["),
    "a long text": "x" * 200_000,
    "an object within": {"a": {"b": object()}},
    "a date far away": DatetimeMS(10**17),
    "a timestamp": Timestamp(1, 1),
    "binary": Binary(b"a", 3),
    "a text of one's own": type("Text", (str,), {})("s"),
    "true": True,
    "null": None,
    "no bytes": b"",
    "MinKey": MinKey(),
    "MaxKey": MaxKey(),
    "an ObjectId": ObjectId(),
}


def taken(read: Callable[[], Callable[[dict[str, Any]], Any]]) -> None:
    """Read it and ask it of all documents; only typed errors may come of it."""
    with suppress(WormError):
        function = read()
        for document in DOCUMENTS:
            with suppress(WormError):
                function(document)


@pytest.mark.parametrize("operand", ODD.values(), ids=ODD)
def test_filters_take_it_or_refuse_it(operand: Any) -> None:
    written = [{"a": operand}, operand, *({name: operand} for name in LOGICAL_OPERATORS)]
    written += [{name: [operand]} for name in LOGICAL_OPERATORS]
    for name in FIELD_OPERATORS:
        inner = ({name: operand}, {name: [operand]}, {name: [operand, 1]})
        written += [{"a": each} for each in inner] + [{"a": {"$elemMatch": each}} for each in inner]
    for each in written:
        taken(lambda each=each: compile_filter(parse_filter(each)))  # type: ignore[misc] # mypy cannot infer it


@pytest.mark.parametrize("operand", ODD.values(), ids=ODD)
def test_updates_take_it_or_refuse_it(operand: Any) -> None:
    modifiers = ("$slice", "$position", "$sort")
    for name in OPERATORS:
        values = [operand, [operand], {"$each": operand}, {"$each": [operand]}]
        values += [{"$each": [1], modifier: operand} for modifier in modifiers]
        for change in [operand, *({path: value} for path in ("a", "a.0", "a.$[]") for value in values)]:
            taken(lambda change=change, name=name: applied({name: change}))  # type: ignore[misc] # mypy cannot infer it
    taken(lambda: applied(operand))
    taken(lambda: applied({"$set": {"a.$[x]": 1}}, array_filters=operand))
    taken(lambda: applied({"$set": {"a.$[x]": 1}}, array_filters=[operand]))
    taken(lambda: applied({"$set": {"a.$[x]": 1}}, array_filters=[{"x": operand}]))


def applied(written: Any, **options: Any) -> Callable[[dict[str, Any]], Any]:
    update = parse_update(written, **options)
    return lambda document: apply_update(update, document, now=NOW)


@pytest.mark.parametrize("operand", ODD.values(), ids=ODD)
def test_projections_take_it_or_refuse_it(operand: Any) -> None:
    slices = [{"a": {"$slice": each}} for each in (operand, [operand, 1], [1, operand])]
    matches = [{"a": {"$elemMatch": each}} for each in (operand, {"b": operand}, {"$gt": operand})]
    for each in [operand, [operand], {"a": operand}, {"a": {"b": operand}}, {"a.$": operand}, *slices, *matches]:
        taken(lambda each=each: shown(each))  # type: ignore[misc] # mypy cannot infer it


def shown(written: Any) -> Callable[[dict[str, Any]], Any]:
    projection = parse_projection(written)
    return lambda document: project(projection, document)
