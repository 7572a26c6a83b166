"""Whoever waits at the same time is committed together; nobody waits for ever."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tests.engine.rig import HookStore, Rig, contents, entry_at, insert, save
from wormdb.engine.commit.commit import CommitResult
from wormdb.engine.commit.operations import Pending
from wormdb.engine.commit.resolve import Fate
from wormdb.engine.commit.turns import GroupCommit, _Ticket
from wormdb.engine.log.entries import BEFORE_FIRST
from wormdb.errors import (
    AlreadyExistsError,
    LimitExceededError,
    OutcomeUnknownError,
    UnavailableError,
    WormError,
)
from wormdb.settings import GROUP_BATCHES_MAX
from wormdb.storage.store import OCTETS
from wormdb.system.clock import ManualClock, SystemClock
from wormdb.system.types import LogNumber, Misc

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.engine.commit.commit import Outcome
    from wormdb.storage.store import Precondition, PutResult, Store

WAIT_SECONDS = 20.0


class Stop(BaseException):
    """Stands for KeyboardInterrupt."""


class Gate:
    """A committer whose first commit is held until it is let go; it notes the groups it was given."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.go = threading.Event()
        self.groups: list[list[str]] = []
        self.respond: Callable[[list[Pending]], list[Outcome]] = self.accept

    def accept(self, batches: list[Pending]) -> list[Outcome]:
        return [CommitResult(LogNumber(len(self.groups)), Misc(0), ()) for _ in batches]

    def commit(self, batches: list[Pending], deadline: float) -> list[Outcome]:
        self.groups.append([pending.id for pending in batches])
        if len(self.groups) == 1:
            self.entered.set()
            assert self.go.wait(WAIT_SECONDS)
        return self.respond(batches)


class Crowd:
    """Threads that submit, with what each of them got."""

    def __init__(self, group: GroupCommit) -> None:
        self.group = group
        self.outcomes: dict[str, object] = {}
        self.threads: list[threading.Thread] = []

    def submit(self, name: str, pending: Pending | None = None) -> None:
        def run() -> None:
            try:
                self.outcomes[name] = self.group.submit(pending or Pending(name), 10.0)
            except BaseException as error:  # noqa: BLE001 - what a thread raised is what is looked at
                self.outcomes[name] = error

        thread = threading.Thread(target=run)
        self.threads.append(thread)
        thread.start()

    def wait_for(self, count: int) -> None:
        """Until `count` tickets wait in the queue."""
        ticks = threading.Event()
        for _ in range(2_000):
            if len(self.group._queue) >= count:
                return
            ticks.wait(0.005)
        raise AssertionError(f"{len(self.group._queue)} of {count} came")

    def join(self) -> None:
        for thread in self.threads:
            thread.join(WAIT_SECONDS)
            assert not thread.is_alive(), "a thread waits for ever"


def held_up(names: list[str]) -> tuple[Gate, Crowd]:
    """A leader in the middle of its commit, and `names` waiting behind it."""
    gate = Gate()
    crowd = Crowd(GroupCommit(gate.commit, ManualClock()))
    crowd.submit("first")
    assert gate.entered.wait(WAIT_SECONDS)
    for number, name in enumerate(names, 1):
        crowd.submit(name)
        crowd.wait_for(number)
    return gate, crowd


def test_alone_means_at_once() -> None:
    groups: list[int] = []

    def commit(batches: list[Pending], deadline: float) -> list[Outcome]:
        groups.append(len(batches))
        return [CommitResult(LogNumber(1), Misc(0), ())]

    clock = ManualClock()
    group = GroupCommit(commit, clock)
    for name in "abc":
        assert isinstance(group.submit(Pending(name), 1.0), CommitResult)
    assert groups == [1, 1, 1]
    assert clock.monotonic() == 0


def test_whoever_waits_is_committed_together_in_the_order_of_coming() -> None:
    gate, crowd = held_up(["b", "c", "d"])
    gate.go.set()
    crowd.join()
    assert gate.groups == [["first"], ["b", "c", "d"]]
    assert all(isinstance(outcome, CommitResult) for outcome in crowd.outcomes.values())


def test_each_gets_its_own_outcome() -> None:
    gate, crowd = held_up(["b", "c"])

    def respond(batches: list[Pending]) -> list[Outcome]:
        return [AlreadyExistsError(p.id) if p.id == "c" else CommitResult(LogNumber(1), Misc(0), ()) for p in batches]

    gate.respond = respond
    gate.go.set()
    crowd.join()
    assert isinstance(crowd.outcomes["b"], CommitResult)
    assert isinstance(crowd.outcomes["c"], AlreadyExistsError)


def test_an_error_before_anything_was_sent_is_everybodys() -> None:
    gate, crowd = held_up(["b", "c"])

    def respond(batches: list[Pending]) -> list[Outcome]:
        raise UnavailableError("open")

    gate.respond = respond
    gate.go.set()
    crowd.join()
    assert {type(outcome) for outcome in crowd.outcomes.values()} == {UnavailableError}


