"""Readers of one process share probes of the log: none sees less than was there when it came, none waits for ever."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from tests.engine.rig import HookStore, Rig, contents, insert, save
from wormdb.engine.commit import readers as group_reads
from wormdb.errors import PermissionDeniedError, UnavailableError
from wormdb.system import deadline as deadlines
from wormdb.system.clock import SystemClock
from wormdb.system.deadline import Deadline, within
from wormdb.testing.latency_store import Latency, LatencyProfile, LatencyStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.engine.ledger import Ledger
    from wormdb.errors import WormError

WAIT_SECONDS = 20.0


class Stop(BaseException):
    """Stands for KeyboardInterrupt."""


class Scene:
    """A ledger whose probes of the log are counted, and held while `holds` says so; and threads that read."""

    def __init__(self, count: int = 1) -> None:
        self.rig = Rig()
        self.writer = self.rig.ledger()
        for number in range(count):
            self.writer.commit(self.rig.batch(save("x", n=number + 1)))
        self.written = count
        self.store = HookStore(self.rig.store)
        self.ledger: Ledger = self.rig.ledger(self.store)
        self.ledger.view()
        self.probes: list[str] = []
        self.held: dict[int, threading.Event] = {}
        """The probes that are held before they are sent, by their place; each until its event is set."""
        self.kept: dict[int, threading.Event] = {}
        """Those whose answer is."""
        self.failing: dict[int, BaseException] = {}
        self.seen: dict[str, object] = {}
        self.threads: list[threading.Thread] = []
        self._places: dict[int, int] = {}
        self.store.before, self.store.after = self._before, self._after

    def _before(self, verb: str, key: str) -> None:
        if verb != "probe":
            return
        place = len(self.probes)
        self.probes.append(key.rpartition("/")[2].lstrip("0"))
        self._places[threading.get_ident()] = place
        if place in self.held:
            assert self.held[place].wait(WAIT_SECONDS)
        if place in self.failing:
            raise self.failing[place]

    def _after(self, verb: str, key: str) -> None:
        place = self._places.get(threading.get_ident())
        if verb == "probe" and place in self.kept:
            assert self.kept[place].wait(WAIT_SECONDS)

    def write(self, count: int = 1) -> None:
        """By another process; acknowledged when this returns."""
        for _ in range(count):
            self.written += 1
            self.writer.commit(self.rig.batch(save("x", n=self.written)))

    def read(self, name: str, read: Callable[[], object] | None = None, limit: Deadline | None = None) -> None:
        """In a thread of its own, which gets as far as it can before this returns."""
        group, waiting = self.ledger._readers, len(self.ledger._readers._queue)
        probes = len(self.probes)

        def body() -> None:
            with nullcontext() if limit is None else within(limit):
                try:
                    self.seen[name] = read() if read is not None else self.ledger.view().number
                except BaseException as error:  # noqa: BLE001 - what a thread raised is what is looked at
                    self.seen[name] = error

        thread = threading.Thread(target=body, daemon=True)
        self.threads.append(thread)
        thread.start()
        self.wait_for(lambda: name in self.seen or len(self.probes) > probes or len(group._queue) > waiting)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        moment = threading.Event()
        for _ in range(int(WAIT_SECONDS * 1000)):
            if condition():
                return
            moment.wait(0.001)
        raise AssertionError("it did not come to that")

    def end(self) -> dict[str, object]:
        """Let go of all that is held; what each reader saw."""
        for event in (*self.held.values(), *self.kept.values()):
            event.set()
        for thread in self.threads:
            thread.join(WAIT_SECONDS)
        assert not any(thread.is_alive() for thread in self.threads), "one hangs"
        group = self.ledger._readers
        assert not group._senders
        assert not group._queue
        return self.seen


@pytest.fixture
def _one_probe(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(group_reads, "PROBES_MAX", 1)
    return iter(())


@pytest.mark.usefixtures("_one_probe")
def test_readers_that_come_while_a_probe_is_on_its_way_share_the_next() -> None:
    scene = Scene()
    scene.held[0] = threading.Event()
    for number in range(9):
        scene.read(f"r{number}")
    assert scene.end() == {f"r{number}": 1 for number in range(9)}
    assert scene.probes == ["2", "2"]


def test_a_few_readers_ask_at_once_and_wait_for_no_other() -> None:
    scene = Scene()
    scene.held = {place: threading.Event() for place in range(group_reads.PROBES_MAX)}
    for number in range(group_reads.PROBES_MAX):
        scene.read(f"r{number}")
    scene.held[3].set()
    scene.wait_for(lambda: scene.seen == {"r3": 1})
    assert scene.end() == {f"r{number}": 1 for number in range(4)}
    assert scene.probes == ["2"] * 4


@pytest.mark.usefixtures("_one_probe")
def test_a_probe_that_was_sent_does_not_serve_those_that_come_after() -> None:
    """It says that slot 2 is empty; entry 2 is acknowledged before the second reader comes."""
    scene = Scene()
    scene.kept[0] = threading.Event()
    scene.read("early")
    scene.write()
    scene.read("late")
    assert scene.end() == {"early": 1, "late": 2}


@pytest.mark.usefixtures("_one_probe")
def test_one_reader_catches_up_for_all_that_come_meanwhile() -> None:
    scene = Scene()
    scene.write(4)
    scene.held = {0: threading.Event(), 1: threading.Event()}
    scene.read("first")
    scene.read("second")
    scene.held[0].set()  # it finds entry 2, and asks for 3 and 4
    scene.wait_for(lambda: len(scene.probes) == 2)
    scene.read("third")
    assert scene.end() == {"first": 5, "second": 5, "third": 5}
    assert scene.probes == ["2", "3", "4", "5", "6", "7", "8"]


def test_a_probe_that_was_in_vain_joins_one_that_asks_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_reads, "PROBES_MAX", 2)
    scene = Scene()
    scene.write(2)
    scene.held = {place: threading.Event() for place in range(3)}
    scene.read("first")
    scene.read("second")
    scene.held[0].set()  # entry 2 is there: 3 and 4 are asked for
    scene.wait_for(lambda: len(scene.probes) == 3)
    scene.held[1].set()  # entry 2 is there: no news; the probe of 3 and 4 was sent after this reader came
    scene.wait_for(lambda: len(scene.ledger._readers._senders) == 1)
    assert scene.end() == {"first": 3, "second": 3}
    assert scene.probes == ["2", "2", "3", "4"]


@pytest.mark.usefixtures("_one_probe")
def test_an_interrupt_of_the_sender_is_not_told_to_others() -> None:
    scene = Scene()
    scene.held[0] = threading.Event()
    scene.failing[0] = stop = Stop()
    scene.failing[1] = another = Stop()
    for number in range(5):
        scene.read(f"r{number}")
    seen = scene.end()
    assert seen["r0"] is stop
    assert sorted(map(repr, seen.values())) == sorted(map(repr, [stop, another, 1, 1, 1]))
    assert scene.probes == ["2", "2", "2"]


@pytest.mark.usefixtures("_one_probe")
def test_an_error_of_the_store_is_told_to_those_that_it_would_have_met() -> None:
    """But not to one that came after the request was sent, nor to a commit, which goes on trying."""
    scene = Scene()
    clock = scene.rig.clock
    scene.held = {0: threading.Event(), 1: threading.Event()}
    scene.failing[1] = error = PermissionDeniedError("GET", reason="no right to read")
    scene.read("holder")
    scene.read("first")
    scene.read("second", limit=Deadline(clock, 10, "timeout=10"))
    scene.read("patient", limit=Deadline(clock, 10, "commit_seconds", "steps", is_patient=True))
    scene.held[0].set()
    scene.wait_for(lambda: len(scene.probes) == 2)
    scene.read("later")
    assert scene.end() == {"holder": 1, "first": error, "second": error, "patient": 1, "later": 1}
    assert len(scene.probes) == 3


@pytest.mark.usefixtures("_one_probe")
def test_the_deadline_of_the_sender_is_its_own() -> None:
    scene = Scene()
    clock = scene.rig.clock
    scene.held = {0: threading.Event(), 1: threading.Event()}
    short = Deadline(clock, 1, "timeout=1")
    scene.failing[1] = error = short.passed("GET")
    scene.read("holder")
    scene.read("short", limit=short)
    scene.read("long", limit=Deadline(clock, 100, "timeout=100"))
    scene.held[0].set()
    scene.wait_for(lambda: len(scene.probes) == 2)
    clock.advance(5)
    assert scene.end() == {"holder": 1, "short": error, "long": 1}
    assert len(scene.probes) == 3


@pytest.mark.usefixtures("_one_probe")
def test_each_reader_waits_until_its_own_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(group_reads, "LATE_SECONDS", 1000.0)
    scene = Scene()
    clock = scene.rig.clock
    scene.held[0] = threading.Event()
    scene.read("holder")
    scene.read("short", limit=Deadline(clock, 1, "timeout=1"))
    scene.read("long", limit=Deadline(clock, 100, "timeout=100"))
    clock.advance(5)
    scene.wait_for(lambda: "short" in scene.seen)
    told = scene.seen["short"]
    assert isinstance(told, UnavailableError)
    assert "timeout=1)" in str(told)
    assert len(scene.ledger._readers._queue) == 1, "it left nothing behind"
    assert scene.end() == {"holder": 1, "short": told, "long": 1}


@pytest.mark.usefixtures("_one_probe")
def test_a_probe_that_does_not_come_back_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadlines, "LOOK_SECONDS", 0.01)
    scene = Scene()
    scene.held[0] = threading.Event()
    scene.read("lost")
    for number in range(4):
        scene.read(f"r{number}")
    assert scene.probes == ["2"]
    scene.rig.clock.advance(1.5)
    scene.wait_for(lambda: len(scene.seen) == 4)
    assert scene.probes == ["2", "2"], "one of them asked for all"
    assert scene.end() == {"lost": 1, **{f"r{number}": 1 for number in range(4)}}


@pytest.mark.usefixtures("_one_probe")
def test_an_answer_of_others_does_not_prolong_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own probe is cut off at its deadline; until then it was served by a later one."""
    monkeypatch.setattr(deadlines, "LOOK_SECONDS", 0.01)
    scene = Scene()
    clock = scene.rig.clock
    scene.held[0] = threading.Event()
    short = Deadline(clock, 3, "timeout=3")
    scene.failing[0] = error = short.passed("GET")
    scene.read("short", limit=short)
    scene.read("other")
    clock.advance(1.5)
    scene.wait_for(lambda: "other" in scene.seen)
    clock.advance(5)
    assert scene.end() == {"short": error, "other": 1}


