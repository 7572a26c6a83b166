from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from tests.engine.tree.rig import encode_compound
from wormdb.engine.tree.definition import (
    Index,
    array_fields,
    claims_of,
    decode_index,
    encode_index,
    keys_of,
    lookup_keys,
)
from wormdb.errors import CorruptionError, InvalidRequestError, LimitExceededError, UnsupportedFormatError
from wormdb.format.key import encode_key
from wormdb.format.kinds import MISSING
from wormdb.format.order import compare
from wormdb.schema.load import load_model
from wormdb.schema.model import IndexDefinition
from wormdb.settings import INDEX_KEY_BYTES_MAX
from wormdb.testing.strategies import values


def full(*fields: str) -> Index:
    """An index that leaves nothing out."""
    return Index("i", fields, sparse=False)


def test_an_index_is_made_from_a_model() -> None:
    model = load_model(
        "Thing",
        {
            "path": "@things/(id:any)",
            "indexes": {
                "byEmail": {"field": "email", "unique": True},
                "byTags": {"field": "tags", "type": "multiValue", "sparse": False},
                "byPlace": {"fields": ["address.city", "name"]},
            },
        },
    )
    email, tags, place = (Index.of(name, index) for name, index in model.indexes.items())
    assert email == Index("byEmail", ("email",), unique=True)
    assert tags == Index("byTags", ("tags",), sparse=False, multi_valued=True)
    assert place == Index("byPlace", ("address.city", "name"))
    assert place.paths == (("address", "city"), ("name",))
    assert (email.compound, place.compound) == (False, True)
    assert place.label == "address.city, name"
    assert len({email, Index("byEmail", ("email",), unique=True), Index("byEmail", ("email",))}) == 2


@pytest.mark.parametrize("fields", [(), ("",), ("a..b",), ("$a",)])
def test_a_field_that_cannot_be_is_refused(fields: tuple[str, ...]) -> None:
    with pytest.raises(InvalidRequestError):
        Index.of("i", IndexDefinition(fields))


@pytest.mark.parametrize(
    ("value", "same"),
    [(1, [1]), ("x", ["x"]), ([2, 1, 2], [1, 2]), ([[1], 1], [1, [1]]), ({"a": 1}, [{"a": 1}]), (None, [None])],
)
def test_keys_are_those_of_the_distinct_elements(value: Any, same: list[Any]) -> None:
    assert keys_of(full("a"), {"a": value}) == [encode_key(one) for one in same]


def test_missing_is_null_and_an_empty_array_is_below_it() -> None:
    missing, null, empty = keys_of(full("a"), {}), keys_of(full("a"), {"a": None}), keys_of(full("a"), {"a": []})
    assert missing == null == [encode_key(None)]
    assert empty == [encode_key(MISSING)] < null


def test_equal_numbers_have_one_key() -> None:
    assert keys_of(full("a"), {"a": [1, 1.0]}) == keys_of(full("a"), {"a": 1})


def test_compound_keys_are_joined() -> None:
    assert keys_of(full("a", "b"), {"a": [3, 1], "b": "x"}) == [
        encode_compound(1, "x"),
        encode_compound(3, "x"),
    ]
    assert keys_of(full("a", "b"), {"a": 1}) == [encode_compound(1, None)]


@pytest.mark.parametrize("document", [{}, {"a": None}, {"a": []}, {"b": 1}])
def test_a_sparse_index_leaves_out_documents_without_a_value(document: dict[str, Any]) -> None:
    assert keys_of(Index("i", ("a",)), document) == []
    assert len(keys_of(full("a"), document)) == 1


def test_a_sparse_index_keeps_what_has_one_value_of_several() -> None:
    assert keys_of(Index("i", ("a", "b")), {"b": 1}) == [encode_key(None) + encode_key(1)]
    assert keys_of(Index("i", ("a", "b")), {"b": None}) == []


def test_claims_show_the_values() -> None:
    assert list(claims_of(full("a"), {"a": [2, 1]}).values()) == [2, 1]
    assert list(claims_of(full("a", "b"), {"a": [], "c": 1}).values()) == [[[], None]]
    assert claims_of(full("a"), None) == {}


def test_two_arrays_name_the_index() -> None:
    with pytest.raises(InvalidRequestError, match="index byBoth: two fields of one index are arrays") as caught:
        keys_of(Index("byBoth", ("a", "b")), {"a": [1], "b": [2]})
    assert caught.value.reason
    assert caught.value.fix


def test_a_key_that_is_too_long_names_the_index() -> None:
    assert keys_of(full("a"), {"a": "x" * (INDEX_KEY_BYTES_MAX - 2)})
    with pytest.raises(LimitExceededError, match="index byText"):
        keys_of(Index("byText", ("a",)), {"a": "x" * INDEX_KEY_BYTES_MAX})


@given(values(), values())
def test_documents_equal_to_a_value_are_under_its_lookup_keys(value: Any, other: Any) -> None:
    """As a query compares: with the whole value, or with an element of an array."""
    wanted = set(lookup_keys(value))
    for document in ({"a": value}, {"a": [value, other]}, {"a": [other, value]}):
        assert wanted.intersection(keys_of(full("a"), document))
    if wanted.isdisjoint(keys_of(full("a"), {"a": other})):
        assert compare(value, other) != 0


def test_null_is_looked_up_where_missing_is() -> None:
    assert lookup_keys(None) == lookup_keys(MISSING) == keys_of(full("a"), {})


@pytest.mark.parametrize(
    ("document", "arrays"),
    [
        ({"a": 1, "b": {"c": 2}}, (False, False)),
        ({"a": [1], "b": {"c": 2}}, (True, False)),
        ({"a": [], "b": {"c": 2}}, (True, False)),
        ({"b": [{"c": 2}]}, (False, True)),
        ({"b": {"c": [2]}}, (False, True)),
        ({}, (False, False)),
    ],
)
def test_fields_with_arrays_are_known(document: dict[str, Any], arrays: tuple[bool, ...]) -> None:
    assert array_fields(full("a", "b.c"), document) == arrays


@pytest.mark.parametrize(
    "index",
    [
        Index("i", ("a",)),
        Index("i", ("a", "b.c"), unique=True, sparse=False),
        Index("i", ("tags",), multi_valued=True),
    ],
)
def test_a_definition_is_read_as_it_was_written(index: Index) -> None:
    assert decode_index("i", encode_index(index), source="root") == index


def test_a_definition_says_only_what_is_not_usual() -> None:
    assert encode_index(Index("i", ("a",))) == b'{"fields":["a"]}'
    assert encode_index(Index("i", ("a",), unique=True, sparse=False, multi_valued=True)) == (
        b'{"fields":["a"],"unique":true,"sparse":false,"multiValue":true}'
    )


def test_an_index_whose_entries_hold_values_is_refused() -> None:
    with pytest.raises(UnsupportedFormatError, match=r"index i hold values of fields.*upgrade") as caught:
        decode_index("i", b'{"fields":["a"],"covered":["b"]}', source="the-root")
    assert caught.value.key == "the-root"


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"fields":[]}', b'{"fields":["$a"]}', b'{"fields":["\xff"]}'])
def test_a_definition_that_cannot_be_read_names_its_object(data: bytes) -> None:
    with pytest.raises(CorruptionError, match=r"the-root.*index i"):
        decode_index("i", data, source="the-root")
