"""The change feed gives each change once, in order, wherever a stream stops and begins again."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as spark

import wormdb
from tests.spark.stream.rig import Stream, reader
from tests.spark.things import database, follow, plain, shown, steps
from wormdb import InvalidRequestError, NotFoundError, SnapshotTooOldError
from wormdb.engine.state import trim
from wormdb.format.json import decode_document
from wormdb.jobs import place
from wormdb.spark.stream import plan as stream_plan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wormdb import Database

SCHEMA = spark.StructType(
    [
        spark.StructField("id", spark.StringType()),
        spark.StructField("a", spark.LongType()),
        spark.StructField("b", spark.StringType()),
        *(
            spark.StructField(name, spark.LongType() if name in ("_log", "_place", "_seq") else spark.StringType())
            for name in ("_op", "_log", "_place", "_seq", "_before", "_after", "_actor", "_metadata")
        ),
        spark.StructField("_time", spark.TimestampType()),
    ]
)


def told(db: Database, after: int | str = 0) -> list[dict[str, Any]]:
    """What `watch` tells, as rows."""
    return [
        {
            "id": change.id,
            "_op": change.op,
            "_log": change.number,
            "_seq": change.seq,
            "before": plain(change.before),
            "after": plain(change.after),
            "a": shown((change.after or {}).get("a"), spark.LongType()),
            "b": shown((change.after or {}).get("b"), spark.StringType()),
        }
        for change in db["things"].watch(after)
    ]


def seen(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of a stream in the same form."""
    return [
        {name: row[name] for name in ("id", "_op", "_log", "_seq", "a", "b")}
        | {"before": document(row["_before"]), "after": document(row["_after"])}
        for row in rows
    ]


def document(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    values = decode_document(text.encode(), name="a row")
    shown: dict[str, Any] = plain({"id" if name == "_id" else name: value for name, value in values.items()})
    return shown


limits = st.fixed_dictionaries(
    {},
    optional={
        "maxRowsPerTrigger": st.sampled_from(["1", "2", "3", "7", "50"]),
        "maxEntriesPerTrigger": st.sampled_from(["1", "2", "5"]),
        "partitions": st.sampled_from(["1", "3"]),
    },
)


@settings(max_examples=8)
@given(taken=steps, options=limits, data=st.data())
def test_each_change_comes_once_and_in_order_through_any_crash(
    taken: list[tuple[str, Any]], options: dict[str, str], data: st.DataObject
) -> None:
    crashes = st.sampled_from(["none", "none", "before", "after"])
    with database() as db:
        follow(db, taken)
        stream = Stream(SCHEMA, url=db.url, collection="things", **options)
        rows: list[dict[str, Any]] = []
        while stream.plan():
            crash = data.draw(crashes)
            if crash == "before":  # planned, and then the driver dies
                stream.start()
            elif crash == "after":  # the rows were read, and are read again
                lost = stream.run(crash=True)
                stream.start()
                assert stream.run() == lost
                stream.done -= 1
            batch = stream.run()
            assert len(batch) <= int(options.get("maxRowsPerTrigger", "1000"))
            assert len({row["_log"] for row in batch}) <= int(options.get("maxEntriesPerTrigger", "1000"))
            rows += batch
        assert seen(rows) == told(db)
        assert [(row["_log"], row["_place"]) for row in rows] == sorted((row["_log"], row["_place"]) for row in rows)
        state: dict[str, Any] = {}
        for row in rows:
            state.pop(row["id"], None)
            state |= {} if row["_after"] is None else {row["id"]: document(row["_after"])}
        assert state == {found.id: plain(dict(found)) for found in db["things"].find_all()}


def test_an_attached_job_is_cut_by_rows_and_shared_by_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_plan, "TASK_ROWS", 8)
    with database() as db:
        things = db["things"]
        things.insert({"_id": "k5", "n": 0})
        with things.batch(actor="ann", metadata={"why": "load"}) as batch:
            for n in range(40):
                batch.save({"_id": f"k{n}", "n": n, "pad": "p" * 60})
        whole = reader(url=db.url, collection="things", changes="true")
        start = whole.initialOffset()
        end = Stream(url=db.url, collection="things", changes="true")
        end.plan()
        assert len(whole.partitions(start, end.ends[0])) > 3
        stream = Stream(url=db.url, collection="things", maxRowsPerTrigger="7")
        sizes = [len(rows) for rows in stream.batches()]
        assert sizes == [1, 7, 7, 7, 7, 7, 5]
        row = next(row for row in end.run() if row["id"] == "k5" and row["_seq"] == 2)
        assert (row["_op"], row["n"], row["_actor"], row["_metadata"]) == ("update", 5, "ann", '{"why":"load"}')
        assert document(row["_before"]) == {"id": "k5", "n": 0}


