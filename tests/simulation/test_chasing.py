"""Readers that share rounds of a log that grows as fast as they read it: each ends, and sees what was there before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation.chasing import play_chases
from tests.simulation.noted import CHASES

if TYPE_CHECKING:
    from tests.simulation.mutants import Mutant

USUAL = range(12)
WIDE = (1, 2)


@pytest.mark.parametrize(
    "seed", [*USUAL, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(len(USUAL), 400))]
)
def test_every_read_ends_and_sees_what_was_there_before(seed: int) -> None:
    played = play_chases(seed)
    assert any(call.verb == "scan" and call.outcome == "ok" for call in played.world.history.calls)


@pytest.mark.parametrize("seed", [*WIDE, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(10, 30))])
def test_the_same_holds_for_rounds_and_tails_of_the_usual_size(seed: int) -> None:
    played = play_chases(seed, is_wide=True)
    assert played.width == 256 <= played.tail
    calls = [call for call in played.world.history.calls if call.verb == "scan" and call.outcome == "ok"]
    assert max(call.result[0] for call in calls) >= played.tail


def test_the_runs_are_worth_something() -> None:
    """Others write while readers read, some never rest, and readers have one probe, two or four under way."""
    played = [play_chases(seed) for seed in USUAL]
    assert {one.probes for one in played} == {1, 2, 4}
    assert {one.is_steady for one in played} == {True, False}
    calls = [call for one in played for call in one.world.history.calls if call.verb == "scan" and call.outcome == "ok"]
    cut = [call for call in calls if call.result[0] < call.ceiling and not call.facts["stale"]]
    assert len(cut) >= len(calls) / 5, "most reads found the end"


@pytest.mark.parametrize("mutant", CHASES.mutants, ids=lambda mutant: mutant.name)
def test_the_mistake_is_found(mutant: Mutant) -> None:
    CHASES.check(mutant)
