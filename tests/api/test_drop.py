"""A collection is dropped: what that costs, what goes, what stays, and what other calls see of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.api.market import spent
from wormdb.engine.commit.operations import Pending
from wormdb.errors import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    RemovedError,
    SnapshotTooOldError,
)
from wormdb.format.event import JobAttached, JobOpened
from wormdb.settings import Settings
from wormdb.storage.memory import MemoryStore
from wormdb.storage.store import WrappedStore
from wormdb.system.clock import ManualClock, SeededChance
from wormdb.system.types import WriteId

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wormdb.api.database import Database
    from wormdb.storage.store import Store

MANUAL = Settings(forward="manual", forward_interval_ms=0)
SCHEMA: dict[str, Any] = {
    "schemaVersion": "1.0",
    "models": {
        "Customer": {
            "path": "#org/@customers/(id:string)/[profile].json",
            "fields": {"name": {"type": "string"}},
            "files": True,
            "softDelete": {"enabled": True},
            "snapshots": {"enabled": True, "every": 1},
            "indexes": {"byName": {"field": "name", "unique": True}},
        },
        "Order": {"path": "#org/@customers/(customer:string)/@orders/(id:string)"},
    },
}


def keys(database: Database, prefix: str = "") -> list[str]:
    return [info.key for page in database.store.list(prefix) for info in page.objects]


def filled(database: Database) -> None:
    things = database["things"]
    things.create_index("n")
    things.insert_many([{"id": f"t{number}", "n": number} for number in range(5)])
    things.forward()
    things.insert({"id": "later", "n": 9})


# --- what it costs ---


def test_what_a_drop_costs(url: str) -> None:
    with wormdb.connect(url, settings=MANUAL) as database:
        filled(database)
        objects = len(keys(database, "things/.worm.db/"))
        with wormdb.connect(url, settings=MANUAL) as other:
            used = spent(other, lambda: other.drop("things"))
        # The schema; a first read of a tail of one entry; a look at the log, because another process wrote last; the
        # root, the entry that removes, and the root once more before the deletion.
        assert (used.gets, used.puts, used.lists, used.deletes, used.heads) == (1 + 4 + 1 + 3, 4, 1, 1, 0)
        assert objects > len(keys(database, "things/.worm.db/"))


def test_what_a_drop_costs_in_a_process_that_knows_the_collection(url: str) -> None:
    with wormdb.connect(url, settings=MANUAL) as database:
        filled(database)
        used = spent(database, lambda: database.drop("things"))
        assert (used.gets, used.puts, used.lists, used.deletes, used.heads) == (1 + 1 + 3, 4, 1, 1, 0)


def test_a_read_of_a_removed_collection_asks_for_its_root_too(url: str) -> None:
    with wormdb.connect(url, settings=MANUAL) as database:
        filled(database)
        things = database["things"]
        database.removal("things").remove()
        assert spent(database, things.count).gets == 2
        database.removal("things").purge()
        assert spent(database, things.count).gets == 2  # as any first read
        assert spent(database, things.count).gets == 1


def test_a_list_of_collections_asks_for_the_roots_of_removed_ones_only(url: str) -> None:
    with wormdb.connect(url, settings=MANUAL) as database:
        for name in ("a", "b", "c"):
            database[name].insert({"id": "x"})
        plain = spent(database, database.collections)
        database.drop("b")
        used = spent(database, database.collections)
        assert (used.lists, used.gets) == (plain.lists, plain.gets + 2)
        assert database.collections() == ["a/", "c/"]
        assert database.collections(with_removed=True) == ["a/", "b/", "c/"]
        database["b"].insert({"id": "y"})
        assert database.collections() == ["a/", "b/", "c/"]


# --- what goes, and what stays ---


def test_the_result_says_what_went(db: Database) -> None:
    filled(db)
    planned = db.removal("things").survey()
    assert (planned.number, planned.documents, planned.files) == (0, 6, 0)
    done = db.drop("things")
    assert done is not None
    assert (done.collection, done.number, done.documents) == ("things/", 4, 6)
    assert done.objects + done.waiting == planned.objects + 1
    assert done.bytes > 0


def test_the_name_is_free_at_once_and_numbers_go_on(db: Database) -> None:
    filled(db)
    dropped = db.drop("things")
    assert dropped is not None
    things = db["things"]
    assert (things.count(), list(things.find({})), things.find_by_id("t1")) == (0, [], None)
    assert things.indexes() == db["never"].indexes()
    new = things.insert({"id": "t1", "n": 77})
    assert new.rev == dropped.number + 1
    assert [each["n"] for each in things.find({"n": 77})] == [77]
    assert [found.findings for found in db.verify(["things"])] == [()]
    things.forward()
    assert [found.findings for found in db.verify(["things"], unreferenced=True)] == [()]
    assert [(entry.op, entry.rev) for entry in things.get_history("t1")] == [("create", new.rev)]


def test_what_is_missing_is_told_or_passed_over(db: Database) -> None:
    with pytest.raises(NotFoundError, match="collection things: there is none of this name") as caught:
        db.drop("things")
    assert not isinstance(caught.value, RemovedError)
    assert db.drop("things", missing_ok=True) is None
    filled(db)
    db.drop("things")
    assert db.drop("things", missing_ok=True) is None
    with pytest.raises(NotFoundError):
        db.removal("things").remove()
    with pytest.raises(InvalidRequestError, match="was not removed"):
        db.removal("things").purge()
    with pytest.raises(NotFoundError):
        db.removal("things").survey()


def test_collections_inside_and_around_it_stay(db: Database) -> None:
    for name in ("org", "org/customers", "org/customers/x", "org/customers2"):
        db[name].insert({"id": name})
        db[name].forward()
    db.drop("org/customers")
    assert db["org/customers"].count() == 0
    for name in ("org", "org/customers/x", "org/customers2"):
        assert [each.id for each in db[name].find({})] == [name]
    assert [found.findings for found in db.verify(["org", "org/customers/x", "org/customers2"])] == [(), (), ()]


def test_readable_files_go_and_those_of_others_stay(url: str) -> None:
    with wormdb.connect(url, schema=SCHEMA) as database:
        customers, orders = database.model("Customer"), database.model("Order", customer="acme")
        customers.insert_many([{"id": "acme", "name": "Acme"}, {"id": "gone", "name": "Gone"}])
        customers.delete("gone")
        orders.insert({"id": "o1"})
        customers.forward()
        database.files.sync("Customer")
        foreign = ["org/customers/README.txt", "org/customers/acme/photo.png", "org/customers/acme/orders/notes.txt"]
        for key in foreign:
            database.store.put(key, b"of another program")
        written = [key for key in keys(database) if key.endswith("profile.json")]
        assert written
        done = database.drop("Customer")
        assert done is not None
        assert done.files >= len(written)
        left = [key for key in keys(database) if "/.worm.db/" not in key]
        assert [key for key in left if "acme" in key or "gone" in key] == sorted(foreign[1:])
        assert foreign[0] in left
        assert [each.id for each in orders.find({})] == ["o1"]
        assert database.schema is not None
        assert "Customer" in database.schema.models
        again = customers.insert({"id": "acme", "name": "Acme"})
        customers.forward()
        assert again.rev > done.number
        assert [found.findings for found in database.verify(["Customer"])] == [()]
        assert any(key.endswith("acme/profile.json") for key in keys(database))


class Late(WrappedStore):
    """A store in which a rival does something before the first deletion of a readable file arrives."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.rival: Callable[[], None] | None = None

    @property
    def is_waiting(self) -> bool:
        return self.rival is not None

    def delete_many(self, keys: Sequence[str]) -> None:
        if self.rival is not None and any(key.endswith("profile.json") for key in keys):
            rival, self.rival = self.rival, None
            rival()
        super().delete_many(keys)


