"""A log that grows as fast as it is read: every read ends, and sees whatever was acknowledged before it began."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.engine.rig import COLLECTION, PATHS, HookStore, Rig
from wormdb.engine.commit import readers as group_reads
from wormdb.engine.log import entries
from wormdb.engine.log.entries import Log
from wormdb.settings import TAIL_PROBES_MAX
from wormdb.storage.pool import SerialPool
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Callable

WAIT_SECONDS = 20.0
WIDTH = 8
"""How wide rounds are here at most, in most tests."""


@pytest.fixture
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "TAIL_PROBES_MAX", WIDTH)


class GrowingLog:
    """A log to which others add `speed` entries before each slot of it is asked for."""

    PROBES_MAX = 8_000

    def __init__(self, speed: int) -> None:
        self.rig = Rig()
        self.speed = speed
        self.written = 0
        self.slots: list[int] = []
        self.digest = bytes(32)
        self.lock = threading.Lock()
        self.store = HookStore(self.rig.store)
        self.store.before = self._before

    def write(self, count: int) -> None:
        """Acknowledged when this returns."""
        with self.lock:
            self.digest = self.rig.fill(count, start=self.written + 1, previous=self.digest)
            self.written += count

    def _before(self, verb: str, key: str) -> None:
        if verb == "probe" and key != PATHS.root:
            self.slots.append(int(key[-20:]))
            assert len(self.slots) < self.PROBES_MAX, "it follows the log for as long as there is news"
            self.write(self.speed)

    @property
    def log(self) -> Log:
        return Log(self.store, PATHS, COLLECTION, SerialPool())


def refresh(growing: GrowingLog) -> int:
    head = growing.rig.ledger(growing.store)._head
    head.refresh()
    assert head.caught_up
    return head.number


def view(growing: GrowingLog) -> int:
    return growing.rig.ledger(growing.store).view().number


def rounds(growing: GrowingLog) -> int:
    return max((record.number for each in growing.log.rounds(LogNumber(0)) for record in each.records), default=0)


def poll(growing: GrowingLog) -> int:
    feed = growing.rig.ledger(growing.store).feed(LogNumber(0))
    return max((record.number for record in feed.poll()), default=0)


READS = [refresh, view, rounds, poll]


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("speed", [1, 2, 5, 12])
@pytest.mark.usefixtures("_narrow")
def test_a_read_ends_however_fast_others_write(read: Callable[[GrowingLog], int], speed: int) -> None:
    """Each slot is filled before it is asked for, so no round finds the end."""
    growing = GrowingLog(speed)
    growing.write(3 * WIDTH)
    seen = read(growing)
    assert seen >= 3 * WIDTH
    assert seen < growing.written, "then it found the end, and nothing was proved"
    # Slots far ahead are asked for at twice the distance each time, so it goes at most about twice as far as it must.
    assert seen <= 4 * speed * WIDTH * (speed.bit_length() + 4)
    assert len(growing.slots) <= seen + seen // WIDTH


@pytest.mark.parametrize("read", READS)
def test_a_read_ends_with_rounds_of_the_usual_width(read: Callable[[GrowingLog], int]) -> None:
    growing = GrowingLog(2)
    growing.write(1100)
    assert 1100 <= read(growing) <= 24 * TAIL_PROBES_MAX
    assert growing.written > 2 * 1100


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize(
    ("tail", "marks"),
    [
        (0, []),
        (2 * WIDTH - 2, []),
        (2 * WIDTH - 1, [4 * WIDTH - 1]),
        (3 * WIDTH - 2, [4 * WIDTH - 1]),
        (3 * WIDTH - 1, [4 * WIDTH - 1]),
        (4 * WIDTH - 1, [4 * WIDTH - 1, 7 * WIDTH - 1]),
        (10 * WIDTH, [4 * WIDTH - 1, 7 * WIDTH - 1, 12 * WIDTH - 1]),
    ],
)
@pytest.mark.usefixtures("_narrow")
def test_a_slot_far_ahead_is_asked_for_only_where_rounds_grow_no_more(
    read: Callable[[GrowingLog], int], tail: int, marks: list[int]
) -> None:
    """Once for each round until one is empty; where no others write, every reader sees the end."""
    growing = GrowingLog(0)
    growing.write(tail)
    assert read(growing) == tail
    slots = growing.slots
    assert [slot for slot, after in pairwise(slots) if slot > after] == marks
    # As without these: each entry, and at most as many and one that find nothing.
    assert len(slots) <= 2 * tail + 1


# --- readers that share rounds ---


class SharedRounds:
    """Readers of one process: one that follows the log, perhaps a second that waits for it, and one that comes late.

    That is when the slot far ahead was just found empty: then entries land beyond it, and are acknowledged. If the late
    one may send a probe of its own, that is held until the round of the first is over.
    """

    def __init__(self, width: int, tail: int, *, has_second: bool) -> None:
        self.growing = GrowingLog(1)
        self.growing.write(tail)
        self.width = width
        self.bound = self.least = 0
        self.seen: dict[str, int] = {}
        self.asked: dict[str, list[int]] = {}
        """The slots that each has asked for since the one far ahead was found empty."""
        self.ledger = self.growing.rig.ledger(self.growing.store)
        self._grow = self.growing._before
        self._threads: list[threading.Thread] = []
        self._over = threading.Event()
        self._left = 0
        self._has_second = has_second
        self.growing.store.before, self.growing.store.after = self._before, self._after

    def read(self) -> None:
        self._start("first")
        for thread in self._threads:
            thread.join(WAIT_SECONDS)
        assert not any(thread.is_alive() for thread in self._threads), "one hangs"

    def _start(self, name: str) -> None:
        thread = threading.Thread(target=self._see, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _see(self) -> None:
        self.seen[threading.current_thread().name] = self.ledger.view().number

    def _before(self, verb: str, key: str) -> None:
        self._grow(verb, key)
        name = threading.current_thread().name
        if name == "late":
            assert self._over.wait(WAIT_SECONDS)
        if self.bound and key != PATHS.root:
            self.asked.setdefault(name, []).append(int(key[-20:]))
        if name == "first" and self.bound:
            self._left -= 1
            if not self._left:
                self._over.set()

    def _after(self, verb: str, key: str) -> None:
        growing = self.growing
        if threading.current_thread().name != "first" or key == PATHS.root:
            return
        if self._has_second and len(self._threads) == 1:
            self._join("second")
        if not self.bound and int(key[-20:]) > growing.written:
            self.bound, self._left = int(key[-20:]), self.width + 1
            growing.write(self.bound - growing.written + 3 * self.width)
            self.least = growing.written
            self._join("late")

    def _join(self, name: str) -> None:
        """Start a reader, and wait until it waits or has sent its probe."""
        group = self.ledger._readers
        others = len(group._queue) + len(group._senders)
        self._start(name)
        for _ in range(int(WAIT_SECONDS * 1000)):
            if len(group._queue) + len(group._senders) > others:
                return
            threading.Event().wait(0.001)
        raise AssertionError(f"{name} did not come")


@pytest.mark.parametrize("probes", [1, 2, 4])
@pytest.mark.parametrize(("width", "tail"), [(WIDTH, 3 * WIDTH), (WIDTH, 9 * WIDTH), (TAIL_PROBES_MAX, 1100)])
def test_a_bound_is_not_that_of_readers_that_came_after_it_was_found(
    monkeypatch: pytest.MonkeyPatch, width: int, tail: int, probes: int
) -> None:
    monkeypatch.setattr(entries, "TAIL_PROBES_MAX", width)
    monkeypatch.setattr(group_reads, "PROBES_MAX", probes)
    scene = SharedRounds(width, tail, has_second=probes == 1)
    scene.read()
    assert min(scene.seen.values()) >= scene.bound - 1
    rounds = (scene.bound - scene.asked["first"][0]) // width + 1
    assert len(scene.asked["first"]) <= rounds * (width + 1), "it asked for more than it had to see"
    assert scene.seen["late"] >= scene.least, "it came after these were acknowledged"
    assert "second" not in scene.asked, "the bound of the first was enough for it"
