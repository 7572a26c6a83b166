"""Every request of a push, a pull, a split and a compaction fails in every way, or another client comes in between."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.sync.clones import Clone, World
from wormdb.errors import WormError
from wormdb.storage.store import WrappedStore
from wormdb.sync import remote
from wormdb.sync.index import FileEntry, Monolith, encode
from wormdb.sync.paths import MONOLITH
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from wormdb.storage.store import Store
    from wormdb.sync import Sync


@pytest.fixture(autouse=True, params=[256, 2], ids=["", "listing"])
def notes_max(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three parts are few, or so many that the manifest has a listing."""
    monkeypatch.setattr(remote, "NOTES_MAX", request.param)


FAULTS: list[Fault] = [fault for fault in Fault if fault is not Fault.RACE_412]  # rivals here write what a client would


def edited(root: Path) -> World:
    """A world in which clone `a` has a new file, a changed one and a deleted one, and `b` has changed another."""
    world = World(root, "ab")
    a, b = world.clones["a"], world.clones["b"]
    for path in ("data/t/1/x", "data/t/1/y", "data/t/2/x", "data/t/2/z", "top"):
        a.write(path)
    a.push()
    b.pull()
    a.write("data/t/1/x")
    a.write("data/t/3/new")
    a.delete("data/t/1/y")
    b.write("data/t/2/x")
    b.write("data/t/1/more")
    world.clock.advance(3)
    return world


def ahead(root: Path) -> World:
    """The same, and `b` has pushed its changes."""
    world = edited(root)
    world.clones["b"].delete("data/t/2/z")
    world.clones["b"].push()
    return world


def old(root: Path) -> World:
    """A bucket with an index in one object, as old clients leave it."""
    world = World(root, "ab")
    entries = {}
    for path in ("data/t/1/x", "data/t/2/x", "top"):
        content = world.content()
        world.store.put(path, content.encode())
        entries[path] = FileEntry(key=path, size=len(content), last_modified="2026-01-01T00:00:00.000Z")
    world.store.put(MONOLITH, encode(Monolith(entries=entries)))
    world.clones["a"].write("data/t/1/mine")
    world.clones["b"].write("out/mine")
    return world


def emptied(root: Path) -> World:
    """A part without files, whose object may be closed."""
    world = edited(root)
    a = world.clones["a"]
    a.push()
    a.delete("data/t/3/new")
    a.push()
    world.clock.advance(7_300)
    return world


OPERATIONS: dict[str, tuple[Callable[[Path], World], Callable[[Sync], object]]] = {
    "push": (edited, lambda sync: sync.push_changed()),
    "push behind": (ahead, lambda sync: sync.push_changed()),
    "pull": (ahead, lambda sync: sync.pull_changed()),
    "split": (old, lambda sync: sync.push_changed()),
    "compact": (emptied, lambda sync: sync.compact()),
    "scan": (ahead, lambda sync: sync.pull_changed(scan=True)),
}


def carried_out(clone: Clone, operation: Callable[[Sync], object], store: Store) -> None:
    try:
        with clone.open(store) as sync:
            operation(sync)
    except (WormError, SimulatedCrash):
        pass


STRIDE = int(os.environ.get("WORMDB_STRIDE", "2"))
"""One in this many requests, of each fault and rival others."""
QUICK = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.ANSWER_LOST, Fault.LANDS_LATE)
CASES = [
    pytest.param(name, fault, marks=() if fault in QUICK and name not in ("compact", "scan") else pytest.mark.long)
    for name in OPERATIONS
    for fault in FAULTS
]


