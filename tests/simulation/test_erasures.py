"""Documents that are erased among clients, keepers and faults of a simulated run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation.erasures import play_erasures
from tests.simulation.noted import ERASURES
from tests.simulation.plan import FOCUSES

if TYPE_CHECKING:
    from tests.simulation.mutants import Mutant

SEEDS = range(6)


@pytest.mark.parametrize("seed", [*SEEDS, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(100, 400))])
def test_nothing_is_left_of_what_was_erased_and_all_else_is_as_the_log_says(seed: int) -> None:
    assert play_erasures(seed).acknowledged


@pytest.mark.parametrize("focus", FOCUSES)
def test_the_same_holds_for_runs_that_are_aimed_at_something(focus: str) -> None:
    for seed in range(2):
        assert play_erasures(seed, focus).acknowledged


def test_these_runs_erase_documents() -> None:
    assert sum(len(play_erasures(seed).erased) for seed in SEEDS[:3]) > 3


@pytest.mark.parametrize("mutant", ERASURES.mutants, ids=lambda mutant: mutant.name)
def test_the_mistake_is_found(mutant: Mutant) -> None:
    ERASURES.check(mutant)
