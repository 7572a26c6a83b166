"""The sweep reaches every request with every fault, and sees what is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wormdb.errors import AlreadyExistsError, UnavailableError, WormError
from wormdb.storage.memory import MemoryStore
from wormdb.storage.store import IfAbsent
from wormdb.testing.fault_store import Fault, SimulatedCrash
from wormdb.testing.sweep import SweepCase, sweep

if TYPE_CHECKING:
    from wormdb.storage.store import Store


def three_steps(store: Store) -> str:
    store.put("block", b"block")
    store.put("slot/1", b"entry", IfAbsent())
    store.delete("block")
    return "done"


def test_every_request_is_reached_with_every_fault() -> None:
    cases: list[SweepCase[str]] = []
    runs = sweep(MemoryStore, three_steps, cases.append)
    looks = [(case.fault, case.number) for case in cases if not case.is_landed]
    assert looks == [(fault, number) for fault in Fault for number in (1, 2, 3, 4)]
    assert runs == len(looks)
    late = [case.number for case in cases if case.is_landed]
    assert late == [1, 2, 3]
    for case in cases:
        if not case.is_fired:
            assert (case.result, case.error) == ("done", None)
        if case.fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER) and case.number < 4:
            assert isinstance(case.error, SimulatedCrash)


def test_with_every_each_fault_is_tried_and_comes_at_one_in_that_many_requests() -> None:
    cases: list[SweepCase[str]] = []
    runs = sweep(MemoryStore, three_steps, cases.append, every=2)
    looks = [(case.fault, case.number) for case in cases if not case.is_landed]
    assert looks == [look for one in range(0, len(Fault), 2) for look in _looks(*list(Fault)[one : one + 2])]
    assert runs == len(looks)
    assert [(case.result, case.error) for case in cases if case.number > 3] == [("done", None)] * len(Fault)


def _looks(one: Fault, two: Fault) -> list[tuple[Fault, int]]:
    return [(one, 1), (one, 3), (one, 5), (two, 2), (two, 4)]


def test_a_broken_promise_is_seen() -> None:
    """An operation that takes a timeout for a failure, and cleans up, is caught."""

    def careless(store: Store) -> str:
        store.put("block", b"block")
        try:
            store.put("slot/1", b"entry naming block", IfAbsent())
        except WormError:
            store.delete("block")
            raise
        return "done"

    def check(case: SweepCase[str]) -> None:
        if case.inner.probe("slot/1").found is not None:
            assert case.inner.probe("block").found is not None, case.label

    with pytest.raises(AssertionError, match="answer lost at request 2"):
        sweep(MemoryStore, careless, check, faults=[Fault.CRASH_AFTER, Fault.ANSWER_LOST])
    with pytest.raises(AssertionError, match="lands late at request 2, landed since"):
        sweep(MemoryStore, careless, check, faults=[Fault.LANDS_LATE])
    assert sweep(MemoryStore, careless, check, faults=[Fault.CRASH_AFTER]) == 3


def test_an_operation_that_fails_by_itself_is_no_success() -> None:
    def filled() -> Store:
        inner = MemoryStore()
        inner.put("slot/1", b"taken")
        return inner

    with pytest.raises(AssertionError, match="was not reached"):
        sweep(filled, three_steps, lambda case: None, faults=[Fault.THROTTLED_429])


def test_an_operation_without_end_is_stopped() -> None:
    def endless(store: Store) -> None:
        while True:
            try:
                store.put("slot/1", b"", IfAbsent())
            except AlreadyExistsError:
                continue
            except UnavailableError:
                return

    with pytest.raises(AssertionError, match="did not end"):
        sweep(MemoryStore, endless, lambda case: None, faults=[Fault.UNAVAILABLE_503], requests_max=20)
