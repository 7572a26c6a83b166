"""A transaction of one collection: its own writes are seen, all of it lands by one PUT, or nothing does."""

from __future__ import annotations

import copy
import pickle  # noqa: TID251 - documents go to other processes by pickle
import threading
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.api.faulty import faulty
from tests.api.transactions.rig import connect
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    OutcomeUnknownError,
    TransactionConflictError,
    UniqueViolationError,
    ValidationError,
)
from wormdb.format import json
from wormdb.system.clock import ManualClock
from wormdb.testing.fault_store import Fault

if TYPE_CHECKING:
    from wormdb.api.database import Database

SCHEMA: dict[str, Any] = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "local",
    "models": {
        "Account": {
            "path": "@accounts/(id:ulid)",
            "fields": {"owner": {"type": "string", "required": True}, "n": {"type": "integer", "default": 0}},
            "indexes": {"byOwner": {"field": "owner", "unique": True}},
            "softDelete": {"enabled": True, "ttl": 30},
        },
        "Ticket": {"path": "@tickets/(id:seq)", "fields": {"text": {"type": "string"}}},
    },
}


@pytest.fixture
def accounts(db: Database) -> wormdb.Collection[wormdb.Document]:
    found = db["accounts"]
    found.insert_many([{"id": "a", "n": 10}, {"id": "b", "n": 20}, {"id": "c", "n": 30}])
    return found


def test_own_writes_are_seen_by_every_read_and_by_no_other_reader(
    db: Database, accounts: wormdb.Collection[wormdb.Document]
) -> None:
    before = accounts.find_all()
    with db.transaction() as tx:
        mine = tx["accounts"]
        mine.insert({"id": "d", "n": 40})
        mine.insert_many([{"id": "e", "n": 50}])
        mine.delete("a")
        mine.update_one({"id": "b"}, {"$inc": {"n": 1}})
        mine.modify("c", lambda document: {**document, "n": 31})
        document = mine.find_by_id("d")
        assert document is not None
        document["n"] = 41
        mine.save(document)
        assert [(one.id, one["n"]) for one in mine.find(sort="-n")] == [("e", 50), ("d", 41), ("c", 31), ("b", 21)]
        assert mine.count() == 4
        assert mine.count({"n": {"$gt": 30}}) == 3
        assert mine.aggregate(sum="n", count=True) == {"sum": 143, "count": 4}
        assert mine.distinct("n") == [21, 31, 41, 50]
        assert mine.find_one({"n": 41}, select=["n"]) == {"id": "d", "n": 41}
        assert (mine.exists("a"), "d" in mine) == (False, True)
        assert [one.id for one in mine] == ["b", "c", "d", "e"]
        assert [one.id for one in mine.query().gte("n", 41).execute()] == ["d", "e"]
        assert mine.find_by_id("a") is None
        assert mine.find_by_id("d", raw=True) == b'{"id":"d","n":41}'
        assert mine.find_all({"n": 21}, raw=True) == [b'{"id":"b","n":21}']
        assert accounts.find_all() == before
    assert [(one.id, one["n"]) for one in accounts.find(sort="n")] == [("b", 21), ("c", 31), ("d", 41), ("e", 50)]


def test_all_ways_to_change_documents_land_together(db: Database, accounts: wormdb.Collection[wormdb.Document]) -> None:
    with db.transaction(actor="ann", metadata={"why": "test"}) as tx:
        mine = tx["accounts"]
        assert mine.update_many({"n": {"$gte": 20}}, {"$inc": {"n": 1}}).modified == 2
        assert mine.replace_one({"id": "a"}, {"n": 1}).modified == 1
        assert mine.update_one({"id": "z"}, {"$set": {"n": 5}}, upsert=True).upserted_id == "z"
        assert mine.delete_one({"n": 31}).deleted == 1
        assert mine.delete_many({"n": 21}).deleted == 1
        found = mine.find_one_and_update({"id": "a"}, {"$inc": {"n": 1}}, return_document="after")
        assert found is not None
        assert found["n"] == 2
        batch = mine.batch()
        batch.insert({"id": "y"}).delete("z")
        batch.flush()
        made = mine.create({"n": 9})
        mine.save(made)
    assert sorted(one["n"] for one in accounts.find() if "n" in one) == [2, 9]
    changes = [change for change in accounts.watch() if change.number > 1]
    assert {(change.number, change.actor) for change in changes} == {(2, "ann")}


