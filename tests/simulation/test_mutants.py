"""A simulation that finds nothing may be blind: each of these mistakes must be found."""

from __future__ import annotations

from itertools import chain

import pytest

from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.mutants_offers import OFFER_MUTANTS
from tests.simulation.mutants_projection import PROJECTION_MUTANTS
from tests.simulation.run import SimulationFailed, run_seed

SEARCH_MAX = 400
"""How many seeds are searched when the one noted no longer shows the mistake, because the code moved on."""


def finding(mutant: Mutant, seed: int) -> BaseException | None:
    with mutant.apply():
        try:
            run_seed(seed, mutant.workload, mutant.focus)
        except SimulationFailed as failure:
            return failure.cause
    return None


ALL = [*MUTANTS, *PROJECTION_MUTANTS, *OFFER_MUTANTS]


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_the_mistake_is_found(mutant: Mutant) -> None:
    seeds = chain([mutant.seed], range(SEARCH_MAX))
    seed, found = next(((seed, found) for seed in seeds if (found := finding(mutant, seed))), (None, None))
    assert isinstance(found, mutant.told), f"not found in {SEARCH_MAX} seeds: {found!r}"
    assert seed is not None
    # The finding is the mutant's, not the seed's.
    run_seed(seed, mutant.workload, mutant.focus)


def test_there_are_enough_of_them() -> None:
    assert len({mutant.name for mutant in ALL}) == len(ALL) >= 60
