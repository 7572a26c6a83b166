"""The cases of semantics.txt, through both evaluators and through the text of the tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.bql import oracle
from wormdb.bql.match import compile_filter
from wormdb.bql.parse import parse_filter
from wormdb.format import json

FILE = Path(__file__).parent / "semantics.txt"


class Case(NamedTuple):
    line: int
    written: dict[str, Any]
    document: dict[str, Any]
    expected: bool
    why: str


def read_cases() -> list[Case]:
    cases = []
    written: dict[str, Any] = {}
    for number, line in enumerate(FILE.read_text().splitlines(), 1):
        if line.startswith("{"):
            written = json.parse(line, operators=True)
        elif line.startswith(("+ ", "- ")):
            document, _, why = line[2:].partition("  # ")
            cases.append(Case(number, written, json.parse(document), expected=line[0] == "+", why=why))
        else:
            assert not line or line.startswith(("#", "== ")), f"line {number} is no case"
    return cases


CASES = read_cases()


def test_there_are_many_cases_and_each_says_why() -> None:
    assert len(CASES) >= 300
    assert [case.line for case in CASES if not case.why] == []
    told = [(str(case.written), str(case.document)) for case in CASES]
    assert len(set(told)) == len(told), "a case is there twice"


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"line{case.line}")
def test_a_case_of_the_manual(case: Case) -> None:
    tree = parse_filter(case.written)
    assert compile_filter(tree)(case.document) is case.expected, case.why
    again = parse_filter(json.parse(tree.text, operators=True))
    assert compile_filter(again)(case.document) is case.expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"line{case.line}")
def test_the_slow_evaluator_knows_the_manual_too(case: Case) -> None:
    assert oracle.matches(case.document, case.written) is case.expected, case.why