@pytest.mark.parametrize(("fate", "expected"), [("7-aa-bb", "OutcomeUnknownError"), (None, "UnavailableError")])
def test_a_leader_that_is_interrupted_leaves_the_others_with_what_is_known_and_a_new_leader(
    fate: str | None, expected: str
) -> None:
    gate, crowd = held_up(["b", "c"])
    crowd.group._fate_of = lambda _: fate
    calls: list[int] = []

    def respond(batches: list[Pending]) -> list[Outcome]:
        calls.append(len(batches))
        if len(calls) == 2:
            crowd.submit("d")
            crowd.wait_for(1)
            raise Stop
        return gate.accept(batches)

    gate.respond = respond
    gate.go.set()
    crowd.join()
    for thread in crowd.threads:
        thread.join(WAIT_SECONDS)
    assert isinstance(crowd.outcomes["first"], CommitResult)
    assert sorted(type(crowd.outcomes[name]).__name__ for name in "bc") == sorted([expected, "Stop"])
    assert isinstance(crowd.outcomes["d"], CommitResult)


def test_one_that_is_interrupted_while_it_waits_does_not_become_a_leader_that_never_comes() -> None:
    gate, crowd = held_up([])
    group = crowd.group
    tickets: list[object] = []

    def give_up() -> None:
        real = threading.Event.wait
        try:
            with pytest.MonkeyPatch.context() as patch:

                def wait(event: threading.Event, timeout: float | None = None) -> bool:
                    if threading.current_thread().name == "impatient":
                        tickets.extend(group._queue)
                        raise Stop
                    return real(event, timeout)

                patch.setattr(threading.Event, "wait", wait)
                group.submit(Pending("impatient"), 1.0)
        except Stop:
            crowd.outcomes["impatient"] = "stopped"

    thread = threading.Thread(target=give_up, name="impatient")
    thread.start()
    thread.join(WAIT_SECONDS)
    assert crowd.outcomes == {"impatient": "stopped"}
    assert len(tickets) == 1
    crowd.submit("b")
    crowd.wait_for(1)
    gate.go.set()
    crowd.join()
    assert gate.groups == [["first"], ["b"]]
    assert isinstance(group.submit(Pending("later"), 1.0), CommitResult)


def test_a_leader_that_is_interrupted_while_it_gathers_hands_over() -> None:
    class Impatient(ManualClock):
        def sleep(self, seconds: float) -> None:
            raise Stop

    gate = Gate()
    gate.go.set()
    group = GroupCommit(gate.commit, Impatient())
    group._last_size = 2
    with pytest.raises(Stop):
        group.submit(Pending("a"), 1.0)
    group._last_size = 1
    assert isinstance(group.submit(Pending("b"), 1.0), CommitResult)
    assert gate.groups == [["b"]]


def test_a_group_has_a_bound_in_batches() -> None:
    group = GroupCommit(Gate().commit, ManualClock())
    group._queue.extend(_Ticket(Pending(str(number)), 1.0) for number in range(GROUP_BATCHES_MAX + 5))
    assert len(group._take(group._queue[0])) == GROUP_BATCHES_MAX
    assert len(group._queue) == 5


def test_a_group_has_a_bound_in_bytes_but_takes_one_at_least() -> None:
    group = GroupCommit(Gate().commit, ManualClock())
    large = Pending("x", (insert("a", text="x" * 15_000_000),))
    group._queue.extend(_Ticket(large, 1.0) for _ in range(3))
    assert [len(group._take(group._queue[0])) for _ in range(3)] == [1, 1, 1]
    group._queue.extend([_Ticket(Pending("y"), 1.0), _Ticket(large, 1.0), _Ticket(large, 1.0)])
    assert [len(group._take(group._queue[0])) for _ in range(2)] == [2, 1]


def test_batches_that_are_too_much_for_one_entry_together_are_committed_alone() -> None:
    rig = Rig()
    ledger = rig.ledger(stage_bytes=1_000_000_000)
    text = "x" * 14_000_000
    for name in "abc":
        ledger.commit(rig.batch(insert(name, text=text)))
    group = ledger._group
    tickets = [rig.batch(save(name, text="y" * 10_000_000)) for name in "abc"]
    tickets.append(rig.batch(insert("a")))
    waiting = [_Ticket(pending, 1e9) for pending in tickets]
    group._queue.extend(waiting)
    group._take = lambda leader: [group._queue.pop(0) for _ in range(len(group._queue))]  # type: ignore[method-assign] # whatever its size
    with pytest.raises(LimitExceededError):
        ledger._committer.commit(tickets, 1e9)
    group._lead(waiting[0])
    assert [type(ticket.outcome) for ticket in waiting] == [CommitResult] * 3 + [AlreadyExistsError]
    assert rig.slots() == [1, 2, 3, 4, 5, 6]


