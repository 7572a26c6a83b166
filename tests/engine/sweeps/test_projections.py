"""Faults and rivals at every request of what writes blocks, trees and history.

After each the bucket is opened again: acknowledged is there, refused is not, and whatever root there is says exactly
what the log says, for documents, indexes and history. Then a process that meets no fault goes on and finishes.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.engine.sweeps.commits import (
    Scenario,
    State,
    World,
    collection_of,
    database_on,
    digest_of,
    put_model,
    state_of,
    unchanged,
)
from tests.engine.sweeps.projections import PROJECTED, renew, tiny_lists
from tests.engine.sweeps.test_sweep import Interrupted, Rival
from tests.simulation.nodes import tiny_objects
from tests.simulation.projections import check_root
from tests.simulation.rebuild import check_rebuilt
from tests.simulation.replay import Replay
from wormdb.engine.log.paths import EnginePaths
from wormdb.engine.log.root import Register
from wormdb.errors import ConflictError, NotFoundError, OutcomeUnknownError, WormError
from wormdb.settings import Settings
from wormdb.storage.conditions import ensure_conditions
from wormdb.storage.store import OCTETS, WrappedStore
from wormdb.system.clock import SeededChance
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.storage.store import Precondition, PutResult, Store

COLLECTION = "things/"
PATHS = EnginePaths.of_collection(COLLECTION)
WRITES = frozenset({"put", "delete", "delete_many"})
FAULTS = (Fault.CRASH_AFTER, Fault.ANSWER_LOST, Fault.LANDS_LATE)

STRIDE = int(os.environ.get("WORMDB_STRIDE", "5"))
"""One in so many reads fails, and somebody else comes before one in so many requests, in each pair others."""

by_name = pytest.mark.parametrize("scenario", PROJECTED, ids=str)


@pytest.fixture(autouse=True, scope="module")
def _tiny() -> Iterator[None]:
    ensure_conditions(World(), SeededChance(0))
    with tiny_objects(step_entries=4), tiny_lists():
        yield


_prepared: dict[str, World] = {}


def make(scenario: Scenario) -> World:
    """A bucket as the operation finds it."""
    if scenario.name not in _prepared:
        _prepared[scenario.name] = World()
        scenario.prepare(database_on(_prepared[scenario.name], seed=5, **scenario.settings))
    return _prepared[scenario.name].copy()


def run(scenario: Scenario, store: Store, *, seed: int = 1, seconds: float = 30.0) -> object:
    """The operation by a process that just started."""
    database = database_on(store, seed=seed, commit_seconds=seconds, **scenario.settings)
    return scenario.act(collection_of(database, scenario.collection))


_models: dict[str, tuple[State, State]] = {}


def model(scenario: Scenario) -> tuple[State, State]:
    """Before and after."""
    if scenario.name not in _models:
        before = state_of(make(scenario), scenario.collection)
        after = scenario.model(before)
        assert after is not None
        _models[scenario.name] = before, after
    return _models[scenario.name]


# --- looking at a bucket ---


class Inspector:
    """Looks at buckets, each only once: most faults leave what another one left."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self._states: dict[bytes, State] = {}
        self._finished: dict[bytes, State] = {}

    def see(self, world: World) -> State:
        """The state that a new process finds; raises if a root does not say what the log says."""
        digest = digest_of(world)
        if digest not in self._states:
            check_log(world)
            self._states[digest] = state_of(world, self.scenario.collection)
        return self._states[digest]

    def finish(self, world: World) -> State:
        """The state after somebody else has brought everything forward."""
        # Objects that nobody names differ from fault to fault, and nobody can tell.
        digest = digest_of(world, PATHS.root, PATHS.entries)
        if digest not in self._finished:
            copied = world.copy()
            settings = Settings(**self.scenario.settings)
            things = collection_of(database_on(copied, seed=96, **self.scenario.settings), self.scenario.collection)
            things.forward()
            replay = check_log(copied)
            self.scenario.check(things)
            if not self.scenario.is_trimmed:
                check_rebuilt(copied, COLLECTION, replay, settings)
            self._finished[digest] = state_of(copied, self.scenario.collection)
        return self._finished[digest]


def check_log(world: World) -> Replay:
    """The log is sound, and the root says what it says."""
    entries = {int(key.rpartition("/")[2]): body for key, body in world.witnessed.items()}
    replay = Replay(entries, COLLECTION, lambda name: world.get(PATHS.block(name)).body)
    root = Register(world, PATHS, COLLECTION).read().root
    if root is not None:
        check_root(world, PATHS, root, replay)
    return replay


def allowed(scenario: Scenario, error: BaseException | None) -> list[State]:
    before, after = model(scenario)
    if error is None:
        return [after]
    if isinstance(error, OutcomeUnknownError | SimulatedCrash):
        return [before, after]
    return [before]


# --- faults ---


