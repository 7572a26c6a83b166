"""Documents that are erased among clients, keepers and faults of a simulated run."""

from __future__ import annotations

from unittest import mock

import pytest

from tests.simulation.erasures import play_erasures
from tests.simulation.plan import FOCUSES
from tests.simulation.replay import Violation
from wormdb.engine.forward.erase import Eraser
from wormdb.engine.state.trim import Trimmer

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


def play_all() -> None:
    for seed in range(20):
        play_erasures(seed)


def test_blocks_that_stay_as_they_were_are_noticed() -> None:
    with mock.patch.object(Eraser, "run", lambda _, root, __: (root, {})), pytest.raises(Violation):
        play_all()


def test_a_log_that_is_kept_is_noticed() -> None:
    kept = mock.patch.object(Trimmer, "through", lambda _, root, *__: root.trimmed)
    with kept, pytest.raises(Violation, match=r"which was erased, is left: .*committed"):
        play_all()
