"""A transaction of several collections: all of it is seen everywhere from one moment on, or nothing ever is."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.api.faulty import faulty
from tests.api.transactions.rig import connect
from wormdb.errors import (
    ConflictError,
    InvalidRequestError,
    OutcomeUnknownError,
    TransactionConflictError,
    WormError,
)
from wormdb.testing.fault_store import Fault

if TYPE_CHECKING:
    from wormdb.api.database import Database

SCHEMA: dict[str, Any] = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "local",
    "models": {
        "Order": {"path": "@orders/(id:ulid)", "fields": {"customer": {"type": "string", "required": True}}},
        "Line": {
            "path": "@lines/(id:ulid)",
            "fields": {"order": {"type": "string", "ref": "Order"}, "n": {"type": "integer"}},
        },
    },
}


def transfer(tx: wormdb.Transaction, amount: int, source: str = "a", target: str = "a") -> None:
    tx["accounts"].update_one({"id": source}, {"$inc": {"n": -amount}})
    tx["savings"].update_one({"id": target}, {"$inc": {"n": amount}})


def fill(db: Database) -> None:
    for name in ("accounts", "savings"):
        db[name].insert_many([{"id": identity, "n": 100} for identity in "abc"])


def amounts(db: Database, identity: str = "a") -> list[int]:
    found = [db[name].find_by_id(identity) for name in ("accounts", "savings")]
    return [-1 if one is None else one["n"] for one in found]


def test_all_of_it_is_there_for_every_reader(db: Database, url: str) -> None:
    fill(db)
    with db.transaction(actor="ann") as tx:
        transfer(tx, 30)
        assert tx["accounts"].find_by_id("a") == {"id": "a", "n": 70}
        tx["audit"].insert({"id": "x", "n": 30})
    assert tx.result is not None
    assert tx.result.id.startswith("tx-")
    assert {name: (one.changes, one.number) for name, one in tx.result.collections.items()} == {
        "accounts/": (1, None),
        "audit/": (1, None),
        "savings/": (1, None),
    }
    assert amounts(db) == [70, 130]
    with connect(url) as other:
        assert amounts(other) == [70, 130]
        assert other["accounts"].find_all({"n": 70}, select=["n"]) == [{"id": "a", "n": 70}]
        assert other["audit"].count() == 1
        other.forward(["accounts", "savings", "audit"])
        assert amounts(other) == [70, 130]
        assert [change.actor for change in other["audit"].watch()] == ["ann"]
        assert [entry.seq for entry in other["accounts"].get_history("a")] == [1, 2]


def test_it_costs_one_put_for_each_collection_and_one_more(url: str) -> None:
    requests: list[str] = []
    with connect(url, hook=lambda one: requests.append(str(one.kind))) as db:
        fill(db)
        assert amounts(db) == [100, 100]
        requests.clear()
        with db.transaction() as tx:
            transfer(tx, 1)
            requests_of_reads = list(requests)
        assert requests_of_reads == ["get", "get", "get"], "the second collection looks again at the first"
        assert requests[3:] == ["put", "put", "put"]
        for identity in "bbc":
            before = db.cost()
            with db.transaction() as tx:
                transfer(tx, 1, identity, identity)
            spent = db.cost()
            assert spent.puts - before.puts == 3, "what the one before left is finished inside its entries"


def test_nothing_is_written_if_the_block_raises(db: Database) -> None:
    fill(db)

    def fail() -> None:
        with db.transaction() as tx:
            transfer(tx, 1)
            raise KeyError("mine")

    with pytest.raises(KeyError):
        fail()
    assert amounts(db) == [100, 100]
    assert [status.number for status in db.status(["accounts", "savings"])] == [1, 1]


def test_a_conflict_in_one_collection_leaves_nothing_in_the_other(db: Database, url: str) -> None:
    fill(db)
    with connect(url, actor="rival") as rival:

        def work() -> None:
            with db.transaction() as tx:
                transfer(tx, 1)
                rival["savings"].update_one({"id": "a"}, {"$inc": {"n": 1000}})

        with pytest.raises(TransactionConflictError) as caught:
            work()
        error = caught.value
        assert (error.collection, error.key, error.by) == ("savings", '"a"', "rival")
        assert amounts(db) == [100, 1100]
        db["accounts"].update_one({"id": "a"}, {"$inc": {"n": 1}})
        assert amounts(rival) == [101, 1100]


def test_documents_get_their_revision_with_the_entry_that_finishes_them(db: Database) -> None:
    fill(db)
    with db.transaction() as tx:
        inserted = tx["accounts"].insert({"id": "d", "n": 1})
        stale = tx["accounts"].find_by_id("d")
        saved = tx["accounts"].save(inserted | {"n": 2})
        tx["savings"].insert({"id": "d"})
    assert stale is not None
    read = db["accounts"].find_by_id("d")
    assert read is not None
    assert (saved.rev, saved.seq, read.rev, read.seq, wormdb.rev_of(read)) == (0, 2, 0, 2, None)
    with pytest.raises(ConflictError):
        db["accounts"].save(stale | {"n": 9})
    assert db["accounts"].save(saved | {"n": 3}).seq == 3
    with pytest.raises(ConflictError):
        db["accounts"].save(read | {"n": 9})
    again = db["accounts"].find_by_id("d")
    assert again is not None
    assert (again["n"], again.rev > 0) == (3, True)


def test_what_is_read_after_a_transaction_can_be_saved(db: Database) -> None:
    fill(db)
    with db.transaction() as tx:
        transfer(tx, 1)
    read = db["accounts"].find_by_id("a")
    assert read is not None
    assert db["accounts"].save(read | {"n": 5})["n"] == 5
    with pytest.raises(ConflictError):
        db["accounts"].save(read | {"n": 6})
    assert amounts(db) == [5, 101]


@pytest.mark.parametrize("isolation", ["serializable", "snapshot"])
def test_models_define_their_collections_on_the_way(url: str, isolation: Any) -> None:
    with connect(url, schema=SCHEMA) as db:
        with db.transaction(isolation=isolation) as tx:
            order = tx.model("Order").insert({"customer": "ann"})
            tx.model("Line").insert_many([{"order": order.id, "n": each} for each in range(3)])
            rows = tx.model("Line").find_all({"n": 1}, populate="order")
            assert rows[0]["order"]["customer"] == "ann"
        assert db.model("Line").count({"order": order.id}) == 3
        assert db.model("Order").count() == 1
    with connect(url) as other:
        assert other.model("Order").find_all(select=["customer"]) == [{"id": order.id, "customer": "ann"}]


def test_collections_that_were_only_read_are_validated_too(db: Database, url: str) -> None:
    fill(db)
    with connect(url) as rival:

        def work(isolation: Any) -> None:
            with db.transaction(isolation=isolation) as tx:
                assert not tx["accounts"].exists("nothing")
                if tx["savings"].count({"n": {"$gte": 100}}) == 3:
                    rival["savings"].insert({"n": 500})
                    tx["accounts"].insert({"rich": 3})

        with pytest.raises(TransactionConflictError) as caught:
            work("serializable")
        assert caught.value.collection == "savings"
        rival["savings"].delete_many({"n": 500})
        work("snapshot")
        assert db["accounts"].count() == 4


def test_an_unknown_outcome_is_resolved_by_its_id() -> None:
    fates = set()
    for number in range(1, 40):
        for fault in (Fault.ANSWER_LOST, Fault.LANDS_LATE, Fault.UNAVAILABLE_503):
            db, store = faulty({}, commit_seconds=1.0)
            fill(db)
            store._plan = {store.requests + number: fault}
            tx = db.transaction()
            caught: WormError | None = None
            try:
                transfer(tx, 1)
                tx.commit()
            except WormError as error:
                caught = error
            if isinstance(caught, OutcomeUnknownError):
                assert tx.state == "unknown"
                fate = str(db.resolve(caught, settle=True))
                fates.add(fate)
                expected = [99, 101] if fate == "committed" else [100, 100]
            else:
                expected = [100, 100] if caught else [99, 101]
            store.land()
            assert amounts(db) == expected, (number, fault)
            db["accounts"].update_one({"id": "a"}, {"$inc": {"n": 1000}})
            assert amounts(db) == [expected[0] + 1000, expected[1]]


def test_ids_that_are_no_transactions_are_refused(db: Database) -> None:
    for wrong in ("", "tx-", "1-" + "0" * 32 + "-" + "0" * 32, "tx-" + "z" * 32, None):
        with pytest.raises(InvalidRequestError, match="resolve"):
            db.resolve(wrong)  # type: ignore[arg-type] # a mistake
    assert db.resolve("tx-" + "f" * 32) == "unknown"
    assert db.resolve("tx-" + "f" * 32, settle=True) == "not committed"


def test_transfers_by_threads_keep_the_sum_in_every_snapshot(url: str) -> None:
    with connect(url) as db, connect(url) as reader:
        run_transfers(db, reader, each=8)


def test_transfers_by_threads_keep_the_sum_in_every_snapshot_on_s3(s3_url: str) -> None:
    with connect(s3_url) as db, connect(s3_url) as reader:
        run_transfers(db, reader, each=4)


def run_transfers(db: Database, reader: Database, each: int) -> None:
    fill(db)
    failed: list[WormError] = []

    def work(source: str, target: str) -> None:
        try:
            for _ in range(each):
                db.run(lambda tx: transfer(tx, 1, source, target), seconds=60)
        except WormError as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in (("a", "a"), ("a", "b"), ("b", "a"), ("c", "c"))]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert reader.run(total) == 600
        with reader.snapshot(["accounts", "savings"]) as snapshot:
            found = [snapshot[name].aggregate(sum="n")["sum"] for name in ("accounts", "savings")]
            assert sum(found) == 600
    for thread in threads:
        thread.join()
    assert not failed
    sums = [db[name].aggregate(sum="n")["sum"] for name in ("accounts", "savings")]
    assert sums == [300 - 4 * each, 300 + 4 * each]


def total(tx: wormdb.Transaction) -> int:
    return sum(tx[name].aggregate(sum="n")["sum"] for name in ("accounts", "savings"))
