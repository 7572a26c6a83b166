"""The change feed: every change once, in order, and it can be left and taken up anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wormdb
from wormdb.api.feed import Resume, parse_resume
from wormdb.errors import InvalidRequestError, SnapshotTooOldError
from wormdb.storage.memory import drop_memory
from wormdb.system.clock import ManualClock
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.database import Database
    from wormdb.api.document import Document
    from wormdb.api.feed import Change


@pytest.fixture
def things(db: Database) -> Collection[Document]:
    return db["things"]


def told(changes: Iterator[Change]) -> list[tuple[Any, ...]]:
    return [(change.number, change.op, change.id, change.seq, change.before, change.after) for change in changes]


def test_every_change_has_its_before_and_after(url: str) -> None:
    with wormdb.connect(url, actor="ada") as database:
        things = database["things"]
        things.insert({"id": "a", "n": 1})
        things.save({"id": "a", "n": 2})
        things.delete("a")
        things.insert({"id": "a", "n": 3})
        assert told(things.watch()) == [
            (1, "create", "a", 1, None, {"id": "a", "n": 1}),
            (2, "update", "a", 2, {"id": "a", "n": 1}, {"id": "a", "n": 2}),
            (3, "delete", "a", 3, {"id": "a", "n": 2}, None),
            (4, "create", "a", 4, None, {"id": "a", "n": 3}),
        ]
        assert {change.actor for change in things.watch()} == {"ada"}
        assert [change.metadata for change in things.watch()] == [None] * 4
        miscs = [change.misc for change in things.watch()]
        assert miscs == sorted(set(miscs))


def test_a_stream_is_a_block_that_begins_now_and_ends_with_it(things: Collection[Document]) -> None:
    things.insert({"id": "a"})
    with things.watch("now", follow=True, poll_seconds=0) as stream:
        assert stream.resume == 1
        things.insert({"id": "b"})
        first = next(stream)
        assert [first.id, stream.resume] == ["b", first.resume]
    assert list(stream) == []
    things.insert({"id": "c"})
    assert [change.id for change in things.watch(stream.resume)] == ["c"]


def test_now_in_an_empty_collection_is_its_begin(things: Collection[Document]) -> None:
    stream = things.watch("now")
    things.insert({"id": "a"})
    assert [change.id for change in stream] == ["a"]


def test_a_feed_can_be_taken_up_behind_every_change_also_within_a_batch(things: Collection[Document]) -> None:
    things.insert({"id": "a"})
    things.batch().insert({"id": "b"}).insert({"id": "c"}).delete("a").flush()
    things.insert_many([{"id": "d"}, {"id": "e"}])
    things.insert({"id": "f"})
    every = list(things.watch())
    marks = ["1", "1.1", "1.2", "2", "2.1", "3", "4"]
    assert [change.resume.partition("@")[0] for change in every] == marks
    for place, change in enumerate(every, 1):
        assert list(things.watch(after=change.resume)) == every[place:]
        assert list(things.watch(after=marks[place - 1])) == every[place:], "marks of older releases have no hash"
    assert list(things.watch(after=0)) == list(things.watch("0")) == every
    assert list(things.watch(after=2)) == every[4:]


def test_a_feed_that_does_not_follow_ends_and_one_that_follows_goes_on(url: str) -> None:
    with wormdb.connect(url) as database:
        things = database["things"]
        things.insert({"id": 0})
        slept: list[float] = []

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            things.insert({"id": len(slept)})

        object.__setattr__(things._access.clock, "sleep", sleep)
        assert [change.id for change in things.watch()] == [0]
        follow = things.watch(follow=True, poll_seconds=0.25)
        assert [next(follow).id for _ in range(4)] == [0, 1, 2, 3]
        assert slept == [0.25] * 3


def test_an_entry_that_only_settles_a_slot_holds_no_changes(things: Collection[Document]) -> None:
    things.insert({"id": "a"})
    things.resolve(f"2-{'a' * 32}-{'b' * 32}", settle=True)
    things.insert({"id": "b"})
    assert [(change.number, change.resume.partition("@")[0]) for change in things.watch()] == [(1, "1"), (3, "3")]


@pytest.mark.parametrize("bad", [-1, "", "x", "1.x", "1.2.3", 1.5, True, None, "-1", " 1", "1.-2"])
def test_what_is_no_place_in_the_log_is_refused_when_asked_for(
    db: Database, things: Collection[Document], bad: Any
) -> None:
    with pytest.raises(InvalidRequestError, match="neither a log number nor a resume mark"):
        things.watch(after=bad)
    assert db.cost().requests == 0


def test_a_pause_must_be_a_length_of_time(things: Collection[Document]) -> None:
    for bad in (-1, float("nan")):
        with pytest.raises(InvalidRequestError, match="poll_seconds"):
            things.watch(poll_seconds=bad)


def test_a_resume_mark_is_a_number_and_how_many_to_skip() -> None:
    assert parse_resume(7) == parse_resume("7") == Resume(LogNumber(7))
    assert parse_resume("7.3") == Resume(LogNumber(7), 3)
    assert parse_resume("7.3@" + "0a" * 8) == Resume(LogNumber(7), 3, b"\n" * 8)


def test_a_feed_behind_a_trimmed_log_says_so() -> None:
    clock = ManualClock()
    with wormdb.connect("memory://feed-of-a-trimmed-log", clock=clock) as database:
        things = database["things"]
        things.insert({"id": "a"})
        first = next(iter(things.watch()))
        things.insert({"id": "b"})
        things.forward()
        things._ledger.trim(0)
        clock.advance(7_200)
        assert things._ledger.trim(0) == 2
        for after in (0, first.resume):
            with pytest.raises(SnapshotTooOldError, match="start again from the present state"):
                list(things.watch(after))
        things.insert({"id": "c"})
        assert [change.id for change in things.watch(after=2)] == ["c"]
    drop_memory("feed-of-a-trimmed-log")


def test_the_feed_of_a_model_shows_documents_as_they_are_stored(db: Database) -> None:
    things = db["things"]
    things.insert({"id": 5, "at": None, "list": [1]})
    (change,) = things.watch()
    assert change.after == {"id": 5, "at": None, "list": [1]}
    assert change.after is not None
    assert list(change.after) == ["id", "at", "list"]


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("forwarded", [False, True])
def test_a_number_behind_the_end_of_the_log_is_refused(
    things: Collection[Document], follow: bool, forwarded: bool
) -> None:
    for after in ("1", 7, "7.2"):
        with pytest.raises(InvalidRequestError, match=r"it is not there: the number is wrong, or the collection was"):
            next(things.watch(after, follow=follow), None)
    things.insert({"id": "a"})
    if forwarded:
        things.forward()
    assert list(things.watch(1)) == []
    with pytest.raises(InvalidRequestError, match="after entry 2: it is not there"):
        next(things.watch(2, follow=follow), None)


steps = ["insert", "insert", "insert", "forward", "look", "look", "resume", "resume", "hour", "remove"]


class Watched:
    """A collection that may be removed and made again, and two that watch it."""

    def __init__(self, database: Database, clock: ManualClock) -> None:
        self._database = database
        self._clock = clock
        self._things = database["things"]
        self._log: list[int] = []
        self._feed, self._held = self._things._ledger.feed(LogNumber(0)), list[int]()
        self._mark, self._resumed = "0", list[int]()

    def act(self, step: str, place: int) -> None:
        match step:
            case "insert":
                self._things.insert({"id": place})
                self._log.append(place)
            case "forward":
                self._things.forward()
            case "hour":
                self._clock.advance(3_700)
            case "remove":
                store = self._database.store
                store.delete_many([one.key for page in store.list("things/") for one in page.objects])
                self._things._ledger.forget()
                self._log = []
            case "look":
                self._look()
            case _:
                self._resume()

    def _look(self) -> None:
        before, is_same = len(self._held), self._held == self._log[: len(self._held)]
        try:
            for record in self._feed.poll():
                self._held += [int(change.id) for _, change in self._feed.changes(record)]
        except InvalidRequestError:
            assert not is_same
            self._feed, self._held = self._things._ledger.feed(LogNumber(0)), []
        # For a minute it may not notice that the log is gone, but nothing of another is told.
        assert len(self._held) <= before or self._held == self._log

    def _resume(self) -> None:
        is_same = self._resumed == self._log[: len(self._resumed)]
        try:
            for change in self._things.watch(self._mark):
                self._resumed.append(change.id)
                self._mark = change.resume
        except InvalidRequestError:
            assert not is_same
            self._mark, self._resumed = "0", []
        else:
            assert self._resumed == self._log


@given(st.lists(st.sampled_from(steps), max_size=16))
def test_what_a_watcher_sees_is_one_log_from_its_beginning(chosen: list[str]) -> None:
    """Also if the folder is removed under it, and made again: then it is told so, and skips nothing."""
    clock = ManualClock()
    with wormdb.connect("memory://feed-made-again", clock=clock) as database:
        watched = Watched(database, clock)
        for place, step in enumerate(chosen):
            watched.act(step, place)
    drop_memory("feed-made-again")
