"""What each call costs in requests, as it is promised: a change that makes one dearer fails here."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from wormdb.settings import Settings
from wormdb.storage.conditions import forget_conditions
from wormdb.storage.memory import drop_memory
from wormdb.system.clock import ManualClock
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.api.database import Database
    from wormdb.storage.meter import Usage

NAME = "requests-of-calls"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(autouse=True)
def _bucket(clock: ManualClock) -> Iterator[None]:
    """A bucket that was written to before, so that the store has been asked about its preconditions."""
    with connect(clock) as database:
        database["other"].insert({})
    yield
    drop_memory(NAME)


def connect(clock: ManualClock, **options: Any) -> Database:
    return wormdb.connect(f"memory://{NAME}", clock=clock, **options)


class Spent:
    """What was used inside the block."""

    usage: Usage

    def __eq__(self, other: object) -> bool:
        used = self.usage
        counts = {
            "gets": used.gets,
            "puts": used.puts,
            "lists": used.lists,
            "heads": used.heads,
            "deletes": used.deletes,
        }
        return {name: count for name, count in counts.items() if count} == other

    def __hash__(self) -> int:
        raise NotImplementedError

    def __repr__(self) -> str:
        return repr(self.usage)


@contextmanager
def spending(database: Database) -> Iterator[Spent]:
    spent, mark = Spent(), database.cost()
    yield spent
    spent.usage = database._metered.since(mark)


def test_a_commit_in_a_warm_process_is_one_put(clock: ManualClock) -> None:
    with connect(clock) as database:
        things = database["things"]
        document = things.insert({"id": "a", "n": 1})
        with spending(database) as spent:
            things.insert({"n": 1})
        assert spent == {"puts": 1}
        with spending(database) as spent:
            things.insert({"id": "given", "n": 1})
        assert spent == {"puts": 1}
        document["n"] = 2
        with spending(database) as spent:
            things.save(document)
        assert spent == {"puts": 1}
        with spending(database) as spent:
            things.save({"id": "a", "n": 3})
        assert spent == {"puts": 1}
        with spending(database) as spent:
            things.insert_many({"n": number} for number in range(1_000))
        assert spent == {"puts": 1}
        with spending(database) as spent, things.batch() as batch:
            batch.insert({"id": "b"}).update({"id": "a", "n": 4}).delete("given")
        assert spent == {"puts": 1}
        with spending(database) as spent:
            things.delete("a")
        assert spent == {"puts": 1}


def test_what_needs_no_write_costs_none(clock: ManualClock) -> None:
    with connect(clock) as database:
        things = database["things"]
        document = things.insert({"id": "a", "n": 1})
        with spending(database) as spent:
            things.save(document)
        assert spent == {"gets": 1}, "it is looked up: somebody may have changed it"
        with spending(database) as spent:
            things.modify("a", lambda it: it)
        assert spent == {"gets": 1}
        with spending(database) as spent:
            things.create({"n": 1})
            things.insert_many([])
            things.batch().insert({"n": 1}).discard()
        assert spent == {}
        with spending(database) as spent:
            things.delete("nothing")
        assert spent == {"gets": 1}


def test_a_refusal_in_a_warm_process_is_one_get(clock: ManualClock) -> None:
    with connect(clock) as database:
        things = database["things"]
        things.insert({"id": "a"})
        with spending(database) as spent, pytest.raises(wormdb.AlreadyExistsError):
            things.insert({"id": "a"})
        assert spent == {"gets": 1}


def test_opening_costs_nothing_and_the_first_read_two_gets(clock: ManualClock) -> None:
    with connect(clock) as database:
        database["things"].insert({"id": "a"})
        database["things"].forward()
    with connect(clock) as database:
        things = database["things"]
        assert database.cost().requests == 0
        with spending(database) as spent:
            assert things.count() == 1
        assert spent == {"gets": 2}
        with spending(database) as spent:
            assert things.find_by_id("a") == {"id": "a"}
        assert spent == {"gets": 3}, "the tail, the block's sidecar once, and one page"
        with spending(database) as spent:
            assert things.find_by_id("a") == {"id": "a"}
        assert spent == {"gets": 1}, "the tail: the page is in the cache"


def test_a_strong_read_in_a_warm_process_is_one_get(clock: ManualClock) -> None:
    with connect(clock) as database:
        things = database["things"]
        things.insert({"id": "a"})
        things.forward()
        things.find_by_id("a")
        list(things)
        for read in (lambda: things.find_by_id("a"), lambda: things.exists("x"), things.count, lambda: list(things)):
            with spending(database) as spent:
                read()
            assert spent == {"gets": 1}


def test_a_read_that_may_be_stale_costs_nothing(clock: ManualClock) -> None:
    with connect(clock, settings=Settings(staleness_ms=1_000)) as database:
        things = database["things"]
        things.insert({"id": "a"})
        things.count()
        with spending(database) as spent:
            assert things.find_by_id("a") is not None
            assert things.count() == len(list(things)) == 1
        assert spent == {}
        clock.advance(1)
        with spending(database) as spent:
            things.count()
        assert spent == {"gets": 1}


@pytest.mark.parametrize("tail", [0, 1, 2, 3, 7, 8, 30, 63, 64, 100, 200])
def test_a_tail_of_k_entries_adds_k_gets_and_at_most_as_many_misses(clock: ManualClock, tail: int) -> None:
    with connect(clock) as writer:
        for number in range(tail):
            writer["things"].insert({"n": number})
    seen: list[str] = []
    with connect(clock, hook=lambda request: seen.append(request.key)) as reader:
        assert reader["things"].count() == tail
        used = reader.cost()
        assert (used.requests, used.lists) == (used.gets, 0)
        misses = used.gets - 1 - tail
        assert 1 <= misses <= tail + 1
        assert len(set(seen)) == len(seen), "no number is asked for twice"


def test_a_tail_of_k_entries_is_read_in_about_log_k_rounds(clock: ManualClock) -> None:
    with connect(clock) as writer:
        for number in range(60):
            writer["things"].insert({"n": number})
        rounds = list(writer["things"]._ledger._log.rounds(LogNumber(0)))
    assert len(rounds) <= math.log2(60) + 1


@pytest.mark.parametrize("unique", [0, 1, 2, 3])
@pytest.mark.parametrize("is_in_block", [False, True])
def test_a_cold_save_with_u_unique_fields(clock: ManualClock, unique: int, is_in_block: bool) -> None:
    fields = {f"f{number}": {"field": f"f{number}", "unique": True} for number in range(unique)}
    schema = {
        "schemaVersion": "1.0",
        "sourceOfTruth": "local",
        "models": {"Thing": {"path": "@things/(id:uuid)", "indexes": fields}},
    }
    with connect(clock, schema=schema) as database:
        database.model("Thing").insert(dict.fromkeys(fields, 1))
        if is_in_block:
            database.model("Thing").forward()
    with connect(clock, schema=schema) as database:
        with spending(database) as spent:
            database.model("Thing").save(dict.fromkeys(fields, 2))
        assert spent.usage.puts == 1
        assert spent.usage.requests <= 3 + 2 * unique + (0 if is_in_block else 2), spent
        assert spent.usage.lists == 0


def test_the_first_write_of_a_process_asks_the_store_once(clock: ManualClock) -> None:
    forget_conditions()
    with connect(clock) as database:
        with spending(database) as spent:
            database["things"].count()
        assert spent == {"gets": 2}, "readers never ask"
        with spending(database) as spent:
            database["things"].insert({})
        assert spent == {"puts": 5, "gets": 1, "deletes": 1}
        with spending(database) as spent:
            database["others"].insert({})
        assert spent == {"gets": 2, "puts": 1}


def test_a_first_write_with_a_schema_publishes_it(clock: ManualClock) -> None:
    schema = {"schemaVersion": "1.0", "sourceOfTruth": "local", "models": {"Thing": {"path": "@things/(id:uuid)"}}}
    with connect(clock, schema=schema) as database:
        with spending(database) as spent:
            database.model("Thing").insert({})
        assert spent == {"gets": 3, "puts": 2}
        with spending(database) as spent:
            database.model("Thing").insert({})
        assert spent == {"puts": 1}


def test_a_modify_in_a_warm_process_is_one_get_and_one_put(clock: ManualClock) -> None:
    with connect(clock) as database:
        database["things"].insert({"id": "a", "n": 1})
        with spending(database) as spent:
            database["things"].modify("a", lambda document: document | {"n": 2})
        assert spent == {"gets": 1, "puts": 1}


def test_watching_costs_a_get_an_entry_and_one_for_the_end(clock: ManualClock) -> None:
    with connect(clock) as database:
        things = database["things"]
        for number in range(3):
            things.insert({"n": number})
        with spending(database) as spent:
            assert len(list(things.watch())) == 3
        assert spent.usage.gets <= 2 * 3 + 1 + 1
        assert spent.usage.requests == spent.usage.gets


def test_what_it_cost_is_told_in_dollars_too(clock: ManualClock) -> None:
    with connect(clock) as database:
        database["things"].insert({"n": 1})
        used = database.cost()
    assert used.bytes_up > 0
    assert used.dollars == 0.0, "memory is free"
