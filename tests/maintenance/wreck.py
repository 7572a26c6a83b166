"""What the tests of verify and repair share: a collection with every kind of object in it, and ways to damage one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.sweeps.commits import World
from wormdb.api.database import Database
from wormdb.engine.blocks import runs as block_runs
from wormdb.engine.index import shelf as index_shelf
from wormdb.engine.index.shelf import IndexShelf
from wormdb.engine.ledger import Runtime, TailLimits
from wormdb.engine.log.clock import MiscClock
from wormdb.engine.log.paths import EnginePaths
from wormdb.engine.log.root import Register
from wormdb.engine.state import successor as succession
from wormdb.engine.state.projection import Sizes
from wormdb.engine.tree.nodes import NodeLimits
from wormdb.format.root import decode_retired
from wormdb.maintenance.audit.lists import CheckedList
from wormdb.maintenance.audit.report import AuditReport
from wormdb.maintenance.audit.verify import named_objects
from wormdb.maintenance.collection import StoredCollection
from wormdb.schema.load import load_schema
from wormdb.settings import Settings
from wormdb.storage.meter import MeteredStore
from wormdb.storage.pool import SerialPool
from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.format.root import Root
    from wormdb.storage.store import Store

__all__ = [
    "PATHS",
    "PREFIX",
    "SCHEMA",
    "Answers",
    "answers",
    "collection_on",
    "database_on",
    "keys_in",
    "kind_of",
    "make_small",
    "named",
    "objects_by_kind",
    "root_of",
    "site_on",
    "whole_world",
]

PREFIX = "things/"
PATHS = EnginePaths.of_collection(PREFIX)

SCHEMA = load_schema(
    {
        "schemaVersion": "1.0",
        "sourceOfTruth": "local",
        "models": {
            "Thing": {
                "path": "@things/(id:string)",
                "softDelete": {"ttl": 30},
                "snapshots": {"enabled": True, "every": 3},
                "indexes": {
                    "byEmail": {"field": "email", "unique": True},
                    "byTag": {"field": "tags", "type": "multiValue"},
                    "byCityAge": {"fields": ["city", "age"]},
                },
            }
        },
    }
)

SETTINGS = Settings(forward="manual", forward_interval_ms=0, block_bytes=2_500, stage_bytes=3_500, cache_bytes=0)
SIZES = Sizes(block_target=2_500, run_smallest=3_000)


def make_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few entries a node, pages of a few blocks, and lists of few retired objects."""
    monkeypatch.setattr(index_shelf, "NodeLimits", lambda: NodeLimits(8, 8 * 64))
    monkeypatch.setattr(block_runs, "LIST_INLINE_BYTES_MAX", 1_500)
    monkeypatch.setattr(block_runs, "LIST_PAGE_BLOCKS", 2)
    monkeypatch.setattr(succession, "RETIRED_INLINE_MAX", 20)


def database_on(store: Store, world: World, *, seed: int = 1) -> Database:
    """A process that opens the bucket."""
    return Database(
        MeteredStore(store, clock=world.manual),
        SerialPool(),
        settings=SETTINGS,
        schema=SCHEMA,
        actor="tester",
        clock=world.manual,
        chance=SeededChance(seed),
    )


def collection_on(world: World, *, seed: int = 1) -> Collection[Document]:
    """The collection, by a process that knows nothing yet."""
    return database_on(world, world, seed=seed).model("Thing")


def site_on(world: World, store: Store | None = None, seed: int = 77) -> StoredCollection:
    """The collection as verify and repair reach it."""
    runtime = Runtime(
        store=store or world,
        pool=SerialPool(),
        clock=world.manual,
        chance=SeededChance(seed),
        misc=MiscClock(world.manual),
        before_first_write=lambda: None,
        limits=TailLimits(interval_ms=0, mode="manual"),
        sizes=SIZES,
    )
    return StoredCollection(PREFIX, runtime)


def thing(number: int, **values: Any) -> dict[str, Any]:
    return {
        "id": f"t{number:03d}",
        "email": f"e{number}@x",
        "tags": [f"tag{number % 3}", f"tag{number % 5}"],
        "city": f"c{number % 4}",
        "age": number,
        "pad": "p" * 40,
        **values,
    }


def whole_world(*, trimmed: bool = False) -> World:
    """A bucket with several runs and pages, indexes, history, snapshots, jobs, a trash, and a tail in the log.

    Every caller gets a copy of its own.
    """
    return _made(trimmed).copy()


@cache
def _made(trimmed: bool) -> World:
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        return _make(trimmed)


