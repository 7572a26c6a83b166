"""What verify says of transactions: those that are pending, what finishes them, and their records."""

from __future__ import annotations

import msgspec
import pytest

from tests.engine.transact.bank import FIRST, NAMES, Bank, balances
from wormdb.engine.log.paths import transaction_key
from wormdb.format.entry import encode_entry, entry_hash
from wormdb.format.event import TransactionFinished
from wormdb.format.root import encode_root
from wormdb.maintenance.audit.repair import repair
from wormdb.maintenance.audit.verify import verify
from wormdb.maintenance.collection import StoredCollection
from wormdb.storage.store import Always
from wormdb.system.types import LogNumber

EAST, WEST = NAMES


def site_of(bank: Bank, collection: str = EAST) -> StoredCollection:
    return StoredCollection(collection, bank.process().runtime)


def found(bank: Bank) -> list[tuple[str, str]]:
    return [(each.kind, each.what) for each in verify(site_of(bank)).findings]


def test_pending_and_finished_transactions_are_sound_in_the_log_and_in_the_root() -> None:
    bank = Bank().open()
    process = bank.process()
    process.move(1)
    assert found(bank) == []
    process.put(EAST, "y", 1)
    process.abandon()
    process[EAST].forward()
    assert found(bank) == []
    process.put(EAST, "z", 1)
    assert found(bank) == []


def test_a_record_that_cannot_be_read_is_told() -> None:
    bank = Bank().open()
    moved = bank.process().move(1).id
    bank.process()[EAST].view()
    process = bank.process()
    process.put(EAST, "y", 1)
    assert len(process.view(EAST).pending) == 1
    process[EAST]._keeper.forward()
    bank.store.put(transaction_key(moved), b"nonsense", Always())
    assert [kind for kind, _ in found(bank)] == ["transaction"]


def test_a_root_that_forgot_a_transaction_is_told() -> None:
    bank = Bank().open()
    process = bank.process()
    process.abandon()
    process[EAST].forward()
    state = site_of(bank).register.read()
    assert state.root is not None
    assert state.root.pending
    bank.store.put(site_of(bank).paths.root, encode_root(msgspec.structs.replace(state.root, pending=())), Always())
    assert [kind for kind, _ in found(bank)] == ["transaction"]


@pytest.mark.parametrize("is_dropped", [True, False])
def test_an_entry_that_does_not_finish_what_was_prepared_is_told(is_dropped: bool) -> None:
    bank = Bank().open()
    process = bank.process()
    process.move(1)
    process.put(EAST, "y", 1)
    site = site_of(bank)
    record, _ = site.log.read(LogNumber(3))
    assert record is not None
    if is_dropped:
        changed = msgspec.structs.replace(record.entry, batches=record.entry.batches[1:])
    else:
        (event,) = record.entry.events
        assert isinstance(event, TransactionFinished)
        changed = msgspec.structs.replace(record.entry, events=(msgspec.structs.replace(event, committed=False),))
    body = encode_entry(changed, collection=EAST)
    assert entry_hash(body) != record.hash
    bank.store.put(site.paths.entry(LogNumber(3)), body, Always())
    process = bank.process()
    process[EAST]._keeper.forward()
    (only,) = found(bank)
    assert only[0] == "log"
    assert "does not finish transaction" in only[1]


def test_a_root_that_is_made_again_has_what_is_pending() -> None:
    bank = Bank().open()
    process = bank.process()
    process.move(5)
    process.abandon(1)
    process[EAST].forward()
    bank.store.put(site_of(bank).paths.root, b"nonsense", Always())
    assert repair(site_of(bank)).left == ()
    assert balances(bank.process()) == [FIRST - 5, FIRST + 5]
    assert found(bank) == []