@pytest.mark.usefixtures("_one_probe")
def test_what_another_thread_forgets_is_not_taken_for_an_empty_collection() -> None:
    """Between the answer and the view the root may have been found to be gone."""
    scene = Scene()
    scene.held[0] = threading.Event()
    serve = scene.ledger._readers._serve

    def forgetful(sender: group_reads._Reader, error: WormError | None = None) -> None:
        serve(sender, error)
        scene.ledger._readers._serve = serve  # type: ignore[method-assign] # once
        scene.ledger.forget()

    scene.ledger._readers._serve = forgetful  # type: ignore[method-assign] # another thread at the worst moment
    for number in range(3):
        scene.read(f"r{number}")
    assert scene.end() == {f"r{number}": 1 for number in range(3)}


@pytest.mark.usefixtures("_one_probe")
def test_readers_of_a_new_process_open_it_once() -> None:
    scene = Scene(3)
    scene.ledger.forget()
    scene.held[0] = threading.Event()
    for number in range(6):
        scene.read(f"r{number}")
    assert scene.end() == {f"r{number}": 3 for number in range(6)}
    # The root, entries 1 to 3 in rounds of 1, 2 and 4; then one probe for all others.
    assert len(scene.probes) <= 1 + 7 + 1


def test_a_reader_that_may_see_an_older_state_takes_a_probe_on_its_way() -> None:
    scene = Scene()
    scene.rig.clock.advance(10)
    scene.held[0] = threading.Event()
    scene.read("fresh")
    for number in range(5):
        thread = threading.Thread(
            target=lambda name=f"r{number}": scene.seen.update({name: scene.ledger.view(staleness_ms=5000).number})
        )
        scene.threads.append(thread)
        thread.start()
    (sender,) = scene.ledger._readers._senders
    scene.wait_for(lambda: len(sender.readers) == 5)
    assert scene.end() == {"fresh": 1, **{f"r{number}": 1 for number in range(5)}}
    assert scene.probes == ["2"]
    assert scene.ledger.view(staleness_ms=5000).number == 1
    assert scene.probes == ["2"]
    scene.rig.clock.advance(6)
    assert scene.ledger.view(staleness_ms=5000).number == 1
    assert scene.probes == ["2", "2"]


