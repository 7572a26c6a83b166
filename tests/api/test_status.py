"""How far each collection is, and bringing all of them forward."""

from __future__ import annotations

import wormdb
from tests.api.notebook import NOTES, Notebook
from wormdb.api.status import IndexSummary
from wormdb.system.clock import ManualClock


def test_the_lag_is_what_is_not_brought_forward() -> None:
    with Notebook.in_memory() as book:
        book.notes.insert({"id": "a"})
        book.notes.insert({"id": "b"})
        book.notes.delete("a")
        book.things.insert({"id": "a"})
        status = {each.prefix: each for each in book.db.status()}
        assert list(status) == ["audit/", "feed/", "keep/", "notes/", "plain/", "things/"]
        notes, things, feed = status["notes/"], status["things/"], status["feed/"]
        assert (notes.name, notes.mode, notes.count) == ("Note", "readwrite", 1)
        assert (notes.number, notes.applied, notes.lag_entries) == (3, 0, 3)
        assert 300 < notes.lag_bytes < 3000
        assert (notes.blocks, notes.runs, notes.history_from) == (0, 0, 0)
        assert (things.name, things.count, things.lag_entries) == ("things", 1, 1)
        assert (feed.number, feed.count, feed.lag_bytes) == (0, 0, 0)

        assert book.db.forward() == {
            "audit/": 0,
            "feed/": 0,
            "keep/": 0,
            "notes/": 3,
            "plain/": 0,
            "things/": 1,
        }
        notes = next(each for each in book.db.status() if each.prefix == "notes/")
        assert (notes.number, notes.applied, notes.lag_entries, notes.lag_bytes) == (3, 3, 0, 0)
        assert (notes.count, notes.blocks, notes.runs) == (1, 1, 1)
        assert notes.indexes == (
            IndexSummary("_id", ("_id",), unique=True, state="ready"),
            IndexSummary("byMail", ("mail",), unique=True, state="ready"),
        )


def test_a_process_sees_what_another_brought_forward(url: str) -> None:
    clock = ManualClock()
    with wormdb.connect(url, schema=NOTES, clock=clock) as one, wormdb.connect(url, clock=clock) as two:
        one.model("Note").insert({"id": "a"})
        assert two["notes"].count() == 1
        one.model("Note").forward()
        (notes,) = [each for each in two.status() if each.prefix == "notes/"]
        assert (notes.name, notes.applied, notes.lag_entries) == ("Note", 1, 0)


def test_a_database_without_a_schema_knows_what_it_opened(url: str) -> None:
    with wormdb.connect(url) as database:
        assert database.status() == []
        assert database.forward() == {}
        database["a/b"].insert({"id": 1})
        assert [(each.name, each.prefix, each.number) for each in database.status()] == [("a/b", "a/b/", 1)]
        assert database.as_actor("ada").forward() == {"a/b/": 1}