def test_many_threads_share_few_entries_and_lose_nothing() -> None:
    rig = Rig(clock=SystemClock())  # type: ignore[arg-type] # real time, because real threads wait
    store = HookStore(rig.store)
    pause = threading.Event()
    puts: list[str] = []

    def slow(verb: str, key: str) -> None:
        if verb == "put":
            puts.append(key)
            pause.wait(0.01)

    store.before = slow
    ledger = rig.ledger(store)
    errors: list[WormError] = []

    def work(name: str) -> None:
        for number in range(10):
            try:
                ledger.commit(rig.batch(insert(f"{name}{number}")))
                ledger.commit(rig.batch(save("shared", by=name)))
                ledger.commit(rig.batch(insert("once", by=name)))
            except AlreadyExistsError as error:
                errors.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcdefgh"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    found = contents(rig.ledger().view())
    assert sorted(found) == sorted(
        [f"{name}{number}" for name in "abcdefgh" for number in range(10)] + ["shared", "once"]
    )
    assert found["shared"][1] == 80
    assert found["once"][1] == 1
    assert len(errors) == 79
    assert len(puts) < 100, "161 changes by 8 threads must share entries"


# --- deadlines ---


def at_deadline(group: GroupCommit, clock: ManualClock, pending: Pending, deadline: float) -> object:
    """Submit in a thread of its own; the outcome, once its time is over."""
    outcome: list[object] = []
    thread = threading.Thread(target=lambda: outcome.append(group.submit(pending, deadline)))
    thread.start()
    thread.join(WAIT_SECONDS)
    assert not thread.is_alive(), "it waits for ever"
    return outcome[0]


def test_one_that_waits_in_the_queue_ends_at_its_own_deadline_and_nothing_was_written() -> None:
    gate, crowd = held_up(["patient"])
    outcome = at_deadline(crowd.group, ManualClock(), Pending("hurried"), 0.01)
    assert isinstance(outcome, UnavailableError)
    assert "nothing was written" in outcome.reason
    gate.go.set()
    crowd.join()
    assert gate.groups == [["first"], ["patient"]]


def test_the_one_with_the_most_time_leads_and_takes_nobody_who_has_much_more() -> None:
    gate = Gate()
    crowd = Crowd(GroupCommit(gate.commit, ManualClock()))
    crowd.submit("first")
    assert gate.entered.wait(WAIT_SECONDS)
    deadlines = {"short": 11.0, "long": 60.0, "middle": 30.0}
    for number, (name, deadline) in enumerate(deadlines.items(), 1):
        thread = threading.Thread(
            target=lambda name=name, deadline=deadline: crowd.group.submit(Pending(name), deadline)
        )
        crowd.threads.append(thread)
        thread.start()
        crowd.wait_for(number)
    assert [ticket.pending.id for ticket in crowd.group._take(crowd.group._queue[0])] == ["short"]
    gate.go.set()
    # `short` was taken out of the queue here, and is nobody's any more.
    for thread in (crowd.threads[0], *crowd.threads[2:]):
        thread.join(WAIT_SECONDS)
    assert gate.groups == [["first"], ["long", "middle"]]


class Slow(HookStore):
    """The first PUT of an entry waits until it is let go."""

    def __init__(self, inner: Store, lands: bool) -> None:
        super().__init__(inner)
        self.entered, self.go = threading.Event(), threading.Event()
        self.lands = lands

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        if "/committed/" in key and not self.entered.is_set():
            self.entered.set()
            assert self.go.wait(WAIT_SECONDS)
            if not self.lands:
                # Somebody else was faster.
                self._inner.put(key, entry_at(1, BEFORE_FIRST), precondition, content_type=content_type)
        return super().put(key, body, precondition, content_type=content_type)


@pytest.mark.parametrize("lands", [True, False])
def test_one_whose_batch_is_on_its_way_is_told_its_commit_id_and_that_is_true(lands: bool) -> None:
    """Also if the entry loses its slot: the batch must not go on to the next one behind the back of its caller."""
    rig = Rig(clock=SystemClock())  # type: ignore[arg-type] # real time, because real threads wait
    store = Slow(rig.store, lands)
    ledger = rig.ledger(store=store)
    group = ledger._group
    outcomes: dict[str, object] = {}
    clock = SystemClock()

    def submit(name: str, seconds: float) -> None:
        outcomes[name] = group.submit(rig.batch(insert(name)), clock.monotonic() + seconds)

    group._gather = lambda: Crowd(group).wait_for(2)  # type: ignore[method-assign] # both are in one entry
    threads = [
        threading.Thread(target=submit, args=("slow", 60.0)),
        threading.Thread(target=submit, args=("hurried", 0.1)),
    ]
    threads[0].start()
    Crowd(group).wait_for(1)
    threads[1].start()
    assert store.entered.wait(WAIT_SECONDS)
    del group.__dict__["_gather"]
    threads[1].join(WAIT_SECONDS)
    told = outcomes["hurried"]
    assert isinstance(told, OutcomeUnknownError)
    assert told.commit_id is not None
    store.go.set()
    threads[0].join(WAIT_SECONDS)
    fate = ledger.resolve(told.commit_id)
    assert (fate is Fate.COMMITTED) == lands
    assert ("hurried" in contents(ledger.view())) == lands
    assert isinstance(outcomes["slow"], CommitResult)
