"""Deleted documents of a model with softDelete: kept for a while, restored, or purged."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.api.notebook import NOTES, Notebook
from wormdb.api import trash as trashcan
from wormdb.api.trash import scan_trash
from wormdb.engine.history.tombstone import read_tombstone
from wormdb.engine.state.view import StoredVersion
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    CorruptionError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    UniqueViolationError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.engine.state.view import View

DAY = 86_400


def test_a_deleted_document_lies_in_the_trash_as_it_was(book: Notebook) -> None:
    note = book.notes.insert({"id": "a", "title": "x"})
    book.notes.insert({"id": "b"})
    book.settle()
    assert book.notes.delete("a", actor="ada") is True
    deleted_at = book.now()
    book.settle()
    (trashed,) = book.notes.list_trashed()
    assert (trashed.id, trashed.deleted_by, trashed.document) == ("a", "ada", note)
    assert trashed.deleted_at == deleted_at
    assert trashed.expires_at == deleted_at + timedelta(days=30)
    assert book.notes.find_by_id("a") is None
    assert not book.notes.exists("a")
    assert book.notes.count() == 1
    assert [each.id for each in book.notes] == ["b"]
    assert book.notes.delete("a") is False


def test_what_never_expires_says_so(book: Notebook) -> None:
    keep = book.db.model("Keep")
    keep.insert({"id": "a"})
    keep.delete("a")
    book.settle()
    (trashed,) = keep.list_trashed()
    assert (trashed.expires_at, trashed.deleted_by) == (None, None)
    book.settle(100_000 * DAY)
    assert keep.purge_expired() == []


def test_a_restored_document_is_as_it_was(book: Notebook) -> None:
    note = book.notes.insert({"id": "a", "title": "x", "mail": "m"})
    book.notes.delete("a")
    book.settle()
    back = book.notes.restore("a", actor="ada", metadata={"why": "oops"})
    assert back == note
    assert (back.rev, back.seq) == (3, 3)
    book.settle()
    assert book.notes.find_by_id("a") == note
    assert book.notes.list_trashed() == []
    assert book.notes.count() == 1
    last = book.notes.get_history("a")[-1]
    assert (last.op, last.snapshot, last.actor, last.metadata) == ("restore", dict(note), "ada", {"why": "oops"})
    back["title"] = "y"
    assert book.notes.save(back).seq == 4


def test_what_cannot_be_restored(book: Notebook) -> None:
    notes = book.notes
    notes.insert({"id": "abc-123", "mail": "m"})
    book.settle()
    with book.refuses(AlreadyExistsError, "^Cannot restore 'abc-123': an entity with this ID already exists"):
        notes.restore("abc-123")
    with book.refuses(NotFoundError, "Cannot restore 'never': it is not in the trash"):
        notes.restore("never")
    notes.delete("abc-123")
    notes.insert({"id": "other", "mail": "m"})
    book.settle()
    before = book.db.cost().puts
    with pytest.raises(UniqueViolationError, match="mail='m' already exists on entity 'other'"):
        notes.restore("abc-123")
    assert book.db.cost().puts == before
    assert len(notes.list_trashed()) == 1
    notes.delete("other")
    assert notes.restore("abc-123")["mail"] == "m"


def test_a_new_document_may_take_the_id_of_one_in_the_trash(book: Notebook) -> None:
    book.notes.insert({"id": "a", "title": "old"})
    book.notes.delete("a")
    book.settle()
    book.notes.insert({"id": "a", "title": "new"})
    book.settle()
    assert book.notes.list_trashed() == []
    with book.refuses(AlreadyExistsError, "Cannot restore 'a'"):
        book.notes.restore("a")
    book.notes.delete("a")
    book.settle()
    assert [each.document["title"] for each in book.notes.list_trashed()] == ["new"]


def test_a_purge_is_for_good_but_for_history(book: Notebook) -> None:
    book.notes.insert({"id": "a", "title": "x"})
    book.notes.delete("a")
    book.settle()
    book.notes.purge("a", actor="ada")
    book.settle()
    assert book.notes.list_trashed() == []
    with book.refuses(NotFoundError, "Cannot restore 'a': it is not in the trash"):
        book.notes.restore("a")
    with book.refuses(NotFoundError, "Cannot purge 'a': it is not in the trash"):
        book.notes.purge("a")
    last = book.notes.get_history("a")[-1]
    assert (last.op, last.actor, last.snapshot, last.diff) == ("purge", "ada", None, None)
    assert [(change.op, change.before, change.after) for change in book.notes.watch(after=2)] == [("purge", None, None)]
    book.notes.insert({"id": "b"})
    with book.refuses(NotFoundError, "Cannot purge 'b': it is not in the trash: it is alive"):
        book.notes.purge("b")


def test_what_is_expired_is_purged_in_one_batch(book: Notebook) -> None:
    book.notes.insert_many([{"id": name} for name in "abcde"])
    for name in "ab":
        book.notes.delete(name)
    book.settle(15 * DAY)
    book.notes.delete("c")
    book.notes.delete("d")
    book.notes.restore("d")
    book.settle(15 * DAY - 3)
    before = book.db.cost().puts
    assert book.notes.purge_expired() == []
    assert book.db.cost().puts == before
    book.settle(3)
    number = list(book.notes.watch())[-1].number
    assert book.notes.purge_expired(actor="cleaner") == ["a", "b"]
    purged = list(book.notes.watch(after=number))
    assert [(change.number, change.op, change.id, change.actor) for change in purged] == [
        (number + 1, "purge", "a", "cleaner"),
        (number + 1, "purge", "b", "cleaner"),
    ]
    book.settle()
    assert [each.id for each in book.notes.list_trashed()] == ["c"]
    assert book.notes.empty_trash() == ["c"]
    assert book.notes.empty_trash() == []
    assert {each.id for each in book.notes} == {"d", "e"}


def test_many_are_purged_in_several_batches(book: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trashcan, "PURGE_MAX", 2)
    book.notes.insert_many([{"id": name} for name in "abcde"])
    with book.notes.batch() as batch:
        for name in "abcde":
            batch.delete(name)
    book.settle()
    number = list(book.notes.watch())[-1].number
    assert book.notes.empty_trash() == list("abcde")
    assert [change.number - number for change in book.notes.watch(after=number)] == [1, 1, 2, 2, 3]


def test_what_comes_back_meanwhile_is_not_purged(book: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever purges looks first: what is restored, or deleted anew, between the look and the purge stays."""
    notes = book.notes
    notes.insert_many([{"id": name} for name in "abc"])
    for name in "abc":
        notes.delete(name)
    book.settle(31 * DAY)
    looks: list[list[StoredVersion]] = []

    def look(view: View) -> Iterator[StoredVersion]:
        found = list(scan_trash(view))
        if not looks:
            with book.other() as other:
                other.model("Note").restore("a")
                other.model("Note").restore("b")
                other.model("Note").delete("b")
                if book.forwarded:
                    other.forward()
        looks.append(found)
        return iter(found)

    monkeypatch.setattr(trashcan, "scan_trash", look)
    assert notes.purge_expired() == ["c"]
    assert len(looks) == 2
    monkeypatch.undo()
    assert [each.id for each in notes.list_trashed()] == ["b"]
    assert notes.exists("a")


