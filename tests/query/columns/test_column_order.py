"""Orders over columns are those of whole documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.query.columns.portions_rig import COLLECTIONS, COLUMNS, Values, make_portion, make_portions
from wormdb.bql.sorting import SortSpec, parse_sort, sort_key
from wormdb.query import column_order
from wormdb.query.column_order import TopRows, order_keys, sort_paths

if TYPE_CHECKING:
    from wormdb.format.columns import ColumnSpec

SORTS = st.lists(
    st.builds(
        lambda sign, name: sign + name,
        st.sampled_from(["", "-"]),
        st.sampled_from(["a", "b", "a.b", "a.0", "id", "b.a", "_id.x"]),
    ),
    unique_by=lambda name: name.removeprefix("-"),
    max_size=3,
).map(parse_sort)


def ordered(documents: list[Values], sort: SortSpec, first: int | None) -> list[Any]:
    return [document["_id"] for document in sorted(documents, key=sort_key(sort))[:first]]


@settings(max_examples=10 * settings().max_examples)
@given(
    documents=COLLECTIONS,
    sort=SORTS,
    columns=COLUMNS,
    tail=st.integers(0, 3),
    first=st.none() | st.integers(0, 8),
    kept=st.sampled_from([0, 3, 1000]),
)
def test_top_rows_agree_with_sorted_documents(
    documents: list[Values], sort: SortSpec, columns: list[ColumnSpec], tail: int, first: int | None, kept: int
) -> None:
    with patch.object(column_order, "KEPT_ROWS", kept):
        top = TopRows(sort, first)
        for portion in make_portions(documents, sorted(top.paths), columns, tail=min(tail, len(documents))):
            top.add(portion)
        found = top.finish()
    actual = [] if found is None else found.values("_id")
    assert list(map(repr, actual)) == list(map(repr, ordered(documents, sort, first)))


@settings(max_examples=5 * settings().max_examples)
@given(documents=COLLECTIONS.filter(bool), sort=SORTS, columns=COLUMNS)
def test_order_keys_are_those_of_the_documents(
    documents: list[Values], sort: SortSpec, columns: list[ColumnSpec]
) -> None:
    portion = make_portion(documents, sorted(sort_paths(sort)), columns)
    keys = {document["_id"]: sort_key(sort)(document) for document in documents}
    assert order_keys(portion, sort) == [keys[identity] for identity in portion.values("_id")]
