"""Imports bring every record of a file once, and set aside what does not fit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import wormdb
from tests.jobs.rig import SCHEMA, customers, empty_place, pipeline
from wormdb.errors import InvalidRequestError, NotFoundError
from wormdb.format import json
from wormdb.jobs import infer, sources
from wormdb.jobs.export import ExportOptions
from wormdb.jobs.import_ import FileRecords
from wormdb.jobs.infer import infer_files
from wormdb.jobs.records import rows_of
from wormdb.jobs.target import store_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wormdb import Database


@pytest.fixture
def db() -> Iterator[Database]:
    tuned = wormdb.Settings(forward="manual", block_bytes=4_000)
    with wormdb.connect(empty_place(), schema=SCHEMA, apply=True, settings=tuned) as found:
        yield found


def lines(*records: Any) -> bytes:
    return b"".join(json.encode(record) + b"\n" for record in records)


@settings(max_examples=60, phases=[Phase.generate])
@given(
    texts=st.lists(st.text(st.characters(codec="utf-8"), max_size=30), max_size=20),
    step=st.integers(1, 60),
    end=st.sampled_from([b"", b"\n", b"\n\n"]),
)
def test_pieces_have_every_line_once(texts: list[str], step: int, end: bytes) -> None:
    body = b"\n".join(json.encode({"id": str(place), "t": text}) for place, text in enumerate(texts)) + end
    place = empty_place()
    store_at(place).put("x.ndjson", body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "PIECE_BYTES", step)
        pieces = sources.pieces_of([f"{place}/x.ndjson"], None, None) if body else []
    found, before, numbers = [], 0, []
    for piece in pieces:
        for rows in rows_of(piece, None):
            found += [record.values for record in rows.records]
            numbers += [record.line + before for record in rows.records]
            before += rows.lines
    assert found == [{"id": str(number), "t": text} for number, text in enumerate(texts)]
    assert numbers == list(range(1, len(texts) + 1))


@pytest.mark.parametrize("form", ["ndjson", "csv", "parquet"])
def test_what_was_exported_is_imported(db: Database, tmp_path: Path, form: Any) -> None:
    with customers() as other:
        names = ["name", "age", "status"]
        pipeline(other, "Customer").export(str(tmp_path), ExportOptions(form, select=names, tasks=3))
        expected = [dict(row) for row in other.model("Customer").find_all(select=names, sort="id")]
    done = pipeline(db, "Customer").import_files(FileRecords((str(tmp_path),)))
    assert (done.read, done.inserted, done.rejected) == (len(expected), len(expected), ())
    found = [dict(row) for row in db.model("Customer").find_all(select=names, sort="id")]
    assert [plain(row) for row in found] == [plain(row) for row in expected]
    assert db.verify(["Customer"])[0].is_sound


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Without nulls: CSV and Parquet do not tell them from missing."""
    return {name: value for name, value in row.items() if value is not None}


def test_bad_records_are_set_aside_with_their_lines(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "PIECE_BYTES", 40)
    good = [{"id": f"c{number}", "age": number} for number in range(20)]
    body = lines(*good[:7]) + b"{broken\n" + lines(*good[7:15], {"id": "bad", "age": "old"}, *good[15:])
    (tmp_path / "x.ndjson").write_bytes(body)
    done = pipeline(db, "Customer").import_files(FileRecords((str(tmp_path / "x.ndjson"),)))
    assert (done.read, done.inserted) == (22, 20)
    assert [(each.line, each.kind) for each in done.rejected] == [(8, "unreadable"), (17, "record")]
    told = json.parse(done.rejected[1].to_line().decode())
    assert told["record"] == {"id": "bad", "age": "old"}
    assert "age" in told["reason"] or "integer" in told["reason"]
    assert json.parse(done.rejected[0].to_line().decode())["text"] == "{broken"


def test_a_job_is_done_once(db: Database, tmp_path: Path) -> None:
    (tmp_path / "x.ndjson").write_bytes(lines({"id": "a"}, {"id": "b"}))
    records = FileRecords((str(tmp_path),), job="nightly")
    first = pipeline(db, "Customer").import_files(records)
    again = pipeline(db, "Customer").import_files(records)
    assert (again.number, again.is_repeated, again.inserted) == (first.number, True, 0)
    assert db.model("Customer").count() == 2


