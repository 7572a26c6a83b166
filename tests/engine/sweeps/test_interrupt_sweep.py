"""An interrupt (Ctrl-C) at every line of the engine; then the same process goes on, tells the truth, and never hangs.

`WORMDB_STRIDE=1 pytest tests/engine/sweeps/test_interrupt_sweep.py` interrupts at every line; the default is one in
some.
"""

from __future__ import annotations

import linecache
import os
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.rig import HookStore
from tests.simulation.remembered import remembered_blocks
from wormdb.api.database import Database
from wormdb.api.schema import read_schema
from wormdb.engine.commit import readers
from wormdb.errors import UniqueViolationError, WormError
from wormdb.settings import Settings
from wormdb.storage.memory import MemoryStore
from wormdb.storage.meter import MeteredStore
from wormdb.storage.pool import SerialPool
from wormdb.system.clock import ManualClock, SeededChance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.engine.commit.readers import GroupRead
    from wormdb.storage.store import Store

    Act = Callable[[], object]

PARTS = ("/wormdb/engine/", "/wormdb/maintenance/gc")
UNINTERRUPTED = ("with ", "try:", "finally:", "except", "else:")
"""Lines at which the interpreter handles no signal."""
PATIENCE_SECONDS = 20
HOUR = 3600
SCHEMA = {
    "models": {
        "T": {
            "path": "@t/(id:string)",
            "fields": {"u": {"type": "string"}, "n": {"type": "integer"}},
            "indexes": {"byU": {"fields": ["u"], "unique": True}, "byN": {"fields": ["n"]}},
        }
    }
}


@cache
def _beginning() -> dict[str, bytes]:
    """What the store of every world begins with: a root with some documents, and a tail."""
    store = MemoryStore(clock=ManualClock())
    database = _process(store, ManualClock(), 1)
    database.apply_schema()
    things = database.model("T")
    for number in range(4):
        things.insert({"id": f"d{number}", "u": f"u{number}", "n": number})
    database.forward()
    things.save({"id": "d1", "u": "u1x", "n": 10})
    return {info.key: store.get(info.key).body for page in store.list() for info in page.objects}


def _process(store: Store, clock: ManualClock, seed: int) -> Database:
    return Database(
        MeteredStore(store, clock=clock),
        SerialPool(),
        settings=Settings(forward="manual", forward_interval_ms=0),
        schema=read_schema(SCHEMA),
        actor=None,
        clock=clock,
        chance=SeededChance(seed),
    )


@dataclass
class World:
    """A store with some documents, and a process that knows them."""

    clock: ManualClock = field(default_factory=ManualClock)
    seeds: int = 1

    def __post_init__(self) -> None:
        self.inner = MemoryStore(clock=self.clock)
        for key, body in _beginning().items():
            self.inner.put(key, body)
        self.store = HookStore(self.inner)
        self.database = self.process(self.store)
        self.things = self.database.model("T")
        assert self.things.count() == 4
        with pytest.raises(UniqueViolationError):
            self.things.insert({"id": "known", "u": "u0", "n": 0})

    def process(self, store: Store | None = None) -> Database:
        """Another process, which knows nothing yet."""
        self.seeds += 1
        return _process(store or self.inner, self.clock, self.seeds)

    def rival(self) -> Collection[Document]:
        return self.process().model("T")


def inserts(world: World) -> Act:
    return lambda: world.things.insert({"id": "new", "u": "unew", "n": 1})


def saves(world: World) -> Act:
    document = world.things.find_by_id("d0")
    assert document is not None
    return lambda: world.things.save(document | {"n": 99})


def modifies(world: World) -> Act:
    return lambda: world.things.modify("d1", lambda found: {**found, "n": 77})


def saves_against_a_rival(world: World) -> Act:
    """The slot is taken: the rival's entry is taken in first."""
    world.rival().save({"id": "d2", "u": "u2x", "n": 20})
    return lambda: world.things.save({"id": "d3", "u": "u3x", "n": 30})


def reads_what_is_new(world: World) -> Act:
    rival = world.rival()
    for number in range(3):
        rival.save({"id": "d2", "u": f"u2{number}", "n": number})
    rival.delete("d3")
    return lambda: world.things.find_by_id("d2")


def reads_a_new_root(world: World) -> Act:
    rival = world.process()
    rival.model("T").save({"id": "d2", "u": "u2x", "n": 20})
    rival.forward()
    world.clock.advance(HOUR)
    return world.things.count


def forwards(world: World) -> Act:
    world.things.delete("d3")
    return world.database.forward


def trims(world: World) -> Act:
    world.database.forward()
    world.clock.advance(1)
    world.things.insert({"id": "old", "u": "old", "n": 5})
    world.database.forward()
    world.clock.advance(8 * 24 * HOUR)
    return lambda: world.database._ledger("t/").trim(7 * 24 * HOUR * 1000)


