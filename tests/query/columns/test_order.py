"""Orders over columns are those of whole documents."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from bson import Decimal128, MaxKey, MinKey, ObjectId
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.query.columns.portions_rig import COLLECTIONS, FAMILIES, WAYS, Values, Way, make_portion, make_portions
from wormdb.bql.sorting import SortSpec, parse_sort, sort_key
from wormdb.engine.blocks.portion import DOCUMENT
from wormdb.format.columns import ColumnSpec
from wormdb.query.columns import order as column_order
from wormdb.query.columns.order import TopRows, order_keys, sort_paths

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb.engine.blocks.portion import Portion

SORTS = st.lists(
    st.builds(
        lambda sign, name: sign + name,
        st.sampled_from(["", "-"]),
        st.sampled_from(["a", "a", "b", "a.b", "a.0", "id", "b.a", "_id.x"]),
    ),
    unique_by=lambda name: name.removeprefix("-"),
    max_size=3,
).map(parse_sort)


def ordered(documents: list[Values], sort: SortSpec, first: int | None) -> list[Any]:
    """The ids of the first documents."""
    return [document["_id"] for document in sorted(documents, key=sort_key(sort))[:first]]


def top(portions: Iterable[Portion], sort: SortSpec, first: int | None) -> list[Any]:
    """The same by columns."""
    rows = TopRows(sort, first)
    for portion in portions:
        rows.add(portion)
    found = rows.finish()
    return [] if found is None else found.values("_id")


@settings(max_examples=2 * settings().max_examples)
@given(
    documents=COLLECTIONS,
    sort=SORTS,
    way=WAYS,
    first=st.none() | st.integers(0, 8),
    kept=st.sampled_from([(0, 0), (3, 1000), (1000, 0), (1000, 1000)]),
)
def test_top_rows_agree_with_sorted_documents(
    documents: list[Values], sort: SortSpec, way: Way, first: int | None, kept: tuple[int, int]
) -> None:
    rows, size = kept
    with patch.object(column_order, "KEPT_ROWS", rows), patch.object(column_order, "KEPT_BYTES", size):
        actual = top(make_portions(documents, sort_paths(sort), way), sort, first)
    assert list(map(repr, actual)) == list(map(repr, ordered(documents, sort, first)))


@given(documents=COLLECTIONS.filter(bool), sort=SORTS, way=WAYS)
def test_order_keys_are_those_of_the_documents(documents: list[Values], sort: SortSpec, way: Way) -> None:
    portion = make_portion(documents, sort_paths(sort), way)
    keys = {document["_id"]: sort_key(sort)(document) for document in documents}
    assert order_keys(portion, sort) == [keys[identity] for identity in portion.values("_id")]


@given(
    values=st.one_of(
        *(st.lists(family, min_size=8, max_size=40) for family in FAMILIES),
        *(st.lists(family | st.none(), min_size=8, max_size=40) for family in FAMILIES[:4]),
    ),
    sign=st.sampled_from(["", "-"]),
    first=st.integers(0, 3),
    data=st.data(),
)
def test_rows_that_are_left_out_early_are_none_of_the_first(
    values: list[Any], sign: str, first: int, data: st.DataObject
) -> None:
    documents: list[Values] = [{"_id": place, "a": value} for place, value in enumerate(values)]
    mask = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    sort = parse_sort(f"{sign}a")
    portion = make_portion(documents, sort_paths(sort), Way((ColumnSpec("a"),), is_stored=False))
    rows = TopRows(sort, first)
    rows.add(rows.narrowed(portion, pa.array(mask)))
    found = rows.finish()
    matching = [document for document, is_in in zip(documents, mask, strict=True) if is_in]
    assert ([] if found is None else found.values("_id")) == ordered(matching, sort, first)


def test_few_rows_go_on_where_a_column_tells_which() -> None:
    documents: list[Values] = [{"_id": place, "a": place % 50} for place in range(1_000)]
    portion = make_portion(documents, ["_id", "a"], Way((ColumnSpec("a"),), is_stored=False))
    even = pa.array([place % 2 == 0 for place in range(1_000)])
    assert TopRows(parse_sort("-a"), 5).narrowed(portion, even).values("_id") == [*range(48, 1_000, 50)]
    assert TopRows(parse_sort("-a"), None).narrowed(portion, even).rows == 500


VALUES: dict[str, list[Any]] = {
    "int64": [3, 1, 2, 1, -(2**63), 2**63 - 1, None],
    "double": [1.5, math.nan, -math.inf, math.inf, 0.0, -0.0, 2, 2.0, None],
    "decimal": [Decimal128("1.50"), Decimal128("-1.50"), Decimal128("1.5"), Decimal128("NaN"), 1],
    "string": ["b", "a", "", "a\0", "é", "\uffff", "\U0001f600", "b", None],
    "bool": [True, False, None, True],
    "date": [datetime(2020, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC), None],
    "binary": [b"b", b"aa", b"", b"a", None],
    "objectid": [ObjectId(b"\xff" * 12), ObjectId(bytes(12)), None],
    "list<int64>": [[3, 1], [2], [], [None], None, 2],
    "json": [{"x": 1}, [1, "a"], "a", 1, MinKey(), MaxKey(), None],
    "string ": [1, "a", MinKey(), [], ["a", 0], None, "b", {"x": 1}],
}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize("first", [None, 1, 3, 7])
def test_every_type_of_column(kind: str, sign: str, first: int | None) -> None:
    values = [*VALUES[kind] * 2, *VALUES[kind][::-1]]
    documents: list[Values] = [{"_id": f"k{number}", "v": value} for number, value in enumerate(values)]
    documents += [{"_id": "none"}, {"_id": "also none"}]
    sort = parse_sort(f"{sign}v")
    portion = make_portion(documents, ["_id", "v"], Way((ColumnSpec("v", kind.strip()),), is_stored=False))
    assert top([portion], sort, first) == ordered(documents, sort, first)


def test_few_odd_rows_do_not_make_keys_of_all_others() -> None:
    documents: list[Values] = [{"_id": number, "v": (number * 37) % 300} for number in range(300)]
    documents[150]["v"], documents[151]["v"] = [-1, 5000], "text"
    portion = make_portion(documents, ["_id", "v"], Way((ColumnSpec("v", "int64"),)))
    made: list[int] = []
    keys = column_order._keys

    def note(some: Portion, fields: Any) -> list[bytes]:
        made.append(some.rows)
        return keys(some, fields)

    for written in ("v", "-v"):
        sort = parse_sort(written)
        with patch.object(column_order, "_keys", note):
            assert top([portion], sort, 10) == ordered(documents, sort, 10)
    assert made == [12, 12]


@pytest.mark.parametrize("limit", ["KEPT_ROWS", "KEPT_BYTES"])
def test_rows_are_dropped_as_soon_as_they_are_many(limit: str) -> None:
    documents: list[Values] = [{"_id": number, "v": (number * 37) % 100} for number in range(100)]
    portions = make_portions(documents, ["_id", "v"], Way(is_stored=False, step=10))
    rows = TopRows(parse_sort("-v"), 3)
    kept = []
    with patch.object(
        column_order, limit, 40 if limit == "KEPT_ROWS" else 40 * portions[0].table.get_total_buffer_size() // 10
    ):
        for portion in portions:
            rows.add(portion)
            kept.append(rows._rows)
        found = rows.finish()
    assert found is not None
    assert found.values("v") == [99, 98, 97]
    assert max(kept) <= 40
    assert kept.count(3) > 1


def test_other_columns_stay_with_their_rows() -> None:
    documents: list[Values] = [{"_id": number, "v": -number, "w": f"w{number}"} for number in range(20)]
    rows = TopRows(parse_sort("v"), 3)
    for portion in make_portions(documents, ["_id", "v", "w", DOCUMENT], Way(is_stored=False, step=4)):
        rows.add(portion)
    found = rows.finish()
    assert found is not None
    assert found.values("w") == ["w19", "w18", "w17"]
    assert b'"w19"' in found.documents()[0]


def test_the_columns_of_an_order() -> None:
    assert sort_paths(parse_sort("a.b")) == {"a.b", "_id"}
    assert TopRows(parse_sort(["id", "a"]), None).paths == {"_id"}


def test_no_rows() -> None:
    assert TopRows(parse_sort("a"), 5).finish() is None
