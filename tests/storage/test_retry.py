"""Retry: what is repeated, how often, and when not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wormdb.errors import NotFoundError, OutcomeUnknownError, UnavailableError, WormError
from wormdb.settings import RETRY_ATTEMPTS_MAX, RETRY_DELAY_SECONDS_MAX
from wormdb.storage.memory import MemoryStore
from wormdb.storage.retry import RetryBudget, RetryingStore
from wormdb.storage.store import Always, ByteRange, IfAbsent, IfMatch
from wormdb.system.clock import ManualClock, SeededChance
from wormdb.testing.fault_store import Fault, FaultStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wormdb.storage.store import Precondition, Store

VERBS: dict[str, Callable[[Store], object]] = {
    "get": lambda store: store.get("a").body,
    "get_range": lambda store: store.get_range("a", ByteRange(0, 1)),
    "get_ranges": lambda store: store.get_ranges("a", [ByteRange(0, 1)]),
    "probe": lambda store: store.probe("a").found is not None,
    "head": lambda store: store.head("a").size,
    "list": lambda store: [info.key for page in store.list() for info in page.objects],
    "put": lambda store: store.put("b", b"2"),
    "put Always": lambda store: store.put("b", b"2", Always()),
    "delete": lambda store: store.delete("a"),
    "delete_many": lambda store: store.delete_many(["a"]),
}


class Case:
    """A store that fails as planned below a retrying one, with everything to look at."""

    def __init__(self, plan: Mapping[int, Fault], *, budget: RetryBudget | None = None, attempts: int = 5) -> None:
        self.clock = ManualClock()
        self.inner = MemoryStore()
        self.inner.put("a", b"1")
        self.faults = FaultStore(self.inner, plan, page_keys=2)
        self.budget = budget or RetryBudget()
        self.store = RetryingStore(
            self.faults, clock=self.clock, chance=SeededChance(7), attempts=attempts, budget=self.budget
        )


def first(count: int, fault: Fault = Fault.UNAVAILABLE_503) -> dict[int, Fault]:
    return dict.fromkeys(range(1, count + 1), fault)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE_503, Fault.THROTTLED_429, Fault.ANSWER_LOST])
def test_an_unconditional_call_is_repeated_until_it_succeeds(verb: str, fault: Fault) -> None:
    case = Case(first(RETRY_ATTEMPTS_MAX - 1, fault))
    calm = Case({})
    result, expected = VERBS[verb](case.store), VERBS[verb](calm.store)
    if not verb.startswith("put"):
        assert result == expected
    assert case.faults.requests == RETRY_ATTEMPTS_MAX
    assert calm.faults.requests == 1
    assert [info.key for page in case.inner.list() for info in page.objects] == [
        info.key for page in calm.inner.list() for info in page.objects
    ]


@pytest.mark.parametrize("verb", VERBS)
def test_attempts_are_bounded(verb: str) -> None:
    case = Case(first(100))
    with pytest.raises(UnavailableError, match="503"):
        VERBS[verb](case.store)
    assert case.faults.requests == RETRY_ATTEMPTS_MAX


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE_503, Fault.ANSWER_LOST, Fault.CONFLICT_409])
@pytest.mark.parametrize("kind", ["IfAbsent", "IfMatch"])
def test_a_conditional_put_is_never_repeated(fault: Fault, kind: str) -> None:
    case = Case(first(1, fault))
    condition: Precondition = IfAbsent() if kind == "IfAbsent" else IfMatch(case.inner.get("a").version)
    with pytest.raises((UnavailableError, OutcomeUnknownError)):
        case.store.put("b" if kind == "IfAbsent" else "a", b"2", condition)
    assert case.faults.requests == 1
    assert case.clock.monotonic() == 0


def test_an_answer_is_not_a_failure() -> None:
    case = Case({})
    with pytest.raises(NotFoundError):
        case.store.get("missing")
    assert case.faults.requests == 1


def test_waits_grow_and_are_jittered() -> None:
    """Full jitter: between nothing and a ceiling that doubles up to the limit."""
    sleeps: list[float] = []

    class Noting(ManualClock):
        def sleep(self, seconds: float) -> None:
            sleeps.append(seconds)

    class Top(SeededChance):
        def fraction(self) -> float:
            return 1.0 - 2**-53

    inner = FaultStore(MemoryStore(), first(100))
    store = RetryingStore(inner, clock=Noting(), chance=Top(1), attempts=12)
    with pytest.raises(UnavailableError):
        store.get("a")
    assert sleeps == sorted(sleeps)
    assert len(sleeps) == 11
    assert sleeps[0] == pytest.approx(0.1)
    assert sleeps[1] == pytest.approx(0.2)
    assert sleeps[-1] == pytest.approx(RETRY_DELAY_SECONDS_MAX)
    sleeps.clear()
    with pytest.raises(UnavailableError):
        RetryingStore(FaultStore(MemoryStore(), first(100)), clock=Noting(), chance=SeededChance(1)).get("a")
    assert all(0 <= sleep < 2 for sleep in sleeps)
    assert sleeps != sorted(sleeps)


def test_an_empty_budget_ends_retries_for_all_stores_that_share_it() -> None:
    budget = RetryBudget(3, cost=1, refill=0.5)
    one, two = Case(first(100), budget=budget), Case(first(100), budget=budget)
    for case, requests in ((one, 4), (two, 1)):
        with pytest.raises(UnavailableError):
            case.store.get("a")
        assert case.faults.requests == requests
    healthy = Case({}, budget=budget)
    for _ in range(2):
        healthy.store.get("a")
    assert budget.tokens == 1
    with pytest.raises(UnavailableError):
        two.store.get("a")
    assert two.faults.requests == 3


def test_the_budget_does_not_overflow() -> None:
    budget = RetryBudget(1, refill=0.4)
    for _ in range(5):
        budget.succeed()
    assert budget.take()
    assert not budget.take()


@pytest.mark.parametrize("fault", [Fault.TORN_LIST, Fault.UNAVAILABLE_503, Fault.ANSWER_LOST])
@pytest.mark.parametrize("number", range(1, 7))
def test_a_broken_listing_goes_on_where_it_was(fault: Fault, number: int) -> None:
    case = Case({number: fault})
    keys = ["a", "a-b", "a/1", "a/2", "a0", "b/1", "c"]
    for key in keys[1:]:
        case.inner.put(key, b"1")
    assert [info.key for page in case.store.list() for info in page.objects] == keys
    case = Case({number: fault})
    for key in keys[1:]:
        case.inner.put(key, b"1")
    pages = list(case.store.list(delimiter="/"))
    assert [info.key for page in pages for info in page.objects] == ["a", "a-b", "a0", "c"]
    assert [prefix for page in pages for prefix in page.prefixes] == ["a/", "b/"]


def test_a_listing_that_never_works_ends() -> None:
    case = Case(dict.fromkeys(range(2, 100), Fault.TORN_LIST))
    for key in ("b", "c", "d"):
        case.inner.put(key, b"1")
    pages = case.store.list()
    assert [info.key for info in next(pages).objects] == ["a", "b"]
    with pytest.raises(WormError, match="torn"):
        next(pages)
    assert case.faults.requests == 1 + RETRY_ATTEMPTS_MAX
