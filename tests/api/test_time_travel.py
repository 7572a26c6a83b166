"""Reads of the past: by log number or by time, of one document or of all."""

from __future__ import annotations

import copy
import pickle  # noqa: TID251 - process pools send documents home this way
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.api.notebook import Notebook
from wormdb.errors import AlreadyExistsError, InvalidRequestError, SnapshotTooOldError
from wormdb.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document


def lived(book: Notebook) -> dict[int, tuple[datetime, dict[str, int]]]:
    """Some changes; for each log number the time and what there was then."""
    things = book.things
    states: dict[int, tuple[datetime, dict[str, int]]] = {}
    now: dict[str, int] = {}
    for number, (name, value) in enumerate(
        [("a", 1), ("c", 1), ("b", 1), ("a", 2), ("c", None), ("b", 2), ("c", 3), ("a", None)], 1
    ):
        if value is None:
            things.delete(name)
            del now[name]
        else:
            things.save({"id": name, "n": value})
            now[name] = value
        states[number] = (book.now(), dict(sorted(now.items())))
        book.settle()
    return states


def shown(documents: Any) -> dict[Any, int]:
    return {document["id"]: document["n"] for document in documents}


def test_every_state_can_be_read_again_by_number_and_by_time(book: Notebook) -> None:
    states = lived(book)
    for number, (time, state) in states.items():
        moments: list[Any] = [
            number,
            time,
            time + timedelta(seconds=1),
            time.astimezone(timezone(timedelta(hours=5))),
            time.isoformat(),
            time.isoformat().replace("+00:00", "Z"),
        ]
        for moment in moments:
            assert shown(book.things.scan(as_of=moment)) == state
            assert list(shown(book.things.scan(as_of=moment))) == sorted(state)
            assert book.things.count(as_of=moment) == len(state)
            for name in "abcd":
                found = book.things.find_by_id(name, as_of=moment)
                assert (None if found is None else found["n"]) == state.get(name)
                assert book.things.exists(name, as_of=moment) == (name in state)
    assert shown(book.things.scan(as_of=0)) == {}
    assert book.things.count(as_of=0) == 0


def test_a_range_of_ids_now_and_then(book: Notebook) -> None:
    things = book.things
    things.insert_many([{"id": name, "n": 1} for name in "abcde"])
    things.insert_many([{"id": 1, "n": 1}, {"id": 2, "n": 1}])
    book.settle()
    things.delete("c")
    book.settle()
    for as_of, expected in ((None, "bd"), (1, "bcd"), (3, "bd")):
        assert "".join(shown(things.scan("b", "e", as_of=as_of))) == expected
        assert "".join(shown(things.scan("bb", "dd", as_of=as_of))) == expected[1:]
        assert list(things.scan("d", "d", as_of=as_of)) == list(things.scan("e", "a", as_of=as_of)) == []
        assert "".join(shown(things.scan("d", as_of=as_of))) == "de"
    assert list(shown(things.scan(stop="b"))) == [1, 2, "a"]
    assert list(shown(things.scan(2, "a"))) == [2]
    assert list(things.scan()) == list(things)


def test_a_scan_sees_one_state(book: Notebook) -> None:
    book.things.insert_many([{"id": name, "n": 1} for name in "ab"])
    book.settle()
    now, then = book.things.scan(), book.things.scan(as_of=1)
    book.things.delete("b")
    book.settle()
    assert shown(now) == shown(then) == {"a": 1, "b": 1}


def test_moments_that_cannot_be_read(book: Notebook) -> None:
    states = lived(book)
    things = book.things
    first = states[1][0]
    wrong: list[tuple[Any, type[Exception], str]] = [
        (9, InvalidRequestError, "the newest entry is 8"),
        (book.now() + timedelta(hours=1), InvalidRequestError, "it is in the future"),
        ("2999-01-01T00:00:00Z", InvalidRequestError, "it is in the future"),
        (first - timedelta(days=1), SnapshotTooOldError, "history begins at"),
        (-1, InvalidRequestError, "a log number is 0 or more"),
        (2**64, InvalidRequestError, "a log number is 0 or more"),
        (True, InvalidRequestError, "it must be a time"),
        (1.5, InvalidRequestError, "it must be a time"),
        (first.replace(tzinfo=None), InvalidRequestError, "it must have a time zone"),
        (first.date(), InvalidRequestError, "it must be a time"),
        ("2026-01-01", InvalidRequestError, "it must have a time zone"),
        ("5", InvalidRequestError, "it must be a time in ISO 8601"),
        ("", InvalidRequestError, "it must be a time in ISO 8601"),
    ]
    reads: list[Callable[[Any], object]] = [
        lambda moment: things.find_by_id("a", as_of=moment),
        lambda moment: things.exists("a", as_of=moment),
        lambda moment: things.count(as_of=moment),
        lambda moment: things.scan(as_of=moment),  # already when it is called
    ]
    for moment, kind, reason in wrong:
        for read in reads:
            with book.refuses(kind, reason):  # type: ignore[arg-type] # all of them are WormErrors
                read(moment)
    with book.refuses(InvalidRequestError, "object"):
        things.scan(object())