def test_a_transaction_costs_one_get_and_one_put(url: str) -> None:
    requests: list[str] = []
    with connect(url, hook=lambda one: requests.append(one.kind)) as db:
        accounts = db["accounts"]
        accounts.insert_many([{"id": "a", "n": 1}, {"id": "b", "n": 2}])
        accounts.find_by_id("a")
        requests.clear()
        with db.transaction() as tx:
            mine = tx["accounts"]
            mine.update_one({"id": "a"}, {"$inc": {"n": -1}})
            mine.update_one({"id": "b"}, {"$inc": {"n": 1}})
            assert mine.count({"n": {"$gt": 0}}) == 1
            mine.insert({"id": "c"})
        assert requests == ["get", "put"]
        requests.clear()
        with db.transaction() as tx:
            assert tx["accounts"].count() == 3
            assert tx["accounts"].find_by_id("a") is not None
        assert requests == ["get"]


def test_nothing_is_written_if_the_block_raises(db: Database, accounts: wormdb.Collection[wormdb.Document]) -> None:
    before = accounts.find_all()

    def fail() -> None:
        with db.transaction() as tx:
            tx["accounts"].delete_many({})
            tx["accounts"].insert({"id": "x"})
            raise KeyError("mine")

    with pytest.raises(KeyError):
        fail()
    assert accounts.find_all() == before
    assert accounts.count() == 3


def test_a_refused_call_leaves_the_transaction_as_it_was(
    db: Database, accounts: wormdb.Collection[wormdb.Document]
) -> None:
    with db.transaction() as tx:
        mine = tx["accounts"]
        mine.insert({"id": "d", "n": 1})
        with pytest.raises(AlreadyExistsError):
            mine.insert({"id": "d"})
        with pytest.raises(AlreadyExistsError):
            mine.insert_many([{"id": "e"}, {"id": "a"}])
        with pytest.raises(NotFoundError):
            mine.modify("nothing", lambda document: document)
        assert mine.count() == 4
    assert accounts.count() == 4
    assert accounts.find_by_id("e") is None


def test_eighty_increments_by_threads_are_all_there(url: str) -> None:
    with connect(url) as db:
        increment(db)


def test_eighty_increments_by_threads_are_all_there_on_s3(s3_url: str) -> None:
    requests: list[str] = []
    with connect(s3_url, hook=lambda one: requests.append(one.kind)) as db:
        increment(db)
        puts = requests.count("put")
        assert puts <= 80 + 30, "each try that lands is one PUT at most, and there are few others"


def increment(db: Database) -> None:
    counters = db["counters"]
    counters.insert({"id": "x", "n": 0})
    failed: list[BaseException] = []

    def one(tx: wormdb.Transaction) -> None:
        document = tx["counters"].find_by_id("x")
        assert document is not None
        tx["counters"].save(document | {"n": document["n"] + 1})

    def work() -> None:
        try:
            for _ in range(10):
                db.run(one, seconds=60)
        except wormdb.WormError as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    document = counters.find_by_id("x")
    assert document is not None
    assert (document["n"], document.seq) == (80, 81)


