"""Requests that are never answered, in virtual time: every call ends at its deadline, and what it says is true."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation import run as simulation
from tests.simulation.run import SimulationFailed, run_seed
from tests.simulation.seeds import more
from tests.simulation.workloads import WORKLOADS

SEEDS = more(2, 4)


@pytest.mark.parametrize("workload", sorted(WORKLOADS))
def test_only_deadlines_end_calls(workload: str) -> None:
    outcomes: Counter[str] = Counter()
    for seed in SEEDS:
        outcomes.update(run_seed(seed, workload, "silent").outcomes)
    assert outcomes["ok"]
    assert outcomes["nothing"] + outcomes["unknown"], "nothing was silent"


def test_a_call_that_takes_too_long_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "OVERTIME_SECONDS", -2.5)
    with pytest.raises(SimulationFailed, match=r"it took \d"):
        any(run_seed(seed, "set", "silent") is None for seed in range(20))