@pytest.mark.parametrize("keeps_files", [True, False])
def test_files_of_a_new_collection_that_a_late_deletion_hits_are_written_again(keeps_files: bool) -> None:
    shared = MemoryStore()
    late = Late(shared)
    slow = wormdb.connect(late, schema=SCHEMA)
    slow.model("Customer").insert({"id": "acme", "name": "Acme"})
    slow.files.sync("Customer")
    quick = wormdb.connect(shared, schema=SCHEMA)

    def purge_and_begin_anew() -> None:
        assert quick.drop("Customer") is not None
        if keeps_files:
            quick.model("Customer").insert({"id": "acme", "name": "Anew"})
            quick.files.sync("Customer")
            assert "org/customers/acme/profile.json" in keys(quick)

    late.rival = purge_and_begin_anew
    slow.drop("Customer")
    assert not late.is_waiting, "it came in between"
    assert ("org/customers/acme/profile.json" in keys(quick)) is keeps_files
    assert [found.findings for found in quick.verify(["Customer"])] == [()]


def test_files_that_are_switched_off_are_not_ours_any_more(url: str) -> None:
    with wormdb.connect(url, schema=SCHEMA) as database:
        database.model("Customer").insert({"id": "acme", "name": "Acme"})
        database.files.on("Customer")
        database.files.off("Customer")
        database.store.put("org/customers/acme/profile.json", b"{}")
        database.drop("Customer")
        assert "org/customers/acme/profile.json" in keys(database)


