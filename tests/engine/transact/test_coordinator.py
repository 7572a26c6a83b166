"""Transactions over several collections: all or nothing, at one moment, at the promised cost."""

from __future__ import annotations

import pytest

from tests.engine.rig import doc, ident
from tests.engine.transact.bank import FIRST, NAMES, Bank, balances
from wormdb.bql.parse import parse_filter
from wormdb.engine.commit.operations import Insert
from wormdb.engine.state.view import id_key
from wormdb.engine.transact.coordinator import Participant
from wormdb.errors import AlreadyExistsError, TransactionConflictError

EAST, WEST = NAMES


def test_a_transaction_is_seen_in_all_collections_as_soon_as_it_is_acknowledged() -> None:
    bank = Bank().open()
    one, other = bank.process(), bank.process()
    result = one.move(7)
    assert balances(one) == balances(other) == [FIRST - 7, FIRST + 7]
    assert set(result.numbers) == set(NAMES)
    assert bank.keys(".worm.tx/") == [f".worm.tx/{result.id}"]


def test_k_collections_cost_k_puts_side_by_side_and_one_more_and_nothing_else() -> None:
    bank = Bank().open(*NAMES, "north/")
    counted = bank.counted()
    process = bank.process(counted)
    parts = [process.adds(name, {"x": 1}) for name in (*NAMES, "north/")]
    before = len(counted.trace)
    process.commit(*parts)
    verbs = [call.verb for call in counted.trace[before:]]
    assert verbs == ["put"] * 4
    assert [call.key.partition("/")[0] for call in counted.trace[before:]][-1] == ".worm.tx"


def test_the_next_commit_finishes_it_without_a_request_more() -> None:
    bank = Bank().open()
    counted = bank.counted()
    process = bank.process(counted)
    process.move()
    before = len(counted.trace)
    process.put(EAST, "y", 1)
    assert [call.verb for call in counted.trace[before:]] == ["put"]
    assert not process[EAST].view().pending
    assert len(process[WEST].view().pending) == 1
    assert balances(bank.process()) == [FIRST - 1, FIRST + 1]


def test_the_same_documents_again_cost_no_more() -> None:
    bank = Bank().open()
    counted = bank.counted()
    process = bank.process(counted)
    process.move()
    for turn in range(3):
        parts = [process.adds(EAST, {"x": -1}), process.adds(WEST, {"x": 1})]
        before = len(counted.trace)
        process.commit(*parts)
        assert [call.verb for call in counted.trace[before:]] == ["put"] * 3, turn
    assert balances(bank.process()) == [FIRST - 4, FIRST + 4]
    held = bank.process().view(EAST).get(id_key(ident("x")))
    assert held is not None
    assert held.seq == 5


def test_a_write_to_what_it_wrote_follows_it() -> None:
    bank = Bank().open()
    one, other = bank.process(), bank.process()
    one.move(5)
    other.put(EAST, "x", 1)
    assert balances(one) == [1, FIRST + 5]
    assert balances(bank.process()) == [1, FIRST + 5]


def test_of_two_that_change_the_same_the_later_one_is_refused() -> None:
    bank = Bank().open()
    one, other = bank.process(), bank.process()
    parts = [other.adds(EAST, {"x": -1}), other.adds(WEST, {"x": 1})]
    one.move(5)
    with pytest.raises(TransactionConflictError):
        other.commit(*parts)
    assert balances(bank.process()) == [FIRST - 5, FIRST + 5]
    other.move(1)
    assert balances(bank.process()) == [FIRST - 6, FIRST + 6]


def test_many_transactions_in_a_row_by_two_processes_add_up() -> None:
    bank = Bank().open()
    one, other = bank.process(), bank.process()
    for turn in range(12):
        (one if turn % 3 else other).move(1)
        assert balances(one) == balances(other) == [FIRST - turn - 1, FIRST + turn + 1]


def test_if_one_collection_refuses_it_the_others_are_free_at_once() -> None:
    bank = Bank().open()
    process = bank.process()
    part = process.adds(EAST, {})
    exists = Participant(part.ledger, process.batch(Insert(ident("x"), doc("x", n=0))), part.reads)
    with pytest.raises(AlreadyExistsError):
        process.commit(exists, process.adds(WEST, {"x": 1}))
    assert len(bank.keys(".worm.tx/")) == 1
    before = bank.clock.monotonic()
    bank.process().put(WEST, "x", 5)
    assert bank.clock.monotonic() == before
    assert balances(bank.process()) == [FIRST, 5]


def test_if_all_refuse_it_nothing_is_written() -> None:
    bank = Bank().open()
    process = bank.process()
    parts = []
    for name in NAMES:
        part = process.adds(name, {})
        parts.append(Participant(part.ledger, process.batch(Insert(ident("x"), doc("x", n=0))), part.reads))
    before = bank.keys("")
    with pytest.raises(AlreadyExistsError):
        process.commit(*parts)
    assert bank.keys("") == before


def test_one_collection_costs_one_put_and_no_record() -> None:
    bank = Bank().open()
    counted = bank.counted()
    process = bank.process(counted)
    part = process.adds(EAST, {"x": 1, "y": 1})
    before = len(counted.trace)
    result = process.commit(part)
    assert [call.verb for call in counted.trace[before:]] == ["put"]
    assert result.id == ""
    assert bank.keys(".worm.tx/") == []


def test_a_collection_that_was_only_read_is_validated_and_held_too() -> None:
    bank = Bank().open()
    one, other = bank.process(), bank.process()
    skewed = [one.adds(EAST, {"x": 0}), one.adds(WEST, {"x": 1})]
    others = [other.adds(EAST, {"x": 1}), other.adds(WEST, {"x": 0})]
    one.commit(*skewed)
    with pytest.raises(TransactionConflictError):
        other.commit(*others)
    assert balances(bank.process()) == [FIRST, FIRST + 1]


def test_a_filter_that_was_read_is_validated_against_documents_that_came() -> None:
    bank = Bank().open()
    one, other = bank.process(), bank.process()
    rich = parse_filter({"n": {"$gt": 500}})
    parts = [one.adds(EAST, {}, filters=(rich,)), one.adds(WEST, {"x": 1})]
    other.put(EAST, "poor", 1)
    one.commit(*parts)
    parts = [one.adds(EAST, {}, filters=(rich,)), one.adds(WEST, {"x": 1})]
    other.put(EAST, "rich", 1_000)
    with pytest.raises(TransactionConflictError):
        one.commit(*parts)
    assert balances(bank.process()) == [FIRST, FIRST + 1]
