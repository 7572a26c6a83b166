"""When a collection is brought forward, by whom, and what becomes of it if the store or another process objects."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pytest

from tests.engine.rig import PATHS, HookStore, Rig, contents, insert, save
from wormdb.engine.commit.define import create_index
from wormdb.engine.forward.keeper import SWAPS_AT_ONCE, Background
from wormdb.engine.ledger import TailLimits
from wormdb.engine.tree.definition import Index
from wormdb.errors import CorruptionError, OutcomeUnknownError, UnavailableError
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.engine.forward.keeper import ForwardMode
    from wormdb.engine.ledger import Ledger


PATIENCE = 120
"""Seconds that a thread is waited for: only a test that fails takes so long."""


def applied(rig: Rig) -> int:
    return rig.register.read().applied


def commit(rig: Rig, ledger: Ledger, count: int = 1) -> None:
    for _ in range(count):
        ledger.commit(rig.batch(save("a", n=rig.chance.fraction())))


class Worker(Background):
    """Keeps what is submitted, to be done when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.submitted: list[str] = []

    def submit(self, name: str, work: object) -> None:
        assert callable(work)
        self.submitted.append(name)
        self.last = work


@pytest.fixture
def background() -> Iterator[Background]:
    worker = Background()
    yield worker
    worker.close()


# --- modes ---


def test_inline_the_caller_brings_the_tail_forward() -> None:
    rig = Rig()
    ledger = rig.ledger(limits=TailLimits(forward_entries=2))
    commit(rig, ledger)
    assert applied(rig) == 0
    commit(rig, ledger)
    assert applied(rig) == 2


def test_manual_nobody_does_until_it_is_asked_for() -> None:
    rig = Rig()
    ledger = rig.ledger(limits=TailLimits(forward_entries=1, forward_bytes=1, mode="manual"))
    commit(rig, ledger, 5)
    assert applied(rig) == 0
    assert ledger.forward() == 5
    assert applied(rig) == 5


@pytest.mark.parametrize("mode", ["inline", "background", "manual"])
def test_at_the_hard_limit_a_commit_makes_room_in_every_mode(mode: ForwardMode) -> None:
    rig = Rig()
    ledger = rig.ledger(
        limits=TailLimits(entries_max=3, forward_entries=100, mode=mode), background=Worker(), stage_bytes=1 << 40
    )
    commit(rig, ledger, 4)
    assert (applied(rig), ledger.known().number) == (3, 4)


def test_in_the_background_the_commit_only_says_that_it_is_due() -> None:
    rig = Rig()
    worker = Worker()
    ledger = rig.ledger(limits=TailLimits(forward_entries=2, mode="background"), background=worker)
    commit(rig, ledger)
    assert worker.submitted == []
    commit(rig, ledger)
    assert worker.submitted == ["things/"]
    assert applied(rig) == 0
    worker.last()
    assert applied(rig) == 2
    worker.last()
    assert applied(rig) == 2, "it is no longer due"


def test_what_is_no_longer_due_costs_no_request() -> None:
    rig = Rig()
    worker = Worker()
    store = rig.counted()
    ledger = rig.ledger(store, TailLimits(forward_entries=2, mode="background"), background=worker)
    commit(rig, ledger, 2)
    ledger.forward()
    before = store.requests
    worker.last()
    assert store.requests == before


def test_the_background_thread_brings_it_forward_and_ends_with_its_database(background: Background) -> None:
    rig = Rig()
    swapped = threading.Event()
    store = HookStore(rig.store)
    store.after = lambda verb, key: swapped.set() if verb == "put" and key == PATHS.root else None
    ledger = rig.ledger(store, TailLimits(forward_entries=1, mode="background"), background=background)
    commit(rig, ledger)
    assert swapped.wait(PATIENCE)
    background.close()
    assert applied(rig) == 1
    assert not any(thread.name == "wormdb-forward" for thread in threading.enumerate())
    rig.clock.advance(2)
    commit(rig, ledger)
    assert applied(rig) == 1, "nothing is done after close"


