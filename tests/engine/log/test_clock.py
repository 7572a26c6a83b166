from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wormdb.engine.log.clock import MiscClock
from wormdb.errors import InvalidRequestError
from wormdb.settings import MISC_LEAD_MS_MAX
from wormdb.system.clock import ManualClock
from wormdb.system.types import Misc, StoreTime

DAY = 86_400.0


def test_a_number_is_microseconds_and_the_node() -> None:
    misc = MiscClock(ManualClock(start_ms=1_000), node=7)
    assert misc.next() == 1_000_000 << 8 | 7
    assert misc.node == 7


STEPS = st.one_of(
    st.tuples(st.just("jump"), st.floats(-30 * DAY, 30 * DAY)),
    st.tuples(st.just("pass"), st.floats(0, DAY)),
    st.tuples(st.just("see"), st.floats(-30 * DAY, 3650 * DAY)),
    st.tuples(st.just("tell"), st.floats(-30 * DAY, 30 * DAY)),
    st.tuples(st.just("doubt"), st.just(0.0)),
)


@given(st.lists(STEPS, max_size=30))
def test_numbers_grow_and_no_clock_that_is_ahead_is_followed(steps: list[tuple[str, float]]) -> None:
    """Whatever clocks do: a number is near the wall clock or the store's time, and greater than all that are."""
    clock = ManualClock()
    misc = MiscClock(clock, node=3)
    told: tuple[int, float] | None = None
    heard = [0]
    for step, seconds in steps:
        if step == "jump":
            clock.jump(seconds)
        elif step == "pass":
            clock.advance(seconds)
        elif step == "see":
            heard.append(max(0, int(clock.now_ms() + seconds * 1000) * 1000))
            misc.observe(Misc(heard[-1] << 8))
        elif step == "tell":
            told = max(0, int(clock.now_ms() + seconds * 1000)), clock.monotonic()
            misc.tell(StoreTime(told[0]), is_served=True)
        else:
            told = None
            misc.doubt()
        now_ms = max(clock.now_ms(), 0 if told is None else told[0] + int((clock.monotonic() - told[1]) * 1000))
        latest = (now_ms + MISC_LEAD_MS_MAX) * 1000
        if step == "see" and heard[-1] > latest:
            heard.pop()  # left alone, now and later
        if max(heard) > latest:
            heard = [0]  # this clock was ahead itself, and is not any more: times go back
        given = misc.next()
        assert given & 255 == 3
        assert given >> 8 >= clock.now_ms() * 1000
        assert given >> 8 <= max(latest, *(time_us + len(steps) for time_us in heard))
        assert all(given >> 8 > time_us for time_us in heard)
        heard.append(given >> 8)


def test_the_lead_is_that_over_a_server() -> None:
    clock = ManualClock()
    misc = MiscClock(clock)
    assert misc.lead_ms == 0
    misc.tell(StoreTime(clock.now_ms() - 5_000), is_served=False)
    assert misc.lead_ms == 0, "a folder is no server"
    misc.tell(StoreTime(clock.now_ms() - 5_000), is_served=True)
    misc.tell(None, is_served=True)
    clock.advance(100)
    assert misc.lead_ms == 5_000
    clock.jump(60)
    assert misc.lead_ms == 65_000
    misc.doubt()
    assert misc.lead_ms == 0


@pytest.mark.parametrize("node", [-1, 256])
def test_a_node_id_is_one_byte(node: int) -> None:
    with pytest.raises(InvalidRequestError, match="between 0 and 255"):
        MiscClock(ManualClock(), node)


def test_threads_never_get_the_same_number() -> None:
    misc = MiscClock(ManualClock())
    seen: list[int] = []

    def draw() -> None:
        seen.extend(misc.next() for _ in range(500))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 2_000


def test_the_time_of_the_store_does_not_go_back_for_an_answer_that_was_long_on_its_way() -> None:
    clock = ManualClock(1_000_000)
    misc = MiscClock(clock)
    assert misc.store_ms() == 1_000_000, "no answer has told yet"
    misc.tell(StoreTime(2_000_000), is_served=True)
    clock.advance(3)
    misc.tell(StoreTime(2_001_000), is_served=True)
    assert misc.store_ms() == 2_003_000
    clock.advance(60)
    assert misc.store_ms() == 2_063_000
    misc.tell(StoreTime(2_062_000), is_served=True)
    assert misc.store_ms() == 2_063_000, "it stands still instead"
    clock.advance(2)
    assert misc.store_ms() == 2_064_000
    misc.tell(StoreTime(1_500_000), is_served=True)
    assert misc.store_ms() == 1_500_000, "far away: the time before was wrong"
