"""Every write operation, with every fault at every request, then opened again and compared with a model.

Acknowledged means there, refused means not there, unknown is resolved truthfully, and half a batch is never seen;
also when the operation that recovers meets a fault of its own, and when a rival writes at any moment.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Literal

import pytest

from tests.engine.sweeps.commits import (
    SCENARIOS,
    Scenario,
    State,
    World,
    collection_of,
    database_on,
    digest_of,
    insert_model,
    note_model,
    put_model,
    state_of,
    unchanged,
    world_of,
)
from tests.engine.sweeps.updates import UPDATES
from wormdb.engine.commit.resolve import Fate
from wormdb.errors import ConflictError, OutcomeUnknownError, WormError
from wormdb.storage.conditions import ensure_conditions
from wormdb.storage.store import OCTETS, WrappedStore
from wormdb.system.clock import SeededChance
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash
from wormdb.testing.sweep import SweepCase, sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.storage.store import ListPage, Precondition, Probe, PutResult, Store, StoredObject

pytestmark = pytest.mark.usefixtures("remembered")

FAULTS = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.ANSWER_LOST, Fault.LANDS_LATE)
MORE_FAULTS = (*FAULTS, Fault.UNAVAILABLE_503, Fault.CONFLICT_409)

STRIDE = int(os.environ.get("WORMDB_STRIDE", "7"))
"""Of so many pairs of a request and a fault one comes before a second fault; all of them with 1."""

by_name = pytest.mark.parametrize("scenario", [*SCENARIOS, *UPDATES], ids=str)


@pytest.fixture(autouse=True, scope="module")
def _conditions() -> None:
    """The once-a-process question to the store is no part of an operation."""
    ensure_conditions(World(), SeededChance(0))


_prepared: dict[str, World] = {}


def make(scenario: Scenario) -> World:
    """A bucket as the operation finds it."""
    if scenario.name not in _prepared:
        _prepared[scenario.name] = World()
        scenario.prepare(database_on(_prepared[scenario.name], seed=5))
    return _prepared[scenario.name].copy()


def run(scenario: Scenario, store: Store, commit_seconds: float = 30.0) -> object:
    """The operation by a process that just started."""
    return scenario.act(collection_of(database_on(store, commit_seconds=commit_seconds), scenario.collection))


_states: dict[str, tuple[State, State]] = {}


def states(scenario: Scenario) -> tuple[State, State]:
    """Before and after, by the model."""
    if scenario.name not in _states:
        before = state_of(make(scenario), scenario.collection)
        after = scenario.model(before)
        assert after is not None
        _states[scenario.name] = before, after
    return _states[scenario.name]


_seen: dict[tuple[str, bytes], State] = {}
_sound: set[tuple[str, bytes]] = set()


def seen(store: Store, name: str) -> State:
    """What a new process finds. Each bucket is opened only once: most faults leave what another one left."""
    key = name, digest_of(world_of(store))
    if key not in _seen:
        _seen[key] = state_of(store, name)
    return _seen[key]


def check_result(scenario: Scenario, result: object) -> None:
    if scenario.result is not None:
        assert result == scenario.result


def check_chain(scenario: Scenario, store: Store) -> None:
    """The feed tells how the state came about, gapless; the log goes on. Each bucket is looked at only once."""
    key = scenario.name, digest_of(world_of(store))
    if key in _sound:
        return
    collection = collection_of(database_on(store, seed=98), scenario.collection)
    if not scenario.is_trimmed:
        replayed: dict[object, tuple[int, object]] = {}
        for change in collection.watch():
            seq, values = replayed.get(change.id, (0, None))
            assert (change.seq, change.before) == (seq + 1, values)
            replayed[change.id] = (change.seq, change.after)
        assert sorted(str(key) for key, (_, values) in replayed.items() if values) == sorted(
            str(document.id) for document in collection
        )
    before = collection.count()
    collection.insert({"id": "9999999999" if scenario.collection == "Note" else "next", "n": 9})
    assert collection.count() == before + 1
    _sound.add(key)


@dataclass
class Verdict:
    """What may be true of a run, narrowed down as more is learned."""

    allowed: list[State]

    def see(self, state: State) -> None:
        assert state in self.allowed


def verdict_of(scenario: Scenario, case: SweepCase[object]) -> Verdict:
    before, after = states(scenario)
    match case.error:
        case None:
            check_result(scenario, case.result)
            return Verdict([after])
        case OutcomeUnknownError():
            # A root has no commit id: whether it was swapped changes nothing that a reader sees.
            assert case.error.commit_id is not None or before == after
            return Verdict([before, after])
        case SimulatedCrash():
            return Verdict([before, after])
        case _:
            return Verdict([before])


def resolve(scenario: Scenario, case: SweepCase[object], *, settle: bool) -> Fate:
    assert isinstance(case.error, OutcomeUnknownError)
    collection = collection_of(database_on(case.inner, seed=97), scenario.collection)
    return collection.resolve(case.error, settle=settle)


class Checker:
    """Looks at each run, once before and once after what was late has landed."""

    def __init__(self, scenario: Scenario, *, settles: bool) -> None:
        self.scenario = scenario
        self.settles = settles
        self.fates: dict[tuple[Fault, int], Fate] = {}
        self.unknown = 0

    def __call__(self, case: SweepCase[object]) -> None:
        before, after = states(self.scenario)
        verdict = verdict_of(self.scenario, case)
        verdict.see(seen(case.inner, self.scenario.collection))
        if isinstance(case.error, OutcomeUnknownError) and case.error.commit_id is not None:
            self.unknown += 1
            fate = resolve(self.scenario, case, settle=self.settles or case.is_landed)
            told = self.fates.setdefault((case.fault, case.number), fate)
            assert told in (fate, Fate.UNKNOWN), "what was told once stays true"
            self.fates[case.fault, case.number] = fate
            expected = {Fate.COMMITTED: [after], Fate.NOT_COMMITTED: [before], Fate.UNKNOWN: [before, after]}[fate]
            Verdict(expected).see(seen(case.inner, self.scenario.collection))
            if self.settles or case.is_landed:
                assert fate is not Fate.UNKNOWN
        if case.is_landed or case.fault is not Fault.LANDS_LATE:
            check_chain(self.scenario, case.inner)


MOODS = {"patient": (30.0, False), "asks": (0.0, False), "settles": (0.0, True)}
"""How long a commit tries, and whether an unknown outcome is settled before what is late lands, or after."""


@by_name
@pytest.mark.parametrize(("commit_seconds", "settles"), MOODS.values(), ids=MOODS)
def test_every_fault_at_every_request(scenario: Scenario, commit_seconds: float, settles: bool) -> None:
    checker = Checker(scenario, settles=settles)
    runs = sweep(
        lambda: make(scenario), lambda store: run(scenario, store, commit_seconds), checker, faults=MORE_FAULTS
    )
    assert runs > 2 * len(MORE_FAULTS)
    if commit_seconds:
        assert checker.unknown == 0, "whoever tries again learns the outcome of a single fault"


def cases(
    scenario: Scenario, faults: tuple[Fault, ...], plan: Callable[[int, Fault], dict[int, Fault]]
) -> Iterator[SweepCase[object]]:
    """Runs on a fresh bucket each, for each request number and fault, until the plan is not reached any more."""
    for fault in faults:
        for number in range(1, 100):
            world = make(scenario)
            store = FaultStore(world, plan(number, fault), page_keys=2)
            try:
                case = SweepCase(number, fault, store, world, run(scenario, store, 1.0), None)
            except (WormError, SimulatedCrash) as error:
                case = SweepCase(number, fault, store, world, None, error)
            yield case
            if store.requests < number:
                break


@by_name
def test_a_store_that_stays_away_after_any_request(scenario: Scenario) -> None:
    """The answer is lost, and nothing can be read back: whoever says that it knows must be right."""

    def plan(number: int, fault: Fault) -> dict[int, Fault]:
        return {number: fault, **dict.fromkeys(range(number + 1, number + 300), Fault.UNAVAILABLE_503)}

    for settles in (False, True):
        checker = Checker(scenario, settles=settles)
        for case in cases(scenario, (Fault.ANSWER_LOST, Fault.LANDS_LATE, Fault.UNAVAILABLE_503), plan):
            checker(case)
            if case.store.land():
                checker(replace(case, is_landed=True))


# --- a second fault, in what comes after the first ---


def next_write(scenario: Scenario, store: Store) -> object:
    """What a process does that was started again: it opens the collection and goes on."""
    collection = collection_of(database_on(store, seed=7), scenario.collection)
    return collection.insert({"id": NEXT[scenario.collection], "n": 9})["n"]


NEXT = {"things": "next", "Person": "next", "Note": "9999999999", "Soft": "next"}


def with_next(scenario: Scenario, state: State) -> State:
    return {**state, NEXT[scenario.collection]: (1, {"n": 9})}


def first_runs(scenario: Scenario) -> Iterator[tuple[Callable[[], FaultStore], Verdict]]:
    """How to make each bucket that a first fault leaves behind, and what may be in it."""
    for case in cases(scenario, FAULTS, lambda number, fault: {number: fault}):
        if case.is_fired:
            yield partial(left_behind, scenario, case), verdict_of(scenario, case)


def left_behind(scenario: Scenario, case: SweepCase[object]) -> FaultStore:
    """The store of a first run, in a bucket of its own; what it sent late can still land."""
    if case.fault is not Fault.LANDS_LATE:
        assert isinstance(case.inner, World)
        return FaultStore(case.inner.copy())
    store = FaultStore(make(scenario), {case.number: case.fault}, page_keys=2)
    with suppress(WormError, SimulatedCrash):
        run(scenario, store, 1.0)
    return store


class SecondCheck:
    """Looks at what a second process left, after a first one did."""

    def __init__(self, scenario: Scenario, again: Callable[[], FaultStore], verdict: Verdict) -> None:
        self.scenario = scenario
        self.without = verdict.allowed
        self.having = [with_next(scenario, state) for state in verdict.allowed]
        self._again = again

    def make(self) -> Store:
        """The bucket that the second process opens."""
        self.first = self._again()
        return self.first.inner

    def __call__(self, case: SweepCase[object]) -> None:
        match case.error:
            case None:
                verdict = Verdict(self.having)
            case SimulatedCrash() | OutcomeUnknownError():
                verdict = Verdict([*self.without, *self.having])
            case _:
                verdict = Verdict(self.without)
        verdict.see(seen(case.inner, self.scenario.collection))
        # What the first process sent may land at last, after all that.
        if (case.is_landed or case.fault is not Fault.LANDS_LATE) and self.first.land():
            verdict.see(seen(case.inner, self.scenario.collection))


# Changes by filters leave behind what batches do.
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_every_fault_at_every_request_of_what_comes_after_a_fault(scenario: Scenario) -> None:
    runs = 0
    for again, verdict in islice(first_runs(scenario), 0, None, STRIDE):
        check = SecondCheck(scenario, again, verdict)
        runs += sweep(check.make, lambda store: next_write(scenario, store), check, faults=FAULTS)
    assert runs > 0


# --- a rival at any moment ---


class Interrupted(WrappedStore):
    """Does something else right before one request."""

    def __init__(self, inner: Store, number: int, action: Callable[[], object]) -> None:
        super().__init__(inner)
        self.requests = 0
        self._at = number
        self._action = action

    def _count(self) -> None:
        self.requests += 1
        if self.requests == self._at:
            self._action()

    def get(self, key: str) -> StoredObject:
        self._count()
        return self._inner.get(key)

    def probe(self, key: str) -> Probe:
        self._count()
        return self._inner.probe(key)

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        self._count()
        return self._inner.put(key, body, precondition, content_type=content_type)

    def delete_many(self, keys: Sequence[str]) -> None:
        self._count()
        self._inner.delete_many(keys)

    def list(
        self, prefix: str = "", *, after: str | None = None, delimiter: Literal["/"] | None = None
    ) -> Iterator[ListPage]:
        self._count()
        return self._inner.list(prefix, after=after, delimiter=delimiter)


@dataclass(frozen=True)
class Rival:
    """Somebody else's operation."""

    name: str
    act: Callable[[Collection[Document]], object]
    model: Callable[[State], State | None]

    def __str__(self) -> str:
        return self.name