def test_documents_of_a_transaction_can_be_saved_after_it(
    db: Database, accounts: wormdb.Collection[wormdb.Document]
) -> None:
    with db.transaction() as tx:
        inserted = tx["accounts"].insert({"id": "d", "n": 1})
        stale = tx["accounts"].find_by_id("d")
        changed = tx["accounts"].save(dict(inserted) | {"n": 2})
        read = tx["accounts"].find_by_id("a")
        last = tx["accounts"].find_by_id("d")
        copied = last.copy() if last is not None else None
        assert (inserted.rev, changed.rev) == (0, 0), "no entry has them yet"
        with pytest.raises(wormdb.InvalidRequestError, match="still open"):
            accounts.save(changed)
    assert tx.result is not None
    assert tx.result.collections["accounts/"].number == 2
    assert read is not None
    assert last is not None
    assert stale is not None
    assert copied is not None
    assert wormdb.rev_of(last) == 2
    read["n"] = 11
    assert accounts.save(read).rev == 3
    with pytest.raises(ConflictError):
        accounts.save(stale | {"n": 9})
    assert accounts.save(copied | {"n": 3}).rev == 4
    with pytest.raises(ConflictError):
        accounts.save(last | {"n": 9})


def test_copies_of_documents_are_changes_of_them_and_sent_ones_are_not(
    db: Database, accounts: wormdb.Collection[wormdb.Document]
) -> None:
    with db.transaction() as tx:
        made = tx["accounts"].insert({"id": "d", "n": 1})
        copied, sent = copy.deepcopy(made), pickle.loads(pickle.dumps(made))
        assert tx["accounts"].save(copied | {"n": 2})["n"] == 2
        with pytest.raises(ConflictError):
            tx["accounts"].save(made | {"n": 3})
        last = copy.deepcopy(tx["accounts"].find_by_id("d"))
    assert last is not None
    assert accounts.save(last | {"n": 4})["n"] == 4
    with pytest.raises(wormdb.InvalidRequestError, match="a transaction on"):
        accounts.save(sent)


def test_documents_of_a_transaction_that_came_to_nothing_are_what_they_were_before(
    db: Database, accounts: wormdb.Collection[wormdb.Document]
) -> None:
    tx = db.transaction()
    new = tx["accounts"].insert({"id": "d", "n": 1})
    old = tx["accounts"].find_by_id("a")
    assert old is not None
    old = tx["accounts"].save(old | {"n": 11})
    tx.rollback()
    assert accounts.save(old).rev == 2
    assert accounts.save(new).rev == 3
    with db.transaction() as other:
        second = other["accounts"].find_by_id("b")
        assert second is not None
        second = other["accounts"].save(second | {"n": 21})
        other.rollback()
    accounts.update_one({"id": "b"}, {"$set": {"n": 99}})
    with pytest.raises(ConflictError):
        accounts.save(second)


def test_the_state_of_a_transaction_does_not_move(db: Database, accounts: wormdb.Collection[wormdb.Document]) -> None:
    with db.transaction() as tx:
        assert tx["accounts"].count() == 3
        accounts.insert({"id": "x", "n": 1})
        assert tx["accounts"].count() == 3
        assert tx["accounts"].find_by_id("x") is None
        tx.rollback()


def test_models_have_their_rules_in_transactions(url: str) -> None:
    with connect(url, schema=SCHEMA) as db:
        with db.transaction() as tx:
            mine = tx.model("Account")
            first = mine.insert({"owner": "ann"})
            assert first["n"] == 0
            with pytest.raises(ValidationError):
                mine.insert({"n": 3})
            with pytest.raises(UniqueViolationError):
                mine.insert({"owner": "ann"})
            mine.insert({"owner": "bob"})
            mine.delete(first)
        assert [one["owner"] for one in db.model("Account").find()] == ["bob"]
        assert [one.document["owner"] for one in db.model("Account").list_trashed()] == ["ann"]
        with db.transaction() as tx:
            ids = [tx.model("Ticket").insert({"text": str(each)}).id for each in range(3)]
            assert list(map(int, ids)) == [1, 2, 3]
        assert sorted(one.id for one in db.model("Ticket").find()) == ids


def test_a_unique_value_that_was_taken_meanwhile_is_a_conflict(url: str) -> None:
    with connect(url, schema=SCHEMA) as db, connect(url, schema=SCHEMA) as other:
        db.model("Account").insert({"owner": "zoe"})

        def work() -> None:
            with db.transaction() as tx:
                tx.model("Account").insert({"owner": "ann"})
                other.model("Account").insert({"owner": "ann"})

        with pytest.raises(TransactionConflictError):
            work()
        assert db.model("Account").count() == 2


