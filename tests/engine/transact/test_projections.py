"""What is projected from the log sees a transaction when it is finished: feed, jobs, staged batches, blobs, files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engine.rig import doc, ident
from tests.engine.transact.bank import FIRST, NAMES, Bank, Process, balance, balances
from wormdb.engine.commit import validate
from wormdb.engine.commit.operations import Insert, Pending, Prepare, Save
from wormdb.engine.ledger import Runtime, TailLimits
from wormdb.engine.log.clock import MiscClock
from wormdb.errors import UnavailableError
from wormdb.format.event import BlobCondemned
from wormdb.settings import TRANSACTION_PENDING_BYTES_MAX
from wormdb.storage.pool import SerialPool
from wormdb.system.types import LogNumber, WriteId

if TYPE_CHECKING:
    from wormdb.engine.state.view import View

EAST, WEST = NAMES


def told(process: Process, after: int = 0) -> list[tuple[int, bytes, int]]:
    """What a feed of a collection tells: the entry, the document, its count of changes."""
    feed = process[EAST].feed(LogNumber(after))
    return [(record.number, change.id, change.seq) for record in feed.poll() for _, change in feed.changes(record)]


def test_the_feed_tells_a_transaction_once_when_it_is_finished_and_never_one_that_was_aborted() -> None:
    bank = Bank().open()
    process = bank.process()
    process.move(1)
    assert told(process) == [(1, b'"x"', 1)]
    process.put(EAST, "y", 1)
    assert told(process) == [(1, b'"x"', 1), (3, b'"x"', 2), (3, b'"y"', 1)]
    process.abandon()
    process.put(EAST, "x", 7)
    assert told(process, 3) == [(5, b'"x"', 3)]


def staging(bank: Bank) -> Process:
    """A process that stages every batch."""
    runtime = Runtime(
        store=bank.store,
        pool=SerialPool(),
        clock=bank.clock,
        chance=bank.chance,
        misc=MiscClock(bank.clock),
        before_first_write=lambda: None,
        limits=TailLimits(mode="manual"),
        stage_bytes=1,
    )
    return Process(runtime)


def test_a_staged_batch_waits_for_what_is_pending_and_is_made_of_what_it_left() -> None:
    bank = Bank().open()
    bank.process().move(5)
    process = staging(bank)
    process[EAST].commit(process.batch(Save(ident("x"), doc("x", n=1)), Insert(ident("z"), doc("z", n=2))))
    assert balances(bank.process()) == [1, FIRST + 5]
    view = bank.process().view(EAST)
    held = [each.seq for _, each in view.scan()]
    assert held == [3, 1]
    assert not view.pending


def test_a_staged_batch_gives_up_if_what_is_pending_is_not_decided() -> None:
    bank = Bank().open()
    bank.process().abandon()
    process = staging(bank)
    with pytest.raises(UnavailableError):
        process[EAST].commit(process.batch(Save(ident("x"), doc("x", n=1))), seconds=1.0)
    assert balances(bank.process()) == [FIRST, FIRST]


def test_a_blob_is_not_condemned_while_a_transaction_is_pending() -> None:
    bank = Bank().open()
    bank.process().abandon()
    process = bank.process()
    with pytest.raises(UnavailableError, match="waited for transaction"):
        process[EAST].commit(process.batch(events=(BlobCondemned(sha256=bytes(32)),)), seconds=1.0)


def test_what_prepares_is_never_offered_to_other_writers() -> None:
    plain = Pending("a" * 32, (Save(ident("x"), doc("x", n=1)),))
    assert plain.is_offerable
    prepares = Pending("a" * 32, plain.operations, prepare=Prepare(WriteId("b" * 32), NAMES))
    assert not prepares.is_offerable


def test_forwarding_stops_before_what_a_root_cannot_carry_and_goes_on_after_it() -> None:
    bank = Bank().open()
    process = bank.process()
    large = "l" * TRANSACTION_PENDING_BYTES_MAX
    part = process.adds(EAST, {})
    other = type(part)(part.ledger, process.batch(Insert(ident("l"), doc("l", n=1, text=large))), part.reads)
    process.prepare(other, process.adds(WEST, {"x": 1}))
    process.put(EAST, "y", 1)
    assert process[EAST].forward() == 1
    view = bank.process().view(EAST)
    assert (view.base_number, view.number) == (1, 3)
    assert len(view.pending) == 1
    bank.clock.advance(6.0)
    process[EAST].forward()
    view = bank.process().view(EAST)
    assert view.base_number == view.number == 4
    assert not view.pending


def test_a_large_one_that_is_abandoned_does_not_stop_writers_for_good() -> None:
    bank = Bank().open()
    process = bank.process(limits=TailLimits(mode="manual", entries_max=8))
    large = "l" * TRANSACTION_PENDING_BYTES_MAX
    part = process.adds(EAST, {})
    other = type(part)(part.ledger, process.batch(Insert(ident("l"), doc("l", n=1, text=large))), part.reads)
    process.prepare(other, process.adds(WEST, {"x": 1}))
    for n in range(20):
        process.put(EAST, "y", n)
    assert balance(bank.process().view(EAST), "y") == 19


def test_several_large_ones_are_finished_by_several_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate, "ENTRY_BYTES_MAX", 8_000)
    bank = Bank().open()
    text, prepared = "l" * 1_500, []
    for name in "abc":
        process = bank.process()
        part = process.adds(EAST, {})
        other = type(part)(part.ledger, process.batch(Insert(ident(name), doc(name, n=1, text=text))), part.reads)
        prepared.append(process.prepare(other, process.adds(WEST, {name: 1})))
    records = bank.process().runtime.records
    for transaction in prepared:
        assert records.decide(transaction, NAMES, committed=True, deadline=0.0)
    other_process = bank.process()
    assert other_process.view(EAST).count == 4
    other_process.put(EAST, "c", 5)
    view = bank.process().view(EAST)
    assert not view.pending
    assert view.number == 8
    assert [balance(view, name) for name in "abc"] == [1, 1, 5]


def test_counts_scans_and_indexes_agree_on_a_state_with_transactions_on_top() -> None:
    bank = Bank().open()
    process = bank.process()
    process.commit(process.adds(EAST, {"x": 1, "new": 5}), process.adds(WEST, {"x": -1}))

    def check(view: View) -> None:
        assert view.count == 2
        assert [balance(view, name) for name in ("new", "x")] == [5, FIRST + 1]
        assert len(list(view.scan())) == 2

    check(process.view(EAST))
    check(bank.process().view(EAST))
    process[EAST].forward()
    check(bank.process().view(EAST))
