"""Transactions over collections that other processes drop, and make anew, while they are open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.api.transactions.rig import connect
from wormdb.errors import ConflictError, TransactionConflictError

if TYPE_CHECKING:
    from wormdb.api.database import Database

REMOVED = "the collection was removed since it was read"


@pytest.fixture
def other(db: Database, url: str) -> Database:
    """Another process; two collections have a document each."""
    for name in ("one", "two"):
        db[name].insert({"id": "a", "n": 1})
    return connect(url)


def make_anew(db: Database) -> None:
    """The same document of the same version, in another life of the collection."""
    db.drop("one")
    db["one"].insert({"id": "a", "n": 2})


@pytest.mark.parametrize("anew", [False, True])
def test_what_is_read_of_several_collections_is_of_one_moment(db: Database, other: Database, *, anew: bool) -> None:
    with db.transaction() as tx:
        assert tx["one"].find_by_id("a") == {"id": "a", "n": 1}
        make_anew(other) if anew else other.drop("one")
        other.drop("two")
        with pytest.raises(TransactionConflictError, match=REMOVED):
            tx["two"].find_by_id("a")
        tx.rollback()


def test_nothing_is_written_by_what_was_read_of_a_collection_that_is_gone(db: Database, other: Database) -> None:
    tx = db.transaction()
    assert tx["one"].count({"n": 1}) == 1
    tx["two"].save({"id": "b"})
    make_anew(other)
    with pytest.raises(TransactionConflictError, match=REMOVED):
        tx.commit()
    assert [each.id for each in other["two"].find({})] == ["a"]


def test_a_document_of_the_next_life_is_not_the_one_that_was_read(db: Database, other: Database) -> None:
    tx = db.transaction()
    assert tx["one"].find_by_id("a") == {"id": "a", "n": 1}
    tx["two"].save({"id": "b"})
    make_anew(other)
    other["one"].forward()  # the tail tells nothing of it
    with pytest.raises(TransactionConflictError, match=REMOVED):
        tx.commit()
    assert other["two"].find_by_id("b") is None


def test_a_removal_before_the_first_look_is_no_conflict(db: Database, other: Database) -> None:
    with db.transaction() as tx:
        make_anew(other)
        assert tx["one"].find_by_id("a") == {"id": "a", "n": 2}
        tx["two"].save({"id": "b"})
    assert other["two"].count() == 2


def test_what_an_unfinished_transaction_wrote_is_not_taken_for_a_document_of_the_next_life(
    db: Database, other: Database
) -> None:
    with db.transaction() as tx:
        for name in ("one", "two"):
            tx[name].insert({"id": "x", "n": 1})
    early = other["one"].find_by_id("x")  # no entry has it yet, so it has no revision of its own
    assert early is not None
    db.drop("one")
    db["one"].insert({"id": "x", "n": 2})
    early["n"] = 3
    with pytest.raises(ConflictError):
        other["one"].save(early)
    assert db["one"].find_by_id("x") == {"id": "x", "n": 2}
