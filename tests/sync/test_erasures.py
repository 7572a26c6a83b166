"""Documents that were erased on one side of a sync: the other side has nothing of them either, whichever way."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.sync.databases import NAME, Copy, Databases
from tests.sync.test_sweep import QUICK, Interrupted
from wormdb.errors import ErasedError, WormError
from wormdb.testing.fault_store import FaultStore, SimulatedCrash

if TYPE_CHECKING:
    from pathlib import Path

    from wormdb.api.database import Database

SECRET = "secret"
HOUR = 3_601
STRIDE = int(os.environ.get("WORMDB_STRIDE", "19"))
"""Of this many requests one is tried; all of them with 1."""


def victim(database: Database, world: Databases) -> str:
    """A document with versions, whose id and values are found by a search of every object."""
    found = world.insert(database, v=f"{SECRET}-1")
    database[NAME].save({"id": found, "v": f"{SECRET}-2"})
    return found


def begun(root: Path) -> tuple[Databases, str]:
    """The bucket and both folders have some documents, one of which is to go."""
    world = Databases(root)
    a = world.copies["a"]
    a.insert()
    with a.database() as database:
        chosen = victim(database, world)
        database.forward()
    a.insert()
    a.push()
    world.copies["b"].pull()
    return world, chosen


def erase(world: Databases, database: Database, identity: str) -> None:
    database[NAME].erase(identity)
    world.written.discard(identity)


def clean(world: Databases) -> None:
    """Garbage is collected everywhere until all times are over."""
    for _ in range(4):
        for database in (world.bucket(), *(copy.database() for copy in world.copies.values())):
            with database:
                database[NAME].forward()
                database.gc([NAME])
        world.clock.advance(25 * HOUR)


def check_gone(world: Databases, *identities: str) -> None:
    world.check()
    clean(world)
    world.check()
    for database in (world.bucket(), *(copy.database() for copy in world.copies.values())):
        with database:
            for identity in identities:
                left = database.find_traces(NAME, identity, values=[SECRET])
                assert [each for each in left if not each.is_mention] == []


@pytest.fixture
def started(tmp_path: Path) -> tuple[Databases, str]:
    return begun(tmp_path)


def test_an_erasure_is_pushed_and_pulled(started: tuple[Databases, str]) -> None:
    world, chosen = started
    with world.copies["a"].database() as database:
        erase(world, database, chosen)
    assert [each.verb for each in world.copies["a"].push().collections] == ["pushed"]
    with world.bucket() as database, pytest.raises(ErasedError):
        database[NAME].get_history(chosen)
    check_gone(world, chosen)


def test_an_erasure_in_the_bucket_is_pulled_also_after_its_log_is_gone(started: tuple[Databases, str]) -> None:
    world, chosen = started
    with world.bucket() as database:
        erase(world, database, chosen)
        for _ in range(2):
            world.clock.advance(HOUR)
            database.gc([NAME])
    assert [each.verb for each in world.copies["a"].pull().collections] == ["pulled"]
    check_gone(world, chosen)


def test_an_erasure_is_committed_behind_what_others_wrote(started: tuple[Databases, str]) -> None:
    world, chosen = started
    world.insert_there()
    with world.bucket() as database:
        database[NAME].save({"id": chosen, "v": f"{SECRET}-3"})
    with world.copies["a"].database() as database:
        own = victim(database, world)
        database[NAME].save({"id": chosen, "v": f"{SECRET}-4"})
        erase(world, database, chosen)
        erase(world, database, own)
    world.copies["a"].insert()
    (done,) = world.copies["a"].push(rebase=True).collections
    assert (done.verb, done.conflicts) == ("rebased", [])
    assert not list((world.copies["a"].folder / ".worm.sync").rglob("*.jsonl"))
    with world.bucket() as database:
        assert not [each for each in database.find_traces(NAME, own) if not each.is_mention], "it never came there"
    check_gone(world, chosen, own)


def test_what_was_inserted_again_behind_an_erasure_stays(started: tuple[Databases, str]) -> None:
    world, chosen = started
    world.insert_there()
    with world.copies["a"].database() as database:
        erase(world, database, chosen)
        database[NAME].insert({"id": chosen, "v": "other"})
        world.written.add(chosen)
    world.copies["a"].push(rebase=True)
    check_gone(world)
    with world.bucket() as database:
        assert [each.seq for each in database[NAME].get_history(chosen)] == [1]
        assert not [each for each in database.find_traces(NAME, "-", values=[SECRET]) if not each.is_mention]


def test_a_log_that_an_erasure_trimmed_before_it_was_pushed_says_what_to_do(started: tuple[Databases, str]) -> None:
    world, chosen = started
    with world.copies["a"].database() as database:
        erase(world, database, chosen)
        for _ in range(2):
            world.clock.advance(HOUR)
            database.gc([NAME])
    with world.copies["a"].open() as sync:
        (found,) = sync.push_changed().collections
    assert found.verb == "failed"
    assert "erase it in the bucket too" in (found.reason or "")


# --- sweeps ---


def parted(root: Path) -> tuple[Databases, str]:
    world, chosen = begun(root)
    world.insert_there()
    with world.copies["a"].database() as database:
        erase(world, database, chosen)
        world.insert(database)
    return world, chosen


def rebase(copy: Copy, store: Any) -> None:
    try:
        with copy.open(store) as sync:
            sync.push_changed(rebase=True)
    except (WormError, SimulatedCrash):
        pass


@pytest.mark.parametrize("fault", QUICK)
def test_a_fault_at_every_request_of_a_rebase(fault: Any, tmp_path: Path) -> None:
    for number in range(1 + QUICK.index(fault) * 5 % STRIDE, 120, STRIDE):
        world, chosen = parted(tmp_path / str(number))
        store = FaultStore(world.handle(), {number: fault})
        rebase(world.copies["a"], store)
        store.land()
        check_gone(world, chosen)
        if store.requests < number:
            return
    raise AssertionError("it does not end")


def test_a_writer_of_the_document_before_every_request_of_a_rebase(tmp_path: Path) -> None:
    for number in range(1, 120, STRIDE):
        world, chosen = parted(tmp_path / str(number))

        def act(world: Databases = world, chosen: str = chosen) -> None:
            with world.bucket() as database:
                if database[NAME].find_by_id(chosen) is not None:
                    database[NAME].save({"id": chosen, "v": f"{SECRET}-9"})

        store = Interrupted(world.handle(), number, act)
        rebase(world.copies["a"], store)
        check_gone(world, chosen)
        if store.requests < number:
            return
    raise AssertionError("it does not end")