def test_a_delete_by_any_way_goes_to_the_trash(book: Notebook) -> None:
    note = book.notes.insert({"id": "a"})
    book.notes.insert({"id": "b"})
    book.notes.insert({"id": "c"})
    book.settle()
    book.notes.delete(note)
    book.db.as_actor("ada").model("Note").batch(actor="bob").delete("b").flush()
    with book.other() as other:
        other["notes"].delete("c", actor="eve")
    book.settle()
    assert [(each.id, each.deleted_by) for each in book.db["notes"].list_trashed()] == [
        ("a", None),
        ("b", "bob"),
        ("c", "eve"),
    ]
    assert book.db["notes"].restore("c").id == "c"


def test_a_class_gives_instances_also_from_the_trash(book: Notebook) -> None:
    @dataclass
    class Note:
        title: str
        id: str = ""

    notes = book.db.model(Note)
    notes.insert(Note("x", "a"))
    notes.delete("a")
    book.settle()
    assert [each.document for each in notes.list_trashed()] == [Note("x", "a")]
    assert notes.restore("a") == Note("x", "a")


def test_a_copy_from_the_trash_may_be_saved(book: Notebook) -> None:
    book.notes.insert({"id": "a", "title": "x"})
    book.notes.delete("a")
    book.settle()
    document = book.notes.list_trashed()[0].document
    document["title"] = "y"
    assert book.notes.save(document)["title"] == "y"
    assert document.seq == 3
    assert book.notes.list_trashed() == []