def _person_takes_value(state: State) -> State | None:
    taken = any(values is not None and values.get("email") == "q@x" for _, values in state.values())
    return None if taken else insert_model(("r", {"email": "q@x"}))(state)


RIVALS = {
    "things": (
        Rival("writes another", lambda c: c.save({"id": "r", "n": 5}), put_model("r", {"n": 5})),
        Rival("changes the same", lambda c: c.save({"id": "a", "n": 5}), put_model("a", {"n": 5})),
        Rival("deletes", lambda c: c.delete("b"), put_model("b", None)),
        Rival("inserts the same", lambda c: c.save({"id": "x", "n": 5}), put_model("x", {"n": 5})),
        Rival("forwardings", lambda c: c.forward(), unchanged),
    ),
    "Person": (
        Rival("writes another", lambda c: c.insert({"id": "r", "email": "r@x"}), insert_model(("r", {"email": "r@x"}))),
        Rival("takes the value", lambda c: c.insert({"id": "r", "email": "q@x"}), _person_takes_value),
    ),
    "Soft": (
        Rival("writes another", lambda c: c.save({"id": "r", "n": 5}), put_model("r", {"n": 5})),
        Rival("changes the same", lambda c: c.save({"id": "a", "n": 5}), put_model("a", {"n": 5})),
        Rival("inserts the same", lambda c: c.insert({"id": "gone", "n": 5}), insert_model(("gone", {"n": 5}))),
        Rival("forwardings", lambda c: c.forward(), unchanged),
    ),
    "Note": (Rival("numbers", lambda c: c.insert({"n": 5}), note_model(5)),),
}


