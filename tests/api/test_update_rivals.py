"""Changes by filter while others change the same documents, and what they cost."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from wormdb.errors import ConflictError, InvalidRequestError, UniqueViolationError
from wormdb.settings import Settings
from wormdb.storage.memory import drop_memory
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.database import Database
    from wormdb.api.document import Document

Things = wormdb.Collection[wormdb.Document]

THREADS = 8
TURNS = 12


@pytest.fixture
def pair(url: str) -> Iterator[tuple[Collection[Document], Collection[Document]]]:
    """One collection in two processes."""
    with wormdb.connect(url, clock=ManualClock()) as one, wormdb.connect(url, clock=ManualClock()) as two:
        yield one["things"], two["things"]


class Before:
    """Does something once, right before a collection commits."""

    def __init__(self, things: Things, action: Callable[[], object], *, times: int = 1) -> None:
        self.left = times
        self._action = action
        self._commit = things._ledger.commit
        things._ledger.commit = self  # type: ignore[method-assign] # somebody else is faster

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if self.left:
            self.left -= 1
            self._action()
        return self._commit(*arguments, **options)


# --- counters ---


def together(url: str, work: Callable[[Things, int], object]) -> None:
    """Eight threads, four of which share a process; all start at once."""
    start = threading.Barrier(THREADS)

    def run(database: Database) -> None:
        start.wait()
        for turn in range(TURNS):
            work(database["things"], turn)

    settings = Settings()
    with (
        wormdb.connect(url, settings=settings) as one,
        wormdb.connect(url, settings=settings) as two,
        ThreadPoolExecutor(THREADS) as pool,
    ):
        for done in [pool.submit(run, (one, two)[number % 2]) for number in range(THREADS)]:
            done.result()


@pytest.fixture
def memory() -> Iterator[str]:
    """A bucket in memory, which has been asked about its preconditions."""
    name = "changes-and-rivals"
    with wormdb.connect(f"memory://{name}") as database:
        database["other"].insert({})
    yield f"memory://{name}"
    drop_memory(name)


def test_no_increment_is_lost_on_one_document(memory: str) -> None:
    with wormdb.connect(memory) as database:
        together(memory, lambda things, _: things.update_one({"id": "a"}, {"$inc": {"n": 1}}, upsert=True))
        things = database["things"]
        assert things.find_by_id("a") == {"id": "a", "n": THREADS * TURNS}
        assert things.count() == 1
        assert [entry.seq for entry in things.get_history("a")] == list(range(1, THREADS * TURNS + 1))


def test_no_increment_is_lost_on_many_documents(memory: str) -> None:
    with wormdb.connect(memory) as database:
        things = database["things"]
        things.insert_many([{"id": number, "n": 0, "even": number % 2 == 0} for number in range(10)])

        def work(things: Things, turn: int) -> None:
            result = things.update_many({} if turn % 2 else {"even": True}, {"$inc": {"n": 1}})
            assert result.modified == (10 if turn % 2 else 5)

        together(memory, work)
        assert {document["n"] for document in things if document["even"]} == {THREADS * TURNS}
        assert {document["n"] for document in things if not document["even"]} == {THREADS * TURNS // 2}


def test_everybody_takes_another_one_from_a_queue(memory: str) -> None:
    with wormdb.connect(memory) as database:
        queue = database["things"]
        queue.insert_many([{"id": number} for number in range(THREADS * TURNS)])
        taken: list[int] = []

        def take(things: Things, _: int) -> None:
            found = things.find_one_and_delete({}, sort="-id")
            assert found is not None
            taken.append(found["id"])

        together(memory, take)
        assert sorted(taken) == list(range(THREADS * TURNS))
        assert queue.count() == 0


# --- one rival at the worst moment ---


def test_a_change_in_between_is_seen(pair: tuple[Things, Things]) -> None:
    ours, theirs = pair
    ours.insert_many([{"id": "a", "n": 1}, {"id": "b", "n": 1}])
    Before(ours, lambda: theirs.update_one({"id": "b"}, {"$set": {"n": 5}}))
    assert ours.update_many({"n": 1}, {"$inc": {"n": 1}}) == wormdb.UpdateResult(1, 1, None, 3)
    assert [document["n"] for document in ours] == [2, 5], "b does not match any more"
    Before(ours, lambda: theirs.delete_one({"id": "b"}))
    assert ours.find_one_and_update({"id": "b"}, {"$inc": {"n": 1}}) is None
    Before(ours, lambda: theirs.update_one({"id": "a"}, {"$set": {"k": 1}}))
    assert ours.find_one_and_delete({"id": "a"}) == {"id": "a", "n": 2, "k": 1}


def test_an_upsert_by_id_of_what_somebody_else_inserts(pair: tuple[Things, Things]) -> None:
    ours, theirs = pair
    Before(ours, lambda: theirs.update_one({"id": "a"}, {"$inc": {"n": 1}}, upsert=True))
    assert ours.update_one({"id": "a"}, {"$inc": {"n": 1}}, upsert=True) == wormdb.UpdateResult(1, 1, None, 2)
    assert ours.find_by_id("a") == {"id": "a", "n": 2}


def test_an_upsert_of_a_unique_value_that_somebody_else_inserts(pair: tuple[Things, Things]) -> None:
    ours, theirs = pair
    ours.create_index("email", unique=True)
    update = {"$inc": {"n": 1}}
    Before(ours, lambda: theirs.update_one({"email": "x"}, update, upsert=True))
    assert ours.update_one({"email": "x"}, update, upsert=True).modified == 1
    assert [document["n"] for document in ours] == [2]
    Before(ours, lambda: theirs.insert({"email": "y"}))
    with pytest.raises(UniqueViolationError):
        ours.update_one({"name": "Y"}, {"$set": {"email": "y"}}, upsert=True)


def test_also_without_a_unique_index_only_one_inserts(pair: tuple[Things, Things]) -> None:
    ours, theirs = pair
    Before(ours, lambda: theirs.update_one({"email": "x"}, {"$inc": {"n": 1}}, upsert=True))
    assert ours.update_one({"email": "x"}, {"$inc": {"n": 1}}, upsert=True) == wormdb.UpdateResult(1, 1, None, 2)
    assert [document["n"] for document in ours] == [2]


def test_it_gives_up_after_many_losses(url: str) -> None:
    settings = Settings(modify_attempts=3)
    with wormdb.connect(url, clock=ManualClock(), settings=settings) as one, wormdb.connect(url) as two:
        ours, theirs = one["things"], two["things"]
        ours.insert({"id": "a", "n": 0})
        calls: list[Callable[[], object]] = [
            lambda: ours.update_many({}, {"$set": {"k": 1}}),
            lambda: ours.replace_one({"id": "a"}, {"k": 1}),
            lambda: ours.delete_many({}),
        ]
        for call in calls:
            before = Before(ours, lambda: theirs.update_one({"id": "a"}, {"$inc": {"n": 1}}), times=3)
            with pytest.raises(ConflictError, match=r"in things: another writer changed .* 3 times in a row"):
                call()
            assert before.left == 0
        assert ours.find_by_id("a") == {"id": "a", "n": 9}


# --- old knowledge ---


def test_nothing_is_missed_by_who_may_read_old_states(url: str) -> None:
    settings = Settings(staleness_ms=1_000_000)
    with wormdb.connect(url, clock=ManualClock(), settings=settings) as one, wormdb.connect(url) as two:
        ours, theirs = one["things"], two["things"]
        assert ours.count() == 0
        theirs.insert({"id": "a", "n": 1})
        assert ours.count() == 0
        assert ours.update_one({"id": "a"}, {"$inc": {"n": 1}}, upsert=True).matched == 1
        theirs.insert({"id": "b", "n": 1})
        assert ours.update_many({"n": {"$gt": 0}}, {"$inc": {"n": 1}}).matched == 2
        theirs.update_one({"id": "a"}, {"$set": {"n": 10}})
        assert ours.find_one_and_update({"id": "a"}, {"$inc": {"n": 1}}, return_document="after") == {
            "id": "a",
            "n": 11,
        }
        theirs.insert({"id": "c"})
        assert ours.delete_many({}).deleted == 3


class Knowing:
    """A process that knows a document, and one that changes it."""

    def __init__(self, pair: tuple[Things, Things], model: dict[str, Any]) -> None:
        self.ours, self.theirs = pair
        self.ours.insert({"id": "a", **model})
        assert self.ours._ledger.trusted() is not None

    def change(self, update: dict[str, Any]) -> None:
        """By the other process, and seen by it alone."""
        assert self.theirs.update_one({"id": "a"}, update).modified == 1
        view = self.ours._ledger.trusted()
        assert view is not None
        assert view.number == 1


@pytest.mark.parametrize("attempts", [1, 100])
def test_what_somebody_else_wrote_before_a_call_is_not_overwritten(url: str, attempts: int) -> None:
    settings = Settings(modify_attempts=attempts)
    calls: list[Callable[[Things], object]] = [
        lambda c: c.update_one({"id": "a"}, {"$inc": {"n": 1}}).modified,
        lambda c: c.update_one({"id": "a", "n": {"$lt": 5}}, {"$inc": {"n": 1}}).matched,
        lambda c: c.update_many({"id": "a", "n": 5}, {"$inc": {"n": 1}}, upsert=True).modified,
        lambda c: c.find_one_and_update({"id": "a"}, {"$inc": {"n": 1}}),
        lambda c: c.find_one_and_update({"id": "a"}, {"$inc": {"n": 1}}, return_document="after"),
        lambda c: c.find_one_and_delete({"id": "a"}),
        lambda c: c.find_one_and_replace({"id": "a"}, {"k": 2}),
        lambda c: c.delete_one({"id": "a", "n": 1}).deleted,
        lambda c: c.update_one({"id": "a"}, {"$set": {"n": 1}}).modified,
        lambda c: c.update_one({"id": "a"}, {"$set": {"n": 5}}).modified,
    ]
    expected: list[tuple[object, dict[str, Any] | None]] = [
        (1, {"n": 6}),
        (0, {"n": 5}),
        (1, {"n": 6}),
        ({"id": "a", "n": 5}, {"n": 6}),
        ({"id": "a", "n": 6}, {"n": 6}),
        ({"id": "a", "n": 5}, None),
        ({"id": "a", "n": 5}, {"k": 2}),
        (0, {"n": 5}),
        (1, {"n": 1}),
        (0, {"n": 5}),
    ]
    with wormdb.connect(url, settings=settings) as one, wormdb.connect(url) as two:
        for number, (call, (told, left)) in enumerate(zip(calls, expected, strict=True)):
            knowing = Knowing((one[f"things{number}"], two[f"things{number}"]), {"n": 1})
            knowing.change({"$set": {"n": 5}})
            assert call(knowing.ours) == told
            assert knowing.theirs.find_by_id("a") == (None if left is None else {"id": "a", **left})


def test_a_refusal_is_not_about_what_was_known(pair: tuple[Things, Things]) -> None:
    knowing = Knowing(pair, {"n": "text"})
    knowing.change({"$set": {"n": 1}})
    assert knowing.ours.update_one({"id": "a"}, {"$inc": {"n": 1}}).modified == 1
    assert knowing.theirs.find_by_id("a") == {"id": "a", "n": 2}
    ours, theirs = pair
    theirs.update_one({"id": "a"}, {"$set": {"n": "text"}})
    with pytest.raises(InvalidRequestError, match="document 'a': n: it holds a string"):
        ours.update_one({"id": "a"}, {"$inc": {"n": 1}})


def test_a_document_that_is_gone_or_came_back_is_known(pair: tuple[Things, Things]) -> None:
    knowing = Knowing(pair, {"n": 1})
    ours, theirs = pair
    theirs.delete("a")
    assert ours.update_one({"id": "a"}, {"$inc": {"n": 1}}).matched == 0
    theirs.insert({"id": "a", "n": 7})
    assert ours.update_one({"id": "a"}, {"$inc": {"n": 1}}).matched == 1
    assert knowing.ours.find_by_id("a") == {"id": "a", "n": 8}


def test_a_unique_value_that_was_given_up_meanwhile(pair: tuple[Things, Things]) -> None:
    ours, theirs = pair
    ours.create_index("email", unique=True)
    ours.insert_many([{"id": "a", "email": "x"}, {"id": "b", "email": "y"}])
    theirs.delete("a")
    assert ours.update_one({"id": "b"}, {"$set": {"email": "x"}}, upsert=True).modified == 1
    theirs.insert({"id": "c", "email": "z"})
    with pytest.raises(UniqueViolationError):
        ours.update_one({"id": "b"}, {"$set": {"email": "z"}})


# --- what they cost ---


class Meter:
    """Counts the requests of calls."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def __call__(self, call: Callable[[], object]) -> dict[str, int]:
        mark = self._database.cost()
        call()
        spent = self._database._metered.since(mark)
        counts = {"gets": spent.gets, "puts": spent.puts}
        return {name: count for name, count in counts.items() if count}


