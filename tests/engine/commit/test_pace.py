"""Turns of several writers: who writes when, by simulated time; nobody starves, and a writer alone waits for nobody."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.engine.rig import HookStore, Rig, insert, save
from wormdb.engine.commit.turns import RIVALS_SECONDS, STREAK_MAX, TURN_COMMITS, TurnLook, WriterTurns
from wormdb.system.clock import ManualClock, SeededChance

if TYPE_CHECKING:
    from collections.abc import Generator

PUT, GET = 0.05, 0.025


class OwnClock(ManualClock):
    """The clock of one of several: what it sleeps is owed to it, and the others go on meanwhile."""

    def __init__(self, shared: ManualClock) -> None:
        super().__init__()
        self._shared = shared
        self.owed = 0.0

    def monotonic(self) -> float:
        return self._shared.monotonic() + self.owed

    def sleep(self, seconds: float) -> None:
        self.owed += seconds

    def pay(self) -> float:
        owed, self.owed = self.owed, 0.0
        return owed


@dataclass
class Race:
    """A log in simulated time: each writer commits in a loop, one request after the other, by `WriterTurns`.

    A writer yields for how long it is busy, and goes on then: whoever writes a slot last has lost it.
    """

    clock: ManualClock = field(default_factory=ManualClock)
    log: list[str] = field(default_factory=list)
    by: list[int] = field(default_factory=list)
    losses: int = 0

    def writer(self, number: int, commits: int, think: float = 0.0) -> Generator[float]:
        clock = OwnClock(self.clock)
        pace = WriterTurns(clock, SeededChance(number))
        known = 0
        for _ in range(commits):
            yield think
            arrived, losses = clock.monotonic(), 0
            while True:
                while (look := pace.next_look()) is not None:
                    yield look.after_seconds
                    found = self.log[known : known + look.width]
                    yield GET
                    for write_id in found:
                        known += 1
                        pace.heard(known, write_id, 0)
                    pace.looked(GET, look.width, ended=len(found) < look.width)
                pace.leave_gap(known + 1)
                yield clock.pay()
                mine = pace.mark(arrived).ljust(32, "0")
                yield PUT
                if len(self.log) == known:
                    self.log.append(mine)
                    self.by.append(number)
                    known += 1
                    pace.heard(known, mine, 0)
                    pace.won(known, PUT)
                    break
                losses += 1
                self.losses += 1
                yield GET
                pace.lost(PUT + GET)
                through = known + 1
                if losses % 2 == 0:
                    pace.pause_after_loss(losses)
                    yield clock.pay()
                    through = len(self.log)
                    yield GET * (through - known).bit_length()
                for write_id in self.log[known:through]:
                    known += 1
                    pace.heard(known, write_id, 0)

    def run(self, *writers: Generator[float]) -> None:
        waiting = [(0.001 * place, place, writer) for place, writer in enumerate(writers)]
        while waiting:
            moment, place, writer = heapq.heappop(waiting)
            self.clock.advance(max(moment - self.clock.monotonic(), 0))
            busy = next(writer, None)
            if busy is not None:
                heapq.heappush(waiting, (self.clock.monotonic() + busy, place, writer))


@pytest.mark.parametrize("writers", [2, 3, 4, 8])
def test_writers_without_a_break_take_turns_and_nearly_never_lose(writers: int) -> None:
    race = Race()
    race.run(*(race.writer(number, 40) for number in range(writers)))
    total = writers * 40
    assert len(race.log) == total
    assert race.losses <= total / 10 + 4 * writers
    assert race.clock.monotonic() <= total * 2 * (PUT + GET), "the log is busy most of the time"
    half = race.by[: total // 2]
    assert min(half.count(number) for number in range(writers)) >= len(half) / writers / 2, "nobody starves"


def test_nobody_waits_long_for_a_writer_that_is_gone() -> None:
    race = Race()
    race.run(race.writer(0, 4), race.writer(1, 4), race.writer(2, 100))
    assert race.clock.monotonic() <= 108 * PUT * 2


def test_a_newcomer_gets_its_turn_among_those_who_write_without_a_break() -> None:
    race = Race()
    late = race.writer(9, 10, think=1.0)
    race.run(race.writer(0, 100), race.writer(1, 100), late)
    assert race.by.count(9) == 10
    assert race.by[:180].count(9) >= 4, "it did not have to wait until the others had ended"


def test_writers_with_long_breaks_do_not_wait_for_each_other() -> None:
    race = Race()
    race.run(race.writer(0, 20, think=2.0), race.writer(1, 20, think=2.3))
    assert race.clock.monotonic() <= 20 * (2.3 + 4 * (PUT + GET))


def test_a_writer_alone_looks_for_nobody_and_leaves_fewer_and_fewer_gaps() -> None:
    clock = ManualClock()
    pace = WriterTurns(clock, SeededChance(1))
    gaps = []
    for number in range(1, 500):
        assert pace.next_look() is None
        before = clock.monotonic()
        pace.leave_gap(number)
        gaps += [number] if clock.monotonic() > before else []
        write_id = pace.mark(clock.monotonic()).ljust(32, "0")
        assert write_id[8:10] == "00", "it promises nothing that others would wait for"
        clock.advance(PUT)
        pace.heard(number, write_id, 0)
        pace.won(number, PUT)
    between = [after - before for before, after in pairwise(gaps)]
    assert between == sorted(between)
    assert between[-1] == STREAK_MAX


def member(clock: ManualClock, *, left: int) -> WriterTurns:
    """A writer that is in the queue behind another, who has so many commits left of its turn."""
    pace = WriterTurns(clock, SeededChance(1))
    mark = pace.mark(0.0)[:8]
    for number, write_id in enumerate(("aaaaaaaa01", f"{mark}01", f"aaaaaaaa{left:02x}"), 1):
        pace.heard(number, write_id.ljust(32, "0"), 0)
    clock.advance(PUT / 2)
    pace.won(3, PUT)
    pace.looked(GET, 1, ended=True)
    return pace


def test_whose_turn_it_is_writes_at_once_and_the_others_wait_for_the_rest_of_a_turn() -> None:
    clock = ManualClock()
    assert member(clock, left=0).next_look() is None
    assert member(clock, left=1).next_look() is None
    look = member(clock, left=2).next_look()
    assert look is not None
    assert look.width == 1
    assert 0 < look.after_seconds <= PUT + GET


def test_more_than_a_turn_is_not_waited_for() -> None:
    """Such an entry is not of a writer who knows of turns."""
    assert member(ManualClock(), left=TURN_COMMITS + 1).next_look() is None


def test_others_are_forgotten_after_a_while_and_old_entries_are_not_counted() -> None:
    clock = ManualClock()
    pace = member(clock, left=2)
    clock.advance(RIVALS_SECONDS + 1)
    assert pace.next_look() is None
    pace = WriterTurns(clock, SeededChance(1))
    pace.heard(1, "aaaaaaaa00".ljust(32, "0"), 1000 * RIVALS_SECONDS + 1)
    clock.advance(1)
    assert pace.next_look() is None
    pace.heard(2, "aaaaaaaa00".ljust(32, "0"), 0)
    clock.advance(1)
    assert pace.next_look() == TurnLook(0.0, 1), "one look before a write, because somebody else is about"


def test_a_look_before_a_commit_finds_what_a_rival_wrote_and_saves_a_lost_race() -> None:
    rig = Rig()
    store = HookStore(rig.store)
    ledger, rival = rig.ledger(store), rig.ledger()
    ledger.commit(rig.batch(insert("a")))
    rival.commit(rig.batch(insert("b")))
    ledger.view()
    rival.commit(rig.batch(insert("c")))
    rig.clock.advance(1)
    seen: list[str] = []
    store.before = lambda verb, key: seen.append(verb)
    ledger.commit(rig.batch(save("a", n=1)))
    assert seen.count("put") == 1
    assert rig.slots() == [1, 2, 3, 4]
