"""Look for mistakes with new seeds until the time is over: python -m tests.soak --minutes 10.

Parts take turns on a few lanes, side by side: simulations of several nodes, with garbage collection and of services;
properties with other examples than the suite has; writer processes that are killed on a folder and on an S3 server.
Each ends with one line: runs, what of them failed, and the command that shows a failure again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wormdb.system.clock import SystemChance, SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

REPOSITORY = Path(__file__).parents[1]
SEEDS_MAX = 1_000_000_000
SEEDS_A_RUN = 40
KILLS = 10
OUTPUT_SHOWN = 3_000
PROPERTIES = (
    ("tests/api/test_query.py", "tests/api/test_query_plans.py", "tests/api/test_update_property.py"),
    ("tests/query",),
    ("tests/bql",),
    ("tests/stateful", "tests/engine/columns/test_scan.py", "tests/engine/index/test_read.py"),
    (
        "tests/engine/blocks/test_runs.py",
        "tests/engine/forward/test_forwarding.py",
        "tests/engine/history/test_read.py",
    ),
)
"""Tests of answers, by whole files: what in them has no examples is run as it is."""


@dataclass(frozen=True)
class Command:
    """One run of a part, as it can be typed again."""

    words: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join([*(f"{name}={value}" for name, value in self.variables.items()), "python", *self.words])

    def run(self) -> tuple[bool, str]:
        """Whether it ended well, and what it printed."""
        done = subprocess.run(
            [sys.executable, *self.words],
            cwd=REPOSITORY,
            env=os.environ | self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        return done.returncode == 0, done.stdout


@dataclass
class Part:
    """One kind of run, and what became of its runs so far."""

    name: str
    unit: str
    each: int
    """How many units a run has."""
    command: Callable[[int], Command]
    """Made from a new seed."""
    runs: int = 0
    seconds: float = 0.0
    failed: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        told = f"{self.name}: {self.runs * self.each} {self.unit} in {self.seconds:.0f} s, {len(self.failed)} failed"
        return "\n  again: ".join([told, *self.failed])


def pytest(*words: str, seed: int | None = None, **variables: str) -> Command:
    seeded = () if seed is None else (f"--hypothesis-seed={seed}",)
    quiet = ("-q", "-x", "-p", "no:cacheprovider", "-m", "not long")
    return Command(("-m", "pytest", *quiet, *seeded, *words), variables)


def simulation(*options: str) -> Callable[[int], Command]:
    module = ("-m", "tests.simulation.run")
    return lambda seed: Command((*module, "--seeds", f"{seed}:{SEEDS_A_RUN}", *options))


def transactions(*options: str) -> Callable[[int], Command]:
    module = ("-m", "tests.simulation.transacting")
    return lambda seed: Command((*module, "--seeds", f"{seed}:{SEEDS_A_RUN}", *options))


def chases(*options: str) -> Callable[[int], Command]:
    return lambda seed: Command(("-m", "tests.simulation.chasing", f"{seed}:{SEEDS_A_RUN}", *options))


def sharing(seed: int) -> Command:
    return Command(("-m", "tests.simulation.sharing", f"{seed}:{SEEDS_A_RUN}"))


def transfers(test: str) -> Callable[[int], Command]:
    where = f"tests/processes/test_transfers.py::{test}"
    return lambda seed: pytest(where, WORMDB_KILLS=str(KILLS), WORMDB_KILL_SEED=str(seed))


def services(seed: int) -> Command:
    program = f"from tests.simulation.service import run_service_seed as run; [run({seed} + n) for n in range(20)]"
    return Command(("-c", program))


def properties(seed: int) -> Command:
    return pytest(*PROPERTIES[seed % len(PROPERTIES)], seed=seed, WORMDB_HYPOTHESIS="soak")


def kills(test: str) -> Callable[[int], Command]:
    where = f"tests/processes/test_kills.py::{test}"
    return lambda seed: pytest(where, WORMDB_KILLS=str(KILLS), WORMDB_KILL_SEED=str(seed))


def parts() -> list[Part]:
    crowds = [
        Part(f"threads with kept documents, {focus}", "seeds", SEEDS_A_RUN, simulation(*_handles(focus)))
        for focus in ("crowd", "busy")
    ]
    return [
        Part("simulation", "seeds", SEEDS_A_RUN, simulation()),
        Part("properties", "runs", 1, properties),
        *crowds,
        Part("kills on a folder", "kills", KILLS, kills("test_on_a_folder")),
        Part("simulation with garbage collection", "seeds", SEEDS_A_RUN, simulation("--gc")),
        Part("readers of a log that grows", "seeds", SEEDS_A_RUN, chases()),
        Part("threads that share lists", "seeds", SEEDS_A_RUN, sharing),
        Part("kills on S3", "kills", KILLS, kills("test_on_s3_behind_a_proxy_that_loses_answers")),
        Part("transactions", "seeds", SEEDS_A_RUN, transactions()),
        Part("transactions in a rush", "seeds", SEEDS_A_RUN, transactions("--focus", "rush")),
        Part("transfers on a folder", "kills", KILLS, transfers("test_transfers_on_a_folder")),
        Part("services", "seeds", 20, services),
    ]


def _handles(focus: str) -> tuple[str, ...]:
    return ("--workload", "handles", "--focus", focus)


class Soak:
    """All parts, on a few lanes, until the time is over."""

    def __init__(self, chosen: list[Part], minutes: float) -> None:
        self._parts = chosen
        self._clock, self._chance = SystemClock(), SystemChance()
        self._end = self._clock.monotonic() + 60 * minutes
        self._lock = threading.Lock()
        self._turn = 0

    def lane(self) -> None:
        """Run one part after the other, each when its turn comes."""
        while self._clock.monotonic() < self._end:
            with self._lock:
                part = self._parts[self._turn % len(self._parts)]
                self._turn += 1
            self.take(part)

    def take(self, part: Part) -> None:
        """Run a part once, with a new seed."""
        command = part.command(int(self._chance.fraction() * SEEDS_MAX))
        start = self._clock.monotonic()
        is_good, output = command.run()
        with self._lock:
            part.runs += 1
            part.seconds += self._clock.monotonic() - start
            if not is_good:
                part.failed.append(str(command))
                sys.stdout.write(f"--- {part.name}: {command}\n{output[-OUTPUT_SHOWN:]}\n")
                sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code is 1 if a run failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="no run begins later")
    parser.add_argument("--lanes", type=int, default=2, help="how many runs go side by side")
    parser.add_argument("--only", default="", help="parts whose names have this text")
    options = parser.parse_args(arguments)
    chosen = [part for part in parts() if options.only in part.name]
    soak = Soak(chosen, options.minutes)
    lanes = [threading.Thread(target=soak.lane) for _ in range(options.lanes)]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    sys.stdout.write("".join(f"{part}\n" for part in chosen))
    return 1 if any(part.failed for part in chosen) else 0


if __name__ == "__main__":
    sys.exit(main())