def test_a_job_that_failed_goes_on_under_its_name(db: Database, tmp_path: Path) -> None:
    (tmp_path / "1.ndjson").write_bytes(lines({"id": "a"}))
    pq.write_table(pa.table({"id": ["b"]}), tmp_path / "2.parquet")
    whole = (tmp_path / "2.parquet").read_bytes()
    (tmp_path / "2.parquet").write_bytes(whole[:-6])
    records = FileRecords((str(tmp_path),), job="load")
    with pytest.raises(
        InvalidRequestError, match=r"import stopped at .*1\.ndjson and 1 more: .*2\.parquet is not a Parquet file"
    ):
        pipeline(db, "Customer").import_files(records)
    assert db.model("Customer").count() == 0
    db.model("Customer").insert({"id": "meanwhile"})
    (tmp_path / "2.parquet").write_bytes(whole)
    assert pipeline(db, "Customer").import_files(records).inserted == 2
    assert sorted(row["id"] for row in db.model("Customer").find_all()) == ["a", "b", "meanwhile"]


def test_an_id_that_exists_is_treated_by_rule(db: Database, tmp_path: Path) -> None:
    db.model("Customer").insert({"id": "a", "name": "old"})
    (tmp_path / "x.csv").write_text("code,name\na,new\nb,new\n")
    records = FileRecords((str(tmp_path),), id_field="code")
    jobs = pipeline(db, "Customer")
    with pytest.raises(InvalidRequestError, match=r"x\.csv, line 2: the id 'a' exists already"):
        jobs.import_files(replace(records, is_strict=True))
    assert db.model("Customer").count() == 1
    done = jobs.import_files(records)
    assert (done.inserted, [(each.line, each.kind) for each in done.rejected]) == (1, [(2, "csv")])
    done = jobs.import_files(FileRecords((str(tmp_path),), id_field="code", on_conflict="ignore"))
    assert (done.inserted, done.unchanged) == (0, 2)
    done = jobs.import_files(FileRecords((str(tmp_path),), id_field="code", on_conflict="replace"))
    found = db.model("Customer").find_by_id("a")
    assert found is not None
    assert (done.replaced, done.unchanged, found["name"]) == (1, 1, "new")


def test_ids_are_made_where_there_are_none(db: Database, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(b'[{"n": 1}, {"n": 2}]')
    done = pipeline(db, collection="logs").import_files(FileRecords((str(tmp_path),)))
    assert done.inserted == 2
    assert sorted(row["n"] for row in db["logs"].find_all()) == [1, 2]


def test_what_is_not_there_is_named(db: Database, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"none\.csv"):
        pipeline(db, "Customer").import_files(FileRecords((str(tmp_path / "none.csv"),)))
    with pytest.raises(InvalidRequestError, match="there are no files"):
        pipeline(db, "Customer").import_files(FileRecords((str(tmp_path),)))


@pytest.mark.parametrize("name", ["x.ndjson", "x.csv", "x.parquet"])
def test_a_model_that_is_inferred_takes_all(tmp_path: Path, name: str) -> None:
    rows = [{"key": f"k{n}", "n": n, "name": f"name {n}", "since": "2026-01-02"} for n in range(5)]
    if name.endswith("csv"):
        text = "key,n,name,since\n" + "".join(",".join(map(str, row.values())) + "\n" for row in rows)
        (tmp_path / name).write_text(text)
    elif name.endswith("parquet"):
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / name)
    else:
        (tmp_path / name).write_bytes(lines(*rows))
    records = FileRecords((str(tmp_path / name),), id_field="key")
    found = infer_files(records, "@things")
    assert (found.seen, found.is_whole) == (5, True)
    assert {name: field["type"] for name, field in found.model["fields"].items()} == {
        "n": "integer",
        "name": "string",
        "since": "datetime",
    }
    schema = {"schemaVersion": "1.0", "models": {"Thing": found.model}}
    with wormdb.connect(empty_place(), schema=schema, apply=True) as db:
        done = pipeline(db, "Thing").import_files(records)
        assert (done.inserted, done.rejected) == (5, ())


def test_a_model_of_some_records_requires_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(infer, "RECORDS_MAX", 1_000)
    rows = [{"id": str(n), "a": {"b": n}} for n in range(3_000)]
    (tmp_path / "x.ndjson").write_bytes(lines(*rows))
    found = infer_files(FileRecords((str(tmp_path),)), "@things")
    assert (found.seen, found.is_whole) == (1_000, False)
    assert found.model["fields"] == {"a": {"type": "object", "properties": {"b": {"type": "integer"}}}}


def test_files_of_one_document_are_called_as_their_folders(db: Database, tmp_path: Path) -> None:
    for name, text in (("ada", '{"name": "Ada"}'), ("bob", '{"id": "robert"}'), ("cid", "[{}, {}]"), ("dan", "{")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data.json").write_text(text)
    done = pipeline(db, "Customer").import_files(FileRecords((str(tmp_path),), form="entities"))
    assert sorted(found.id for found in db.model("Customer").find_all()) == ["ada", "robert"]
    assert [each.file for each in done.rejected] == [f"{tmp_path}/{name}/data.json" for name in ("cid", "dan")]
    assert done.rejected[0].reason == "a file has one object of JSON"