def test_a_blob_of_the_same_content_gets_a_key_of_its_own(db: Database) -> None:
    things = db["things"]
    things.insert({"id": "a", "blob": things.put_blob(b"x" * 1000)})
    things.forward()
    (before,) = keys(db, "things/.worm.db/blobs/")
    stale = things.put_blob(b"y" * 1000)
    db.drop("things")
    with pytest.raises(wormdb.WormError):
        things.insert({"id": "b", "blob": stale})
    things.insert({"id": "a", "blob": things.put_blob(b"x" * 1000)})
    (after,) = keys(db, "things/.worm.db/blobs/")
    assert after != before
    assert [found.findings for found in db.verify(["things"])] == [()]


# --- what others see ---

WRITES: dict[str, Callable[[Database], object]] = {
    "insert": lambda db: db["things"].insert({"id": "new"}),
    "save": lambda db: db["things"].save({"id": "t1", "n": 8}),
    "delete": lambda db: db["things"].delete("t1"),
    "import": lambda db: db["things"].import_records([{"id": "new"}]),
    "create index": lambda db: db["things"].create_index("other"),
    "function": lambda db: db["things"].functions.register("f", "n>1"),
    "drop": lambda db: db.removal("things").remove(),
}


@pytest.mark.parametrize("is_warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("write", WRITES)
def test_every_write_is_refused_until_it_is_purged(url: str, write: str, is_warm: bool) -> None:
    with wormdb.connect(url, settings=MANUAL) as database, wormdb.connect(url, settings=MANUAL) as other:
        filled(database)
        if is_warm:
            assert other["things"].count() == 6
        database.removal("things").remove()
        before = keys(database)
        with pytest.raises(RemovedError, match=r"things.*entry 4 removed it.*db\.drop\(name\) or `worm drop`"):
            WRITES[write](other)
        other["things"].forward()
        other.gc(["things"])
        assert keys(database) == before
        assert (other["things"].count(), list(other["things"].find({}))) == (0, [])
        assert other["things"].find_by_id("t1") is None
        database.removal("things").purge()
        assert other["things"].insert({"id": "new"}).rev == 5


def test_a_drop_goes_on_with_one_that_only_removed(db: Database) -> None:
    filled(db)
    number = db.removal("things").remove()
    assert db.removal("things").is_removed()
    done = db.drop("things")
    assert done is not None
    assert (done.number, done.documents) == (number, 0)
    assert not db.removal("things").exists()


def test_a_document_of_before_is_not_saved_into_the_new_collection(url: str) -> None:
    with wormdb.connect(url, settings=MANUAL) as database, wormdb.connect(url, settings=MANUAL) as other:
        filled(database)
        loaded = other["things"].find_by_id("t1")
        assert loaded is not None
        database.drop("things")
        loaded["n"] = 100
        with pytest.raises(ConflictError):
            other["things"].save(loaded)
        database["things"].insert({"id": "t1", "n": 1})
        with pytest.raises(ConflictError):
            other["things"].save(loaded)


def exhaust(cursor: Any) -> None:
    while cursor.next_batch():
        pass


def test_a_reader_that_has_shown_rows_says_that_the_others_are_gone(url: str) -> None:
    settings = Settings(forward="manual", forward_interval_ms=0, cache_bytes=0, block_bytes=10_000)
    with wormdb.connect(url, settings=settings) as database, wormdb.connect(url, settings=settings) as other:
        things = database["things"]
        things.insert_many([{"id": f"t{number:03}", "text": f"{number}" * 200} for number in range(500)])
        things.forward()
        cursor = other["things"].cursor(batch_size=10)
        assert len(cursor.next_batch()) == 10
        database.drop("things")
        with pytest.raises(SnapshotTooOldError):
            exhaust(cursor)
        assert other["things"].count() == 0


def test_a_feed_ends_with_the_collection_and_another_follows_the_new_one(url: str) -> None:
    with wormdb.connect(url, settings=MANUAL) as database, wormdb.connect(url, settings=MANUAL) as other:
        filled(database)
        feed = other["things"].watch(follow=True, poll_seconds=0)
        seen = [next(feed).id for _ in range(6)]
        assert seen == ["t0", "t1", "t2", "t3", "t4", "later"]
        dropped = database.drop("things")
        assert dropped is not None
        with pytest.raises(RemovedError, match=f"entry {dropped.number} removed the collection"):
            next(feed)
        database["things"].insert({"id": "new"})
        assert [change.id for change in other["things"].watch()] == ["new"]
        assert [change.id for change in other["things"].watch(after=dropped.number)] == ["new"]
        with pytest.raises(SnapshotTooOldError):
            list(other["things"].watch(after=dropped.number - 1))


def test_the_past_of_the_removed_collection_is_gone() -> None:
    clock = ManualClock()
    with wormdb.connect("memory://", settings=MANUAL, clock=clock, chance=SeededChance(3)) as database:
        filled(database)
        dropped = database.drop("things")
        assert dropped is not None
        clock.advance(10)
        new = database["things"].insert({"id": "new"})
        for _ in range(2):
            with pytest.raises(SnapshotTooOldError, match=f"history begins after entry {dropped.number}"):
                database["things"].find_by_id("t1", as_of=dropped.number - 1)
            assert database["things"].find_by_id("new", as_of=new.rev) is not None
            database["things"].forward()


def test_a_job_that_was_open_can_attach_nothing(db: Database) -> None:
    filled(db)
    ledger = db["things"]._ledger
    job = WriteId("ab" * 16)
    ledger.commit(Pending(ledger.batch_id(), events=(JobOpened(job=job, kind="import", base=3),)))
    db.removal("things").remove()
    attach = Pending(ledger.batch_id(), events=(JobAttached(job=job),))
    with pytest.raises(RemovedError):
        ledger.commit(attach)
    db.removal("things").purge()
    with pytest.raises(NotFoundError, match="never opened"):
        ledger.commit(attach)
    assert db["things"].count() == 0


def test_waiting_deletes_the_log_too_and_garbage_collection_does_so_later() -> None:
    clock = ManualClock()
    with wormdb.connect("memory://", settings=MANUAL, clock=clock, chance=SeededChance(3)) as database:
        filled(database)
        done = database.drop("things", wait=True)
        assert done is not None
        assert done.waiting == 0
        assert keys(database) == ["things/.worm.db/block0", "things/.worm.removed"]
        filled(database)
        done = database.drop("things")
        assert done is not None
        assert done.waiting == 4
        database.gc(["things"])
        assert len(keys(database, "things/.worm.db/")) == 1 + done.waiting
        clock.advance(91)
        database.gc(["things"])
        assert keys(database) == ["things/.worm.db/block0", "things/.worm.removed"]
        assert database.collections(with_removed=True) == []
        assert database["things"].insert({"id": "a"}).rev == done.number + 1


def removed_within_a_transaction(db: Database) -> None:
    with db.transaction() as session:
        session["things"].insert({"id": "in"})
        db.removal("things").remove()


def test_a_transaction_is_refused_too(db: Database) -> None:
    filled(db)
    with pytest.raises(RemovedError):
        removed_within_a_transaction(db)
    assert db["things"].count() == 0
