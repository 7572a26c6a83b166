"""Batches too large for the log: staged as blocks, attached by one entry, and the same state as through the log."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.bulk.stage_rig import (
    MANUAL,
    PATIENT,
    REFUSALS,
    SCHEMA,
    SMALL,
    State,
    after_batch,
    check_state,
    entries,
    kinds,
    logger,
    stager,
)
from tests.engine.commit.test_validate import EMAIL
from tests.engine.rig import PATHS, HookStore, Rig, contents, doc, ident, insert, remove, save
from wormdb.engine.commit.commit import CommitResult
from wormdb.engine.commit.operations import InsertNext, ReadVersion, Remove, Restore, Save
from wormdb.engine.state.view import id_key
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    UnavailableError,
    UniqueViolationError,
    WormError,
)
from wormdb.format.event import JobAborted, JobAttached, JobOpened
from wormdb.system.types import LogNumber, WriteId

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.engine.commit.operations import Operation

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
    loaded = Save(ident("a"), doc("a", n=4), ReadVersion(held, committed.number))
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
    jobs = [WriteId("a" * 32), WriteId("b" * 32)]
    ledger.commit(rig.batch(events=tuple(JobOpened(job=job, kind="batch", base=0) for job in jobs)))
    pending = [
        rig.batch(insert("x")),
        rig.batch(events=(JobAttached(job=jobs[0], blocks=(), added=0),)),
        rig.batch(insert("y")),
        rig.batch(events=(JobAttached(job=jobs[1], blocks=(), added=0),)),
        rig.batch(insert("z")),
    ]
    outcomes = ledger._committer.commit(pending, 1e9)
    numbers = [outcome.number for outcome in outcomes if isinstance(outcome, CommitResult)]
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
