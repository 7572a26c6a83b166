"""Exports say what `find_all` says, in every form, and can be run again."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.jobs.rig import customers, empty_place, pipeline
from tests.spark.things import database, follow, steps
from wormdb.api.document import with_id
from wormdb.errors import CorruptionError, InvalidRequestError
from wormdb.format import json
from wormdb.jobs import place as place_of_jobs
from wormdb.jobs import state, target
from wormdb.jobs.export import ExportOptions
from wormdb.jobs.plain_text import csv_line
from wormdb.jobs.target import folder_name, store_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb import Database
    from wormdb.jobs.export import ExportResult


def lines(target: str, done: ExportResult) -> list[bytes]:
    """The lines of all files, in the order of their names."""
    return [line for made in done.files for line in store_at(target).get(made.name).body.splitlines(keepends=True)]


def tables(target: str, done: ExportResult) -> list[pa.Table]:
    return [pq.read_table(io.BytesIO(store_at(target).get(made.name).body)) for made in done.files]


def told(documents: Iterable[Any]) -> list[bytes]:
    return [json.encode(dict(document)) + b"\n" for document in documents]


@settings(max_examples=12)
@given(taken=steps, tasks=st.integers(1, 6))
def test_lines_are_the_documents_that_find_all_finds(taken: list[tuple[str, Any]], tasks: int) -> None:
    with database() as db:
        follow(db, taken)
        jobs, place = pipeline(db, collection="things"), empty_place()
        done = jobs.export(place, ExportOptions("ndjson", tasks=tasks))
        assert lines(place, done) == told(db["things"].find_all(sort="id"))
        assert done.rows == db["things"].count()


@settings(max_examples=10)
@given(taken=steps, tasks=st.integers(1, 6))
def test_columns_are_those_of_to_arrow_and_of_one_type(taken: list[tuple[str, Any]], tasks: int) -> None:
    names = ["id", "a", "b", "c.x"]
    with database() as db:
        follow(db, taken)
        place = empty_place()
        done = pipeline(db, collection="things").export(place, ExportOptions(select=names, tasks=tasks))
        found = tables(place, done)
        assert len({table.schema for table in found}) == 1
        whole = db["things"].to_arrow(names)
        for name in names:
            values = [value for table in found for value in table.column(name).to_pylist()]
            kind = found[0].schema.field(name).type
            # What no single type holds is text; a file alone does not know of which kind the text of others is.
            assert kind in (pa.string(), whole.schema.field(name).type)
            if kind != pa.string():
                assert list(map(repr, values)) == list(map(repr, whole.column(name).to_pylist()))


def test_csv_has_the_columns_of_the_model(db: Database) -> None:
    place = empty_place()
    done = pipeline(db, "Customer").export(place, ExportOptions("csv", tasks=1))
    columns = ["id", *db.schema.models["Customer"].columns] if db.schema is not None else []
    assert lines(place, done)[0] == csv_line(columns)
    assert len(lines(place, done)) == 1 + db.model("Customer").count()


def test_csv_without_a_model_has_every_field(db: Database) -> None:
    db["logs"].insert_many([{"id": "1", "b": 2}, {"id": "2", "a": [1]}])
    place = empty_place()
    done = pipeline(db, collection="logs").export(place, ExportOptions("csv"))
    assert lines(place, done) == [b"id,a,b\r\n", b"1,,2\r\n", b"2,[1],\r\n"]


def test_filter_select_and_moment_are_those_of_find(db: Database) -> None:
    jobs, model = pipeline(db, "Customer"), db.model("Customer")
    place = empty_place()
    done = jobs.export(place, ExportOptions("ndjson", filter={"age": {"$gte": 50}}, select=["name", "orders.total"]))
    found = model.find_all({"age": {"$gte": 50}}, select=["name", "orders.total"], sort="id")
    assert [json.parse(line.decode()) for line in lines(place, done)] == [with_id(row) for row in found]
    place = empty_place()
    done = jobs.export(place, ExportOptions("ndjson", as_of="2"))
    assert lines(place, done) == told(model.find_all(as_of=2, sort="id"))
    assert done.number == 2


def test_crossing_an_array_gives_its_values(db: Database) -> None:
    place = empty_place()
    done = pipeline(db, "Customer").export(place, ExportOptions("csv", filter="id=c0005", select=["orders.total"]))
    assert lines(place, done) == [b"id,orders.total\r\n", b'c0005,"[5,10]"\r\n']


@pytest.mark.parametrize("form", ["parquet", "ndjson", "csv"])
def test_folders_hold_the_rows_of_their_values(db: Database, form: Any) -> None:
    place = empty_place()
    done = pipeline(db, "Customer").export(place, ExportOptions(form, partition_by=("status",), tasks=2))
    by_folder: dict[str, int] = {}
    for made in done.files:
        folder = made.name.rpartition("/")[0]
        by_folder[folder] = by_folder.get(folder, 0) + made.rows
    counted = db.model("Customer").aggregate(group_by="status", count=True)["groups"]
    assert by_folder == {
        f"status={'__HIVE_DEFAULT_PARTITION__' if name == 'null' else name}": group["count"]
        for name, group in counted.items()
    }


def test_names_of_folders_are_safe() -> None:
    assert folder_name(("a b", "c"), ("x/y=z", "")) == "a%20b=x%2Fy%3Dz/c=__HIVE_DEFAULT_PARTITION__/"


def test_much_becomes_several_files(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "FLUSH_BYTES", 1_000)
    place = empty_place()
    done = pipeline(db, "Customer").export(place, ExportOptions("ndjson", tasks=1))
    assert len(done.files) > 1
    assert done.files[1].name == "part-00000-01.ndjson"
    assert lines(place, done) == told(db.model("Customer").find_all(sort="id"))


def test_an_export_is_not_replaced_by_mistake(db: Database) -> None:
    place, jobs = empty_place(), pipeline(db, "Customer")
    jobs.export(place, ExportOptions("ndjson", tasks=4))
    with pytest.raises(InvalidRequestError, match="there is an export already"):
        jobs.export(place)
    done = jobs.export(place, ExportOptions("csv", overwrite=True, tasks=1))
    names = [info.key for page in store_at(place).list() for info in page.objects]
    assert names == ["_SUCCESS", "part-00000.csv"]
    told_last = msgspec.json.decode(store_at(place).get("_SUCCESS").body)
    assert told_last["rows"] == done.rows
    assert [each["name"] for each in told_last["files"]] == ["part-00000.csv"]


def test_other_files_are_left_alone(db: Database) -> None:
    place = empty_place()
    store_at(place).put("report.csv", b"mine")
    with pytest.raises(InvalidRequestError, match=r"such as report\.csv"):
        pipeline(db, "Customer").export(place, ExportOptions(overwrite=True))
    assert store_at(place).get("report.csv").body == b"mine"


def test_a_broken_block_is_named_and_the_job_can_be_run_again() -> None:
    db = customers()
    entry = db.model("Customer").parquet_files().files[0]
    store, place, jobs = db.store, empty_place(), pipeline(db, "Customer")
    body = store.get(entry.key).body
    store.put(entry.key, bytes(len(body)))
    with pytest.raises(CorruptionError, match=rf"export stopped at part 1 of \d+ of Customer: .*{entry.key}"):
        jobs.export(place, ExportOptions("ndjson", tasks=3))
    names = [info.key for page in store_at(place).list() for info in page.objects]
    assert "_SUCCESS" not in names
    assert names, "the other parts went on"
    store.put(entry.key, body)
    place_of_jobs._open.clear()
    state._opened.cache_clear()
    done = jobs.export(place, ExportOptions("ndjson", tasks=3))
    assert lines(place, done) == told(db.model("Customer").find_all(sort="id"))


def test_what_cannot_be_exported_is_said_before_anything_is_read(db: Database) -> None:
    jobs = pipeline(db, "Customer")
    with pytest.raises(InvalidRequestError, match="no such form"):
        jobs.export(empty_place(), ExportOptions("xml"))  # type: ignore[arg-type] # a form that there is not
    with pytest.raises(InvalidRequestError, match="has no column 'nam'"):
        jobs.export(empty_place(), ExportOptions(select=["nam"]))
    with pytest.raises(InvalidRequestError, match="columns have names"):
        jobs.export(empty_place(), ExportOptions(select={"name": 0}))


@pytest.fixture(scope="module")
def shared() -> Database:
    return customers()


@pytest.fixture
def db(shared: Database) -> Database:
    return shared