def interrupted(scenario: Scenario, rival: Rival, number: int) -> tuple[World, bool, WormError | None]:
    """The operation with a rival before request `number`: the bucket, whether it came to that, and the error."""
    world = make(scenario)

    def act() -> None:
        with suppress(WormError):
            rival.act(collection_of(database_on(world, seed=11), scenario.collection))

    store = Interrupted(world, number, act)
    try:
        run(scenario, store)
    except WormError as error:
        return world, True, error
    return world, store.requests >= number, None


@by_name
def test_a_rival_at_every_request(scenario: Scenario) -> None:
    """The outcome is that of one order or the other; and a refusal is only heard if the order demands it."""
    before, after = states(scenario)
    for rival in RIVALS[scenario.collection]:
        alone = rival.model(before)
        assert alone is not None
        behind = rival.model(after) or after
        ahead = scenario.model(alone)
        for number in range(1, 100):
            world, happened, error = interrupted(scenario, rival, number)
            if not happened:
                break
            state = seen(world, scenario.collection)
            label = f"{rival} before request {number}: {error}"
            if error is None:
                assert state in (behind, ahead), label
            else:
                assert state == alone, label
                assert ahead is None or (scenario.may_conflict and isinstance(error, ConflictError)), label
        else:
            raise AssertionError("it does not end")
