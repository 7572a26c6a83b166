"""Batches too large for the log: staged as blocks, attached by one entry, and the same state as through the log."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.rig import PATHS, HookStore, Rig, contents, doc, ident, insert, remove, save
from tests.engine.test_validate import EMAIL, definition_of
from wormdb.engine.commit import Committed
from wormdb.engine.forward import Sizes
from wormdb.engine.ledger import TailLimits
from wormdb.engine.operations import Insert, InsertNext, Loaded, Remove, Restore, Save
from wormdb.engine.resolve import Fate
from wormdb.engine.stage import CHECKS_MAX
from wormdb.engine.state import id_key
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    OutcomeUnknownError,
    UnavailableError,
    UniqueViolationError,
    WormError,
)
from wormdb.format import json
from wormdb.format.event import JobAborted, JobAttached, JobOpened, SchemaChanged
from wormdb.testing.fault_store import Fault
from wormdb.testing.sweep import SweepCase, sweep
from wormdb.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wormdb.engine.ledger import Ledger
    from wormdb.engine.operations import Operation
    from wormdb.format.entry import Entry
    from wormdb.storage.store import Store

SMALL = Sizes(block_target=300, run_smallest=1_000)
"""A few documents a block."""
PATIENT = TailLimits(interval_ms=0)
MANUAL = TailLimits(interval_ms=0, mode="manual")
SCHEMA = SchemaChanged(definition=EMAIL)

REFUSALS = {error.__name__: error for error in (AlreadyExistsError, UniqueViolationError)}

State = dict[Any, tuple[int, int, dict[str, Any] | None]]
"""Every id ever used, with its revision, its count of changes and its values; None once it is deleted."""


def stager(rig: Rig, store: Store | None = None, limits: TailLimits = PATIENT) -> Ledger:
    """A process that stages every batch of documents."""
    return rig.ledger(store, limits, SMALL, stage_bytes=1)


def logger(rig: Rig, store: Store | None = None, limits: TailLimits = PATIENT) -> Ledger:
    """A process that stages nothing."""
    return rig.ledger(store, limits, SMALL)


def entries(rig: Rig) -> list[Entry]:
    found = [rig.log.read(LogNumber(number))[0] for number in rig.slots()]
    return [record.entry for record in found if record is not None]


def kinds(rig: Rig) -> list[str]:
    """What each entry is: its events, or changes."""
    return [" ".join(type(event).__name__ for event in entry.events) or "changes" for entry in entries(rig)]


# --- the model: what batches do, written without the code under test ---


def is_taken(state: State, identity: Any) -> bool:
    return identity in state and state[identity][2] is not None


def after_batch(state: State, operations: Sequence[Operation], number: int, *, is_staged: bool) -> State | str:
    """The state after a batch; or the name of the error that refuses it."""
    found = dict(state)
    changed: set[Any] = set()
    for operation in operations:
        assert isinstance(operation, Insert | Save | Remove)
        identity = json.decode(operation.id, name="id")
        if isinstance(operation, Insert) and is_taken(found, identity):
            return "AlreadyExistsError"
        if isinstance(operation, Remove) and not is_taken(found, identity):
            continue
        values = None
        if not isinstance(operation, Remove):
            values = json.decode_document(operation.document, name="document")
            del values["_id"]
        seq = found[identity][1] if identity in found else 0
        # A staged batch is one change of each document that it touches.
        found[identity] = (number, seq + (not (is_staged and identity in changed)), values)
        changed.add(identity)
    emails = [values["email"] for _, _, values in found.values() if values is not None and "email" in values]
    return "UniqueViolationError" if len(emails) > len(set(emails)) else found


@dataclass
class Serial:
    """What was committed, to be replayed in the order of the log."""

    start: State
    done: list[tuple[int, Sequence[Operation], bool]] = field(default_factory=list)

    def note(self, committed: Committed, operations: Sequence[Operation], *, is_staged: bool) -> None:
        self.done.append((committed.number, operations, is_staged))

    def check(self, rig: Rig) -> None:
        """Every process sees what comes of the batches, one after the other."""
        state = self.start
        for number, operations, is_staged in sorted(self.done, key=lambda done: done[0]):
            following = after_batch(state, operations, number, is_staged=is_staged)
            assert not isinstance(following, str), (number, following)
            state = following
        check_state(rig, state)


def check_state(rig: Rig, state: State, *processes: Ledger) -> None:
    """What every process sees, however it looks; new ones too."""
    keys = {id_key(ident(identity)): identity for identity in [*state, "never"]}
    for process in (*processes, logger(rig)):
        view = process.view()
        assert contents(view) == state
        assert view.count == sum(values is not None for _, _, values in state.values())
        many = view.get_many(list(keys))
        assert {keys[key]: (held.rev, held.seq) for key, held in many.items()} == {
            identity: (rev, seq) for identity, (rev, seq, _) in state.items()
        }
        for key in keys:
            assert view.get(key) == many.get(key)
        ordered = sorted(set(keys) - {id_key(ident("never"))})
        for low, high in (
            ((b"", None), (ordered[len(ordered) // 2], None), (ordered[0], ordered[-1])) if ordered else ()
        ):
            inside = [key for key in ordered if low <= key and (high is None or key < high)]
            assert [key for key, _ in view.scan(low, high)] == inside


# --- the same state as through the log ---

OPERATION = st.tuples(st.sampled_from(["insert", "save", "remove"]), st.integers(0, 7), st.none() | st.integers(0, 5))
BATCHES = st.lists(
    st.tuples(st.lists(OPERATION, min_size=1, max_size=8), st.booleans(), st.sampled_from(["", "forward", "reopen"])),
    max_size=8,
)


def operation_of(kind: str, number: int, email: int | None) -> Operation:
    name, values = f"k{number}", {"pad": "x" * 40} | ({} if email is None else {"email": f"{email}@x"})
    if kind == "remove":
        return remove(name)
    return insert(name, **values) if kind == "insert" else save(name, **values)


@settings(max_examples=25)
@given(BATCHES)
def test_random_batches_give_the_same_state_staged_or_not(
    batches: list[tuple[list[tuple[str, int, int | None]], bool, str]],
) -> None:
    rig = Rig()
    reader = logger(rig, limits=MANUAL)
    reader.view()
    plain, staging = logger(rig), stager(rig)
    plain.commit(rig.batch(events=(SCHEMA,)))
    state: State = {}
    for wanted, is_staged, then in batches:
        operations = [operation_of(*one) for one in wanted]
        following = after_batch(state, operations, 0, is_staged=is_staged)
        process, batch = staging if is_staged else plain, rig.batch(*operations)
        if isinstance(following, str):
            with pytest.raises(REFUSALS[following]):
                process.commit(batch)
        else:
            committed = process.commit(batch)
            told = after_batch(state, operations, committed.number, is_staged=is_staged)
            assert isinstance(told, dict)
            state = told
            last = {change.id: change.seq for change in committed.changes}
            assert last == {ident(identity): one[1] for identity, one in state.items() if ident(identity) in last}
        if then == "forward":
            plain.forward()
        elif then == "reopen":
            plain, staging = logger(rig), stager(rig)
        check_state(rig, state, reader, plain, staging)
    assert reader._head.applied == 0, "it sees all of it in the tail"
    rig.store.delete(PATHS.root)
    reader.forward()
    check_state(rig, state, reader)


def test_a_staged_batch_is_an_opened_job_its_blocks_and_one_entry() -> None:
    rig = Rig()
    ledger = stager(rig, limits=MANUAL)
    committed = ledger.commit(rig.batch(*(insert(f"k{number}", pad="x" * 100) for number in range(10)), actor="me"))
    assert kinds(rig) == ["JobOpened", "JobAttached"]
    opened, attached = entries(rig)
    (event,) = attached.events
    assert isinstance(event, JobAttached)
    assert isinstance(opened.events[0], JobOpened)
    assert (event.job, event.added, committed.number) == (opened.events[0].job, 10, 2)
    assert len(event.blocks) == 5, "two documents reach the target"
    assert [batch.changes for batch in attached.batches] == [()]
    assert {batch.actor for batch in attached.batches} == {"me"}
    assert len(committed.changes) == 10
    assert ledger.view().jobs.known[event.job].state == "attached"


@pytest.mark.parametrize(("stage_bytes", "is_staged"), [(1 << 20, False), (5_000, True)])
def test_the_size_of_a_batch_decides(stage_bytes: int, is_staged: bool) -> None:
    rig = Rig()
    ledger = rig.ledger(limits=MANUAL, stage_bytes=stage_bytes)
    ledger.commit(rig.batch(*(insert(f"k{number}", pad="x" * 1_000) for number in range(10))))
    ledger.commit(rig.batch(insert("small")))
    assert kinds(rig) == (["JobOpened", "JobAttached", "changes"] if is_staged else ["changes", "changes"])
    assert len(contents(rig.ledger().view())) == 11


def test_what_blocks_cannot_tell_goes_through_the_log() -> None:
    rig = Rig()
    ledger = stager(rig, limits=MANUAL)
    ledger.commit(rig.batch(insert("a", n=1)))
    ledger.commit(rig.batch(Remove(ident("a"), tombstone=b'"ttl":null')))
    ledger.commit(rig.batch(Restore(ident("a"))))
    assert kinds(rig)[-1] == "changes"
    assert contents(ledger.view()) == {"a": (5, 3, {"n": 1})}


def test_a_delete_to_the_trash_may_be_staged() -> None:
    rig = Rig()
    ledger = stager(rig, limits=MANUAL)
    ledger.commit(rig.batch(insert("a", n=1)))
    ledger.commit(rig.batch(Remove(ident("a"), tombstone=b'"ttl":null')))
    for process in (ledger, rig.ledger()):
        held = process.view().get(id_key(ident("a")))
        assert held is not None
        assert (held.document, held.trash) == (None, b'{"_id":"a","ttl":null,"document":' + doc("a", n=1) + b"}")
    rig.ledger().commit(rig.batch(Restore(ident("a"))))
    assert contents(ledger.view())["a"][1:] == (3, {"n": 1})


def test_a_document_touched_twice_counts_once_and_the_caller_is_told_so() -> None:
    """Otherwise the next save of a document as it was returned would leave a number out."""
    rig = Rig()
    ledger = stager(rig)
    committed = ledger.commit(rig.batch(insert("a", n=1), save("a", n=2), save("a", n=3)))
    assert [change.seq for change in committed.changes] == [1, 1, 1]
    assert contents(ledger.view()) == {"a": (committed.number, 1, {"n": 3})}
    held = ledger.view().get(id_key(ident("a")))
    assert held is not None
    loaded = Save(ident("a"), doc("a", n=4), Loaded(held, committed.number))
    assert ledger.commit(rig.batch(loaded, save("b"))).changes[0].seq == 2


def test_numbers_are_given_to_staged_documents_as_well() -> None:
    rig = Rig()
    ledger = stager(rig)
    ledger.commit(rig.batch(insert("0000000007")))
    first = ledger.commit(rig.batch(*[InsertNext(b'{"n":1}')] * 3))
    assert [change.id for change in first.changes] == [b'"0000000008"', b'"0000000009"', b'"0000000010"']
    for process in (ledger, logger(rig)):
        assert process.commit(rig.batch(InsertNext(b"{}"))).changes[0].id in {b'"0000000011"', b'"0000000012"'}


def test_a_definition_may_come_with_the_first_staged_batch() -> None:
    rig = Rig()
    ledger = stager(rig)
    ledger.commit(rig.batch(insert("a", email="x"), insert("b", email="y"), events=(SCHEMA,)))
    assert kinds(rig)[0] == "SchemaChanged JobOpened"
    for process in (ledger, logger(rig)):
        with pytest.raises(UniqueViolationError):
            process.commit(rig.batch(insert("c", email="x")))
        assert process.view().definition.body == EMAIL


# --- what refuses it ---


@pytest.mark.parametrize("is_forwarded", [True, False])
@pytest.mark.parametrize(
    ("operations", "error"),
    [
        ([insert("x", email="1"), insert("y", email="1")], UniqueViolationError),
        ([insert("x", email="a@x")], UniqueViolationError),
        ([insert("x"), insert("a")], AlreadyExistsError),
        ([insert("x"), insert("x")], AlreadyExistsError),
        ([Save(ident("no"), doc("no"), must_exist=True)], NotFoundError),
        ([Save(ident("a"), doc("a"), rev=9)], ConflictError),
    ],
)
def test_a_refused_batch_aborts_its_job_and_leaves_nothing(
    operations: list[Operation], error: type[WormError], is_forwarded: bool
) -> None:
    rig = Rig()
    logger(rig).commit(rig.batch(insert("a", email="a@x"), events=(SCHEMA,)))
    if is_forwarded:
        logger(rig).forward()
    before = contents(rig.ledger().view())
    ledger = stager(rig, limits=MANUAL)
    with pytest.raises(error):
        ledger.commit(rig.batch(*operations))
    assert kinds(rig)[1:] == ["JobOpened", "JobAborted"]
    aborted = entries(rig)[-1].events[0]
    assert isinstance(aborted, JobAborted)
    assert ledger.view().jobs.known[aborted.job].state == "aborted"
    check_state(rig, before, ledger)
    assert not [info for page in rig.store.list(PATHS.data) for info in page.objects if not is_forwarded], "no blocks"


def test_values_may_be_traded_within_a_staged_batch() -> None:
    rig = Rig()
    ledger = stager(rig)
    ledger.commit(rig.batch(insert("a", email="1"), insert("b", email="2"), events=(SCHEMA,)))
    ledger.commit(rig.batch(save("a", email="2"), save("b", email="1")))
    for process in (ledger, logger(rig)):
        for email, owner in (("1", "b"), ("2", "a")):
            with pytest.raises(UniqueViolationError) as caught:
                process.commit(rig.batch(insert("c", email=email)))
            assert caught.value.owner == owner


def test_a_job_that_cannot_be_aborted_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    store = HookStore(rig.store)
    ledger = stager(rig, store)
    ledger.commit(rig.batch(insert("a")))

    def refuse(verb: str, key: str) -> None:
        if verb == "put" and key == PATHS.entry(LogNumber(4)):
            rig.clock.advance(60)
            raise UnavailableError("put", reason="it is away")

    store.before = refuse
    with pytest.raises(AlreadyExistsError):
        ledger.commit(rig.batch(insert("a")))
    assert "could not be aborted" in caplog.text
    store.before = None
    check_state(rig, {"a": (2, 1, {})}, ledger)


# --- a rival between any two requests ---

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
    for place in range(1, 200):
        rig = Rig()
        serial = Serial(prepared(rig))
        store = HookStore(rig.store)
        ledger = stager(rig, store, limits)
        if place % 2:
            ledger.view()
        sent: list[str] = []
        losers: list[str] = []

        def count(verb: str, key: str) -> None:
            sent.append(key)  # noqa: B023 - called in this turn, as all below
            if len(sent) == place:  # noqa: B023
                with refusing(losers, "rival"):  # noqa: B023
                    RIVALS[name](rig, serial)  # noqa: B023

        store.before = count
        with refusing(losers, "batch"):
            serial.note(ledger.commit(rig.batch(*BATCH)), BATCH, is_staged=True)
        store.before = None
        assert losers in ([], ["rival"], ["batch"]), "one of them is refused because the other is not"
        assert serial.done or name in {"changes the definition", "forwards"}
        if losers == ["batch"]:
            assert kinds(rig)[-1] == "JobAborted"
        serial.check(rig)
        if len(sent) < place:
            assert losers == []
            assert place > 8
            return
    raise AssertionError("it did not end")


@contextmanager
def refusing(losers: list[str], who: str) -> Iterator[None]:
    """Note whoever is refused."""
    try:
        yield
    except (UniqueViolationError, AlreadyExistsError):
        losers.append(who)


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


def check_fault(case: SweepCase[Committed], before: State, after: State) -> None:
    rig = Rig(seed=77)
    rig.store = case.inner  # type: ignore[assignment]
    rig.__dict__["log"] = rig.log.__class__(rig.store, PATHS, rig.log.collection, rig.log.pool)
    ledger = logger(rig)
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
        check_going_on(rig, ledger, shown)


def check_going_on(rig: Rig, ledger: Ledger, shown: dict[Any, Any]) -> None:
    """Whatever happened: values are owned by whom they should be, and the log goes on."""
    owners = {values["email"]: name for name, (_, values) in shown.items() if values and "email" in values}
    for email in ("1", "2", "3", "b"):
        if email in owners:
            with pytest.raises(UniqueViolationError) as caught:
                ledger.commit(rig.batch(insert("probe", email=email)))
            assert caught.value.owner == owners[email]
    stager(rig).commit(rig.batch(insert("probe", email="probe")))
    ledger.forward()
    seen = {identity: one[1:] for identity, one in contents(rig.ledger().view()).items()}
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

    def operate(store: Store) -> Committed:
        rig = Rig(seed=5)
        return stager(rig, store, limits).commit(rig.batch(*BATCH), seconds=0)

    runs = sweep(make, operate, lambda case: check_fault(case, before, after), faults=faults)
    assert runs > 10 * len(faults)


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


# --- alone in its entry ---


def check_alone(rig: Rig) -> None:
    for entry in entries(rig):
        if any(isinstance(event, JobAttached) for event in entry.events):
            assert len(entry.events) == 1
            assert [batch.changes for batch in entry.batches] == [()]


def test_an_attach_is_alone_in_its_entry_whoever_commits_at_the_same_time() -> None:
    rig = Rig()
    ledger = rig.ledger(limits=PATIENT, sizes=SMALL, stage_bytes=2_000)
    failures: list[WormError] = []

    def load(worker: int) -> None:
        for turn in range(3):
            ledger.commit(rig.batch(*(insert(f"l{worker}-{turn}-{n}", pad="x" * 600) for n in range(3))))

    def write(worker: int) -> None:
        for turn in range(10):
            ledger.commit(rig.batch(insert(f"w{worker}-{turn}")))

    def run(work: Callable[[int], None], worker: int) -> None:
        try:
            work(worker)
        except WormError as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(work, n)) for n in range(3) for work in (load, write)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    check_alone(rig)
    assert kinds(rig).count("JobAttached") == 9
    for process in (ledger, rig.ledger()):
        assert len(contents(process.view())) == process.view().count == 27 + 30


def test_batches_that_wait_with_an_attach_go_into_entries_of_their_own() -> None:
    rig = Rig()
    ledger = logger(rig)
    jobs = ["a" * 32, "b" * 32]
    ledger.commit(rig.batch(events=tuple(JobOpened(job=job, kind="batch", base=0) for job in jobs)))  # type: ignore[arg-type]
    pending = [
        rig.batch(insert("x")),
        rig.batch(events=(JobAttached(job=jobs[0], blocks=(), added=0),)),  # type: ignore[arg-type]
        rig.batch(insert("y")),
        rig.batch(events=(JobAttached(job=jobs[1], blocks=(), added=0),)),  # type: ignore[arg-type]
        rig.batch(insert("z")),
    ]
    outcomes = ledger._committer.commit(pending, 1e9)
    numbers = [outcome.number for outcome in outcomes if isinstance(outcome, Committed)]
    assert len(numbers) == 5
    assert numbers[0] == numbers[2] == numbers[4], "those without an attach share one"
    assert len(set(numbers)) == 3
    check_alone(rig)
    assert sorted(contents(rig.ledger().view())) == ["x", "y", "z"]


# --- what it costs ---


@pytest.mark.parametrize("count", [1, 2, 6])
def test_what_a_staged_insert_costs(count: int) -> None:
    rig = Rig()
    store = rig.counted()
    ledger = stager(rig, store, MANUAL)
    ledger.view()
    before = store.requests
    documents = [insert(f"k{number}", pad="x" * 300) for number in range(count)]
    ledger.commit(rig.batch(*documents))
    traces = store.trace[before:]
    assert [trace.verb for trace in traces] == ["probe", "put", "probe", *["put"] * (2 * count), "put"]
    assert [trace.key for trace in traces if trace.key.startswith(PATHS.entries) and trace.verb == "put"] == [
        PATHS.entry(LogNumber(1)),
        PATHS.entry(LogNumber(2)),
    ]


def test_what_bringing_it_into_the_root_costs() -> None:
    rig = Rig()
    store = rig.counted()
    ledger = stager(rig, store, MANUAL)
    ledger.commit(rig.batch(*(insert(f"k{number}", pad="x" * 300) for number in range(4))))
    before = store.requests
    ledger.forward()
    traces = store.trace[before:]
    assert [trace.verb for trace in traces if trace.key != PATHS.root and trace.verb == "put"] == [], "blocks stay"
    assert [trace.verb for trace in traces] == ["probe", "probe", "put"]
    before = store.requests
    ledger.commit(rig.batch(insert("z")))
    assert [trace.verb for trace in store.trace[before:]][:1] == ["probe"]
