from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wormdb.clock import ManualClock
from wormdb.engine.misc_clock import MiscClock
from wormdb.errors import InvalidRequestError
from wormdb.types import Misc


def test_a_number_is_microseconds_and_the_node() -> None:
    misc = MiscClock(ManualClock(start_ms=1_000), node=7)
    assert misc.next() == 1_000_000 << 8 | 7
    assert misc.node == 7


@given(st.lists(st.one_of(st.floats(-10, 10), st.integers(0, 2**62)), max_size=30))
def test_numbers_grow_whatever_the_clock_does_and_whatever_was_seen(steps: list[float | int]) -> None:
    clock = ManualClock()
    misc = MiscClock(clock, node=3)
    greatest = 0
    for step in steps:
        if isinstance(step, int):
            misc.observe(Misc(step))
            greatest = max(greatest, step)
        else:
            clock.jump(step)
        given = misc.next()
        # Compared without the node: another node's number of the same microsecond must not tie either.
        assert given >> 8 > greatest >> 8
        assert given & 255 == 3
        greatest = given


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
