from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from bson import Binary, Decimal128, ObjectId
from hypothesis import given
from hypothesis import strategies as st

from wormdb.errors import CorruptionError, InvalidRequestError
from wormdb.format.columns import COLUMN_TYPES, ELSEWHERE, ColumnSpec, EncodedColumn, decode_column, encode_column
from wormdb.format.key import encode_key
from wormdb.format.kinds import MISSING, equal
from wormdb.format.path import TRAVERSED
from wormdb.testing.strategies import values

NAN = float("nan")
cells = st.one_of(
    values(),
    st.just(MISSING),
    st.just(TRAVERSED),
    st.integers(-3, 3),
    st.floats(-3, 3),
    st.sampled_from([Decimal128("1.00"), Decimal128("1.0"), Decimal128("-0"), Decimal128("NaN"), Decimal128("1E+3")]),
    st.lists(st.none() | st.integers(-3, 3), max_size=3),
    st.lists(st.none() | st.floats(-3, 3), max_size=3),
    st.lists(st.none() | st.just(Decimal128("2.5")), max_size=3),
)


def read(column: EncodedColumn) -> list[Any]:
    kinds = None if column.kinds is None else pa.chunked_array([column.kinds])
    return decode_column(pa.chunked_array([column.cells]), kinds, column.type, name="x")


def exact(stored: Any, found: Any) -> bool:
    """What a reader gets is the value itself, or the word that it must look elsewhere."""
    if found is ELSEWHERE:
        return stored is not MISSING and stored is not None
    return stored is found or equal(stored, found)


@given(st.lists(cells, max_size=12), st.sampled_from(["auto", *sorted(COLUMN_TYPES)]))
def test_every_value_survives_in_every_type_of_column(stored: list[Any], kind: str) -> None:
    column = encode_column(ColumnSpec("a", kind), stored)
    found = read(column)
    assert len(found) == len(stored)
    assert all(map(exact, stored, found)), (stored, found)
    stats = column.stats
    assert stats.nulls == sum(value is None for value in stored)
    assert stats.missing == sum(value is MISSING for value in stored)
    assert stats.others == sum(value is ELSEWHERE for value in found)
    assert stats.values + stats.nulls + stats.missing + stats.others == len(stored)


@given(st.lists(cells, max_size=12), st.sampled_from(["auto", *sorted(COLUMN_TYPES)]))
def test_bounds_enclose_every_value_in_the_column(stored: list[Any], kind: str) -> None:
    column = encode_column(ColumnSpec("a", kind), stored)
    inside = [value for value in read(column) if value not in (MISSING, None, ELSEWHERE)]
    low, high = column.stats.low, column.stats.high
    if column.type == "json" or column.type.startswith("list<"):
        assert (low, high) == (None, None)
        return
    assert (low is None) == (not inside)
    for value in inside:
        assert low is not None
        assert low <= encode_key(value)
        assert high is None or encode_key(value) <= high


def test_the_kinds_are_as_documented() -> None:
    column = encode_column(ColumnSpec("a", "double"), [1.5, None, MISSING, "x", 7, TRAVERSED, 2**53 + 1, 2**62])
    assert column.kinds is not None
    assert column.kinds.to_pylist() == [0, 1, 2, 3, 4, 3, 3, 4]
    assert column.cells.to_pylist() == [1.5, None, None, None, 7.0, None, None, 2.0**62]
    assert read(column) == [1.5, None, MISSING, ELSEWHERE, 7, ELSEWHERE, ELSEWHERE, 2**62]
    assert type(read(column)[4]) is int


