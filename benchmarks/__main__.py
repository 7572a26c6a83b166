"""`make bench`: every suite, or those named: `make bench ARGS="formats"`."""

from __future__ import annotations

import importlib
import sys

from benchmarks.measure import print_rows

SUITES = (
    "stores",
    "formats",
    "commits",
    "transactions",
    "reads",
    "cold",
    "warm",
    "crowd",
    "scans",
    "loads",
    "queries",
    "plans",
    "embedded",
    "files",
    "tables",
    "peers",
    "schemaless",
    "spark",
    "cost",
    "jobs",
    "sync",
    "server",
    "search",
)

WITH = {"warm": ("embedded",)}
"""What is run with a suite that is named."""


def main(names: list[str]) -> int:
    """Run the suites and print their ratios; 1 if a bar was missed."""
    unknown = sorted(set(names) - set(SUITES))
    if unknown:
        print(f"no such suite: {', '.join(unknown)} (there are: {', '.join(SUITES)})", file=sys.stderr)
        return 2
    missed = 0
    chosen = dict.fromkeys(each for name in names for each in (name, *WITH.get(name, ())))
    for name in chosen or SUITES:
        suite = importlib.import_module(f"benchmarks.{name}")
        rows = suite.run()
        print_rows(suite.TITLE, rows)
        missed += sum(not row.passed for row in rows)
    print(f"{missed} bars missed" if missed else "every bar met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
