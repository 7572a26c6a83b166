from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.rig import COLLECTION, PATHS, Rig, TimedStore, entry_at
from wormdb.engine.log.entries import Log
from wormdb.errors import CorruptionError
from wormdb.settings import TAIL_PROBES_MAX
from wormdb.storage.pool import SerialPool
from wormdb.system.types import LogNumber


@given(st.integers(0, 200), st.integers(0, 30))
def test_a_tail_of_k_costs_k_gets_and_at_most_as_many_misses_in_about_log_k_rounds(tail: int, before: int) -> None:
    rig = Rig()
    rig.fill(before + tail)
    counted = rig.counted()
    rounds = list(Log(counted, PATHS, COLLECTION, SerialPool()).rounds(LogNumber(before)))
    found = [record.number for each in rounds for record in each.records]
    assert found == list(range(before + 1, before + tail + 1))
    assert counted.requests <= 2 * tail + 1
    wide = max(0, tail - TAIL_PROBES_MAX) // TAIL_PROBES_MAX
    assert len(rounds) <= math.log2(tail + 1) + 2 + wide
    assert [each.ended for each in rounds] == [False] * (len(rounds) - 1) + [True]


def test_the_guesses_double() -> None:
    rig = Rig()
    rig.fill(6)
    counted = rig.counted()
    rounds = list(Log(counted, PATHS, COLLECTION, SerialPool()).rounds(LogNumber(0)))
    assert [len(each.records) for each in rounds] == [1, 2, 3]
    assert [int(trace.key[-20:]) for trace in counted.trace] == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("last", range(1, 9))
def test_an_entry_behind_an_empty_slot_is_not_believed(last: int) -> None:
    """It was created while we asked: what counts is that the one before it was not there when we looked."""
    rig = Rig()
    digest = rig.fill(last)
    for number in (last + 2, last + 3):
        rig.store.put(PATHS.entry(LogNumber(number)), entry_at(number, digest))
    rounds = list(rig.log.rounds(LogNumber(0)))
    assert [record.number for each in rounds for record in each.records] == list(range(1, last + 1))


def test_a_stretch_of_the_log_is_whole_or_none() -> None:
    rig = Rig()
    rig.fill(4)
    found = rig.log.between(LogNumber(1), LogNumber(4), rig.register)
    assert found is not None
    assert [record.number for record in found] == [2, 3, 4]
    rig.store.delete(PATHS.entry(LogNumber(3)))
    assert rig.log.between(LogNumber(1), LogNumber(4), rig.register) is None
    assert rig.log.between(LogNumber(3), LogNumber(5), rig.register) is None


def test_a_record_knows_the_hash_that_the_next_entry_must_carry() -> None:
    rig = Rig()
    rig.fill(2)
    first, _ = rig.log.read(LogNumber(1))
    second, probe = rig.log.read(LogNumber(2))
    assert first is not None
    assert second is not None
    assert second.entry.previous == first.hash
    assert probe.time == rig.clock.now_ms()
    assert second.bytes == len(rig.store.get(PATHS.entry(LogNumber(2))).body)


def test_an_empty_slot_is_none() -> None:
    record, probe = Rig().log.read(LogNumber(1))
    assert record is None
    assert probe.found is None


def test_an_entry_in_another_slot_is_damage() -> None:
    rig = Rig()
    rig.store.put(PATHS.entry(LogNumber(2)), entry_at(1, bytes(32)))
    with pytest.raises(CorruptionError) as caught:
        rig.log.read(LogNumber(2))
    assert caught.value.key == PATHS.entry(LogNumber(2))


def test_a_round_has_the_first_and_last_time_of_its_answers() -> None:
    rig = Rig()
    rig.fill(3)
    times = iter([10, 30, 20, 50, 40, 80, 70])
    log = Log(TimedStore(rig.store, lambda: next(times)), PATHS, COLLECTION, SerialPool())
    assert [(each.first, each.last) for each in log.rounds(LogNumber(0))] == [(10, 10), (20, 30), (40, 80)]


def test_one_answer_without_a_time_makes_the_round_timeless() -> None:
    rig = Rig()
    rig.fill(2)
    times = iter([10, None, 20, 30])
    log = Log(TimedStore(rig.store, lambda: next(times)), PATHS, COLLECTION, SerialPool())
    assert [(each.first, each.last) for each in log.rounds(LogNumber(0))] == [(10, 10), (None, None)]


@pytest.mark.parametrize("mark", range(8, 12))
def test_a_slot_far_ahead_tells_what_is_enough_if_it_is_empty(mark: int) -> None:
    rig = Rig()
    rig.fill(9)
    counted = rig.counted()
    found = Log(counted, PATHS, COLLECTION, SerialPool()).round(LogNumber(0), 4, mark=LogNumber(mark))
    assert [int(trace.key[-20:]) for trace in counted.trace] == [mark, 1, 2, 3, 4]
    assert [record.number for record in found.records] == [1, 2, 3, 4]
    assert (found.enough, found.ended) == (mark - 1 if mark > 9 else None, False)


def test_the_time_of_a_slot_far_ahead_is_one_of_the_round() -> None:
    """Knowledge that was recent when the slots were asked for must have been so for this one too."""
    rig = Rig()
    rig.fill(3)
    times = iter([5, 30, 20, 50, 30, 20, None, 30, 20])
    log = Log(TimedStore(rig.store, lambda: next(times)), PATHS, COLLECTION, SerialPool())
    rounds = [log.round(LogNumber(0), 2, mark=LogNumber(9)) for _ in range(3)]
    assert [(each.first, each.last) for each in rounds] == [(5, 30), (20, 50), (None, None)]
