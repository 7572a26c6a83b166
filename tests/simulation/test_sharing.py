"""Threads of one process that share what is kept of lists: each is told of a state that it met, whoever came first."""

from __future__ import annotations

import pytest

from tests.simulation.seeds import chunks
from tests.simulation.sharing import REFUSED, play_sharing

FIRST = 19
"""Where one thread takes the tail of another for lists, about every sixth seed shows it: 19 and 22 do."""


@pytest.mark.parametrize("seeds", chunks(FIRST, FIRST + 4, FIRST + 400, 4))
def test_every_thread_is_told_of_a_state_that_it_met(seeds: range) -> None:
    for seed in seeds:
        play_sharing(seed)


def test_the_same_seed_has_the_same_turns_and_answers() -> None:
    one, other = play_sharing(8, rounds=2), play_sharing(8, rounds=2)
    assert one.turns.trail == other.turns.trail
    assert one.answers == other.answers
    assert len(one.turns.trail) > 200, "threads stop within the code that answers"
    told = [found for _, found in one.answers if found and found != REFUSED]
    assert len(told) > len(one.answers) / 2