def test_what_many_documents_were_before_a_job_is_read_at_once() -> None:
    with database() as db:
        things = db["things"]
        for round_ in range(2):
            with things.batch() as batch:
                for n in range(40):
                    batch.save({"_id": f"k{n:02}", "n": n + round_, "pad": "p" * 60})
        db.forward(["things"])
        stream = Stream(url=db.url, collection="things", changes="true", columns="id,_op,_before,_seq")
        rows = [row for rows in stream.batches() for row in rows]
        assert [row["_op"] for row in rows] == ["create"] * 40 + ["update"] * 40
        assert [(document(row["_before"]) or {}).get("n") for row in rows[40:]] == list(range(40))


def test_of_a_removed_document_the_id_is_told_whatever_its_type() -> None:
    with database() as db:
        things = db["things"]
        for identity in (1, 2, "x"):
            things.insert({"_id": identity})
        for identity in (1, 2, "x"):
            things.delete(identity)
        stream = Stream(url=db.url, collection="things", changes="true", columns="id,_doc,_op")
        rows = [row for rows in stream.batches() for row in rows]
        assert [row["id"] for row in rows] == ["1", "2", '"x"'] * 2
        assert [row["_op"] for row in rows] == ["create"] * 3 + ["delete"] * 3
        assert [document(row["_doc"]) for row in rows] == [{"id": 1}, {"id": 2}, {"id": "x"}, None, None, None]


def test_the_first_batch_is_repeated_from_where_it_began() -> None:
    with database() as db:
        db["things"].insert({"_id": "a"})
        stream = Stream(url=db.url, collection="things", startingOffset="latest")
        assert not stream.plan()
        initial = stream.reader.initialOffset()
        db["things"].insert({"_id": "b"})
        stream.ends.append(stream.reader.latestOffset(initial, stream.reader.getDefaultReadLimit()))
        # The driver dies, and when it is started again the newest change is a later one.
        db["things"].insert({"_id": "c"})
        stream.start()
        assert [[row["id"] for row in rows] for rows in stream.batches()] == [["b"], ["c"]]


def test_available_now_ends_where_the_log_was() -> None:
    with database() as db:
        db["things"].insert({"_id": "a"})
        stream = Stream(url=db.url, collection="things", changes="true")
        stream.reader.prepareForTriggerAvailableNow()
        db["things"].insert({"_id": "b"})
        assert [row["id"] for rows in stream.batches() for row in rows] == ["a"]
        assert stream.reader.reportLatestOffset() == {"log": 2}
        assert not stream.plan(everything=True)
        stream.start()
        assert [row["id"] for rows in stream.batches() for row in rows] == ["b"]