def test_a_number_that_was_taken_meanwhile_is_a_conflict_that_run_repeats(url: str) -> None:
    with connect(url, schema=SCHEMA) as db, connect(url, schema=SCHEMA) as other:
        db.model("Ticket").insert({"text": "first"})
        tries: list[Any] = []

        def work(tx: wormdb.Transaction) -> Any:
            made = tx.model("Ticket").insert({"text": "mine"}).id
            if not tries:
                other.model("Ticket").insert({"text": "rival"})
            tries.append(made)
            return made

        assert int(db.run(work)) == 3
        assert list(map(int, tries)) == [2, 3]


def test_run_gives_up_at_its_deadline_with_the_conflict(url: str) -> None:
    tries = []
    clock = ManualClock()
    with connect(url, clock=clock) as db, connect(url, clock=clock) as other:
        begun = clock.monotonic()
        other["counters"].insert({"id": "x", "n": 0})

        def work(tx: wormdb.Transaction) -> None:
            tries.append(tx["counters"].update_one({"id": "x"}, {"$inc": {"n": 1}}))
            other["counters"].update_one({"id": "x"}, {"$inc": {"n": 1}})

        with pytest.raises(TransactionConflictError) as caught:
            db.run(work, seconds=3)
        assert 0 < clock.monotonic() - begun < 4, "within a second after the deadline"
    assert (caught.value.collection, caught.value.key) == ("counters", '"x"')
    assert len(tries) > 5


def test_blobs_are_written_before_and_referred_to_by_the_commit(db: Database) -> None:
    db["files"].insert({"id": "first"})
    with db.transaction() as tx:
        reference = tx["files"].put_blob(b"hello", content_type="text/plain")
        tx["files"].insert({"id": "x", "body": reference})
    found = db["files"].find_by_id("x")
    assert found is not None
    with db["files"].open_blob(found["body"]) as stream:
        assert stream.read() == b"hello"


def test_a_reference_to_a_blob_that_is_not_there_is_refused_by_the_commit(db: Database) -> None:
    stored = db["files"].put_blob(b"hello")
    text = json.encode(stored.to_dict()).replace(stored.sha256.encode(), b"0" * 64)
    tx = db.transaction()
    tx["files"].insert({"id": "x", "body": json.decode(text, name="reference")})
    with pytest.raises(NotFoundError, match="blob"):
        tx.commit()
    assert (tx.state, db["files"].count()) == ("aborted", 0)


def test_a_large_transaction_of_one_collection_is_staged_and_still_validated(url: str) -> None:
    with connect(url) as db, connect(url) as other:
        things = db["things"]
        things.insert({"id": "a", "n": 1})

        def work(*, is_disturbed: bool) -> None:
            with db.transaction() as tx:
                assert tx["things"].count({"n": 1}) == 1
                tx["things"].insert_many([{"id": f"{number:04}", "text": "x" * 10_000} for number in range(600)])
                if is_disturbed:
                    other["things"].insert({"id": "b", "n": 1})

        with pytest.raises(TransactionConflictError):
            work(is_disturbed=True)
        assert things.count() == 2
        things.delete("b")
        work(is_disturbed=False)
        assert things.count() == 601


def test_an_unknown_outcome_has_an_id_that_resolves() -> None:
    for number in range(1, 12):
        db, store = faulty({number: Fault.ANSWER_LOST}, commit_seconds=1.0)
        tx = db.transaction()
        tx["things"].insert({"id": "a"})
        unknown: OutcomeUnknownError | None = None
        try:
            tx.commit()
        except OutcomeUnknownError as error:
            unknown = error
        if unknown is not None:
            assert tx.state == "unknown"
            assert db["things"].resolve(unknown, settle=True) == "committed"
        assert db["things"].find_by_id("a") == {"id": "a"}, store.trace
