"""Time two ways of doing the same thing side by side, and print how they compare.

A bare time says more about the machine than about the code. So each row is a ratio of the best rounds
of both sides, taken in one run with the rounds alternating, with the bar it must meet. The best round is
what the code can do; the others also measure whatever else the machine was doing. Where a round keeps the whole machine
busy, as Spark does, medians are compared instead.
"""

from __future__ import annotations

import gc
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Count", "Row", "compare", "print_rows", "still", "take"]

ROUNDS = 9


@dataclass(frozen=True)
class Row:
    """One comparison: seconds for `count` operations on both sides, and the bar."""

    what: str
    reference: str
    count: int
    ours: float
    theirs: float
    at_most: float | None = None
    at_least: float | None = None

    @property
    def slowdown(self) -> float:
        """Our time as a multiple of the reference's."""
        return self.ours / self.theirs

    @property
    def speedup(self) -> float:
        """Our speed as a multiple of the reference's."""
        return self.theirs / self.ours

    @property
    def passed(self) -> bool:
        """Whether the bar is met; true where there is none."""
        return (self.at_most is None or self.slowdown <= self.at_most) and (
            self.at_least is None or self.speedup >= self.at_least
        )

    def cells(self) -> tuple[str, ...]:
        """What is printed."""
        if self.at_least is not None:
            ratio, bar = f"{self.speedup:.2f}x the speed", f"≥ {self.at_least}x"
        else:
            ratio, bar = f"{self.slowdown:.2f}x the time", f"≤ {self.at_most}x" if self.at_most else "none"
        each = f"{self.ours / self.count * 1e6:,.0f} / {self.theirs / self.count * 1e6:,.0f} µs"
        return (self.what, self.reference, each, ratio, bar, "ok" if self.passed else "MISSED")


@dataclass(frozen=True)
class Count:
    """A number that does not depend on the machine, beside what it is compared with, and its bar."""

    what: str
    reference: str
    value: float
    bar: str
    passed: bool

    def cells(self) -> tuple[str, ...]:
        """What is printed."""
        return (self.what, self.reference, "", f"{self.value:,.2f}".removesuffix(".00"), self.bar, self.verdict)

    @property
    def verdict(self) -> str:
        """For the last column."""
        return "ok" if self.passed else "MISSED"


def compare(  # noqa: PLR0913 - the two sides, their names and the bar belong together
    what: str,
    ours: Callable[[], object],
    reference: str,
    theirs: Callable[[], object],
    *,
    count: int,
    at_most: float | None = None,
    at_least: float | None = None,
    rounds: int = ROUNDS,
    by: Callable[[list[float]], float] = min,
    clock: Callable[[], float] = time.perf_counter,
) -> Row:
    """Run both in alternating rounds (one more to warm up) and compare the best, or what `by` makes of the rounds."""
    ours(), theirs()
    taken: tuple[list[float], list[float]] = ([], [])
    with still():
        for number in range(rounds):
            sides = (0, 1) if number % 2 == 0 else (1, 0)
            for side in sides:
                taken[side].append(take((ours, theirs)[side], clock))
    return Row(what, reference, count, by(taken[0]), by(taken[1]), at_most, at_least)


@contextmanager
def still() -> Iterator[None]:
    """Leave what is there now out of collections, or each round would go through all that either side holds."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def take(function: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """The seconds that one call takes, by that clock."""
    gc.collect()
    gc.disable()
    try:
        start = clock()
        function()
        return clock() - start
    finally:
        gc.enable()


def print_rows(title: str, rows: list[Row | Count]) -> None:
    """A table of all comparisons of one suite."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for column in ("ours", "reference", "each, ours / reference", "ratio", "bar", ""):
        table.add_column(column)
    for row in rows:
        table.add_row(*row.cells(), style="" if row.passed else "red")
    console = Console()
    Console(width=None if console.is_terminal else 160).print(table)