def collects(world: World) -> Act:
    trims(world)
    with suppress(WormError):
        world.database.gc()
    world.clock.advance(2 * HOUR)
    return world.database.gc


SCENES: dict[str, tuple[Callable[[World], Act], int]] = {
    "insert": (inserts, 61),
    "save": (saves, 53),
    "modify": (modifies, 59),
    "a race that is lost": (saves_against_a_rival, 83),
    "entries of others": (reads_what_is_new, 43),
    "a root of others": (reads_a_new_root, 31),
    "forward": (forwards, 331),
    "trim": (trims, 29),
    "gc": (collects, 97),
}


class Interrupter:
    """Interrupts the thread it traces at the line with a number; counts them."""

    def __init__(self, at: int) -> None:
        self._left = at
        self.where: str | None = None

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self._trace if any(part in frame.f_code.co_filename for part in PARTS) else None

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
            if not line.startswith(UNINTERRUPTED):
                self._left -= 1
                if self._left == 0:
                    self.where = f"{frame.f_code.co_filename.split('/wormdb/')[-1]}:{frame.f_lineno} {line}"
                    raise KeyboardInterrupt
        return self._trace

    def run(self, act: Callable[[], object]) -> None:
        before = sys.gettrace()
        sys.settrace(self)
        try:
            act()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)


def in_time(act: Callable[[], object]) -> None:
    """In another thread, which hangs if this one still holds a lock; raises what it raises."""
    raised: list[BaseException] = []

    def body() -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - told to the thread that waits
            raised.append(error)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive(), "it hangs"
    if raised:
        raise raised[0]


def check_truth(world: World) -> None:
    """What the process says is what the store says to one that begins; and it can go on writing."""
    things, truth = world.things, world.rival()
    names = [document.id for document in truth.find({})]
    assert [(document, document.rev) for document in things.find({})] == [
        (document, document.rev) for document in truth.find({})
    ]
    assert things.count() == truth.count() == len(names)
    things.insert({"id": "later", "u": "later", "n": 1})
    with pytest.raises(UniqueViolationError):
        things.insert({"id": "again", "u": "u0", "n": 1})
    things.modify("d0", lambda found: {**found, "n": 1000})
    for name in ["d0", "d1", "d3", "later"]:
        assert [(each.seq, each.op) for each in things.get_history(name)] == [
            (each.seq, each.op) for each in world.rival().get_history(name)
        ]
    assert [document.id for document in things.find({"n": 1000})] == ["d0"]
    world.database.forward()
    fresh = world.process()
    assert [(document, document.rev) for document in things.find({})] == [
        (document, document.rev) for document in fresh.model("T").find({})
    ]
    assert [finding for verified in fresh.verify() for finding in verified.findings] == []


@pytest.fixture(autouse=True, scope="module")
def _remembered() -> Iterator[None]:
    """Equal blocks are written again and again."""
    with remembered_blocks():
        yield


@pytest.mark.parametrize("name", SCENES)
def test_a_process_that_was_interrupted_goes_on(name: str) -> None:
    scene, stride = SCENES[name]
    stride = int(os.environ.get("WORMDB_STRIDE", str(stride)))
    number, wrong = 1, {}
    while True:
        world = World()
        interrupter = Interrupter(number)
        interrupter.run(scene(world))
        if interrupter.where is None:
            break
        try:
            in_time(lambda world=world: check_truth(world))  # type: ignore[misc] # bound now, not later
        except Exception as error:  # noqa: BLE001 - all places are wanted
            wrong[interrupter.where] = f"{type(error).__name__} {error}"[:300]
        number += stride
    assert number > stride, "nothing was interrupted"
    assert wrong == {}


# --- in company ---