def _make(trimmed: bool) -> World:
    world = World()
    things = collection_on(world)
    things.insert_many([thing(number) for number in range(12)])
    things.forward()
    for number in range(12, 24):
        things.insert(thing(number))
    things.forward()
    things.insert_many([thing(number, pad="q" * 400) for number in range(30, 50)])
    things.forward()
    for number in range(0, 40, 5):
        if number not in range(24, 30):
            things.save(thing(number, city="moved", age=1000 + number))
    for number in (3, 31, 32):
        things.delete(f"t{number:03d}")
    things.restore("t032")
    things.snapshot("t004")
    things.forward()
    if trimmed:
        world.manual.advance(8 * 86_400)
        things.insert(thing(60))
        things.forward()
        database = database_on(world, world, seed=5)
        world.manual.advance(8 * 86_400)
        database._ledger(PREFIX).trim(7 * 86_400_000)
        things = collection_on(world, seed=6)
    things.insert(thing(61))
    things.save(thing(1, city="late"))
    things.forward()
    things.insert(thing(62))
    things.save(thing(2, city="later"))
    return world


@dataclass(frozen=True)
class Answers:
    """Everything that a collection says."""

    documents: Any
    histories: Any
    trashed: Any
    counts: Any
    indexes: Any


def answers(world: World) -> Answers:
    """Read everything, by a process that knows nothing yet. Raises CorruptionError where something is damaged."""
    things = collection_on(world, seed=50)
    view = things._ledger.view()
    held = list(view.scan())
    single = [(key, view.get(key)) for key, _ in held]
    assert single == held
    history = things._ledger.history(view)
    return Answers(
        held,
        [(key, history.versions(key), history.snapshots(key)) for key, _ in held],
        sorted((one.id, one.document) for one in things.list_trashed()),
        view.count,
        _index_answers(world),
    )


def _index_answers(world: World) -> list[Any]:
    root = Register(world, PATHS, PREFIX).read().root
    if root is None:
        return []
    shelf = IndexShelf(world, PATHS, SerialPool())
    found = []
    for index in root.indexes:
        shelf.filter(root, index)
        found.append((index.name, list(shelf.reader(root, index).scan())))
    return found


def root_of(world: World) -> Root:
    root = Register(world, PATHS, PREFIX).read().root
    assert root is not None
    return root


def keys_in(world: World) -> list[str]:
    """Every object of the collection."""
    return [found.key for page in world.list(PATHS.folder) for found in page.objects]


def named(world: World) -> list[str]:
    """Every object that the root needs, the root, and the log."""
    root = root_of(world)
    known = set(named_objects(site_on(world), root)) | {PATHS.root}
    retired, older = [one.name for one in root.retired], root.retired_older
    while older is not None:
        key = PATHS.retired(older.name)
        found = decode_retired(world.get(key).body, name=key, identity=older.name)
        retired += [one.name for one in found.retired]
        older = found.older
    log = {key for key in keys_in(world) if key.startswith(PATHS.entries)}
    assert known | log <= set(keys_in(world))
    return sorted((known - {PATHS.folder + name for name in retired}) | log)


def kind_of(key: str) -> str:
    """The kind of object behind a key."""
    rest = key.removeprefix(PATHS.folder)
    if rest == "block0":
        return "root"
    folder, _, name = rest.partition("/")
    return f"{folder} {name.rpartition('.')[2]}" if folder in {"data", "history"} else folder


def objects_by_kind(world: World) -> dict[str, str]:
    """One object of each kind and use: what blocks are for, what nodes are for."""
    root = root_of(world)
    found = {kind_of(key): key for key in named(world) if kind_of(key) in {"root", "data retired"}}
    for where, folder, entries, pages in (
        ("documents", PATHS.data, root.blocks, root.block_pages),
        ("attached", PATHS.data, root.attached, root.attached_pages),
        ("history", PATHS.history, root.history, root.history_pages),
    ):
        for entry in entries[:1]:
            found[f"{where} block"] = f"{folder}{entry.name}.parquet"
            found[f"{where} sidecar"] = f"{folder}{entry.sidecar.name}.map"
        for page in pages[:1]:
            found[f"{where} page"] = f"{folder}{page.name}.list"
    for index in root.indexes:
        assert index.node is not None
        top = found[f"{index.name} top"] = f"{PATHS.index(index.name)}{index.node.name}"
        found["leaf"] = next(key for key in named(world) if key.startswith(PATHS.index(index.name)) and key != top)
        if index.membership is not None:
            found[f"{index.name} filter"] = f"{PATHS.index(index.name)}{index.membership.name}"
    kept = CheckedList(site_on(world), "attached", root, AuditReport())
    loaded = {entry.name for run in kept.runs for entry in kept.entries(run)}
    merged = CheckedList(site_on(world), "blocks", root, AuditReport())
    blocks = [entry for run in merged.runs for entry in merged.entries(run) if entry.name not in loaded]
    found["documents merged"] = f"{PATHS.data}{blocks[0].name}.parquet"
    log = sorted(key for key in named(world) if key.startswith(PATHS.entries))
    found["applied entry"], found["tail entry"] = log[0], log[-2]
    return found
