"""Apply each listed mistake to a copy of the package and run the tests that must notice it: python -m tests.mutation.

The exit code is 1 if one of them is not noticed, or can no longer be applied.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutation.listed import MUTANTS
from tests.mutation.mutant import REPOSITORY, SOURCE, Mutant

if TYPE_CHECKING:
    from collections.abc import Sequence

SECONDS_MAX = 300
TESTS_FAILED = 1
"""The exit code of pytest that says so; others say that nothing could be run."""


def verdict(mutant: Mutant) -> str:
    """What became of one: noticed, hangs, dies, survives, or what else went wrong."""
    if mutant.reason:
        return "equivalent"
    if mutant.problem():
        return "stale"
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        package = Path(folder) / "wormdb"
        shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
        mutant.apply(package)
        quiet = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly", "-m", "not long", "--timeout=120"]
        command = [sys.executable, "-m", "pytest", *quiet, *(f"tests/{test}" for test in mutant.tests)]
        environment = os.environ | {"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            done = subprocess.run(
                command,
                cwd=REPOSITORY,
                env=environment,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SECONDS_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "hangs"
    if done.returncode == TESTS_FAILED:
        return "noticed"
    if done.returncode < 0:
        return "dies"  # by a signal: what reads without a bound takes all memory
    return "SURVIVES" if done.returncode == 0 else f"BROKEN\n{done.stdout[-2000:]}{done.stderr[-1000:]}"


def main(arguments: Sequence[str] | None = None) -> int:
    """One line for each mutant, and a sum."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--only", default="", help="mutants whose names have this text")
    parser.add_argument("--lanes", type=int, default=2, help="how many are tried side by side")
    options = parser.parse_args(arguments)
    chosen = [mutant for mutant in MUTANTS if options.only in mutant.name]
    counted: dict[str, int] = {}
    with ThreadPoolExecutor(options.lanes) as pool:
        for mutant, told in zip(chosen, pool.map(verdict, chosen), strict=True):
            kind = told.partition("\n")[0]
            counted[kind] = counted.get(kind, 0) + 1
            sys.stdout.write(f"{told}: {mutant.reason or mutant.problem() or mutant.name}\n")
            sys.stdout.flush()
    sys.stdout.write(", ".join(f"{count} {kind}" for kind, count in sorted(counted.items())) + "\n")
    return 0 if set(counted) <= {"noticed", "hangs", "dies", "equivalent"} else 1


if __name__ == "__main__":
    sys.exit(main())
