"""Records of transactions: created once, honest about what is not known, and meaningless below the floor."""

from __future__ import annotations

import pytest

from tests.engine.rig import HookStore
from tests.engine.transact.bank import FIRST, NAMES, Bank, Process, balances
from wormdb.engine.log.paths import TRANSACTION_FLOOR, transaction_key
from wormdb.errors import OutcomeUnknownError, TransactionConflictError, UnavailableError
from wormdb.format.transaction import TransactionFloor, encode_floor, floor_at, new_transaction_id, transaction_began
from wormdb.settings import TRANSACTION_LEASE_MS, TRANSACTION_RECORD_MS
from wormdb.storage.store import OCTETS, Precondition, PutResult, WrappedStore
from wormdb.system.clock import SeededChance
from wormdb.system.types import WriteId
from wormdb.testing.fault_store import Fault, FaultStore

EAST, WEST = NAMES


def decide(process: Process, transaction: str, *, committed: bool) -> bool:
    return process.runtime.records.decide(
        transaction, NAMES, committed=committed, deadline=process.runtime.clock.monotonic()
    )


def raise_floor(bank: Bank, transaction: str) -> None:
    """As garbage collection does, to just above a transaction."""
    floor = floor_at(transaction_began(transaction) + 1)
    body = encode_floor(TransactionFloor(floor=floor, following=floor, write_id=WriteId("f" * 32)))
    bank.store.put(TRANSACTION_FLOOR, body)


def test_what_was_decided_first_stays() -> None:
    bank = Bank().open()
    one, other = bank.process(), bank.process()
    transaction = one.abandon()
    assert decide(one, transaction, committed=False) is False
    assert decide(other, transaction, committed=True) is False
    assert decide(other, transaction, committed=False) is False
    later = bank.process().abandon()
    assert decide(one, later, committed=True) is True
    assert decide(other, later, committed=False) is True


def test_ids_sort_by_the_time_of_the_store_and_never_repeat() -> None:
    chance = SeededChance(1)
    made = [new_transaction_id(time, chance) for time in (1, 2, 2, 1 << 40)]
    assert [transaction_began(each) for each in made] == [1, 2, 2, 1 << 40]
    assert len({*made}) == 4
    assert made[0] < made[1] < made[3]
    assert made[0] < floor_at(2) < made[1]


def test_a_lost_answer_is_asked_for_and_the_same_bytes_are_sent_again() -> None:
    for fault in (Fault.ANSWER_LOST, Fault.UNAVAILABLE_503):
        bank = Bank().open()
        transaction = bank.process().abandon()
        store = FaultStore(bank.store, {1: fault})
        process = bank.process(store)
        until = bank.clock.monotonic() + 10
        assert process.runtime.records.decide(transaction, NAMES, committed=True, deadline=until)
        assert balances(bank.process()) == [FIRST - 1, FIRST + 1]


def test_what_certainly_was_not_written_is_told_apart_from_what_is_not_known() -> None:
    bank = Bank().open()
    transaction = bank.process().abandon()
    refusing = bank.process(FaultStore(bank.store, dict.fromkeys(range(1, 9), Fault.UNAVAILABLE_503)))
    with pytest.raises(OutcomeUnknownError):
        decide(refusing, transaction, committed=True)
    refused = bank.process(FaultStore(bank.store, {1: Fault.UNAVAILABLE_503}))
    with pytest.raises(UnavailableError):
        decide(refused, transaction, committed=True)
    silent = bank.process(FaultStore(bank.store, {1: Fault.LANDS_LATE}))
    with pytest.raises(OutcomeUnknownError) as unknown:
        decide(silent, transaction, committed=True)
    assert unknown.value.commit_id == f"tx-{transaction}"


