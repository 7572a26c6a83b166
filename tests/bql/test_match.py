"""Both evaluators agree on everything, and the tree survives being written."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bql import oracle
from tests.bql.written import NAMES, QUESTIONS, SMALL_DOCUMENTS
from wormdb.bql.match import any_value, compile_filter
from wormdb.bql.parse import parse_filter
from wormdb.bql.tree import EVERYTHING, NOTHING, Compare, ElemMatch, conjunction, disjunction, negation
from wormdb.errors import InvalidRequestError
from wormdb.format import json
from wormdb.format.kinds import equal
from wormdb.format.path import resolve


@settings(max_examples=4 * settings().max_examples)
@given(question=QUESTIONS)
def test_matching_agrees_with_the_slow_evaluator(question: tuple[dict[str, Any], dict[str, Any]]) -> None:
    document, written = question
    try:
        tree = parse_filter(written)
    except InvalidRequestError:
        return
    assert compile_filter(tree)(document) is oracle.matches(document, written)


@settings(max_examples=2 * settings().max_examples)
@given(question=QUESTIONS)
def test_the_text_of_a_tree_parses_to_the_same_tree(question: tuple[dict[str, Any], dict[str, Any]]) -> None:
    document, written = question
    try:
        tree = parse_filter(written)
    except InvalidRequestError:
        return
    again = parse_filter(json.parse(tree.text, operators=True))
    assert again == tree
    assert hash(again) == hash(tree)
    assert type(again) is type(tree)
    assert compile_filter(again)(document) is compile_filter(tree)(document)


@settings(max_examples=2 * settings().max_examples)
@given(document=SMALL_DOCUMENTS, path=st.lists(NAMES, min_size=1, max_size=4).map(tuple), expand=st.booleans())
def test_the_walk_meets_exactly_the_values_that_the_path_has(
    document: dict[str, Any], path: tuple[str, ...], expand: bool
) -> None:
    met: list[Any] = []

    def note(value: Any) -> bool:
        met.append(value)
        return False

    assert any_value(path, note, expand=expand)(document) is False
    expected = resolve(document, path, expand=expand)
    assert sorted(map(repr, met)) == sorted(map(repr, expected))
    for value in expected:
        assert any_value(path, partial(operator.is_, value), expand=expand)(document)


def test_nodes_of_equal_python_values_differ() -> None:
    one = {Compare(("a",), "eq", value) for value in (1, 1.0, True)}
    assert len(one) == 3
    assert Compare(("a",), "eq", {"x": 1, "y": 2}) != Compare(("a",), "eq", {"y": 2, "x": 1})
    assert Compare(("a",), "eq", 1) != object()


def test_a_tree_of_no_or_one_filter_is_no_list() -> None:
    condition = Compare(("a",), "eq", 1)
    assert conjunction([]) is EVERYTHING
    assert conjunction([condition]) is condition
    assert disjunction([]) is NOTHING
    assert disjunction([condition]) is condition
    assert negation(EVERYTHING) is NOTHING
    assert negation(NOTHING) is EVERYTHING
    assert str(EVERYTHING) == "{}"
    assert str(NOTHING) == '{"$not":{}}'


def test_an_element_that_may_be_anything_is_no_document() -> None:
    tree = ElemMatch(("a",), EVERYTHING, "value")
    assert compile_filter(tree)({"a": [1]})
    again = parse_filter(json.parse(str(tree), operators=True))
    assert compile_filter(again)({"a": [1]})
    assert not compile_filter(parse_filter({"a": {"$elemMatch": {}}}))({"a": [1]})


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 9, 200])
def test_many_conditions_are_all_looked_at(count: int) -> None:
    names = [f"f{number}" for number in range(count)]
    document = dict.fromkeys(names, 1)
    both = compile_filter(parse_filter({"$and": [{name: 1} for name in names]}))
    either = compile_filter(parse_filter({"$or": [{name: 2} for name in names]}))
    assert both(document)
    assert not either(document)
    for name in names:
        assert not both(document | {name: 2})
        assert either(document | {name: 2})


def test_values_are_not_changed_by_matching() -> None:
    written = {"a": {"$elemMatch": {"0": [1, {"x": 2}]}}, "b": {"$in": [[1], {"y": 1}]}}
    document = {"a": [[[1, {"x": 2}]]], "b": [1]}
    before = {"a": [[[1, {"x": 2}]]], "b": [1]}
    assert compile_filter(parse_filter(written))(document)
    assert equal(document, before)
