"""The fault store: each fault does exactly what it says, once, and is traced."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wormdb.errors import AlreadyExistsError, ConflictError, OutcomeUnknownError, UnavailableError, WormError
from wormdb.storage.memory import MemoryStore
from wormdb.storage.store import ByteRange, IfAbsent, IfMatch
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash, Trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.storage.store import Store

READS: dict[str, Callable[[Store], object]] = {
    "get": lambda store: store.get("a"),
    "get_range": lambda store: store.get_range("a", ByteRange(0, 1)),
    "get_ranges": lambda store: store.get_ranges("a", [ByteRange(0, 1)]),
    "probe": lambda store: store.probe("a"),
    "head": lambda store: store.head("a"),
    "list": lambda store: list(store.list()),
}
WRITES: dict[str, Callable[[Store], object]] = {
    "put": lambda store: store.put("new", b"2", IfAbsent()),
    "delete": lambda store: store.delete("a"),
    "delete_many": lambda store: store.delete_many(["a"]),
}
VERBS = READS | WRITES


def filled() -> MemoryStore:
    inner = MemoryStore()
    inner.put("a", b"1")
    return inner


def state(store: Store) -> dict[str, bytes]:
    return {info.key: store.get(info.key).body for page in store.list() for info in page.objects}


def after(verb: str) -> dict[str, bytes]:
    inner = filled()
    VERBS[verb](inner)
    return state(inner)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(("fault", "is_done"), [(Fault.CRASH_BEFORE, False), (Fault.CRASH_AFTER, True)])
def test_a_crash_ends_the_process(verb: str, fault: Fault, is_done: bool) -> None:
    inner = filled()
    store = FaultStore(inner, {1: fault})
    with pytest.raises(SimulatedCrash):
        VERBS[verb](store)
    for later in VERBS.values():
        with pytest.raises(SimulatedCrash, match="dead"):
            later(store)
    assert state(inner) == (after(verb) if is_done else state(filled()))
    assert store.requests == 1
    restarted = FaultStore(inner)
    assert state(restarted) == state(inner)


def test_no_handler_of_errors_catches_a_crash() -> None:
    assert not issubclass(SimulatedCrash, Exception)


@pytest.mark.parametrize("verb", VERBS)
def test_a_lost_answer_was_executed(verb: str) -> None:
    inner = filled()
    with pytest.raises(OutcomeUnknownError if verb == "put" else UnavailableError):
        VERBS[verb](FaultStore(inner, {1: Fault.ANSWER_LOST}))
    assert state(inner) == after(verb)


def test_a_lost_answer_may_have_been_a_refusal() -> None:
    inner = filled()
    with pytest.raises(OutcomeUnknownError):
        FaultStore(inner, {1: Fault.ANSWER_LOST}).put("a", b"2", IfAbsent())
    assert state(inner) == {"a": b"1"}


@pytest.mark.parametrize("verb", VERBS)
def test_a_late_request_lands_when_told(verb: str) -> None:
    inner = filled()
    store = FaultStore(inner, {1: Fault.LANDS_LATE})
    with pytest.raises(OutcomeUnknownError if verb == "put" else UnavailableError):
        VERBS[verb](store)
    assert state(inner) == {"a": b"1"}
    assert store.land() == (1 if verb in WRITES else 0)
    assert state(inner) == after(verb)
    assert store.land() == 0


def test_a_late_request_lands_after_others() -> None:
    inner = filled()
    store = FaultStore(inner, {1: Fault.LANDS_LATE}, late_after=2)
    with pytest.raises(OutcomeUnknownError):
        store.put("late", b"1", IfAbsent())
    for _ in range(2):
        assert store.probe("late").found is None
    assert store.probe("late").found is not None


def test_a_late_request_lands_after_a_crash_too_and_may_lose() -> None:
    inner = filled()
    store = FaultStore(inner, {1: Fault.LANDS_LATE, 2: Fault.LANDS_LATE, 3: Fault.CRASH_BEFORE})
    for key in ("x", "y"):
        with pytest.raises(OutcomeUnknownError):
            store.put(key, b"late", IfAbsent())
    with pytest.raises(SimulatedCrash):
        store.get("a")
    inner.put("x", b"first")
    assert store.land() == 2
    assert state(inner) == {"a": b"1", "x": b"first", "y": b"late"}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("fault", [Fault.THROTTLED_429, Fault.UNAVAILABLE_503])
def test_a_refusal_does_nothing_and_the_next_request_works(verb: str, fault: Fault) -> None:
    inner = filled()
    store = FaultStore(inner, {1: fault})
    with pytest.raises(UnavailableError, match=str(fault)):
        VERBS[verb](store)
    assert state(inner) == {"a": b"1"}
    VERBS[verb](store)
    assert state(inner) == after(verb)


def test_a_conflict_decides_nothing() -> None:
    inner = filled()
    store = FaultStore(inner, {1: Fault.CONFLICT_409, 2: Fault.CONFLICT_409})
    for condition in (IfAbsent(), IfMatch(inner.get("a").version)):
        with pytest.raises(UnavailableError, match="409"):
            store.put("a", b"2", condition)
    assert state(inner) == {"a": b"1"}


def test_a_race_is_lost_to_a_real_rival() -> None:
    inner = filled()
    store = FaultStore(inner, {1: Fault.RACE_412, 2: Fault.RACE_412})
    with pytest.raises(AlreadyExistsError):
        store.put("new", b"ours", IfAbsent())
    with pytest.raises(ConflictError):
        store.put("a", b"ours", IfMatch(inner.get("a").version))
    found = state(inner)
    assert all(b"rival" in body for body in found.values())
    assert found["new"] != found["a"]


@pytest.mark.parametrize(
    ("fault", "verbs"),
    [
        (Fault.RACE_412, ["get", "list", "delete"]),
        (Fault.CONFLICT_409, ["get", "list", "delete"]),
        (Fault.TORN_LIST, ["get", "put", "delete"]),
        (Fault.STALE_LIST, ["get", "put", "delete"]),
    ],
)
def test_what_cannot_happen_does_not(fault: Fault, verbs: list[str]) -> None:
    for verb in verbs:
        inner = filled()
        store = FaultStore(inner, {1: fault})
        VERBS[verb](store)
        assert store.fired == ()
        assert state(inner) == after(verb)
    unconditional = FaultStore(filled(), dict.fromkeys((1, 2), fault))
    unconditional.put("a", b"2")
    assert unconditional.get("a").body == b"2"


def listed(number: int) -> MemoryStore:
    inner = MemoryStore()
    for index in range(number):
        inner.put(f"k{index}", b"")
    return inner


def test_a_torn_list_ends_between_pages() -> None:
    store = FaultStore(listed(5), {2: Fault.TORN_LIST}, page_keys=2)
    pages = store.list()
    assert [info.key for info in next(pages).objects] == ["k0", "k1"]
    with pytest.raises(UnavailableError, match="torn"):
        next(pages)
    assert [info.key for page in store.list(after="k1") for info in page.objects] == ["k2", "k3", "k4"]
    assert store.requests == 4


def test_a_stale_list_misses_what_was_written_since() -> None:
    store = FaultStore(listed(4), {2: Fault.STALE_LIST}, page_keys=2)
    store._inner.put("k9", b"")
    pages = store.list()
    assert [info.key for info in next(pages).objects] == ["k0", "k1"]
    assert [info.key for page in pages for info in page.objects] == ["k2", "k3", "k9"]
    store = FaultStore(listed(2), {3: Fault.STALE_LIST}, page_keys=1)
    pages = store.list()
    next(pages)
    store.put("k1", b"written during the listing")
    assert [info.key for page in pages for info in page.objects] == []
    assert [info.key for page in store.list() for info in page.objects] == ["k0", "k1"]


def test_small_pages_keep_order_and_folders() -> None:
    inner = MemoryStore()
    for key in ("a-b", "a/1", "a0", "b/1", "c"):
        inner.put(key, b"")
    pages = list(FaultStore(inner, page_keys=2).list(delimiter="/"))
    assert [([info.key for info in page.objects], page.prefixes) for page in pages] == [
        (["a-b"], ("a/",)),
        (["a0"], ("b/",)),
        (["c"], ()),
    ]


def test_a_store_that_ignores_preconditions() -> None:
    inner = filled()
    store = FaultStore(inner, ignores_preconditions=True)
    stale = inner.get("a").version
    store.put("a", b"2", IfAbsent())
    store.put("a", b"3", IfMatch(stale))
    assert state(inner) == {"a": b"3"}


def test_the_trace_tells_everything_in_order() -> None:
    store = FaultStore(filled(), {2: Fault.UNAVAILABLE_503, 4: Fault.TORN_LIST})
    store.get("a")
    for call in (lambda: store.head("a"), lambda: store.get("missing"), lambda: list(store.list("x/"))):
        with pytest.raises(WormError):
            call()
    assert store.trace == (
        Trace(1, "get", "a", None, ""),
        Trace(2, "head", "a", Fault.UNAVAILABLE_503, "UnavailableError"),
        Trace(3, "get", "missing", None, "NotFoundError"),
        Trace(4, "list", "x/", Fault.TORN_LIST, "UnavailableError"),
    )
    assert store.fired == (Fault.UNAVAILABLE_503, Fault.TORN_LIST)
