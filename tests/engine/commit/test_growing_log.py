"""A log that grows as fast as it is read: every read ends, and sees whatever was acknowledged before it began."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engine.rig import COLLECTION, PATHS, HookStore, Rig
from wormdb.engine.log import entries
from wormdb.engine.log.entries import Log
from wormdb.settings import TAIL_PROBES_MAX
from wormdb.storage.pool import SerialPool
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Callable

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
        self.store = HookStore(self.rig.store)
        self.store.before = self._before

    def write(self, count: int) -> None:
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
    assert [slot for slot, after in zip(slots, slots[1:], strict=False) if slot > after] == marks
    # As without these: each entry, and at most as many and one that find nothing.
    assert len(slots) <= 2 * tail + 1