def test_a_record_below_the_floor_means_nothing_and_what_is_pending_there_never_committed() -> None:
    bank = Bank().open()
    transaction = bank.process().abandon()
    decide(bank.process(), transaction, committed=True)
    assert balances(bank.process()) == [FIRST - 1, FIRST + 1]
    bank.clock.advance(TRANSACTION_RECORD_MS / 1000)
    raise_floor(bank, transaction)
    assert balances(bank.process()) == [FIRST, FIRST]
    with pytest.raises(OutcomeUnknownError):
        decide(bank.process(), transaction, committed=True)
    assert bank.process().runtime.records.fate(transaction, settle=True, deadline=0.0) is None


def test_the_floor_is_read_only_for_old_transactions() -> None:
    bank = Bank().open()
    bank.process().move(1)
    counted = bank.counted()
    balances(bank.process(counted))
    assert TRANSACTION_FLOOR not in {each.key for each in counted.trace}
    bank.clock.advance(TRANSACTION_RECORD_MS / 1000)
    counted = bank.counted()
    assert balances(bank.process(counted)) == [FIRST - 1, FIRST + 1]
    assert [each.key for each in counted.trace].count(TRANSACTION_FLOOR) == 1


def test_a_coordinator_that_slept_before_all_was_prepared_does_not_commit() -> None:
    bank = Bank().open()
    process = bank.process()
    parts = [process.adds(EAST, {"x": -1}), process.adds(WEST, {"x": 1})]
    bank.clock.advance(TRANSACTION_LEASE_MS / 1000 + 1)
    with pytest.raises(UnavailableError, match="too late"):
        process.commit(*parts)
    assert balances(bank.process()) == [FIRST, FIRST]
    process.move(1)
    assert balances(bank.process()) == [FIRST - 1, FIRST + 1]


class _Untimed(WrappedStore):
    """Answers to writes carry no time, as those of a folder that took long."""

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        return PutResult(super().put(key, body, precondition, content_type=content_type).version, None)


@pytest.mark.parametrize("is_late", [False, True])
def test_answers_without_a_time_are_judged_by_one_that_has_it(is_late: bool) -> None:
    """Just a late answer of a folder has no time: it must not count as one in time."""
    bank = Bank().open()
    process = bank.process(_Untimed(bank.store))
    parts = [process.adds(EAST, {"x": -1}), process.adds(WEST, {"x": 1})]
    if not is_late:
        process.commit(*parts)
        assert balances(bank.process()) == [FIRST - 1, FIRST + 1]
        return
    bank.clock.advance(TRANSACTION_LEASE_MS / 1000 + 1)
    with pytest.raises(UnavailableError, match="too late"):
        process.commit(*parts)
    assert balances(bank.process()) == [FIRST, FIRST]


def test_settling_tells_and_decides() -> None:
    bank = Bank().open()
    records = bank.process().runtime.records
    transaction = bank.process().abandon()
    assert records.fate(transaction, settle=False, deadline=0.0) is None
    assert records.fate(transaction, settle=True, deadline=0.0) is False
    assert records.fate(transaction, settle=False, deadline=0.0) is False
    moved = bank.process().move(1).id
    assert records.fate(moved, settle=True, deadline=0.0) is True
    assert bank.keys(".worm.tx/") == sorted(map(transaction_key, (transaction, moved)))


def test_one_that_others_aborted_is_refused() -> None:
    bank = Bank().open()
    rival = bank.process()

    def abort(verb: str, key: str) -> None:
        if verb == "put" and key.startswith(".worm.tx/"):
            decide(rival, key.removeprefix(".worm.tx/"), committed=False)

    hooked = HookStore(bank.store)
    hooked.before = abort
    process = bank.process(hooked)
    parts = [process.adds(EAST, {"x": -1}), process.adds(WEST, {"x": 1})]
    with pytest.raises(TransactionConflictError, match="aborted it"):
        process.commit(*parts)
    assert balances(bank.process()) == [FIRST, FIRST]
    process.put(EAST, "x", 3)
    assert balances(process) == [3, FIRST]
