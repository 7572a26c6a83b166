"""Records of transactions go an hour after all of them are finished, behind a floor that was raised first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engine.transact.bank import FIRST, NAMES, Bank, balances
from wormdb.engine.log.paths import TRANSACTION_FLOOR, transaction_key
from wormdb.errors import OutcomeUnknownError, WormError
from wormdb.format.transaction import decode_floor
from wormdb.maintenance.gc.transactions import collect_records
from wormdb.settings import TRANSACTION_RECORD_MS
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash

if TYPE_CHECKING:
    from wormdb.storage.store import Store

EAST, WEST = NAMES
HOUR = TRANSACTION_RECORD_MS / 1000 + 1


def collect(bank: Bank, store: Store | None = None, *, dry_run: bool = False) -> int:
    return collect_records(bank.process(store).runtime, lambda: [EAST], dry_run=dry_run)


def records(bank: Bank) -> list[str]:
    return [key for key in bank.keys(".worm.tx/") if key != TRANSACTION_FLOOR]


def floor(bank: Bank) -> str:
    return decode_floor(bank.store.get(TRANSACTION_FLOOR).body, name="floor").floor


def test_nothing_to_collect_costs_one_listing() -> None:
    bank = Bank().open()
    counted = bank.counted()
    assert collect(bank, counted) == 0
    assert [each.verb for each in counted.trace] == ["list"]


def test_young_records_stay() -> None:
    bank = Bank().open()
    bank.process().move(1)
    for _ in range(3):
        bank.clock.advance(600.0)
        assert collect(bank) == 0
    assert len(records(bank)) == 1


def test_a_record_goes_an_hour_after_its_transaction_was_finished_everywhere() -> None:
    bank = Bank().open()
    moved = bank.process().move(1).id
    bank.clock.advance(HOUR)
    assert collect(bank) == 0
    process = bank.process()
    assert not process[EAST].view().pending
    assert not process[WEST].view().pending, "also a collection that only the record names"
    bank.clock.advance(HOUR / 2)
    assert collect(bank) == 0
    assert records(bank) == [transaction_key(moved)]
    bank.clock.advance(HOUR)
    assert collect(bank, dry_run=True) == 1
    assert records(bank) == [transaction_key(moved)]
    assert collect(bank) == 1
    assert records(bank) == []
    assert floor(bank) > moved
    assert balances(bank.process()) == [FIRST - 1, FIRST + 1]


def test_what_is_abandoned_is_aborted_and_goes_too() -> None:
    bank = Bank().open()
    abandoned = bank.process().abandon()
    assert records(bank) == []
    # Nothing is collected while there is no record: then nothing needs the floor.
    bank.clock.advance(HOUR)
    assert collect(bank) == 0
    moved = bank.process().commit(bank.process().adds("north/", {"x": 1}), bank.process().adds("south/", {"x": 1})).id
    assert moved > abandoned
    for _ in range(4):
        bank.clock.advance(HOUR)
        collect(bank)
    assert records(bank) == []
    assert floor(bank) > moved
    assert not bank.process().view(EAST).pending
    assert balances(bank.process()) == [FIRST, FIRST]


def test_what_lands_below_the_floor_is_removed_and_changes_nothing() -> None:
    bank = Bank().open()
    process = bank.process()
    late = process.prepare(process.adds(EAST, {"x": 50}), process.adds(WEST, {"x": -50}))
    for _ in range(4):
        bank.clock.advance(HOUR)
        bank.process().runtime.records.fate(late, settle=True, deadline=0.0)
        collect(bank)
    assert floor(bank) > late
    with pytest.raises(OutcomeUnknownError, match="late"):
        process.runtime.records.decide(late, NAMES, committed=True, deadline=bank.clock.monotonic())
    assert records(bank) == [transaction_key(late)]
    assert balances(bank.process()) == [FIRST, FIRST]
    assert collect(bank) == 1
    assert records(bank) == []


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.ANSWER_LOST, Fault.UNAVAILABLE_503])
def test_a_collector_may_stop_anywhere(fault: Fault) -> None:
    number = 0
    while True:
        number += 1
        bank = Bank().open()
        bank.process().move(1)
        bank.process().abandon()
        is_reached = False
        for _ in range(3):
            bank.clock.advance(HOUR)
            store = FaultStore(bank.store, {number: fault})
            try:
                collect(bank, store)
            except (SimulatedCrash, WormError):
                assert store.fired
            is_reached |= bool(store.fired)
            assert balances(bank.process()) == [FIRST - 1, FIRST + 1]
        for _ in range(3):
            bank.clock.advance(HOUR)
            collect(bank)
        assert records(bank) == []
        assert balances(bank.process()) == [FIRST - 1, FIRST + 1]
        if not is_reached:
            break
    assert number > 5
