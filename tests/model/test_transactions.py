"""The protocol of transactions as a model: a part of its states, and every mistake that is made on purpose."""

from __future__ import annotations

import pytest

from tests.model.transactions import MUTANTS, SCENARIOS, explore

STATES_MAX = 4_000
"""Of a scenario in this test; `python -m tests.model.transactions` explores more."""
SEARCH_MAX = 40_000


@pytest.mark.parametrize("name", SCENARIOS)
def test_some_order_of_the_calls_explains_every_answer(name: str) -> None:
    states, _, wrong, steps = explore(name, states_max=STATES_MAX, seed=1)
    assert wrong is None, "\n".join([wrong, *steps])
    assert states > 700


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mistake_is_found(mutant: str) -> None:
    _, _, wrong, steps = explore(MUTANTS[mutant], mutant, states_max=SEARCH_MAX)
    assert wrong is not None
    assert steps