ASKED = {"gets": 1}
WRITTEN = {"puts": 1}
ASKED_AND_WRITTEN = {"gets": 1, "puts": 1}


@pytest.mark.parametrize("is_forwarded", [False, True], ids=["tail", "forwarded"])
def test_a_change_by_id_of_what_is_known_is_one_put(memory: str, is_forwarded: bool) -> None:
    with wormdb.connect(memory, clock=ManualClock()) as database:
        things, spent = database["things"], Meter(database)
        things.insert_many([{"id": "a", "n": 1}, {"id": "b", "n": 1}])
        if is_forwarded:
            things.forward()
            assert things.find_by_id("a") is not None
            assert things.find_by_id("b") is not None
        for call in (
            lambda: things.update_one({"id": "a"}, {"$inc": {"n": 1}}),
            lambda: things.update_one({"id": "b", "n": {"$gt": 0}}, {"$inc": {"n": 1}}),
            lambda: things.update_many({"id": "a"}, {"$inc": {"n": 1}}),
            lambda: things.update_one({"id": "a"}, {"$inc": {"n": 1}}, upsert=True),
            lambda: things.find_one_and_update({"id": "a"}, {"$inc": {"n": 1}}),
            lambda: things.replace_one({"id": "a"}, {"k": 5}),
            lambda: things.find_one_and_replace({"id": "a"}, {"k": 6}),
            lambda: things.delete_one({"id": "b"}),
            lambda: things.find_one_and_delete({"id": "a"}),
        ):
            assert spent(call) == WRITTEN
        assert things.count() == 0


