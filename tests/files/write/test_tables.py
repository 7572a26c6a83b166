"""Manifest and index files: in parts above a threshold, written again when enough has changed or after a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.files.writer_rig import Process, World, check_files, names_in, readable, schema_of
from wormdb.engine.log.paths import ENGINE_FOLDER
from wormdb.files.contents.manifest import decode_manifest, decode_manifest_meta
from wormdb.files.write import tables
from wormdb.storage.store import OCTETS, WrappedStore
from wormdb.system.clock import SeededChance
from wormdb.testing.fault_store import FaultStore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb.files.contents.names import FileNames
    from wormdb.schema.model import Schema
    from wormdb.storage.store import Precondition, PutResult, Store

THRESHOLD = 20


def parted(**changes: Any) -> Schema:
    """Few entries already make parts."""
    manifest = {"enabled": True, "fields": ["name"], "partitionThreshold": THRESHOLD, "maxPartitions": 4}
    indexes = {
        "byName": {"field": "name"},
        "byEmail": {"field": "email", "unique": True},
        "byTags": {"field": "tags", "type": "multiValue"},
    }
    return schema_of(manifest={**manifest, **changes}, indexes=indexes, oplog=False, snapshots={}, softDelete=False)


def customer(identity: Any, number: int = 0) -> dict[str, Any]:
    return {"id": identity, "name": f"n{number % 5}", "email": f"{identity}@x", "tags": [f"t{number % 3}", "all"]}


def some(chance: SeededChance, count: int, below: int, low: int = 0) -> list[int]:
    """Numbers by chance, each once."""
    return list(dict.fromkeys(low + int(chance.fraction() * (below - low)) for _ in range(count)))


def names_of(process: Process) -> FileNames:
    return names_in(process.customers._ledger.view(), "org/customers/")


def partitions(world: World) -> int:
    return sum(".worm.manifest/partition-" in key for key in readable(world))


class Watched(WrappedStore):
    """Looks at the manifest, as a reader would, after every write."""

    def __init__(self, inner: World) -> None:
        super().__init__(inner)
        self.names: FileNames | None = None
        self.stable: set[str] = set()
        self.looked = 0

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        result = self._inner.put(key, body, precondition, content_type=content_type)
        self.look()
        return result

    def delete(self, key: str) -> None:
        self._inner.delete(key)
        self.look()

    def look(self) -> None:
        if self.names is not None:
            self.looked += 1
            assert self.stable <= set(entities_in(self._inner, self.names))


def entities_in(store: Store, names: FileNames) -> Iterable[str]:
    """The manifest as a simple reader has it: parts if something names them, else the one file."""
    meta = store.probe(names.manifest_meta).found
    if meta is None:
        return decode_manifest(store.get(names.manifest).body, key="m").entities
    count = decode_manifest_meta(meta.body, key="m").partition_count
    keys = [names.manifest_partition(number) for number in range(count)]
    return [text for key in keys for text in decode_manifest(store.get(key).body, key=key).entities]


def test_a_table_grows_into_parts_and_back() -> None:
    schema, world = parted(), World()
    store = Watched(world)
    process = Process.on(store, schema)
    seen = set()
    for number in range(0, 99, 11):
        process.customers.insert_many([customer(f"{one:03}", one) for one in range(number, number + 11)])
        store.names, store.stable = (names_of(process) if number else None), {f"{one:03}" for one in range(number)}
        process.publish()
        check_files(world, schema)
        seen.add(partitions(world))
    for number in range(0, 99, 11):
        store.stable = {f"{one:03}" for one in range(number + 11, 99)}
        process.customers.delete_many({"_id": {"$in": [f"{one:03}" for one in range(number, number + 11)]}})
        process.publish()
        check_files(world, schema)
        seen.add(partitions(world))
    assert seen == {0, 2, 3, 4}, "parts without entries are cut anew"
    assert store.looked > 100
    assert partitions(world) == 0


def test_a_table_goes_back_only_well_below_the_threshold() -> None:
    schema, world = parted(), World()
    process = Process.on(world, schema)
    process.customers.insert_many([customer(f"{one:03}") for one in range(THRESHOLD + 1)])
    process.publish()
    assert partitions(world) == 2
    for one in range(5):
        process.customers.delete(f"{one:03}")
        process.publish()
    assert partitions(world) == 2, "16 of 20"
    process.customers.delete("005")
    process.publish()
    assert partitions(world) == 0, "15 of 20"
    check_files(world, schema)


@pytest.mark.parametrize("kind", [int, str, float])
def test_ids_of_any_type_are_found_by_the_ranges_of_their_texts(kind: Any) -> None:
    schema, world = parted(), World()
    process = Process.on(world, schema)
    chance = SeededChance(3)
    ids = [kind(one) for one in some(chance, 58, 10_000, -10_000)]
    process.customers.insert_many([customer(one) for one in ids])
    process.publish()
    for again in range(4):
        for one in some(chance, 5, len(ids)):
            process.customers.save(customer(ids[one], again))
        process.customers.save(customer(kind(20_000 + again)))
        process.flush()
        check_files(world, schema)
    assert partitions(world) == 3


def test_ids_that_always_grow_are_cut_anew() -> None:
    schema, world = parted(maxPartitions=8), World()
    process = Process.on(world, schema)
    sizes = []
    for number in range(0, 300, 50):
        process.customers.insert_many([customer(f"{one:04}") for one in range(number, number + 50)])
        process.publish()
        parts = [key for key in readable(world) if ".worm.manifest/partition-" in key]
        sizes.append(max((len(decode_manifest(world.get(key).body, key=key).entities) for key in parts), default=0))
    check_files(world, schema)
    assert max(sizes) <= 3 * 38


# --- when ---


def test_a_large_file_waits_for_enough_changes_or_for_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "SMALL_BYTES", 0)
    schema, world = parted(partitionThreshold=1000), World()
    process = Process.on(world, schema)
    process.customers.insert_many([customer(f"{one:03}") for one in range(100)])
    process.publish()
    manifest = readable(world)["org/customers/.worm.manifest.json"]
    for one in range(9):
        process.customers.save({**customer(f"{one:03}"), "status": "new"})
        process.publish()
    assert readable(world)["org/customers/.worm.manifest.json"] == manifest, "9 of 100 have changed"
    process.customers.save({**customer("020"), "status": "new"})
    process.publish()
    changed = readable(world)["org/customers/.worm.manifest.json"]
    assert changed != manifest, "10 of 100 have changed"
    check_files(world, schema)
    process.customers.save({**customer("021"), "status": "new"})
    process.publish()
    world.manual.advance(59)
    process.publish()
    assert readable(world)["org/customers/.worm.manifest.json"] == changed
    world.manual.advance(1)
    process.publish()
    assert readable(world)["org/customers/.worm.manifest.json"] != changed
    check_files(world, schema)


def test_an_index_that_did_not_change_is_not_written() -> None:
    schema, world = parted(), World()
    process = Process.on(world, schema)
    process.customers.insert_many([customer(f"{one:03}") for one in range(5)])
    process.publish()
    before = readable(world)
    process.customers.save({**customer("001"), "name": "another"})
    process.publish()
    changed = {key for key, body in readable(world).items() if before.get(key) != body}
    assert changed == {
        "org/customers/.worm",
        "org/customers/.worm.index/name.json",
        "org/customers/.worm.manifest.json",
        "org/customers/001/profile.json",
    }


def test_flush_writes_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "SMALL_BYTES", 0)
    schema, world = parted(partitionThreshold=50), World()
    process = Process.on(world, schema)
    process.customers.insert_many([customer(f"{one:03}") for one in range(100)])
    process.publish()
    process.customers.save(customer("003", 3))
    process.publish()
    with pytest.raises(AssertionError):
        check_files(world, schema)
    process.flush()
    check_files(world, schema)


def test_a_manifest_that_is_not_updated_by_itself_waits_for_a_flush() -> None:
    schema, world = parted(autoUpdate=False), World()
    process = Process.on(world, schema)
    process.customers.insert(customer("a"))
    process.publish()
    assert "org/customers/.worm.manifest.json" not in readable(world)
    assert "org/customers/.worm.index/name.json" in readable(world)
    process.flush()
    check_files(world, schema)
    process.customers.insert(customer("b"))
    process.publish()
    assert b'"count":1' in readable(world)["org/customers/.worm.manifest.json"]
    process.customers.build_manifest()
    check_files(world, schema)


def test_the_manifest_can_be_switched_off_and_indexes_dropped() -> None:
    world = World()
    process = Process.on(world, parted())
    process.customers.insert_many([customer(f"{one:03}", one) for one in range(30)])
    process.publish()
    assert partitions(world) == 2
    process.customers.create_index("address.city", name="mine")
    process.publish()
    check_files(world, parted())
    assert "org/customers/.worm.index/address.city.json" in readable(world)
    process.customers.drop_index("mine")
    process.publish()
    check_files(world, parted())
    assert "org/customers/.worm.index/address.city.json" not in readable(world)
    off = parted(enabled=False)
    process = Process.on(world, off)
    process.database.apply_schema()
    process.publish()
    check_files(world, off)
    assert partitions(world) == 0


# --- how much ---


def test_bytes_written_stay_within_twelve_times_the_bytes_that_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "SMALL_BYTES", 0)
    schema, world = parted(partitionThreshold=80, maxPartitions=16), World()
    store = FaultStore(world)
    process = Process.on(store, schema)
    count, chance = 400, SeededChance(1)
    process.customers.insert_many([customer(f"{one:04}") for one in range(count)])
    process.publish()
    whole = sum(len(body) for key, body in readable(world).items() if "/.worm.manifest/" in key)
    row = whole / count
    begin, changed = len(store.trace), 0
    for _ in range(12):
        chosen = some(chance, 20, count)
        with process.customers.batch() as batch:
            for one in chosen:
                batch.save(customer(f"{one:04}", one + 1))
        changed += len(chosen)
        process.publish()
    sizes = {key: len(body) for key, body in readable(world).items()}
    written = sum(
        sizes[trace.key]
        for trace in store.trace[begin:]
        if trace.verb == "put" and "/.worm.manifest/" in trace.key and ENGINE_FOLDER not in trace.key
    )
    assert 0 < written <= 12 * changed * row
