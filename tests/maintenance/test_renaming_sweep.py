"""A rename, broken off at every request, and with rivals before every request: one of the names is the collection."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.sweeps.commits import World, database_on
from tests.engine.sweeps.test_sweep import Interrupted
from tests.maintenance.removal_rig import SETTINGS, documents, filled, keys, logged
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    OutcomeUnknownError,
    RemovedError,
    UnavailableError,
    WormError,
)
from wormdb.format import json
from wormdb.format.event import CollectionClosed
from wormdb.storage.conditions import ensure_conditions
from wormdb.system.clock import SeededChance
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.api.database import Database
    from wormdb.storage.store import Store

pytestmark = pytest.mark.usefixtures("remembered")

FAULTS = (
    *(Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.ANSWER_LOST, Fault.LANDS_LATE),
    *(Fault.UNAVAILABLE_503, Fault.CONFLICT_409, Fault.TORN_LIST, Fault.STALE_LIST),
)
DAYS = 3 * 24 * 3_600
NAMES = ("things", "others", "third")
_made: list[World] = []


@pytest.fixture(autouse=True, scope="module")
def _conditions() -> None:
    """The once-a-process question to the store is no part of an operation."""
    ensure_conditions(World(), SeededChance(0))


def make() -> World:
    if not _made:
        _made.append(filled())
    return _made[0].copy()


def rename(store: Store, new: str = "others", seed: int = 7) -> int:
    return database_on(store, seed=seed, **SETTINGS).rename("things", new).number


# --- what entries mean, by nothing that the engine stored beside them ---


def replayed(world: World) -> dict[str, dict[str, Any]]:
    """The documents of each name after all entries that were ever written."""
    states: dict[str, dict[str, Any]] = {name: {} for name in NAMES}
    _replay(world, "things", states)
    for name in NAMES[1:]:
        _replay(world, name, states)
    return states


def _replay(world: World, name: str, states: dict[str, dict[str, Any]]) -> None:
    for entry in logged(world, f"{name}/").values():
        for event in entry.events:
            if isinstance(event, CollectionClosed) and event.source is None:
                for follower in event.follows:
                    states[follower.rstrip("/")] = states[name]
                states[name] = {}
        for batch in entry.batches:
            for change in batch.changes:
                identity = json.decode(change.id, name="id")
                states[name].pop(identity, None)
                if change.after is not None:
                    states[name][identity] = json.decode_document(change.after, name="document").get("n")


def found_in(world: World) -> dict[str, dict[str, Any]]:
    """What a new process finds under each name."""
    return {name: documents(world, name) for name in NAMES}


def check_sound(world: World) -> None:
    """Each name has what entries say, at most one of them has what was there first, and nothing is wrong with any."""
    found = found_in(world)
    assert found == replayed(world)
    assert sum("t1" in each for each in found.values()) <= 1
    database = database_on(world, seed=98, **SETTINGS)
    assert [one.findings for one in database.verify(NAMES)] == [(), (), ()]
    assert documents(world, "things/inner") == {"spared": None}


def check_finished(world: World) -> None:
    """The same call does the rest: then the new name has all, the old one is free, and garbage goes."""
    database = database_on(world, seed=97, **SETTINGS)
    whole = replayed(world)
    with suppress(NotFoundError, AlreadyExistsError):  # it was done to the end
        database.rename("things", "others")
    assert documents(world, "others") == (whole["things"] if "t1" in whole["things"] else whole["others"])
    assert "t1" not in documents(world, "things")
    check_sound(world)
    others = database["others"]
    with others.open_blob(next(iter(others.find({"_id": "blob"})))["picture"]) as picture:
        assert picture.read() == b"x" * 100
    assert [version.rev for version in others.get_history("t0")][:2] == [2, 3]
    assert others.insert({"id": "behind", "n": 1}).rev > 7
    others.forward()
    check_sound(world)


def check_clean(world: World) -> None:
    """Days later nothing but a root is left of the old name, and every object of the new one is needed."""
    database = database_on(world, seed=96, **SETTINGS)
    for _ in range(3):
        world.manual.advance(DAYS)
        database["others"].forward()
        database.gc(["things", "others"])
    left = set(keys(world)) - {"things/.worm.db/block0", "things/.worm.db/gc"}
    assert not left
    (found,) = database.verify(["others"], unreferenced=True)
    assert found.findings == ()


STRIDE = int(os.environ.get("WORMDB_STRIDE", "9"))
"""One request in this many is broken, at other ones for each fault."""


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_at_every_request(fault: Fault) -> None:
    number = FAULTS.index(fault) % STRIDE
    while True:
        number += 1
        if number % STRIDE and STRIDE > 1:
            continue
        world = make()
        store = FaultStore(world, {number + FAULTS.index(fault): fault}, page_keys=50)
        try:
            rename(store)
            assert "t1" in documents(world, "others")
        except (WormError, SimulatedCrash):
            assert store.fired
        check_sound(world)
        check_finished(world)
        if store.land():  # what the first process sent lands when all is done
            check_sound(world)
        if number % 2:
            check_clean(world)
        if store.requests < number:
            assert number > 60
            return


# --- rivals ---

REFUSALS = (AlreadyExistsError, InvalidRequestError, NotFoundError, OutcomeUnknownError, UnavailableError)
"""RemovedError among them, of a name that has ended, or is taken and not there yet."""


def insert(database: Database, name: str) -> tuple[str, int] | None:
    """The name and revision of a document that was acknowledged; None if it was refused."""
    try:
        return name, database[name].insert({"n": 5}).rev
    except (OutcomeUnknownError, RemovedError):  # the former after a sleep: its slot was trimmed meanwhile
        return None


def rename_too(database: Database, new: str) -> None:
    with suppress(*REFUSALS):
        database.rename("things", new)


def drop(database: Database, name: str) -> None:
    with suppress(ConflictError):  # the rename came through in that moment
        database.drop(name, missing_ok=True)


def collect_later(database: Database) -> None:
    database._clock.sleep(DAYS)
    for name in NAMES:
        database[name].forward()
    database.gc(NAMES)


def load(database: Database) -> None:
    """A bulk load, which opens a job, writes blocks and attaches them."""
    with suppress(RemovedError):
        database["things"].import_records([{"id": f"bulk{number}", "n": number} for number in range(3)])


def transfer(database: Database) -> None:
    with suppress(RemovedError), database.transaction() as session:
        session["things"].insert({"n": 1})
        session["third"].insert({"n": 1})
    database["third"].forward()  # what committed is an entry then


def erase(database: Database) -> None:
    with suppress(RemovedError, NotFoundError):
        database["things"].erase("t2")


RIVALS: dict[str, Callable[[Database], Any]] = {
    "write": lambda database: insert(database, "things"),
    "write to the new name": lambda database: insert(database, "others"),
    "rename": lambda database: rename_too(database, "others"),
    "rename to another name": lambda database: rename_too(database, "third"),
    "drop": lambda database: drop(database, "things"),
    "drop the new name": lambda database: drop(database, "others"),
    "gc days later": collect_later,
    "import": load,
    "transaction": transfer,
    "erase": erase,
}


@pytest.mark.parametrize("rival", RIVALS)
def test_a_rival_before_every_request(rival: str) -> None:
    number = list(RIVALS).index(rival) % STRIDE + 1
    while True:
        world = make()
        other = database_on(world, seed=11, **SETTINGS)
        assert other["things"].count() == 5
        assert other["others"].count() == 0, "it knows that the name is free, for a minute"
        told: list[tuple[str, int] | None] = []
        store = Interrupted(world, number, lambda: told.append(RIVALS[rival](other)))  # noqa: B023 - called in this turn
        with suppress(*REFUSALS):
            rename(store)
        if store.requests < number:
            assert number > 60
            return
        told += [insert(other, "things"), insert(other, "others")]
        check_sound(world)
        for name, rev in [each for each in told if each is not None]:
            assert logged(world, f"{name}/")[rev].batches, "an acknowledged write is in the log for good"
        number += STRIDE
