"""The pure language gives the recorded answer to every case, and the oracles still say what is recorded of them."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from tests.bql.corpus.generate import asked
from tests.bql.corpus.laws import LAWS
from tests.bql.corpus.oracles import agrees, ask_mongomock, ask_montydb, is_same, quietly
from tests.bql.corpus.questions import ANSWERS, REFUSED, answer
from tests.bql.corpus.reading import CASES, FOLDER, SETS, read_lines
from tests.bql.written import parts
from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.format.json import encode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bql.corpus.reading import Case

STRIDE = int(os.environ.get("WORMDB_STRIDE", "41"))
ALL = [case for cases in CASES.values() for case in cases]


@pytest.mark.parametrize("kind", CASES)
def test_the_language_gives_the_recorded_answers(kind: str) -> None:
    given = ((case, answer(case.question)) for case in CASES[kind])
    wrong = [(case.name, found, case.answer) for case, found in given if not is_same(found, case.answer, loose=False)]
    assert wrong == []


def test_the_cases_are_many_and_of_all_kinds() -> None:
    assert {kind: len(cases) > 450 for kind, cases in CASES.items()} == dict.fromkeys(CASES, True)
    assert len(ALL) > 7_000
    refused = sum(case.answer == REFUSED for case in ALL)
    assert 500 < refused < len(ALL) / 4
    found = [case for case in CASES["find"] if case.answer not in (REFUSED, [])]
    partial = [case for case in found if len(case.answer) < len(case.question.documents)]
    assert len(partial) > len(CASES["find"]) / 2


def test_a_refusal_names_the_operator_and_a_fix() -> None:
    refused = [case for case in ALL if case.answer == REFUSED]
    unnamed = [
        case.name for case in refused if not any(name in told(case) for name in operators(case.question.__dict__))
    ]
    assert len(unnamed) < len(refused) / 30, "only mistakes of names, of filters of upserts and of array filters"


def told(case: Case) -> str:
    """How a refused case is refused, once it is seen that every mistake has a reason and a fix."""
    with pytest.raises((InvalidRequestError, LimitExceededError)) as caught:
        ANSWERS[case.question.kind](case.question)
    mistakes = caught.value.problems or [caught.value]
    assert all(mistake.reason and mistake.fix for mistake in mistakes), case.name
    return str(caught.value)


def operators(value: Any) -> Iterator[str]:
    """All names in a question that start with $, and an empty one if there is none at all."""
    found = {name for part in parts(value) if isinstance(part, dict) for name in part if str(name).startswith("$")}
    yield from found or {""}


def test_each_case_has_two_oracles_or_a_verdict() -> None:
    """Two agree and none differs; otherwise the case names the law that settles it."""
    unsettled = [case.name for case in ALL if (case.differ or len(case.agree.split()) < 2) and case.verdict not in LAWS]
    assert unsettled == []
    assert [case.name for case in ALL if case.verdict and not case.differ and len(case.agree.split()) > 1] == []
    assert set(LAWS) == {law for _, _, _, law in asked()}, "a law without a case, or a case without a law"
    assert sum(len(case.agree.split()) > 1 for case in ALL) > 4_500


def test_the_files_hold_what_is_asked() -> None:
    """Else make the corpus again: see generate.py."""
    written = Counter(encode({"file": file, **question}) for file, question, _, _ in asked())
    names = {case.name.partition(":")[0] for case in ALL}
    told = ("answer", "agree", "differ", "verdict")
    lines = [(file, line) for file in names for line in read_lines(file)]
    kept = Counter(
        encode({"file": file, **{name: value for name, value in line.items() if name not in told}})
        for file, line in lines
    )
    assert set(kept) == set(written)
    assert max(kept.values()) == 1, "a case is there twice"
    assert max(path.stat().st_size for path in FOLDER.glob("*.jsonl")) < 300_000


@pytest.mark.parametrize("name", ["mongomock", "montydb"])
def test_the_oracles_say_what_is_recorded(name: str) -> None:
    ask = {"mongomock": ask_mongomock, "montydb": ask_montydb}[name]
    with quietly():
        found = [(case, agrees(case.answer, ask(case.question))) for case in ALL[::STRIDE]]
    assert [case.name for case, opinion in found if opinion is not said(case, name)] == []


def said(case: Case, name: str) -> bool | None:
    """What is recorded: it gives our answer, another one, or none."""
    return True if name in case.agree.split() else False if name in case.differ.split() else None


def test_every_set_is_asked() -> None:
    assert {case.set for case in ALL} == {*SETS, ""}
