"""Every kind of damage to readable files is found by name and mended; lag is no damage."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.files.writer_rig import Process, World, check_files, readable, schema_of
from wormdb.clock import SeededChance
from wormdb.errors import InvalidRequestError
from wormdb.files.check import FileSite, examine_files
from wormdb.files.manifest_file import checksum_of
from wormdb.files.status import status_of
from wormdb.files.sync import sync_files
from wormdb.storage.pool import SerialPool

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.files.sync import Synced
    from wormdb.schema.model import Schema

SCHEMA = schema_of(snapshots={"enabled": True, "every": 2})
PARTED = schema_of(manifest={"enabled": True, "partitionThreshold": 2, "maxPartitions": 4})
FOLDER = "org/customers/"


def site_of(process: Process, world: World) -> FileSite:
    ledger = process.customers._ledger
    return FileSite(ledger, world, SerialPool(), SeededChance(5))


def faults_in(world: World, schema: Schema = SCHEMA) -> dict[str, str]:
    """What a process that just started finds."""
    found = examine_files(site_of(Process.on(world, schema, seed=9), world)).faults
    return {fault.key: fault.what for fault in found}


def synced(world: World, schema: Schema = SCHEMA) -> Synced:
    process = Process.on(world, schema, seed=10)
    return sync_files(site_of(process, world), process.keeper)


def filled(schema: Schema = SCHEMA) -> World:
    """A bucket with living, changed, deleted and restored documents, and all their files."""
    world = World()
    process = Process.on(world, schema)
    customers = process.customers
    for name in "abcde":
        customers.insert(
            {"id": name, "name": name.upper(), "status": "active", "email": f"{name}@x", "tags": ["t", name]}
        )
    for name in "ab":
        customers.save({"id": name, "name": f"New {name}", "email": f"{name}@x"})
    customers.delete("d")
    customers.delete("e")
    customers.restore("e")
    process.flush()
    assert faults_in(world, schema) == {}
    return world


@pytest.fixture(scope="module")
def sound() -> World:
    return filled()


@pytest.fixture
def world(sound: World) -> World:
    return sound.copy()


def edit(world: World, key: str, change: Callable[[Any], Any]) -> None:
    """As a person with an editor does."""
    value = json.loads(world.get(key).body)
    world.put(key, json.dumps(change(value) or value).encode())


ENTITY = f"{FOLDER}a/profile.json"
OPLOG = ".oplog/customers/a/0002.json"
TRASHED, TOMBSTONE = ".worm.trash/customers/d/profile.json", ".worm.trash/customers/d/.worm.tombstone"
MANIFEST, INDEX = f"{FOLDER}.worm.manifest.json", f"{FOLDER}.worm.index/status.json"
SENTINEL = f"{FOLDER}.worm"


def snapshot_in(world: World) -> str:
    return next(key for key in world._shelf.keys if key.startswith(".snapshots/customers/a/"))


DAMAGE: dict[str, tuple[str, Callable[[World], object], str]] = {
    "edited entity": (ENTITY, lambda w: edit(w, ENTITY, lambda v: v.update(name="Eve")), "not what was written"),
    "edited rev of an entity": (
        ENTITY,
        lambda w: edit(w, ENTITY, lambda v: v.update(_rev=9999)),
        "not what was written",
    ),
    "entity that is no JSON": (ENTITY, lambda w: w.put(ENTITY, b"x"), "not what was written"),
    "missing entity": (ENTITY, lambda w: w.delete(ENTITY), "missing"),
    "extra entity": (
        f"{FOLDER}zz/profile.json",
        lambda w: w.put(f"{FOLDER}zz/profile.json", b"{}"),
        "should not be there",
    ),
    "deleted entity that came back": (
        f"{FOLDER}d/profile.json",
        lambda w: w.put(f"{FOLDER}d/profile.json", b'{"id": "d", "_rev": 4}'),
        "should not be there",
    ),
    "edited oplog": (OPLOG, lambda w: edit(w, OPLOG, lambda v: v.update(actor="eve")), "not what was written"),
    "missing oplog": (OPLOG, lambda w: w.delete(OPLOG), "missing"),
    "extra oplog": (
        ".oplog/customers/a/0009.json",
        lambda w: w.put(".oplog/customers/a/0009.json", b"{}"),
        "should not be there",
    ),
    "edited tombstone": (TOMBSTONE, lambda w: edit(w, TOMBSTONE, lambda v: v.update(ttl=1)), "not what was written"),
    "missing trash": (TRASHED, lambda w: w.delete(TRASHED), "missing"),
    "extra trash": (
        ".worm.trash/customers/a/profile.json",
        lambda w: w.put(".worm.trash/customers/a/profile.json", b"{}"),
        "should not be there",
    ),
    "extra snapshot": (
        ".snapshots/customers/a/2020-01-01T00:00:00Z.json",
        lambda w: w.put(".snapshots/customers/a/2020-01-01T00:00:00Z.json", b"{}"),
        "should not be there",
    ),
    "edited manifest": (
        MANIFEST,
        lambda w: edit(w, MANIFEST, lambda v: v["entities"]["a"].update(name="Eve")),
        "its checksum is wrong",
    ),
    "manifest that is no JSON": (MANIFEST, lambda w: w.put(MANIFEST, b"{"), "it is no manifest"),
    "missing manifest": (MANIFEST, lambda w: w.delete(MANIFEST), "missing"),
    "manifest with a number beyond the log": (
        MANIFEST,
        lambda w: edit(w, MANIFEST, lambda v: v.update(log=9999)),
        "stale",
    ),
    "edited index": (
        INDEX,
        lambda w: edit(w, INDEX, lambda v: v["entries"].update(active=["a"])),
        "its checksum is wrong",
    ),
    "missing index": (INDEX, lambda w: w.delete(INDEX), "missing"),
    "extra index": (
        f"{FOLDER}.worm.index/other.json",
        lambda w: w.put(f"{FOLDER}.worm.index/other.json", b"{}"),
        "should not be there",
    ),
    "stale partition": (
        f"{FOLDER}.worm.manifest/partition-0.json",
        lambda w: w.put(f"{FOLDER}.worm.manifest/partition-0.json", b"{}"),
        "should not be there",
    ),
    "edited sentinel": (
        SENTINEL,
        lambda w: edit(w, SENTINEL, lambda v: v.update(model="Other")),
        "not what was written",
    ),
    "missing sentinel": (SENTINEL, lambda w: w.delete(SENTINEL), "missing"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_found_and_mended(world: World, name: str) -> None:
    key, damage, what = DAMAGE[name]
    before = readable(world)
    damage(world)
    found = faults_in(world)
    assert list(found) == [key]
    assert what in found[key]
    done = synced(world)
    assert [fault.key for fault in done.mended] == [key]
    assert done.left == []
    assert faults_in(world) == {}
    check_files(world, SCHEMA)
    after = readable(world)
    assert {name: body for name, body in after.items() if name != key} == {
        name: body for name, body in before.items() if name != key
    }


def test_snapshots_too(world: World) -> None:
    key = snapshot_in(world)
    edit(world, key, lambda value: value.update(name="Eve"))
    assert "not what was written" in faults_in(world)[key]
    world.delete(key)
    assert faults_in(world) == {key: "it is missing"}
    synced(world)
    assert faults_in(world) == {}


def rewritten(world: World, key: str, change: Callable[[Any], Any], name: str) -> None:
    """As a program that knows the checksum does."""
    value = json.loads(world.get(key).body)
    change(value)
    value["checksum"] = checksum_of(value[name])
    if name == "entities":
        value["count"] = len(value[name])
    world.put(key, json.dumps(value).encode())


def test_a_wrong_entry_with_a_right_checksum_is_named(world: World) -> None:
    rewritten(world, INDEX, lambda value: value["entries"].update(active=["a", "c", "e"]), "entries")
    (what,) = faults_in(world).values()
    assert what == "its entry active → a should not be there"
    rewritten(world, INDEX, lambda value: value["entries"].update(active=["c"]), "entries")
    assert faults_in(world) == {INDEX: "its entry active → e is wrong or missing"}
    rewritten(world, MANIFEST, lambda value: value["entities"]["b"].update(name="Eve"), "entities")
    assert faults_in(world)[MANIFEST] == "its entry b is wrong or missing"
    synced(world)
    check_files(world, SCHEMA)


def test_an_old_manifest_that_was_put_back_is_stale(world: World) -> None:
    old = world.get(MANIFEST).body
    process = Process.on(world, SCHEMA, seed=3)
    process.customers.save({"id": "a", "name": "Newer"})
    process.flush()
    world.put(MANIFEST, old)
    assert "it is stale" in faults_in(world)[MANIFEST]
    synced(world)
    assert faults_in(world) == {}
    check_files(world, SCHEMA)


def test_lag_is_no_damage(world: World) -> None:
    process = Process.on(world, SCHEMA, seed=3)
    customers = process.customers
    customers.save({"id": "a", "name": "Later"})
    customers.insert({"id": "n", "name": "New", "tags": ["t"]})
    customers.delete("b")
    customers.restore("d")
    customers.snapshot("c")
    assert faults_in(world) == {}
    customers.forward()
    assert faults_in(world) == {}
    world.delete(OPLOG)
    assert faults_in(world) == {OPLOG: "it is missing"}
    world.put(ENTITY, b"{}")
    assert set(faults_in(world)) == {OPLOG, ENTITY}
    assert status_of(site_of(process, world)).lag_entries == 5
    synced(world)
    check_files(world, SCHEMA)


def test_files_newer_than_the_record_are_no_damage(world: World) -> None:
    """A writer stopped before it told how far it is."""
    record = world.get(f"{FOLDER}.worm.db/files").body
    process = Process.on(world, SCHEMA, seed=3)
    for name in ("a", "b"):
        process.customers.save({"id": name, "name": "Later", "tags": ["z"]})
    process.customers.delete("c")
    process.publish()
    world.put(f"{FOLDER}.worm.db/files", record)
    assert faults_in(world) == {}
    rewritten(world, MANIFEST, lambda value: value["entities"]["b"].update(name="Eve"), "entities")
    assert faults_in(world) == {MANIFEST: "its entry b is wrong or missing"}
    synced(world)
    check_files(world, SCHEMA)


def test_tables_in_parts() -> None:
    world = filled(PARTED)
    assert f"{FOLDER}.worm.manifest/_meta.json" in readable(world)
    damaged = {
        f"{FOLDER}.worm.manifest/_meta.json": "its ranges",
        f"{FOLDER}.worm.manifest/partition-1.json": "missing",
        f"{FOLDER}.worm.index/tags/partition-0.json": "checksum",
        f"{FOLDER}.worm.index/tags/_meta.json": "does not say",
    }
    meta, part, index, index_meta = damaged
    edit(world, meta, lambda value: value.update(ranges=[["", "b"], ["b", None]][: value["partitionCount"]]))
    world.delete(part)
    edit(world, index, lambda value: value.update(entries={}))
    world.put(index_meta, b"{}")
    found = faults_in(world, PARTED)
    assert set(found) == set(damaged)
    assert all(what in found[key] for key, what in damaged.items())
    synced(world, PARTED)
    assert faults_in(world, PARTED) == {}
    check_files(world, PARTED)


def test_files_of_others_are_left_alone(world: World) -> None:
    others = {
        f"{FOLDER}a/notes.txt": b"mine",
        f"{FOLDER}readme.md": b"#",
        ".oplog/customers/a/notes": b"x",
        "other": b"y",
    }
    for key, body in others.items():
        world.put(key, body)
    assert faults_in(world) == {}
    synced(world)
    assert {key: world.get(key).body for key in others} == others


def test_what_was_never_kept() -> None:
    world = World()
    schema = schema_of(files=False)
    process = Process.on(world, schema)
    process.customers.insert({"id": "a"})
    assert examine_files(site_of(process, world)).faults == []
    with pytest.raises(InvalidRequestError, match="never kept"):
        sync_files(site_of(process, world), process.keeper)
    status = status_of(site_of(process, world), counted=True)
    assert (status.enabled, status.oplog, status.lag_entries, status.files) == (False, None, 0, None)


def test_how_far_files_are(world: World) -> None:
    process = Process.on(world, SCHEMA, seed=3)
    status = status_of(site_of(process, world), counted=True)
    assert (status.enabled, status.oplog, status.name, status.lag_entries) == (True, "root", "customers/", 0)
    assert status.files == len(readable(world)) - 1, "the sentinel of the bucket is no file of a collection"
    assert status.through == process.customers._ledger.view().number
    shown = status.to_dict()
    assert shown["tables"][0] == {
        "type": "manifest",
        "fields": [],
        "files": 1,
        "count": 4,
        "pending": 0,
        "through": status.through,
    }
