"""The README's table of requests is what the calls cost: each row is run, in a process at work and in a new one."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from wormdb import Collection, Database, Document
from wormdb.storage.memory import MemoryStore, drop_memory
from wormdb.system.clock import ManualClock, SeededChance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

README = Path(__file__).parents[2] / "README.md"
NAME = "readme-numbers"
DOCUMENTS = 100_000
KNOWN = f"{DOCUMENTS // 2:06}"
NUMBERS = count()

People = Collection[Document]


def batch_of_a_thousand(people: People) -> None:
    with people.batch() as batch:
        for number in range(1_000):
            batch.insert({"n": number})


LOADED: list[Document] = []
"""Documents that the process at work has, for those calls that need one."""

CALLS: dict[str, list[Callable[[People], Any]]] = {
    "`insert`, `save` or `delete` a document": [
        lambda people: people.insert({"city": "Rome"}),
        lambda people: people.save({"id": "mine", "n": next(NUMBERS)}),
        lambda people: people.delete(LOADED.pop()),
    ],
    "`insert_many` or `batch()` of a thousand": [
        lambda people: people.insert_many({"n": number} for number in range(1_000)),
        batch_of_a_thousand,
    ],
    "`modify`: load, change, save": [lambda people: people.modify(KNOWN, lambda it: it | {"n": it["n"] + 1})],
    "`find_by_id`": [lambda people: people.find_by_id(KNOWN)],
    "`find` ten of 100,000 by an index": [lambda people: people.find_all({"city": "city 7"}, limit=10)],
    "`count`": [lambda people: people.count()],
}
"""By row; the first call of each is also made by a new process."""


def rows() -> dict[str, list[str]]:
    """The table, by its first column."""
    section = re.split(r"^## ", README.read_text(), flags=re.MULTILINE)
    numbers = next(part for part in section if part.startswith("Numbers\n"))
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in numbers.splitlines() if line[:1] == "|"]
    return {first: rest for first, *rest in cells[2:]}


@pytest.fixture(scope="module")
def filled() -> Iterator[MemoryStore]:
    noise = SeededChance(7)
    with connect(NAME) as database:
        people = database["people"]
        people.create_index("city")
        people.insert_many(
            {"id": f"{number:06}", "city": f"city {number % 1_000}", "n": number, "text": noise.token(250).hex()}
            for number in range(DOCUMENTS)
        )
        people.forward()
    with MemoryStore(NAME) as store:
        yield store
    drop_memory(NAME)


@pytest.fixture
def name(filled: MemoryStore) -> Iterator[str]:
    """A copy of the bucket, so that no row meets what another wrote."""
    name = f"{NAME}-copy"
    with MemoryStore(name) as copy:
        for page in filled.list():
            for info in page.objects:
                copy.put(info.key, filled.get(info.key).body)
    with connect(name) as database:
        database["other"].insert({})  # the first write to a bucket tries whether it honours preconditions
    yield name
    drop_memory(name)


def connect(name: str) -> Database:
    return wormdb.connect(f"memory://{name}", clock=ManualClock(), chance=SeededChance(7))


def spent(database: Database, call: Callable[[People], Any]) -> str:
    before = database.cost()
    call(database["people"])
    used = database.cost() - before
    assert used.requests == used.puts + used.gets, used
    counts = {"PUT": used.puts, "GET": used.gets}
    return ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)


def test_every_row_is_run() -> None:
    assert list(rows()) == list(CALLS)


@pytest.mark.parametrize("row", CALLS)
@pytest.mark.parametrize("is_new", [True, False], ids=["new", "at work"])
def test_a_row_is_what_its_calls_cost(name: str, row: str, is_new: bool) -> None:
    at_work, anew = rows()[row]
    with connect(name) as database:
        if is_new:
            assert spent(database, CALLS[row][0]) == anew
            return
        LOADED[:] = [database["people"].insert({"n": number}) for number in range(2)]
        for call in CALLS[row]:
            call(database["people"])
            assert spent(database, call) == at_work
