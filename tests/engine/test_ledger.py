"""One collection as one process has it: how fresh a view is, and what happens as the tail grows."""

from __future__ import annotations

import threading

import pytest

from tests.engine.rig import PATHS, HookStore, Rig, contents, insert, save
from wormdb.engine.ledger import Ledger, TailLimits
from wormdb.errors import OutcomeUnknownError, PermissionDeniedError, UnavailableError
from wormdb.system.types import LogNumber
from wormdb.testing.fault_store import Fault, FaultStore

# --- how fresh ---


def test_a_view_asks_the_store_each_time_unless_it_may_be_stale() -> None:
    rig = Rig()
    store = rig.counted()
    ledger, other = rig.ledger(store), rig.ledger()
    ledger.view()
    other.commit(rig.batch(insert("a")))
    before = store.requests
    assert contents(ledger.view(staleness_ms=1_000)) == {}
    rig.clock.advance(0.999)
    assert contents(ledger.view(staleness_ms=1_000)) == {}
    assert store.requests == before
    rig.clock.advance(0.001)
    assert list(contents(ledger.view(staleness_ms=1_000))) == ["a"]
    assert store.requests > before


def test_a_stale_view_is_measured_from_the_last_look_not_from_the_last_view() -> None:
    rig = Rig()
    store = rig.counted()
    ledger = rig.ledger(store)
    ledger.view()
    before = store.requests
    for _ in range(10):
        rig.clock.advance(0.3)
        ledger.view(staleness_ms=1_000)
    assert store.requests - before == 2


def test_own_writes_are_in_every_view_however_stale() -> None:
    rig = Rig()
    ledger = rig.ledger()
    ledger.view()
    ledger.commit(rig.batch(insert("a")))
    assert list(contents(ledger.view(staleness_ms=10**9))) == ["a"]
    assert list(contents(ledger.known())) == ["a"]


def test_own_writes_are_in_a_stale_view_even_after_an_unknown_outcome() -> None:
    """Then the process has forgotten what it knew; the root alone, without its tail, must not be shown."""
    rig = Rig()
    store = HookStore(rig.store)
    ledger = rig.ledger(store)
    ledger.commit(rig.batch(insert("a")))

    def lose(verb: str, key: str) -> None:
        raise OutcomeUnknownError(verb) if verb == "put" else UnavailableError(verb)

    store.before = lose
    with pytest.raises(OutcomeUnknownError):
        ledger.commit(rig.batch(insert("b")), seconds=0)
    store.before = None
    seen: list[list[str]] = []
    thread = threading.Thread(target=lambda: seen.append(list(contents(ledger.view(staleness_ms=10**9)))))

    def look(verb: str, key: str) -> None:
        # Another thread reads while this one opens again, between the root and the tail; it waits for this one.
        if key != PATHS.root:
            store.before = None
            thread.start()
            thread.join(0.1)

    store.before = look
    ledger.view(staleness_ms=10**9)
    thread.join(20)
    assert seen == [["a"]]


def test_known_opens_a_collection_once() -> None:
    rig = Rig()
    rig.fill(2)
    store = rig.counted()
    ledger = rig.ledger(store)
    assert ledger.known().number == 2
    before = store.requests
    assert ledger.known().number == 2
    assert store.requests == before


# --- the tail's limits ---


def test_the_tail_is_brought_forward_when_it_is_due() -> None:
    rig = Rig()
    ledger = rig.ledger(limits=TailLimits(forward_entries=4))
    for number in range(1, 10):
        ledger.commit(rig.batch(save("a", n=number)))
        rig.clock.advance(1)
        root = rig.register.read().root
        assert (0 if root is None else root.applied) == number // 4 * 4
    assert contents(rig.ledger().view()) == {"a": (9, 9, {"n": 9})}


def test_the_tail_is_brought_forward_by_bytes_too() -> None:
    rig = Rig()
    ledger = rig.ledger(limits=TailLimits(forward_bytes=1))
    ledger.commit(rig.batch(insert("a")))
    root = rig.register.read().root
    assert root is not None
    assert root.applied == 1


