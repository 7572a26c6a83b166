"""The life of bulk jobs: opened once, then attached, aborted or expired, and remembered by roots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engine.rig import Rig, contents, insert, save
from wormdb.engine.history.read import History
from wormdb.engine.state import jobs as jobs_module
from wormdb.engine.state.jobs import NO_JOBS, Jobs
from wormdb.engine.state.view import id_key
from wormdb.errors import AlreadyExistsError, ConflictError, NotFoundError
from wormdb.format.entry import Entry, LoggedBatch
from wormdb.format.event import JobAborted, JobAttached, JobExpired, JobOpened, Nothing, StreamAdvanced
from wormdb.format.root import JobOutcome
from wormdb.system.types import LogNumber, WriteId

if TYPE_CHECKING:
    from wormdb.format.event import Event

ONE, TWO = WriteId("1" * 32), WriteId("2" * 32)
ENDS: list[Event] = [JobAttached(job=ONE), JobAborted(job=ONE), JobExpired(job=ONE)]


def opened(job: WriteId = ONE) -> JobOpened:
    return JobOpened(job=job, kind="batch", base=0)


def entry(number: int, *events: Event, actor: str | None = None) -> Entry:
    name = WriteId(f"{number:032x}")
    batches = (LoggedBatch(id=name, actor=actor, meta=None, changes=()),) if actor else ()
    return Entry(
        number=number, write_id=name, misc=number << 8, node=0, previous=bytes(32), batches=batches, events=events
    )


def after(*entries: Entry) -> Jobs:
    jobs = NO_JOBS
    for one in entries:
        jobs = jobs.after(one)
    return jobs


def test_an_entry_that_tells_nothing_of_jobs_leaves_the_same_object() -> None:
    jobs = after(entry(1, opened()))
    assert jobs.after(entry(2, Nothing())) is jobs
    assert jobs.after(entry(2)) is jobs


def test_what_is_known_of_a_job_is_what_was_told_last() -> None:
    jobs = after(entry(3, opened(), actor="me"))
    assert jobs.known[ONE] == JobOutcome(job=ONE, state="open", number=3, misc=3 << 8, actor="me", kind="batch")
    states = []
    for event in ENDS:
        outcome = jobs.after(entry(5, event)).known[ONE]
        assert (outcome.number, outcome.misc, outcome.actor) == (5, 5 << 8, None)
        states.append(outcome.state)
    assert states == ["attached", "aborted", "expired"]
    assert jobs.known[ONE].state == "open", "it is a value"


def test_several_events_of_one_entry_count_in_order() -> None:
    jobs = after(entry(1, opened(ONE), opened(TWO), JobAborted(job=ONE)))
    assert {job: outcome.state for job, outcome in jobs.known.items()} == {TWO: "open", ONE: "aborted"}


def test_a_job_is_opened_once() -> None:
    NO_JOBS.check([opened(), Nothing()])
    for jobs in (after(entry(1, opened())), *(after(entry(1, opened()), entry(2, event)) for event in ENDS)):
        with pytest.raises(AlreadyExistsError, match=f"job {ONE}: it is .* already"):
            jobs.check([opened()])
        jobs.check([opened(TWO)])


@pytest.mark.parametrize("event", ENDS)
def test_a_job_ends_once_and_only_if_it_was_opened(event: Event) -> None:
    with pytest.raises(NotFoundError, match="it was never opened"):
        NO_JOBS.check([event])
    after(entry(1, opened())).check([event])
    for before in ENDS:
        with pytest.raises(ConflictError, match=r"it was (attached|aborted|expired) by entry 2"):
            after(entry(1, opened()), entry(2, before)).check([event])


def test_a_root_gives_back_what_it_was_given() -> None:
    jobs = after(entry(1, opened(ONE)), entry(2, opened(TWO)), entry(3, JobAttached(job=TWO)))
    assert Jobs.of(jobs.outcomes()) == jobs
    assert list(Jobs.of(jobs.outcomes()).known) == [ONE, TWO], "in the order of what was told last"


def test_a_root_forgets_jobs_that_came_to_nothing_long_ago_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is open may still attach; what one attached is history, which says when and by whom."""
    monkeypatch.setattr(jobs_module, "JOBS_REMEMBERED", 2)
    names = [WriteId(f"{number:032x}") for number in range(8)]
    jobs = after(entry(1, *(opened(name) for name in names)))
    for number, name in enumerate(names[1:7], 2):
        jobs = jobs.after(entry(number, JobAttached(job=name) if number == 2 else JobAborted(job=name)))
    kept = {outcome.job: outcome.state for outcome in jobs.outcomes()}
    assert kept == {
        names[0]: "open",
        names[1]: "attached",
        names[5]: "aborted",
        names[6]: "aborted",
        names[7]: "open",
    }


# --- through a ledger ---


def test_events_that_cannot_come_are_refused_and_written_nowhere() -> None:
    rig = Rig()
    ledger, other = rig.ledger(), rig.ledger()
    with pytest.raises(NotFoundError):
        ledger.commit(rig.batch(events=(JobAttached(job=ONE),)))
    ledger.commit(rig.batch(events=(opened(),)))
    other.commit(rig.batch(events=(JobAborted(job=ONE, reason="enough"),)))
    with pytest.raises(ConflictError, match="it was aborted by entry 2"):
        ledger.commit(rig.batch(events=(JobAttached(job=ONE),)))
    with pytest.raises(AlreadyExistsError):
        ledger.commit(rig.batch(events=(opened(),)))
    assert rig.slots() == [1, 2]


