"""Indexes with a `bson_type`: what they let be written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from wormdb.engine.tree.definition import Index, decode_index, encode_index, keys_of
from wormdb.engine.tree.extract import extract, extract_columns
from wormdb.errors import CorruptionError, InvalidRequestError
from wormdb.format import json
from wormdb.format.kinds import Decimal128
from wormdb.format.values import normalize

if TYPE_CHECKING:
    from collections.abc import Iterator

FITTING: dict[str, list[Any]] = {
    "string": ["a", "", None, ["x", "y"], []],
    "int": [1, -5, None],
    "long": [1, 2**40],
    "double": [1, 1.5],
    "decimal": [1, 2**40, 1.5, Decimal128("1.50")],
    "number": [1, 1.5, Decimal128("1"), [1, 2.5]],
    "bool": [True],
    "object": [{"x": 1}],
}
OTHERS: dict[str, list[Any]] = {
    "string": [1, ["x", 1], {"x": 1}, True],
    "int": [2**40, 1.0, "1", True],
    "long": [1.0, "1"],
    "double": ["1", Decimal128("1"), 2**40],
    "decimal": ["1"],
    "number": ["1", [1, "2"], False],
    "bool": [0],
    "object": ["x"],
}


@pytest.fixture
def collection() -> Iterator[wormdb.Collection[wormdb.Document]]:
    with wormdb.connect("memory://") as database:
        yield database["things"]


@pytest.mark.parametrize(("alias", "value"), [(alias, value) for alias in FITTING for value in FITTING[alias]])
def test_values_of_the_type_are_written_and_found(
    collection: wormdb.Collection[wormdb.Document], alias: str, value: Any
) -> None:
    collection.create_index("v", bson_type=alias)
    collection.insert({"id": "a", "v": value})
    collection.insert({"id": "nothing"})
    assert collection.find_one({"id": "a"}) is not None
    assert collection.describe_index("v").bson_types == (alias,)


@pytest.mark.parametrize(("alias", "value"), [(alias, value) for alias in OTHERS for value in OTHERS[alias]])
def test_other_values_are_refused_before_anything_is_written(
    collection: wormdb.Collection[wormdb.Document], alias: str, value: Any
) -> None:
    collection.create_index("v", bson_type=alias)
    with pytest.raises(InvalidRequestError, match=f"index v: .* is no {alias}"):
        collection.insert_many([{"id": "a"}, {"id": "b", "v": value}])
    assert collection.count() == 0


def test_documents_that_are_there_already_must_fit(collection: wormdb.Collection[wormdb.Document]) -> None:
    collection.insert_many([{"id": "a", "v": "text"}, {"id": "b", "v": 7}])
    with pytest.raises(InvalidRequestError, match=r"'b'.*v=7 is no string"):
        collection.create_index("v", bson_type="string")
    assert collection.describe_index("v").state == "failed"
    collection.update_one({"id": "b"}, {"$set": {"v": "7"}})
    assert collection.build_index("v").state == "ready"


def test_fields_of_a_compound_index_have_each_their_own(collection: wormdb.Collection[wormdb.Document]) -> None:
    collection.create_index(["city", "age"], bson_type=["string", "int"])
    collection.insert({"city": "Ulm", "age": 3})
    with pytest.raises(InvalidRequestError, match="age='3' is no int"):
        collection.insert({"city": "Ulm", "age": "3"})


@pytest.mark.parametrize("wrong", ["text", 7, ["string", "int"], [], ["undefinedd"], [None]])
def test_types_that_are_none(collection: wormdb.Collection[wormdb.Document], wrong: Any) -> None:
    with pytest.raises(InvalidRequestError, match="index v: bson_type="):
        collection.create_index("v", bson_type=wrong)
    assert [each.name for each in collection.indexes()] == ["_id"]


@pytest.mark.parametrize("alias", FITTING)
def test_many_at_once_are_checked_as_one_by_one(alias: str) -> None:
    index = Index("v", ("v",), sparse=False, bson_types=(alias,))
    for value in FITTING[alias]:
        document = normalize({"_id": "a", "v": value})
        keys = keys_of(index, document)
        assert [*extract(index, [b'"a"'], [json.encode(document)]).keys[0]] == keys
        if not isinstance(value, list):
            assert [*extract_columns(index, [b'"a"'], [[document["v"]]]).keys[0]] == keys
    for value in OTHERS[alias]:
        document = normalize({"_id": "a", "v": value})
        with pytest.raises(InvalidRequestError, match="'a'"):
            extract(index, [b'"a"'], [json.encode(document)])
        if not isinstance(value, list):
            with pytest.raises(InvalidRequestError, match="'a'"):
                extract_columns(index, [b'"a"'], [[document["v"]]])


def test_definitions_keep_their_types() -> None:
    index = Index("v", ("v", "w"), bson_types=("string", "number"))
    assert decode_index("v", encode_index(index), source="x") == index
    assert b"bson" not in encode_index(Index("v", ("v",)))
    with pytest.raises(CorruptionError):
        decode_index("v", b'{"fields":["v"],"bsonTypes":["nonsense"]}', source="x")
