"""Frames as people have them: columns of any kind go in as values, or are refused with a reason, and never half."""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped] # it ships no type information
import polars as pl
import pyarrow as pa
import pytest

import wormdb
from wormdb import InvalidRequestError
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb import Database

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def db() -> Iterator[Database]:
    with wormdb.connect("memory://", clock=ManualClock()) as database:
        yield database


def stored(db: Database, frame: Any, **options: Any) -> list[dict[str, Any]]:
    """The documents that a frame becomes, without ids that were made."""
    db["it"].insert_frame(frame, **options)
    return [{name: value for name, value in row.items() if name != "id"} for row in db["it"]]


# --- pandas: cells of one column may be of any kind ---

FREE = [
    ([1, "x", None], [{"k": 1}, {"k": "x"}, {}]),
    ([{"x": 1}, "x", [1]], [{"k": {"x": 1}}, {"k": "x"}, {"k": [1]}]),
    ([[1, 2], ["a"], []], [{"k": [1, 2]}, {"k": ["a"]}, {"k": []}]),
    ([{"x": [1, "y"]}, {"x": {"y": 2}}, None], [{"k": {"x": [1, "y"]}}, {"k": {"x": {"y": 2}}}, {}]),
    ([1, "x", float("nan")], [{"k": 1}, {"k": "x"}, {}]),
    ([pd.NaT, "x", pd.NA], [{}, {"k": "x"}, {}]),
    ([np.int64(5), "x", np.array([1.5, 2.5])], [{"k": 5}, {"k": "x"}, {"k": [1.5, 2.5]}]),
    ([np.bool_(1), "x", {"in": np.float32(0.5)}], [{"k": True}, {"k": "x"}, {"k": {"in": 0.5}}]),
    ([pd.Timestamp("2026-01-01"), "x", date(2026, 1, 1)], [{"k": NEW_YEAR}, {"k": "x"}, {"k": NEW_YEAR}]),
    ([pd.Timestamp("2026-01-01 01:00", tz="Europe/Oslo"), "x", 1], [{"k": NEW_YEAR}, {"k": "x"}, {"k": 1}]),
]


@pytest.mark.parametrize(("cells", "expected"), FREE)
def test_cells_of_a_column_of_objects_may_be_of_several_kinds(
    db: Database, cells: list[Any], expected: list[dict[str, Any]]
) -> None:
    frame = pd.DataFrame({"id": ["a", "b", "c"], "k": pd.Series(cells, dtype=object), "n": [1, 2, 3]})
    found = stored(db, frame)
    assert found == [{**row, "n": place} for place, row in enumerate(expected, 1)]
    assert [type(row.get("k")) for row in found] == [type(row.get("k")) for row in expected]
    assert all([*row] == [name for name in ("k", "n") if name in row] for row in found)


def test_columns_of_several_kinds_have_paths_ids_and_checks_as_others(db: Database) -> None:
    frame = pd.DataFrame({"id": [1, "two"], "a.b": [1, "x"], "a.c": [1, 2], "s": ["p", "q"]})
    assert stored(db, frame) == [{"a": {"b": 1, "c": 1}, "s": "p"}, {"a": {"b": "x", "c": 2}, "s": "q"}]
    assert [row.id for row in db["it"]] == [1, "two"]
    with pytest.raises(InvalidRequestError, match="one of them would be a part of the other"):
        stored(db, pd.DataFrame({"a.b": [1, "x"], "a": [1, 2]}))
    with pytest.raises(InvalidRequestError, match="line 2: "):
        stored(db, pd.DataFrame({"id": [3, None], "b": [1, "x"]}, dtype=object))
    with pytest.raises(InvalidRequestError, match="line 1: "):
        stored(db, pd.DataFrame({"b": [object(), "x"]}))
    assert len(db["it"]) == 2


def test_columns_of_several_kinds_go_in_by_any_number_of_rows_and_as_another_id(db: Database) -> None:
    rows = 12_000
    frame = pd.DataFrame({"key": [f"{n:05}" for n in range(rows)], "k": [n if n % 2 else f"{n}" for n in range(rows)]})
    assert db["it"].insert_frame(frame, id_field="key").inserted == rows
    assert (db["it"].find_by_id("00007"), db["it"].find_by_id("11998")) == (
        {"id": "00007", "k": 7},
        {"id": "11998", "k": "11998"},
    )


