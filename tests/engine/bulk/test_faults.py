"""Bulk jobs with any fault at any request of driver and tasks, and with a rival before any request."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.engine.bulk.rig import Loading, after_job, run_job
from tests.engine.bulk.stage_rig import MANUAL, SCHEMA, State, check_state, entries, logger
from tests.engine.rig import HookStore, Rig, contents, insert, remove, save
from wormdb.engine.load import JobSpec
from wormdb.errors import AlreadyExistsError, ConflictError, OutcomeUnknownError, UnavailableError, WormError
from wormdb.format.event import JobAttached
from wormdb.testing.fault_store import Fault
from wormdb.testing.sweep import SweepCase, sweep

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.bulk.rig import Rows
    from wormdb.engine.load import BulkOutcome
    from wormdb.storage.store import Store

STRIDE = int(os.environ.get("WORMDB_STRIDE", "3"))
"""Each fault comes at one in this many requests, and each rival before one; all of them with 1."""

TASKS: list[Rows] = [
    [("a", {"email": "1"}), ("new", {"email": "2"})],
    [("c", {"email": "c", "pad": "x" * 300}), ("d", {})],
]


def prepared(rig: Rig) -> State:
    plain = logger(rig, limits=MANUAL)
    plain.commit(rig.batch(insert("a", email="a"), insert("b", email="b"), events=(SCHEMA,)))
    plain.forward()
    plain.commit(rig.batch(save("c", email="c", n=2)))
    return contents(plain.view())


def shown(state: State) -> dict[object, object]:
    return {identity: one[1:] for identity, one in state.items()}


def attached(rig: Rig) -> int:
    return sum(isinstance(event, JobAttached) for entry in entries(rig) for event in entry.events)


CRASH, LOST = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER), (Fault.ANSWER_LOST, Fault.LANDS_LATE)


@pytest.mark.parametrize(
    ("faults", "overwrite"),
    [
        pytest.param((Fault.CRASH_AFTER,), False, id="crash"),
        pytest.param((Fault.LANDS_LATE,), True, id="lost, overwrite"),
        pytest.param(CRASH, True, id="all crashes, overwrite", marks=pytest.mark.long),
        pytest.param(LOST, False, id="all lost", marks=pytest.mark.long),
        pytest.param((Fault.UNAVAILABLE_503,), True, id="refused, overwrite", marks=pytest.mark.long),
    ],
)
def test_every_fault_at_every_request(faults: tuple[Fault, ...], overwrite: bool) -> None:
    """What is there is the old state or the new one; who runs the job again leaves the new one, attached once."""
    before = prepared(Rig())
    after = after_job(before, TASKS, 99, "replace", overwrite=overwrite)
    assert isinstance(after, dict)

    def make() -> Store:
        rig = Rig()
        prepared(rig)
        return rig.store

    def operate(store: Store) -> BulkOutcome:
        return run_job(Rig(seed=5), TASKS, "replace", overwrite=overwrite, store=store)

    def check(case: SweepCase[BulkOutcome]) -> None:
        rig = Rig(seed=77)
        rig.store = case.inner  # type: ignore[assignment] # the one without faults
        seen = shown(contents(logger(rig, case.inner).view()))
        assert seen in (shown(before), shown(after)), case.label
        if case.error is None:
            assert seen == shown(after), case.label
        elif isinstance(case.error, WormError) and not isinstance(case.error, OutcomeUnknownError):
            assert seen == shown(before), f"{case.label}: {case.error}"
        if case.fault is Fault.LANDS_LATE and not case.is_landed:
            return
        again = run_job(rig, TASKS, "replace", overwrite=overwrite, store=case.inner)
        assert again.is_repeated == (seen == shown(after)), case.label
        assert shown(contents(logger(rig, case.inner).view())) == shown(after), case.label

    assert sweep(make, operate, check, faults=faults, every=STRIDE) > 10 * len(faults) // STRIDE


RIVALS: dict[str, Callable[[Rig], object]] = {
    "changes a document": lambda rig: logger(rig, limits=MANUAL).commit(rig.batch(save("a", email="7"))),
    "deletes a document": lambda rig: logger(rig, limits=MANUAL).commit(rig.batch(remove("c"))),
    "takes a value": lambda rig: logger(rig, limits=MANUAL).commit(rig.batch(insert("z", email="2"))),
    "writes and forwards": lambda rig: (
        logger(rig, limits=MANUAL).commit(rig.batch(save("d", n=1), insert("y"))),
        logger(rig).forward(),
    ),
    "loads": lambda rig: run_job(rig, [[("a", {"n": 5}), ("y", {})]], "replace", job="other"),
    "runs the same job": lambda rig: run_job(rig, TASKS, "replace"),
}


OFTEN = {("takes a value", False), ("loads", True)}
"""Those that run always."""


@pytest.mark.parametrize(
    ("name", "overwrite"),
    [
        pytest.param(name, overwrite, marks=() if (name, overwrite) in OFTEN else pytest.mark.long)
        for name in RIVALS
        for overwrite in (False, True)
    ],
)
def test_a_rival_before_any_request(name: str, overwrite: bool) -> None:
    """The outcome is that of one order or the other."""
    place = 1 + [*RIVALS].index(name) % STRIDE
    while run_with_rival(name, place, overwrite=overwrite) >= place:
        place += STRIDE
    assert place > 8


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", RIVALS)
def test_a_rival_before_the_last_requests(name: str, overwrite: bool) -> None:
    """There the job is attached: what comes between its last look and its entry is told by the entry alone."""
    last = run_with_rival(name, 10_000, overwrite=overwrite)
    for place in range(last - 3, last + 1):
        run_with_rival(name, place, overwrite=overwrite)


def run_with_rival(name: str, place: int, *, overwrite: bool) -> int:
    rig = Rig()
    prepared(rig)
    sent: list[str] = []
    states: list[State] = []
    store = HookStore(rig.store)

    def count(_verb: str, _key: str) -> None:
        sent.append(_key)
        if len(sent) == place:
            states.append(contents(logger(rig).view()))
            try:
                RIVALS[name](rig)
            except AlreadyExistsError:
                return  # the job took the value first
            states.append(contents(logger(rig).view()))

    store.before = count
    error: WormError | None = None
    try:
        Loading(rig, store, JobSpec("the job", "test", "replace", overwrite)).run(TASKS)
    except (AlreadyExistsError, ConflictError) as caught:
        error = caught
    store.before = None
    final = contents(logger(rig).view())
    check_state(rig, final)
    if not states:
        assert error is None
        return len(sent)
    if name == "runs the same job":
        assert attached(rig) == 1
        return len(sent)
    if error is not None or len(states) == 1:
        assert error is None or shown(final) == shown(states[-1]), f"{name} before request {place}: {error}"
        return len(sent)
    # Behind the rival, or all of it before.
    behind = after_job(states[-1], TASKS, 0, "replace", overwrite=overwrite)
    ahead = attached_before(states[0])
    assert ahead or (isinstance(behind, dict) and shown(final) == shown(behind)), f"{name} before request {place}"
    return len(sent)


def attached_before(state: State) -> bool:
    """Whether the job was in before the rival came."""
    return state.get("new", (0, 0, None))[2] is not None


# --- lost answers about the attachment ---


@pytest.mark.parametrize("lands", [True, False])
def test_an_unknown_outcome_is_settled_before_anything_else_is_done(lands: bool) -> None:
    rig = Rig()
    before = prepared(rig)
    store = HookStore(rig.store)
    losing: list[str] = []

    def lose(verb: str, key: str) -> None:
        """No answer about the entry that attaches, and none about its slot, until somebody settles it."""
        if verb == "put" and "/committed/" in key and sum("/data/" in one for one in losing) and len(losing) < 1_000:
            losing.append(key)
            rig.clock.advance(60)
            raise UnavailableError("put", reason="no answer")
        if verb == "put":
            losing.append(key)

    if lands:
        store.after = lose
    else:
        store.before = lose
    try:
        outcome: BulkOutcome | None = run_job(rig, TASKS, "replace", store=store)
    except (UnavailableError, OutcomeUnknownError):
        outcome = None
    store.before = store.after = None
    again = run_job(rig, TASKS, "replace")
    assert attached(rig) == 1
    after = after_job(before, TASKS, again.number, "replace")
    assert isinstance(after, dict)
    check_state(rig, after)
    if outcome is not None:
        assert outcome.number == again.number
