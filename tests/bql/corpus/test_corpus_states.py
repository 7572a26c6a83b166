"""The same answers from a whole database, whatever state it is in.

Every second case is asked in one state, in turn; with WORMDB_STRIDE=1 all of them in all. In memory all are asked.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.bql.corpus.questions import REFUSED
from tests.bql.corpus.reading import CASES, SETS
from tests.bql.corpus.states import STATES, collection_of, open_state, shown
from tests.bql.corpus.updating import change_all, documents_of
from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.format.kinds import equal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bql.corpus.reading import Case

IS_LONG = os.environ.get("WORMDB_STRIDE") == "1"
INDEXED = {
    "numbers": ("a",),
    "types": ("a", "a.b"),
    "arrays": ("a", "a.b", "a.0", "a.b.c", "a.0.b"),
    "texts": ("a",),
    "shop": ("i", "n", "s", "f", "d", "t", "v", "o.x", "o.y", "l.x", "l.0.x", "e", "c", "z", "m", "k", "y", "w"),
    "shapes": ("a", "d", "a.b"),
    "changes": ("a", "a.b"),
}


def turn(state: str, kind: str) -> list[tuple[int, Case]]:
    """The cases of a kind that are asked in a state, with their numbers."""
    numbered = [
        (number, case)
        for number, case in enumerate(CASES[kind])
        if IS_LONG or kind != "sort" or not case.question.filter
    ]
    return numbered if IS_LONG else numbered[STATES.index(state) :: 2 * len(STATES)]


@pytest.fixture(scope="module", params=STATES)
def filled(request: pytest.FixtureRequest) -> Iterator[tuple[str, dict[str, Any]]]:
    """A state with a collection for each set."""
    with open_state(request.param, SETS, INDEXED) as database:
        yield request.param, {name: collection_of(database, request.param, name) for name in SETS}


@pytest.mark.parametrize("kind", ["find", "sort", "select"])
def test_a_question_has_the_same_answer(filled: tuple[str, dict[str, Any]], kind: str) -> None:
    state, collections = filled
    given = ((case, asked(collections[case.set], case, number)) for number, case in turn(state, kind))
    wrong = [
        (case.name, found, case.answer)
        for case, found in given
        if not equal(sorted_names(found), sorted_names(case.answer))
    ]
    assert wrong == []


def asked(collection: Any, case: Case, number: int) -> Any:
    """What the database answers, to a filter by turns with documents, with ids alone and with a count."""
    question = case.question
    try:
        if question.kind == "select":
            return [shown(row) for row in collection.find(question.filter, select=question.select)]
        way = number // len(STATES) % 3 if question.kind == "find" else 0
        if way == 2:
            count = collection.count(question.filter)
            return case.answer if count == len(case.answer) else count
        select = ["_id"] if way else None
        return [row["id"] for row in collection.find(question.filter, sort=question.sort or None, select=select)]
    except (InvalidRequestError, LimitExceededError):
        return REFUSED


def sorted_names(value: Any) -> Any:
    """A value whose fields are in the order of their names: rows that are made of columns have them in another."""
    if isinstance(value, dict):
        return {name: sorted_names(value[name]) for name in sorted(value)}
    return [sorted_names(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("state", STATES)
def test_an_update_does_the_same(state: str) -> None:
    cases = turn(state, "update")
    with open_state(state, {"changes": documents_of(cases)}, INDEXED, typed=False) as database:
        found = change_all(collection_of(database, state, "changes"), cases)
    wrong = [(case.name, found[number], case.answer) for number, case in cases if not equal(found[number], case.answer)]
    assert wrong == []
