"""The names of BSON's types: two vocabularies mean one thing, in a model and in an index."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wormdb
from wormdb.engine.tree.definition import Index, decode_index, encode_index, keys_of, read_bson_types
from wormdb.errors import InvalidRequestError, SchemaError, ValidationError
from wormdb.format.bson_types import TYPE_NAMES
from wormdb.format.kinds import Binary, Decimal128, MaxKey, MinKey, ObjectId, Regex, Timestamp
from wormdb.format.values import normalize_document
from wormdb.schema.load import load_model
from wormdb.schema.validate import validate
from wormdb.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb import Collection, Document
    from wormdb.api.imports.records import Rejection

    Things = Collection[Document]

KRONOTOP = {
    "int32": "int",
    "int64": "long",
    "double": "double",
    "string": "string",
    "boolean": "bool",
    "binary": "binData",
    "objectid": "objectId",
    "datetime": "date",
    "decimal128": "decimal",
    "timestamp": "timestamp",
}
"""Kronotop's name and MongoDB's of each type that both have."""
MONGODB_ONLY = ("object", "array", "null", "regex", "minKey", "maxKey", "number")

VALUES: dict[str, Any] = {
    "int": 5,
    "long": 2**40,
    "double": 1.5,
    "string": "a",
    "bool": True,
    "binData": b"x",
    "objectId": ObjectId("0123456789abcdef01234567"),
    "date": datetime(2026, 1, 2, tzinfo=UTC),
    "decimal": Decimal128("1.5"),
    "timestamp": Timestamp(1, 2),
    "object": {"x": 1},
    "regex": Regex("a"),
    "minKey": MinKey(),
    "maxKey": MaxKey(),
    "with a subtype": Binary(b"x", 5),
}
TAKEN: dict[str, set[str]] = {
    "int": {"int"},
    "long": {"int", "long"},
    "double": {"int", "double"},
    "decimal": {"int", "long", "double", "decimal"},
    "number": {"int", "long", "double", "decimal"},
    "binData": {"binData", "with a subtype"},
    "null": set(),
    "array": set(),
}
"""Which of those values each type takes, where it is not just its own."""

_numbers = itertools.count()


def alias_of(name: str) -> str:
    return KRONOTOP.get(name, name)


def model_of(name: str | list[str], *fields: str) -> dict[str, Any]:
    return {"path": "@things/(id:any)", "indexes": {"byV": {"fields": list(fields or ("v",)), "bsonType": name}}}


def schema_of(name: str) -> dict[str, Any]:
    return {"schemaVersion": "1.0", "sourceOfTruth": "local", "models": {"Thing": model_of(name)}}


def fits_index(name: str, document: dict[str, Any]) -> bool:
    index = Index("byV", ("v",), bson_types=read_bson_types(name, ("v",), name="byV"))
    try:
        keys_of(index, normalize_document(document))
    except InvalidRequestError:
        return False
    return True


def fits_model(name: str, document: dict[str, Any]) -> bool:
    try:
        validate(load_model("Thing", model_of(name)), document)
    except ValidationError:
        return False
    return True


def test_the_vocabularies_are_whole() -> None:
    assert set(KRONOTOP) | set(KRONOTOP.values()) | set(MONGODB_ONLY) <= set(TYPE_NAMES)


@given(
    st.sampled_from([*KRONOTOP, *KRONOTOP.values(), *MONGODB_ONLY]),
    st.sampled_from([str, str.upper, str.lower, str.title]),
    st.lists(st.sampled_from([*VALUES, "null", "array"]), max_size=3),
    st.booleans(),
)
def test_every_name_means_the_same_in_a_model_and_in_an_index(
    name: str, spelled: Callable[[str], str], chosen: list[str], is_array: bool
) -> None:
    found: list[Any] = [None if one == "null" else [1] if one == "array" else VALUES[one] for one in chosen]
    value = found if is_array or len(found) != 1 or chosen == ["array"] else found[0]
    document = {"_id": "a", "v": value}
    alias = alias_of(name)
    taken = {"null", *(("array",) if alias == "array" else ()), *TAKEN.get(alias, {alias})}
    # An index goes through arrays, so that only an array in an array is one to it.
    inner = ["int"] if chosen == ["array"] and not is_array and len(found) == 1 else chosen
    if value == [[1]]:
        inner = ["array"]
    elif value == [1]:
        inner = ["int"]
    expected = all(one in taken for one in inner)
    written = spelled(name)
    assert fits_index(written, document) == fits_model(written, document) == expected


@pytest.mark.parametrize("name", [*KRONOTOP, *MONGODB_ONLY])
def test_what_is_stored_is_what_older_releases_read(name: str) -> None:
    alias = alias_of(name)
    assert load_model("Thing", model_of(name)).canonical() == load_model("Thing", model_of(alias.upper())).canonical()
    assert f'"bsonType":"{name}"'.encode() in load_model("Thing", model_of(alias)).canonical()
    index = Index("byV", ("v",), bson_types=read_bson_types(name.upper(), ("v",), name="byV"))
    assert encode_index(index) == f'{{"fields":["v"],"bsonTypes":["{alias}"]}}'.encode()
    assert decode_index("byV", encode_index(index), source="x") == index


def test_an_unknown_name_is_told_all_of_them_before_anything_is_written() -> None:
    names = ", ".join(TYPE_NAMES)
    with wormdb.connect("memory://") as database:
        with pytest.raises(InvalidRequestError, match=f"'int16' names no type .write one of {names}"):
            database["things"].create_index("v", bson_type="int16")
        assert database.collections() == []
    with pytest.raises(SchemaError) as caught:
        wormdb.connect("memory://", schema=schema_of("int16"))
    (problem,) = caught.value.problems
    assert (problem.path, problem.fix) == ("models.Thing.indexes.byV.bsonType.0", f"write one of {names}")


# --- every way to write ---


def _raise(rejected: Rejection) -> None:
    raise InvalidRequestError(rejected.reason, problems=rejected.problems)


def _changed(one: dict[str, Any], old: Document) -> Document:
    old["v"] = one["v"]
    return old


def _modify(things: Things, documents: list[dict[str, Any]]) -> None:
    for one in documents:
        things.modify("there", partial(_changed, one))


def _batch(things: Things, documents: list[dict[str, Any]]) -> None:
    with things.batch() as batch:
        for one in documents:
            batch.insert(one)


WRITES: dict[str, Callable[[Things, list[dict[str, Any]]], Any]] = {
    "insert": lambda things, documents: [things.insert(one) for one in documents],
    "insert_many": lambda things, documents: things.insert_many(documents),
    "save": lambda things, documents: [things.save(one) for one in documents],
    "batch": _batch,
    "import": lambda things, documents: things.import_records(documents, rejected=_raise),
    "update": lambda things, documents: [
        things.update_one({"id": "there"}, {"$set": {"v": one["v"]}}) for one in documents
    ],
    "modify": _modify,
    "upsert": lambda things, documents: [
        things.update_one({"id": one["id"]}, {"$set": {"v": one["v"]}}, upsert=True) for one in documents
    ],
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("by_model", [True, False])
def test_every_way_to_write_is_checked(write: str, *, by_model: bool) -> None:
    url = f"memory://bson-types-{next(_numbers)}"
    settings = Settings(forward="manual", forward_interval_ms=0)
    with wormdb.connect(url, schema=schema_of("long"), settings=settings) as database:
        database.model("Thing").insert({"id": "there", "v": 1})
        if by_model:
            _check(database.model("Thing"), write)
    if not by_model:
        with wormdb.connect(url, settings=settings) as database:
            _check(database["things"], write)


def _check(things: Things, write: str) -> None:
    before = {one["id"]: one["v"] for one in things.find()}
    with pytest.raises(InvalidRequestError, match="'text' is not of the type int64"):
        WRITES[write](things, [{"id": "x", "v": "text"}])
    assert {one["id"]: one["v"] for one in things.find()} == before
    WRITES[write](things, [{"id": "y", "v": 7}])
    assert 7 in [one["v"] for one in things.find()]


def test_what_was_written_before_stays_and_is_shown() -> None:
    url = f"memory://bson-types-{next(_numbers)}"
    free = schema_of("string")
    del free["models"]["Thing"]["indexes"]["byV"]["bsonType"]
    settings = Settings(forward="manual", forward_interval_ms=0)
    with wormdb.connect(url, schema=free, settings=settings) as database:
        database.model("Thing").insert_many([{"id": "a", "v": 5}, {"id": "b", "v": "text"}])
        database.model("Thing").forward()
        assert database.model("Thing").describe_index("byV").bson_types == ()
    with wormdb.connect(url, schema=schema_of("String"), settings=settings) as database:
        things = database.model("Thing")
        database.apply_schema()
        assert things.describe_index("byV").bson_types == ("string",)
        assert things.find({"v": 5}).count() == 1
        with pytest.raises(ValidationError, match="6 is not of the type string"):
            things.save({"id": "a", "v": 6})
        things.save({"id": "a", "v": "six"})
        assert [finding for each in database.verify(["Thing"]) for finding in each.findings] == []
