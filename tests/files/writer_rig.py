"""A bucket whose readable files are written, and the check that they are exactly those of its state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.engine.sweeps.commits import World, world_of
from tests.files.models import CUSTOMER
from tests.files.table_contents import contents_of
from wormdb.api.database import Database
from wormdb.engine.log.paths import ENGINE_FOLDER
from wormdb.files.contents.expected import files_of
from wormdb.files.contents.index import decode_index_file, decode_index_meta
from wormdb.files.contents.manifest import decode_manifest, decode_manifest_meta
from wormdb.files.contents.names import FileNames, Placement
from wormdb.files.contents.sentinel import read_collection_sentinel
from wormdb.format import json
from wormdb.schema.load import load_schema
from wormdb.settings import Settings
from wormdb.storage.meter import MeteredStore
from wormdb.storage.pool import SerialPool
from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.engine.state.view import View
    from wormdb.schema.model import Schema
    from wormdb.storage.store import Store

__all__ = ["Process", "World", "check_files", "documents_of", "readable", "schema_of"]

OWN = (".worm.names/", ".worm.schema.json", ".worm.probe")


def schema_of(storage: dict[str, Any] | None = None, **changes: Any) -> Schema:
    """One model, perhaps changed, in a layout."""
    written: dict[str, Any] = {
        "schemaVersion": "1.0",
        "sourceOfTruth": "remote",
        "models": {"Customer": {**CUSTOMER, **changes}},
    }
    if storage is not None:
        written["storage"] = storage
    return load_schema(written)


@dataclass
class Process:
    """Somebody who opens the bucket."""

    database: Database

    @classmethod
    def on(cls, store: Store, schema: Schema, *, seed: int = 1, **settings: Any) -> Process:
        """A process that just started; nothing is written by itself."""
        clock = world_of(store).manual
        database = Database(
            MeteredStore(store, clock=clock),
            SerialPool(),
            settings=Settings(forward="manual", forward_interval_ms=0, **settings),
            schema=schema,
            actor="user:ada",
            clock=clock,
            chance=SeededChance(seed),
        )
        return cls(database)

    @property
    def customers(self) -> Collection[Document]:
        return self.database.model("Customer")

    def bring(self) -> None:
        """Bring everything forward, but no files."""
        self.customers._ledger._advance.run()

    def publish(self) -> None:
        """Bring everything forward, and the files after it."""
        self.customers.forward()

    def flush(self) -> None:
        """The same, with all that would wait."""
        self.publish()
        self.database._ledgers.files.flush(self.customers._ledger)


# --- what must be there ---


def readable(world: World) -> dict[str, bytes]:
    """Every object that is not the engine's own."""
    keys = [key for key in world._shelf.keys if ENGINE_FOLDER not in key and not key.startswith(OWN)]
    return {key: world.get(key).body for key in keys}


def names_in(view: View, collection: str) -> FileNames:
    assert view.definition.model is not None
    assert view.definition.files is not None
    return FileNames(view.definition.model, collection, Placement.switched(view.definition.files))


def documents_of(process: Process) -> dict[str, bytes]:
    """The files of all documents that the state asks for."""
    ledger = process.customers._ledger
    view = ledger.view()
    names, history = names_in(view, ledger.collection), ledger.history(view)
    expected: dict[str, bytes] = {}
    for key, held in view.scan():
        identity = json.decode(held.id, name="id")
        has_past = names.model.oplog or names.model.snapshots.enabled
        versions, kept = (history.versions(key), history.snapshots(key)) if has_past else ([], [])
        expected |= files_of(identity, held, versions, kept, names.model, names)
    return expected


def check_files(world: World, schema: Schema, *, label: str = "") -> None:
    """The files are those of the state, and there are no others."""
    process = Process.on(world, schema, seed=77)
    ledger = process.customers._ledger
    view = ledger.view()
    names = names_in(view, ledger.collection)
    found, expected = readable(world), documents_of(process)
    kinds = {"entity", "oplog", "snapshot", "trashed", "tombstone"}
    tables = {key: body for key, body in found.items() if (what := names.parse(key)) and what.kind not in kinds}
    rest = {key: body for key, body in found.items() if key not in tables and key != ".worm"}
    assert sorted(rest) == sorted(expected), label
    assert rest == expected, label
    check_tables(view, names, tables, label)
    sentinel = read_collection_sentinel(tables[names.sentinel], key=names.sentinel)
    assert sentinel.count == view.count, label


def check_tables(view: View, names: FileNames, tables: dict[str, bytes], label: str) -> None:
    """Manifest and indexes hold what the state has, each in one file or in parts."""
    model = names.model
    documents = [(json.decode(held.id, name="id"), held.document) for _, held in view.scan() if held.document]
    indexes = view.definition.indexes.ready
    contents = contents_of(documents, model, indexes)
    wanted = {names.sentinel}
    if model.manifest.enabled:
        entities, keys = read_manifest(names, tables)
        wanted |= keys
        assert entities == contents.entities, label
    for index in indexes:
        entries, keys = read_index(names, index.fields, tables)
        wanted |= keys
        assert entries == {value: ids for value, ids in contents.entries[index.fields].items() if ids}
    assert sorted(tables) == sorted(wanted), label


def read_manifest(names: FileNames, tables: dict[str, bytes]) -> tuple[dict[str, Any], set[str]]:
    if names.manifest in tables:
        manifest = decode_manifest(tables[names.manifest], key=names.manifest)
        assert manifest.fault(names.model) is None
        return dict(manifest.entities), {names.manifest}
    meta = decode_manifest_meta(tables[names.manifest_meta], key=names.manifest_meta)
    keys = [names.manifest_partition(number) for number in range(len(meta.ranges))]
    entities: dict[str, Any] = {}
    for number, key in enumerate(keys):
        part = decode_manifest(tables[key], key=key)
        assert part.fault(names.model) is None
        assert part.partition == number
        assert meta.checksums is not None
        assert part.checksum == meta.checksums[number]
        assert all(meta.partition_of(text) == number for text in part.entities)
        entities |= part.entities
    assert meta.total_count == len(entities)
    return entities, {names.manifest_meta, *keys}


def read_index(
    names: FileNames, fields: tuple[str, ...], tables: dict[str, bytes]
) -> tuple[dict[str, list[str]], set[str]]:
    key = names.index(fields)
    if key in tables:
        index = decode_index_file(tables[key], key=key)
        assert index.fault(names.model, fields=fields) is None
        return {value: list(ids) for value, ids in index.entries.items()}, {key}
    meta = decode_index_meta(tables[names.index_meta(fields)], key=names.index_meta(fields))
    keys = [names.index_partition(fields, number) for number in range(len(meta.ranges))]
    entries: dict[str, list[str]] = {}
    for number, part_key in enumerate(keys):
        part = decode_index_file(tables[part_key], key=part_key)
        assert part.fault(names.model, fields=fields) is None
        low, high = meta.ranges[number]
        for value, ids in part.entries.items():
            assert all(low <= (value, text) and (high is None or (value, text) < high) for text in ids)
            entries.setdefault(value, []).extend(ids)
    assert meta.total_count == sum(map(len, entries.values()))
    return entries, {names.index_meta(fields), *keys}
