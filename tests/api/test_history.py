"""Every change of every document, and the ways back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from tests.api.notebook import NOTES, Notebook
from wormdb.engine.history.read import History
from wormdb.errors import (
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    SnapshotTooOldError,
    UniqueViolationError,
    ValidationError,
)
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.api.history import HistoryEntry

START = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def told(entries: list[HistoryEntry]) -> list[tuple[Any, ...]]:
    return [(entry.seq, entry.rev, entry.op, entry.snapshot, entry.diff) for entry in entries]


# --- get_history ---


def test_every_change_is_told_once_with_what_it_did(book: Notebook) -> None:
    things = book.things
    things.insert({"id": "a", "n": 1, "x": None})
    start = book.now()
    book.settle()
    things.save({"id": "a", "n": 2, "y": [1]})
    things.insert({"id": "b"})
    book.settle()
    things.delete("a")
    book.settle()
    things.insert({"id": "a", "n": 3})
    assert told(things.get_history("a")) == [
        (1, 1, "create", {"id": "a", "n": 1, "x": None}, None),
        (2, 2, "update", None, {"n": (1, 2), "x": (None, None), "y": (None, [1])}),
        (3, 4, "delete", {"id": "a", "n": 2, "y": [1]}, None),
        (4, 5, "create", {"id": "a", "n": 3}, None),
    ]
    assert [entry.ts for entry in things.get_history("a")] == [start + timedelta(seconds=2 * n) for n in range(4)]
    assert told(things.get_history("b")) == [(1, 3, "create", {"id": "b"}, None)]
    assert things.get_history("never") == []


def test_who_and_why_are_kept(book: Notebook) -> None:
    ada = book.db.as_actor("ada", {"request": 7})["things"]
    ada.insert({"id": "a"})
    ada.save({"id": "a", "n": 1}, actor="bob", metadata={"when": START, "nested": {"x": [1]}})
    book.settle()
    book.things.save({"id": "a", "n": 2})
    assert [(entry.actor, entry.metadata) for entry in book.things.get_history("a")] == [
        ("ada", {"request": 7}),
        ("bob", {"request": 7, "when": START, "nested": {"x": [1]}}),
        (None, None),
    ]


def test_the_times_that_a_model_keeps_are_no_difference(book: Notebook) -> None:
    note = book.notes.insert({"id": "a", "title": "x"})
    book.settle()
    note["title"] = "y"
    book.notes.save(note)
    assert book.notes.get_history("a")[1].diff == {"title": ("x", "y")}
    book.things.insert({"id": "a", "updatedAt": 1})
    book.things.save({"id": "a", "updatedAt": 2})
    assert book.things.get_history("a")[1].diff == {"updatedAt": (1, 2)}


def test_values_that_are_equal_to_python_may_differ_in_type(book: Notebook) -> None:
    book.things.insert({"id": "a", "n": 1, "flag": True, "same": float("nan")})
    book.things.save({"id": "a", "n": 1.0, "flag": 1, "same": float("nan")})
    book.settle()
    diff = book.things.get_history("a")[1].diff
    assert diff is not None
    assert {name: tuple(map(type, values)) for name, values in diff.items()} == {
        "n": (int, float),
        "flag": (bool, int),
    }


def test_each_change_of_a_batch_is_an_entry(book: Notebook) -> None:
    with book.things.batch(actor="ada") as batch:
        batch.insert({"id": "a", "n": 1}).save({"id": "a", "n": 2}).delete("a").insert({"id": "a", "n": 3})
    book.settle()
    assert [(entry.seq, entry.rev, entry.op, entry.actor) for entry in book.things.get_history("a")] == [
        (1, 1, "create", "ada"),
        (2, 1, "update", "ada"),
        (3, 1, "delete", "ada"),
        (4, 1, "create", "ada"),
    ]


def test_the_history_of_a_class_and_of_its_folder_are_the_same(book: Notebook) -> None:
    @dataclass
    class Plain:
        title: str
        id: str = ""

    plain = book.db.model(Plain)
    plain.insert(Plain("x", "a"))
    book.settle()
    plain.modify("a", lambda _: Plain("y", "a"))
    assert plain.get_history("a") == book.db["plain"].get_history("a")
    assert plain.rollback("a", to_seq=1) == Plain("x", "a")


def test_history_in_the_tail_costs_one_request() -> None:
    with Notebook.in_memory() as book:
        book.things.insert({"id": "a", "n": 1})
        book.things.save({"id": "a", "n": 2})
        with book.requests(gets=1):
            book.things.get_history("a")
        with book.requests(gets=1, puts=1):
            book.things.rollback("a", to_seq=1)


def test_history_in_blocks_costs_two_requests_a_run() -> None:
    with Notebook.in_memory(forwarded=True) as book:
        book.things.insert({"id": "a", "n": 1})
        book.things.save({"id": "a", "n": 2})
        book.settle()
        with book.requests(gets=3):
            book.things.get_history("a")
        with book.requests(gets=1):
            book.things.get_history("a")
        with book.requests(gets=3, puts=1):
            book.things.rollback("a", to_seq=1)


# --- diff ---


def test_two_versions_are_compared_in_either_direction(book: Notebook) -> None:
    things = book.things
    for document in ({"id": "a", "n": 1, "x": 1}, {"id": "a", "n": 2, "x": 1}, {"id": "a", "n": 2}):
        things.save(document)
        book.settle()
    things.delete("a")
    assert things.diff("a", 1, 3) == {"n": (1, 2), "x": (1, None)}
    assert things.diff("a", 3, 1) == {"n": (2, 1), "x": (None, 1)}
    assert things.diff("a", 2, 2) == {}
    assert things.diff("a", 4, 3) == {"n": (None, 2)}
    with book.refuses(NotFoundError, "No oplog entry 9 for things 'a'"):
        things.diff("a", 1, 9)
    with book.refuses(InvalidRequestError, "a seq must be a whole number of 1 or more, not 0"):
        things.diff("a", 0, 1)


# --- rollback ---


def test_a_rollback_is_one_more_change(book: Notebook) -> None:
    note = book.notes.insert({"id": "a", "title": "x", "extra": 1})
    created = note["createdAt"]
    book.settle()
    book.notes.save(book.notes.create(id="a", title="y"))
    book.settle()
    back = book.notes.rollback("a", to_seq=1, actor="ada", metadata={"why": "oops", "rollbackTo": "mine"})
    assert back == {
        "id": "a",
        "title": "x",
        "extra": 1,
        "createdAt": created,
        "updatedAt": book.now(),
    }
    assert (back.rev, back.seq) == (3, 3)
    book.settle()
    assert book.notes.find_by_id("a") == back
    last = book.notes.get_history("a")[-1]
    assert (last.op, last.snapshot, last.diff) == ("restore", dict(back), None)
    assert (last.actor, last.metadata) == ("ada", {"why": "oops", "rollbackTo": 1})
    assert [(change.op, change.metadata) for change in book.notes.watch(after=2)] == [("restore", last.metadata)]
    back["title"] = "z"
    assert book.notes.save(back).seq == 4


def test_a_rollback_brings_back_what_is_deleted_or_in_the_trash(book: Notebook) -> None:
    book.things.insert({"id": "a", "n": 1})
    book.things.delete("a")
    book.settle()
    assert book.things.rollback("a", to_seq=1) == {"id": "a", "n": 1}
    book.notes.insert({"id": "a", "title": "x"})
    book.notes.delete("a")
    book.settle()
    assert book.notes.rollback("a", to_seq=1)["title"] == "x"
    assert book.notes.list_trashed() == []
    assert [entry.op for entry in book.notes.get_history("a")] == ["create", "delete", "restore"]


def test_what_cannot_be_rolled_back_to(book: Notebook) -> None:
    notes = book.notes
    notes.insert({"id": "abc-123", "title": "x"})
    notes.save({"id": "abc-123", "title": "y"})
    book.settle()
    notes.delete("abc-123")
    notes.purge("abc-123")
    book.settle()
    with book.refuses(InvalidRequestError, "Cannot roll back to seq 3: entity was deleted"):
        notes.rollback("abc-123", to_seq=3)
    with book.refuses(InvalidRequestError, "Cannot roll back to seq 4: entity was deleted"):
        notes.rollback("abc-123", to_seq=4)
    with book.refuses(NotFoundError, "No oplog entry 9 for Note 'abc-123'"):
        notes.rollback("abc-123", to_seq=9)
    with book.refuses(NotFoundError, "No history of Note 'never'"):
        notes.rollback("never", to_seq=1)
    wrong: list[Any] = [0, -1, True, 1.0, "1", None]
    for seq in wrong:
        with book.refuses(InvalidRequestError, "a seq must be a whole number"):
            notes.rollback("abc-123", to_seq=seq)
    assert notes.rollback("abc-123", to_seq=2)["title"] == "y"


def test_an_old_version_must_fit_the_model_of_today(book: Notebook) -> None:
    book.notes.insert({"id": "a", "title": "x"})
    book.notes.insert({"id": "b", "title": "2024-01-01T00:00:00Z"})
    book.settle()
    changed = deepcopy(NOTES)
    changed["models"]["Note"]["fields"]["title"] = {"type": "datetime"}
    with book.other(changed) as other:
        other.apply_schema()
        notes = other.model("Note")
        before = other.cost().puts
        with pytest.raises(ValidationError, match="Cannot roll back to seq 1: title") as caught:
            notes.rollback("a", to_seq=1)
        assert [problem.path for problem in caught.value.problems] == ["title"]
        with pytest.raises(ValidationError, match="Cannot roll back"):
            other["notes"].rollback("a", to_seq=1)
        assert other.cost().puts == before
        assert notes.rollback("b", to_seq=1)["title"] == datetime(2024, 1, 1, tzinfo=UTC)


def test_a_rollback_gives_no_value_to_two_documents(book: Notebook) -> None:
    book.notes.insert({"id": "a", "mail": "m"})
    book.notes.save({"id": "a", "mail": "other"})
    book.notes.insert({"id": "b", "mail": "m"})
    book.settle()
    before = book.db.cost().puts
    with pytest.raises(UniqueViolationError, match="already exists on entity 'b'"):
        book.notes.rollback("a", to_seq=1)
    assert book.db.cost().puts == before


def test_history_that_begins_in_the_middle_says_so(book: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection may be older than its history: then the first version that it has may be an update."""
    book.things.insert({"id": "a", "n": 1})
    book.things.save({"id": "a", "n": 2})
    book.things.save({"id": "a", "n": 3})
    book.settle()
    whole = History.versions
    monkeypatch.setattr(History, "versions", lambda self, key: whole(self, key)[1:])
    assert told(book.things.get_history("a")) == [
        (2, 2, "update", {"id": "a", "n": 2}, None),
        (3, 3, "update", None, {"n": (2, 3)}),
    ]
    with book.refuses(SnapshotTooOldError, "seq 1 of things 'a': history begins at seq 2"):
        book.things.rollback("a", to_seq=1)
    assert book.things.rollback("a", to_seq=2) == {"id": "a", "n": 2}


