"""Transactions in the way of others: waited for, aborted when abandoned, and finished by any writer."""

from __future__ import annotations

import pytest

from tests.engine.rig import Asking, HookStore, doc, ident
from tests.engine.transact.bank import FIRST, NAMES, Bank, balance, balances
from wormdb.engine.commit.operations import Insert, InsertNext, Remove, Save
from wormdb.engine.log.paths import transaction_key
from wormdb.engine.state.view import id_key
from wormdb.errors import AlreadyExistsError, TransactionConflictError, UnavailableError, UniqueViolationError
from wormdb.format.event import (
    FunctionRegistered,
    IndexCreated,
    JobOpened,
    SchemaChanged,
    SnapshotTaken,
    TransactionFinished,
    TransactionPrepared,
)
from wormdb.settings import TRANSACTION_ABANDONED_SECONDS
from wormdb.system.types import LogNumber, WriteId

EAST, WEST = NAMES
UNIQUE = b'{"Account":{"path":"@east/(id:string)","indexes":{"byMail":{"field":"mail","unique":true}}}}'


def entries(bank: Bank, collection: str) -> list[str]:
    """What each entry of a log does: p prepares, c and a finish, b writes batches."""
    process = bank.process()
    found = process[collection].entries(LogNumber(0), process.view(collection).number)
    assert found is not None
    told = []
    for entry in found:
        kinds = ""
        for event in entry.events:
            if isinstance(event, TransactionPrepared):
                kinds += "p"
            elif isinstance(event, TransactionFinished):
                kinds += "c" if event.committed else "a"
            else:
                kinds += "e"
        told.append(kinds + "b" * len(entry.batches))
    return told


def test_an_abandoned_one_is_aborted_after_some_seconds_by_what_it_is_in_the_way_of() -> None:
    bank = Bank().open()
    bank.process().abandon()
    before = bank.clock.monotonic()
    bank.process().put(EAST, "x", 1)
    waited = bank.clock.monotonic() - before
    assert TRANSACTION_ABANDONED_SECONDS <= waited < 2 * TRANSACTION_ABANDONED_SECONDS
    assert entries(bank, EAST) == ["b", "p", "ab"]
    assert balances(bank.process()) == [1, FIRST]


def test_one_that_commits_while_it_is_aborted_has_committed() -> None:
    bank = Bank().open()
    transaction = bank.process().abandon(5)
    hooked = HookStore(bank.store)

    def commit(verb: str, key: str) -> None:
        if verb == "put" and key == transaction_key(transaction):
            hooked.before = None
            assert bank.process().runtime.records.decide(transaction, NAMES, committed=True, deadline=0.0)

    hooked.before = commit
    bank.process(hooked).put(EAST, "x", 1)
    assert entries(bank, EAST) == ["b", "p", "cb", "b"]
    assert balances(bank.process()) == [1, FIRST + 5]


def test_what_does_not_touch_it_does_not_wait_for_it() -> None:
    bank = Bank().open()
    bank.process().abandon()
    before = bank.clock.monotonic()
    bank.process().put(EAST, "y", 1)
    assert bank.clock.monotonic() == before
    assert entries(bank, EAST) == ["b", "p", "b"]


def test_a_batch_that_gives_up_waiting_wrote_nothing() -> None:
    bank = Bank().open()
    bank.process().abandon()
    process = bank.process()
    with pytest.raises(UnavailableError, match="waited for transaction"):
        process[EAST].commit(process.batch(Save(ident("x"), doc("x", n=1))), seconds=1.0)
    assert balances(bank.process()) == [FIRST, FIRST]


def test_a_younger_transaction_gives_way_and_an_older_one_waits() -> None:
    bank = Bank().open()
    one, other = bank.process(), bank.process()
    parts = [other.adds(EAST, {"x": -1}), other.adds(WEST, {"x": 1})]
    one.prepare(one.adds(EAST, {"x": 0}))
    bank.clock.advance(0.001)
    before = bank.clock.monotonic()
    with pytest.raises(TransactionConflictError) as refused:
        other.commit(*parts)
    assert refused.value.by is not None
    assert refused.value.collection == "east"
    assert bank.clock.monotonic() - before < 1.0
    assert balances(bank.process()) == [FIRST, FIRST]


def test_two_that_read_the_same_do_not_stand_in_each_others_way() -> None:
    bank = Bank().open()
    one, other = bank.process(), bank.process()
    one.prepare(one.adds(EAST, {"x": 0, "y": 5}))
    before = bank.clock.monotonic()
    other.commit(other.adds(EAST, {"x": 0}), other.adds(WEST, {"x": 1}))
    assert bank.clock.monotonic() == before


def test_a_batch_whose_guard_may_read_anything_waits_for_what_writes() -> None:
    bank = Bank().open()
    process = bank.process()
    process.move(5)
    other = bank.process()
    seen: list[int | None] = []
    guard = Asking(lambda view: seen.append(balance(view)))
    other[EAST].commit(other.batch(Save(ident("y"), doc("y", n=1)), guard=guard))
    assert seen[-1] == FIRST - 5


