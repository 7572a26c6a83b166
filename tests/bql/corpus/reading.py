"""The corpus as it lies in the files beside this one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.bql.corpus.questions import Question
from wormdb.format.json import parse

FOLDER: Final = Path(__file__).parent


class Case(NamedTuple):
    """One question with the answer that MongoDB gives, who else gives it, and by which law it is settled."""

    name: str
    """File and line."""
    set: str
    """The set that it is about; empty for an update, which has documents of its own."""
    question: Question
    answer: Any
    agree: str
    differ: str
    verdict: str


def read_lines(file: str) -> list[dict[str, Any]]:
    """The values of a file, one a line."""
    return [parse(line, operators=True) for line in (FOLDER / f"{file}.jsonl").read_text().splitlines()]


def files(kind: str) -> list[str]:
    """The names of the files of one kind of questions."""
    return sorted(path.stem for path in FOLDER.glob(f"{kind}*.jsonl"))


def read_sets() -> dict[str, list[dict[str, Any]]]:
    """The sets of documents, by name."""
    return {line["name"]: line["documents"] for line in read_lines("sets")}


def read_cases(file: str, sets: dict[str, list[dict[str, Any]]]) -> list[Case]:
    """The cases of a file."""
    kind: Any = file.partition("-")[0]
    cases = []
    for number, line in enumerate(read_lines(file), 1):
        told = {name: line.pop(name, "") for name in ("answer", "agree", "differ", "verdict")}
        name = line.pop("set", "")
        documents = sets[name] if name else line.pop("documents")
        cases.append(Case(f"{file}:{number}", name, Question(kind, documents, **line), **told))
    return cases


SETS: Final = read_sets()
CASES: Final = {
    kind: [case for file in files(kind) for case in read_cases(file, SETS)]
    for kind in ("find", "select", "sort", "update")
}
"""All cases by kind."""
