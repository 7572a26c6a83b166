"""Making a batch visible: races, refusals, deadlines, lost answers, and answers that come too late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engine.rig import PATHS, Asking, HookStore, Rig, contents, doc, ident, insert, remove, save
from wormdb.engine.commit.commit import CommitResult
from wormdb.engine.commit.operations import CommitId, ReadVersion, Save
from wormdb.engine.commit.resolve import Fate
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    CorruptionError,
    InvalidRequestError,
    LimitExceededError,
    OutcomeUnknownError,
    PermissionDeniedError,
    UnavailableError,
)
from wormdb.settings import KNOWLEDGE_MS_MAX
from wormdb.system.types import LogNumber
from wormdb.testing.fault_store import Fault, FaultStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.engine.ledger import Ledger
    from wormdb.engine.state.view import View

SLOT_1 = PATHS.entry(LogNumber(1))


def raiser(error: Exception, verb: str = "put", times: int = 10**9) -> Callable[[str, str], None]:
    """A hook that raises at the first requests of one kind."""
    left = [times]

    def hook(seen: str, key: str) -> None:
        if seen == verb and left[0]:
            left[0] -= 1
            raise error

    return hook


def commit_as_rival(rig: Rig, rival: Ledger, *names: str) -> Callable[[str, str], None]:
    """A hook by which a rival takes the slot right before each put, once for each name."""
    waiting = list(names)

    def hook(verb: str, key: str) -> None:
        if verb == "put" and waiting:
            rival.commit(rig.batch(save(waiting.pop(0), by="rival")))

    return hook


def test_a_commit_is_one_put_and_is_seen_at_once() -> None:
    rig = Rig()
    store = rig.counted()
    ledger = rig.ledger(store)
    ledger.view()
    before = store.requests
    committed = ledger.commit(rig.batch(insert("a", n=1), actor="ada"))
    assert [(trace.verb, trace.key) for trace in store.trace[before:]] == [("put", SLOT_1)]
    assert (committed.number, [change.after for change in committed.changes]) == (1, [doc("a", n=1)])
    assert contents(ledger.known()) == {"a": (1, 1, {"n": 1})}
    record, _ = rig.log.read(LogNumber(1))
    assert record is not None
    assert record.entry.misc == committed.misc
    assert record.entry.batches[0].actor == "ada"


def test_entries_chain_by_their_hashes_whoever_writes_them() -> None:
    rig = Rig()
    writers = [rig.ledger(), rig.ledger()]
    for number in range(6):
        writers[number % 2].commit(rig.batch(save("a", n=number)))
    previous = bytes(32)
    for tail in rig.log.rounds(LogNumber(0)):
        for record in tail.records:
            assert record.entry.previous == previous
            previous = record.hash
    assert rig.slots() == [1, 2, 3, 4, 5, 6]


# --- races ---


def test_a_race_about_other_documents_is_not_heard_of() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    ledger, rival = rig.ledger(store), rig.ledger()
    ledger.view()
    store.before = commit_as_rival(rig, rival, "x", "y", "z")
    committed = ledger.commit(rig.batch(insert("a", n=1)))
    assert committed.number == 4
    assert sorted(contents(ledger.view())) == ["a", "x", "y", "z"]


def test_a_race_about_the_same_document_is_judged_again() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    ledger, rival = rig.ledger(store), rig.ledger()
    ledger.view()
    store.before = commit_as_rival(rig, rival, "a")
    with pytest.raises(AlreadyExistsError, match="document 'a' in things/"):
        ledger.commit(rig.batch(insert("a", by="me")))
    assert contents(ledger.view()) == {"a": (1, 1, {"by": "rival"})}
    held = next(held for _, held in ledger.view().scan())
    store.before = commit_as_rival(rig, rival, "a")
    with pytest.raises(ConflictError):
        ledger.commit(rig.batch(Save(ident("a"), doc("a", by="me"), ReadVersion(held, LogNumber(1)))))
    store.before = commit_as_rival(rig, rival, "a")
    ledger.commit(rig.batch(save("a", by="me")))
    assert contents(ledger.view()) == {"a": (4, 4, {"by": "me"})}


def test_a_guard_is_asked_again_at_every_try() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    ledger, rival = rig.ledger(store), rig.ledger()
    ledger.view()
    seen: list[int] = []

    def guard(view: View) -> None:
        seen.append(view.number)
        if view.number == 2:
            raise InvalidRequestError("not any more")

    store.before = commit_as_rival(rig, rival, "x", "y")
    with pytest.raises(InvalidRequestError):
        ledger.commit(rig.batch(insert("a"), guard=Asking(guard)))
    assert seen[0] == 0
    assert set(seen) == {0, 1, 2}
    assert sorted(contents(ledger.view())) == ["x", "y"]


def test_whoever_loses_until_the_deadline_is_told_that_nothing_was_written() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    ledger, rival = rig.ledger(store), rig.ledger()
    ledger.view()

    def hook(verb: str, key: str) -> None:
        if verb == "put":
            rival.commit(rig.batch(save("x", at=rig.clock.now_ms())))
            rig.clock.advance(1)

    store.before = hook
    with pytest.raises(UnavailableError, match="races were lost") as caught:
        ledger.commit(rig.batch(insert("a")), seconds=5)
    assert "things/" in caught.value.what
    assert list(contents(rig.ledger().view())) == ["x"]


# --- refusals come from a state that is not older than the call ---


def test_a_refusal_from_an_old_state_is_checked_against_a_new_one() -> None:
    rig = Rig()
    store = rig.counted()
    ledger, other = rig.ledger(store), rig.ledger()
    ledger.commit(rig.batch(insert("a", n=1)))
    other.commit(rig.batch(remove("a")))
    before = store.requests
    ledger.commit(rig.batch(insert("a", n=2)))
    assert contents(ledger.known()) == {"a": (3, 3, {"n": 2})}
    assert [trace.verb for trace in store.trace[before:]].count("put") == 1


def test_a_refusal_costs_a_look_and_no_write() -> None:
    rig = Rig()
    store = rig.counted()
    ledger = rig.ledger(store)
    ledger.commit(rig.batch(insert("a")))
    before = store.requests
    with pytest.raises(AlreadyExistsError):
        ledger.commit(rig.batch(insert("a")))
    assert [trace.verb for trace in store.trace[before:]] == ["probe"]


def test_nothing_to_do_writes_nothing_but_is_not_decided_from_an_old_state() -> None:
    rig = Rig()
    store = rig.counted()
    ledger, other = rig.ledger(store), rig.ledger()
    ledger.view()
    before = store.requests
    assert ledger.commit(rig.batch(remove("a"))).changes == ()
    assert [trace.verb for trace in store.trace[before:]] == ["probe"]
    other.commit(rig.batch(insert("a")))
    assert len(ledger.commit(rig.batch(remove("a"))).changes) == 1


def test_each_of_a_group_has_its_own_outcome_in_one_entry() -> None:
    rig = Rig()
    ledger = rig.ledger()
    ledger.commit(rig.batch(insert("a")))
    batches = [
        rig.batch(insert("b")),
        rig.batch(insert("a")),
        rig.batch(remove("nothing")),
        rig.batch(insert("c"), insert("b")),
        rig.batch(insert("c")),
    ]
    outcomes = ledger._committer.commit(batches, deadline=10.0)
    assert [type(outcome) for outcome in outcomes] == [
        CommitResult,
        AlreadyExistsError,
        CommitResult,
        AlreadyExistsError,
        CommitResult,
    ]
    assert rig.slots() == [1, 2]
    record, _ = rig.log.read(LogNumber(2))
    assert record is not None
    assert [batch.id for batch in record.entry.batches] == [batches[0].id, batches[4].id]
    assert sorted(contents(ledger.known())) == ["a", "b", "c"]


# --- answers that are missing ---


@pytest.mark.parametrize("fault", [Fault.ANSWER_LOST, Fault.LANDS_LATE, Fault.UNAVAILABLE_503, Fault.CONFLICT_409])
def test_one_failed_put_is_sent_again_and_lands_once(fault: Fault) -> None:
    rig = Rig()
    store = FaultStore(rig.store, {3: fault})
    ledger = rig.ledger(store)
    committed = ledger.commit(rig.batch(insert("a", n=1)))
    assert next(trace.fault for trace in store.trace if trace.verb == "put") == fault
    assert committed.number == 1
    store.land()
    assert contents(rig.ledger().view()) == {"a": (1, 1, {"n": 1})}
    assert rig.slots() == [1]


def test_retries_of_a_slot_are_byte_identical() -> None:
    rig = Rig()
    bodies: list[bytes] = []

    class Recording(HookStore):
        def put(self, key: str, body: bytes, *arguments: object, **options: object) -> object:  # type: ignore[override] # records only
            bodies.append(body)
            if len(bodies) < 4:
                raise OutcomeUnknownError("put", reason="no answer")
            return self._inner.put(key, body, *arguments, **options)  # type: ignore[arg-type] # as they came

    rig.ledger(Recording(rig.store)).commit(rig.batch(insert("a")))
    assert len(bodies) == 4
    assert len(set(bodies)) == 1


def test_no_answer_until_the_deadline_is_unknown_with_the_id_to_ask_about() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    ledger = rig.ledger(store)
    store.before = raiser(OutcomeUnknownError("put", reason="no answer"))
    batch = rig.batch(insert("a"))
    with pytest.raises(OutcomeUnknownError, match=r"call resolve\(commit_id\) before retrying") as caught:
        ledger.commit(batch, seconds=2)
    assert caught.value.commit_id is not None
    commit_id = CommitId.parse(caught.value.commit_id)
    assert (commit_id.slot, commit_id.batch) == (1, batch.id)
    assert str(commit_id) == caught.value.commit_id
    assert caught.value.key == SLOT_1
    assert rig.ledger().resolve(caught.value.commit_id) is Fate.UNKNOWN


def test_after_an_unknown_outcome_the_process_looks_again_before_it_writes() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    ledger = rig.ledger(store)
    ledger.view()
    store.after = raiser(OutcomeUnknownError("put", reason="no answer"))
    store.before = raiser(UnavailableError("probe"), verb="probe")
    with pytest.raises(OutcomeUnknownError):
        ledger.commit(rig.batch(insert("a", n=1)), seconds=1)
    store.before = store.after = None
    with pytest.raises(AlreadyExistsError):
        ledger.commit(rig.batch(insert("a", n=2)))
    assert contents(ledger.view()) == {"a": (1, 1, {"n": 1})}


def test_a_store_that_refuses_until_the_deadline_is_unavailable_and_nothing_was_written() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    ledger = rig.ledger(store)
    store.before = raiser(UnavailableError("put", reason="503"))
    with pytest.raises(UnavailableError, match="503") as caught:
        ledger.commit(rig.batch(insert("a")), seconds=2)
    assert caught.value.key == SLOT_1
    assert rig.slots() == []


def test_a_refusal_that_cannot_be_read_back_is_unknown() -> None:
    """What sits between us and the store may have sent it twice, so that 503 is the answer to the second."""
    rig = Rig()
    store = HookStore(rig.store)
    ledger = rig.ledger(store)
    ledger.view()

    def hook(verb: str, key: str) -> None:
        raise UnavailableError(verb, reason="503")

    store.before = hook
    with pytest.raises(OutcomeUnknownError):
        ledger.commit(rig.batch(insert("a")), seconds=2)


def test_a_slot_that_is_taken_and_yet_empty_is_unknown() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    ledger = rig.ledger(store)
    store.before = raiser(AlreadyExistsError("put"))
    with pytest.raises(OutcomeUnknownError, match="refused as taken, and is empty"):
        ledger.commit(rig.batch(insert("a")))


def test_missing_rights_pass_through() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    ledger = rig.ledger(store)
    denied = PermissionDeniedError("put", reason="403")
    store.before = raiser(denied)
    with pytest.raises(PermissionDeniedError) as caught:
        ledger.commit(rig.batch(insert("a")))
    assert caught.value is denied


def test_missing_rights_after_a_lost_answer_leave_it_unknown() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    ledger = rig.ledger(store)
    errors = [OutcomeUnknownError("put", reason="no answer"), PermissionDeniedError("put", reason="403")]

    def hook(verb: str, key: str) -> None:
        if verb == "put":
            raise errors.pop(0)

    store.before = hook
    with pytest.raises(OutcomeUnknownError):
        ledger.commit(rig.batch(insert("a")))


def test_a_damaged_winner_is_told_as_such() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    ledger = rig.ledger(store)
    ledger.view()

    def hook(verb: str, key: str) -> None:
        if verb == "put":
            rig.store.put(SLOT_1, b"no entry at all")

    store.before = hook
    with pytest.raises(CorruptionError) as caught:
        ledger.commit(rig.batch(insert("a")))
    assert caught.value.key == SLOT_1


# --- answers that come too late ---


def late_answer(rig: Rig, store: HookStore, seconds: float, meanwhile: Callable[[], None] | None = None) -> None:
    def before(verb: str, key: str) -> None:
        if verb == "put":
            store.before = None
            if meanwhile is not None:
                meanwhile()
            rig.clock.advance(seconds)

    store.before = before


@pytest.mark.parametrize(("seconds", "reads"), [(KNOWLEDGE_MS_MAX / 1000, 0), (KNOWLEDGE_MS_MAX / 1000 + 1, 1)])
def test_an_answer_later_than_a_minute_is_confirmed_by_the_root(seconds: float, reads: int) -> None:
    rig = Rig()
    counted = rig.counted()
    store = HookStore(counted)
    ledger = rig.ledger(store)
    ledger.view()
    before = counted.requests
    late_answer(rig, store, seconds)
    assert ledger.commit(rig.batch(insert("a")), seconds=1_000).number == 1
    assert [trace.key for trace in counted.trace[before:]] == [SLOT_1] + [PATHS.root] * reads


def test_a_write_into_a_slot_that_was_trimmed_meanwhile_is_not_acknowledged() -> None:
    """The writer slept for hours: its slot was used, applied, trimmed and deleted, and looks free."""
    rig = Rig()
    store = HookStore(rig.store)
    sleeper, worker = rig.ledger(store), rig.ledger()
    sleeper.view()

    def meanwhile() -> None:
        worker.commit(rig.batch(insert("a", by="worker")))
        worker.commit(rig.batch(insert("b", by="worker")))
        worker.forward()
        worker.trim(0)
        rig.clock.advance(7_200)
        assert worker.trim(0) == 2

    late_answer(rig, store, 10, meanwhile)
    with pytest.raises(OutcomeUnknownError, match="trimmed meanwhile") as caught:
        sleeper.commit(rig.batch(insert("a", by="sleeper")), seconds=100_000)
    assert caught.value.commit_id is not None
    assert rig.slots() == [1], "it did write, into the past"
    for process in (sleeper, worker, rig.ledger()):
        assert contents(process.view()) == {"a": (1, 1, {"by": "worker"}), "b": (2, 1, {"by": "worker"})}
        assert process.resolve(caught.value.commit_id) is Fate.UNKNOWN
    with pytest.raises(AlreadyExistsError):
        sleeper.commit(rig.batch(insert("a", by="sleeper")))
    assert worker.trim(0) == 1, "what was left behind is deleted by the next trim"


def test_a_loss_in_a_slot_that_was_trimmed_meanwhile_is_unknown_too() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    sleeper, worker, other = rig.ledger(store), rig.ledger(), rig.ledger()
    sleeper.view()
    other.view()

    def meanwhile() -> None:
        worker.commit(rig.batch(insert("a", by="worker")))
        worker.forward()
        worker.trim(0)
        rig.clock.advance(7_200)
        assert worker.trim(0) == 1
        with pytest.raises(OutcomeUnknownError):
            other.commit(rig.batch(insert("z")))

    late_answer(rig, store, 10, meanwhile)
    with pytest.raises(OutcomeUnknownError):
        sleeper.commit(rig.batch(insert("b")), seconds=100_000)
    assert list(contents(rig.ledger().view())) == ["a"]


def test_a_late_loser_does_not_write_into_a_slot_that_is_trimmed_right_then() -> None:
    """It lost against an entry that is hours old; the slot behind that entry may be emptied at any moment."""
    rig = Rig()
    store = HookStore(rig.store)
    sleeper, worker = rig.ledger(store), rig.ledger()
    sleeper.view()
    puts: list[str] = []

    def hook(verb: str, key: str) -> None:
        if verb != "put":
            return
        puts.append(key)
        if len(puts) == 1:
            for number in range(4):
                worker.commit(rig.batch(save("a", n=number)))
            worker.forward()
            worker.trim(0)
            rig.clock.advance(7_200)
        elif len(puts) == 2:
            worker.trim(0)

    store.before = hook
    try:
        sleeper.commit(rig.batch(insert("b")), seconds=100_000)
    except OutcomeUnknownError as error:
        assert error.commit_id is not None  # noqa: PT017 - either answer is true, and what is true is looked at below
        acknowledged = False
    else:
        acknowledged = True
    assert ("b" in contents(rig.ledger().view())) is acknowledged
    assert contents(sleeper.view()) == contents(rig.ledger().view())


# --- commit ids ---


@pytest.mark.parametrize(
    "text",
    ["", "1", "hello", "1-2-3", f"0-{'a' * 32}-{'b' * 32}", f"1-{'A' * 32}-{'b' * 32}", f"-1-{'a' * 32}-{'b' * 32}"],
)
def test_text_that_is_no_commit_id_is_refused(text: str) -> None:
    """Such an id would be written into the log when it is settled, and no reader could read that."""
    with pytest.raises(InvalidRequestError, match="take it from the error"):
        CommitId.parse(text)


def test_a_batch_that_is_too_large_for_the_log_and_not_staged_is_refused_before_anything_is_sent() -> None:
    rig = Rig()
    store = rig.counted()
    ledger = rig.ledger(store, stage_bytes=1 << 40)
    ledger.view()
    before = store.requests
    large = [insert(f"k{number}", text="x" * 15_000_000) for number in range(5)]
    with pytest.raises(LimitExceededError):
        ledger.commit(rig.batch(*large))
    assert store.requests == before