def test_what_changes_nothing_is_told_by_the_store(memory: str) -> None:
    with wormdb.connect(memory, clock=ManualClock()) as database:
        things, spent = database["things"], Meter(database)
        things.insert({"id": "a", "n": 1})
        for call in (
            lambda: things.update_one({"id": "a"}, {"$set": {"n": 1}}),
            lambda: things.update_one({"id": "a", "n": 2}, {"$inc": {"n": 1}}),
            lambda: things.update_one({"id": "x"}, {"$inc": {"n": 1}}),
            lambda: things.delete_one({"id": "x"}),
        ):
            assert spent(call) == ASKED
        assert spent(lambda: things.update_one({"id": "x"}, {"$inc": {"n": 1}}, upsert=True)) == ASKED_AND_WRITTEN
        assert spent(lambda: things.update_one({"n": 1}, {"$inc": {"n": 1}})) == ASKED_AND_WRITTEN


def test_who_is_not_likely_to_know_the_newest_state_asks_first(memory: str) -> None:
    clock = ManualClock()
    with wormdb.connect(memory, clock=clock) as one, wormdb.connect(memory, clock=clock) as two:
        ours, theirs, spent = one["things"], two["things"], Meter(one)

        def change() -> dict[str, int]:
            return spent(lambda: ours.update_one({"id": "a"}, {"$inc": {"n": 1}}))

        ours.insert({"id": "a", "n": 1})
        assert change() == WRITTEN
        clock.advance(61)
        # Both the look and the write are too far from what was known before: the root is asked, too.
        assert change()["gets"] > 1
        assert change() == WRITTEN
        theirs.insert({"id": "b"})
        assert change() == {"gets": 1, "puts": 2}, "a lost race, and what won it"
        assert change() == ASKED_AND_WRITTEN
        assert change() == WRITTEN
        theirs.insert({"id": "c"})
        assert ours.find_by_id("c") is not None
        assert change() == ASKED_AND_WRITTEN
        assert change() == WRITTEN
        assert ours.find_by_id("a") == {"id": "a", "n": 9}


