"""Other definitions among writers that sleep, crash or know the one before: all files are those of the last one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from tests.files.compare.test_check import faults_in, site_of
from tests.files.writer_rig import Process, World, check_files, readable, schema_of
from wormdb.files import keeper
from wormdb.files.contents.names import short_snapshot_name
from wormdb.files.write import guard, publication, publish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wormdb.files.write.guard import FileDraft, WrittenFile
    from wormdb.schema.model import Schema
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store

RECORD = "org/customers/.worm.db/files"
PARTED: dict[str, Any] = {
    "manifest": {"enabled": True, "fields": ["name"], "partitionThreshold": 10, "maxPartitions": 8}
}
RENAMED: dict[str, Any] = {"path": "#org/@customers/(id:any)/[data].json"}


def customer(number: int) -> dict[str, Any]:
    born = datetime(1980, 1, 2, tzinfo=UTC)
    return {"id": f"{number:03}", "name": f"n {number}", "status": "active", "email": f"{number}@x", "born": born}


def applied(world: World, schema: Schema, *, seed: int) -> Process:
    process = Process.on(world, schema, seed=seed)
    process.database.apply_schema()
    process.publish()
    return process


def meanwhile(monkeypatch: pytest.MonkeyPatch, process: Process, act: Callable[[], object]) -> None:
    """Write files; before the first one of a document something else happens."""
    real, acts = guard.put_all, [act]

    def late(store: Store, pool: Pool, drafts: Iterable[FileDraft]) -> list[WrittenFile]:
        while acts:
            acts.pop()()
        return real(store, pool, drafts)

    monkeypatch.setattr(publish, "put_all", late)
    process.publish()
    monkeypatch.setattr(publish, "put_all", real)
    assert not acts


@pytest.mark.parametrize(
    "changes",
    [{"fields": {}, "indexes": {}, "manifest": {}}, {"oplog": False}, {"snapshots": {}}, RENAMED],
    ids=["fields", "oplog", "snapshots", "name"],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_who_knew_another_definition_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], *, is_first: bool
) -> None:
    world, new = World(), schema_of(**changes)
    process = Process.on(world, schema_of())
    process.customers.insert_many([customer(number) for number in range(4)])
    if not is_first:
        process.publish()
        process.customers.save(customer(0))
        process.customers.save(customer(0) | {"name": "other"})
    process.bring()

    def change() -> None:
        applied(world, new, seed=2)
        check_files(world, new)

    meanwhile(monkeypatch, process, change)
    check_files(world, new)


def test_files_of_another_name_are_removed() -> None:
    world, new = World(), schema_of(**RENAMED)
    process = Process.on(world, schema_of())
    process.customers.insert_many([customer(number) for number in range(4)])
    process.customers.delete("001")
    process.publish()
    applied(world, new, seed=2)
    check_files(world, new)


def test_another_definition_before_all_documents_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication, "_CHUNK_DOCUMENTS", 2)
    monkeypatch.setattr(keeper, "_FILL_DOCUMENTS", 4)
    world, new = World(), schema_of(oplog=False)
    process = Process.on(world, schema_of())
    process.customers.insert_many([customer(number) for number in range(6)])
    process.publish()
    assert any(".oplog/" in key for key in readable(world))
    process = applied(world, new, seed=2)
    process.flush()
    check_files(world, new)


def test_parts_of_a_manifest_have_what_came_while_nobody_wrote_them() -> None:
    world, on, off = World(), schema_of(**PARTED), schema_of(files=False, **PARTED)
    process = Process.on(world, on)
    process.customers.insert_many([customer(number) for number in range(100, 140)])
    process.publish()
    process = applied(world, off, seed=2)
    process.customers.insert_many([customer(number) for number in (*range(5), *range(900, 905))])
    process.publish()
    process = Process.on(world, on, seed=3)
    process.database.apply_schema()
    process.bring()
    process.customers.insert(customer(50))
    process.publish()
    check_files(world, on)


def test_who_slept_while_files_were_switched_off_does_not_write_them_again(monkeypatch: pytest.MonkeyPatch) -> None:
    schema, world = schema_of(), World()
    process = Process.on(world, schema)
    process.customers.insert_many([customer(number) for number in range(4)])
    process.publish()
    process.customers.insert(customer(7))
    process.bring()
    rival = Process.on(world, schema, seed=2)
    meanwhile(monkeypatch, process, lambda: rival.database.files.off("Customer"))
    assert world.probe(RECORD).found is None
    assert not [key for key in readable(world) if key.endswith("/profile.json") and "/007/" not in key]
    rival.database.files.sync("Customer")
    assert set(readable(world)) == {".worm"}


def test_the_log_does_not_wait_for_files_that_a_schema_switched_off() -> None:
    world, off = World(), schema_of(files=False)
    process = Process.on(world, schema_of())
    process.customers.insert(customer(1))
    process.publish()
    process = applied(world, off, seed=2)
    for number in range(9):
        process.customers.save(customer(number))
    process.publish()
    world.manual.advance(7200)
    process.customers.save(customer(1))
    process.publish()
    world.manual.advance(7200)
    assert process.customers._ledger.trim(0) > 9
    applied(world, schema_of(), seed=3)
    check_files(world, schema_of())


def test_snapshots_that_an_earlier_release_named_are_renamed() -> None:
    """Its names left zeros out, so that they did not sort."""
    world, schema = World(), schema_of(snapshots={"enabled": True, "every": 2})
    process = Process.on(world, schema)
    process.customers.insert_many([customer(number) for number in range(4)])
    for number in range(3):
        process.customers.save(customer(number))
    process.publish()
    names = [key for key in readable(world) if ".snapshots/" in key]
    assert len(names) == 3
    for key in names:
        folder, _, name = key.rpartition("/")
        ts = datetime.fromisoformat(name.removesuffix(".json"))
        world.put(f"{folder}/{short_snapshot_name(ts)}", world.get(key).body)
        if short_snapshot_name(ts) != name:
            world.delete(key)
    register = site_of(process, world).register
    known = register.read()
    assert known.record is not None
    register.swap(known, replace(known.record, shape=b"\0" * 32))
    assert faults_in(world, schema) == {}  # they are about to be written again, and no damage
    Process.on(world, schema, seed=2).publish()
    check_files(world, schema)
    assert [key for key in readable(world) if ".snapshots/" in key] == names