@pytest.mark.parametrize(("name", "fault"), CASES)
def test_a_fault_at_every_request(name: str, fault: Fault, tmp_path: Path) -> None:
    make, operation = OPERATIONS[name]
    for number in range(1 + FAULTS.index(fault) % STRIDE, 200, STRIDE):
        root = tmp_path / str(number)
        root.mkdir()
        world = make(root)
        store = FaultStore(world.handle(), {number: fault})
        carried_out(world.clones["a"], operation, store)
        if number // STRIDE % 2:
            store.land()
            world.check()
        else:
            world.clones["b"].sync()
            store.land()
            world.clones["b"].push()
            world.check()
        if store.requests < number:
            return
    raise AssertionError("it does not end")


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
def test_others_agree_on_what_a_client_wrote_that_never_comes_back(fault: Fault, tmp_path: Path) -> None:
    """One that knows the state before the crash sees what a new one sees: the new one tells the manifest of it.

    These are the files that there are; an object that was written over is found by a scan until its client is back.
    """
    seen = set()
    for number in range(1, 200):
        root = tmp_path / str(number)
        root.mkdir()
        world = edited(root)
        before, after = Clone(world, root / "before"), Clone(world, root / "after")
        before.pull()
        store = FaultStore(world.handle(), {number: fault})
        carried_out(world.clones["a"], lambda sync: sync.push_changed(), store)
        after.pull()
        before.pull()
        assert before.files().keys() == after.files().keys() == world.listed().keys(), f"request {number}"
        seen.add(tuple(sorted(after.files())))
        if store.requests < number:
            assert len(seen) > 1, "no crash came after a part was written"
            return
    raise AssertionError("it does not end")


class Interrupted(WrappedStore):
    """Before request `number` another client does all of its work."""

    def __init__(self, inner: Store, number: int, work: Callable[[], object]) -> None:
        super().__init__(inner)
        self.requests = 0
        self._number = number
        self._work = work

    def _count(self) -> None:
        self.requests += 1
        if self.requests == self._number:
            self._work()

    def probe(self, key: str) -> Any:
        self._count()
        return super().probe(key)

    def get(self, key: str) -> Any:
        self._count()
        return super().get(key)

    def put(self, *arguments: Any, **options: Any) -> Any:
        self._count()
        return super().put(*arguments, **options)

    def delete(self, key: str) -> None:
        self._count()
        super().delete(key)

    def delete_many(self, keys: Any) -> None:
        self._count()
        super().delete_many(keys)


def same_file(clone: Clone) -> None:
    clone.write("data/t/1/x")
    clone.write("data/t/3/new")
    clone.sync()


def deletes(clone: Clone) -> None:
    clone.pull()
    clone.delete("data/t/1/x")
    clone.delete("data/t/3/new")
    clone.push()


def brings_back(clone: Clone) -> None:
    clone.write("data/t/1/y")
    clone.push()


def makes_anew(clone: Clone) -> None:
    clone.pull()
    clone.write("data/t/1/y")
    clone.push()


def edits_meanwhile(clone: Clone) -> None:
    own = clone.world.clones["a"]
    own.write("data/t/2/x")
    own.write("data/t/2/z")
    own.delete("top")


RIVALS: dict[str, Callable[[Clone], object]] = {
    "pushes": Clone.push,
    "pulls": Clone.pull,
    "writes the same": same_file,
    "deletes": deletes,
    "brings back": brings_back,
    "makes anew": makes_anew,
    "edits meanwhile": edits_meanwhile,
}


@pytest.mark.parametrize(
    "name",
    ["push", "push behind", "pull", *(pytest.param(name, marks=pytest.mark.long) for name in ("compact", "split"))],
)
@pytest.mark.parametrize("rival", RIVALS)
def test_another_client_before_every_request(name: str, rival: str, tmp_path: Path) -> None:
    make, operation = OPERATIONS[name]
    for number in range(1 + len(name + rival) % STRIDE, 200, STRIDE):
        root = tmp_path / str(number)
        root.mkdir()
        world = make(root)
        store = Interrupted(world.handle(), number, lambda: RIVALS[rival](world.clones["b"]))  # noqa: B023 - called at once
        carried_out(world.clones["a"], operation, store)
        world.check()
        if store.requests < number:
            return
    raise AssertionError("it does not end")
