"""A value from outside is never an operator, and no code runs in a query."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wormdb
from wormdb.bql.match import compile_filter
from wormdb.bql.parse import parse_filter
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# What a form or an API hands over, read from JSON: each would let everybody in if it were taken for a condition.
HOSTILE: list[Any] = [
    {"$ne": None},
    {"$ne": ""},
    {"$gt": ""},
    {"$gte": None},
    {"$regex": ".*"},
    {"$regularExpression": {"pattern": ".*", "options": ""}},
    {"$in": ["secret"]},
    {"$nin": []},
    {"$exists": True},
    {"$not": {"$eq": 1}},
    {"$where": "1"},
    {"$or": [{}]},
    {"$expr": True},
    {"$code": "return true"},
    {"a": {"$ne": 1}},
    [{"$ne": 1}],
]


@pytest.fixture
def users() -> Iterator[wormdb.Collection[wormdb.Document]]:
    with wormdb.connect("memory://") as database:
        database["users"].insert_many([{"id": "ann", "password": "secret"}, {"id": "bob", "password": "other"}])
        yield database["users"]


@pytest.mark.parametrize("given_value", HOSTILE, ids=json.dumps)
def test_the_ways_for_values_from_outside_refuse_operators(
    users: wormdb.Collection[wormdb.Document], given_value: Any
) -> None:
    ways: list[Callable[[], Any]] = [
        lambda: users.find_all({"password": {"$eq": given_value}}),
        lambda: users.query().eq("password", given_value).execute(),
        lambda: users.query().in_("password", [given_value]).execute(),
        lambda: users.find_by_id(given_value),
        lambda: users.exists(given_value),
        lambda: users.delete({"id": given_value}),
        lambda: users.update_many({"password": {"$eq": given_value}}, {"$set": {"admin": True}}),
        lambda: users.update_one({"id": "ann"}, {"$set": {"name": given_value}}),
        lambda: users.insert({"id": "eve", "name": given_value}),
        lambda: users.save({"id": "ann", "name": given_value}),
    ]
    for way in ways:
        with pytest.raises(InvalidRequestError):
            way()
    assert [dict(user) for user in users.find_all(sort={"id": 1})] == [
        {"id": "ann", "password": "secret"},
        {"id": "bob", "password": "other"},
    ]


plain = st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab$.", max_size=4)
names = st.sampled_from(["a", "b", "$ne", "$gt", "$regex", "$or", "$date", "$eq", "password"])
outside = st.recursive(plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3))


@given(outside, outside)
def test_eq_finds_only_what_is_equal(value: Any, stored: Any) -> None:
    try:
        condition = parse_filter({"password": {"$eq": value}})
    except InvalidRequestError:
        assert "$" in json.dumps(value)
        return
    found = compile_filter(condition)({"_id": "x", "password": stored})
    inside = isinstance(stored, list) and any(_same(value, element) for element in stored)
    assert found == (_same(value, stored) or inside)


def _same(one: Any, other: Any) -> bool:
    """Equality of JSON, in which true is not 1 and the order of fields counts."""
    return json.dumps(one) == json.dumps(other)


@pytest.mark.parametrize("operator", ["$where", "$function", "$accumulator", "$expr", "$eval", "$nonsense"])
def test_no_code_and_no_unknown_operator(users: wormdb.Collection[wormdb.Document], operator: str) -> None:
    for written in ({operator: "1"}, {"password": {operator: "1"}}, {"$or": [{operator: "1"}]}):
        with pytest.raises(InvalidRequestError):
            users.find_all(written)


@pytest.mark.parametrize("name", ["$set", "$where", "a.b", "a\0b"])
@pytest.mark.parametrize(
    "wrap", [lambda name: {name: 1}, lambda name: {"x": {name: 1}}, lambda name: {"x": [{name: 1}]}]
)
def test_fields_that_could_be_taken_for_operators_or_paths_are_not_stored(
    users: wormdb.Collection[wormdb.Document], name: str, wrap: Callable[[str], dict[str, Any]]
) -> None:
    with pytest.raises(InvalidRequestError):
        users.insert({"id": "eve", **wrap(name)})
    assert "eve" not in users