def test_without_soft_delete_there_is_no_trash(book: Notebook) -> None:
    plain = book.db.model("Plain")
    plain.insert({"id": "a"})
    plain.delete("a")
    book.things.insert({"id": "a"})
    book.settle()
    calls: list[Any] = [
        lambda each: each.list_trashed(),
        lambda each: each.restore("a"),
        lambda each: each.purge("a"),
        lambda each: each.purge_expired(),
        lambda each: each.empty_trash(),
    ]
    for call in calls:
        with book.refuses(InvalidRequestError, "Soft delete is not enabled for Plain"):
            call(plain)
        with book.refuses(InvalidRequestError, "Soft delete is not enabled for things: the collection has no model"):
            call(book.things)
    with book.refuses(InvalidRequestError, "the path asks for text"):
        book.notes.restore(5)
    assert [entry.op for entry in plain.get_history("a")] == ["create", "delete"]


def test_soft_delete_may_be_switched_under_a_writer_without_a_model(book: Notebook) -> None:
    book.notes.insert_many([{"id": "a"}, {"id": "b"}])
    plain = book.db["notes"]
    assert plain.count() == 2
    changed = deepcopy(NOTES)
    del changed["models"]["Note"]["softDelete"]
    with book.other(changed) as other:
        other.apply_schema()
    with pytest.raises(ConflictError, match="soft delete was switched"):
        plain.delete("a")
    assert plain.delete("a") is True
    with book.refuses(InvalidRequestError, "Soft delete is not enabled for notes"):
        plain.list_trashed()


def test_modes_are_respected(book: Notebook) -> None:
    locked = deepcopy(NOTES)
    locked["models"]["Note"]["mode"] = "append"
    book.notes.insert({"id": "a"})
    book.notes.delete("a")
    book.settle()
    for mode, reason in (("append", "append-only"), ("readonly", "read-only")):
        locked["models"]["Note"]["mode"] = mode
        with book.other(locked) as other:
            other.apply_schema()
            notes = other.model("Note")
            assert [each.id for each in notes.list_trashed()] == ["a"]
            before = other.cost().puts
            with pytest.raises(PermissionDeniedError, match=f"Note is {reason}"):
                notes.restore("a")
            with pytest.raises(PermissionDeniedError, match=f"Note is {reason}"):
                notes.purge("a")
            with pytest.raises(PermissionDeniedError, match=f"Note is {reason}"):
                notes.empty_trash()
            assert other.cost().puts == before


def test_the_trash_costs_few_requests() -> None:
    with Notebook.in_memory() as book:
        book.notes.insert({"id": "a"})
        with book.requests(gets=0, puts=1):
            book.notes.delete("a")
        with book.requests(gets=1):
            book.notes.list_trashed()
        with book.requests(gets=0, puts=1):
            book.notes.restore("a")
        book.notes.delete("a")
        with book.requests(gets=0, puts=1):
            book.notes.purge("a")
        with book.requests(gets=1):
            book.notes.purge_expired()


def test_a_tombstone_that_cannot_be_read_is_damage() -> None:
    for trash in (b"{}", b"[", b'{"deletedAt":"yesterday","document":{}}'):
        with pytest.raises(CorruptionError, match='document "a"'):
            read_tombstone(StoredVersion(b'"a"', 1, 1, None, trash))
    far = b'{"deletedAt":"2026-01-01T00:00:00Z","ttl":999999999,"document":{}}'
    assert read_tombstone(StoredVersion(b'"a"', 1, 1, None, far)).expires_at is None


def test_only_blocks_that_hold_some_of_it_are_read() -> None:
    """Listing the trash of a large collection does not read the collection."""
    settings = wormdb.Settings(forward="manual", forward_interval_ms=0, block_bytes=20_000, cache_bytes=0)
    schema = {"models": {"Note": {"path": "@notes/(id:string)", "softDelete": True}}}
    with wormdb.connect("memory://", schema=schema, settings=settings) as database:
        notes = database.model("Note")
        notes.insert_many([{"id": f"{number:05}", "text": "x" * 1000} for number in range(1_000)])
        notes.forward()
        (status,) = database.status()
        assert status.blocks > 40
        assert notes.list_trashed() == []
        for identity in ("00100", "00900"):
            notes.delete(identity)
        notes.delete("00500")
        notes.restore("00500")
        notes.forward()
        notes.delete("00300")
        before = database.cost()
        assert [each.id for each in notes.list_trashed()] == ["00100", "00300", "00900"]
        used = database.cost() - before
        assert used.gets <= 5, "the log, the one block that has some, and what looks them up"