def test_modes_are_respected(book: Notebook) -> None:
    audit = book.db.model("Audit")
    audit.insert({"id": "a"})
    book.settle()
    assert [entry.op for entry in audit.get_history("a")] == ["create"]
    with book.refuses(PermissionDeniedError, "Audit is append-only"):
        audit.rollback("a", to_seq=1)
    with book.refuses(PermissionDeniedError, "audit is append-only"):
        book.db["audit"].rollback("a", to_seq=1)
    with book.refuses(InvalidRequestError, "Feed has no log: another program keeps its files"):
        book.db.model("Feed").get_history("a")


def test_a_large_rollback_is_a_restore_too(url: str) -> None:
    """What is too large for the log goes another way, which cannot tell a restore from a create."""
    with wormdb.connect(url, settings=wormdb.Settings(stage_bytes=300)) as database:
        things = database["things"]
        things.insert({"id": "a", "text": "x" * 1000})
        things.delete("a")
        things.rollback("a", to_seq=1)
        assert [entry.op for entry in things.get_history("a")] == ["create", "delete", "restore"]


# --- all of it, against a list ---

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("save"), st.sampled_from("ab"), st.integers(0, 3)),
        st.tuples(st.just("delete"), st.sampled_from("ab"), st.none()),
        st.tuples(st.just("restore"), st.sampled_from("ab"), st.none()),
        st.tuples(st.just("purge"), st.sampled_from("ab"), st.none()),
        st.tuples(st.just("rollback"), st.sampled_from("ab"), st.integers(1, 6)),
        st.tuples(st.just("forward"), st.just(""), st.none()),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_history_is_what_happened(steps: list[tuple[str, str, int | None]]) -> None:
    """Versions as a list of what each change did and left: a number, or None where the document is gone."""
    clock = ManualClock()
    past: dict[str, list[tuple[str, int | None]]] = {"a": [], "b": []}
    trash: dict[str, int] = {}
    with wormdb.connect("memory://", schema=NOTES, clock=clock) as database:
        keep = database.model("Keep")
        for verb, name, value in steps:
            clock.advance(2)
            if verb == "forward":
                database.forward()
                continue
            versions = past[name]
            alive = versions[-1][1] if versions else None
            expected = _expected(verb, value, alive, versions, trash.get(name))
            assert _done(keep, verb, name, value) == (expected is not None)
            if expected is None:
                continue
            if verb == "delete" and alive is not None:
                trash[name] = alive
            else:
                trash.pop(name, None)
            versions.append(expected)
        for name, versions in past.items():
            entries = keep.get_history(name)
            assert [(entry.seq, entry.op) for entry in entries] == [(n, op) for n, (op, _) in enumerate(versions, 1)]
            for entry, (op, left), (_, before) in zip(entries, versions, [("", None), *versions], strict=False):
                if op == "update":
                    assert entry.snapshot is None
                    assert (entry.diff or {}).get("n") == (None if before == left else (before, left))
                else:
                    assert entry.diff is None
                    assert (entry.snapshot or {}).get("n") == (before if op == "delete" else left)
        assert {each.id: each.document["n"] for each in keep.list_trashed()} == trash


