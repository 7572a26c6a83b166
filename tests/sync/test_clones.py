"""Random edits, pushes and pulls of three clones: nothing is lost, nothing comes back, all become equal."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.sync.clones import World
from wormdb.errors import WormError
from wormdb.sync import push, remote
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash

MEMORY = Path("/dev/shm")  # a disk makes each step wait for its writes
NAMES = st.sampled_from("abc")
PATHS = st.sampled_from(["top", "data/t/1/x", "data/t/1/y", "data/t/2/x", "out/a/b", "out/c"])
FAULTS = st.sampled_from([Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.ANSWER_LOST, Fault.LANDS_LATE])
SCOPES = st.sampled_from([None, None, "data/t/1", "data/t", "data", "out/a", "out", "top"])


@pytest.fixture(autouse=True)
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A push of more than two files is one of several portions; a manifest of two parts has a listing."""
    monkeypatch.setattr(push, "PORTION_FILES", 2)
    monkeypatch.setattr(remote, "NOTES_MAX", 1)


class Clones(RuleBasedStateMachine):
    """Three users of one bucket."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
        self.world = World(self.root)
        self.late: list[FaultStore] = []

    @rule(name=NAMES, path=PATHS)
    def write(self, name: str, path: str) -> None:
        self.world.clones[name].write(path)

    @rule(name=NAMES, path=PATHS)
    def delete(self, name: str, path: str) -> None:
        self.world.clones[name].delete(path)

    @rule(name=NAMES, scope=SCOPES)
    def push(self, name: str, scope: str | None) -> None:
        clone = self.world.clones[name]
        if clone.files() or scope is not None:
            clone.push(scope)

    @rule(name=NAMES, scope=SCOPES)
    def pull(self, name: str, scope: str | None) -> None:
        self.world.clones[name].pull(scope)

    @rule(name=NAMES, number=st.integers(1, 14), fault=FAULTS, pulls=st.booleans())
    def break_off(self, name: str, number: int, fault: Fault, pulls: bool) -> None:
        """A push or a pull that ends at a request, and what was on its way then lands later, or never."""
        clone = self.world.clones[name]
        store = FaultStore(self.world.handle(), {number: fault})
        if not pulls and not clone.files():
            return
        with suppress(WormError, SimulatedCrash), clone.open(store) as sync:
            if pulls:
                sync.pull_changed()
            else:
                sync.push_changed()
        self.late.append(store)

    @rule(name=NAMES, path=PATHS, number=st.integers(1, 6), fault=FAULTS, then=st.sampled_from(["delete", "write"]))
    def break_off_and_edit(self, name: str, path: str, number: int, fault: Fault, then: str) -> None:
        """The user changes their mind about a file while it is not known whether it was pushed."""
        clone = self.world.clones[name]
        if path in clone.files() and number % 2:
            clone.delete(path)
        else:
            clone.write(path)
        self.break_off(name, number, fault, pulls=False)
        clone.delete(path) if then == "delete" else clone.write(path)

    @rule()
    def land(self) -> None:
        for store in self.late:
            store.land()
        self.late.clear()

    @rule(name=NAMES, path=PATHS)
    def mark(self, name: str, path: str) -> None:
        clone = self.world.clones[name]
        with clone.open() as sync:
            sync.mark_dirty(path)
            clone.write(path)
            report = sync.push_changed(marked=True)
            assert not report.failed

    @rule(name=NAMES)
    def compact(self, name: str) -> None:
        with self.world.clones[name].open() as sync:
            sync.compact()

    @rule(name=NAMES)
    def scan(self, name: str) -> None:
        with self.world.clones[name].open() as sync:
            sync.pull_changed(scan=True)

    @rule(seconds=st.sampled_from([1, 61, 4_000]))
    def wait(self, seconds: int) -> None:
        self.world.clock.advance(seconds)

    @invariant()
    def index_is_sound(self) -> None:
        self.world.listed()  # every object that is listed is there

    def teardown(self) -> None:
        try:
            for clone in self.world.clones.values():
                if not clone.files():
                    clone.write("top")  # an empty folder is refused: it may be a disk that is not there
            self.world.check()
        finally:
            shutil.rmtree(self.root)


TestClones = Clones.TestCase
TestClones.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
