"""A removal, broken off at every request, and with rivals before every request: old or gone, and never a lost write."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.sweeps.commits import World, database_on
from tests.engine.sweeps.test_sweep import Interrupted
from tests.maintenance.removal_rig import PATHS, SETTINGS, closing_entries, documents, filled, keys, logged, replayed
from wormdb.errors import NotFoundError, OutcomeUnknownError, RemovedError
from wormdb.storage.conditions import ensure_conditions
from wormdb.system.clock import SeededChance
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash
from wormdb.testing.sweep import SweepCase, sweep

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
STRIDE = int(os.environ.get("WORMDB_STRIDE", "5"))
"""Each fault comes at one in this many requests, and each rival before one, each at others; all of them with 1."""
_made: list[World] = []


@pytest.fixture(autouse=True, scope="module")
def _conditions() -> None:
    """The once-a-process question to the store is no part of an operation."""
    ensure_conditions(World(), SeededChance(0))


def make() -> World:
    if not _made:
        _made.append(filled())
    return _made[0].copy()


def drop(store: Store, *, wait: bool = False) -> int:
    result = database_on(store, **SETTINGS).drop("things", wait=wait)
    assert result is not None
    return result.number


def check_sound(world: World) -> None:
    """The collection is what its entries say, the one inside it was not touched, and nothing is wrong with either."""
    assert documents(world) == replayed(world)
    assert documents(world, "things/inner") == {"spared": None}
    database = database_on(world, seed=98, **SETTINGS)
    assert [found.findings for found in database.verify(["things", "things/inner"])] == [(), ()]


def check_made_anew(world: World) -> None:
    """What broke off is finished; the name is used again with greater numbers, and only new objects stay."""
    before = max(logged(world))
    database = database_on(world, seed=97, **SETTINGS)
    database.drop("things", missing_ok=True)
    assert "things/" not in database.collections()
    assert "things/inner/" in database.collections()
    # The same content as in the life before: a deletion that comes late must not hit its object.
    picture = database["things"].put_blob(b"x" * 100)
    new = database["things"].insert({"id": "new", "n": 1, "picture": picture})
    assert new.rev > before
    database["things"].forward()
    assert "things/" in database.collections()
    assert documents(world) == {"new": 1}
    check_sound(world)


def check_clean(world: World) -> None:
    """After garbage was collected nothing is left of a life that ended."""
    world.manual.advance(DAYS)
    database = database_on(world, seed=96, **SETTINGS)
    database["things"].forward()
    database.gc(["things"])
    world.manual.advance(DAYS)
    database.gc(["things"])
    last = closing_entries(world)[-1]
    assert not [key for key in keys(world) if key.startswith(PATHS.entries) and key <= PATHS.entry(last)]  # type: ignore[arg-type] # a number of the log
    assert len(keys(world, PATHS.blobs)) == 1
    check_sound(world)


def after(case: SweepCase[int]) -> None:
    world = case.inner
    assert isinstance(world, World)
    found = documents(world)
    assert found == replayed(world), case.label
    if case.error is None:
        assert found == {}, case.label
        assert closing_entries(world) == [case.result], case.label
    elif not isinstance(case.error, SimulatedCrash | OutcomeUnknownError) and not closing_entries(world):
        assert found, case.label
    check_made_anew(world)
    if case.store.land():  # what the first process sent lands in the new life
        check_sound(world)
        check_made_anew(world)
    check_clean(world)


@pytest.mark.parametrize("wait", [False, True])
def test_every_fault_at_every_request(wait: bool) -> None:
    faults = FAULTS[:4] if wait else FAULTS
    runs = sweep(make, lambda store: drop(store, wait=wait), after, faults=faults, page_keys=5, every=STRIDE)
    assert runs > 15 * len(faults) // STRIDE


# --- rivals ---


def write(database: Database) -> int | None:
    """The revision of a document that was acknowledged; None if it was refused."""
    try:
        return database["things"].insert({"n": 5}).rev
    except (OutcomeUnknownError, RemovedError):  # the former after a sleep: its slot was trimmed meanwhile
        return None


def drop_again(database: Database) -> None:
    database.drop("things", missing_ok=True)


def make_anew(database: Database) -> int | None:
    drop_again(database)
    return write(database)


def collect(database: Database) -> None:
    database.gc(["things"])


def collect_later(database: Database) -> None:
    database._clock.sleep(DAYS)
    database.gc(["things"])


def forward(database: Database) -> None:
    database["things"].forward()


def compact_loaded(database: Database) -> None:
    """A bulk load, which opens a job, writes blocks and attaches them."""
    try:
        database["things"].import_records([{"id": f"bulk{number}", "n": number} for number in range(20)])
    except RemovedError:
        return


RIVALS: dict[str, Callable[[Database], Any]] = {
    "write": write,
    "drop": drop_again,
    "make anew": make_anew,
    "gc": collect,
    "gc days later": collect_later,
    "forward": forward,
    "import": compact_loaded,
}


@pytest.mark.parametrize("is_warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("rival", RIVALS)
def test_a_rival_before_every_request(rival: str, is_warm: bool) -> None:
    number = 1 + [*RIVALS].index(rival) % STRIDE - STRIDE
    while True:
        number += STRIDE
        world = make()
        other = database_on(world, seed=11, **SETTINGS)
        told: list[int | None] = []
        if is_warm:
            assert other["things"].count() == 5
        store = Interrupted(world, number, lambda: told.append(RIVALS[rival](other)))  # noqa: B023 - called in this turn
        try:
            drop(store)
        except NotFoundError:
            assert rival in {"drop", "make anew"}
        if store.requests < number:
            assert number > 10
            return
        told.append(write(other))
        check_sound(world)
        for rev in told:
            if rev is not None:
                assert logged(world)[rev].batches, "an acknowledged write is in the log for good"
                is_there = rev in {each.rev for each in other["things"].find({})}
                assert is_there == (rev > closing_entries(world)[-1])
        check_made_anew(world)
        check_clean(world)


def test_a_write_that_slept_is_not_acknowledged_into_a_slot_of_the_old_log() -> None:
    """Whenever a process with an old view wakes up: its write is in the new life, refused, or of unknown outcome."""
    unknown = 0
    for place, seconds in enumerate((0, 30, 59, 61, 89, 91, 200, 4_000, DAYS)):
        for number in range(1 + place % STRIDE, 30, STRIDE):
            world = make()
            first = database_on(world, seed=12, **SETTINGS)
            assert first["things"].count() == 5
            drop(world)
            world.manual.advance(seconds)
            collect(database_on(world, seed=13, **SETTINGS))

            def sleep() -> None:
                world.manual.advance(seconds)  # noqa: B023 - called in this turn
                collect(database_on(world, seed=14, **SETTINGS))  # noqa: B023 - called in this turn

            store = Interrupted(world, number, sleep)
            late = database_on(store, seed=15, **SETTINGS)
            for database in (first, late):
                try:
                    rev = database["things"].insert({"n": 5}).rev
                except OutcomeUnknownError:
                    unknown += 1
                else:
                    assert rev > closing_entries(world)[-1]
            assert documents(world) == replayed(world)
            if store.requests < number:
                break
    assert unknown > 0


def transfer(database: Database) -> None:
    with database.transaction() as session:
        session["things"].insert({"id": "in", "n": 1})
        session["others"].insert({"id": "in", "n": 1})


def test_a_transaction_that_broke_off_anywhere_does_not_keep_a_collection_from_being_dropped() -> None:
    number = 0
    while True:
        number += 1
        world = make()
        database_on(world, seed=20, **SETTINGS)["others"].insert({"id": "first", "n": 0})
        store = FaultStore(world, {number: Fault.CRASH_AFTER})
        with suppress(SimulatedCrash):
            transfer(database_on(store, seed=21, **SETTINGS))
        world.manual.advance(120)
        other = database_on(world, seed=22, **SETTINGS)
        assert other.drop("things") is not None
        assert documents(world) == {}
        other["others"].save({"id": "first", "n": 2})
        assert documents(world, "others") in ({"first": 2}, {"first": 2, "in": 1})
        assert [found.findings for found in other.verify(["things", "others"])] == [(), ()]
        if store.requests < number:
            assert number > 5
            return
