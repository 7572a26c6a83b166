"""Seeds, many of them: several nodes of the real code under faults, every answer held against the log.

`WORMDB_SEEDS=1000:5000 pytest tests/simulation` runs other seeds than the usual ones, and as many as wanted.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from itertools import cycle

import pytest

from tests.simulation.plan import FOCUSES
from tests.simulation.run import SimulationFailed, main, run_seed
from tests.simulation.seeds import chunks
from tests.simulation.workloads import WORKLOADS

WATCHED = 8 * len(WORKLOADS)
"""The first seeds: a test runs them and also looks at what happened in them; of 500 the others are left."""
USUAL, ALL, CHUNK = 200, 500, 16

# Seeds that showed a mistake in the engine, by what it was; each is also a few steps in
# tests/engine/test_found_by_simulation.py, and a mutant in tests/simulation/mutants.py.
REGRESSIONS = {
    "an old entry was taken for news, and the log was trimmed behind it": (68, "bank", "dawn"),
    "a unique value was taken from its owner in passing": (2, "unique", None),
    "a batch was refused for one that did not land": (3, "unique", "crowd"),
    "two trimmers at once saw damage": (22, "set", "dawn"),
    "a folder's time was that of a process whose clock was set": (7, "bank", "clocks"),
}


@pytest.mark.parametrize("seeds", chunks(WATCHED, USUAL, ALL, CHUNK))
def test_seeds(seeds: range) -> None:
    for seed in seeds:
        run_seed(seed)


@pytest.mark.parametrize("name", REGRESSIONS)
def test_a_seed_that_failed_once(name: str) -> None:
    run_seed(*REGRESSIONS[name])


@pytest.mark.parametrize(("workload", "focus"), list(zip(sorted(WORKLOADS), cycle(FOCUSES), strict=False)))
def test_the_same_seed_gives_the_same_trace(workload: str, focus: str) -> None:
    one, two = (run_seed(4711, workload, focus) for _ in range(2))
    assert one.trace == two.trace
    assert one.digest == two.digest
    assert one.digest != run_seed(4712, workload, focus).digest


def test_the_trace_does_not_depend_on_the_order_of_hashes() -> None:
    program = (
        "import logging; logging.disable(); from tests.simulation.run import run_seed;"
        "print([run_seed(seed).digest for seed in range(2)])"
    )
    expected = f"{[run_seed(seed).digest for seed in range(2)]}\n"
    for seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-X", "faulthandler", "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, expected), done.stderr


def test_the_runs_are_worth_something() -> None:
    """A simulation in which nothing goes wrong proves nothing: the faults must really happen."""
    reports = [run_seed(seed) for seed in range(WATCHED)]
    assert sum(report.trimmed > 0 for report in reports) >= 10
    late = [run_seed(seed, "set", "late") for seed in range(6)]
    assert sum(report.zombies > 0 for report in [*reports, *late]) >= 4
    assert {report.workload for report in reports} == set(WORKLOADS)
    for outcome in ("ok", "refused", "nothing"):
        assert sum(report.outcomes.get(outcome, 0) > 0 for report in reports) >= 10, outcome
    text = "\n".join(line.what for report in reports for line in report.trace)
    for word in ("[late]", "[twice]", "[dropped]", "[answer lost]", "[refused]", "crashes", "stops for", "is set"):
        assert text.count(word) >= 5, word
    for done in ("rollback", "restore", "purge", "snapshot", "history", "as of", "trash", "owners", "create index"):
        assert text.count(f"{done} → ok") >= 1, done
    events = sum((Counter(report.events) for report in reports), Counter())
    for kind in ("IndexBuilding", "IndexReady", "IndexDropped", "JobAttached", "JobAborted", "SnapshotTaken"):
        assert events[kind] >= 1, kind
    for told in ("is committed", "is not committed", "is unknown", "OutcomeUnknownError", "ConflictError"):
        assert told in text, told


def test_clocks_are_set_by_days_while_a_folder_is_trimmed() -> None:
    reports = [run_seed(seed, "register", "clocks") for seed in range(12)]
    assert sum(report.trimmed > 0 for report in reports) >= 2
    assert "\n".join(line.what for report in reports for line in report.trace).count("is set") >= 20


def test_a_failure_shows_the_seed_and_the_end_of_its_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from wormdb.engine.commit.commit import Committer

    monkeypatch.setattr(Committer, "_place", lambda *given: True)
    with pytest.raises(SimulationFailed, match=r"seed 3 .*acknowledged") as caught:
        run_seed(3, "set")
    assert "--seeds 3:1 --workload set" in str(caught.value)
    assert str(caught.value.trace[-1]) in str(caught.value)
    assert main(["--seeds", "3:2", "--workload", "set"]) == 1
    assert "2 seeds, 2 failed" in capsys.readouterr().out


def test_the_command_runs_seeds_and_shows_traces(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "3:2", "--workload", "bank", "--focus", "crowd"]) == 0
    assert capsys.readouterr().out == "2 seeds, 0 failed\n"
    assert main(["--seeds", "3:1", "--trace"]) == 0
    assert "put block0" in capsys.readouterr().out