def test_a_collection_without_a_past_was_always_empty(book: Notebook) -> None:
    assert book.things.count(as_of=0) == 0
    assert book.things.find_by_id("a", as_of=book.now()) is None
    assert list(book.things.scan(as_of=book.now())) == []


# --- what such a document is ---


def past_and_present(book: Notebook) -> tuple[Collection[Document], Document]:
    book.notes.insert({"id": "a", "title": "x"})
    book.settle()
    book.notes.modify("a", lambda note: note | {"title": "y"})
    book.settle()
    past = book.notes.find_by_id("a", as_of=1)
    assert past is not None
    return book.notes, past


def test_it_knows_when_it_was(book: Notebook) -> None:
    _, past = past_and_present(book)
    for document in (past, past.copy(), past | {"n": 1}, copy.deepcopy(past), pickle.loads(pickle.dumps(past))):
        assert (document["title"], document.rev, document.seq) == ("x", 1, 1)
        assert document.loaded is None


def test_saving_it_replaces_what_is_there(book: Notebook) -> None:
    notes, past = past_and_present(book)
    saved = notes.save(past)
    assert saved is past
    assert (past["title"], past.rev, past.seq) == ("x", 3, 3)
    assert past["updatedAt"] == book.now() > past["createdAt"]
    assert past.loaded is not None
    past["title"] = "z"
    assert notes.save(past).seq == 4


def test_a_copy_of_it_is_saved_the_same_way(book: Notebook) -> None:
    notes, past = past_and_present(book)
    saved = notes.save(past | {"title": "z"})
    assert (saved["title"], saved.seq, saved["updatedAt"]) == ("z", 3, book.now())
    assert notes.get_history("a")[-1].op == "update"


def test_it_is_inserted_and_deleted_as_any_other(book: Notebook) -> None:
    notes, past = past_and_present(book)
    with pytest.raises(AlreadyExistsError):
        notes.insert(past)
    assert notes.delete(past) is True
    assert notes.insert(past).seq == 4


def test_a_class_gives_instances_of_the_past(book: Notebook) -> None:
    @dataclass
    class Plain:
        title: str
        id: str = ""

    plain = book.db.model(Plain)
    plain.insert(Plain("x", "a"))
    book.settle()
    plain.modify("a", lambda _: Plain("y", "a"))
    assert plain.find_by_id("a", as_of=1) == Plain("x", "a")
    assert list(plain.scan(as_of=1)) == [Plain("x", "a")]


# --- prices, and what others write ---


def test_a_reader_that_may_be_stale_still_knows_all_of_the_past(book: Notebook) -> None:
    book.things.insert({"id": "a", "n": 1})
    lazy = Settings(staleness_ms=3_600_000)
    with wormdb.connect(book.url, clock=book.clock, settings=lazy) as other:
        assert other["things"].count() == 1
        book.things.insert({"id": "b", "n": 1})
        assert other["things"].count() == 1
        assert other["things"].count(as_of=2) == 2
        assert other["things"].exists("b", as_of=book.now())


def test_the_past_in_the_tail_costs_one_request() -> None:
    with Notebook.in_memory() as book:
        lived(book)
        with book.requests(gets=1):
            book.things.find_by_id("a", as_of=4)
        with book.requests(gets=1):
            book.things.count(as_of=4)
        with book.requests(gets=1):
            list(book.things.scan(as_of=datetime(2023, 11, 14, 22, 13, 30, tzinfo=UTC)))
        with book.requests(gets=0), pytest.raises(InvalidRequestError):
            book.things.count(as_of="yesterday")
