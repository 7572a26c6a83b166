"""Who makes a change, and why: kept with every change, checked before anything is written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.api.notebook import NOTES, Notebook
from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document

NOW = datetime(2026, 2, 24, 12, tzinfo=UTC)

Write = tuple[str, "Callable[[Collection[Document], dict[str, Any]], object]"]

WRITES: list[Write] = [
    ("insert", lambda notes, by: notes.insert({"id": "new"}, **by)),
    ("insert_many", lambda notes, by: notes.insert_many([{"id": "m1"}, {"id": "m2"}], **by)),
    ("save", lambda notes, by: notes.save({"id": "old", "title": "y"}, **by)),
    ("modify", lambda notes, by: notes.modify("old", lambda note: note | {"title": "z"}, **by)),
    ("batch", lambda notes, by: notes.batch(**by).save({"id": "new"}).delete("old").flush()),
    ("delete", lambda notes, by: notes.delete("old", **by)),
    ("restore", lambda notes, by: notes.restore("gone", **by)),
    ("purge", lambda notes, by: notes.purge("gone", **by)),
    ("purge_expired", lambda notes, by: notes.purge_expired(**by)),
    ("empty_trash", lambda notes, by: notes.empty_trash(**by)),
    ("rollback", lambda notes, by: notes.rollback("old", to_seq=1, **by)),
    ("restore_snapshot", lambda notes, by: notes.restore_snapshot("old", notes.list_snapshots("old")[0].ts, **by)),
]


def prepared(book: Notebook) -> Collection[Document]:
    """An old note with a snapshot, and one that lies in the trash for long."""
    notes = book.notes
    notes.insert({"id": "gone"})
    notes.delete("gone")
    notes.insert({"id": "old", "title": "x"})
    book.clock.advance(31 * 86_400)
    notes.snapshot("old")
    return notes


@pytest.mark.parametrize(("name", "write"), WRITES, ids=[name for name, _ in WRITES])
def test_every_call_that_writes_keeps_who_and_why(name: str, write: Callable[..., object]) -> None:
    with Notebook.in_memory() as book:
        notes = prepared(book)
        write(notes, {"actor": "ada", "metadata": {"why": name, "at": NOW}})
        changes = list(notes.watch(after=4))
        assert changes
        for change in changes:
            assert change.actor == "ada"
            assert change.metadata.items() >= {"why": name, "at": NOW}.items()
            entry = notes.get_history(change.id)[change.seq - 1]
            assert (entry.actor, entry.metadata) == (change.actor, change.metadata)


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"actor": ""}, InvalidRequestError, "it is empty"),
    ({"actor": 5}, InvalidRequestError, "it must be a string"),
    ({"actor": "\udcff"}, InvalidRequestError, "it must be a string"),
    ({"actor": "x" * 1025}, LimitExceededError, "it may have 1,024"),
    ({"metadata": [1]}, InvalidRequestError, "metadata of type list: it must be a mapping"),
    ({"metadata": "why"}, InvalidRequestError, "it must be a mapping"),
    ({"metadata": {"why": object()}}, InvalidRequestError, "why"),
    ({"metadata": {1: "x"}}, InvalidRequestError, "1"),
    ({"metadata": {"x": "y" * 70_000}}, LimitExceededError, "it is kept with every change, and may have 65,536"),
]


@pytest.mark.parametrize("write", [*(write for _, write in WRITES), lambda notes, by: notes.snapshot("old", **by)])
def test_what_is_no_actor_or_no_metadata_is_refused_before_anything_is_written(write: Callable[..., object]) -> None:
    with Notebook.in_memory() as book:
        notes = prepared(book)
        for by, kind, reason in BAD:
            with book.refuses(kind, reason):  # type: ignore[arg-type] # all of them are WormErrors
                write(notes, by)


# --- as_actor ---


def test_a_database_for_an_actor(book: Notebook) -> None:
    book.things.insert({"id": "a"})
    ada = book.db.as_actor("ada", {"request": 7, "x": 1})
    ada["things"].insert({"id": "b"})
    ada["things"].insert({"id": "c"}, metadata={"x": 2})
    ada["things"].insert({"id": "d"}, actor="bob")
    ada.as_actor("eve")["things"].insert({"id": "e"})
    book.db["things"].insert({"id": "f"})
    assert [(change.actor, change.metadata) for change in book.things.watch()] == [
        (None, None),
        ("ada", {"request": 7, "x": 1}),
        ("ada", {"request": 7, "x": 2}),
        ("bob", {"request": 7, "x": 1}),
        ("eve", None),
        (None, None),
    ]


def test_the_actor_of_the_connection_is_the_default(url: str) -> None:
    with wormdb.connect(url, actor="job") as database:
        database["things"].insert({"id": "a"}, metadata={})
        database.as_actor("ada")["things"].insert({"id": "b"})
        database["things"].insert({"id": "c"}, actor="bob")
        assert [(change.actor, change.metadata) for change in database["things"].watch()] == [
            ("job", None),
            ("ada", None),
            ("bob", None),
        ]


def test_metadata_of_the_caller_may_change_afterwards(book: Notebook) -> None:
    metadata: dict[str, Any] = {"list": [1]}
    ada = book.db.as_actor("ada", metadata)
    metadata["list"].append(2)
    ada["things"].insert({"id": "a"})
    assert [change.metadata for change in book.things.watch()] == [{"list": [1]}]


def test_it_shares_what_is_open_and_closes_nothing(book: Notebook) -> None:
    document = book.notes.insert({"id": "a", "title": "x"})
    with book.db.as_actor("ada") as ada:
        document["title"] = "y"
        ada.model("Note").save(document)
    ada.close()
    assert ada.url == book.db.url
    assert book.notes.find_by_id("a") == document
    document["title"] = "z"
    assert book.notes.save(document).seq == 3
    book.db.close()
    with pytest.raises(wormdb.ClosedError):
        ada.model("Note").count()


def test_it_costs_no_request_of_its_own() -> None:
    with Notebook.in_memory() as book:
        book.notes.insert({"id": "a"})
        with book.requests(gets=0, puts=1):
            book.db.as_actor("ada").model("Note").insert({"id": "b"})


def test_the_published_schema_is_read_once_for_all(book: Notebook) -> None:
    book.notes.insert({"id": "a"})
    with wormdb.connect(book.url) as other:
        other.as_actor("ada").model("Note")
        read = other.cost().gets
        other.as_actor("bob").model("Note")
        other.model("Note")
        assert other.cost().gets == read == 1


def test_who_is_no_actor(book: Notebook) -> None:
    none: Any = None
    with book.refuses(InvalidRequestError, "give a name"):
        book.db.as_actor(none)
    for by, kind, reason in BAD:
        with book.refuses(kind, reason):  # type: ignore[arg-type] # all of them are WormErrors
            book.db.as_actor(by.get("actor", "ada"), by.get("metadata"))
    half = {"x": "y" * 40_000}
    with book.refuses(LimitExceededError, "metadata of"):
        book.db.as_actor("ada", half)["things"].insert({"id": "a"}, metadata={"z": half["x"]})


def test_the_definition_is_changed_by_the_actor(url: str) -> None:
    with wormdb.connect(url, schema=NOTES) as database:
        database.as_actor("ada").apply_schema()
        (record,) = database.model("Note")._ledger.feed(LogNumber(0)).poll()
        assert [batch.actor for batch in record.entry.batches] == ["ada"]
