"""Makes the corpus: asks us and the oracles all questions, and writes the cases as lines of JSON.

How to make it again, from the root of the repository:

    npm install --prefix "$FOLDER" mingo
    python -m tests.bql.corpus.generate "$FOLDER"

where FOLDER is any folder outside of the repository. The questions are the same every time. The answers that are
written are ours, so look at what changed (`git diff`): each answer is either what two oracles say too, or its verdict
names the law of MongoDB's manual that settles it. The last line tells how many there are of each.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.bql.corpus.chance import Dice
from tests.bql.corpus.change_cases import change_cases
from tests.bql.corpus.documents import SETS
from tests.bql.corpus.find_cases import find_cases
from tests.bql.corpus.laws import LAWS
from tests.bql.corpus.oracles import agrees, ask_mingo, ask_mongomock, ask_montydb, quietly
from tests.bql.corpus.questions import Question, answer
from tests.bql.corpus.shape_cases import select_cases, sort_cases
from wormdb.format.json import encode
from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER: Final = Path(__file__).parent
SEED: Final = 20_261_117
_OF_ARRAYS: Final = {"$push", "$addToSet", "$pull", "$pop"}
_OF_NUMBERS: Final = {"$inc", "$mul", "$min", "$max"}

Asked = tuple[str, dict[str, Any], Question, str]
"""The file of a case, what it is written as, the question, and its law."""


def asked() -> Iterator[Asked]:
    """All questions, in the same order every time."""
    for find in find_cases(Dice(SeededChance(SEED))):
        written: dict[str, Any] = {"set": find.documents, "filter": find.filter}
        yield f"find-{find.documents}", written, Question("find", SETS[find.documents], find.filter), find.law
    for select in select_cases():
        written = {"set": select.documents, "filter": select.filter, "select": select.select}
        question = Question("select", SETS[select.documents], select.filter, select=select.select)
        yield "select", written, question, select.law
    for sort in sort_cases():
        written = {"set": sort.documents, "filter": sort.filter, "sort": sort.sort}
        yield "sort", written, Question("sort", SETS[sort.documents], sort.filter, sort=sort.sort), sort.law
    for change in change_cases():
        documents = [{"_id": number, **value} for number, value in enumerate(change.values)]
        more: dict[str, Any] = {"filters": list(change.filters), "many": change.many, "upsert": change.upsert}
        given = {name: value for name, value in more.items() if value}
        written = {"documents": documents, "filter": change.filter, "update": change.update} | given
        question = Question("update", documents, change.filter, update=change.update, **more)
        yield f"update-{_group(change.update)}", written, question, change.law


def _group(update: dict[str, Any]) -> str:
    first = next(iter(update), "")
    return "arrays" if first in _OF_ARRAYS else "numbers" if first in _OF_NUMBERS else "fields"


def main(folder: str) -> None:
    """Ask everything and write the files, each question once."""
    cases = list({encode(written): (file, written, question, law) for file, written, question, law in asked()}.values())
    questions = [question for _, _, question, _ in cases]
    with quietly():
        others = {
            "mongomock": [ask_mongomock(question) for question in questions],
            "montydb": [ask_montydb(question) for question in questions],
            "mingo": ask_mingo(folder, questions),
        }
    files: dict[str, list[bytes]] = {}
    tally: Counter[str] = Counter()
    for place, (file, written, question, law) in enumerate(cases):
        found = answer(question)
        opinions = {name: agrees(found, answers[place]) for name, answers in others.items()}
        agree, differ = ([name for name, said in opinions.items() if said is wanted] for wanted in (True, False))
        case = written | {"answer": found, "agree": " ".join(agree), "differ": " ".join(differ)}
        if differ or len(agree) < 2:
            assert law in LAWS, law
            case["verdict"] = law
        tally["agreed" if "verdict" not in case else "by two, against one" if len(agree) > 1 else "by the manual"] += 1
        files.setdefault(file, []).append(encode({name: value for name, value in case.items() if value != ""}))
    sets = [encode({"name": name, "documents": documents}) for name, documents in SETS.items()]
    for file, lines in {"sets": sets, **files}.items():
        (FOLDER / f"{file}.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    sys.stderr.write(f"{len(cases)} cases: {dict(tally)}\n")


if __name__ == "__main__":
    main(sys.argv[1])