@pytest.mark.parametrize("error", [UnavailableError("put"), OutcomeUnknownError("put"), PermissionDeniedError("put")])
def test_a_forwarding_that_fails_behind_a_commit_is_not_the_commits_failure(error: Exception) -> None:
    rig = Rig()
    store = HookStore(rig.store)
    ledger = rig.ledger(store, TailLimits(forward_entries=1))

    def fail(verb: str, key: str) -> None:
        if verb == "put" and "committed" not in key:
            raise error

    store.before = fail
    assert ledger.commit(rig.batch(insert("a"))).number == 1
    assert ledger.commit(rig.batch(insert("b"))).number == 2
    store.before = None
    assert ledger.commit(rig.batch(insert("c"))).number == 3
    root = rig.register.read().root
    assert root is not None
    assert root.applied == 3


def test_at_the_limit_a_commit_first_makes_room() -> None:
    rig = Rig()
    ledger = rig.ledger(limits=TailLimits(entries_max=3, forward_entries=100))
    for number in range(5):
        ledger.commit(rig.batch(save("a", n=number)))
    root = rig.register.read().root
    assert root is not None
    assert root.applied == 3
    assert rig.clock.monotonic() == 0, "making room oneself needs no waiting"


def test_at_the_limit_a_commit_waits_and_then_says_why_it_cannot_go_on() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    ledger = rig.ledger(store, TailLimits(entries_max=2, forward_entries=100))
    for number in range(2):
        ledger.commit(rig.batch(save("a", n=number)))

    def fail(verb: str, key: str) -> None:
        if verb == "put" and "committed" not in key:
            raise OutcomeUnknownError("put", reason="the disk is full")

    store.before = fail
    with pytest.raises(UnavailableError, match=r"2 log entries wait to be brought forward: .*the disk is full"):
        ledger.commit(rig.batch(save("a", n=9)), seconds=5)
    assert rig.clock.monotonic() >= 5
    assert rig.slots() == [1, 2]


def test_at_the_limit_a_root_that_another_process_made_is_as_good() -> None:
    rig = Rig()
    ledger, other = rig.ledger(limits=TailLimits(entries_max=2, forward_entries=100)), rig.ledger()
    for number in range(2):
        ledger.commit(rig.batch(save("a", n=number)))
    other.forward()
    before = rig.register.read().root
    assert ledger.commit(rig.batch(save("a", n=9)), seconds=5).number == 3
    assert rig.register.read().root == before
    assert rig.clock.monotonic() == 0


def test_one_thread_at_a_time_brings_the_tail_forward() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    ledger = rig.ledger(store, TailLimits(forward_entries=1))
    blocks: list[str] = []
    others: list[threading.Thread] = []

    def commit_meanwhile(verb: str, key: str) -> None:
        if verb == "put" and key.startswith(PATHS.data) and key.endswith(".parquet"):
            blocks.append(key)
            if not others:
                thread = threading.Thread(target=lambda: ledger.commit(rig.batch(insert("b"))))
                others.append(thread)
                thread.start()
                thread.join(20)

    store.before = commit_meanwhile
    ledger.commit(rig.batch(insert("a")))
    assert not others[0].is_alive()
    assert len(blocks) == 1
    assert sorted(contents(rig.ledger().view())) == ["a", "b"]


# --- before the first write ---


def test_the_store_is_asked_before_every_kind_of_write_and_never_before_a_read() -> None:
    rig = Rig()
    asked: list[int] = []

    def opened() -> Ledger:
        ledger = rig.ledger()
        object.__setattr__(ledger._runtime, "before_first_write", lambda: asked.append(1))
        return ledger

    ledger = opened()
    ledger.view()
    list(ledger.feed(LogNumber(0)).poll())
    ledger.resolve(f"1-{'a' * 32}-{'b' * 32}")
    assert asked == []
    ledger.commit(rig.batch(insert("a")))
    ledger.commit(rig.batch(insert("b")))
    assert len(asked) == 1, "once is enough for a ledger"
    opened().forward()
    opened().trim(0)
    opened().resolve(f"3-{'a' * 32}-{'b' * 32}", settle=True)
    assert len(asked) == 4


def test_a_store_that_cannot_be_opened_refuses_everything_and_recovers() -> None:
    rig = Rig()
    store = FaultStore(rig.store, {1: Fault.UNAVAILABLE_503, 2: Fault.UNAVAILABLE_503})
    ledger = rig.ledger(store)
    with pytest.raises(UnavailableError):
        ledger.view()
    with pytest.raises(UnavailableError):
        ledger.commit(rig.batch(insert("a")))
    ledger.commit(rig.batch(insert("a")))
    assert rig.slots() == [1]
