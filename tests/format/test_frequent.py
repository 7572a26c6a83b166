"""Which paths become columns of a block without being declared."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from bson import Binary, Decimal128, ObjectId, Regex
from hypothesis import given, settings
from hypothesis import strategies as st

from wormdb.format.block import Row, write_block
from wormdb.format.blockread import open_block, read_columns
from wormdb.format.columns import ELSEWHERE, ColumnSpec
from wormdb.format.frequent import SAMPLE_ROWS, SHARE, frequent_columns, frequent_columns_of_texts
from wormdb.format.json import decode_document, encode_document
from wormdb.format.kinds import MISSING
from wormdb.format.path import TRAVERSED, get_direct, parse_path
from wormdb.format.values import normalize
from wormdb.settings import FOUND_COLUMNS_MAX, FOUND_PATH_DEPTH_MAX, FOUND_VALUE_BYTES_MAX

MOMENT = datetime(2020, 1, 2, tzinfo=UTC)


def bodies(documents: list[dict[str, Any]]) -> list[bytes]:
    return [encode_document(normalize({"_id": place, **one})) for place, one in enumerate(documents)]


def found(documents: list[dict[str, Any]], declared: tuple[str, ...] = ()) -> list[str]:
    return [spec.path for spec in frequent_columns(bodies(documents), declared)]


@pytest.mark.parametrize(
    "value",
    [
        1,
        1.5,
        "x",
        True,
        MOMENT,
        b"x",
        ObjectId("0" * 24),
        Decimal128("1.5"),
        float("nan"),
        [1, 2],
        ["x", None],
        [MOMENT],
    ],
)
def test_scalars_and_arrays_of_one_type_are_columns(value: Any) -> None:
    assert found([{"a": value}, {"a": value}]) == ["a"]
    assert found([{"a": {"b": value}}, {"a": {"b": value}}]) == ["a.b"]


@pytest.mark.parametrize(
    "value", [None, [], [None], {}, [1, "x"], [[1]], [{"b": 1}], Regex("x"), Binary(b"x", 5), [MOMENT, 1]]
)
def test_others_are_not(value: Any) -> None:
    assert found([{"a": value}, {"a": value}]) == []


@pytest.mark.parametrize(
    "documents",
    [
        [{"a": 1}],  # of one document nothing is frequent
        [{"_id": 1, "_rev": 2, "_seq": 3, "_deleted": True, "_doc": "x", "id": 7}] * 2,
        [{"a": "x" * (FOUND_VALUE_BYTES_MAX + 1)}] * 2,
        [{"a": list(range(FOUND_VALUE_BYTES_MAX))}] * 2,
        [{"a" * 300: 1}] * 2,
    ],
)
def test_what_cannot_be_named_or_would_cost_much_is_no_column(documents: list[dict[str, Any]]) -> None:
    assert found(documents) == []


@pytest.mark.parametrize(
    "body", [b'{"a.b":1}', b'{"":1}', b'{"a":{"":1}}', b'{"a":{"$b":1,"$c":2}}', b'{"a\\u0000":1}']
)
def test_names_that_nothing_stores_are_passed_over(body: bytes) -> None:
    assert frequent_columns([body, body]) == []


def test_names_with_an_underscore_and_other_letters_are_columns() -> None:
    names = ["_class", "__v", "Straße", "with space", "0", "a-b", 'quo"te']
    assert found([dict.fromkeys(names, 1)] * 2) == names


def test_deep_paths_end_somewhere() -> None:
    deep: dict[str, Any] = {"x": 1}
    for _ in range(FOUND_PATH_DEPTH_MAX - 1):
        deep = {"a": deep, "x": 1}
    paths = found([{"a": deep}] * 2)
    assert max(path.count(".") for path in paths) == FOUND_PATH_DEPTH_MAX - 1


def test_paths_that_few_documents_have_are_no_columns() -> None:
    rows = 10 * SHARE
    often = [{"a": 1} if place < rows // SHARE else {"b": 1} for place in range(rows)]
    assert found(often) == ["a", "b"]
    seldom = [{"a": 1} if place < rows // SHARE - 1 else {"b": 1} for place in range(rows)]
    assert found(seldom) == ["b"]


def test_a_map_with_ids_as_keys_is_no_columns() -> None:
    documents = [{"likes": {f"user{place}-{n}": n for n in range(50)}, "n": place} for place in range(300)]
    assert found(documents) == ["n"]


def test_one_huge_map_hides_no_field_beside_it() -> None:
    documents = [{"map": {f"k{n}": n for n in range(5_000)}, "n": {"m": place}, "z": 1} for place in range(3)]
    assert found(documents) == ["z", "n.m"]
    many = [{f"m{n}": {f"k{place}": 1 for place in range(200)} for n in range(20)} | {"z": 1}] * 3
    assert found(many)[0] == "z"
    assert len(found(many)) == FOUND_COLUMNS_MAX


def test_columns_are_at_most_so_many_and_the_most_frequent_come_first() -> None:
    documents = [{f"f{n:03}": n for n in range(200 if place % 2 else 20)} | {"last": 1} for place in range(40)]
    names = found(documents, ("f000", "other"))
    assert len(names) == FOUND_COLUMNS_MAX - 2
    assert {"last", *(f"f{n:03}" for n in range(1, 20))} <= set(names)
    assert found(documents, tuple(f"d{n}" for n in range(FOUND_COLUMNS_MAX))) == []


def test_of_names_that_differ_in_case_only_one_is_a_column() -> None:
    assert found([{"Name": "a", "name": "b", "NAME": "c"}, {"name": "d"}]) == ["name"]
    assert found([{"Name": "a", "name": "b"}] * 2, ("NAME",)) == []
    assert found([{"_ID": 1, "_Rev": 2, "ID": 3}] * 2) == ["ID"]


def test_most_values_decide_and_a_mixture_is_no_column() -> None:
    assert found([{"a": 1}, {"a": 2.5}, {"a": "x"}]) == ["a"]
    assert found([{"a": 1}, {"a": "x"}] * 2) == []
    assert found([{"a": 1}, {"a": None}, {"a": None}, {}]) == ["a"]
    assert found([{"a": {"b": 1}}, {"a": {"b": 2}}, {"a": 5}, {"a": 6}]) == ["a.b", "a"]


def test_only_documents_at_equal_distances_are_looked_at() -> None:
    documents = [{"seen": 1} if place % 10 == 0 else {"unseen": 1} for place in range(10 * SAMPLE_ROWS)]
    assert found(documents) == ["seen"]
    texts = pa.chunked_array([pa.array([body.decode() for body in bodies(documents)], pa.large_string())])
    assert frequent_columns_of_texts(texts) == frequent_columns(bodies(documents))


def test_bytes_that_are_no_document_give_none() -> None:
    assert frequent_columns([b"{", b"[]", b"\xff"]) == []


SCALARS = (
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(width=16) | st.sampled_from(["", "x", MOMENT, b"y"])
)
NAMES = st.sampled_from(["a", "b", "A", "_rev", "0"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner),
    max_leaves=6,
)


@settings(max_examples=settings().max_examples * 2)
@given(st.lists(st.dictionaries(NAMES, VALUES), min_size=1, max_size=8))
def test_found_columns_tell_what_documents_have(documents: list[dict[str, Any]]) -> None:
    rows = [Row(place, 1, 1, body) for place, body in enumerate(bodies(documents))]
    block = write_block(rows, [ColumnSpec("b")], found=True)
    again = write_block(rows, [ColumnSpec("b")], found=True)
    assert (block.parquet, block.sidecar, block.columns) == (again.parquet, again.sidecar, again.columns)
    paths = [stats.path for stats in block.columns[2:]]
    assert paths == [spec.path for spec in frequent_columns([row.cell for row in rows], ["b"])]
    columns = read_columns(open_block(block.parquet, name="x", sha256=block.sha256), paths)
    for path, values in columns.items():
        for row, value in zip(rows, values, strict=True):
            exact = get_direct(decode_document(row.cell, name="x"), parse_path(path))
            assert value is ELSEWHERE or (exact is MISSING and value is MISSING) or repr(value) == repr(exact)
            assert exact is not TRAVERSED or value is ELSEWHERE
