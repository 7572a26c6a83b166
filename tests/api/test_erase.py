"""Erasing a document: nothing is left of it, whatever happens meanwhile, and nothing else changes."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.forward.compact_rig import compact_lists, rebuild_trees
from tests.engine.lists.rig import LOOSE, WORDS, with_kinds
from tests.engine.sweeps.commits import World, database_on
from tests.maintenance.rival_store import Before
from wormdb.engine.commit.define import create_index
from wormdb.engine.forward.compact import Aim
from wormdb.errors import ConflictError, ErasedError, InvalidRequestError, NotFoundError, WormError
from wormdb.testing.fault_store import Fault
from wormdb.testing.sweep import SweepCase, sweep

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.api.database import Database
    from wormdb.storage.store import Store

pytestmark = pytest.mark.usefixtures("remembered")

NAME = "things"
VICTIM = "b"
SECRET = "secret"
MANUAL: dict[str, Any] = {"forward": "manual", "block_bytes": 400, "forward_interval_ms": 0}
HOUR = 3_601
DAY = 25 * 3_600
FAULTS = (Fault.CRASH_AFTER, Fault.ANSWER_LOST, Fault.LANDS_LATE, Fault.UNAVAILABLE_503)
STRIDE = int(os.environ.get("WORMDB_STRIDE", "7"))
"""A rival acts before one in this many requests, and each fault comes at one, each at others; at all with 1."""


def opened(store: Store, seed: int = 1) -> Database:
    return database_on(store, seed=seed, **MANUAL)


@cache
def filled() -> World:
    """A document in an index, in two runs of documents and of history, in the log, and attached by a job."""
    world = World()
    database = database_on(world, seed=5, **{**MANUAL, "stage_bytes": 300})
    things = database[NAME]
    things.create_index("u", name="byU", unique=True)
    with_kinds()
    ledger = things._ledger
    for index in (WORDS, LOOSE):
        ledger.commit(create_index(ledger.batch_id(), index, seen=ledger.view()))
    with things.batch() as batch:
        for name in "abcde":
            batch.save({"id": name, "u": f"{name}{SECRET}" if name == VICTIM else f"{name}@", "pad": "x" * 60})
    things.forward()
    things.save({"id": VICTIM, "u": f"{SECRET}2", "text": f"red {SECRET}"})
    things.save({"id": "d", "u": "d2", "text": "red blue"})
    things.forward()
    things.save({"id": VICTIM, "u": f"{SECRET}3", "text": "red"})
    things.save({"id": "a", "u": "a2"})
    return world


def histories(database: Database, names: str = "acde") -> dict[str, Any]:
    return {name: [(each.seq, each.rev, each.op) for each in database[NAME].get_history(name)] for name in names}


def collected(world: World, database: Database, *steps: int) -> None:
    for seconds in steps:
        database[NAME].forward()
        database.gc([NAME])
        world.manual.advance(seconds)
    database.gc([NAME])


def left(database: Database) -> list[Any]:
    return [each for each in database.find_traces(NAME, VICTIM, values=[SECRET]) if not each.is_mention]


def check_unharmed(world: World, database: Database) -> None:
    before = opened(filled(), seed=90)
    things = database[NAME]
    assert histories(database) == histories(before)
    assert {each.id: each["u"] for each in things.find({"id": {"$ne": VICTIM}})} == {
        "a": "a2",
        "c": "c@",
        "d": "d2",
        "e": "e@",
    }
    (found,) = database.verify([NAME], unreferenced=True)
    assert found.findings == ()
    assert world is not filled()


# --- what it promises ---


def test_an_hour_after_the_log_was_forwarded_and_garbage_collected_nothing_is_left() -> None:
    world = filled().copy()
    database = opened(world)
    done = database[NAME].erase(VICTIM)
    assert done.is_forwarded
    assert done.wait_ms == 3_600_000
    assert left(database)
    collected(world, database, HOUR, HOUR)
    assert left(database) == []
    check_unharmed(world, database)


def test_no_read_finds_it_from_the_entry_on() -> None:
    database = opened(filled().copy())
    things = database[NAME]
    number = things._ledger.view().number
    things.erase(VICTIM)
    assert things.find_by_id(VICTIM) is None
    assert things.find_by_id(VICTIM, as_of=number) is None
    assert VICTIM not in {each.id for each in things.scan(as_of=number)}
    assert things.count({"u": f"{SECRET}3"}) == 0
    with pytest.raises(ErasedError, match="it was erased at"):
        things.get_history(VICTIM)


def test_a_process_that_has_not_forwarded_says_the_same() -> None:
    world = filled().copy()
    other = opened(world, seed=7)[NAME]
    number = other._ledger.view().number
    things = opened(Before(world, 10**9, lambda: None))[NAME]
    with suppress(WormError):
        commit_only(things)
    assert other.find_by_id(VICTIM) is None
    assert other.find_by_id(VICTIM, as_of=number) is None
    with pytest.raises(ErasedError):
        other.get_history(VICTIM)
    assert other.insert({"id": VICTIM, "u": f"{SECRET}3"}).rev > number
    assert [each.seq for each in other.get_history(VICTIM)] == [1]


def commit_only(things: Any) -> None:
    """The entry alone, as after a crash behind it."""
    from wormdb.engine.commit.operations import Remove
    from wormdb.format.event import DocumentErased

    things._access.commit_event(DocumentErased(id=b'"b"'), things._access.by(None, None), None, Remove(b'"b"'))


def test_a_document_that_never_was_is_refused_unless_that_is_fine() -> None:
    things = opened(filled().copy())[NAME]
    with pytest.raises(NotFoundError, match="never was"):
        things.erase("nothing")
    assert things.erase("nothing", missing_ok=True).number == 0
    things.erase(VICTIM)
    with pytest.raises(NotFoundError):
        things.erase(VICTIM)


def test_a_deleted_document_is_erased_too() -> None:
    world = filled().copy()
    database = opened(world)
    database[NAME].delete(VICTIM)
    database[NAME].erase(VICTIM)
    collected(world, database, HOUR, HOUR)
    assert left(database) == []


def test_a_transaction_cannot_erase() -> None:
    database = opened(filled().copy())
    with database.transaction() as tx, pytest.raises((InvalidRequestError, AttributeError)):
        tx[database[NAME]].erase(VICTIM)


def test_a_blob_of_its_own_goes_and_a_shared_one_stays() -> None:
    world = World()
    database = opened(world)
    things = database[NAME]
    own, shared = things.put_blob(b"of b alone"), things.put_blob(b"of both")
    things.insert({"id": VICTIM, "files": [own, shared]})
    things.insert({"id": "a", "file": shared})
    things.forward()
    things.erase(VICTIM)
    collected(world, database, HOUR, HOUR)
    names = {info.key for page in world.list(f"{NAME}/.worm.db/blobs/") for info in page.objects}
    assert len(names) == 1
    assert left(database) == []


def test_an_offer_of_an_entry_that_is_trimmed_goes() -> None:
    world = filled().copy()
    database = opened(world)
    world.put(f"{NAME}/.worm.db/offers/{1:020d}-{'0' * 32}", world.get(f"{NAME}/.worm.db/committed/{2:020d}").body)
    database[NAME].erase(VICTIM)
    collected(world, database, HOUR, HOUR)
    assert left(database) == []


# --- what others do meanwhile ---


@cache
def forwarded() -> World:
    world = filled().copy()
    opened(world)[NAME].forward()
    return world


@pytest.mark.parametrize("work", [compact_lists, rebuild_trees])
def test_what_was_made_of_a_root_before_it_is_not_named_after_it(work: Callable[..., object]) -> None:
    aim = Aim(bytes_target=100_000, everything=True)
    for number in range(2, 200, 3):
        world = forwarded().copy()
        database = opened(world)
        store = Before(world, number, lambda things=database[NAME]: things.erase(VICTIM))  # type: ignore[misc]  # the default binds it now
        with suppress(ConflictError):
            work(opened(store, seed=9)[NAME]._ledger, aim)
        if not store.has_acted:
            assert number > 10
            return
        assert database[NAME].find_by_id(VICTIM) is None
        assert database[NAME].count({"u": f"{SECRET}3"}) == 0
        collected(world, database, DAY, DAY, DAY)
        assert left(database) == [], number
        check_unharmed(world, database)
    raise AssertionError("it did not end")


RIVALS: dict[str, Callable[[Database], object]] = {
    "forward": lambda database: database[NAME].forward(),
    "gc": lambda database: database.gc([NAME]),
    "save": lambda database: database[NAME].save({"id": VICTIM, "u": "again"}),
    "erase": lambda database: database[NAME].erase(VICTIM, missing_ok=True),
}


@pytest.mark.parametrize("rival", RIVALS)
def test_whatever_a_rival_does_at_any_request_the_document_before_is_gone(rival: str) -> None:
    for number in range(1, 400, STRIDE):
        world = filled().copy()
        store = Before(world, number, lambda world=world: RIVALS[rival](opened(world, seed=3)))  # type: ignore[misc]  # the default binds it now
        with suppress(NotFoundError):
            opened(store).__getitem__(NAME).erase(VICTIM)
        database = opened(world, seed=4)
        collected(world, database, DAY, DAY, DAY)
        found = database[NAME].find_by_id(VICTIM)
        if found is None:
            assert left(database) == []
        else:
            assert (rival, found["u"]) == ("save", "again"), number
            assert [each.seq for each in database[NAME].get_history(VICTIM)] == [1]
            assert not [each for each in database.find_traces(NAME, "-", values=[SECRET]) if not each.is_mention]
        check_unharmed(world, database)
        if not store.has_acted:
            return
    raise AssertionError("it did not end")


def test_after_a_fault_at_any_request_the_next_call_does_the_rest() -> None:
    def check(case: SweepCase[Any]) -> None:
        world = case.inner
        assert isinstance(world, World)
        database = opened(world, seed=6)
        with suppress(NotFoundError):
            database[NAME].erase(VICTIM, missing_ok=True)
        collected(world, database, DAY, DAY, DAY)
        assert left(database) == [], case.label
        check_unharmed(world, database)

    def erase(store: Store) -> object:
        return opened(store)[NAME].erase(VICTIM)

    runs = sweep(lambda: filled().copy(), erase, check, faults=FAULTS, page_keys=1000, every=STRIDE)
    assert runs > len(FAULTS) * 10 // STRIDE


# --- against a model ---


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["save", "save", "delete", "erase", "forward", "gc", "batch", "erase"]), st.sampled_from("abc")
    ),
    max_size=14,
)


@settings(max_examples=40)
@given(STEPS)
def test_every_document_has_the_history_since_it_was_erased(steps: list[tuple[str, str]]) -> None:
    world = World()
    database = database_on(world, seed=5, **{**MANUAL, "stage_bytes": 120})
    things = database[NAME]
    expected: dict[str, list[str]] = {}
    erased: set[str] = set()
    for turn, (kind, name) in enumerate(steps):
        lives = expected.setdefault(name, [])
        is_alive = bool(lives) and lives[-1] != "delete"
        if kind == "save":
            things.save({"id": name, "v": f"{name}-{turn}"})
            lives.append("update" if is_alive else "create")
        elif kind == "batch":
            with things.batch() as batch:
                for each in (name, f"{name}{name}"):
                    batch.save({"id": each, "v": f"{each}-{turn}", "pad": "x" * 100})
                    told = expected.setdefault(each, [])
                    told.append("update" if told and told[-1] != "delete" else "create")
        elif kind == "delete" and is_alive:
            things.delete(name)
            lives.append("delete")
        elif kind == "erase":
            number = things.erase(name, missing_ok=True).number
            assert bool(number) == bool(lives)
            erased |= {name} if lives else set()
            lives.clear()
        elif kind == "forward":
            things.forward()
        elif kind == "gc":
            world.manual.advance(HOUR)
            database.gc([NAME])
        check_histories(database, expected, erased)
    things.forward()
    check_histories(database, expected, erased)
    collected(world, database, HOUR, HOUR, HOUR)
    check_histories(database, expected, erased)
    for name in (each for each in erased if not expected[each]):
        assert [each for each in database.find_traces(NAME, name) if not each.is_mention] == []
    (found,) = database.verify([NAME])
    assert found.findings == ()


def check_histories(database: Database, expected: dict[str, list[str]], erased: set[str]) -> None:
    for name, ops in expected.items():
        if name in erased and not ops:
            with pytest.raises(ErasedError):
                database[NAME].get_history(name)
        else:
            assert [(each.seq, each.op) for each in database[NAME].get_history(name)] == list(enumerate(ops, 1))
