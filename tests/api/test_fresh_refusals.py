"""With `staleness_ms` reads may be old. A refusal never is: what a call says is not there is not there now.

Two databases on one store: one asks the store each time, one has leave not to. Whatever the first did meanwhile, both
give the same answer to every verb that changes something, or that says no.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from wormdb.errors import WormError
from wormdb.storage.memory import drop_memory
from wormdb.system.clock import ManualClock, SystemChance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.database import Database
    from wormdb.api.document import Document

NOTE: dict[str, Any] = {
    "path": "@notes/(id:string)",
    "softDelete": True,
    "snapshots": {"enabled": True},
    "fields": {"n": {"type": "integer"}},
}
SCHEMA: dict[str, Any] = {"schemaVersion": "1.0", "sourceOfTruth": "local", "models": {"Note": NOTE}}
LAZY = wormdb.Settings(staleness_ms=3_600_000, forward="manual")


class Pair:
    """Two databases on one store, whose second may be an hour behind."""

    def __init__(self, url: str, first: Database, second: Database) -> None:
        self.url = url
        self.first, self.second = first.model("Note"), second.model("Note")


@pytest.fixture
def make() -> Iterator[Callable[[], Pair]]:
    opened: list[Any] = []

    def pair() -> Pair:
        clock, name = ManualClock(), SystemChance().token(8).hex()
        first = wormdb.connect(f"memory://{name}", schema=SCHEMA, clock=clock)
        second = wormdb.connect(f"memory://{name}", schema=SCHEMA, clock=clock, settings=LAZY)
        opened.extend((first, second, name))
        return Pair(f"memory://{name}", first, second)

    yield pair
    for each in opened:
        drop_memory(each) if isinstance(each, str) else each.close()


def _twice(notes: Collection[Document]) -> Document:
    notes.insert({"id": "x", "n": 1})
    return notes.save({"id": "x", "n": 2})


MEANWHILE: dict[str, Callable[[Collection[Document]], Any]] = {
    "nothing": lambda _: None,
    "change": _twice,
    "trash": lambda notes: (_twice(notes), notes.delete("x")),
    "purge": lambda notes: (_twice(notes), notes.delete("x"), notes.purge("x")),
    "snapshot": lambda notes: (_twice(notes), notes.snapshot("x")),
    "index": lambda notes: (_twice(notes), notes.create_index("n", name="byN")),
}

VERBS: dict[str, Callable[[Collection[Document]], Any]] = {
    "modify": lambda notes: notes.modify("x", lambda it: it | {"n": 9}),
    "modify nothing": lambda notes: notes.modify("x", lambda it: it),
    "insert": lambda notes: notes.insert({"id": "x", "n": 9}),
    "update_one": lambda notes: notes.update_one({"id": "x"}, {"$inc": {"n": 1}}).matched,
    "update_one by value": lambda notes: notes.update_one({"n": 2}, {"$inc": {"n": 1}}).matched,
    "update_many": lambda notes: notes.update_many({"n": {"$gt": 0}}, {"$inc": {"n": 1}}).matched,
    "upsert": lambda notes: notes.update_one({"id": "x"}, {"$set": {"n": 9}}, upsert=True).upserted_id,
    "replace_one": lambda notes: notes.replace_one({"id": "x"}, {"n": 9}).matched,
    "find_one_and_update": lambda notes: notes.find_one_and_update({"id": "x"}, {"$inc": {"n": 1}}, select=["n"]),
    "find_one_and_replace": lambda notes: notes.find_one_and_replace({"id": "x"}, {"n": 9}, select=["n"]),
    "find_one_and_delete": lambda notes: notes.find_one_and_delete({"id": "x"}, select=["n"]),
    "delete": lambda notes: notes.delete("x"),
    "delete_one": lambda notes: notes.delete_one({"n": 2}).deleted,
    "delete_many": lambda notes: notes.delete_many({}).deleted,
    "batch update": lambda notes: len(notes.batch().update({"id": "x", "n": 9}).flush().changes),
    "save of a revision": lambda notes: notes.save({"id": "x", "n": 9}, if_rev=2)["n"],
    "restore": lambda notes: notes.restore("x")["n"],
    "purge": lambda notes: notes.purge("x"),
    "purge_expired": lambda notes: notes.purge_expired(),
    "empty_trash": lambda notes: notes.empty_trash(),
    "rollback": lambda notes: notes.rollback("x", to_seq=1)["n"],
    "diff": lambda notes: notes.diff("x", 1, 2)["n"],
    "history": lambda notes: len(notes.get_history("x")),
    "snapshot": lambda notes: notes.snapshot("x").seq,
    "list_snapshots": lambda notes: len(notes.list_snapshots("x")),
    "restore_snapshot": lambda notes: notes.restore_snapshot("x", notes.list_snapshots("x")[0].ts)["n"],
    "create_index": lambda notes: notes.create_index("n", name="byN").name,
    "describe_index": lambda notes: notes.describe_index("byN").name,
    "analyze_index": lambda notes: notes.analyze_index("byN").name,
    "build_index": lambda notes: notes.build_index("byN").name,
    "drop_index": lambda notes: notes.drop_index("byN"),
    "import": lambda notes: notes.import_records([{"id": "x", "n": 9}]).to_dict(),
    "import replacing": lambda notes: notes.import_records([{"id": "x", "n": 9}], on_conflict="replace").to_dict(),
}


def answer(verb: Callable[[Collection[Document]], Any], notes: Collection[Document]) -> Any:
    try:
        return verb(notes)
    except (WormError, IndexError) as error:
        return type(error).__name__


@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_who_may_be_behind_says_what_everybody_says(make: Callable[[], Pair], meanwhile: str) -> None:
    for name, verb in VERBS.items():
        answers = []
        for is_lazy in (False, True):
            pair = make()
            pair.second.insert({"id": "other", "n": 0})
            assert pair.second.count() == 1, "the second has looked, and need not look again"
            MEANWHILE[meanwhile](pair.first)
            answers.append(answer(verb, pair.second if is_lazy else pair.first))
        assert answers[0] == answers[1], name


def test_a_schema_is_not_refused_for_what_was_before() -> None:
    """The other process applied the next version: whoever has it may not be told that the database has another."""
    clock, name = ManualClock(), SystemChance().token(8).hex()
    url = f"memory://{name}"
    newer = {**SCHEMA, "models": {"Note": {**NOTE, "fields": {"n": {"type": "integer"}, "m": {"type": "string"}}}}}
    with (
        wormdb.connect(url, schema=SCHEMA, clock=clock) as first,
        wormdb.connect(url, schema=newer, clock=clock, settings=LAZY) as second,
        wormdb.connect(url, schema=newer, clock=clock) as third,
    ):
        first.model("Note").insert({"id": "x", "n": 1})
        with pytest.raises(wormdb.SchemaMismatchError):
            second.model("Note").find_by_id("x")
        third.apply_schema()
        assert second.model("Note").find_by_id("x") is not None
        assert second.model("Note").count() == 1
    drop_memory(name)
