"""After one sync the files are those of the final state and no others, whatever happened before."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.files.compare.test_check import FOLDER, edit, faults_in, filled, site_of, synced
from tests.files.writer_rig import Process, World, check_files, readable, schema_of
from wormdb.errors import InvalidRequestError, WormError
from wormdb.files.sync import sync_files
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.schema.model import Layout
    from wormdb.storage.store import Store

T = TypeVar("T")
SMALL = {
    "snapshots": {"enabled": True, "every": 2, "maxCount": 2},
    "manifest": {"enabled": True, "partitionThreshold": 2, "maxPartitions": 3},
    "indexes": {"byTags": {"field": "tags", "type": "multiValue"}},
}
SCHEMAS = [schema_of({"layout": layout}, **SMALL) for layout in ("inline", "collection", "root")]
SCHEMA = SCHEMAS[2]


class Pausing(FaultStore):
    """Stops before a request until it is woken, as a process does that was suspended."""

    def __init__(self, inner: Store, pause_at: int) -> None:
        super().__init__(inner)
        self.pause_at = pause_at
        self.stopped, self.woken = threading.Event(), threading.Event()

    def _request(self, verb: str, key: str, call: Callable[[], T], rival: Callable[[], None] | None = None) -> T:
        if self.requests + 1 == self.pause_at:
            self.stopped.set()
            assert self.woken.wait(60)
        return super()._request(verb, key, call, rival)


@dataclass
class Zombie:
    """Somebody who began to write files and was stopped in the middle."""

    store: Pausing
    thread: threading.Thread = field(init=False)

    def start(self, schema: Any) -> None:
        process = Process.on(self.store, schema, seed=self.store.pause_at + 100)
        self.thread = threading.Thread(target=self._run, args=(process,))
        self.thread.start()
        while self.thread.is_alive() and not self.store.stopped.wait(0.001):
            pass

    def _run(self, process: Process) -> None:
        with suppress(WormError):
            process.publish()
        self.store.stopped.set()

    def wake(self) -> None:
        self.store.woken.set()
        self.thread.join(60)
        assert not self.thread.is_alive()


ids = st.sampled_from(["a", "b", "c", "d/e"])
steps = st.one_of(
    st.tuples(st.sampled_from(["save", "save", "delete", "restore", "purge", "snapshot"]), ids, st.integers(0, 3)),
    st.tuples(st.sampled_from(["publish", "flush", "wake"]), ids, st.just(0)),
    st.tuples(st.sampled_from(["crash", "zombie"]), ids, st.integers(1, 40)),
    st.tuples(st.sampled_from(["lose", "edit", "add"]), ids, st.integers(0, 50)),
    st.tuples(st.sampled_from(["off", "on", "move"]), ids, st.integers(0, 8)),
)


def change(process: Process, what: str, name: str, number: int) -> None:
    customers = process.customers
    match what:
        case "save":
            customers.save({"id": name, "name": f"N{number}", "tags": ["t", f"t{number}"]})
        case "delete":
            customers.delete(name)
        case "restore":
            customers.restore(name)
        case "purge":
            customers.purge(name)
        case "snapshot":
            customers.snapshot(name)
        case "publish":
            process.publish()
        case "flush":
            process.flush()
        case _:
            switch(process, what, number)


def switch(process: Process, what: str, number: int) -> None:
    files = process.database.files
    match what:
        case "off":
            files.off("Customer")
        case "on":
            files.on("Customer")
        case "move":
            layouts: list[Layout] = ["inline", "collection", "root"]
            kind = ("oplog", "snapshots", "trash")[number % 3]
            files.migrate("Customer", wanted={kind: layouts[number // 3]})


def damage(world: World, what: str, number: int) -> None:
    keys = sorted(key for key in readable(world) if key != ".worm")
    if not keys:
        return
    key = keys[number % len(keys)]
    match what:
        case "lose":
            world.delete(key)
        case "edit":
            world.put(key, b'{"_rev": 10000, "log": 10000}')
        case "add":
            world.put(f"{FOLDER}x{number}/profile.json", b'{"id": "x", "_rev": 1}')


@settings(max_examples=12)
@given(st.sampled_from(SCHEMAS), st.lists(steps, min_size=2, max_size=12))
def test_one_sync_ends_with_the_files_of_the_state(schema: Any, script: list[tuple[str, str, int]]) -> None:
    world, zombies = World(), list[Zombie]()
    process = Process.on(world, schema)
    process.customers.save({"id": "a", "name": "A", "tags": ["t"]})
    try:
        for seed, (what, name, number) in enumerate(script):
            if what == "zombie":
                zombies.append(Zombie(Pausing(world, number)))
                zombies[-1].start(schema)
            elif what == "wake":
                for zombie in zombies:
                    zombie.wake()
            elif what == "crash":
                dying = Process.on(FaultStore(world, {number: Fault.CRASH_AFTER}), schema, seed=seed + 50)
                attempt(partial(change, dying, ("flush", "off", "on")[number % 3], name, number))
            elif what in {"lose", "edit", "add"}:
                damage(world, what, number)
            else:
                attempt(partial(change, process, what, name, number))
    finally:
        for zombie in zombies:
            zombie.wake()
    synced(world, schema)
    if Process.on(world, schema, seed=99).customers._ledger.view().definition.keeps_files:
        check_files(world, schema)
    else:
        assert set(readable(world)) <= {".worm"}
    assert faults_in(world, schema) == {}


def attempt(run: Callable[[], object]) -> None:
    """What is refused, or dies, does nothing more."""
    with suppress(WormError, SimulatedCrash):
        run()


# --- one by one ---


def damaged() -> World:
    world = filled(SCHEMA).copy()
    keys = sorted(key for key in readable(world) if key != ".worm")
    for number, key in enumerate(keys):
        match number % 4:
            case 0:
                world.delete(key)
            case 1:
                edit(world, key, lambda value: {**value, "log": 9999, "_rev": 9999})
    world.put(f"{FOLDER}zz/profile.json", b"{}")
    world.put(f"{FOLDER}.worm.index/old.json", b"{}")
    return world


@pytest.fixture(scope="module")
def broken() -> World:
    return damaged()


def test_much_damage_at_once(broken: World) -> None:
    world = broken.copy()
    done = synced(world, SCHEMA)
    assert len(done.mended) > 10
    check_files(world, SCHEMA)
    assert synced(world, SCHEMA).mended == []


def test_more_damage_than_is_kept_in_mind(broken: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wormdb.files.compare.check.FAULTS_MAX", 3)
    world = broken.copy()
    done = synced(world, SCHEMA)
    assert done.left_out > 3
    assert done.left == []
    check_files(world, SCHEMA)


@pytest.mark.parametrize("fault", [Fault.CRASH_AFTER, Fault.ANSWER_LOST])
def test_a_sync_that_stops_anywhere_is_finished_by_the_next(broken: World, fault: Fault) -> None:
    number, is_reached = 3, True
    while is_reached:
        world = broken.copy()
        store = FaultStore(world, {number: fault})
        process = Process.on(store, SCHEMA, seed=21)
        attempt(partial(sync_files, site_of(process, store), process.database._ledgers.files))
        is_reached = store.requests >= number
        synced(world, SCHEMA)
        check_files(world, SCHEMA, label=f"{fault} at request {number}")
        number += 61


def test_an_older_state_never_replaces_a_newer_one() -> None:
    """A sync that began before a change does not undo what the writer of the change wrote."""
    world = filled(SCHEMA)
    for number in range(2, 90, 19):
        bucket = world.copy()
        bucket.put(f"{FOLDER}c/profile.json", b"{}")
        store = Pausing(bucket, number)
        slow = Process.on(store, SCHEMA, seed=31)
        thread = threading.Thread(target=sync_files, args=(site_of(slow, store), slow.database._ledgers.files))
        thread.start()
        while thread.is_alive() and not store.stopped.wait(0.001):
            pass
        writer = Process.on(bucket, SCHEMA, seed=32)
        writer.customers.save({"id": "c", "name": "Newer"})
        writer.customers.save({"id": "zz", "name": "Again"})
        writer.publish()
        store.woken.set()
        thread.join(60)
        check = readable(bucket)
        assert b"Newer" in check[f"{FOLDER}c/profile.json"], number
        assert b"Again" in check[f"{FOLDER}zz/profile.json"], number
        assert faults_in(bucket, SCHEMA) == {}


@pytest.mark.parametrize("wanted", [{"oplog": "elsewhere"}, {"logs": "root"}])
def test_a_layout_that_there_is_not_is_refused_before_anything_is_written(wanted: dict[str, Any]) -> None:
    world = filled(SCHEMA)
    process = Process.on(world, SCHEMA, seed=41)
    before = dict(world._shelf.entries)
    with pytest.raises(InvalidRequestError, match="the folders are oplog, snapshots, trash"):
        process.database.files.migrate("Customer", wanted=wanted)
    assert world._shelf.entries == before
