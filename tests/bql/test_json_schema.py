"""$jsonSchema: as the library that knows draft 4 reads a schema, where both know it; MongoDB's own words beside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from bson import Decimal128, Int64, ObjectId
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft4Validator

import wormdb
from wormdb.bql.match import compile_filter
from wormdb.bql.parse import parse_filter
from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.format import json
from wormdb.format.values import normalize
from wormdb.query.request import STRATEGIES

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

NAMES = st.sampled_from(["a", "b", "c"])
PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([0.5, 1.0, -2.5]), st.text("xy", max_size=3)
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)
TYPES = st.sampled_from(["object", "array", "number", "boolean", "string", "null"])
SIZES = st.integers(0, 3)


def _unique(values: list[Any]) -> bool:
    return len({json.encode(_sorted(one)) for one in values}) == len(values)


def _sorted(value: Any) -> Any:
    """Values as JSON Schema tells them apart: 1 and 1.0 are one number, and fields have no order."""
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    if isinstance(value, list):
        return [_sorted(one) for one in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _keywords(inner: SearchStrategy[dict[str, Any]]) -> SearchStrategy[dict[str, Any]]:
    lists = st.lists(inner, min_size=1, max_size=2)
    limits = st.one_of(st.integers(-2, 2), st.sampled_from([0.5, -1.5]))
    named = st.lists(NAMES, min_size=1, max_size=2, unique=True)
    keywords: dict[str, SearchStrategy[Any]] = {
        "type": st.one_of(TYPES, st.lists(TYPES, min_size=1, max_size=2, unique=True)),
        "enum": st.lists(VALUES, min_size=1, max_size=3).filter(_unique),
        "minimum": limits,
        "maximum": limits,
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "minLength": SIZES,
        "maxLength": SIZES,
        "pattern": st.sampled_from(["x", "^y", "x$", "^x*$"]),
        "minItems": SIZES,
        "maxItems": SIZES,
        "uniqueItems": st.booleans(),
        "items": st.one_of(inner, lists),
        "additionalItems": st.one_of(st.booleans(), inner),
        "minProperties": SIZES,
        "maxProperties": SIZES,
        "required": named,
        "properties": st.dictionaries(NAMES, inner, max_size=2),
        "patternProperties": st.dictionaries(st.sampled_from(["a", "[bc]"]), inner, max_size=2),
        "additionalProperties": st.one_of(st.booleans(), inner),
        "dependencies": st.dictionaries(NAMES, st.one_of(named, inner), max_size=2),
        "allOf": lists,
        "anyOf": lists,
        "oneOf": lists,
        "not": inner,
    }
    chosen = st.lists(st.sampled_from(sorted(keywords)), max_size=3, unique=True)
    return chosen.flatmap(lambda some: st.fixed_dictionaries({name: keywords[name] for name in some}))


SCHEMAS: SearchStrategy[dict[str, Any]] = st.recursive(st.just({}), _keywords, max_leaves=4)


@given(document=st.dictionaries(NAMES, VALUES, max_size=3), schema=SCHEMAS, strict=st.booleans())
def test_it_says_what_the_library_says(document: dict[str, Any], schema: dict[str, Any], strict: bool) -> None:
    if "minimum" in schema:
        schema = {**schema, "exclusiveMinimum": strict}
    tree = parse_filter({"$jsonSchema": schema})
    assert compile_filter(tree)(normalize(document)) == Draft4Validator(schema).is_valid(document)
    assert parse_filter(json.parse(tree.text, operators=True)) == tree


@pytest.mark.parametrize(
    ("schema", "document", "matches"),
    [
        ({"properties": {"a": {"bsonType": "int"}}}, {"a": 1}, True),
        ({"properties": {"a": {"bsonType": "int"}}}, {"a": Int64(2**40)}, False),
        ({"properties": {"a": {"bsonType": ["long", "decimal"]}}}, {"a": Decimal128("1.5")}, True),
        ({"properties": {"a": {"bsonType": "number"}}}, {"a": 1.5}, True),
        ({"properties": {"a": {"bsonType": "objectId"}}}, {"a": ObjectId(b"0" * 12)}, True),
        ({"properties": {"a": {"bsonType": "date"}}}, {"a": "2026"}, False),
        ({"properties": {"a": {"minimum": Decimal128("1.5")}}}, {"a": 2}, True),
        ({"properties": {"a": {"multipleOf": 0.1}}}, {"a": 0.3}, True),
        ({"properties": {"a": {"bsonType": "int"}}}, {"a": [1, 2]}, False),
        ({"required": ["id"]}, {"_id": "x"}, True),
        ({"properties": {"id": {"pattern": "^x"}}}, {"_id": "y"}, False),
        ({"additionalProperties": False, "properties": {"id": {}, "a": {}}}, {"_id": "x", "a": 1}, True),
        ({"title": "a note", "description": "for people"}, {}, True),
    ],
)
def test_it_says_what_mongodb_documents(schema: dict[str, Any], document: dict[str, Any], matches: bool) -> None:
    assert compile_filter(parse_filter({"$jsonSchema": schema}))(normalize(document)) is matches


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"$ref": "#/a"}, "there is no keyword $ref, as in MongoDB"),
        ({"format": "email"}, "there is no keyword format, as in MongoDB"),
        ({"type": "integer"}, "there is no type integer, as in MongoDB"),
        ({"properties": {"a": {"default": 1}}}, "there is no keyword default, as in MongoDB"),
        ({"propertes": {}}, "there is no keyword propertes"),
        ({"exclusiveMinimum": True}, "there is no minimum beside it"),
        ({"exclusiveMinimum": 5, "minimum": 1}, "it takes true or false"),
        ({"minLength": -1}, "it takes a whole number from 0 on"),
        ({"multipleOf": 0}, "it takes a number above 0"),
        ({"enum": [1, 1.0]}, "a value is there twice"),
        ({"required": []}, "it takes a list of different names, one at least"),
        ({"type": "string", "bsonType": "string"}, "type and bsonType stand together"),
        ({"pattern": "(?<=a)b"}, "RE2"),
        ({"allOf": []}, "it takes a list of one schema at least"),
        ([], "a schema is a document"),
    ],
)
def test_what_mongodb_refuses_is_refused_by_name(schema: Any, told: str) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        parse_filter({"$jsonSchema": schema})
    assert any(told in problem.reason for problem in raised.value.problems)


def test_it_stands_at_the_top_only() -> None:
    wrong: list[dict[str, Any]] = [
        {"a": {"$jsonSchema": {}}},
        {"a": {"$elemMatch": {"b": 1, "$jsonSchema": {}}}},
    ]
    for written in wrong:
        with pytest.raises(InvalidRequestError, match="cannot be used"):
            parse_filter(written)


def test_its_depth_has_a_bound() -> None:
    schema: dict[str, Any] = {}
    for _ in range(100):
        schema = {"not": schema}
    with pytest.raises(LimitExceededError):
        parse_filter({"$jsonSchema": schema})


def test_every_plan_gives_the_same_answer() -> None:
    schema = {
        "required": ["name"],
        "properties": {"n": {"bsonType": "int", "maximum": 20}, "tags": {"items": {"type": "number", "maximum": 1}}},
    }
    with wormdb.connect("memory://json-schema") as database:
        things = database["things"]
        things.create_index("n")
        for number in range(40):
            if number == 25:
                things.forward()
            name = {"name": f"t{number}"} if number % 3 else {}
            things.insert({"id": f"d{number:02}", "n": number, "tags": list(range(number % 4)), **name})
        expected = [f"d{number:02}" for number in range(21) if number % 3 and number % 4 < 3]
        assert [one["id"] for one in things.find({"$jsonSchema": schema})] == expected
        assert things.count({"$nor": [{"$jsonSchema": schema}]}) == 40 - len(expected)
        answered = 0
        for strategy in STRATEGIES:
            try:
                rows = [one["id"] for one in things.find({"n": {"$gte": 3}, "$jsonSchema": schema}, strategy=strategy)]
            except InvalidRequestError:
                continue
            answered += 1
            assert rows == [one for one in expected if one >= "d03"], strategy
        assert answered == 3
        assert things.update_many({"$jsonSchema": schema}, {"$set": {"ok": True}}).matched_count == len(expected)
