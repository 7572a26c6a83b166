"""Every rule leaves what a filter matches as it is: case by case, and for random filters and documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import given, settings

from tests.bql.written import QUESTIONS
from tests.query.logical.cases import DOCUMENTS, NAMES, Case, has_no_array, read_cases
from tests.query.logical.trees import ARRAYS_IN_B, TREES, WITHOUT_ARRAYS, size_of
from tests.query.logical.trees import DOCUMENTS as RANDOM_DOCUMENTS
from wormdb.bql.match import compile_filter
from wormdb.bql.parse import parse_filter
from wormdb.bql.tree import EVERYTHING, NOTHING, And, Compare, Comparison, Exists, Filter, In, Not, Or, Type
from wormdb.errors import InvalidRequestError
from wormdb.format import json
from wormdb.format.bson_types import TYPE_CODES
from wormdb.format.segment import check_id
from wormdb.query.logical.rules import simplify
from wormdb.testing.strategies import ids

if TYPE_CHECKING:
    from collections.abc import Sequence

CASES = read_cases()
ALONE = [frozenset(NAMES) - {name} for name in NAMES]
OPERATIONS: tuple[Comparison, ...] = get_args(Comparison)
BUT_ONE = [frozenset({name}) for name in NAMES]


def matched(tree: Filter, documents: Sequence[dict[str, Any]]) -> list[bool]:
    matches = compile_filter(tree)
    return [matches(document) for document in documents]


# --- case by case ---


def test_every_rule_has_cases_that_it_changes_and_cases_that_it_leaves_alone() -> None:
    assert {case.rule for case in CASES} == {*NAMES, "together"}
    assert len({(case.before.text, case.rule, case.one) for case in CASES}) == len(CASES)
    for name in NAMES:
        own = [case for case in CASES if case.rule == name]
        assert len([case for case in own if case.before != case.after]) >= 3
        assert any(case.before == case.after for case in own)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}: {case.why}")
def test_a_case(case: Case) -> None:
    after = simplify(case.before, arrays=case.arrays, without=case.without)
    assert after.text == case.after.text
    assert size_of(after) <= size_of(case.before)
    documents = [each for each in DOCUMENTS if all(has_no_array(each, path) for path in case.one)]
    expected = matched(case.before, documents)
    if after not in (NOTHING, EVERYTHING) and "elemMatch" not in after.text:
        assert {*expected} == {True, False}, "the documents do not tell"
    assert matched(after, documents) == expected
    assert matched(simplify(case.before, arrays=case.arrays), documents) == expected
    others = {case.rule}
    assert matched(simplify(case.before, arrays=case.arrays, without=others), documents) == expected


def test_a_filter_that_is_short_already_stays_the_same_object() -> None:
    tree = parse_filter({"$and": [{"a": 1}, {"b": {"$gt": 2}}, {"b": {"$lt": 5}}, {"c": {"$in": [1, 2]}}]})
    assert simplify(tree) is tree


def test_long_lists_are_joined_and_met() -> None:
    path = ("a",)
    halves = (In(path, tuple(range(0, 30_000, 2))), In(path, tuple(range(0, 30_000, 3))))
    both = simplify(And(halves), arrays=lambda _: False)
    assert both == In(path, tuple(range(0, 30_000, 6)))
    either = simplify(Or(tuple(Compare(path, "eq", number) for number in range(500, 0, -1))))
    assert either == In(path, tuple(range(1, 501)))


def test_many_conditions_on_one_field_are_not_all_compared() -> None:
    filters = tuple(Compare(("a",), "eq", number) for number in range(1_000))
    assert simplify(And(filters)) == And(filters)


# --- random filters ---


def examples(times: int) -> int:
    """So many times the usual number, as far as one test may take in the long profile."""
    return min(times * settings().max_examples, 5_000)


def check(tree: Filter, documents: Sequence[dict[str, Any]], without: frozenset[str] = frozenset()) -> None:
    after = simplify(tree, without=without)
    assert matched(after, documents) == matched(tree, documents), after
    assert size_of(after) <= size_of(tree)
    assert simplify(after, without=without).text == after.text


@settings(max_examples=examples(3))
@given(tree=TREES, documents=RANDOM_DOCUMENTS)
def test_all_rules_each_alone_and_all_but_one(tree: Filter, documents: list[dict[str, Any]]) -> None:
    for without in (frozenset[str](), *ALONE, *BUT_ONE):
        check(tree, documents, without)


@settings(max_examples=examples(3))
@given(tree=TREES, documents=WITHOUT_ARRAYS)
def test_without_arrays(tree: Filter, documents: list[dict[str, Any]]) -> None:
    after = simplify(tree, arrays=lambda _: False)
    assert matched(after, documents) == matched(tree, documents), after
    assert size_of(after) <= size_of(simplify(tree))
    assert simplify(after, arrays=lambda _: False).text == after.text


@given(tree=TREES, documents=ARRAYS_IN_B)
def test_arrays_in_one_field(tree: Filter, documents: list[dict[str, Any]]) -> None:
    after = simplify(tree, arrays=lambda path: path[0] == "b")
    assert matched(after, documents) == matched(tree, documents), after


@given(question=QUESTIONS)
def test_filters_as_they_are_written(question: tuple[dict[str, Any], dict[str, Any]]) -> None:
    document, written = question
    try:
        tree = parse_filter(written)
        check_id(document.get("_id"))
    except InvalidRequestError:
        document = document | {"_id": 1}
        try:
            tree = parse_filter(written)
        except InvalidRequestError:
            return
    after = simplify(tree)
    assert compile_filter(after)(document) is compile_filter(tree)(document), after
    again = parse_filter(json.parse(after.text, operators=True))
    assert again == after


@given(identity=ids(), value=ids())
def test_whatever_may_be_an_id(identity: Any, value: Any) -> None:
    document = {"_id": identity}
    trees: list[Filter] = [Type(("_id",), (name,)) for name in TYPE_CODES]
    trees += [Compare(("_id",), op, other) for op in OPERATIONS for other in (identity, value)]
    for tree in [*trees, Exists(("_id",)), *map(Not, trees)]:
        assert compile_filter(simplify(tree))(document) is compile_filter(tree)(document)
