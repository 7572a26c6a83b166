"""Run an operation once for each request and fault, until it succeeds without reaching the fault."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from wormdb.errors import WormError
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wormdb.storage.store import Store

__all__ = ["FAULTS", "SweepCase", "sweep"]

T = TypeVar("T")

FAULTS: tuple[Fault, ...] = tuple(Fault)
REQUESTS_MAX = 300


@dataclass(frozen=True, slots=True)
class SweepCase(Generic[T]):
    """One run: `fault` was planned for request `number`.

    `inner` is the store without faults, to look and to recover with. `error` is what the
    operation raised, None if it returned `result`. `is_landed` tells the second look, after
    what was to land late has landed.
    """

    number: int
    fault: Fault
    store: FaultStore
    inner: Store
    result: T | None
    error: WormError | SimulatedCrash | None
    is_landed: bool = False

    @property
    def is_fired(self) -> bool:
        """Whether the fault did happen; False also if it cannot happen to that kind of request."""
        return bool(self.store.fired)

    @property
    def label(self) -> str:
        """For assertion messages."""
        return f"{self.fault} at request {self.number}" + (", landed since" if self.is_landed else "")


def sweep(  # noqa: PLR0913 - one door with keyword-only options
    make: Callable[[], Store],
    operation: Callable[[Store], T],
    check: Callable[[SweepCase[T]], None],
    *,
    faults: Sequence[Fault] = FAULTS,
    page_keys: int = 2,
    requests_max: int = REQUESTS_MAX,
    every: int = 1,
) -> int:
    """Run `operation` on a fresh store from `make` for every fault at every request; how many runs.

    With `every` above 1 a fault comes at one in that many requests, each kind of fault at others: each kind is tried,
    and neighbouring requests meet different ones.

    After each run `check` looks at the case and raises AssertionError if a promise was
    broken. Where a request was to land late it looks twice: before and after it landed.
    For each fault the last run is the one that needs fewer requests than the fault's number;
    it must succeed, and come before `requests_max`. Errors other than WormError and SimulatedCrash are not caught.
    """
    runs = 0
    for fault in faults:
        for number in range(1 + FAULTS.index(fault) % every, requests_max + every, every):
            case = _run(make(), operation, number, fault, page_keys)
            runs += 1
            check(case)
            if case.store.land():
                check(replace(case, is_landed=True))
            if case.store.requests < number:
                assert case.error is None, f"{case.label} was not reached, and yet it failed: {case.error}"
                break
        else:
            raise AssertionError(f"the operation did not end within {requests_max} requests under {fault}")
    return runs


def _run(inner: Store, operation: Callable[[Store], T], number: int, fault: Fault, page_keys: int) -> SweepCase[T]:
    store = FaultStore(inner, {number: fault}, page_keys=page_keys)
    try:
        result = operation(store)
    except (WormError, SimulatedCrash) as error:
        return SweepCase(number, fault, store, inner, None, error)
    return SweepCase(number, fault, store, inner, result, None)
