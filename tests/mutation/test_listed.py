"""The list of mistakes follows the code; `make mutants` says whether each is noticed."""

from __future__ import annotations

from collections import Counter

from tests.mutation.listed import AREAS, MUTANTS
from tests.mutation.mutant import REPOSITORY


def test_every_mutant_can_be_applied() -> None:
    assert [problem for mutant in MUTANTS if (problem := mutant.problem())] == []


def test_every_mutant_has_tests_that_exist_or_a_reason() -> None:
    assert [mutant.name for mutant in MUTANTS if bool(mutant.tests) == bool(mutant.reason)] == []
    paths = {test.partition("::")[0] for mutant in MUTANTS for test in mutant.tests}
    assert [path for path in sorted(paths) if not (REPOSITORY / "tests" / path).exists()] == []


def test_every_part_of_the_protocol_has_some() -> None:
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS) >= 60
    counted = Counter(area for mutant in MUTANTS for area, files in AREAS.items() if mutant.file in files)
    assert {area for area in AREAS if counted[area] < 2} == set()
    assert {mutant.file for mutant in MUTANTS} <= {file for files in AREAS.values() for file in files}
