from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from wormdb.bql.match import compile_filter
from wormdb.bql.parse import parse_filter
from wormdb.bql.positions import compile_positions, names_array

# Filter, document, the array, the position that matched or None.
CASES: list[tuple[dict[str, Any], dict[str, Any], str, int | None]] = [
    ({"a": 5}, {"a": [1, 5, 5]}, "a", 1),
    ({"a": {"$gt": 3}}, {"a": [1, 5, 9]}, "a", 1),
    ({"a": {"$gt": 3, "$lt": 8}}, {"a": [1, 9, 5]}, "a", 2),
    ({"a": {"$in": [9, 5]}}, {"a": [1, 5, 9]}, "a", 1),
    ({"a": {"$all": [9, 5]}}, {"a": [1, 5, 9]}, "a", 1),
    ({"a": {"$regex": "^x"}}, {"a": ["a", "xy"]}, "a", 1),
    ({"a.b": 5}, {"a": [{"b": 1}, {"b": 5}]}, "a", 1),
    ({"a.b": 5}, {"a": [{"b": [1]}, {"b": [2, 5]}]}, "a", 1),
    ({"a.b": 1, "a.c": 2}, {"a": [{"b": 1, "c": 1}, {"b": 1, "c": 2}]}, "a", 1),
    ({"a": {"$elemMatch": {"b": 1, "c": 2}}}, {"a": [{"b": 1}, {"b": 1, "c": 2}]}, "a", 1),
    ({"a": {"$elemMatch": {"$gt": 3, "$lt": 8}}}, {"a": [1, 9, 5]}, "a", 2),
    ({"x.a": 5}, {"x": {"a": [1, 5]}}, "x.a", 1),
    ({"a": 5, "b": 1}, {"a": [1, 5], "b": 1}, "a", 1),
    ({"a": 5, "b": {"$ne": 1}}, {"a": [1, 5], "b": 2}, "a", 1),
    ({"a": 5, "$or": [{"b": 1}, {"c": 1}]}, {"a": [1, 5], "b": 1}, "a", 1),
    ({"a": 5, "$or": [{"a": {"$ne": 7}}, {"c": 1}]}, {"a": [1, 5]}, "a", 1),
    ({"a": 5, "a.1": 5}, {"a": [1, 5]}, "a", 1),
    ({"$or": [{"a": 5, "b": 1}, {"a": 6, "b": 2}]}, {"a": [5, 6], "b": 2}, "a", 1),
    ({"$or": [{"a": 5}, {"b": 2}]}, {"a": [6], "b": 2}, "a", None),
    ({"a": {"$gt": 3}, "$and": [{"a": {"$size": 2}}, {"a": {"$ne": 1}}]}, {"a": [2, 4]}, "a", 1),
    # different elements meet the conditions: none stands for all
    ({"a": {"$gt": 3, "$lt": 2}}, {"a": [1, 5]}, "a", None),
    # nothing about elements
    ({"b": 1}, {"a": [1], "b": 1}, "a", None),
    ({}, {"a": [1]}, "a", None),
    ({"a": {"$ne": 5}}, {"a": [1]}, "a", None),
    ({"a": {"$size": 1}}, {"a": [1]}, "a", None),
    ({"a": {"$exists": True}}, {"a": [1]}, "a", None),
    ({"a.0": 1}, {"a": [1]}, "a", None),
    ({"x": {"a": [1]}}, {"x": {"a": [1]}}, "x.a", None),
    # no array
    ({"a": 5}, {"a": 5}, "a", None),
    # behind another array: the position in that one
    ({"x.a": 5}, {"x": [{"a": [5]}]}, "x.a", 0),
    ({"x.a": 5}, {"x": [{"a": [1, 2]}, {"a": [3, 5]}]}, "x.a", 1),
    ({"x.a": 5}, {"x": [{"a": 1}, {"a": 5}]}, "x.a", 1),
    ({"a": None}, {}, "a", None),
]


@pytest.mark.parametrize(("written", "document", "array", "expected"), CASES)
def test_positions(written: dict[str, Any], document: dict[str, Any], array: str, expected: int | None) -> None:
    tree = parse_filter(written)
    found = compile_positions(tree, [array])(document)
    assert ({} if expected is None else {array: expected}) == found
    assert names_array(tree, tuple(array.split("."))) or expected is None


ELEMENTS = st.integers(0, 5) | st.dictionaries(st.sampled_from("bc"), st.integers(0, 3), max_size=2)
CONDITIONS = st.sampled_from(
    [{"a": 1}, {"a": {"$gte": 3}}, {"a.b": 1}, {"a.b": {"$lt": 2}, "n": 1}, {"a": {"$elemMatch": {"b": 1, "c": 1}}}]
)


@given(st.lists(ELEMENTS, max_size=5), CONDITIONS)
def test_the_first_element_that_matches_alone(elements: list[Any], written: dict[str, Any]) -> None:
    tree = parse_filter(written)
    matches = compile_filter(tree)
    assume(matches({"a": elements, "n": 1}))
    alone = [place for place, element in enumerate(elements) if matches({"a": [element], "n": 1})]
    assert compile_positions(tree, ["a"])({"a": elements, "n": 1}) == ({"a": alone[0]} if alone else {})