@pytest.mark.parametrize("stored", [[1, 2, 3], [1, MISSING], [MISSING], []])
def test_no_companion_where_none_is_needed(stored: list[Any]) -> None:
    column = encode_column(ColumnSpec("a", "int64"), stored)
    assert column.kinds is None
    assert read(column) == stored


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ([1, 2, "x"], "int64"),
        ([1, 2.5], "double"),
        ([2**53 + 1, 2**53 + 3, 0.5], "int64"),
        (["x", 1, "y"], "string"),
        ([True, False, 1], "bool"),
        ([datetime(2024, 1, 1, tzinfo=UTC)], "date"),
        ([b"x", Binary(b"x", 4)], "binary"),
        ([ObjectId("0123456789abcdef01234567")], "objectid"),
        ([Decimal128("1.5"), Decimal128("2.5")], "decimal"),
        ([["a"], ["b", None], []], "list<string>"),
        ([[1], [2], ["x"]], "list<int64>"),
        ([[True]], "list<bool>"),
        ([[]], "list<string>"),
        ([[1, "x"]], "json"),
        ([[["nested"]]], "json"),
        ([{"a": 1}, {"b": 1}, 5], "json"),
        ([None, MISSING, TRAVERSED], "string"),
        ([1, "x"], "int64"),
        ([1, ["x"], ["y"]], "list<string>"),
    ],
)
def test_auto_takes_the_most_frequent_type(stored: list[Any], expected: str) -> None:
    assert encode_column(ColumnSpec("a"), stored).type == expected


def test_arrow_types_are_natural() -> None:
    types = {kind: str(encode_column(ColumnSpec("a", kind), []).cells.type) for kind in COLUMN_TYPES}
    assert types["int64"] == "int64"
    assert types["date"] == "timestamp[ms, tz=UTC]"
    assert types["objectid"] == "fixed_size_binary[12]"
    assert types["list<double>"] == "list<item: double>"
    assert types["json"] == "string"


def test_decimals_keep_their_digits_and_one_scale() -> None:
    stored = [Decimal128("1.00"), Decimal128("2.50"), Decimal128("1.0"), Decimal128("-0.00"), Decimal128("Infinity")]
    column = encode_column(ColumnSpec("a"), stored)
    assert str(column.cells.type) == "decimal128(38, 2)"
    assert read(column) == [stored[0], stored[1], ELSEWHERE, ELSEWHERE, ELSEWHERE]
    wide = [Decimal128("1234567890123456789012345678901234"), Decimal128("1E-38")]
    assert read(encode_column(ColumnSpec("a"), wide[:1])) == wide[:1]
    assert read(encode_column(ColumnSpec("a"), wide[1:])) == wide[1:]


def test_long_bounds_are_shortened_outwards() -> None:
    stats = encode_column(ColumnSpec("a"), ["b" * 500, "c" * 500]).stats
    assert stats.low is not None
    assert stats.high is not None
    assert len(stats.low) <= 64
    assert len(stats.high) <= 64
    assert stats.low <= encode_key("b" * 500) < encode_key("c" * 500) <= stats.high


def test_nan_is_within_the_bounds() -> None:
    stats = encode_column(ColumnSpec("a"), [NAN, 1.0, 2.0]).stats
    assert (stats.low, stats.high) == (encode_key(NAN), encode_key(2.0))
    alone = encode_column(ColumnSpec("a"), [NAN]).stats
    assert (alone.low, alone.high) == (encode_key(NAN), encode_key(NAN))


def test_cells_and_kinds_that_contradict_each_other_are_corruption() -> None:
    one, empty = pa.chunked_array([pa.array([1])]), pa.chunked_array([pa.array([None], pa.int64())])
    for values_, code in [(one, 1), (one, 2), (one, 3), (empty, 0), (empty, 4), (one, 9), (empty, 9)]:
        with pytest.raises(CorruptionError) as caught:
            decode_column(values_, pa.chunked_array([pa.array([code], pa.uint8())]), "int64", name="some/key")
        assert caught.value.key == "some/key"


@pytest.mark.parametrize(("path", "kind"), [("a", "text"), ("", "auto"), ("a..b", "auto"), ("a.$b", "auto")])
def test_what_is_no_column_is_refused(path: str, kind: str) -> None:
    with pytest.raises(InvalidRequestError):
        ColumnSpec(path, kind)
