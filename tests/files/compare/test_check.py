"""Every kind of damage to readable files is found by name and mended; lag is no damage."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.files.writer_rig import Process, World, check_files, readable, schema_of
from wormdb.errors import InvalidRequestError
from wormdb.files.compare.check import CollectionFiles, examine_files
from wormdb.files.contents.manifest import checksum_of
from wormdb.files.status import status_of
from wormdb.files.sync import sync_files
from wormdb.storage.pool import SerialPool
from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.files.sync import FilesSyncResult
    from wormdb.schema.model import Schema
    from wormdb.storage.store import Store

SCHEMA = schema_of(snapshots={"enabled": True, "every": 2})
PARTED = schema_of(manifest={"enabled": True, "partitionThreshold": 2, "maxPartitions": 4})
FOLDER = "org/customers/"


def site_of(process: Process, store: Store) -> CollectionFiles:
    ledger = process.customers._ledger
    return CollectionFiles(ledger, store, SerialPool(), SeededChance(5))


def faults_in(world: World, schema: Schema = SCHEMA) -> dict[str, str]:
    """What a process that just started finds."""
    found = examine_files(site_of(Process.on(world, schema, seed=9), world)).faults
    return {fault.key: fault.what for fault in found}


def synced(world: World, schema: Schema = SCHEMA) -> FilesSyncResult:
    process = Process.on(world, schema, seed=10)
    return sync_files(site_of(process, world), process.database._ledgers.files)


def filled(schema: Schema = SCHEMA) -> World:
    """A bucket with living, changed, deleted and restored documents, and all their files."""
    world = World()
    process = Process.on(world, schema)
    customers = process.customers
    many = [
        {"id": name, "name": name.upper(), "status": "active", "email": f"{name}@x", "tags": ["t", name]}
        for name in "abcdefgh"
    ]
    customers.insert_many(many)
    for document in many[:3] + many[5:7]:
        customers.save({**document, "name": "New"})
    for name in "deh":
        customers.delete(name)
    customers.restore("e")
    process.flush()
    return world


@pytest.fixture(scope="module")
def sound() -> World:
    world = filled()
    assert faults_in(world) == {}
    return world


@pytest.fixture
def world(sound: World) -> World:
    return sound.copy()


def edit(world: World, key: str, change: Callable[[Any], Any]) -> None:
    """As a person with an editor does."""
    value = json.loads(world.get(key).body)
    world.put(key, json.dumps(change(value) or value).encode())


def edited(**values: Any) -> Callable[[World, str], None]:
    return lambda world, key: edit(world, key, lambda value: value.update(values))


def missing(world: World, key: str) -> None:
    world.delete(key)


def holding(body: bytes) -> Callable[[World, str], None]:
    def put(world: World, key: str) -> None:
        world.put(key, body)

    return put


def row_edited(world: World, key: str) -> None:
    edit(world, key, lambda value: value["entities"]["a"].update(name="Eve"))


def posting_edited(world: World, key: str) -> None:
    edit(world, key, lambda value: value["entries"].update(active=["a"]))


ENTITY, OPLOG = f"{FOLDER}a/profile.json", ".oplog/customers/a/0002.json"
MANIFEST, INDEX = f"{FOLDER}.worm.manifest.json", f"{FOLDER}.worm.index/status.json"
TRASH, OLD = ".worm.trash/customers/", "2020-01-01T00:00:00Z.json"
EDITED, MISSING, EXTRA = "not what was written", "missing", "should not be there"
CHECKSUM, STALE = "its checksum is wrong", "stale"
DAMAGE: dict[str, tuple[str, Callable[[World, str], None], str]] = {
    "edited entity": (ENTITY, edited(name="Eve"), EDITED),
    "edited rev of an entity": (f"{FOLDER}b/profile.json", edited(_rev=9999), EDITED),
    "entity that is no JSON": (f"{FOLDER}c/profile.json", holding(b"x"), EDITED),
    "missing entity": (f"{FOLDER}e/profile.json", missing, MISSING),
    "extra entity": (f"{FOLDER}zz/profile.json", holding(b"{}"), EXTRA),
    "deleted entity that came back": (f"{FOLDER}d/profile.json", holding(b'{"id": "d", "_rev": 4}'), EXTRA),
    "edited oplog": (OPLOG, edited(actor="eve"), EDITED),
    "missing oplog": (".oplog/customers/d/0001.json", missing, MISSING),
    "extra oplog": (".oplog/customers/a/0009.json", holding(b"{}"), EXTRA),
    "oplog of nobody": (".oplog/customers/zz/0001.json", holding(b"{}"), EXTRA),
    "edited tombstone": (f"{TRASH}d/.worm.tombstone", edited(ttl=1), EDITED),
    "missing tombstone": (f"{TRASH}h/.worm.tombstone", missing, MISSING),
    "edited trash": (f"{TRASH}d/profile.json", edited(name="Eve"), EDITED),
    "missing trash": (f"{TRASH}h/profile.json", missing, MISSING),
    "extra trash": (f"{TRASH}a/profile.json", holding(b"{}"), EXTRA),
    "edited snapshot": (".snapshots/customers/a/", edited(name="Eve"), EDITED),
    "missing snapshot": (".snapshots/customers/b/", missing, MISSING),
    "oplog of another layout": (f"{FOLDER}a/.oplog/0001.json", holding(b"{}"), EXTRA),
    "trash of another layout": (f"{FOLDER}.worm.trash/d/profile.json", holding(b"{}"), EXTRA),
    "extra snapshot": (f".snapshots/customers/a/{OLD}", holding(b"{}"), EXTRA),
    "edited manifest": (MANIFEST, row_edited, CHECKSUM),
    "edited index": (INDEX, posting_edited, CHECKSUM),
    "missing index": (f"{FOLDER}.worm.index/email.json", missing, MISSING),
    "index that is no JSON": (f"{FOLDER}.worm.index/tags.json", holding(b"{"), "it must be an index"),
    "index beyond the log": (f"{FOLDER}.worm.index/address.city+born.json", edited(log=9999), STALE),
    "extra index": (f"{FOLDER}.worm.index/other.json", holding(b"{}"), EXTRA),
    "stale partition": (f"{FOLDER}.worm.manifest/partition-0.json", holding(b"{}"), EXTRA),
    "edited sentinel": (f"{FOLDER}.worm", edited(model="Other"), EDITED),
}


@pytest.fixture(scope="module")
def damaged(sound: World) -> tuple[World, dict[str, str]]:
    """The bucket with all of it at once, and the key of each."""
    world, keys = sound.copy(), {}
    for name, (prefix, damage, _) in DAMAGE.items():
        # Of snapshots the times are not known here.
        keys[name] = (
            next(key for key in world._shelf.keys if key.startswith(prefix)) if prefix.endswith("/") else prefix
        )
        damage(world, keys[name])
    return world, keys


@pytest.fixture(scope="module")
def found(damaged: tuple[World, dict[str, str]]) -> dict[str, str]:
    return faults_in(damaged[0])


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_found(damaged: tuple[World, dict[str, str]], found: dict[str, str], name: str) -> None:
    assert DAMAGE[name][2] in found[damaged[1][name]]


def test_nothing_else_is_found_and_all_is_mended(
    sound: World, damaged: tuple[World, dict[str, str]], found: dict[str, str]
) -> None:
    world, keys = damaged[0].copy(), set(damaged[1].values())
    assert set(found) == keys
    done = synced(world)
    assert {fault.key for fault in done.mended} == keys
    assert done.left == []
    assert faults_in(world) == {}
    check_files(world, SCHEMA)
    before, after = readable(sound), readable(world)
    assert {key: body for key, body in after.items() if key not in keys} == {
        key: body for key, body in before.items() if key not in keys
    }


@pytest.mark.parametrize(
    ("key", "damage", "what"),
    [
        (MANIFEST, missing, MISSING),
        (MANIFEST, holding(b"{"), "it must be a manifest"),
        (MANIFEST, edited(log=9999), STALE),
        (f"{FOLDER}.worm", missing, MISSING),
    ],
)
def test_other_damage_to_the_same(world: World, key: str, damage: Callable[[World, str], None], what: str) -> None:
    damage(world, key)
    assert what in faults_in(world)[key]
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
    rewritten(world, INDEX, lambda value: value["entries"].update(active=[*"abcdefg"]), "entries")
    assert faults_in(world) == {INDEX: "its entry active → d should not be there"}
    rewritten(world, INDEX, lambda value: value["entries"].update(active=[*"abcfg"]), "entries")
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
    customers.snapshot("e")
    assert faults_in(world) == {}
    process.bring()
    assert faults_in(world) == {}
    world.delete(OPLOG)
    assert faults_in(world) == {OPLOG: "it is missing"}
    world.put(ENTITY, b"{}")
    assert set(faults_in(world)) == {OPLOG, ENTITY}
    assert status_of(site_of(process, world)).lag_entries == 5
    synced(world)
    check_files(world, SCHEMA)


def test_another_model_is_no_damage_until_its_files_are_written(world: World) -> None:
    other = schema_of(
        snapshots={"enabled": True, "every": 2}, oplog=False, manifest={"enabled": True, "fields": ["name"]}
    )
    process = Process.on(world, other, seed=3)
    process.database.apply_schema()
    assert faults_in(world, other) == {}
    process.flush()
    assert not [key for key in readable(world) if ".oplog/" in key]
    assert faults_in(world, other) == {}
    check_files(world, other)


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
    edit(world, meta, lambda value: value["ranges"][1].__setitem__(0, "bb"))
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
        sync_files(site_of(process, world), process.database._ledgers.files)
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
        "count": 6,
        "pending": 0,
        "through": status.through,
    }
