from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest

from tests.bql.update.cases import NOW, Case, read_cases
from wormdb.bql.parse import parse_filter
from wormdb.bql.positions import compile_positions
from wormdb.bql.update.update import apply_update, parse_update
from wormdb.errors import InvalidRequestError
from wormdb.format.kinds import equal
from wormdb.format.values import normalize_document

if TYPE_CHECKING:
    from wormdb.format.kinds import Document

CASES = read_cases()


def applied(case: Case) -> Document:
    query = parse_filter(case.extra.get("query", {}))
    update = parse_update(case.update, array_filters=case.extra.get("filters"))
    matched = compile_positions(query, update.arrays)(case.document)
    return apply_update(update, case.document, matched=matched, now=NOW, is_insert="insert" in case.extra)


def test_there_are_many_cases_and_each_says_something_of_its_own() -> None:
    assert len(CASES) >= 150
    assert len({(str(case.document), str(case.update), str(case.extra)) for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.why)
def test_cases(case: Case) -> None:
    before = copy.deepcopy(case.document)
    if isinstance(case.after, str):
        with pytest.raises(InvalidRequestError) as caught:
            applied(case)
        assert case.after in str(caught.value)
    else:
        after = applied(case)
        assert equal(case.after, after), after
        assert after is not case.document
        assert equal(after, normalize_document(after))
    assert equal(before, case.document)
