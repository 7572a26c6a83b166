"""Transactions over several collections: all or nothing, at one moment, at the promised cost."""

from __future__ import annotations

import pytest

from tests.engine.transact.bank import FIRST, NAMES, Bank, balances
from wormdb.errors import TransactionConflictError

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