def test_a_background_mode_without_a_thread_is_inline() -> None:
    rig = Rig()
    ledger = rig.ledger(limits=TailLimits(forward_entries=1, mode="background"))
    commit(rig, ledger)
    assert applied(rig) == 1


# --- the thread ---


def test_the_same_work_never_waits_twice_and_other_work_does(background: Background) -> None:
    entered, go = threading.Event(), threading.Event()
    done: list[str] = []

    def first() -> None:
        entered.set()
        assert go.wait(PATIENCE)
        done.append("first")

    finished = threading.Event()
    background.submit("a", first)
    assert entered.wait(PATIENCE)
    for number in range(3):
        background.submit("a", partial(done.append, f"again {number}"))
    background.submit("b", finished.set)
    go.set()
    assert finished.wait(PATIENCE)
    assert done == ["first", "again 0"], "what runs already does not count as waiting"


def test_closing_finishes_what_runs_and_drops_what_waits(background: Background) -> None:
    entered, go = threading.Event(), threading.Event()
    done: list[str] = []

    def slow() -> None:
        entered.set()
        assert go.wait(PATIENCE)
        done.append("slow")

    background.submit("a", slow)
    background.submit("b", lambda: done.append("dropped"))
    assert entered.wait(PATIENCE)
    closing = threading.Thread(target=background.close)
    closing.start()
    go.set()
    closing.join(PATIENCE)
    assert not closing.is_alive()
    assert done in (["slow"], ["slow", "dropped"])
    background.submit("c", lambda: done.append("late"))
    background.close()
    assert "late" not in done


def test_closing_what_never_worked_is_nothing() -> None:
    Background().close()


def test_the_thread_may_close_itself(background: Background) -> None:
    closed = threading.Event()

    def close() -> None:
        background.close()
        closed.set()

    background.submit("a", close)
    assert closed.wait(PATIENCE)


def test_work_that_fails_is_logged_and_the_thread_goes_on(
    background: Background, caplog: pytest.LogCaptureFixture
) -> None:
    finished = threading.Event()

    def fail() -> None:
        raise UnavailableError("the store", reason="it is away")

    background.submit("things/", fail)
    background.submit("others/", finished.set)
    assert finished.wait(PATIENCE)
    assert "things/: the store: it is away" in caplog.text


# --- one swap a second, but for a few after a rest ---


def test_after_a_rest_a_few_forwardings_do_not_wait_and_those_after_them_do() -> None:
    rig = Rig()
    ledger = rig.ledger()
    for _ in range(SWAPS_AT_ONCE):
        commit(rig, ledger)
        ledger.forward()
    assert rig.clock.monotonic() == 0
    for second in (1, 2):
        commit(rig, ledger)
        ledger.forward()
        assert rig.clock.monotonic() == pytest.approx(second)
    rig.clock.advance(1.5)
    commit(rig, ledger)
    ledger.forward()
    assert rig.clock.monotonic() == pytest.approx(3.5), "long enough ago"


def test_two_indexes_are_built_without_a_wait() -> None:
    rig = Rig()
    ledger = rig.ledger(limits=TailLimits(mode="manual"))
    commit(rig, ledger)
    for name in ("one", "two"):
        ledger.commit(create_index(ledger.batch_id(), Index(name, (name,)), seen=ledger.view()))
        ledger.forward()
    assert [index.name for index in ledger.view().definition.indexes.ready] == ["one", "two"]
    assert applied(rig) == ledger.view().number
    assert rig.clock.monotonic() == 0


def test_a_full_log_is_brought_forward_before_a_build_begins() -> None:
    rig = Rig()
    ledger = rig.ledger(limits=TailLimits(entries_max=2, mode="manual"))
    commit(rig, ledger)
    ledger.commit(create_index(ledger.batch_id(), Index("one", ("one",)), seen=ledger.view()))
    assert applied(rig) == 0
    commit(rig, ledger)  # has to make room, and the build takes entries of the log itself
    assert [index.name for index in ledger.view().definition.indexes.ready] == ["one"]