@pytest.mark.usefixtures("_one_probe")
def test_a_reader_that_reads_a_page_meanwhile_sends_nothing_for_others() -> None:
    """It is served by their probes; and if none came, it sends its own when it has the page."""
    scene = Scene()
    group, reading, go = scene.ledger._readers, threading.Event(), threading.Event()

    def page() -> None:
        reading.set()
        assert go.wait(WAIT_SECONDS)

    scene.held[0] = threading.Event()
    scene.read("holder")
    scene.read("away", lambda: group.view(beside=page).number)
    assert reading.wait(WAIT_SECONDS)
    scene.held[0].set()
    scene.wait_for(lambda: "holder" in scene.seen)
    scene.write()
    scene.read("here")
    scene.wait_for(lambda: scene.seen.get("here") == 2)
    assert scene.probes == ["2", "2", "3", "4"]
    go.set()
    assert scene.end() == {"holder": 1, "here": 2, "away": 2}
    assert scene.probes == ["2", "2", "3", "4"]


def test_a_page_and_the_log_are_asked_for_at_once() -> None:
    scene = Scene()
    done: list[str] = []
    assert scene.ledger._readers.view(beside=lambda: done.append("page")).number == 1
    assert (done, scene.probes) == (["page"], ["2"])
    failed = UnavailableError("page")

    def fail() -> None:
        raise failed

    with pytest.raises(UnavailableError) as caught:
        scene.ledger._readers.view(beside=fail)
    assert caught.value is failed
    assert scene.ledger.view().number == 1
    scene.end()


