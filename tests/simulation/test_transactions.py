"""Seeds of transactions over several collections, and mistakes that must be found in them.

`WORMDB_SEEDS=1000:5000 pytest tests/simulation` runs other seeds than the usual ones, and as many as wanted.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.simulation.exchanges import EXCHANGES
from tests.simulation.noted import SEVERAL_COLLECTIONS
from tests.simulation.seeds import chunks
from tests.simulation.transacting import RUSH, main, run_transacting

if TYPE_CHECKING:
    from tests.simulation.mutants import Mutant

USUAL, ALL, CHUNK = 20, 60, 4

# Seeds that showed a mistake, by what it was.
REGRESSIONS = {
    "a decision was told as none because a look at it failed": (16, "transfers", None),
    "a record was created late with an early time": (36, "transfers", None),
    "a question that settles was answered with an unknown outcome": (2, "mixed", None),
    "what was abandoned for hours stopped all others for seconds": (134, "mixed", None),
    "what a staged batch wrote could not be changed in a transaction": (13, "transfers", RUSH),
    "what aborts a transaction asked on without a pause after the time of the call": (302, "mixed", "silent"),
    "a transaction was shown on a state from before it committed": (211, "phantoms", RUSH),
    "what was read of a removed collection counted as unchanged": (2, "drops", None),
    "a document of the next life passed for what an unfinished transaction had written": (245, "drops", RUSH),
}


@pytest.mark.parametrize("seeds", chunks(0, USUAL, ALL, CHUNK))
def test_seeds_of_transactions(seeds: range) -> None:
    for seed in seeds:
        run_transacting(seed, focus=RUSH if seed % 3 == 0 else None)


@pytest.mark.parametrize("name", REGRESSIONS)
def test_a_seed_of_transactions_that_failed_once(name: str) -> None:
    run_transacting(*REGRESSIONS[name])


@pytest.mark.parametrize("mutant", SEVERAL_COLLECTIONS.mutants, ids=lambda mutant: mutant.name)
def test_a_mistake_of_transactions_is_found(mutant: Mutant) -> None:
    SEVERAL_COLLECTIONS.check(mutant)


def test_the_same_seed_of_transactions_gives_the_same_trace() -> None:
    one, two = (run_transacting(4711, "mixed") for _ in range(2))
    assert one.trace == two.trace
    assert one.digest == two.digest != run_transacting(4712, "mixed").digest


def test_the_runs_of_transactions_are_worth_something() -> None:
    """Transactions commit, conflict, are abandoned and end unknown; logs are trimmed and records collected."""
    reports = [run_transacting(seed) for seed in range(2 * len(EXCHANGES))]
    assert {report.workload for report in reports} == set(EXCHANGES)
    assert sum(report.committed for report in reports) >= 30
    assert sum(report.transactions - report.committed for report in reports) >= 10
    assert sum(report.trimmed > 0 for report in reports) >= 2
    told = sum((Counter(report.outcomes) for report in reports), Counter())
    for verb in ("transfer", "skew", "phantom", "mail", "drop", "snapshot", "audit", "look"):
        assert told[f"{verb} ok"] >= 1, verb
    refusals = sum((Counter(report.refusals) for report in reports), Counter())
    assert refusals["TransactionConflictError"] >= 5
    text = "\n".join(line.what for report in reports for line in report.trace)
    for word in ("[late]", "[twice]", "[answer lost]", "crashes", "stops for", "delete .worm.tx/"):
        assert word in text, word


def test_the_command_runs_seeds_of_transactions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "3:1", "--workload", "skew", "--focus", RUSH]) == 0
    assert capsys.readouterr().out.startswith("1 seeds, 0 failed")