def test_a_forwarding_with_nothing_to_do_does_not_wait() -> None:
    rig = Rig()
    store = rig.counted()
    ledger = rig.ledger(store)
    commit(rig, ledger)
    ledger.forward()
    before = store.requests
    assert ledger.forward() == 1
    assert store.requests - before == 2
    assert rig.clock.monotonic() == 0


def test_within_the_second_a_commit_skips_what_is_due() -> None:
    rig = Rig()
    store = rig.counted()
    ledger = rig.ledger(store, TailLimits(forward_entries=1))
    commit(rig, ledger)
    assert applied(rig) == 1
    rig.clock.advance(0.999)
    before = store.requests
    ledger.commit(rig.batch(insert("b")))
    assert store.requests - before == 1
    assert applied(rig) == 1
    assert rig.clock.monotonic() == pytest.approx(0.999)
    rig.clock.advance(0.001)
    commit(rig, ledger)
    assert applied(rig) == 3


def test_the_interval_is_a_setting_and_each_processs_own() -> None:
    rig = Rig()
    hasty = rig.ledger(limits=TailLimits(forward_entries=1, interval_ms=0))
    commit(rig, hasty, 3)
    assert applied(rig) == 3
    other = rig.ledger(limits=TailLimits(forward_entries=1))
    commit(rig, other)
    assert applied(rig) == 4, "it has swapped nothing yet itself"
    assert rig.clock.monotonic() == 0


def test_a_swap_that_failed_or_was_lost_leaves_the_state_as_it_was() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    ledger = rig.ledger(store)
    commit(rig, ledger)

    def refuse(verb: str, key: str) -> None:
        if verb == "put" and key == PATHS.root:
            raise UnavailableError("the store", reason="it is away")

    store.before = refuse
    with pytest.raises(UnavailableError):
        ledger.forward()
    store.before = None
    assert ledger.forward() == 1
    assert rig.clock.monotonic() == 0, "what swapped nothing is not waited for"


# --- making room ---