def test_every_read_of_real_threads_sees_what_was_acknowledged_before() -> None:
    """Writers of two processes; the readers of a third share probes, in which an answer is a while under way."""
    rig, clock = Rig(), SystemClock()
    each = Latency(1.0, 4.0)
    slow = LatencyStore(rig.store, clock=clock, chance=rig.chance, profile=LatencyProfile(*(each,) * 5))
    acknowledged = {"a": 0, "b": 0}
    wrong: list[str] = []
    ledger, is_over = rig.ledger(slow), threading.Event()
    rig.ledger().commit(rig.batch(insert("a", n=0), insert("b", n=0)))

    def write(name: str) -> None:
        own = rig.ledger(slow)
        while not is_over.is_set():
            own.commit(rig.batch(save(name, n=acknowledged[name] + 1)))
            acknowledged[name] += 1

    def read() -> None:
        for _ in range(8):
            least = dict(acknowledged)
            found = contents(ledger.view())
            wrong.extend(name for name, number in least.items() if (found[name][2] or {})["n"] < number)

    readers = [threading.Thread(target=read) for _ in range(12)]
    writers = [threading.Thread(target=write, args=(name,)) for name in acknowledged]
    for thread in (*readers, *writers):
        thread.start()
    for thread in readers:
        thread.join(WAIT_SECONDS)
    is_over.set()
    for thread in writers:
        thread.join(WAIT_SECONDS)
    assert wrong == []
    assert ledger.view().number == 1 + sum(acknowledged.values())
