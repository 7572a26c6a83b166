"""A simulation that finds nothing may be blind: each of these mistakes must be found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation.noted import ONE_COLLECTION

if TYPE_CHECKING:
    from tests.simulation.mutants import Mutant


@pytest.mark.parametrize("mutant", ONE_COLLECTION.mutants, ids=lambda mutant: mutant.name)
def test_the_mistake_is_found(mutant: Mutant) -> None:
    ONE_COLLECTION.check(mutant)


def test_there_are_enough_of_them() -> None:
    mutants = ONE_COLLECTION.mutants
    assert len({mutant.name for mutant in mutants}) == len(mutants) >= 60