def test_ids_that_are_counted_are_used_up_by_what_is_prepared() -> None:
    bank = Bank().open()
    process = bank.process()
    part = process.adds(EAST, {})
    numbered = type(part)(part.ledger, process.batch(InsertNext(b'{"n":1}')), part.reads)
    process.prepare(numbered)
    other = bank.process()
    result = other[EAST].commit(other.batch(InsertNext(b'{"n":2}')))
    (change,) = result.changes
    assert change.id == b'"0000000002"'
    process[EAST].forward()
    third = bank.process()
    (change,) = third[EAST].commit(third.batch(InsertNext(b'{"n":3}'))).changes
    assert change.id == b'"0000000003"'


def test_a_unique_value_that_it_takes_or_gives_up_is_taken_by_no_other_until_it_is_known() -> None:
    bank = Bank()
    process = bank.process()
    process.tell(EAST, SchemaChanged(definition=UNIQUE))
    first = process.batch(Insert(ident("a"), doc("a", mail="p")))
    process[EAST].commit(first)
    process.put(WEST, "x", FIRST)
    part = process.adds(EAST, {})
    moves = process.batch(Save(ident("a"), doc("a", mail="q")))
    transaction = process.prepare(type(part)(part.ledger, moves, part.reads), process.adds(WEST, {"x": 1}))
    other = bank.process()
    for mail in "pq":
        with pytest.raises(UnavailableError, match="waited for transaction"):
            other[EAST].commit(other.batch(Insert(ident("b"), doc("b", mail=mail))), seconds=1.0)
    assert bank.process().runtime.records.decide(transaction, NAMES, committed=True, deadline=0.0)
    with pytest.raises(UniqueViolationError):
        other[EAST].commit(other.batch(Insert(ident("b"), doc("b", mail="q"))))
    other[EAST].commit(other.batch(Insert(ident("b"), doc("b", mail="p"))))
    assert bank.process().view(EAST).count == 2


@pytest.mark.parametrize(
    "event",
    [SchemaChanged(definition=UNIQUE), IndexCreated(name="byN", definition=b'{"fields":["n"]}')],
)
def test_a_definition_comes_when_nothing_is_pending(event: SchemaChanged | IndexCreated) -> None:
    bank = Bank().open()
    bank.process().move(5)
    bank.process().tell(EAST, event)
    assert entries(bank, EAST) == ["b", "p", "cb", "eb"]


@pytest.mark.parametrize(
    "event",
    [
        FunctionRegistered(name="rich", filter=b'{"n":{"$gt":1}}'),
        SnapshotTaken(id=ident("x"), seq=1),
        JobOpened(job=WriteId("7" * 32), kind="load", base=1),
    ],
)
def test_events_that_change_nothing_that_it_holds_do_not_wait(event: FunctionRegistered) -> None:
    bank = Bank().open()
    bank.process().abandon()
    before = bank.clock.monotonic()
    bank.process().tell(EAST, event)
    assert bank.clock.monotonic() == before
    assert entries(bank, EAST)[-1].startswith("e")


def test_forwarding_carries_what_is_pending_and_a_new_process_honours_it() -> None:
    bank = Bank().open()
    bank.process().abandon()
    process = bank.process()
    process[EAST].forward()
    other = bank.process()
    view = other.view(EAST)
    assert view.base_number == view.number == 2
    assert len(view.pending) == 1
    with pytest.raises(UnavailableError, match="waited for transaction"):
        other[EAST].commit(other.batch(Remove(ident("x"))), seconds=1.0)


def test_forwarding_finishes_what_is_decided_and_what_is_abandoned() -> None:
    bank = Bank().open()
    bank.process().move(5)
    process = bank.process()
    process[EAST].forward()
    assert not process[EAST].view().pending
    assert process[EAST].view().base_number == 3
    assert balance(bank.process().view(EAST)) == FIRST - 5
    process.abandon()
    process[EAST].forward()
    assert process[EAST].view().pending
    bank.clock.advance(TRANSACTION_ABANDONED_SECONDS)
    process[EAST].forward()
    assert not process[EAST].view().pending
    assert balances(bank.process()) == [FIRST - 5, FIRST + 5]


def test_closing_leaves_nothing_to_look_at() -> None:
    bank = Bank().open()
    process = bank.process()
    process.move(5)
    for ledger in process.ledgers.values():
        ledger.finish()
    counted = bank.counted()
    assert balances(bank.process(counted)) == [FIRST - 5, FIRST + 5]
    assert not [each for each in counted.trace if each.key.startswith(".worm.tx/")]


def test_the_log_is_not_trimmed_past_what_is_pending() -> None:
    bank = Bank().open()
    process = bank.process()
    process.abandon()
    for n in range(5):
        process.put(EAST, "y", n)
    assert process[EAST].forward() == 7
    for _ in range(2):
        bank.clock.advance(7200.0)
        process[EAST].trim(0)
    assert bank.keys("east/.worm.db/committed/")[0].endswith("00000002")
    process[EAST].forward()
    for _ in range(2):
        bank.clock.advance(7200.0)
        process[EAST].trim(0)
    assert bank.keys("east/.worm.db/committed/") == []


def test_a_refusal_is_told_by_a_state_that_was_read_after_the_call() -> None:
    bank = Bank().open()
    one, other = bank.process(), bank.process()
    other.view(EAST)
    one.move(5)
    one.put(EAST, "x", 50)
    with pytest.raises(AlreadyExistsError):
        other[EAST].commit(other.batch(Insert(ident("x"), doc("x", n=1))))
    assert balance(other.view(EAST)) == 50
    held = other.view(EAST).get(id_key(ident("x")))
    assert held is not None
    assert held.seq == 3
