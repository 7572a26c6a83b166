"""Versions that are kept to go back to."""

from __future__ import annotations

from copy import deepcopy
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.api.notebook import NOTES, Notebook
from wormdb.api import history as recall
from wormdb.engine.history.snapshots import visible
from wormdb.errors import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    ValidationError,
)
from wormdb.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.engine.history.snapshots import Snapshot

DAY = 86_400


def told(snapshots: list[Snapshot]) -> list[tuple[int, bool]]:
    return [(snapshot.seq, snapshot.manual) for snapshot in snapshots]


def change(book: Notebook, times: int, name: str = "a") -> None:
    for turn in range(times):
        book.notes.save({"id": name, "title": f"{turn}", "createdAt": book.now()})
        book.settle()


def test_every_third_change_is_kept(book: Notebook) -> None:
    change(book, 2)
    assert book.notes.list_snapshots("a") == []
    change(book, 5)
    snapshots = book.notes.list_snapshots("a")
    assert told(snapshots) == [(3, False), (6, False)]
    entries = book.notes.get_history("a")
    for snapshot in snapshots:
        assert abs(snapshot.ts - entries[snapshot.seq - 1].ts) < timedelta(milliseconds=1)
        assert 80 < snapshot.size < 130
    assert book.notes.list_snapshots("never") == []


def test_a_snapshot_taken_by_hand(book: Notebook) -> None:
    change(book, 1)
    taken = book.notes.snapshot("a", actor="ada")
    assert (taken.seq, taken.manual) == (1, True)
    book.settle()
    assert book.notes.list_snapshots("a") == [taken]
    before = book.db.cost().puts
    assert book.notes.snapshot("a") == taken
    assert book.db.cost().puts == before
    change(book, 2)
    assert book.notes.snapshot("a").manual is False
    assert told(book.notes.list_snapshots("a")) == [(1, True), (3, False)]
    assert [entry.seq for entry in book.notes.get_history("a")] == [1, 2, 3]
    assert len(list(book.notes.watch())) == 3


def test_snapshots_of_collections_without_a_model(book: Notebook) -> None:
    book.things.insert({"id": "a", "n": 1})
    taken = book.things.snapshot("a")
    book.settle(10_000 * DAY)
    book.things.save({"id": "a", "n": 2})
    assert book.things.list_snapshots("a") == [taken]
    assert book.things.restore_snapshot("a", taken.ts) == {"id": "a", "n": 1}


def test_the_oldest_go_when_there_are_too_many_but_history_stays(book: Notebook) -> None:
    change(book, 13)
    assert told(book.notes.list_snapshots("a")) == [(6, False), (9, False), (12, False)]
    assert len(book.notes.get_history("a")) == 13
    assert book.notes.rollback("a", to_seq=3)["title"] == "2"


def test_the_old_ones_go_but_for_the_newest(book: Notebook) -> None:
    change(book, 3)
    book.settle(20 * DAY)
    change(book, 3)
    assert told(book.notes.list_snapshots("a")) == [(3, False), (6, False)]
    book.settle(10 * DAY)
    assert told(book.notes.list_snapshots("a")) == [(6, False)]
    book.settle(100 * DAY)
    assert told(book.notes.list_snapshots("a")) == [(6, False)]


def test_an_old_snapshot_that_is_taken_again_is_new(book: Notebook) -> None:
    change(book, 1)
    first = book.notes.snapshot("a")
    change(book, 2)
    book.settle(40 * DAY)
    book.notes.rollback("a", to_seq=1)
    again = book.notes.snapshot("a")
    assert (again.seq, again.manual) == (4, True)
    assert again.ts > first.ts + timedelta(days=40)
    assert book.notes.list_snapshots("a") == [again]


def test_a_purge_takes_the_snapshots(book: Notebook) -> None:
    change(book, 4)
    book.notes.delete("a")
    book.settle()
    assert told(book.notes.list_snapshots("a")) == [(3, False)]
    book.notes.purge("a")
    book.settle()
    assert book.notes.list_snapshots("a") == []
    change(book, 3)
    assert told(book.notes.list_snapshots("a")) == [(9, False)]


def test_a_document_is_restored_by_time(book: Notebook) -> None:
    change(book, 7)
    book.notes.delete("a")
    book.settle()
    first, second = book.notes.list_snapshots("a")
    back = book.notes.restore_snapshot("a", first.ts, actor="ada", metadata={"why": "oops"})
    assert (back["title"], back.seq, back["updatedAt"]) == ("2", 9, book.now())
    last = book.notes.get_history("a")[-1]
    shown = first.ts.isoformat().replace("+00:00", "Z")
    assert (last.op, last.actor, last.metadata) == ("restore", "ada", {"why": "oops", "snapshot": shown})
    for text in (second.ts.isoformat(), second.ts.isoformat(timespec="seconds")):
        assert book.notes.restore_snapshot("a", text)["title"] == "5"
    assert book.notes.restore_snapshot("a", shown)["title"] == "2"


