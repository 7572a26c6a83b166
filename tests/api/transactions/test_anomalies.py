"""The table of anomalies in docs/how-to/transactions.md: which can happen under which isolation, each shown here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.api.transactions.rig import connect
from wormdb.errors import ClosedError, ConflictError, TransactionConflictError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.api.database import Database
    from wormdb.api.transaction import Isolation

LEVELS = pytest.mark.parametrize("isolation", ["serializable", "snapshot"])


@pytest.fixture
def rival(url: str) -> Iterator[Database]:
    """Another process."""
    with connect(url) as database:
        yield database


@pytest.fixture(autouse=True)
def accounts(db: Database) -> None:
    db["accounts"].insert_many([{"id": "a", "n": 50}, {"id": "b", "n": 50}])
    db["savings"].insert_many([{"id": "a", "n": 50}, {"id": "b", "n": 50}])


def amount(collection: Any, identity: str = "a") -> int:
    document = collection.find_by_id(identity)
    assert document is not None
    found: int = document["n"]
    return found


def add(collection: Any, identity: str, more: int) -> None:
    collection.update_one({"id": identity}, {"$inc": {"n": more}})


def commits(act: Callable[[], object]) -> bool:
    """Whether a transaction commits; a conflict is the only other way that it may end."""
    try:
        act()
    except TransactionConflictError:
        return False
    return True


@LEVELS
def test_dirty_reads_are_not_possible(db: Database, rival: Database, isolation: Isolation) -> None:
    with db.transaction(isolation=isolation) as tx:
        add(tx["accounts"], "a", 1)
        add(tx["savings"], "a", 1)
        with rival.transaction(isolation=isolation) as other:
            assert (amount(other["accounts"]), amount(other["savings"])) == (50, 50)
        assert (amount(rival["accounts"]), amount(rival["savings"])) == (50, 50)
        tx.rollback()
    assert (amount(rival["accounts"]), amount(rival["savings"])) == (50, 50)


@LEVELS
def test_reads_are_repeatable(db: Database, rival: Database, isolation: Isolation) -> None:
    with db.transaction(isolation=isolation) as tx:
        assert amount(tx["accounts"]) == 50
        add(rival["accounts"], "a", 1)
        assert amount(tx["accounts"]) == 50
        assert tx["accounts"].aggregate(sum="n") == {"sum": 100}


@LEVELS
def test_phantoms_are_not_seen(db: Database, rival: Database, isolation: Isolation) -> None:
    with db.transaction(isolation=isolation) as tx:
        assert tx["accounts"].count({"n": {"$gte": 50}}) == 2
        rival["accounts"].insert({"id": "c", "n": 60})
        assert tx["accounts"].count({"n": {"$gte": 50}}) == 2
        assert [one.id for one in tx["accounts"].find({"n": {"$gte": 50}})] == ["a", "b"]


@pytest.mark.parametrize(("isolation", "is_possible"), [("serializable", False), ("snapshot", True)])
def test_a_write_that_follows_from_the_absence_of_a_phantom(
    db: Database, rival: Database, isolation: Isolation, is_possible: bool
) -> None:
    def book() -> None:
        with db.transaction(isolation=isolation) as tx:
            assert tx["accounts"].count({"n": {"$gt": 50}}) == 0
            rival["accounts"].insert({"id": "c", "n": 60})
            tx["accounts"].insert({"id": "none was rich", "n": 0})

    assert commits(book) == is_possible


@LEVELS
def test_lost_updates_are_not_possible(db: Database, rival: Database, isolation: Isolation) -> None:
    def increment() -> None:
        with db.transaction(isolation=isolation) as tx:
            document = tx["accounts"].find_by_id("a")
            assert document is not None
            add(rival["accounts"], "a", 10)
            tx["accounts"].save(document | {"n": document["n"] + 1})

    assert not commits(increment)
    assert amount(db["accounts"]) == 60


@LEVELS
def test_lost_updates_are_not_possible_with_plain_values(db: Database, rival: Database, isolation: Isolation) -> None:
    def increment() -> None:
        with db.transaction(isolation=isolation) as tx:
            value = amount(tx["accounts"])
            add(rival["accounts"], "a", 10)
            tx["accounts"].save({"id": "a", "n": value + 1})

    assert not commits(increment)
    assert amount(db["accounts"]) == 60


@LEVELS
def test_lost_updates_are_not_possible_over_several_collections(
    db: Database, rival: Database, isolation: Isolation
) -> None:
    def move() -> None:
        with db.transaction(isolation=isolation) as tx:
            add(tx["accounts"], "a", -5)
            add(tx["savings"], "a", 5)
            add(rival["savings"], "a", 100)

    assert not commits(move)
    assert (amount(db["accounts"]), amount(db["savings"])) == (50, 150)


@pytest.mark.parametrize(("isolation", "is_possible"), [("serializable", False), ("snapshot", True)])
@pytest.mark.parametrize("second", ["accounts", "savings"])
def test_write_skew(db: Database, rival: Database, isolation: Isolation, is_possible: bool, second: str) -> None:
    """Each of two withdraws what the sum of both accounts allows once."""

    def withdraw(database: Database, mine: str, meanwhile: Callable[[], object] | None = None) -> None:
        with database.transaction(isolation=isolation) as tx:
            total = amount(tx["accounts"], "a") + amount(tx[second], "b")
            if meanwhile is not None:
                meanwhile()
            if total >= 100:
                add(tx["accounts" if mine == "a" else second], mine, -100)

    first = commits(lambda: withdraw(db, "a", lambda: withdraw(rival, "b")))
    total = amount(db["accounts"], "a") + amount(db[second], "b")
    assert first == is_possible
    assert total == (-100 if is_possible else 0)


@LEVELS
def test_read_skew_over_two_collections_is_not_possible(db: Database, rival: Database, isolation: Isolation) -> None:
    """What moved from one to the other between two reads is in one of them, before the transaction commits already."""

    def read() -> int:
        with db.transaction(isolation=isolation) as tx:
            first = amount(tx["accounts"])
            with rival.transaction() as other:
                add(other["accounts"], "a", -10)
                add(other["savings"], "a", 10)
            return first + amount(tx["savings"])

    with pytest.raises(TransactionConflictError) as caught:
        read()
    assert caught.value.collection == "accounts"
    with db.transaction(isolation=isolation) as tx:
        amount(tx["accounts"])
        add(rival["accounts"], "a", 0)
        add(rival["accounts"], "a", 1)
        with pytest.raises(TransactionConflictError):
            amount(tx["savings"])
        with pytest.raises(ClosedError):
            amount(tx["accounts"])  # it cannot go on
    add(rival["accounts"], "a", -1)
    assert db.run(lambda tx: amount(tx["accounts"]) + amount(tx["savings"]), isolation=isolation) == 100


@LEVELS
def test_a_change_of_what_was_not_read_moves_the_transaction_on(
    db: Database, rival: Database, isolation: Isolation
) -> None:
    with db.transaction(isolation=isolation) as tx:
        assert amount(tx["accounts"], "a") == 50
        add(tx["accounts"], "a", 1)
        with rival.transaction() as other:
            add(other["accounts"], "b", -10)
            add(other["savings"], "b", 10)
        assert amount(tx["savings"], "b") == 60
        assert amount(tx["accounts"], "b") == 40, "both are of the later moment"
        assert amount(tx["accounts"], "a") == 51, "with what the transaction wrote"
    assert amount(db["accounts"]) == 51


@LEVELS
def test_a_long_fork_is_not_possible(db: Database, rival: Database, isolation: Isolation) -> None:
    """Two readers never see two independent writes in different orders."""
    with db.transaction(isolation=isolation) as one, rival.transaction(isolation=isolation) as other:
        assert amount(one["accounts"]) == 50
        with connect(db.url) as writer:
            add(writer["accounts"], "a", 1)
            assert amount(other["accounts"]) == 51
            assert amount(other["savings"]) == 50
            add(writer["savings"], "a", 1)
            # The second write came after the first: a reader that sees it has to see that too.
            with pytest.raises(ConflictError):
                amount(one["savings"])
        one.rollback()


def test_a_transaction_that_only_reads_is_of_one_moment_and_validates_nothing(db: Database, rival: Database) -> None:
    with db.transaction() as tx:
        total = amount(tx["accounts"]) + amount(tx["savings"])
        add(rival["accounts"], "a", 10)
        add(rival["savings"], "a", 10)
    assert total == 100
    assert tx.result == wormdb.TransactionCommit("", {})