def test_a_stream_begins_at_a_number_or_a_time() -> None:
    with database() as db:
        for n in range(9):
            db["things"].insert({"_id": n})
        changes = list(db["things"].watch())
        times = [datetime.fromtimestamp((change.misc >> 8) / 1e6, UTC) for change in changes]

        def ids(start: str) -> list[Any]:
            stream = Stream(url=db.url, collection="things", startingOffset=start)
            return [row["id"] for rows in stream.batches() for row in rows]

        assert ids("5") == [5, 6, 7, 8]
        assert ids("0") == ids("earliest") == list(range(9))
        assert ids("Latest") == []
        for moment in (times[0] - timedelta(days=1), times[4], times[8]):
            later = [change.id for change, time in zip(changes, times, strict=True) if _ms(time) > _ms(moment)]
            assert ids(moment.isoformat()) == later


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r'option\("changes", "true"\)'),
        ({"changes": "yes"}, "true or false"),
        ({"startingOffset": "yesterday"}, "earliest"),
        ({"startingOffset": "7"}, "newest entry of things is 1"),
        ({"startingOffset": "2999-01-01T00:00:00Z"}, "in the future"),
        ({"maxRowsPerTrigger": "0"}, "maxRowsPerTrigger=0.*1 or more"),
        ({"changes": "true", "columns": "_op,_op"}, "named twice"),
        ({"changes": "true", "as_of": "3"}, "as_of"),
    ],
)
def test_what_a_stream_cannot_do_is_said_with_the_remedy(options: dict[str, Any], message: str) -> None:
    with database() as db:
        db["things"].insert({"_id": "a", "n": 1})
        with pytest.raises(InvalidRequestError, match=message):
            reader(url=db.url, collection="things", **options).initialOffset()


def test_a_column_of_a_change_has_its_own_type() -> None:
    wrong = spark.StructType([spark.StructField("_log", spark.StringType())])
    with database() as db:
        db["things"].insert({"_id": "a", "_op": "mine"})
        with pytest.raises(InvalidRequestError, match=r"_log as string.*bigint"):
            reader(wrong, url=db.url, collection="things")
        (rows,) = Stream(url=db.url, collection="things", changes="true").batches()
        assert rows[0]["_op"] == "create"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    place._open.clear()


def opened(folder: Path) -> Database:
    place._open.clear()  # as another process
    return wormdb.connect(folder, settings=wormdb.Settings(forward_interval_ms=0))


def trimmed(db: Database) -> None:
    """Forget the whole log, as a week later."""
    db.forward(["things"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trim, "LOG_RETENTION_MS_MIN", 0)
        for _ in range(2):  # the first one notes the time
            db["things"]._ledger.trim(0)


def test_a_stream_that_is_behind_the_log_is_told_so(folder: Path) -> None:
    with opened(folder) as db:
        db["things"].insert({"_id": "a"})
        db["things"].insert({"_id": "b"})
        stream = Stream(url=str(folder), collection="things", maxEntriesPerTrigger="1")
        stream.plan()
        trimmed(db)
        with pytest.raises(SnapshotTooOldError, match=r"trimmed.*startingOffset.*latest.*log_retention_ms"):
            stream.run()
        place._open.clear()
        for act in (stream.run, stream.plan):
            with pytest.raises(SnapshotTooOldError, match=r"stream of things after entry .: entries up to 2"):
                act()
        again = Stream(url=str(folder), collection="things", changes="true")
        assert not again.plan(), "the earliest is what there is"
        db["things"].insert({"_id": "c"})
        assert [row["id"] for rows in again.batches() for row in rows] == ["c"]


def test_a_stream_of_a_collection_that_was_removed_is_told_so(folder: Path) -> None:
    with opened(folder) as db:
        db["things"].insert({"_id": "a"})
        db["things"].insert({"_id": "b"})
        stream = Stream(SCHEMA, url=str(folder), collection="things", changes="true")
        assert len(list(stream.batches())) == 1
    shutil.rmtree(folder / "things")
    place._open.clear()
    with pytest.raises(NotFoundError, match=r"gone.*checkpointLocation"):
        stream.plan()
    with opened(folder) as db:
        db["things"].insert({"_id": "x"})
        with pytest.raises(InvalidRequestError, match=r"ends with entry 1.*made again"):
            stream.plan()
        for n in range(3):
            db["things"].insert({"_id": n})
        stream.start()
        stream.plan()
        with pytest.raises(InvalidRequestError, match=r"another one.*checkpointLocation"):
            stream.run()


def test_a_checkpoint_of_another_source_is_no_place_in_a_log() -> None:
    with database() as db:
        db["things"].insert({"_id": "a"})
        stream = Stream(url=db.url, collection="things", changes="true")
        for known in ({"partition": 3}, {"log": 1, "place": 0, "hash": "", "first": "x"}):
            stream.ends = [known]
            with pytest.raises(InvalidRequestError, match="another source"):
                stream.plan()
