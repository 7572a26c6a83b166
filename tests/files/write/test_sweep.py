"""Faults and rivals at every request of what writes readable files: one more run leaves exactly those of the state."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.sweeps.test_sweep import Interrupted
from tests.files.writer_rig import Process, World, check_files, readable, schema_of
from wormdb.engine.commit.operations import Remove
from wormdb.engine.log.paths import ENGINE_FOLDER
from wormdb.errors import WormError
from wormdb.format.event import DocumentErased
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.schema.model import Schema

SCHEMA = schema_of(
    snapshots={"enabled": True, "every": 2, "maxCount": 1},
    manifest={"enabled": True, "fields": ["name"], "partitionThreshold": 3, "maxPartitions": 2},
    indexes={"byName": {"field": "name"}},
)
FLAT_SCHEMA = schema_of(
    path="#org/@customers/(id:any).json",
    manifest={"enabled": True, "fields": ["name"], "partitionThreshold": 3, "maxPartitions": 2},
)
"""Files that are called as their documents."""
STRIDE = int(os.environ.get("WORMDB_STRIDE", "13"))
"""Of so many requests one is tried; all of them with 1."""
WRITES = {"put", "delete", "delete_many"}


def grow(customers: Collection[Document]) -> None:
    """Of everything something, and more documents than one file holds."""
    customers.save({"id": "a", "name": "second"})
    customers.delete("b")
    customers.restore("c")
    customers.insert_many([{"id": "d", "name": "d"}, {"id": "e", "name": "d"}])


def shrink(customers: Collection[Document]) -> None:
    """So few documents that one file holds them again; a purge takes snapshots along."""
    customers.delete("a")
    customers.purge("a")
    customers.delete("d")
    customers.delete("e")


def more(customers: Collection[Document]) -> None:
    """So many documents that the manifest has parts."""
    customers.insert_many([{"id": name, "name": name} for name in "defgh"])


def erase(customers: Collection[Document]) -> None:
    """Every document at which a part may begin; the entry alone, as after a crash behind it."""
    access = customers._access
    for name in (b'"d"', b'"e"', b'"f"'):
        access.commit_event(DocumentErased(id=name), access.by(None, None), None, Remove(name))


ERASED = "def"
CHANGES = {"grow": (grow,), "shrink": (grow, shrink), "erase": (more, erase), "first": ()}
by_change = pytest.mark.parametrize("change", CHANGES)


@cache
def prepared(change: str) -> World:
    """A bucket whose last changes have no files yet."""
    world = World()
    process = Process.on(world, schema_in(change), seed=5)
    process.customers.insert_many([{"id": name, "name": "first"} for name in "abc"])
    process.customers.delete("c")
    for act in CHANGES.get(change, (grow,)):
        process.publish()
        act(process.customers)
    process.bring()
    return world


def schema_in(change: str) -> Schema:
    return FLAT_SCHEMA if change == "flat" else SCHEMA


def finish(world: World, change: str, label: str) -> None:
    schema = schema_in(change)
    process = Process.on(world, schema, seed=9)
    process.publish()
    check_files(world, schema, label=label)
    if change == "erase":
        found = [each for name in ERASED for each in process.database.find_traces("Customer", name)]
        assert not [each for each in found if is_of_files(each.key)], label


def is_of_files(key: str) -> bool:
    return key.endswith(f"{ENGINE_FOLDER}files") or ENGINE_FOLDER not in key


def digest_of(world: World) -> bytes:
    return sha256(repr([(key, world.get(key).body) for key in world._shelf.keys]).encode()).digest()


@pytest.mark.parametrize("change", [*CHANGES, "flat"])
def test_every_fault_at_every_request(change: str) -> None:
    schema = schema_in(change)
    clean = FaultStore(prepared(change).copy())
    Process.on(clean, schema).publish()
    verbs = [trace.verb for trace in clean.trace]
    assert len(WRITES.intersection(verbs)) > 1
    seen = set()
    for number, verb in enumerate(verbs, 1):
        faults: tuple[Fault, ...] = (Fault.UNAVAILABLE_503,)
        if verb in WRITES:
            faults = (Fault.CRASH_AFTER, Fault.ANSWER_LOST, Fault.LANDS_LATE, Fault.RACE_412)
        for place, fault in enumerate(faults):
            if STRIDE > 1 and (number + place) % (4 if verb in WRITES else STRIDE):
                continue
            world = prepared(change).copy()
            store = FaultStore(world, {number: fault})
            label = f"{fault} at {verb} {number}"
            with suppress(WormError, SimulatedCrash):
                Process.on(store, schema).publish()
            late = world.copy()
            if (digest := digest_of(world)) not in seen:
                seen.add(digest)
                finish(late, change, label)
            if store.land() and (digest := digest_of(world)) not in seen:
                seen.add(digest)
                finish(world, change, f"{label}, landed before the next run")
    assert len(seen) > 5


# --- somebody else ---


def _rewrites(process: Process) -> None:
    process.customers.save({"id": "a", "name": "rival"})
    process.publish()


def _removes(process: Process) -> None:
    process.customers.save({"id": "x", "name": "rival"})
    process.customers.delete_many({})
    process.publish()


def _only_publishes(process: Process) -> None:
    process.publish()


def _recreates(process: Process) -> None:
    for name in "ab":
        process.customers.save({"id": name, "name": "rival"})
        process.customers.delete(name)
        process.customers.insert({"id": name, "name": "again"})
        process.publish()


@pytest.mark.parametrize("rival", [_rewrites, _removes, _only_publishes, _recreates], ids=lambda rival: rival.__name__)
@by_change
def test_somebody_else_before_every_request(change: str, rival: Callable[[Process], None]) -> None:
    first = 1 + len(change + rival.__name__) % STRIDE
    for number in range(first, 300, STRIDE):
        world = prepared(change).copy()

        def act(world: World = world) -> None:
            rival(Process.on(world, SCHEMA, seed=3))

        store = Interrupted(world, number, act)
        process = Process.on(store, SCHEMA)
        process.publish()
        label = f"{rival.__name__} before request {number}"
        finish(world, change, label)
        if store.requests < number:
            return
    raise AssertionError("it does not end")


def test_a_zombie_with_an_old_state_replaces_nothing() -> None:
    """It stopped before any of its requests, everything went on, and it dies after some of them."""
    total = 60
    for number in range(1, total, STRIDE):
        world = prepared("grow").copy()
        zombie: dict[str, Any] = {}

        def act(world: World = world, zombie: dict[str, Any] = zombie) -> None:
            _recreates(Process.on(world, SCHEMA, seed=3))
            zombie["files"] = readable(world)

        store = Interrupted(world, number, act)
        faulty = FaultStore(store, {number + 3: Fault.CRASH_BEFORE})
        with suppress(SimulatedCrash):
            Process.on(faulty, SCHEMA).publish()
        after = readable(world)
        expected = zombie.get("files", after)
        assert {key: body for key, body in after.items() if key in expected} == expected, number
