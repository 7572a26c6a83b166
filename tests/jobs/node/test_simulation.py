"""Nodes and clients in virtual time, from seeds: nothing lost, nothing twice, and whoever is left takes over."""

from __future__ import annotations

import os
from itertools import chain
from typing import TYPE_CHECKING

import pytest

from tests.jobs.node.mutants import MUTANTS
from tests.simulation.replay import Violation
from tests.simulation.service import run_service_seed

if TYPE_CHECKING:
    from tests.jobs.node.mutants import Mutant

FIRST, COUNT = (int(part) for part in os.environ.get("WORMDB_SERVICE_SEEDS", "100:100").split(":"))
CHUNK = 10
SEEDS = (0, 6)
SEARCH_MAX = 40
"""How many seeds are searched when the one noted no longer shows a mistake, because the code moved on."""


def test_nodes_that_are_killed_and_stopped_and_have_rivals() -> None:
    reports = [run_service_seed(seed) for seed in SEEDS]
    assert sum(report.kills for report in reports) >= 2
    assert sum(report.pauses for report in reports) >= 3
    assert sum(report.refused for report in reports) >= 1
    assert sum(report.claims for report in reports) > sum(report.machines for report in reports)
    assert all(report.rounds >= 10 and report.acknowledged >= 50 for report in reports)


@pytest.mark.long
def test_the_same_seed_gives_the_same_trace() -> None:
    one, two = run_service_seed(7), run_service_seed(7)
    assert one.trace == two.trace
    assert one.trace != run_service_seed(8).trace


@pytest.mark.long
@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, CHUNK))
def test_seeds(first: int) -> None:
    for seed in range(first, min(first + CHUNK, FIRST + COUNT)):
        run_service_seed(seed)


def check_found(mutant: Mutant) -> None:
    for seed in chain([mutant.seed], range(SEARCH_MAX)):
        try:
            with mutant.apply():
                run_service_seed(seed)
        except Violation as found:
            with pytest.raises(Violation, match=mutant.told):
                raise found from None
            # The finding is the mutant's, not the seed's.
            run_service_seed(seed)
            return
    pytest.fail(f"{mutant.name}: not found in {SEARCH_MAX} seeds")


@pytest.mark.parametrize("mutant", MUTANTS[3:4], ids=lambda mutant: mutant.name)
def test_a_mistake_is_found(mutant: Mutant) -> None:
    check_found(mutant)


@pytest.mark.long
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mistake_is_found(mutant: Mutant) -> None:
    check_found(mutant)
