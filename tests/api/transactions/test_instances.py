"""Instances of classes in transactions remember what they were read and written as, as everywhere."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import wormdb
from tests.api.transactions.rig import connect
from wormdb.errors import ConflictError

A, B = (f"00000000-0000-4000-8000-00000000000{digit}" for digit in "12")


@dataclass
class Wallet:
    """An account of somebody."""

    owner: str
    amount: int = 0
    id: str = ""


@dataclass
class Receipt:
    """A payment."""

    amount: int
    id: str = ""


def test_instances_are_read_changed_and_saved_in_and_after_a_transaction(url: str) -> None:
    with connect(url) as db:
        db.model(Wallet).insert(Wallet("ann", 10, A))
        with db.transaction() as tx:
            wallet = tx.model(Wallet).find_by_id(A)
            assert wallet is not None
            wallet.amount -= 3
            tx.model(Wallet).save(wallet)
            tx.model(Wallet).save(new := Wallet("bob", 0, B))
            assert tx.model(Wallet).find_all({"amount": 7}) == [wallet]
        assert wormdb.rev_of(wallet) == 2
        wallet.amount = 5
        new.amount = 1
        db.model(Wallet).save(wallet)
        db.model(Wallet).save(new)
        assert [one.amount for one in db.model(Wallet).find(sort="id")] == [5, 1]


def test_instances_of_several_collections_stand_for_what_was_committed(url: str) -> None:
    with connect(url) as db, connect(url) as rival:
        db.model(Wallet).insert(Wallet("ann", 10, A))
        with db.transaction() as tx:
            wallet = tx.model(Wallet).find_by_id(A)
            assert wallet is not None
            wallet.amount -= 3
            tx.model(Wallet).save(wallet)
            tx.model(Receipt).insert(receipt := Receipt(3, B))
        assert wormdb.rev_of(wallet) is None, "no entry has it yet"
        receipt.amount = 4
        db.model(Receipt).save(receipt)
        rival.model(Wallet).modify(A, lambda found: Wallet(found.owner, 100, A))
        wallet.amount = 0
        with pytest.raises(ConflictError):
            db.model(Wallet).save(wallet)
        assert [one.amount for one in db.model(Wallet).find()] == [100]
        assert [one.amount for one in db.model(Receipt).find()] == [4]


def test_an_instance_of_a_transaction_that_came_to_nothing_is_what_it_was_before(url: str) -> None:
    with connect(url) as db:
        db.model(Wallet).insert(Wallet("ann", 10, A))
        tx = db.transaction()
        wallet = tx.model(Wallet).find_by_id(A)
        assert wallet is not None
        wallet.amount = 1
        tx.model(Wallet).save(wallet)
        tx.rollback()
        db.model(Wallet).save(wallet)
        assert [one.amount for one in db.model(Wallet).find()] == [1]
