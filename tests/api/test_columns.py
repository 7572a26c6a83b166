"""Types of Arrow columns: a matter of the values alone, however blocks hold them."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from bson import Binary, Decimal128, ObjectId, Regex
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.columns.rig import Layers
from wormdb.api.columns import ArrowColumn, follow_path
from wormdb.engine.columns.scan import scan_columns
from wormdb.format.columns import ColumnSpec
from wormdb.format.kinds import MISSING

if TYPE_CHECKING:
    from wormdb.engine.state.view import View

DAY = datetime(2020, 1, 1, tzinfo=UTC)
OID = ObjectId("0123456789abcdef01234567")
TIME = pa.timestamp("ms", tz="UTC")


def column(view: View, name: str, declared: str | None = None) -> pa.ChunkedArray:
    found = ArrowColumn(name, declared)
    for portion in scan_columns(view, [name]):
        found.add(portion)
    return found.finish()


def in_the_tail(documents: list[dict[str, Any]]) -> View:
    layers = Layers()
    layers.change(documents)
    return layers.view()


def documents_of(values: list[Any]) -> list[dict[str, Any]]:
    return [{"_id": number} | ({} if a is MISSING else {"a": a}) for number, a in enumerate(values)]


@pytest.mark.parametrize(
    ("values", "kind", "shown"),
    [
        ([1, None, MISSING, 2], pa.int64(), [1, None, None, 2]),
        ([1, 2.5], pa.float64(), [1.0, 2.5]),
        ([2**60, 0.5], pa.float64(), [2.0**60, 0.5]),
        ([2**53 + 1, 0.5], pa.string(), ["9007199254740993", "0.5"]),
        ([True, False], pa.bool_(), [True, False]),
        ([True, 1], pa.string(), ["true", "1"]),
        (["x", ""], pa.string(), ["x", ""]),
        (["x", 1], pa.string(), ['"x"', "1"]),
        ([DAY, None], TIME, [DAY, None]),
        ([DAY, "x"], pa.string(), ['{"$date":"2020-01-01T00:00:00Z"}', '"x"']),
        ([b"x"], pa.binary(), [b"x"]),
        ([Binary(b"x", 5)], pa.string(), ['{"$binary":{"base64":"eA==","subType":"05"}}']),
        ([Regex("x", "i")], pa.string(), ['{"$regularExpression":{"pattern":"x","options":"i"}}']),
        ([OID], pa.string(), [str(OID)]),
        ([Decimal128("1.5"), Decimal128("2")], pa.decimal128(38, 1), [Decimal("1.5"), Decimal("2.0")]),
        ([Decimal128("1E+3"), Decimal128("-0")], pa.decimal128(38, 0), [Decimal(1000), Decimal(0)]),
        ([Decimal128("NaN"), Decimal128("1.50")], pa.string(), ["NaN", "1.50"]),
        ([Decimal128("1E+30"), Decimal128("1E-9")], pa.string(), ["1E+30", "1E-9"]),
        ([Decimal128("1.5"), 2], pa.float64(), [1.5, 2.0]),
        ([Decimal128("0.1"), 2], pa.string(), ['{"$numberDecimal":"0.1"}', "2"]),
        ([Decimal128("Infinity"), 2], pa.string(), ['{"$numberDecimal":"Infinity"}', "2"]),
        ([{"x": 1}, {}], pa.string(), ['{"x":1}', "{}"]),
        ([{"x": 1}, 7], pa.string(), ['{"x":1}', "7"]),
        ([[1, 2], [], [None]], pa.list_(pa.int64()), [[1, 2], [], [None]]),
        ([[1], [2.5]], pa.list_(pa.float64()), [[1.0], [2.5]]),
        ([["x"], None], pa.list_(pa.string()), [["x"], None]),
        ([[OID], [DAY]], pa.string(), ['[{"$oid":"' + str(OID) + '"}]', '[{"$date":"2020-01-01T00:00:00Z"}]']),
        ([[OID]], pa.list_(pa.string()), [[str(OID)]]),
        (
            [[Decimal128("1.5")], [Decimal128("2")]],
            pa.list_(pa.decimal128(38, 1)),
            [[Decimal("1.5")], [Decimal("2.0")]],
        ),
        ([[], []], pa.list_(pa.null()), [[], []]),
        ([[1], ["x"]], pa.string(), ["[1]", '["x"]']),
        ([[[1]], [2]], pa.string(), ["[[1]]", "[2]"]),
        ([[{"x": 1}]], pa.string(), ['[{"x":1}]']),
        ([[1], 1], pa.string(), ["[1]", "1"]),
        ([None, MISSING], pa.null(), [None, None]),
        ([], pa.null(), []),
    ],
)
def test_the_type_is_that_of_the_values(values: list[Any], kind: pa.DataType, shown: list[Any]) -> None:
    found = column(in_the_tail(documents_of(values)), "a")
    assert (found.type, found.to_pylist()) == (kind, shown)
    layers = Layers(block_target=1)
    layers.run(documents_of(values), [ColumnSpec("a")])
    again = column(layers.view(), "a")
    assert (again.type, again.to_pylist()) == (kind, shown)


@pytest.mark.parametrize(
    ("declared", "values", "kind", "shown"),
    [
        ("double", [1, 2], pa.float64(), [1.0, 2.0]),
        ("double", [2**53 + 1], pa.string(), ["9007199254740993"]),
        ("int64", [], pa.int64(), []),
        ("int64", [MISSING], pa.int64(), [None]),
        ("int64", [1, "x"], pa.string(), ["1", '"x"']),
        ("int64", [1.5], pa.float64(), [1.5]),
        ("json", ["x", {"a": 1}], pa.string(), ['"x"', '{"a":1}']),
        ("json", [], pa.string(), []),
        ("objectid", [], pa.string(), []),
        ("decimal", [], pa.decimal128(38, 0), []),
        ("list<string>", [], pa.list_(pa.string()), []),
        ("list<string>", [[]], pa.list_(pa.string()), [[]]),
        ("list<string>", [[1]], pa.list_(pa.int64()), [[1]]),
        ("list<string>", ["x"], pa.string(), ["x"]),
        ("list<double>", [[1]], pa.list_(pa.float64()), [[1.0]]),
    ],
)
def test_a_declared_type_counts_where_all_values_have_it(
    declared: str, values: list[Any], kind: pa.DataType, shown: list[Any]
) -> None:
    found = column(in_the_tail(documents_of(values)), "a", declared)
    assert (found.type, found.to_pylist()) == (kind, shown)


# --- however they are stored ---

NUMBERS = st.sampled_from([1, 2, 2**53 + 1, 2**60, 0.5, 2.0, float("nan"), Decimal128("0.5"), Decimal128("0.50")])
FAMILIES = [
    st.integers(0, 3),
    st.sampled_from(["x", "y"]),
    NUMBERS,
    st.sampled_from([OID, None, MISSING]),
    st.sampled_from([Decimal128("1.0"), Decimal128("22.25"), Decimal128("1E+3")]),
    st.lists(st.sampled_from([1, 2, None]), max_size=3),
    st.lists(NUMBERS, max_size=2),
    st.sampled_from([{"c": 1}, {"c": "x"}, [{"c": 1}, {"d": 2}], [{"c": "x"}, 5], 7, DAY, True]),
]


@st.composite
def placed(draw: st.DrawFn) -> tuple[list[dict[str, Any]], Layers]:
    family = st.one_of(draw(st.lists(st.sampled_from(FAMILIES), min_size=1, max_size=2)))
    documents = documents_of(draw(st.lists(family, max_size=12)))
    layers = Layers(block_target=draw(st.sampled_from([1, 250, 10_000])))
    places = [draw(st.integers(0, 3)) for _ in documents]
    for layer in range(3):
        chosen = [document for document, place in zip(documents, places, strict=True) if place == layer]
        # What is replaced later must not show.
        stale = [
            {"_id": one["_id"], "a": {"stale": 1}}
            for one, place in zip(documents, places, strict=True)
            if place > layer
        ]
        columns = draw(st.sampled_from([[], [ColumnSpec("a")], [ColumnSpec("a", "double")], [ColumnSpec("a.c")]]))
        layers.run([*chosen, *(stale if draw(st.booleans()) else [])], columns)
    layers.change([document for document, place in zip(documents, places, strict=True) if place == 3])
    return documents, layers


@given(placed(), st.sampled_from(["a", "a.c", "_id"]), st.sampled_from([None, "double", "int64"]))
def test_a_column_is_the_same_however_documents_are_stored(
    both: tuple[list[dict[str, Any]], Layers], name: str, declared: str | None
) -> None:
    documents, layers = both
    expected = column(in_the_tail(documents), name, declared)
    found = column(layers.view(), name, declared)
    assert str(found.type) == str(expected.type)
    assert repr(found.to_pylist()) == repr(expected.to_pylist())


# --- paths through arrays ---


@pytest.mark.parametrize(
    ("document", "found"),
    [
        ({"a": {"c": 1}}, 1),
        ({"a": [{"c": 1}, {"d": 2}, 3, {"c": None}]}, [1, None]),
        ({"a": [[{"c": 1}], {"c": [2]}]}, [[2]]),
        ({"a": []}, []),
        ({"a": 5}, MISSING),
        ({}, MISSING),
    ],
)
def test_a_path_through_an_array_gives_an_array(document: dict[str, Any], found: Any) -> None:
    assert follow_path(document, ("a", "c")) == found