class Twice(WrappedStore):
    """Sends one write twice, and hears the second answer."""

    def __init__(self, inner: Store, number: int) -> None:
        super().__init__(inner)
        self.writes = 0
        self._at = number

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        self.writes += 1
        if self.writes == self._at:
            with suppress(WormError):
                self._inner.put(key, body, precondition, content_type=content_type)
        return self._inner.put(key, body, precondition, content_type=content_type)


def requests_of(scenario: Scenario) -> list[str]:
    """The verbs of the requests of a run without faults."""
    store = FaultStore(make(scenario))
    result = run(scenario, store)
    if scenario.result is not None:
        assert result == scenario.result
    return [trace.verb for trace in store.trace]


def faulted(scenario: Scenario, number: int, fault: Fault, seconds: float) -> Iterator[tuple[World, list[State]]]:
    """The bucket after a run with one fault, and what may be in it; once more after what was late has landed."""
    world = make(scenario)
    store = FaultStore(world, {number: fault})
    error: BaseException | None = None
    try:
        run(scenario, store, seconds=seconds)
    except (WormError, SimulatedCrash) as raised:
        error = raised
    may_be = allowed(scenario, error)
    yield world, may_be
    if store.land():
        yield world, may_be


def faults_at(number: int) -> list[Fault]:
    """Two of the three at a write, at the next one others; all of them where every request is tried."""
    return [fault for place, fault in enumerate(FAULTS) if STRIDE == 1 or (number + place) % len(FAULTS)]


@by_name
def test_every_fault_at_every_request(scenario: Scenario) -> None:
    inspector = Inspector(scenario)
    verbs = requests_of(scenario)
    assert WRITES.intersection(verbs) or scenario.result == "refused"
    for number, verb in enumerate(verbs, 1):
        # A read that fails leaves what a crash after the write before it leaves; a write that is refused what one
        # leaves that lands late.
        if verb not in WRITES and number % STRIDE:
            continue
        for fault in faults_at(number) if verb in WRITES else (Fault.UNAVAILABLE_503,):
            for world, may_be in faulted(scenario, number, fault, 30.0 if fault is not Fault.ANSWER_LOST else 0.0):
                assert inspector.see(world) in may_be, f"{fault} at {verb} {number}"
                assert inspector.finish(world) in may_be, f"{fault} at {verb} {number}, finished"


@by_name
def test_every_write_sent_twice(scenario: Scenario) -> None:
    inspector = Inspector(scenario)
    for number in range(1, 200):
        world = make(scenario)
        store = Twice(world, number)
        error: BaseException | None = None
        try:
            run(scenario, store)
        except WormError as raised:
            error = raised
        assert inspector.see(world) in allowed(scenario, error), f"write {number} sent twice: {error}"
        assert inspector.finish(world) in allowed(scenario, error)
        if store.writes < number:
            assert error is None
            return
    raise AssertionError("it does not end")


# --- somebody else at every request ---


def _drops(things: Collection[Document]) -> None:
    things.drop_index("byU")
    things.forward()


RIVALS = (
    Rival("forwarder", lambda c: c.forward(), unchanged),
    Rival("writer", lambda c: c.save({"id": "b", "n": 7}), put_model("b", {"n": 7})),
    Rival("dropper", _drops, unchanged),
    Rival("trimmer", lambda c: (c.forward(), c._ledger.trim(0)), unchanged),
    Rival("renewer", renew, unchanged),
)


# Forwarders beside long forwardings and builds are in test_paused.py.
LONG = {"forward, merging", "forward with indexes", "forward what is attached", "build", "create index"}
PAIRS = [
    (scenario, rival)
    for scenario in PROJECTED
    for rival in RIVALS
    if rival.name in ("writer", "dropper") or scenario.name not in LONG | {"apply a schema"}
    if rival.name != "renewer" or scenario.name in {"forward half renewed", "renew vectors"}
]


@pytest.mark.parametrize(("scenario", "rival"), PAIRS, ids=str)
def test_somebody_else_before_every_request(scenario: Scenario, rival: Rival) -> None:
    before, after = model(scenario)
    alone = rival.model(before)
    assert alone is not None
    both = [rival.model(after), scenario.model(alone)]
    inspector = Inspector(scenario)
    for number in range(1 + len(scenario.name + rival.name) % STRIDE, 200, STRIDE):
        world = make(scenario)

        def act(world: World = world) -> None:
            with suppress(WormError):
                rival.act(collection_of(database_on(world, seed=11, **scenario.settings), scenario.collection))

        store = Interrupted(world, number, act)
        label = f"{rival} before request {number}"
        try:
            run(scenario, store)
        except (ConflictError, NotFoundError):
            if rival.name != "dropper":
                raise
            # The index was being created or dropped itself.
            assert inspector.see(world) == alone, label
            continue
        if store.requests < number:
            assert inspector.see(world) == after, "nobody came in between"
            return
        assert inspector.see(world) in both, label
    raise AssertionError("it does not end")