def test_many_documents_are_one_put(memory: str) -> None:
    with wormdb.connect(memory, clock=ManualClock()) as database:
        things, spent = database["things"], Meter(database)
        things.insert_many([{"id": number, "n": number} for number in range(100)])
        assert spent(lambda: things.update_many({"n": {"$lt": 50}}, {"$inc": {"n": 1}})) == {"gets": 1, "puts": 1}
        assert spent(lambda: things.update_many({}, {"$set": {"k": 1}})) == {"gets": 1, "puts": 1}
        assert spent(lambda: things.delete_many({"n": {"$lt": 50}})) == {"gets": 1, "puts": 1}


def test_large_batches_are_staged(memory: str) -> None:
    settings = Settings(stage_bytes=10_000)
    with wormdb.connect(memory, clock=ManualClock(), settings=settings) as database:
        things, spent = database["things"], Meter(database)
        things.insert_many([{"id": number, "n": number, "text": "x" * 100} for number in range(100)])
        assert spent(lambda: things.update_many({}, {"$inc": {"n": 1}}))["puts"] > 3
        assert [document["n"] for document in things] == list(range(1, 101))
        assert spent(lambda: things.delete_many({"n": {"$gt": 10}}))["puts"] > 3
        assert [document["n"] for document in things] == list(range(1, 11))
        assert [change.op for change in things.get_history(50)] == ["create", "update", "delete"]
