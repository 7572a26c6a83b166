"""Readers while transactions are pending: what is decided is shown, what is not is asked for again each time."""

from __future__ import annotations

import pytest

from tests.engine.rig import HookStore, doc, ident
from tests.engine.transact.bank import FIRST, NAMES, Bank, balance, balances
from wormdb.engine.commit.operations import ReadVersion, Save
from wormdb.engine.state.view import id_key
from wormdb.engine.transact.records import commit_id_of
from wormdb.errors import ConflictError

EAST, WEST = NAMES


def test_a_reader_with_nothing_pending_makes_one_request() -> None:
    bank = Bank().open()
    counted = bank.counted()
    reader = bank.process(counted)
    reader.view(EAST)
    before = len(counted.trace)
    reader.view(EAST)
    assert [(each.verb, each.key) for each in counted.trace[before:]] == [
        ("probe", "east/.worm.db/committed/00000000000000000002")
    ]


def test_what_is_not_decided_is_asked_for_at_each_read_and_not_shown() -> None:
    bank = Bank().open()
    transaction = bank.process().abandon()
    counted = bank.counted()
    reader = bank.process(counted)
    for _ in range(3):
        before = len(counted.trace)
        assert balance(reader.view(EAST)) == FIRST
        assert counted.trace[-1].key == f".worm.tx/{transaction}"
        assert len([each for each in counted.trace[before:] if each.key.startswith(".worm.tx/")]) == 1


def test_what_is_decided_is_asked_for_once_in_a_process() -> None:
    bank = Bank().open()
    bank.process().move(3)
    counted = bank.counted()
    reader = bank.process(counted)
    assert balances(reader) == [FIRST - 3, FIRST + 3]
    assert len([each for each in counted.trace if each.key.startswith(".worm.tx/")]) == 1
    before = len(counted.trace)
    assert balances(reader) == [FIRST - 3, FIRST + 3]
    assert [each.verb for each in counted.trace[before:]] == ["probe", "probe"]


def test_a_reader_that_saw_it_in_one_collection_sees_it_in_the_next() -> None:
    bank = Bank().open()
    one, other = bank.process(), bank.process()
    transaction = bank.process().abandon()
    assert balances(other) == [FIRST, FIRST]
    records = one.runtime.records
    assert records.decide(transaction, NAMES, committed=True, deadline=0.0)
    assert balance(other.view(WEST)) == FIRST + 1
    assert balance(other.view(EAST)) == FIRST - 1


def test_a_reader_writes_nothing() -> None:
    bank = Bank().open()
    bank.process().abandon()
    counted = bank.counted()
    bank.clock.advance(60.0)
    balances(bank.process(counted))
    assert {each.verb for each in counted.trace} == {"probe"}


def test_a_document_that_was_read_before_it_is_finished_can_be_saved_afterwards() -> None:
    bank = Bank().open()
    one, other, third = bank.process(), bank.process(), bank.process()
    one.move(3)
    view = other.view(EAST)
    held = view.get(id_key(ident("x")))
    assert held is not None
    assert held.rev == view.number + 1
    # Another entry comes before the one that finishes it, so that its revision is not the one that was shown.
    bank_writer = third[EAST]
    bank_writer.commit(third.batch(Save(ident("y"), doc("y", n=1))))
    loaded = ReadVersion(held, view.number)
    other[EAST].commit(other.batch(Save(ident("x"), doc("x", n=7), loaded)))
    assert balance(bank.process().view(EAST)) == 7
    with pytest.raises(ConflictError):
        third[EAST].commit(third.batch(Save(ident("x"), doc("x", n=8), loaded)))


def test_a_pinned_state_shows_what_had_committed_and_keeps_it() -> None:
    bank = Bank().open()
    one, other = bank.process(), bank.process()
    one.move(3)
    pinned = one[EAST].pin(one.view(EAST))
    one.put(EAST, "x", 0)
    again = other[EAST].unpin(pinned)
    assert balance(again) == FIRST - 3
    assert again.committed
    assert again.count == 1


def test_what_is_known_shows_what_this_process_committed_without_a_request() -> None:
    bank = Bank().open()
    counted = bank.counted()
    process = bank.process(counted)
    process.move(3)
    before = len(counted.trace)
    assert balance(process[EAST].known()) == FIRST - 3
    trusted = process[EAST].trusted()
    assert trusted is not None
    assert balance(trusted) == FIRST - 3
    assert len(counted.trace) == before


def test_history_has_only_what_is_finished() -> None:
    bank = Bank().open()
    process = bank.process()
    process.move(3)
    view = process.view(EAST)
    key = id_key(ident("x"))
    assert [version.seq for version in process[EAST].history(view).versions(key)] == [1]
    process.put(EAST, "y", 1)
    view = process.view(EAST)
    assert [version.seq for version in process[EAST].history(view).versions(key)] == [1, 2]


def test_the_id_of_a_transaction_names_it_to_callers() -> None:
    assert commit_id_of("ab") == "tx-ab"


def test_threads_of_the_coordinating_process_ask_for_the_record_only_when_it_may_be_there() -> None:
    bank = Bank().open()
    counted = bank.counted()
    hooked = HookStore(counted)
    process = bank.process(hooked)
    parts = [process.adds(EAST, {"x": -1}), process.adds(WEST, {"x": 1})]
    seen: list[tuple[str, int | None, int]] = []

    def look(when: str, key: str) -> None:
        if key.startswith(("west/.worm.db/committed/", ".worm.tx/")):
            before, hooked.before, hooked.after = len(counted.trace), None, None
            found = balance(process.view(EAST))
            asked = [each for each in counted.trace[before:] if each.key.startswith(".worm.tx/")]
            seen.append((when, found, len(asked)))
            hooked.before, hooked.after = before_put, after_put

    def before_put(verb: str, key: str) -> None:
        if verb == "put":
            look("before", key)

    def after_put(verb: str, key: str) -> None:
        if verb == "put":
            look("after", key)

    hooked.before, hooked.after = before_put, after_put
    process.commit(*parts)
    # The first two are around the second prepare, the others around the record.
    assert seen == [("before", FIRST, 0), ("after", FIRST, 0), ("before", FIRST, 1), ("after", FIRST - 1, 1)]
