"""Statistics come into the root by one swap: with faults and with others at every request of it."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.forward.compact_rig import compact_lists
from tests.engine.sweeps.commits import World, database_on, state_of
from tests.engine.sweeps.test_sweep import Interrupted
from wormdb.engine.forward.analysis import changes_through, fitting_statistics, publish_statistics
from wormdb.engine.forward.compact import Aim
from wormdb.engine.log.paths import EnginePaths
from wormdb.engine.log.root import Register
from wormdb.errors import ConflictError, OutcomeUnknownError, UnavailableError
from wormdb.format.field_statistics import FieldStatistics, decode_field_statistics
from wormdb.testing.fault_store import Fault, SimulatedCrash
from wormdb.testing.sweep import SweepCase, sweep

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.engine.ledger import Ledger
    from wormdb.format.root import Root
    from wormdb.storage.store import Store

COLLECTION = "things/"
PATHS = EnginePaths.of_collection(COLLECTION)
MANUAL: dict[str, Any] = {"forward": "manual", "block_bytes": 400, "forward_interval_ms": 0}
FAULTS = [fault for fault in Fault if fault is not Fault.RACE_412]
"""A rival of that kind writes what is no root; those who write roots come below."""
OLD = FieldStatistics(path="n", number=1, rows=3)
NEW = FieldStatistics(path="n", number=5, rows=4)


def ledger_on(store: Store, seed: int = 1) -> Ledger:
    return database_on(store, seed=seed, **MANUAL)["things"]._ledger


def root_of(store: Store) -> Root:
    root = Register(store, PATHS, COLLECTION).read().root
    assert root is not None
    return root


def known(store: Store) -> tuple[FieldStatistics, ...]:
    return decode_field_statistics(root_of(store).statistics)


def publish(store: Store, *fields: FieldStatistics, is_whole: bool = False, seed: int = 1) -> None:
    ledger = ledger_on(store, seed)
    incarnation = root_of(prepared()).collection
    publish_statistics(ledger._register, ledger.writer, incarnation, fields, is_whole=is_whole)


@lru_cache(maxsize=1)
def prepared() -> World:
    """Four documents in blocks and one in the tail; what was known of a field is old."""
    world = World()
    things = database_on(world, seed=5, **MANUAL)["things"]
    for number in range(4):
        things.save({"id": f"d{number}", "n": number})
        things.forward()
    things.save({"id": "d0", "n": 9})
    ledger = things._ledger
    collection = root_of(world).collection
    publish_statistics(ledger._register, ledger.writer, collection, (OLD,), is_whole=True)
    return world


def test_every_fault_at_every_request() -> None:
    before = state_of(prepared().copy(), "things")

    def check(case: SweepCase[None]) -> None:
        world = case.inner
        assert state_of(world, "things") == before, case.label
        assert known(world) in ((OLD,), (NEW,)), case.label
        if case.error is None:
            assert known(world) == (NEW,), case.label
        else:
            assert isinstance(case.error, UnavailableError | OutcomeUnknownError | SimulatedCrash), case.label
        assert isinstance(world, World)
        again = world.copy()
        publish(again, NEW, seed=7)
        ledger_on(again, seed=8).forward()
        assert known(again) == (NEW,), case.label
        assert state_of(again, "things") == before, case.label

    runs = sweep(lambda: prepared().copy(), lambda store: publish(store, NEW), check, faults=FAULTS)
    assert runs > 20


RIVALS: dict[str, Callable[[World], object]] = {
    "forwarder": lambda world: ledger_on(world, seed=11).forward(),
    "compactor": lambda world: compact_lists(ledger_on(world, seed=11), Aim(400, everything=True)),
    "older": lambda world: publish(world, OLD, FieldStatistics(path="m", number=2, rows=1), seed=11),
    "newer": lambda world: publish(world, FieldStatistics(path="n", number=6, rows=7), seed=11),
}


@pytest.mark.parametrize("rival", RIVALS)
def test_somebody_else_before_every_request(rival: str) -> None:
    before = state_of(prepared().copy(), "things")
    for number in range(1, 20):
        world = prepared().copy()
        store = Interrupted(world, number, partial(RIVALS[rival], world))
        publish(store, NEW)
        by_path = {field.path: field for field in known(world)}
        came = store.requests >= number
        assert by_path["n"].number == (6 if came and rival == "newer" else 5), number
        assert ("m" in by_path) == (came and rival == "older")
        assert state_of(world, "things") == before
        if not came:
            return
    raise AssertionError("it does not end")


def test_what_forwards_and_compacts_carries_them_over() -> None:
    world = prepared().copy()
    publish(world, NEW)
    ledger = ledger_on(world, seed=3)
    ledger.forward()
    assert compact_lists(ledger, Aim(4_000, everything=True))
    assert known(world) == (NEW,)


def test_the_same_again_writes_nothing() -> None:
    world = prepared().copy()
    publish(world, NEW)
    revision = root_of(world).revision
    publish(world, NEW)
    publish(world, OLD)
    assert root_of(world).revision == revision


def test_a_collection_that_was_made_anew_is_refused() -> None:
    world = prepared().copy()
    ledger = ledger_on(world)
    with pytest.raises(ConflictError, match="made anew"):
        publish_statistics(ledger._register, ledger.writer, "0" * 32, (NEW,), is_whole=True)
    assert known(world) == (OLD,)


def test_changes_are_counted_before_and_after_forwarding() -> None:
    world = prepared().copy()
    ledger = ledger_on(world)
    assert (root_of(world).changes, changes_through(ledger.view())) == (4, 5)
    ledger.forward()
    assert (root_of(world).changes, changes_through(ledger.view())) == (5, 5)


def test_too_many_changes_make_them_useless() -> None:
    view = ledger_on(prepared().copy()).view()
    taken = [FieldStatistics(path=str(changes), number=2, rows=4, changes=changes) for changes in range(6)]
    assert sorted(fitting_statistics(view, taken)) == ["4", "5"]
    assert fitting_statistics(view, [FieldStatistics(path="n", number=2, rows=0, changes=5)]) == {}