def test_room_is_made_by_whoever_is_at_it_already(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit at the limit waits for the thread that forwards, and does not start another forwarding."""
    rig = Rig()
    store = HookStore(rig.store)
    ledger = rig.ledger(store, TailLimits(entries_max=2, forward_entries=100))
    commit(rig, ledger, 2)
    roots: list[str] = []
    waiting = threading.Thread(target=lambda: ledger.commit(rig.batch(insert("b")), seconds=1e9))
    reached, is_free = threading.Event(), threading.Event()
    sleep = rig.clock.sleep

    def slept(seconds: float) -> None:
        reached.set()
        is_free.wait(PATIENCE)
        sleep(seconds)

    def hold(verb: str, key: str) -> None:
        if verb == "put" and key == PATHS.root:
            roots.append(key)
            if len(roots) == 1:
                waiting.start()
                assert reached.wait(PATIENCE)

    monkeypatch.setattr(rig.clock, "sleep", slept)
    store.before = hold
    assert ledger.forward() == 2
    is_free.set()
    waiting.join(PATIENCE)
    assert not waiting.is_alive()
    assert (len(roots), rig.slots()) == (1, [1, 2, 3])


def test_room_by_bytes() -> None:
    rig = Rig()
    ledger = rig.ledger(limits=TailLimits(bytes_max=1, forward_bytes=1 << 30))
    commit(rig, ledger, 2)
    assert applied(rig) == 1


# --- who else is there ---


@pytest.mark.parametrize("is_waiting", [True, False])
def test_a_root_that_somebody_threw_away_is_made_again(is_waiting: bool) -> None:
    rig = Rig()
    ledger = rig.ledger()
    for number in range(3):
        ledger.commit(rig.batch(insert(f"k{number}", n=number)))
    ledger.forward()
    expected = contents(ledger.view())
    rig.store.delete(PATHS.root)
    if is_waiting:
        ledger.commit(rig.batch(insert("k3", n=3)))
        expected |= {"k3": (4, 1, {"n": 3})}
    assert ledger.forward() == len(expected)
    assert applied(rig) == len(expected)
    for process in (ledger, rig.ledger()):
        assert contents(process.view()) == expected
        assert process.view().count == len(expected)


def test_a_root_that_somebody_set_back_is_brought_forward_again() -> None:
    rig = Rig()
    ledger = rig.ledger()
    ledger.commit(rig.batch(insert("a", n=1)))
    ledger.forward()
    older = rig.store.get(PATHS.root).body
    ledger.commit(rig.batch(save("a", n=2)))
    ledger.forward()
    rig.store.put(PATHS.root, older)
    assert ledger.forward() == 2
    assert applied(rig) == 2
    assert contents(rig.ledger().view()) == {"a": (2, 2, {"n": 2})}


def test_a_root_that_is_gone_with_the_entries_below_it_is_said_to_be_gone() -> None:
    """Nothing is left to make it from: an empty collection would be a lie."""
    rig = Rig()
    ledger = rig.ledger()
    commit(rig, ledger, 3)
    ledger.forward()
    ledger.trim(0)
    rig.clock.advance(7_200)
    assert ledger.trim(0) == 3
    ledger.view()
    rig.store.delete(PATHS.root)
    for _ in range(2):
        with pytest.raises(CorruptionError, match=r"the root .* is gone") as caught:
            ledger.forward()
        assert caught.value.key == PATHS.root
    assert rig.slots() == []


def test_entries_that_come_while_the_root_is_read_are_brought_forward_too() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    ledger, other = rig.ledger(store), rig.ledger()
    commit(rig, ledger)

    def rival(verb: str, key: str) -> None:
        if key == PATHS.root:
            store.before = None
            commit(rig, other, 2)
            other.forward()

    store.before = rival
    assert ledger.forward() == 3
    assert applied(rig) == 3
    assert contents(ledger.view()) == contents(rig.ledger().view())


def test_of_two_that_forward_different_states_the_slower_one_goes_on_from_the_others_root() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    slow, fast = rig.ledger(store), rig.ledger()
    commit(rig, fast)
    slow.view()
    commit(rig, fast)

    def rival(verb: str, key: str) -> None:
        if verb == "put" and key == PATHS.root:
            store.before = None
            root = rig.register.read()
            assert root.applied == 0
            fast.forward()

    store.before = rival
    assert slow.forward() == 2
    commit(rig, slow)
    assert slow.forward() == 3
    assert contents(rig.ledger().view()) == contents(slow.view())


def test_one_that_is_overtaken_every_time_says_so() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    ledger = rig.ledger(store)
    commit(rig, ledger)
    ledger.forward()
    commit(rig, ledger)

    def rival(verb: str, key: str) -> None:
        # As trimming does: it swaps the root and applies nothing.
        if verb == "put" and key == PATHS.root:
            state = rig.register.read()
            assert state.root is not None
            rig.register.swap(state, msgspec.structs.replace(state.root, revision=state.root.revision + 1))

    store.before = rival
    with pytest.raises(UnavailableError, match="others were faster every time"):
        ledger.forward()
    store.before = None
    assert ledger.forward() == 2
    assert contents(rig.ledger().view()) == contents(ledger.view())


def test_a_head_that_is_opened_again_meanwhile_is_not_taken_for_an_empty_collection() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    ledger = rig.ledger(store)
    commit(rig, ledger, 3)

    def forget(verb: str, key: str) -> None:
        # As when another thread's commit has an unknown outcome.
        if key == PATHS.root:
            store.before = None
            ledger._head.forget()

    store.before = forget
    assert ledger.forward() == 3
    assert applied(rig) == 3


def test_a_forwarding_that_fails_is_not_the_commits_failure_in_the_background_either(
    background: Background, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig()
    store = HookStore(rig.store)
    failed = threading.Event()

    def fail(verb: str, key: str) -> None:
        if verb == "put" and key == PATHS.root:
            failed.set()
            raise OutcomeUnknownError("put", reason="no answer")

    store.before = fail
    ledger = rig.ledger(store, TailLimits(forward_entries=1, mode="background"), background=background)
    assert ledger.commit(rig.batch(insert("a"))).number == LogNumber(1)
    assert failed.wait(PATIENCE)
    background.close()
    assert "no answer" in caplog.text
    assert contents(rig.ledger().view()) == {"a": (1, 1, {})}
