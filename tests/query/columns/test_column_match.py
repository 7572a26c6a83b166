"""Masks over columns say what filters say of documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bql.written import FILTERS, filled, parts
from tests.query.columns.portions_rig import COLLECTIONS, COLUMNS, Values, make_portions
from wormdb.bql.match import compile_filter
from wormdb.bql.parse import parse_filter
from wormdb.engine.portion import DOCUMENT
from wormdb.errors import InvalidRequestError
from wormdb.format.key import encode_key
from wormdb.query.column_match import compile_columns

if TYPE_CHECKING:
    from wormdb.format.columns import ColumnSpec


def matched(
    documents: list[Values], written: Values, columns: list[ColumnSpec], *, tail: int = 0, whole: bool = False
) -> list[Any]:
    """The ids that a mask finds, in order of id."""
    found = compile_columns(parse_filter(written))
    names = sorted({"_id", *found.paths, *([DOCUMENT] if whole else [])})
    ids: list[Any] = []
    for portion in make_portions(documents, names, columns, tail=tail):
        mask = found.mask(portion)
        assert len(mask) == portion.rows
        assert mask.null_count == 0
        ids += portion.filter(mask).values("_id")
    return ids


def expected(documents: list[Values], written: Values) -> list[Any]:
    matches = compile_filter(parse_filter(written))
    return [document["_id"] for document in sorted(documents, key=lambda d: encode_key(d["_id"])) if matches(document)]


@settings(max_examples=10 * settings().max_examples)
@given(documents=COLLECTIONS, written=FILTERS, columns=COLUMNS, tail=st.integers(0, 3), whole=st.booleans())
def test_masks_agree_with_documents(
    documents: list[Values], written: Values, columns: list[ColumnSpec], tail: int, whole: bool
) -> None:
    found = [part for document in documents for part in parts(document) if part is not document]
    written = filled(written, found or [0])
    try:
        parse_filter(written)
    except InvalidRequestError:
        return
    actual = matched(documents, written, columns, tail=min(tail, len(documents)), whole=whole)
    assert list(map(repr, actual)) == list(map(repr, expected(documents, written)))