class Company:
    """Threads that commit to one collection while the first of them is held in its PUT."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.outcomes: dict[str, object] = {}
        self._threads: list[threading.Thread] = []

    def save(self, name: str) -> None:
        """In a thread of its own."""

        def body() -> None:
            try:
                self.outcomes[name] = self.world.things.save({"id": name, "u": name, "n": 1})
            except WormError as error:
                self.outcomes[name] = error

        thread = threading.Thread(target=body, daemon=True)
        self._threads.append(thread)
        thread.start()

    def end(self) -> None:
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
        assert not any(thread.is_alive() for thread in self._threads), "one hangs"
        truth = {document.id: document for document in self.world.rival().find({})}
        for name, outcome in self.outcomes.items():
            if not isinstance(outcome, WormError):
                assert truth.get(name) == outcome, "acknowledged, and not there"
            elif getattr(outcome, "commit_id", None) is None:
                assert name not in truth, f"it is there, and this was told: {outcome}"


def wait_for(condition: Callable[[], bool]) -> None:
    waited = threading.Event()
    for _ in range(PATIENCE_SECONDS * 1000):
        if condition():
            return
        waited.wait(0.001)
    raise AssertionError("it did not come to that")


@pytest.mark.parametrize("leads", [True, False], ids=["the one that leads", "one that waits"])
def test_company_of_an_interrupted_thread_goes_on(leads: bool) -> None:
    """A thread is held in its PUT; two wait. One of them leads next, and one of both is interrupted."""
    stride = int(os.environ.get("WORMDB_STRIDE", "61" if leads else "7"))
    number, wrong = 1, {}
    while True:
        world = World()
        company, go = Company(world), threading.Event()
        group = world.database._ledger("t/")._group

        def hold(verb: str, key: str, go: threading.Event = go) -> None:
            if verb == "put" and threading.current_thread() is not threading.main_thread():
                go.wait(PATIENCE_SECONDS)

        world.store.before = hold
        company.save("holder")
        wait_for(lambda group=group: group._is_led and not group._queue)  # type: ignore[misc] # bound now
        if not leads:
            company.save("before")
            wait_for(lambda group=group: len(group._queue) == 1)  # type: ignore[misc] # bound now
        interrupter = Interrupter(number)
        helper = threading.Thread(target=_follow, args=(company, group, go, leads), daemon=True)
        helper.start()
        interrupter.run(lambda world=world: world.things.save({"id": "mine", "u": "mine", "n": 1}))  # type: ignore[misc] # bound now
        go.set()
        helper.join(PATIENCE_SECONDS)
        if interrupter.where is None:
            company.end()
            break
        try:
            company.end()
            in_time(lambda world=world: check_truth(world))  # type: ignore[misc] # bound now
        except (Exception, AssertionError) as error:  # noqa: BLE001 - all places are wanted
            wrong[interrupter.where] = f"{type(error).__name__} {error}"[:300]
        number += stride
    assert number > stride
    assert wrong == {}


def _follow(company: Company, group: Any, go: threading.Event, leads: bool) -> None:
    """When the main thread waits, let others wait behind it; then let go what all of them wait for."""
    waiting = 1 if leads else 2
    for _ in range(200):
        if len(group._queue) >= waiting or go.is_set():
            break
        threading.Event().wait(0.001)
    company.save("after")
    for _ in range(200):
        if len(group._queue) >= waiting + 1 or go.is_set():
            break
        threading.Event().wait(0.001)
    go.set()


@pytest.mark.parametrize("sends", [True, False], ids=["the one that sends", "one that waits"])
def test_readers_beside_an_interrupted_one_go_on(sends: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader is held in its probe; others wait. One of them sends the next probe, and one of them is interrupted."""
    monkeypatch.setattr(readers, "PROBES_MAX", 1)
    stride = int(os.environ.get("WORMDB_STRIDE", "5"))
    number, wrong = 1, {}
    while True:
        world = World()
        crowd, go = ReadersBeside(world), threading.Event()

        def hold(verb: str, key: str, go: threading.Event = go) -> None:
            if verb == "probe" and threading.current_thread() is not threading.main_thread():
                go.wait(PATIENCE_SECONDS)

        world.store.before = hold
        crowd.read(lambda group: bool(group._senders))
        if not sends:
            crowd.read(lambda group: len(group._queue) == 1)
        interrupter = Interrupter(number)
        helper = threading.Thread(target=crowd.follow, args=(go, 1 if sends else 2), daemon=True)
        helper.start()
        interrupter.run(world.things.count)
        go.set()
        helper.join(PATIENCE_SECONDS)
        try:
            crowd.end()
            in_time(lambda world=world: check_count(world))  # type: ignore[misc] # bound now
        except (Exception, AssertionError) as error:  # noqa: BLE001 - all places are wanted
            wrong[interrupter.where] = f"{type(error).__name__} {error}"[:300]
        if interrupter.where is None:
            break
        number += stride
    assert number > stride
    assert wrong == {}


class ReadersBeside:
    """Threads that read a collection."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.group = world.database._ledger("t/")._readers
        self._counts: list[int] = []
        self._threads: list[threading.Thread] = []

    def read(self, until: Callable[[GroupRead], bool]) -> None:
        """In a thread of its own."""
        thread = threading.Thread(target=lambda: self._counts.append(self.world.things.count()), daemon=True)
        self._threads.append(thread)
        thread.start()
        wait_for(lambda: until(self.group))

    def follow(self, go: threading.Event, waiting: int) -> None:
        """When the main thread waits, let another wait behind it; then let go what all of them wait for."""
        for _ in range(200):
            if len(self.group._queue) >= waiting or go.is_set():
                break
            threading.Event().wait(0.001)
        self.read(lambda group: bool(group._queue) or go.is_set())
        go.set()

    def end(self) -> None:
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
        assert self._counts == [4] * len(self._threads), "one hangs, or saw something else"
        assert not self.group._senders
        assert not self.group._queue


def check_count(world: World) -> None:
    world.rival().insert({"id": "new", "u": "new", "n": 1})
    assert world.things.count() == 5
