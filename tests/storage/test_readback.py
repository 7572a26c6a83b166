"""Read-back: the whole table of answers and findings, and sweeps over faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wormdb.errors import (
    AlreadyExistsError,
    ClosedError,
    ConflictError,
    InvalidRequestError,
    OutcomeUnknownError,
    PermissionDeniedError,
    UnavailableError,
    WormError,
)
from wormdb.storage.memory import MemoryStore
from wormdb.storage.readback import Landed, Lost, NothingThere, Unknown, put_classified
from wormdb.storage.store import OCTETS, IfAbsent, IfMatch, WrappedStore
from wormdb.system.clock import SeededChance, new_write_id
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash
from wormdb.testing.sweep import SweepCase, sweep

if TYPE_CHECKING:
    from wormdb.storage.store import Precondition, Probe, PutResult, Store

OURS = b"ours, write id 1"
OTHERS = b"another's, write id 2"
BEFORE = b"before, write id 0"
MORE = b"more, write id 3"


class Scripted(WrappedStore):
    """Answers a put with an error after bringing the object into a given state."""

    def __init__(self, inner: Store, answer: WormError, states: list[bytes | None], unread: WormError | None) -> None:
        super().__init__(inner)
        self.answer = answer
        self.states = states
        self.unread = unread
        self.requests: list[str] = []

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        self.requests.append("put")
        for state in self.states:
            if state is None:
                self._inner.delete(key)
            else:
                self._inner.put(key, state)
        raise self.answer

    def probe(self, key: str) -> Probe:
        self.requests.append("probe")
        if self.unread is not None:
            raise self.unread
        return self._inner.probe(key)


REFUSED = {"IfAbsent": AlreadyExistsError("x"), "IfMatch": ConflictError("x")}
NOTHING_DONE = UnavailableError("x")
NO_ANSWER = OutcomeUnknownError("x")

# condition, answer, states of the object after the put (None: deleted), expected outcome
TABLE: list[tuple[str, str, list[bytes | None], type]] = [
    ("IfAbsent", "refused", [OURS], Landed),
    ("IfAbsent", "refused", [OTHERS], Lost),
    ("IfAbsent", "refused", [None], Lost),
    ("IfAbsent", "nothing done", [OURS], Landed),
    ("IfAbsent", "nothing done", [OTHERS], Lost),
    ("IfAbsent", "nothing done", [None], NothingThere),
    ("IfAbsent", "no answer", [OURS], Landed),
    ("IfAbsent", "no answer", [OTHERS], Lost),
    ("IfAbsent", "no answer", [None], NothingThere),
    ("IfMatch", "refused", [OURS], Landed),
    ("IfMatch", "refused", [OTHERS], Lost),
    ("IfMatch", "refused", [None], Lost),
    ("IfMatch", "refused", [], Lost),
    ("IfMatch", "nothing done", [OURS], Landed),
    ("IfMatch", "nothing done", [OTHERS], Lost),
    ("IfMatch", "nothing done", [None], Lost),
    ("IfMatch", "nothing done", [], NothingThere),
    ("IfMatch", "no answer", [OURS], Landed),
    ("IfMatch", "no answer", [], NothingThere),
    ("IfMatch", "no answer", [OTHERS], Unknown),
    ("IfMatch", "no answer", [OURS, MORE], Unknown),
    ("IfMatch", "no answer", [None], Unknown),
    ("IfMatch", "no answer", [OURS, None], Unknown),
]


def scripted(condition: str, answer: str, states: list[bytes | None], unread: WormError | None = None) -> Scripted:
    inner = MemoryStore()
    if condition == "IfMatch":
        inner.put("k", BEFORE)
    error = {"refused": REFUSED[condition], "nothing done": NOTHING_DONE, "no answer": NO_ANSWER}[answer]
    return Scripted(inner, error, states, unread)


def precondition(condition: str, store: Scripted) -> IfAbsent | IfMatch:
    return IfAbsent() if condition == "IfAbsent" else IfMatch(store.inner.get("k").version)


@pytest.mark.parametrize(("condition", "answer", "states", "expected"), TABLE)
def test_the_table(condition: str, answer: str, states: list[bytes | None], expected: type) -> None:
    store = scripted(condition, answer, states)
    outcome = put_classified(store, "k", OURS, precondition(condition, store))
    assert type(outcome) is expected
    assert store.requests == ["put", "probe"]
    found = store.inner.probe("k").found
    match outcome:
        case Landed(version, time):
            assert found is not None
            assert version == found.version
            assert time is not None
        case Lost(lost_to):
            assert (lost_to and lost_to.body) == (found and found.body)
        case NothingThere(cause) | Unknown(cause):
            assert cause is store.answer


@pytest.mark.parametrize("condition", ["IfAbsent", "IfMatch"])
@pytest.mark.parametrize("answer", ["refused", "nothing done", "no answer"])
@pytest.mark.parametrize("unread", [UnavailableError("no read"), PermissionDeniedError("no read")])
def test_what_cannot_be_read_back_is_unknown(condition: str, answer: str, unread: WormError) -> None:
    store = scripted(condition, answer, [OTHERS], unread)
    assert put_classified(store, "k", OURS, precondition(condition, store)) == Unknown(store.answer, unread)


@pytest.mark.parametrize("error", [InvalidRequestError("x"), PermissionDeniedError("x"), ClosedError("x")])
def test_what_was_never_tried_is_raised(error: WormError) -> None:
    store = Scripted(MemoryStore(), error, [], None)
    with pytest.raises(type(error)):
        put_classified(store, "k", OURS, IfAbsent())
    assert store.requests == ["put"]


def test_a_success_is_not_read_back() -> None:
    store = FaultStore(MemoryStore())
    outcome = put_classified(store, "k", OURS, IfAbsent())
    assert outcome == Landed(store.get("k").version, outcome.time if isinstance(outcome, Landed) else None)
    assert [trace.verb for trace in store.trace] == ["put", "get"]


def test_a_retry_of_the_same_bytes_lands_exactly_once_however_late_the_first() -> None:
    for late_after in (0, 1, 2, 3):
        inner = MemoryStore()
        store = FaultStore(inner, {1: Fault.LANDS_LATE}, late_after=late_after)
        first = put_classified(store, "k", OURS, IfAbsent())
        second = put_classified(store, "k", OURS, IfAbsent())
        store.land()
        assert isinstance(first, Landed if late_after == 0 else NothingThere)
        assert isinstance(second, Landed)
        assert inner.get("k").body == OURS


@pytest.mark.parametrize("condition", ["IfAbsent", "IfMatch"])
def test_sweep_what_is_said_is_true(condition: str) -> None:
    """For every fault at every request: Landed means ours is there, Lost that it never will be."""
    body = new_write_id(SeededChance(5)).encode()

    def make() -> Store:
        inner = MemoryStore()
        if condition == "IfMatch":
            inner.put("k", BEFORE)
        return inner

    def operation(store: Store) -> object:
        found = store.probe("k").found
        expected: IfAbsent | IfMatch = IfAbsent() if found is None else IfMatch(found.version)
        return put_classified(store, "k", body, expected)

    seen: set[tuple[Fault, str]] = set()

    def check(case: SweepCase[object]) -> None:
        found = case.inner.probe("k").found
        is_ours = found is not None and found.body == body
        outcome = case.result
        seen.add((case.fault, type(outcome or case.error).__name__))
        match outcome:
            case Landed(version):
                assert is_ours, case.label
                assert found is not None
                assert found.version == version, case.label
            case Lost():
                assert not is_ours, case.label
            case NothingThere(cause):
                assert not is_ours or case.is_landed, case.label
                assert isinstance(cause, UnavailableError) or case.fault is Fault.LANDS_LATE, case.label
            case Unknown():
                raise AssertionError(case.label)  # one fault alone never leaves it unknown
            case None:
                assert isinstance(case.error, SimulatedCrash | UnavailableError), case.label
                assert not is_ours or case.fault is Fault.CRASH_AFTER, case.label

    runs = sweep(make, operation, check)
    assert runs > len(Fault) * 2
    assert {
        (Fault.ANSWER_LOST, "Landed"),
        (Fault.LANDS_LATE, "NothingThere"),
        (Fault.RACE_412, "Lost"),
        (Fault.CONFLICT_409, "NothingThere"),
        (Fault.UNAVAILABLE_503, "NothingThere"),
        (Fault.CRASH_AFTER, "SimulatedCrash"),
    } <= seen
