"""Documents looked at together: those that pass are stored as if each had been looked at alone."""

from __future__ import annotations

import enum
import math
from collections import OrderedDict
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.schema.strategies import NAMES, VALUES, fields
from wormdb.errors import WormError
from wormdb.format import json
from wormdb.format.kinds import Binary, Decimal128, MaxKey, ObjectId
from wormdb.format.values import normalize_document
from wormdb.schema.load import load_model
from wormdb.schema.sieve import Sieve
from wormdb.schema.validate import new_document
from wormdb.settings import DOCUMENT_BYTES_MAX, DOCUMENT_KEYS_MAX, FIELD_NAME_BYTES_MAX, ID_BYTES_MAX, INT_MAX, INT_MIN
from wormdb.system.clock import ManualClock, SeededChance
from wormdb.testing.strategies import documents, values

if TYPE_CHECKING:
    from wormdb.schema.model import Model
    from wormdb.schema.sieve import PlainDocument

FIELDS: dict[str, Any] = {
    "name": {"type": "string", "required": True},
    "status": {"type": "string", "enum": ["new", "old"], "default": "new"},
    "age": {"type": "integer"},
    "score": {"type": "number", "enum": [1, 2.5]},
    "share": {"type": "number"},
    "vip": {"type": "boolean", "default": False},
    "born": {"type": "datetime"},
    "tags": {"type": "array", "items": {"type": "string"}},
    "lines": {
        "type": "array",
        "items": {"type": "object", "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}}},
    },
    "address": {
        "type": "object",
        "properties": {"zip": {"type": "string", "required": True}, "land": {"type": "string", "default": "DE"}},
    },
    "free": {"type": "object"},
    "price": {"type": "decimal"},
    "since": {"type": "datetime", "default": "2020-01-01T00:00:00Z"},
}


def model_of(fields: dict[str, Any] | None = None, path: str = "@things/(id:ulid)", **keys: Any) -> Model:
    return load_model("Thing", {"path": path, "fields": FIELDS if fields is None else fields, **keys})


def alone(model: Model | None, document: Any) -> bytes | None:
    """The JSON of a document that was looked at alone; None if it is refused, or is no plain dict."""
    try:
        if model is None:
            stored = normalize_document(document)
            return json.encode_document(stored)
        return json.encode_document(new_document(model, document, clock=ManualClock(), chance=SeededChance(1)))
    except WormError:
        return None


def check(model: Model | None, given: list[Any]) -> list[PlainDocument | None]:
    """What passes is what is stored; the answer, to see what passed."""
    before = [alone(model, document) for document in given]
    found = Sieve(model).run(given)
    assert len(found) == len(given)
    for document, one, expected in zip(given, found, before, strict=True):
        if one is not None:
            assert expected is not None, document
            stored = json.decode_document(expected, name="expected")
            made = stored.pop("_id", None)
            if model is None:
                made = stored.pop("id", made)
            assert one.id is None or one.id == made
            assert b"{" + one.members + b"}" == json.encode_document(stored)
    assert [alone(model, document) for document in given] == before, "the documents given are as they were"
    return found


# --- what passes ---


PLAIN = {"name": "Ada", "age": 7, "share": 0.5, "vip": True, "tags": ["a", "b"], "free": {"x": [1, {"y": None}]}}


@pytest.mark.parametrize("count", [1, 2, 40])
def test_plain_documents_pass_with_defaults_and_dates(count: int) -> None:
    given = [
        PLAIN,
        {"name": "Bob", "born": datetime(1815, 12, 10, tzinfo=UTC), "lines": [{"sku": "x", "count": 1}, {}]},
        {"name": "Cyd", "born": "1999-01-01T12:00:00+02:00", "extra": [[1.5], "ü"]},
        {"name": "Dan", "when": datetime(2020, 1, 1, 12, 0, 0, 123456, UTC), "address": {"zip": "1", "land": "FR"}},
        {"name": "Eve", "age": None, "tags": None, "status": "old"},
    ] * count
    assert None not in check(model_of(), given)
    assert None not in check(None, given)


def test_given_ids_pass_where_they_fit() -> None:
    ulid = "01HV5Q8ZJ4N7XKTR2MDWE9GYBC"
    expected: dict[str | None, list[dict[str, Any]]] = {
        ulid: [{"id": ulid, "name": "a"}, {"name": "a", "_id": ulid}],
        None: [{"id": "no ulid", "name": "a"}, {"id": 7, "name": "a"}],
    }
    for fitting, given_ids in expected.items():
        for document in given_ids:
            assert [one and one.id for one in check(model_of(), [document])] == [fitting]
    long = "x" * ID_BYTES_MAX
    others: list[tuple[dict[str, Any], str | None]] = [
        ({"id": "x", "a": 1}, "x"),
        ({"a": 1, "_id": "y"}, "y"),
        ({"_id": long}, long),
        ({"_id": f"{long}x"}, None),
        ({"id": "ü"}, None),
        ({"id": 7}, None),
        ({"id": ""}, None),
        ({"id": None}, None),
        ({"id": "a", "_id": "a"}, None),
    ]
    for document, identity in others:
        assert [one and one.id for one in check(None, [document])] == [identity]


def test_one_odd_document_does_not_hold_up_the_others() -> None:
    given: list[Any] = [{"name": "x", "age": number} for number in range(1_000)]
    given[700] = {"name": "x", "age": "seven"}
    found = check(model_of(), given)
    assert found[700] is None
    assert sum(one is None for one in found) <= 16


# --- what does not ---


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Real(float):
    pass


class Shade(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def bomb() -> Any:
    value: Any = ["x"]
    for _ in range(12):
        value = [value] * 10
    return value


ODD: list[Any] = [
    Text("x"),
    Number(7),
    Real(0.5),
    Level.LOW,
    Shade.RED,
    Decimal("1.50"),
    Decimal128("1.50"),
    ObjectId("65f0a1b2c3d4e5f60718293a"),
    UUID(int=7),
    b"abc",
    Binary(b"abc", 5),
    MaxKey(),
    date(2020, 1, 1),
    datetime(2020, 1, 1),  # noqa: DTZ001 - taken as UTC
    datetime(2020, 1, 1, 1, 2, 3, 456789, tzinfo=timezone(timedelta(hours=5))),
    datetime.max.replace(tzinfo=timezone(timedelta(hours=-5))),
    datetime(2020, 1, 1, 1, 2, 3),  # noqa: DTZ001 - it must be refused
    (1, 2),
    {1, 2},
    OrderedDict(a=1),
    math.nan,
    math.inf,
    -0.0,
    INT_MAX,
    INT_MAX + 1,
    INT_MIN,
    INT_MIN - 1,
    True,
    1,
    1.0,
    2.5,
    "half \ud800",
    "new",
    "1999-01-01",
    "",
    None,
    {"": 1},
    {"a.b": 1},
    {"$date": 1},
    {"a\0": 1},
    {"x" * (FIELD_NAME_BYTES_MAX + 1): 1},
    {Text("a"): 1},
    {1: 2},
    {"zip": None},
    {"zip": "1"},
    nested(5),
    object(),
    [Text("x")],
    [None, "x"],
    [{"sku": Text("x")}],
    [{"sku": "x"}, None, "y"],
]


@pytest.mark.parametrize("place", range(len(ODD)))
def test_odd_values_are_stored_as_if_they_were_alone(place: int) -> None:
    value, model = ODD[place], model_of()
    for name in [*FIELDS, "extra", "createdAt", "_id", "id"]:
        for odd in ({name: value}, {"name": "x", name: value}, {"name": "x", "extra": {name: [value]}}):
            check(model, [odd, {"name": "x", name: "other"}])
            check(None, [odd, {name: "other"}])


@pytest.mark.parametrize(
    ("value", "passes"),
    [
        (nested(10), True),
        (nested(11), True),
        (nested(12), False),
        (nested(99), False),
        (nested(100), False),
        (endless(), False),
        ([[["x"] * 100] * 100] * 90, True),
        ({str(number): 1 for number in range(DOCUMENT_KEYS_MAX)}, True),
        ({str(number): 1 for number in range(DOCUMENT_KEYS_MAX + 1)}, False),
    ],
    ids=["10", "11", "12", "99", "100", "endless", "wide", "keys", "too many keys"],
)
def test_deep_and_wide_values_are_stored_as_if_they_were_alone(value: Any, passes: bool) -> None:
    assert [one is not None for one in check(None, [{"value": value}, {"other": 1}])] == [passes, True]


def test_a_value_that_is_shared_over_and_over_is_not_gone_through() -> None:
    assert Sieve(None).run([{"value": bomb()}]) == [None]


@pytest.mark.parametrize("name", ["int64", "float64", "float32", "bool_", "str_", "datetime64"])
def test_values_of_numpy_are_stored_as_if_they_were_alone(name: str) -> None:
    numpy = pytest.importorskip("numpy")
    value = getattr(numpy, name)("2020-01-01" if name == "datetime64" else 1)
    array = numpy.array([1, 2])
    for odd in ({"name": "x", "age": value}, {"name": value}, {"name": "x", "share": value}, {"name": array}):
        check(model_of(), [odd, odd])
        check(None, [odd, odd])


@pytest.mark.parametrize("name", ["", "$x", "a.b", "a\0b", "x" * (FIELD_NAME_BYTES_MAX + 1), 7, Text("t"), None, "ü"])
def test_odd_names_are_stored_as_if_they_were_alone(name: Any) -> None:
    found = check(None, [{name: 1}, {"deep": {name: 1}}, {"list": [{name: 1}]}])
    assert [one is not None for one in found] == [name == "ü"] * 3


def test_the_greatest_documents_are_looked_at_alone() -> None:
    large = {"text": "x" * DOCUMENT_BYTES_MAX}
    assert check(None, [large, {"text": "x"}])[0] is None
    assert check(None, [{"a": "x"}, OrderedDict(a="x"), "no document", None])[1:] == [None, None, None]


def test_models_that_say_more_about_ids_and_times_are_left_alone() -> None:
    singleton = load_model("One", {"path": "#org/[one].json", "fields": {}})
    assert check(singleton, [{"a": 1}]) == [None]
    assert check(model_of({"createdAt": {"type": "datetime", "required": True}}), [{"a": 1}]) == [None]
    assert check(model_of({}), [{"createdAt": "2020-01-01T00:00:00Z"}]) == [None]


# --- everything else ---


@given(st.lists(documents(), max_size=6))
def test_any_documents_without_a_model(given: list[dict[str, Any]]) -> None:
    check(None, given)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"name": st.text(max_size=3)},
            optional={name: st.sampled_from(ODD) | values() | st.text(max_size=3) for name in [*FIELDS][1:]},
        ),
        max_size=6,
    )
)
def test_odd_documents_of_a_model(given: list[dict[str, Any]]) -> None:
    check(model_of(), given)


@given(st.dictionaries(st.sampled_from(NAMES), fields(), max_size=4), st.data())
def test_documents_of_any_model(declared: dict[str, Any], data: st.DataObject) -> None:
    fitting = {name: st.none() | VALUES[field["type"]] for name, field in declared.items()}
    given = data.draw(st.lists(st.fixed_dictionaries({}, optional=fitting), max_size=6))
    check(model_of(declared), given)