def test_snapshots_of_one_moment_stay_apart(book: Notebook) -> None:
    for turn in range(6):
        book.notes.save({"id": "a", "title": f"{turn}"})
    if book.forwarded:
        book.settle()
    first, second = book.notes.list_snapshots("a")
    assert first.ts < second.ts < first.ts + timedelta(milliseconds=1)
    assert book.notes.restore_snapshot("a", first.ts)["title"] == "2"
    assert book.notes.restore_snapshot("a", second.ts)["title"] == "5"
    with book.refuses(InvalidRequestError, "several snapshots are of that time"):
        book.notes.restore_snapshot("a", first.ts.isoformat(timespec="seconds"))


def test_of_the_versions_of_one_batch_the_last_is_kept(book: Notebook) -> None:
    with book.notes.batch() as batch:
        for turn in range(7):
            batch.save({"id": "a", "title": f"{turn}"})
    book.settle()
    assert book.notes.list_snapshots("a") == []
    assert book.notes.snapshot("a").seq == 7


def test_what_is_no_snapshot(book: Notebook) -> None:
    change(book, 3)
    (only,) = book.notes.list_snapshots("a")
    wrong: list[tuple[Any, type[Exception], str]] = [
        (only.ts + timedelta(seconds=1), NotFoundError, "there is none of that time"),
        (only.ts.replace(tzinfo=None), InvalidRequestError, "it must have a time zone"),
        ("yesterday", InvalidRequestError, "it must be a time in ISO 8601"),
        ("2026-01-01", InvalidRequestError, "it must have a time zone"),
        (3, InvalidRequestError, "it must be a time"),
        (None, InvalidRequestError, "it must be a time"),
    ]
    for ts, kind, reason in wrong:
        with book.refuses(kind, reason):  # type: ignore[arg-type] # all of them are WormErrors
            book.notes.restore_snapshot("a", ts)
    with book.refuses(NotFoundError, "there is none of that time"):
        book.notes.restore_snapshot("never", only.ts)
    with book.refuses(NotFoundError, "it does not exist"):
        book.notes.snapshot("never")
    book.notes.delete("a")
    with book.refuses(NotFoundError, "it does not exist"):
        book.notes.snapshot("a")


def test_a_model_must_have_them_enabled(book: Notebook) -> None:
    plain = book.db.model("Plain")
    plain.insert({"id": "a"})
    book.settle()
    calls: list[Callable[[], object]] = [
        lambda: plain.snapshot("a"),
        lambda: plain.list_snapshots("a"),
        lambda: plain.restore_snapshot("a", "2026-01-01T00:00:00Z"),
        lambda: book.db["plain"].snapshot("a"),
    ]
    for call in calls:
        with book.refuses(InvalidRequestError, "Snapshots are not enabled for [Pp]lain"):
            call()


def test_a_snapshot_must_fit_the_model_of_today(book: Notebook) -> None:
    change(book, 3)
    (only,) = book.notes.list_snapshots("a")
    changed = deepcopy(NOTES)
    changed["models"]["Note"]["fields"]["title"] = {"type": "integer"}
    with book.other(changed) as other:
        other.apply_schema()
        with pytest.raises(ValidationError, match=r"Cannot restore snapshot .* of 'a' in Note: title"):
            other.model("Note").restore_snapshot("a", only.ts)


def test_a_readonly_model_keeps_what_it_has(book: Notebook) -> None:
    change(book, 4)
    locked = deepcopy(NOTES)
    locked["models"]["Note"]["mode"] = "readonly"
    with book.other(locked) as other:
        other.apply_schema()
        before = other.cost().puts
        with pytest.raises(PermissionDeniedError, match="Note is read-only"):
            other.model("Note").snapshot("a")
        assert other.cost().puts == before
        assert told(other.model("Note").list_snapshots("a")) == [(3, False)]


def test_the_snapshot_is_of_what_is_there_when_it_is_taken(book: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody changes the document between the look and the commit: the newer version is the one that is kept."""
    change(book, 1)
    looks: list[int] = []

    def look(*given: Any) -> Any:
        with book.other() as other:
            document = other.model("Note").find_by_id("a")
            assert document is not None
            if not looks:
                other.model("Note").save(document | {"title": "newer"})
        looks.append(1)
        return visible(*given)

    book.notes.snapshot("a")
    change(book, 1)
    monkeypatch.setattr(recall, "visible", look)
    assert book.notes.snapshot("a").seq == 3
    assert len(looks) == 2


def test_who_is_overtaken_all_the_time_is_told(book: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    book.things.insert({"id": "a", "n": 0})
    book.things.snapshot("a")
    book.things.save({"id": "a", "n": 1})
    turns = iter(range(2, 1000))

    def look(*given: Any) -> Any:
        with book.other() as other:
            other["things"].save({"id": "a", "n": next(turns)})
        return visible(*given)

    monkeypatch.setattr(recall, "visible", look)
    book.db._settings = Settings(modify_attempts=3)
    with pytest.raises(ConflictError, match="another writer changed it 3 times in a row"):
        book.things.snapshot("a")
    assert len(list(book.things.watch())) == 5


def test_snapshots_in_the_tail_cost_one_request() -> None:
    with Notebook.in_memory() as book:
        change(book, 4)
        with book.requests(gets=1):
            book.notes.list_snapshots("a")
        with book.requests(gets=1, puts=1):
            book.notes.snapshot("a")
        ts = book.notes.list_snapshots("a")[0].ts
        with book.requests(gets=1, puts=1):
            book.notes.restore_snapshot("a", ts)
