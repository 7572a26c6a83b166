"""Shapes of filters: what they keep, what they leave out, and how values come back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import given, settings

from tests.bql.written import QUESTIONS
from wormdb.bql import tree
from wormdb.bql import tree as shape
from wormdb.bql.parse import parse_filter
from wormdb.bql.tree import shape_of
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterable


def text(written: dict[str, Any]) -> str:
    return shape_of(parse_filter(written))[0].text


@pytest.mark.parametrize(
    ("written", "expected", "values"),
    [
        ({}, "MatchAll", ()),
        ({"$not": {}}, "MatchNone", ()),
        ({"a": 1}, "Compare('a',eq,?number)", (1,)),
        ({"a.b": {"$ne": "x"}}, "Not(Compare('a.b',eq,?string))", ("x",)),
        ({"a": 5, "b": 5}, "And(Compare('a',eq,?number),Compare('b',eq,?number))", (5, 5)),
        ({"a": {"$in": []}}, "In('a',?[])", ((),)),
        ({"a": {"$in": [1]}}, "In('a',?[number])", ((1,),)),
        ({"a": {"$in": ["x", 1, 2]}}, "In('a',?[number|string…])", ((1, 2, "x"),)),
        ({"a": {"$regex": "x", "$options": "i"}}, "RegexMatch('a',?string,i)", ("x",)),
        ({"a": {"$type": ["int", "long"]}}, "Type('a',int|long)", ()),
        ({"a": {"$mod": [4, 0]}}, "Mod('a',?number,?number)", (4, 0)),
        ({"a": {"$exists": True}}, "Exists('a')", ()),
        ({"a": {"$elemMatch": {"$gt": 1}}}, "ElemMatch('a',value,Compare('',gt,?number))", (1,)),
        ({"a": {"$elemMatch": {"b": 1}}}, "ElemMatch('a',document,Compare('b',eq,?number))", (1,)),
        ({"$or": [{"a": None}, {"a": {"$size": 0}}]}, "Or(Compare('a',eq,?null),Size('a',?number))", (None, 0)),
    ],
)
def test_a_shape_has_a_text_and_values(written: dict[str, Any], expected: str, values: tuple[Any, ...]) -> None:
    found, taken = shape_of(parse_filter(written))
    assert found.text == expected
    assert taken == values


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": "x"}),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": {"$gt": 1}}),
        ({"a": 1}, {"a": None}),
        ({"a": {"$in": [1]}}, {"a": {"$in": [1, 2]}}),
        ({"a": {"$in": [1]}}, {"a": {"$in": []}}),
        ({"a": {"$regex": "x"}}, {"a": {"$regex": "x", "$options": "i"}}),
        ({"a": {"$type": 1}}, {"a": {"$type": 2}}),
        ({"a": {"$exists": True}}, {"a": {"$exists": False}}),
        ({"$and": [{"a": 1}, {"b": 1}]}, {"$or": [{"a": 1}, {"b": 1}]}),
        ({"a": {"$elemMatch": {"$eq": 1}}}, {"a": {"$elemMatch": {"x": 1}}}),
        ({"a','b": 1}, {"a": 1}),
    ],
)
def test_what_is_asked_is_part_of_the_shape(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert text(one) != text(other)


def filled(example: tree.Filter, values: Iterable[Any]) -> tree.Filter:
    """The filter of the shape of an example with other values."""
    left = iter(values)

    def fill(part: tree.Filter) -> tree.Filter:
        match part:
            case tree.MatchAll() | tree.MatchNone():
                return part
            case tree.And(filters) | tree.Or(filters):
                return type(part)(tuple([fill(child) for child in filters]))
            case tree.Not(child):
                return tree.Not(fill(child))
            case tree.ElemMatch(path, child, kind):
                return tree.ElemMatch(path, fill(child), kind)
            case _:
                return replace(part, **{name: next(left) for name in shape._VALUES[type(part)]})

    made = fill(example)
    assert list(left) == []
    return made


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"a": 2.5}),
        ({"a": {"$in": [1, 2]}}, {"a": {"$in": [3, 4, 5]}}),
        ({"a": 5, "b": 5}, {"a": 5, "b": 6}),
        ({"a": {"$regex": "x"}}, {"a": {"$regex": "y"}}),
        ({"a": {"$size": 0}}, {"a": {"$size": 7}}),
    ],
)
def test_values_are_no_part_of_the_shape(one: dict[str, Any], other: dict[str, Any]) -> None:
    first, second = parse_filter(one), parse_filter(other)
    shape_one, _ = shape_of(first)
    shape_two, values = shape_of(second)
    assert shape_one == shape_two
    assert hash(shape_one) == hash(shape_two)
    assert filled(first, values) == second


def test_every_condition_says_which_of_its_fields_are_values() -> None:
    structures = {tree.MatchAll, tree.MatchNone, tree.And, tree.Or, tree.Not, tree.ElemMatch}
    assert set(shape._VALUES) == set(get_args(tree.Filter)) - structures


@settings(max_examples=2 * settings().max_examples)
@given(question=QUESTIONS, other=QUESTIONS)
def test_values_taken_out_and_put_back_make_the_same_filter(question: Any, other: Any) -> None:
    try:
        one, two = parse_filter(question[1]), parse_filter(other[1])
    except InvalidRequestError:
        return
    found, values = shape_of(one)
    assert filled(one, values) == one
    another, values = shape_of(two)
    if found == another:
        assert filled(one, values) == two
