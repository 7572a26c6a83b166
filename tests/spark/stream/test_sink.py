"""Micro-batches of a stream are written once, whatever is repeated, and in the order of their changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from pyspark.sql import types as spark
from pyspark.sql.datasource import CaseInsensitiveDict

import wormdb
from tests.spark.read.rig import sent
from tests.spark.stream.rig import Stream
from tests.spark.things import database, follow, plain, steps
from wormdb import ConflictError, InvalidRequestError, Settings
from wormdb.errors import OutcomeUnknownError
from wormdb.format.event import StreamAdvanced
from wormdb.jobs import place
from wormdb.spark.register import WormStreams
from wormdb.spark.stream import sink as stream_sink
from wormdb.spark.types import arrow_schema
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.datasource import WriterCommitMessage

    from wormdb import Database
    from wormdb.spark.stream.sink import StreamWriter

QUERY = "9a512e23-222e-4f18-8a6b-abe00f80d83f"
ROW = spark.StructType(
    [
        spark.StructField("id", spark.StringType()),
        spark.StructField("n", spark.LongType()),
        spark.StructField("_deleted", spark.BooleanType()),
    ]
)


class Task:
    """What a task is told of the query that it belongs to."""

    query: str | None = QUERY

    @classmethod
    def get(cls) -> type[Task]:
        return cls

    @classmethod
    def getLocalProperty(cls, name: str) -> str | None:  # noqa: N802 - Spark's name
        assert name == "sql.streaming.queryId"
        return cls.query

    @classmethod
    def partitionId(cls) -> int:  # noqa: N802 - Spark's name
        return 3


@pytest.fixture(autouse=True)
def _in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_sink, "TaskContext", Task)


def writer(schema: spark.StructType, db: Database, name: str = "copies", **options: str) -> StreamWriter:
    source = WormStreams(CaseInsensitiveDict({"url": db.url, "collection": name, "checkpointLocation": "x", **options}))
    made: StreamWriter = sent(source.streamWriter(schema, False))
    return made


def run(sink: StreamWriter, batch: int, *tasks: list[dict[str, Any]]) -> None:
    """One micro-batch, with the rows of its tasks."""
    schema = arrow_schema(sink.schema)
    messages: list[WriterCommitMessage | None] = [
        sent(sink.write(iter(pa.Table.from_pylist(rows, schema).to_batches()))) for rows in tasks
    ]
    sent(sink).commit(messages, batch)


def written(db: Database, name: str = "copies") -> list[int]:
    """The micro-batches that entries of the log say they are."""
    ledger = db[name]._ledger
    entries = ledger.entries(LogNumber(0), ledger.view().number)
    assert entries is not None
    return [event.batch for entry in entries for event in entry.events if isinstance(event, StreamAdvanced)]


def state(db: Database, name: str = "copies") -> dict[Any, Any]:
    return {found.id: plain(dict(found)) for found in db[name].find_all()}


@settings(max_examples=6)
@given(taken=steps)
def test_a_feed_written_to_another_collection_is_a_copy(taken: list[tuple[str, Any]]) -> None:
    """Each micro-batch is repeated, as after a crash of the driver behind the commit."""
    with database() as db:
        follow(db, taken)
        stream = Stream(url=db.url, collection="things", maxRowsPerTrigger="9")
        sink = writer(stream.reader.table.schema, db)
        count = 0
        for count, rows in enumerate(stream.batches(), 1):
            half = len(rows) // 2
            run(sink, count - 1, rows[:half], rows[half:], [])
            run(writer(stream.reader.table.schema, db), count - 1, rows)
        assert state(db) == state(db, "things")
        assert written(db) == sorted(set(written(db)))
        assert len(written(db)) <= count


def test_rows_insert_replace_and_delete() -> None:
    with database() as db:
        sink = writer(ROW, db, actor="spark")
        run(sink, 0, [{"id": "a", "n": 1}, {"id": "b", "n": 2}], [{"id": "c", "n": 3}])
        run(sink, 1, [{"id": "a", "n": 5}, {"id": "b", "_deleted": True}, {"id": "gone", "_deleted": True}])
        assert state(db) == {"a": {"id": "a", "n": 5}, "c": {"id": "c", "n": 3}}
        changes = list(db["copies"].watch())
        assert [(change.op, change.id, change.actor) for change in changes[3:]] == [
            ("update", "a", "spark"),
            ("delete", "b", "spark"),
        ]


def test_a_batch_that_changes_nothing_is_written_once_too() -> None:
    with database() as db:
        sink = writer(ROW, db)
        run(sink, 0, [{"id": "a", "n": 1}])
        run(sink, 1, [{"id": "a", "n": 1}, {"id": "b", "_deleted": True}])
        db["copies"].save({"_id": "a", "n": 2})
        run(sink, 1, [{"id": "a", "n": 1}, {"id": "b", "_deleted": True}])
        run(sink, 2, [])
        assert (written(db), state(db)) == ([0, 1], {"a": {"id": "a", "n": 2}})


def test_the_last_row_of_a_document_counts_and_must_be_known() -> None:
    numbered = spark.StructType([*ROW.fields, spark.StructField("_seq", spark.LongType())])
    with database() as db:
        rows = [[{"id": "a", "n": n, "_seq": n}] for n in (2, 3, 1)]
        run(writer(numbered, db), 0, *rows, [{"id": "b", "n": 1, "_seq": 1}, {"id": "b", "_deleted": True, "_seq": 2}])
        assert state(db) == {"a": {"id": "a", "n": 3}}
        with pytest.raises(InvalidRequestError, match=r"document 'a' of copies.*_seq.*dropDuplicates"):
            run(writer(ROW, db), 1, [{"id": "a", "n": 8}], [{"id": "a", "n": 9}])
        assert state(db) == {"a": {"id": "a", "n": 3}}


def test_an_overtaken_driver_writes_nothing_any_more() -> None:
    with database() as db:
        sink = writer(ROW, db)
        for batch in range(3):
            run(sink, batch, [{"id": "a", "n": batch}])
        db.forward(["copies"])
        run(writer(ROW, db), 1, [{"id": "a", "n": 1}])
        assert state(db) == {"a": {"id": "a", "n": 2}}
        Task.query = QUERY.replace("9", "8")
        try:
            run(writer(ROW, db), 0, [{"id": "b", "n": 7}])  # another query counts by itself
        finally:
            Task.query = QUERY
        assert state(db) == {"a": {"id": "a", "n": 2}, "b": {"id": "b", "n": 7}}


@pytest.fixture
def _small_stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(place, "WORKER_SETTINGS", Settings(forward="manual", stage_bytes=600, block_bytes=300))
    place._open.clear()
    yield
    place._open.clear()


@pytest.mark.usefixtures("_small_stage")
def test_a_large_batch_is_staged_and_written_once() -> None:
    with database() as db:
        sink = writer(ROW, db)
        run(sink, 0, [{"id": "k0", "n": -1}, {"id": "x", "n": 0}])
        rows = [{"id": f"k{n}", "n": n} for n in range(60)]
        for _ in range(2):
            run(sink, 1, rows[:30], [*rows[30:], {"id": "x", "_deleted": True}])
        assert written(db) == [0, 1]
        assert state(db) == {row["id"]: row for row in rows}
        assert [job.state for job in db["copies"]._ledger.view().jobs.known.values()] == ["attached", "streamed"]


def test_others_may_write_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    with database() as db:
        sink = writer(ROW, db)
        run(sink, 0, [{"id": "a", "n": 1}])
        genuine, left = stream_sink._operations, [2]

        def overtaken(*arguments: Any) -> Iterator[Any]:
            found = list(genuine(*arguments))
            if left[0]:
                left[0] -= 1
                db["copies"].save({"_id": "a", "n": 100 + left[0]})
            return iter(found)

        monkeypatch.setattr(stream_sink, "_operations", overtaken)
        run(sink, 1, [{"id": "a", "n": 2}])
        assert state(db) == {"a": {"id": "a", "n": 2}}
        left[0] = 1000
        with pytest.raises(ConflictError, match="20 times"):
            run(sink, 2, [{"id": "a", "n": 3}])
        assert written(db) == [0, 1]


def test_an_answer_that_is_lost_is_found_out_by_the_next_try(monkeypatch: pytest.MonkeyPatch) -> None:
    with database() as db:
        sink = writer(ROW, db)
        ledger = type(db["copies"]._ledger)
        genuine = ledger.commit

        def lost(*arguments: Any, **more: Any) -> Any:
            genuine(*arguments, **more)
            raise OutcomeUnknownError("commit", reason="no answer", commit_id="x")

        monkeypatch.setattr(ledger, "commit", lost)
        with pytest.raises(OutcomeUnknownError):
            run(sink, 0, [{"id": "a", "n": 1}])
        sink.abort([None], 0)
        monkeypatch.undo()
        monkeypatch.setattr(stream_sink, "TaskContext", Task)
        run(sink, 0, [{"id": "a", "n": 1}])
        assert (written(db), state(db)) == ([0], {"a": {"id": "a", "n": 1}})


def test_documents_of_a_model_are_checked_and_keep_when_they_were_made() -> None:
    model = {"path": "@people/(id:string)", "fields": {"age": {"type": "integer", "required": True}}}
    schema = {"schemaVersion": "1.0", "models": {"Person": model}}
    columns = spark.StructType([ROW["id"], spark.StructField("age", spark.LongType())])
    with wormdb.connect("memory://spark-stream-people", schema=schema, apply=True) as db:
        people = db.model("Person")
        created = people.insert({"id": "p", "age": 1})["createdAt"]
        options = CaseInsensitiveDict({"url": db.url, "model": "Person"})
        sink = WormStreams(options).streamWriter(columns, False)
        run(sink, 0, [{"id": "p", "age": 2}, {"id": "q", "age": 3}])
        found = people.find_by_id("p")
        assert found is not None
        assert (found["age"], found["createdAt"]) == (2, created)
        with pytest.raises(InvalidRequestError, match=r"row 1 of task 3.*age"):
            run(sink, 1, [{"id": "r", "age": 2}, {"id": "s"}])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": spark.StringType(), "_deleted": spark.StringType()}, "must be boolean"),
        ({"n": spark.LongType(), "_op": spark.StringType()}, "add a column id"),
        ({"_seq": spark.LongType()}, "no column is a field"),
    ],
)
def test_columns_that_cannot_be_are_refused_before_anything_runs(
    columns: dict[str, spark.DataType], message: str
) -> None:
    schema = spark.StructType([spark.StructField(name, kind) for name, kind in columns.items()])
    with database() as db, pytest.raises(InvalidRequestError, match=message):
        writer(schema, db)


def test_what_a_sink_cannot_do_is_said_with_the_remedy() -> None:
    with database() as db:
        source = WormStreams(CaseInsensitiveDict({"url": db.url, "collection": "copies"}))
        with pytest.raises(InvalidRequestError, match=r'complete.*outputMode\("append"\)'):
            source.streamWriter(ROW, True)
        with pytest.raises(InvalidRequestError, match=r"row 0 of task 3.*its id is null"):
            run(writer(ROW, db), 0, [{"n": 1, "_deleted": True}])
        with pytest.raises(InvalidRequestError, match=r"row 0 of task 3.*its id is null"):
            run(writer(ROW, db), 0, [{"n": 1}])
        Task.query = None
        try:
            with pytest.raises(InvalidRequestError, match="in a task of a streaming query"):
                run(writer(ROW, db), 0, [{"id": "a"}])
        finally:
            Task.query = QUERY