def test_of_two_attaches_of_one_job_that_wait_together_one_is_refused() -> None:
    rig = Rig()
    ledger = rig.ledger()
    ledger.commit(rig.batch(events=(opened(),)))
    pending = [rig.batch(events=(JobAttached(job=ONE),)) for _ in range(2)]
    first, second = ledger._committer.commit(pending, 1e9)
    assert not isinstance(first, Exception)
    assert isinstance(second, ConflictError)
    assert rig.slots() == [1, 2]


def test_events_that_wait_together_are_judged_one_after_the_other() -> None:
    rig = Rig()
    ledger = rig.ledger()
    events = (opened(), opened(), JobAborted(job=ONE), JobExpired(job=ONE))
    outcomes = ledger._committer.commit([rig.batch(events=(event,)) for event in events], 1e9)
    assert [type(outcome).__name__ for outcome in outcomes] == [
        "CommitResult",
        "AlreadyExistsError",
        "CommitResult",
        "NotFoundError",
    ], "whoever is refused behind others is told what refuses it without them"
    assert ledger.view().jobs.known[ONE].state == "aborted"


def test_the_root_knows_what_the_log_told() -> None:
    rig = Rig()
    ledger = rig.ledger()
    ledger.commit(rig.batch(events=(opened(ONE),), actor="me"))
    ledger.commit(rig.batch(events=(opened(TWO),)))
    ledger.commit(rig.batch(events=(JobAborted(job=TWO, reason="enough"),)))
    told = ledger.view().jobs
    ledger.forward()
    assert rig.ledger().view().jobs == ledger.view().jobs == told
    with pytest.raises(ConflictError):
        rig.ledger().commit(rig.batch(events=(JobExpired(job=TWO),)))


def test_the_history_of_what_jobs_attached_outlives_many_other_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_module, "JOBS_REMEMBERED", 2)
    rig = Rig()
    ledger = rig.ledger(stage_bytes=1)
    for turn in range(5):
        ledger.commit(rig.batch(save("a", n=turn), actor=f"actor {turn}"))
    with pytest.raises(AlreadyExistsError):
        ledger.commit(rig.batch(insert("a")))
    view = rig.ledger().view()
    versions = History(view).versions(id_key(b'"a"'))
    assert [(version.seq, version.actor) for version in versions] == [(n + 1, f"actor {n}") for n in range(5)]
    assert contents(view)["a"][1:] == (5, {"n": 4})


def test_one_entry_may_open_a_job_and_attach_it() -> None:
    NO_JOBS.check((opened(), JobAttached(job=ONE)))
    with pytest.raises(NotFoundError):
        NO_JOBS.check((JobAttached(job=ONE), opened()))
    with pytest.raises(ConflictError):
        NO_JOBS.check((opened(), JobAttached(job=ONE), JobAborted(job=ONE)))
    assert after(entry(1, opened(), JobAttached(job=ONE))).known[ONE].state == "attached"


def advanced(batch: int, stream: WriteId = TWO) -> StreamAdvanced:
    return StreamAdvanced(stream=stream, batch=batch)


def test_a_batch_of_a_stream_is_written_once_and_only_the_newest_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_module, "JOBS_REMEMBERED", 0)
    jobs = after(*(entry(number, advanced(number)) for number in (1, 2, 3)), entry(4, advanced(0, ONE)))
    assert {outcome.job: outcome.batch for outcome in jobs.outcomes()} == {TWO: 3, ONE: 0}
    assert Jobs.of(jobs.outcomes()) == jobs
    jobs.check([advanced(4), advanced(1, ONE)])
    for batch in (0, 3):
        with pytest.raises(AlreadyExistsError, match="batch 3 was written by entry 3"):
            jobs.check([advanced(batch)])
    with pytest.raises(AlreadyExistsError, match="written by entry 4"):
        jobs.check([advanced(0, ONE)])


@pytest.mark.parametrize("size", [10, 4_000])
def test_a_batch_of_a_stream_comes_with_its_documents_or_not_at_all(size: int) -> None:
    """Also if it is staged as blocks: then not with the entry that opens its job."""
    rig = Rig()
    ledger = rig.ledger(stage_bytes=1_000)
    ledger.commit(rig.batch(insert("a", by="x" * size), events=(advanced(7),)))
    entries = ledger.entries(LogNumber(0), LogNumber(rig.slots()[-1]))
    assert entries is not None
    told = [any(isinstance(event, StreamAdvanced) for event in one.events) for one in entries]
    assert told == [False] * (len(entries) - 1) + [True], "the entry that has the documents says it"
    for process in (ledger, rig.ledger()):
        with pytest.raises(AlreadyExistsError, match="batch 7 of stream"):
            process.commit(rig.batch(insert("b", by="y" * size), events=(advanced(7),)))
        assert process.view().get(id_key(b'"b"')) is None
    ledger.forward()
    assert rig.ledger().view().jobs.known[TWO].batch == 7