def _expected(
    verb: str, value: int | None, alive: int | None, versions: list[tuple[str, int | None]], trashed: int | None
) -> tuple[str, int | None] | None:
    """What the change does, or None if it is refused or does nothing."""
    match verb:
        case "save":
            return ("create" if alive is None else "update", value)
        case "delete":
            return None if alive is None else ("delete", None)
        case "restore":
            return None if trashed is None else ("restore", trashed)
        case "purge":
            return None if trashed is None else ("purge", None)
        case _:
            assert value is not None
            target = versions[value - 1][1] if value <= len(versions) else None
            return None if target is None else ("restore", target)


def _done(keep: Collection[Document], verb: str, name: str, value: int | None) -> bool:
    try:
        match verb:
            case "save":
                keep.save({"id": name, "n": value})
            case "delete":
                return keep.delete(name)
            case "restore":
                keep.restore(name)
            case "purge":
                keep.purge(name)
            case _:
                assert value is not None
                keep.rollback(name, to_seq=value)
    except (NotFoundError, InvalidRequestError, wormdb.AlreadyExistsError):
        return False
    return True


def test_changes_are_counted_without_gaps_whoever_makes_them(url: str) -> None:
    """Four threads on two handles: changes, deletes, restores and forwarding, and no number is missing or twice."""

    def work(database: wormdb.Database, seed: int) -> None:
        keep = database.as_actor(f"worker {seed}").model("Keep")
        for turn in range(8):
            name = f"n{(seed + turn) % 3}"
            keep.save({"id": name, "n": turn})
            if turn % 3 == 2:
                keep.delete(name)
            if turn % 4 == 3:
                _done(keep, "restore", name, None)

    with wormdb.connect(url, schema=NOTES) as one, wormdb.connect(url, schema=NOTES) as two:
        with ThreadPoolExecutor(4) as pool:
            done = [pool.submit(work, (one, two)[seed % 2], seed) for seed in range(4)]
            one.forward()
            for each in done:
                each.result()
        for keep in (one.model("Keep"), two.model("Keep")):
            for name in ("n0", "n1", "n2"):
                entries = keep.get_history(name)
                assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
                assert [entry.rev for entry in entries] == sorted(entry.rev for entry in entries)
        changes = [(change.id, change.seq) for change in one.model("Keep").watch()]
        assert len(changes) == len(set(changes)) >= 32
