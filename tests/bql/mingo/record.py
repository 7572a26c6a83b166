"""Asks mingo and keeps its answers in answers.json, so that tests need neither Node nor the package.

How to record again, from the root of the repository:

    npm install --prefix "$FOLDER" mingo
    python -m tests.bql.mingo.record "$FOLDER"

where FOLDER is any folder outside of the repository. The questions are the same every time. If a test fails then, mingo
has changed: either a fault is corrected and leaves `faults.py`, or there is a new one to settle by MongoDB's manual.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.bql.mingo.faults import FAULTS, is_clear
from tests.bql.mingo.ours import REFUSED, answer, plain
from tests.bql.mingo.questions import Maker
from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from tests.bql.mingo.questions import Question

FILE: Final = Path(__file__).parent / "answers.json"
COUNTS: Final = {"filters": 1_400, "sorts": 300, "updates": 300}
SEED: Final = 20_261_116


def make_questions(kind: str, count: int) -> list[Question]:
    """Different questions that are clear of the known faults; updates that we refuse are left out, as a known one."""
    maker = Maker(SeededChance(SEED))
    make = {"filters": maker.filter_question, "sorts": maker.sort_question, "updates": maker.update_question}[kind]
    found: dict[str, Question] = {}
    while len(found) < count:
        question = make()
        if is_clear(kind, question) and answer(kind, question) != REFUSED:
            found.setdefault(json.dumps(question), question)
    return list(found.values())


def ask(folder: str, questions: dict[str, list[Question]]) -> dict[str, Any]:
    """The answers of the mingo that is installed in a folder."""
    script = Path(__file__).parent / "evaluate.cjs"
    done = subprocess.run(
        ["node", str(script), folder], input=json.dumps(questions), capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main(folder: str) -> None:
    """Ask everything and write the file: one line a question."""
    questions = {kind: make_questions(kind, count) for kind, count in COUNTS.items()}
    answers = ask(folder, questions)
    lines = [f'"version": {json.dumps(answers["version"])}']
    for kind, asked in questions.items():
        rows = [[*question, plain(found)] for question, found in zip(asked, answers[kind], strict=True)]
        lines.append(f'"{kind}": [\n{_lines(rows)}\n]')
    wrong = [
        [name, plain(ask(folder, {fault.kind: [fault.question]})[fault.kind][0])] for name, fault in FAULTS.items()
    ]
    lines.append(f'"faults": [\n{_lines(wrong)}\n]')
    FILE.write_text("{" + ",\n".join(lines) + "}\n")


def _lines(rows: list[list[Any]]) -> str:
    return ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)


if __name__ == "__main__":
    main(sys.argv[1])
