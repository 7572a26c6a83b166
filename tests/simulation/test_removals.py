"""Collections that are dropped and made anew among clients, keepers and faults of a simulated run."""

from __future__ import annotations

from unittest import mock

import pytest

from tests.simulation.plan import FOCUSES
from tests.simulation.removals import play_removals
from tests.simulation.replay import Violation
from tests.simulation.seeds import more
from wormdb.engine.state import trim
from wormdb.maintenance import removal
from wormdb.system.types import LogNumber

SEEDS = range(8)


@pytest.mark.parametrize(
    "seed", [*SEEDS, 10, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(100, 400))]
)
def test_no_acknowledged_write_is_lost_and_every_read_is_a_state_of_the_log(seed: int) -> None:
    played = play_removals(seed)
    assert played.acknowledged


@pytest.mark.parametrize("focus", FOCUSES)
def test_the_same_holds_for_runs_that_are_aimed_at_something(focus: str) -> None:
    for seed in more(3, len(SEEDS)):
        assert play_removals(seed, focus).acknowledged


def test_some_of_these_runs_drop_the_collection_more_than_once() -> None:
    assert max(len(set(play_removals(seed).dropped)) for seed in SEEDS) > 1


def play_all() -> None:
    for seed in range(40):
        play_removals(seed)


def test_a_log_that_goes_at_once_is_noticed() -> None:
    """The mistake that the entries of the last moments are kept for."""
    through = mock.patch.object(removal, "_unneeded", lambda root, _: LogNumber(root.applied))
    held = mock.patch.object(trim, "REMOVED_MS", 0)
    with through, held, pytest.raises(Violation, match=r"was deleted .* after it was applied"):
        play_all()
