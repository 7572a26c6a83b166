"""What is imported and exported again is what was there, in each form and of each type that the form can carry."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import wormdb
from tests.jobs.rig import empty_place, pipeline
from wormdb.format import json
from wormdb.jobs import sources
from wormdb.jobs.export import ExportOptions
from wormdb.jobs.import_ import FileRecords
from wormdb.jobs.target import store_at
from wormdb.testing.strategies import values

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
MOMENTS = st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1)).map(  # noqa: DTZ001 - the zone comes with the map
    lambda found: found.replace(microsecond=found.microsecond // 1000 * 1000, tzinfo=UTC)
)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
DECIMALS = st.decimals(-(10**9), 10**9, places=2, allow_nan=False)
FIELDS: dict[str, tuple[str, pa.DataType, st.SearchStrategy[Any]]] = {
    "text": ("string", pa.string(), TEXTS),
    "count": ("integer", pa.int64(), NUMBERS),
    "rate": ("number", pa.float64(), FLOATS),
    "flag": ("boolean", pa.bool_(), st.booleans()),
    "since": ("datetime", pa.timestamp("ms", "UTC"), MOMENTS),
    "price": ("decimal", pa.decimal128(20, 2), DECIMALS),
    "tags": ("array", pa.list_(pa.string()), st.lists(TEXTS, max_size=3)),
}
ROWS = st.lists(st.fixed_dictionaries({name: kind | st.none() for name, (_, _, kind) in FIELDS.items()}), max_size=8)
SCHEMA = {
    "schemaVersion": "1.0",
    "models": {
        "Row": {
            "path": "@rows/(id:string)",
            "files": False,
            "fields": {name: {"type": kind} for name, (kind, _, _) in FIELDS.items()},
        }
    },
}


def through(body: bytes, form: Any, step: int, *, name: str | None = None) -> tuple[str, Any]:
    """Import a file that is cut into pieces, and export what is there then: the place, and what was done."""
    source, target = empty_place(), empty_place()
    suffix = {"json": "ndjson"}.get(form, form)
    store_at(source).put(f"x.{form}", body)
    schema = None if name is None else SCHEMA
    with wormdb.connect(empty_place(), schema=schema, apply=schema is not None) as db:
        jobs = pipeline(db, name, None if name is not None else "rows")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sources, "PIECE_BYTES", step)
            done = jobs.import_files(FileRecords((f"{source}/x.{form}",)))
        assert done.rejected == ()
        select = None if name is None else list(FIELDS)
        return target, jobs.export(target, ExportOptions(suffix, select=select, tasks=2))


def files(target: str, done: Any) -> list[bytes]:
    return [store_at(target).get(made.name).body for made in done.files]


@settings(max_examples=6, phases=[Phase.generate])
@given(
    bodies=st.lists(st.dictionaries(st.sampled_from("abc"), values(), max_size=3), min_size=1, max_size=8),
    form=st.sampled_from(["ndjson", "json"]),
    step=st.sampled_from([60, 10_000]),
)
def test_json_of_any_values(bodies: list[dict[str, Any]], form: str, step: int) -> None:
    documents = [json.encode({"id": f"k{place}", **body}) for place, body in enumerate(bodies)]
    whole = b"\n".join(documents) + b"\n" if form == "ndjson" else b"[" + b",\n".join(documents) + b"]"
    found = [line for body in files(*through(whole, form, step)) for line in body.splitlines()]
    assert found == documents


@settings(max_examples=6, phases=[Phase.generate])
@given(rows=ROWS, step=st.sampled_from([80, 10_000]))
def test_csv_of_a_model(rows: list[dict[str, Any]], step: int) -> None:
    names = ["id", *FIELDS]
    cells = [[f"k{place}", *(_cell(row[name]) for name in FIELDS)] for place, row in enumerate(rows)]
    out = io.StringIO()
    out.write(",".join(names) + "\r\n")
    for row in cells:
        out.write(",".join("" if cell is None else '"' + cell.replace('"', '""') + '"' for cell in row) + "\r\n")
    bodies = files(*through(out.getvalue().encode(), "csv", step, name="Row"))
    found = [row for body in bodies for row in list(csv.reader(io.StringIO(body.decode(), newline="")))[1:]]
    assert found == [[cell or "" for cell in row] for row in cells]


def _cell(value: Any) -> str | None:
    """As people would write it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03}Z"
    return str(value) if isinstance(value, Decimal) else json.encode(value).decode()


@settings(max_examples=6, phases=[Phase.generate])
@given(rows=ROWS, step=st.sampled_from([500, 100_000]), group=st.integers(1, 4))
def test_parquet_of_a_model(rows: list[dict[str, Any]], step: int, group: int) -> None:
    types = {name: kind for name, (_, kind, _) in FIELDS.items()}
    given_rows = [{"id": f"k{place}", **row} for place, row in enumerate(rows)]
    table = pa.Table.from_pylist(given_rows, schema=pa.schema([("id", pa.string()), *types.items()]))
    out = io.BytesIO()
    pq.write_table(table, out, row_group_size=group)
    bodies = files(*through(out.getvalue(), "parquet", step, name="Row"))
    found = [row for body in bodies for row in pq.read_table(io.BytesIO(body)).to_pylist()]
    assert [_plain(row) for row in found] == [_plain(row) for row in given_rows]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Numbers by their value, whatever digits they are written with; and text that is JSON of a list as the list."""
    return {
        name: json.parse(value) if name == "tags" and isinstance(value, str) else value for name, value in row.items()
    }
