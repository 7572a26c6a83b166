"""What a transaction is not for is refused by a typed error, before anything is written."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.api.transactions.rig import connect
from wormdb.errors import (
    ClosedError,
    InvalidRequestError,
    LimitExceededError,
    SnapshotTooOldError,
    TransactionConflictError,
    TransactionTooLargeError,
    TransactionTooOldError,
)
from wormdb.settings import Settings
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from wormdb.api.database import Database


def test_a_transaction_is_not_used_after_its_end(db: Database) -> None:
    with db.transaction() as tx:
        handle = tx["things"]
        handle.insert({"id": "a"})
        rows = handle.find()
    for use in (lambda: tx["things"], handle.count, lambda: handle.insert({"id": "b"}), tx.commit):
        with pytest.raises(ClosedError, match="committed"):
            use()
    with pytest.raises(ClosedError):
        rows.to_list()
    tx.rollback()
    assert db["things"].count() == 1


def test_a_commit_in_the_block_ends_it(db: Database) -> None:
    with db.transaction() as tx:
        tx["things"].insert({"id": "a"})
        result = tx.commit()
    assert tx.result is result
    assert result.collections["things/"].number == 1


def test_a_transaction_belongs_to_one_thread(db: Database) -> None:
    errors: list[BaseException] = []
    with db.transaction() as tx:
        tx["things"].insert({"id": "a"})

        def other() -> None:
            for use in (lambda: tx["things"], tx.commit):
                try:
                    use()
                except InvalidRequestError as error:
                    errors.append(error)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert [isinstance(one, InvalidRequestError) and "thread" in one.reason for one in errors] == [True, True]
        assert tx.state == "open"
    assert db["things"].count() == 1


def test_transactions_are_not_nested(db: Database) -> None:
    with db.transaction() as tx:
        with pytest.raises(InvalidRequestError, match="inside of a transaction"):
            db.transaction()
        with pytest.raises(InvalidRequestError, match="inside of a transaction"):
            db.run(lambda inner: inner["things"].count())
        tx["things"].insert({"id": "a"})
    with db.transaction() as tx:
        assert tx["things"].count() == 1


def test_tasks_of_one_thread_have_transactions_of_their_own(db: Database) -> None:
    async def work(name: str) -> None:
        with db.transaction() as tx:
            tx["things"].insert({"id": name})
            await asyncio.sleep(0)
            assert [one.id for one in tx["things"]] == [name]

    async def both() -> None:
        await asyncio.gather(work("a"), work("b"))

    with pytest.raises(TransactionConflictError):
        asyncio.run(both())  # each has read all of what the other writes
    assert db["things"].count() == 1


def test_an_interrupt_during_the_commit_leaves_it_unknown(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    tx = db.transaction()
    document = tx["things"].insert({"id": "a"})

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("wormdb.engine.ledger.Ledger.commit", interrupt)
        with pytest.raises(KeyboardInterrupt):
            tx.commit()
    assert tx.state == "unknown"
    with pytest.raises(InvalidRequestError, match="not known"):
        db["things"].save(document)
    assert db["things"].count() == 0


def test_collections_of_another_database_are_refused(db: Database, tmp_path: Any) -> None:
    db["things"].insert({"id": "a"})
    with connect(tmp_path / "other") as other, db.transaction() as tx:
        assert tx[db["things"]].count() == 1
        with pytest.raises(InvalidRequestError, match="another database"):
            tx[other["things"]]
        foreign = other["things"].insert({"id": "x"})
        with pytest.raises(InvalidRequestError, match="read from"):
            tx["things"].save(foreign)


@pytest.mark.parametrize(
    "name",
    ["create_index", "drop_index", "forward", "gc", "watch", "cursor", "resume", "rollback", "purge", "functions"],
)
def test_what_is_no_part_of_transactions_is_refused_by_name(db: Database, name: str) -> None:
    with db.transaction() as tx:
        handle = tx["things"]
        with pytest.raises(InvalidRequestError, match=f"{name} in a transaction"):
            getattr(handle, name)("x")
        with pytest.raises(AttributeError):
            _ = handle.no_such_thing


def test_one_change_has_no_actor_of_its_own(db: Database) -> None:
    with db.transaction(actor="ann") as tx, pytest.raises(InvalidRequestError, match="actor or metadata"):
        tx["things"].update_many({}, {"$set": {"n": 1}}, actor="bob")


def test_an_unknown_isolation_is_refused(db: Database) -> None:
    with pytest.raises(InvalidRequestError, match="isolation"):
        db.transaction(isolation="chaos")  # type: ignore[arg-type] # a mistake
    with pytest.raises(InvalidRequestError, match="must be a function"):
        db.run("no function")  # type: ignore[arg-type] # a mistake


@pytest.mark.parametrize("is_read_first", [False, True])
def test_a_transaction_that_is_too_old_writes_nothing(url: str, is_read_first: bool) -> None:
    clock = ManualClock()
    with wormdb.connect(url, clock=clock) as db:
        db["things"].insert({"id": "a"})
        tx = db.transaction()
        tx["things"].insert({"id": "b"})
        clock.advance(5.1)
        with pytest.raises(TransactionTooOldError) as caught:
            tx["things"].count() if is_read_first else tx.commit()
        assert isinstance(caught.value, SnapshotTooOldError)
        assert "5 seconds" in str(caught.value)
        assert db["things"].count() == 1
        with db.transaction(seconds=10) as longer:
            longer["things"].insert({"id": "c"})
            clock.advance(9)
        assert db["things"].count() == 2


def test_a_transaction_that_is_too_large_is_refused_at_the_call(url: str) -> None:
    with connect(url, settings=Settings(transaction_bytes=10_000)) as db, db.transaction() as tx:
        tx["things"].insert({"id": "a", "text": "x" * 4_000})
        with pytest.raises(TransactionTooLargeError) as caught:
            tx["others"].insert({"id": "b", "text": "x" * 6_000})
        assert isinstance(caught.value, LimitExceededError)
        tx["others"].insert({"id": "b"})
    assert db is not None


def test_ten_million_bytes_and_five_seconds_are_the_defaults() -> None:
    assert (Settings().transaction_bytes, Settings().transaction_seconds) == (10_000_000, 5.0)
