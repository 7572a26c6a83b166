"""Garbage collection among clients, forwarders and trimmers of a simulated run, and mistakes that such a run finds."""

from __future__ import annotations

import pytest

from tests.maintenance.gc.test_mistakes import MISTAKES
from tests.simulation.run import SimulationFailed, run_seed

FOUND_BY = {
    "the root is not swapped": 0,
    "entries go before the swap": 0,
    "retired objects have no grace": 2,
    "retired objects go before they are dated": 2,
}
"""The first seed that shows a mistake; others are shown by schedules made for them."""
OFTEN = ("the root is not swapped", "retired objects have no grace")
SELDOM = ("entries go before the swap", "retired objects go before they are dated")
SEARCH_MAX = 40


@pytest.mark.parametrize("seed", [3, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(100, 300))])
def test_nothing_is_lost_and_nothing_is_left(seed: int) -> None:
    run_seed(seed, collects=True)


@pytest.mark.long
def test_the_same_seed_gives_the_same_run() -> None:
    assert run_seed(11, collects=True).digest == run_seed(11, collects=True).digest


@pytest.mark.parametrize("name", [*OFTEN, *(pytest.param(name, marks=pytest.mark.long) for name in SELDOM)])
def test_the_mistake_is_found(name: str) -> None:
    _, apply = MISTAKES[name]
    with apply():
        for seed in [FOUND_BY[name], *range(SEARCH_MAX)]:
            try:
                run_seed(seed, collects=True)
            except SimulationFailed:
                return
    raise AssertionError(f"not found in {SEARCH_MAX} seeds")
