"""The same questions were put to mingo: it agreed, or it is a known fault of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.bql.mingo.faults import FAULTS, is_clear
from tests.bql.mingo.ours import answer
from tests.bql.mingo.record import COUNTS, FILE, make_questions

RECORDED: dict[str, Any] = json.loads(FILE.read_text())
WRONG: dict[str, Any] = dict(RECORDED["faults"])


@pytest.mark.parametrize("kind", COUNTS)
def test_mingo_agreed(kind: str) -> None:
    asked = [(row[:-1], row[-1]) for row in RECORDED[kind]]
    differ = [(question, found) for question, found in asked if not same(answer(kind, question), found)]
    assert differ == []


@pytest.mark.parametrize("kind", COUNTS)
def test_the_questions_are_many_and_clear_of_the_faults(kind: str) -> None:
    asked = [row[:-1] for row in RECORDED[kind]]
    assert len({json.dumps(question) for question in asked}) == COUNTS[kind]
    assert all(is_clear(kind, question) for question in asked)
    assert asked[:50] == make_questions(kind, 50), "record the answers again"


def test_the_answers_are_of_all_kinds() -> None:
    matched = [row[-1] for row in RECORDED["filters"]]
    assert min(matched.count(True), matched.count(False)) > len(matched) / 4
    unmoved = [row for row in RECORDED["sorts"] if row[-1] == sorted(row[-1])]
    assert len(unmoved) < len(RECORDED["sorts"]) / 2
    unchanged = [row for row in RECORDED["updates"] if row[0] == row[-1]]
    assert len(unchanged) < len(RECORDED["updates"]) / 3


@pytest.mark.parametrize("name", FAULTS)
def test_a_known_fault(name: str) -> None:
    """Ours is right, and the recorded answer is not."""
    kind, question, expected, why = FAULTS[name]
    assert same(answer(kind, question), expected), why
    assert not same(WRONG[name], expected), "mingo has corrected it"


def test_no_fault_is_left_over() -> None:
    assert set(WRONG) == set(FAULTS)
    clear = [name for name, fault in FAULTS.items() if is_clear(fault.kind, fault.question)]
    assert clear == ["what cannot be changed is left as it is"], "the questions do not stay clear of it"


def same(a: Any, b: Any) -> bool:
    """Whether two answers are the same JSON; true is not 1."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)