def test_a_decimal_keeps_all_its_digits(db: Database) -> None:
    digits = [
        Decimal(1234567890123456789012345678901234),
        Decimal("-0.1234567890123456789012345678901234"),
        Decimal(10),
    ]
    db["it"].insert_frame(pa.table({"id": range(3), "d": pa.array(digits, pa.decimal256(70, 34))}))
    assert [row["d"].to_decimal() for row in db["it"]] == digits


# --- what no document can hold, and frames whose columns cannot be told apart ---

REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: pd.DataFrame([["a", 1, 2]], columns=["id", "x", "x"]), "'x' is there twice"),
    (lambda: pa.table([pa.array(["a"]), pa.array([1]), pa.array([2])], names=["id", "x", "x"]), "'x' is there twice"),
    (lambda: pd.DataFrame({"id": ["a"]}, index=pd.Index(["z"], name="id")), "'id' is there twice"),
    (lambda: pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "x")])), "names of columns have 2 levels"),
    (lambda: pd.DataFrame({"d": pd.arrays.SparseArray([0, 1])}), "[Ss]parse"),
    (lambda: pd.DataFrame({"d": [1 + 2j]}), "complex"),
    (lambda: pd.DataFrame({"d": [pd.Timedelta("1h")]}), "no value of a document"),
    (lambda: pd.DataFrame({"d": pd.period_range("2026-01", periods=1, freq="M")}), "no value of a document"),
    (lambda: pd.DataFrame({"d": [time(1, 2)]}), "no value of a document"),
    (lambda: pd.Series([1, 2], name="n"), "frame"),
    (lambda: pl.DataFrame({"d": pl.Series([object()], dtype=pl.Object)}), "objects of Python"),
    (lambda: pl.DataFrame({"d": pl.Series([{"a": 2**63}], dtype=pl.Struct({"a": pl.Int128}))}), "frame"),
    (lambda: pl.LazyFrame({"d": [1]}), "collect"),
    (lambda: pa.table({"d": pa.array([10**12], pa.timestamp("s"))}), "line 1: "),
    (lambda: pa.table({"d": pa.array([None, 10**12], pa.timestamp("s"))}), "line 2: "),
    (lambda: pa.table({"d": pa.array([Decimal("1" * 40)], pa.decimal256(50, 0))}), "line 1: .*digits"),
    (lambda: pa.table({"d": pa.array([{"x": Decimal("1" * 40)}], pa.struct([("x", pa.decimal256(50, 0))]))}), "digits"),
    (lambda: pa.table({"d": _not_text()}), "line 1: "),
    (lambda: pa.table({"d": np.array([2**63], dtype="uint64")}), "line 1: "),
    (lambda: pa.table({"d": pa.array([uuid.UUID(int=5).bytes], pa.uuid())}), "no value of a document"),
]


def _not_text() -> pa.Array:
    offsets = pa.py_buffer(np.array([0, 1], dtype=np.int32).tobytes())
    return pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"\xff")])


@pytest.mark.parametrize("place", range(len(REFUSED)))
def test_what_no_document_can_hold_is_refused_with_the_reason(db: Database, place: int) -> None:
    make, reason = REFUSED[place]
    with pytest.raises(InvalidRequestError, match=f"(?s){reason}"):
        db["it"].insert_frame(make())
    assert db.cost().puts == 0


@pytest.mark.parametrize(
    "column",
    [
        pa.array([*[0] * 11_999, 10**12], pa.timestamp("s")),
        pa.array([*[Decimal(1)] * 11_999, Decimal("1" * 40)], pa.decimal256(50, 0)),
        pa.array([*[0] * 11_999, 2**63], pa.uint64()),
    ],
)
def test_a_value_that_does_not_fit_is_named_among_many_rows_too(db: Database, column: pa.Array) -> None:
    with pytest.raises(InvalidRequestError, match=r"line 12,?000: "):
        db["it"].insert_frame(pa.table({"id": range(12_000), "d": column}))
    assert len(db["it"]) == 0
