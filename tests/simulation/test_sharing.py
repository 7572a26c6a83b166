"""Threads of one process that share what is kept of lists: each is told of a state that it met, whoever came first."""

from __future__ import annotations

import pytest

from tests.simulation.seeds import chunks
from tests.simulation.sharing import REFUSED, play_sharing


@pytest.mark.parametrize("seeds", chunks(2, 7, 402, 5))
def test_every_thread_is_told_of_a_state_that_it_met(seeds: range) -> None:
    for seed in seeds:
        play_sharing(seed)


def test_the_same_seed_has_the_same_turns_and_answers() -> None:
    one, other = play_sharing(8, rounds=3), play_sharing(8, rounds=3)
    assert one.turns.trail == other.turns.trail
    assert one.answers == other.answers
    assert len(one.turns.trail) > 300, "threads stop within the code that answers"
    told = [found for _, found in one.answers if found and found != REFUSED]
    assert len(told) > len(one.answers) / 2
