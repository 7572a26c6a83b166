"""Staged batches with a rival before any request, and with any fault at any request."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.bulk.stage_rig import (
    MANUAL,
    PATIENT,
    SCHEMA,
    Serial,
    State,
    after_batch,
    check_state,
    kinds,
    logger,
    stager,
)
from tests.engine.commit.test_validate import definition_of
from tests.engine.rig import PATHS, Asking, HookStore, Rig, contents, insert, remove, save
from tests.simulation.remembered import remembered_blocks
from wormdb.engine.bulk.stage import CHECKS_MAX
from wormdb.engine.commit.resolve import Fate
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    OutcomeUnknownError,
    UnavailableError,
    UniqueViolationError,
    WormError,
)
from wormdb.format.event import FunctionRegistered, SchemaChanged
from wormdb.system.types import LogNumber
from wormdb.testing.fault_store import Fault
from wormdb.testing.sweep import SweepCase, sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.engine.commit.commit import CommitResult
    from wormdb.engine.commit.operations import Operation
    from wormdb.engine.ledger import TailLimits
    from wormdb.engine.state.view import View
    from wormdb.storage.store import Store


@pytest.fixture(autouse=True, scope="module")
def _remembered() -> Iterator[None]:
    with remembered_blocks():
        yield


STRIDE = int(os.environ.get("WORMDB_STRIDE", "3"))
"""Each fault comes at one in this many requests, and each rival before one, each at others; all of them with 1."""

# --- a rival between any two requests ---

IS_ADULT = FunctionRegistered(name="isAdult", filter=b'{"age":{"$gte":18}}')
BATCH: list[Operation] = [
    save("a", email="1"),
    insert("new", email="2"),
    remove("b"),
    save("c", email="3", pad="x" * 300),
]


def prepared(rig: Rig) -> State:
    plain = logger(rig)
    plain.commit(rig.batch(insert("a", email="a"), insert("b", email="b"), insert("c", email="c"), events=(SCHEMA,)))
    plain.forward()
    plain.commit(rig.batch(save("c", email="c", n=2)))
    return contents(plain.view())


def by_log(*operations: Operation) -> Callable[[Rig, Serial], None]:
    def act(rig: Rig, serial: Serial) -> None:
        serial.note(logger(rig, limits=MANUAL).commit(rig.batch(*operations)), operations, is_staged=False)

    return act


def by_job(*operations: Operation) -> Callable[[Rig, Serial], None]:
    def act(rig: Rig, serial: Serial) -> None:
        serial.note(stager(rig, limits=MANUAL).commit(rig.batch(*operations)), operations, is_staged=True)

    return act


def define(rig: Rig, _: Serial) -> None:
    both = definition_of(byEmail={"field": "email", "unique": True}, byN={"field": "n"})
    logger(rig, limits=MANUAL).commit(rig.batch(events=(SchemaChanged(definition=both),)))


def forward(rig: Rig, _: Serial) -> None:
    logger(rig).forward()


def write_and_forward(rig: Rig, serial: Serial) -> None:
    by_log(save("a", email="5"), save("d"))(rig, serial)
    forward(rig, serial)


RIVALS = {
    "changes a document": by_log(save("a", email="7")),
    "deletes a document": by_log(remove("c")),
    "deletes what is to be deleted": by_log(remove("b")),
    "inserts the same id": by_log(insert("new")),
    "takes a value": by_log(insert("z", email="2")),
    "gives a value up": by_log(save("b", email="9")),
    "changes something else": by_log(insert("z")),
    "changes the definition": define,
    "forwards": forward,
    "changes and forwards": write_and_forward,
    "stages a document": by_job(save("a", email="7"), save("z")),
    "stages a value": by_job(insert("z", email="3")),
    "stages something else": by_job(insert("z")),
}


@pytest.mark.parametrize(
    ("name", "limits"),
    [*((name, MANUAL) for name in RIVALS), *((name, PATIENT) for name in ("changes a document", "stages a value"))],
    ids=[*RIVALS, "changes a document, inline", "stages a value, inline"],
)
def test_a_rival_before_any_request_of_a_staged_batch(name: str, limits: TailLimits) -> None:
    place = 1 + [*RIVALS].index(name) % STRIDE
    while run_with_rival(name, limits, place) >= place:
        place += STRIDE
    assert place > 8


def run_with_rival(name: str, limits: TailLimits, place: int) -> int:
    """A staged batch with a rival before request `place`; how many requests there were."""
    rig = Rig()
    serial = Serial(prepared(rig))
    store = HookStore(rig.store)
    ledger = stager(rig, store, limits)
    if place % 2:
        ledger.view()
    sent: list[str] = []
    losers: list[str] = []

    def count(verb: str, key: str) -> None:
        sent.append(key)
        if len(sent) == place:
            with refusing(losers, "rival"):
                RIVALS[name](rig, serial)

    store.before = count
    with refusing(losers, "batch"):
        serial.note(ledger.commit(rig.batch(*BATCH)), BATCH, is_staged=True)
    store.before = None
    assert losers in ([], ["rival"], ["batch"]), "one of them is refused because the other is not"
    assert serial.done or name in {"changes the definition", "forwards"}
    if losers == ["batch"]:
        assert kinds(rig)[-1] == "JobAborted"
    serial.check(rig)
    return len(sent)


@contextmanager
def refusing(losers: list[str], who: str) -> Iterator[None]:
    """Note whoever is refused."""
    try:
        yield
    except (UniqueViolationError, AlreadyExistsError):
        losers.append(who)


def meanwhile(store: HookStore, act: Callable[[], object]) -> None:
    """Do something while the first block is on its way."""

    def once(verb: str, key: str) -> None:
        if verb == "put" and key.startswith(PATHS.data):
            store.before = None
            act()

    store.before = once


def test_an_index_that_is_ready_before_the_attach_binds_it() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    ledger = stager(rig, store, MANUAL)
    meanwhile(store, lambda: logger(rig).commit(rig.batch(events=(SCHEMA,))))
    with pytest.raises(UniqueViolationError):
        ledger.commit(rig.batch(insert("x", email="1"), insert("y", email="1")))
    check_state(rig, {}, ledger)


def test_the_guard_of_a_batch_is_asked_again_when_the_definition_changed() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    ledger = stager(rig, store, MANUAL)

    def guard(view: View) -> None:
        if view.definition.functions:
            raise ConflictError("things/", reason="it has a function")

    meanwhile(store, lambda: logger(rig).commit(rig.batch(events=(IS_ADULT,))))
    with pytest.raises(ConflictError, match="it has a function"):
        ledger.commit(rig.batch(insert("x"), guard=Asking(guard)))
    check_state(rig, {}, ledger)


def test_a_batch_that_is_overtaken_every_time_says_so_and_leaves_nothing() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    ledger, rival = stager(rig, store, MANUAL), logger(rig)
    rival.commit(rig.batch(insert("a", n=0)))
    blocks: list[str] = []
    rounds = 0

    def change(verb: str, key: str) -> None:
        nonlocal rounds
        if verb == "put" and key.startswith(PATHS.data):
            blocks.append(key)
            if key.endswith(".map"):
                rounds += 1
                rival.commit(rig.batch(save("a", n=rounds)))

    store.before = change
    with pytest.raises(ConflictError, match=f"others changed the same documents {CHECKS_MAX} times"):
        ledger.commit(rig.batch(save("a", n=-1)))
    store.before = None
    assert rounds == CHECKS_MAX
    assert contents(rig.ledger().view())["a"][1:] == (CHECKS_MAX + 1, {"n": CHECKS_MAX})
    assert kinds(rig)[-1] == "JobAborted"


def test_blocks_are_not_written_again_when_the_batch_is_checked_again_and_the_same() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    ledger, rival = stager(rig, store, MANUAL), logger(rig)
    written: list[str] = []

    def change(verb: str, key: str) -> None:
        if verb == "put" and key.startswith(PATHS.data):
            written.append(key)
            if len(written) == 2:
                rival.commit(rig.batch(insert("b")))
                rival.forward()

    store.before = change
    ledger.commit(rig.batch(insert("a")))
    assert len(written) == 2
    assert kinds(rig) == ["JobOpened", "changes", "JobAttached"]
    assert sorted(contents(rig.ledger().view())) == ["a", "b"]


# --- with every fault at every request ---


def check_fault(case: SweepCase[CommitResult], before: State, after: State) -> None:
    rig = Rig(seed=77)
    ledger = logger(rig, case.inner)
    seen = contents(ledger.view())
    shown = {identity: one[1:] for identity, one in seen.items()}
    old, new = ({identity: one[1:] for identity, one in state.items()} for state in (before, after))
    assert shown in (old, new), f"{case.label}: {seen}"
    if case.error is None:
        assert shown == new, case.label
    elif isinstance(case.error, OutcomeUnknownError):
        assert case.error.commit_id is not None, case.label
        fate = ledger.resolve(case.error.commit_id, settle=True)
        shown = {identity: one[1:] for identity, one in contents(ledger.view()).items()}
        assert shown == (new if fate is Fate.COMMITTED else old), case.label
        assert fate is not Fate.UNKNOWN
    elif isinstance(case.error, WormError):
        assert shown == old, f"{case.label}: {case.error}"
    if case.is_landed or case.fault is not Fault.LANDS_LATE:
        check_going_on(rig, case.inner, shown)


def check_going_on(rig: Rig, store: Store, shown: dict[Any, Any]) -> None:
    """Whatever happened: values are owned by whom they should be, and the log goes on."""
    ledger = logger(rig, store)
    owners = {values["email"]: name for name, (_, values) in shown.items() if values and "email" in values}
    for email in ("1", "2", "3", "b"):
        if email in owners:
            with pytest.raises(UniqueViolationError) as caught:
                ledger.commit(rig.batch(insert("probe", email=email)))
            assert caught.value.owner == owners[email]
    stager(rig, store).commit(rig.batch(insert("probe", email="probe")))
    ledger.forward()
    seen = {identity: one[1:] for identity, one in contents(logger(rig, store).view()).items()}
    assert seen == shown | {"probe": (1, {"email": "probe"})}


@pytest.mark.parametrize("limits", [PATIENT, MANUAL], ids=["inline", "manual"])
@pytest.mark.parametrize(
    "faults",
    [(Fault.CRASH_BEFORE, Fault.CRASH_AFTER), (Fault.ANSWER_LOST, Fault.LANDS_LATE), (Fault.UNAVAILABLE_503,)],
    ids=["crash", "lost", "refused"],
)
def test_every_fault_at_every_request_of_a_staged_batch(faults: tuple[Fault, ...], limits: TailLimits) -> None:
    first = Rig()
    before = prepared(first)
    after = after_batch(before, BATCH, 99, is_staged=True)
    assert isinstance(after, dict)

    def make() -> Store:
        rig = Rig()
        prepared(rig)
        return rig.store

    def operate(store: Store) -> CommitResult:
        rig = Rig(seed=5)
        return stager(rig, store, limits).commit(rig.batch(*BATCH), seconds=0)

    runs = sweep(make, operate, lambda case: check_fault(case, before, after), faults=faults, every=STRIDE)
    assert runs > 10 * len(faults) // STRIDE


# --- lost answers about the two entries ---


def losing(rig: Rig, slot: int, *, lands: bool) -> HookStore:
    """A store from which no answer about a slot comes."""
    store = HookStore(rig.store)

    def lose(verb: str, key: str) -> None:
        if key == PATHS.entry(LogNumber(slot)) and (verb == "put" or is_sent):
            is_sent.append(verb)
            raise OutcomeUnknownError(verb, reason="no answer") if verb == "put" else UnavailableError(verb)

    is_sent: list[str] = []
    if lands:
        store.after = lose
    else:
        store.before = lose
    return store


@pytest.mark.parametrize("lands", [True, False])
def test_resolve_tells_what_became_of_an_attach(lands: bool) -> None:
    rig = Rig()
    store = losing(rig, 2, lands=lands)
    ledger = stager(rig, store, MANUAL)
    with pytest.raises(OutcomeUnknownError) as caught:
        ledger.commit(rig.batch(insert("a"), insert("b")), seconds=0)
    store.before = store.after = None
    assert caught.value.commit_id is not None
    assert caught.value.commit_id.startswith("2-")
    for process in (ledger, rig.ledger()):
        assert process.resolve(caught.value.commit_id) is (Fate.COMMITTED if lands else Fate.UNKNOWN)
    fate = ledger.resolve(caught.value.commit_id, settle=True)
    assert fate is (Fate.COMMITTED if lands else Fate.NOT_COMMITTED)
    check_state(rig, {"a": (2, 1, {}), "b": (2, 1, {})} if lands else {}, ledger)
    assert "JobAborted" not in kinds(rig), "it may still have landed then"


@pytest.mark.parametrize("lands", [True, False])
def test_of_a_job_that_may_not_be_open_nothing_was_written(lands: bool) -> None:
    """There is no commit to be resolved: that of the open job would say that the batch is there."""
    rig = Rig()
    store = losing(rig, 1, lands=lands)
    ledger = stager(rig, store, MANUAL)
    with pytest.raises(UnavailableError, match="nothing of it was written"):
        ledger.commit(rig.batch(insert("a")), seconds=0)
    store.before = store.after = None
    check_state(rig, {}, ledger)
    ledger.commit(rig.batch(insert("a")))
    assert list(contents(rig.ledger().view())) == ["a"]


def test_a_commit_behind_an_attach_is_not_unknown_because_a_root_is() -> None:
    rig = Rig()
    stager(rig, limits=MANUAL).commit(rig.batch(insert("a")))
    store = HookStore(rig.store)
    sent: list[str] = []

    def lose(verb: str, key: str) -> None:
        if key == PATHS.root and (verb == "put" or sent):
            sent.append(verb)
            raise OutcomeUnknownError(verb, reason="no answer") if verb == "put" else UnavailableError(verb)

    store.before = lose
    ledger = logger(rig, store)
    with pytest.raises(UnavailableError, match="no answer"):
        ledger.commit(rig.batch(insert("b")), seconds=0)
    store.before = None
    assert len(rig.slots()) == 2
    ledger.commit(rig.batch(insert("b")))
    assert sorted(contents(rig.ledger().view())) == ["a", "b"]
