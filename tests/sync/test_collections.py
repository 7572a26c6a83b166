"""A database in a folder and one in a bucket: logs that go on from each other, part, and come together again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from tests.sync.databases import NAME, Copy, Databases
from tests.sync.test_sweep import FAULTS, QUICK, STRIDE, Interrupted
from wormdb.api.database import connect
from wormdb.errors import WormError
from wormdb.format.entry import decode_entry, entry_hash
from wormdb.format.frame import FrameKind, encode_frame
from wormdb.settings import LOG_RETENTION_MS_MIN, Settings
from wormdb.sync.paths import MANIFEST
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from wormdb.api.database import Database
    from wormdb.sync import Sync, SyncReport


@pytest.fixture
def world(tmp_path: Path) -> Databases:
    """Folder `a` has pushed three entries, which `b` has."""
    found = Databases(tmp_path)
    for _ in range(3):
        found.copies["a"].insert()
    found.copies["a"].push()
    found.copies["b"].pull()
    return found


def told(report: SyncReport) -> list[tuple[str, int, int]]:
    return [(each.verb, each.entries, each.number) for each in report.collections]


class TestOneGoesOn:
    """One log is the beginning of the other."""

    def test_entries_go_up_and_down(self, world: Databases) -> None:
        a, b = world.copies["a"], world.copies["b"]
        a.insert()
        a.insert()
        assert told(a.push()) == [("pushed", 2, 5)]
        assert told(b.pull()) == [("pulled", 2, 5)]
        world.check()

    def test_entries_are_the_same_bytes_on_both_sides(self, world: Databases) -> None:
        for number in (1, 2, 3):
            key = f"{NAME}/.worm.db/committed/{number:020d}"
            assert (world.copies["b"].folder / key).read_bytes() == world.store.get(key).body

    def test_requests(self, world: Databases) -> None:
        a, b = world.copies["a"], world.copies["b"]
        assert a.push().requests == 0
        assert b.pull().requests == 4, "the manifest, the root, the last entry, and the one behind it"
        a.insert()
        assert a.push().requests == 4, "the root, the last entry, the one behind it, and the new one"
        assert b.pull().requests == 8, "four more numbers are guessed at once"

    def test_writers_of_the_bucket_are_pulled(self, world: Databases) -> None:
        world.insert_there()
        assert told(world.copies["a"].push()) == []
        assert told(world.copies["a"].pull()) == [("pulled", 1, 4)]
        world.check()

    def test_a_push_behind_says_so(self, world: Databases) -> None:
        world.copies["a"].insert()
        world.copies["a"].push()
        (world.copies["b"].folder / ".worm.sync" / "state.db").unlink()
        (found,) = world.copies["b"].push().collections
        assert (found.verb, found.reason) == ("behind", "the bucket has 1 more entries: pull")

    def test_a_dry_run_copies_nothing(self, world: Databases) -> None:
        a = world.copies["a"]
        a.insert()
        assert told(a.push(dry_run=True)) == [("pushed", 1, 4)]
        assert told(world.copies["b"].pull()) == []

    def test_a_scope_chooses_collections(self, world: Databases) -> None:
        a = world.copies["a"]
        with a.database() as database:
            database["other"].insert({"id": "x"})
        a.insert()
        assert [each.name for each in a.push(scope="org").collections] == [NAME]
        assert [each.name for each in a.push().collections] == ["other"]

    def test_forwarded_logs_bring_their_root(self, tmp_path: Path) -> None:
        world = Databases(tmp_path)
        a = world.copies["a"]
        a.insert()
        with a.database() as database:
            database[NAME].create_index("n")
            database.forward()
        a.push()
        assert world.store.probe(f"{NAME}/.worm.db/block0").found is not None
        with world.bucket() as database:
            assert [each.name for each in database[NAME].indexes()] == ["_id", "n"]
        world.check()

    def test_bulk_loads_and_blobs_bring_their_objects(self, world: Databases) -> None:
        a, b = world.copies["a"], world.copies["b"]
        with a.database(Settings(forward="manual", stage_bytes=1)) as database:
            world.insert(database, text="x" * 100)
            world.insert(database, file=database[NAME].put_blob(b"body"))
        a.push()
        b.pull()
        with b.database() as database:
            (found,) = [each for each in database[NAME].find() if "file" in each]
            assert database[NAME].open_blob(found["file"]).read() == b"body"
        world.check()

    def test_trimmed_logs_bring_root_and_blocks(self, world: Databases, tmp_path: Path) -> None:
        trim(world)
        new = world.copies["c"] = Copy(world, tmp_path / "c")
        world.insert_there()
        assert told(new.pull()) == [("pulled", 1, 4)]
        assert told(world.copies["b"].pull()) == [("pulled", 1, 4)], "what was synced before is known to be in it"
        world.check()

    def test_trimmed_entries_that_one_side_never_had_are_bridged_by_the_root(self, world: Databases) -> None:
        world.insert_there()
        trim(world)
        world.insert_there()
        assert told(world.copies["a"].pull()) == [("pulled", 1, 5)]
        world.check()

    def test_entries_that_were_trimmed_before_they_were_pushed_are_refused(self, world: Databases) -> None:
        a = world.copies["a"]
        a.insert()
        with a.database() as database:
            forget(database, world)
        (found,) = a.push().collections
        assert found.verb == "failed"
        assert "were trimmed here before they were pushed" in (found.reason or "")


def trim(world: Databases) -> None:
    """The bucket forwards its log, and forgets its entries."""
    with world.bucket() as database:
        forget(database, world)


def forget(database: Database, world: Databases) -> None:
    """Forward, and trim the log."""
    ledger = database[NAME]._ledger
    ledger.forward()
    ledger.trim(0)
    world.clock.advance(2 * LOG_RETENTION_MS_MIN / 1000)
    assert ledger.trim(0) > 0


class TestParted:
    """Both sides went on by themselves."""

    def test_it_is_refused_with_the_last_number_that_both_have(self, world: Databases) -> None:
        world.copies["a"].insert()
        world.insert_there()
        for report in (world.copies["a"].push(), world.copies["a"].pull()):
            assert told(report) == [("parted", 0, 3)]

    def test_the_point_is_found_without_what_was_synced(self, world: Databases) -> None:
        for _ in range(9):
            world.copies["a"].insert()
            world.insert_there()
        (world.copies["a"].folder / ".worm.sync" / "state.db").unlink()
        assert told(world.copies["a"].push()) == [("parted", 0, 3)]

    def test_databases_that_were_never_one_part_at_0(self, tmp_path: Path) -> None:
        world = Databases(tmp_path)
        world.copies["a"].insert()
        world.insert_there()
        assert told(world.copies["a"].push()) == [("parted", 0, 0)]
        world.check()

    def test_a_rebase_commits_own_batches_behind(self, world: Databases) -> None:
        a = world.copies["a"]
        a.insert()
        a.insert()
        world.insert_there()
        assert told(a.push(rebase=True)) == [("rebased", 2, 6)]
        assert not (a.folder / ".worm.sync" / "aside").is_dir() or not [*(a.folder / ".worm.sync" / "aside").iterdir()]
        assert told(a.sync()) == []
        world.check()

    def test_authors_and_deletes_are_kept(self, world: Databases) -> None:
        a = world.copies["a"]
        with a.database() as database:
            database.as_actor("ada", {"why": "test"})[NAME].delete("d0")
        world.written.discard("d0")
        world.insert_there()
        a.push(rebase=True)
        with world.bucket() as database:
            (change,) = [each for each in database[NAME].watch() if each.op == "delete"]
            assert (change.actor, change.metadata) == ("ada", {"why": "test"})
        world.check()

    def test_a_conflict_is_told_and_its_batch_is_kept(self, world: Databases) -> None:
        a = world.copies["a"]
        change(a, "d0", "mine")
        with a.database() as database, database[NAME].batch() as batch:
            batch.insert({"id": "beside"}).delete("d1")
        change_there(world, "d0", "theirs")
        change_there(world, "d1", "theirs")
        (found,) = a.push(rebase=True).collections
        assert [(each.entry, each.ids) for each in found.conflicts] == [(4, ('"d0"',)), (5, ('"beside"', '"d1"'))]
        assert not found.is_settled
        kept = (a.folder / ".worm.sync/conflicts/org%2Fnotes.jsonl").read_text().splitlines()
        assert [json.loads(line)["changes"][0]["after"] for line in kept] == [
            {"_id": "d0", "n": 0, "text": "mine"},
            {"_id": "beside"},
        ]
        world.check()

    def test_unique_values_are_held(self, tmp_path: Path) -> None:
        world = Databases(tmp_path)
        a = world.copies["a"]
        with a.database() as database:
            database[NAME].create_index("n", unique=True)
            world.insert(database)
        a.push()
        with a.database() as database:
            database[NAME].insert({"id": "same", "n": 99})
        with world.bucket() as database:
            database[NAME].insert({"id": "first", "n": 99})
        world.written.add("first")
        (found,) = a.push(rebase=True).collections
        assert [each.ids for each in found.conflicts] == [('"same"',)]
        world.check()

    def test_definitions_are_not_rebased(self, world: Databases) -> None:
        with world.copies["a"].database() as database:
            database[NAME].create_index("n")
        world.insert_there()
        (found,) = world.copies["a"].push(rebase=True).collections
        assert found.verb == "failed"
        assert "'index.create'" in (found.reason or "")

    def test_files_beside_a_parted_collection_are_pushed(self, world: Databases) -> None:
        a = world.copies["a"]
        a.insert()
        world.insert_there()
        (a.folder / "notes.txt").write_text("text")
        report = a.push()
        assert report.pushed == ["notes.txt"]
        assert told(report) == [("parted", 0, 3)]


def change(copy: Copy, identity: str, text: str) -> None:
    with copy.database() as database:
        _save(database[NAME], identity, text)


def change_there(world: Databases, identity: str, text: str) -> None:
    with world.bucket() as database:
        _save(database[NAME], identity, text)


def _save(collection: Any, identity: str, text: str) -> None:
    found = collection.find_by_id(identity)
    found["text"] = text
    collection.save(found)


class TestMixedFolders:
    """Files beside collections, and inside their folders."""

    def test_the_inside_of_a_collection_is_never_a_file(self, world: Databases) -> None:
        a = world.copies["a"]
        with a.database() as database:
            database.forward()
        (a.folder / "readme").write_text("text")
        (a.folder / NAME / "beside.txt").write_text("text")
        assert sorted(a.push().pushed) == ["org/notes/beside.txt", "readme"]
        listed = json.loads(world.store.get(MANIFEST).body)
        assert listed["collections"] == [NAME]
        assert {*listed["partitions"]} == {"_top", "org"}

    def test_readable_files_come_from_the_log(self, tmp_path: Path) -> None:
        world = Databases(tmp_path)
        a, b = world.copies["a"], world.copies["b"]
        model = {"path": "#org/@customers/(id:string)/[profile].json", "oplog": True}
        schema = {"schemaVersion": "1.0", "sourceOfTruth": "bidirectional", "models": {"Customer": model}}
        with connect(a.folder, schema=schema, apply=True, clock=world.clock) as database:
            database.model("Customer").insert({"id": "acme"})
        (a.folder / "org" / "plan.txt").write_text("text")
        assert sorted(a.push().pushed) == [".worm.schema.json", "org/plan.txt"], "what the log makes is not sent"
        b.pull()
        with connect(b.folder, clock=world.clock) as database:
            database.model("Customer").insert({"id": "bolt"})
        b.push()
        a.pull()
        with connect(a.folder, clock=world.clock) as database:
            database.forward()
        for copy in (a, b):
            assert (copy.folder / "org/customers/acme/profile.json").is_file()
            assert (copy.folder / "org/customers/bolt/profile.json").is_file()
            assert (copy.folder / ".oplog/customers/bolt/0001.json").is_file()
        assert (a.sync().count, b.sync().count) == (0, 0)

    def test_a_bucket_that_was_a_database_before_is_found_by_listing(self, tmp_path: Path) -> None:
        world = Databases(tmp_path)
        world.insert_there()
        world.store.put("file", b"text")
        report = world.copies["a"].pull()
        assert report.pulled == ["file"]
        assert told(report) == [("pulled", 1, 1)]
        world.check()

    def test_a_collection_that_began_in_the_bucket_later_is_found_by_a_scan(self, world: Databases) -> None:
        with world.bucket() as database:
            database["later"].insert({"id": "x"})
        assert world.copies["b"].pull().collections == []
        assert [each.name for each in world.copies["b"].pull(scan=True).collections] == ["later"]


class TestUnknownEvents:
    """Entries of later releases, and transactions over several collections."""

    def entry(self, world: Databases, events: list[dict[str, Any]]) -> None:
        """Append an entry with events that this release may not know to the log of folder `a`."""
        folder = world.copies["a"].folder / NAME / ".worm.db/committed"
        number = len([*folder.iterdir()]) + 1
        before = (folder / f"{number - 1:020d}").read_bytes()
        known = (folder / f"{1:020d}").read_bytes()
        sample = decode_entry(known, name="x", number=1, collection=f"{NAME}/")
        payload = msgspec.msgpack.encode(
            {
                "n": number,
                "w": sample.write_id,
                "t": sample.misc + 256,
                "o": sample.node,
                "p": entry_hash(before),
                "e": events,
            }
        )
        body = encode_frame(FrameKind.ENTRY, version=1, identity=f"{NAME}//{number}", payload=payload)
        (folder / f"{number:020d}").write_bytes(body)

    def test_they_are_copied_as_bytes(self, world: Databases) -> None:
        self.entry(world, [{"k": "later.kind"}])
        assert told(world.copies["a"].push()) == [("pushed", 1, 4)]
        assert told(world.copies["b"].pull()) == [("pulled", 1, 4)]

    def test_they_are_not_rebased(self, world: Databases) -> None:
        self.entry(world, [{"k": "later.kind"}])
        world.insert_there()
        (found,) = world.copies["a"].push(rebase=True).collections
        assert found.verb == "failed"
        assert "later.kind" in (found.reason or "")

    def test_a_transaction_that_is_not_finished_waits(self, world: Databases) -> None:
        a = world.copies["a"]
        prepared = {"k": "tx.prepare", "x": "1" * 32, "p": [f"{NAME}/", "other/"], "b": {"i": "2" * 32}}
        self.entry(world, [prepared])
        self.entry(world, [{"k": "nothing"}])
        (found,) = a.push().collections
        assert (found.entries, found.number) == (0, 3)
        assert found.reason == "a transaction is not finished in it: its entries wait"
        self.entry(world, [{"k": "tx.finish", "x": "1" * 32}])
        assert told(a.push()) == [("pushed", 3, 6)]

    def test_a_transaction_over_two_collections_arrives_whole(self, world: Databases) -> None:
        a, b = world.copies["a"], world.copies["b"]
        with a.database() as database, database.transaction() as tx:
            tx[NAME].insert({"_id": "both"})
            tx["org/more"].insert({"_id": "both"})
        a.push()
        b.pull()
        with b.database() as database:
            assert database[NAME].exists("both")
            assert database["org/more"].exists("both")


def offline(root: Path) -> Databases:
    """Folder `a` has entries that the bucket does not have, one of them with a blob, and a root that is ahead."""
    world = Databases(root)
    a = world.copies["a"]
    a.insert()
    a.push()
    world.copies["b"].pull()
    a.insert()
    with a.database() as database:
        world.insert(database, file=database[NAME].put_blob(b"body"))
    return world


def first(root: Path) -> Databases:
    """A database that was never pushed, with a root."""
    world = Databases(root)
    world.copies["a"].insert()
    with world.copies["a"].database() as database:
        database.forward()
    world.copies["a"].insert()
    return world


def ahead(root: Path) -> Databases:
    """The bucket has entries that no folder has."""
    world = offline(root)
    world.copies["a"].push()
    world.insert_there()
    world.copies["a"], world.copies["b"] = world.copies["b"], world.copies["a"]
    return world


def trimmed(root: Path) -> Databases:
    """The bucket has trimmed entries that no folder had."""
    world = offline(root)
    world.copies["a"].push()
    world.insert_there()
    trim(world)
    world.insert_there()
    return world


def parted(root: Path) -> Databases:
    """Both have entries of their own."""
    world = offline(root)
    world.insert_there()
    return world


OPERATIONS: dict[str, tuple[Callable[[Path], Databases], Callable[[Sync], object]]] = {
    "push": (offline, lambda sync: sync.push_changed()),
    "first push": (first, lambda sync: sync.push_changed()),
    "pull": (ahead, lambda sync: sync.pull_changed()),
    "pull of a trimmed log": (trimmed, lambda sync: sync.pull_changed()),
    "rebase": (parted, lambda sync: sync.push_changed(rebase=True)),
}


USUAL = ("push", "rebase")


def carried_out(copy: Copy, operation: Callable[[Sync], object], store: Any) -> None:
    try:
        with copy.open(store) as sync:
            operation(sync)
    except (WormError, SimulatedCrash):
        pass


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        pytest.param(name, fault, marks=() if fault in (QUICK if name in USUAL else QUICK[1:2]) else pytest.mark.long)
        for name in OPERATIONS
        for fault in FAULTS
    ],
)
def test_a_fault_at_every_request(name: str, fault: Fault, tmp_path: Path) -> None:
    make, operation = OPERATIONS[name]
    for number in range(1 + FAULTS.index(fault) % STRIDE, 120, STRIDE):
        world = make(tmp_path / str(number))
        store = FaultStore(world.handle(), {number: fault})
        carried_out(world.copies["a"], operation, store)
        if number // STRIDE % 2:
            store.land()
            world.check()
        else:
            world.copies["b"].sync(rebase=True)
            store.land()
            world.check()
        if store.requests < number:
            return
    raise AssertionError("it does not end")


def pushes(world: Databases) -> None:
    world.copies["b"].insert()
    world.copies["b"].push(rebase=True)


def writes(world: Databases) -> None:
    world.insert_there()


def forwards(world: Databases) -> None:
    with world.bucket() as database:
        database.forward()


def works_here(world: Databases) -> None:
    world.copies["a"].insert()


RIVALS: dict[str, Callable[[Databases], None]] = {
    "pushes": pushes,
    "writes to the bucket": writes,
    "forwards the bucket": forwards,
    "works here": works_here,
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in USUAL else pytest.mark.long) for name in OPERATIONS]
)
@pytest.mark.parametrize("rival", RIVALS)
def test_another_process_before_every_request(name: str, rival: str, tmp_path: Path) -> None:
    make, operation = OPERATIONS[name]
    for number in range(1 + len(name + rival) % STRIDE, 120, STRIDE):
        world = make(tmp_path / str(number))
        store = Interrupted(world.handle(), number, lambda: RIVALS[rival](world))  # noqa: B023 - called at once
        carried_out(world.copies["a"], operation, store)
        if (rival, name) == ("works here", "pull of a trimmed log"):
            world.written -= kept_aside(world.copies["a"])
        world.check()
        if store.requests < number:
            return
    raise AssertionError("it does not end")


def kept_aside(copy: Copy) -> set[str]:
    """The documents of batches that are not in the log, and are kept with the conflicts."""
    file = copy.folder / ".worm.sync/conflicts/org%2Fnotes.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return {change["id"] for line in lines for change in json.loads(line)["changes"]}
