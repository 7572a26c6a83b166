"""Seeds that show mistakes made on purpose: `python -m tests.simulation.noted` tells which of them have gone stale.

A seed means a run only together with the code. Where the one noted with a mistake no longer shows it, tests search for
another, which may take a minute: note the one that this prints.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from tests.simulation.chasing import run_chasing
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.mutants_chases import CHASING_MUTANTS
from tests.simulation.mutants_endings import ENDING_MUTANTS, ERASING_MUTANTS, run_erasing
from tests.simulation.mutants_lists import LIST_MUTANTS
from tests.simulation.mutants_offers import OFFER_MUTANTS
from tests.simulation.mutants_projection import PROJECTION_MUTANTS
from tests.simulation.mutants_transactions import TRANSACTION_MUTANTS
from tests.simulation.run import SimulationFailed, run_seed
from tests.simulation.transacting import run_transacting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["CHASES", "ERASURES", "ONE_COLLECTION", "SEVERAL_COLLECTIONS", "NotedMutants"]


@dataclass(frozen=True)
class NotedMutants:
    """Mistakes, the simulation that finds them, and how many seeds are searched where the one noted is stale."""

    mutants: Sequence[Mutant]
    run: Callable[[int, str, str | None], object]
    search_max: int

    def finding(self, mutant: Mutant, seed: int) -> BaseException | None:
        """What a seed shows of a mistake; None if nothing."""
        with mutant.apply():
            try:
                self.run(seed, mutant.workload, mutant.focus)
            except SimulationFailed as failure:
                return failure.cause
        return None

    def search(self, mutant: Mutant) -> tuple[int | None, BaseException | None]:
        """The first seed that shows a mistake, and what it shows; the one noted is tried first."""
        seeds = chain([mutant.seed], range(self.search_max))
        return next(((seed, found) for seed in seeds if (found := self.finding(mutant, seed))), (None, None))

    def check(self, mutant: Mutant) -> None:
        """Raise AssertionError unless a mistake is found, as it should show, by a seed that is well without it."""
        seed, found = self.search(mutant)
        assert isinstance(found, mutant.told), f"not found in {self.search_max} seeds: {found!r}"
        assert seed is not None
        self.run(seed, mutant.workload, mutant.focus)


CHASES = NotedMutants(CHASING_MUTANTS, run_chasing, 200)
ONE_COLLECTION = NotedMutants(
    [*MUTANTS, *PROJECTION_MUTANTS, *OFFER_MUTANTS, *ENDING_MUTANTS, *LIST_MUTANTS], run_seed, 400
)
ERASURES = NotedMutants(ERASING_MUTANTS, run_erasing, 60)
SEVERAL_COLLECTIONS = NotedMutants(TRANSACTION_MUTANTS, run_transacting, 100)


def main() -> int:
    """Print each mistake whose noted seed no longer shows it, with one that does; the exit code is 1 if any is."""
    logging.getLogger("wormdb").addHandler(logging.NullHandler())
    stale = 0
    for noted in (ONE_COLLECTION, CHASES, ERASURES, SEVERAL_COLLECTIONS):
        for mutant in noted.mutants:
            seed, found = noted.search(mutant)
            if seed != mutant.seed:
                stale += 1
                sys.stdout.write(f"{mutant.name}: {mutant.seed} shows nothing, {seed} does: {type(found).__name__}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{stale} seeds are stale\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
