"""Writers, streams and imports on a real session that meet others, or die, and are run again: each row comes once."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

import wormdb
from tests.spark.jobs.test_pipeline import stories, wide
from wormdb.jobs.import_ import FileRecords
from wormdb.jobs.rebuild import RebuildOptions
from wormdb.spark import register
from wormdb.spark.jobs import pipeline
from wormdb.spark.register import WormStreams
from wormdb.spark.sink import WormWriter
from wormdb.spark.stream.sink import StreamWriter
from wormdb.spark.write import error_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """With the ordinary source again afterwards."""
    yield spark
    register(spark)


def state(url: str, name: str) -> dict[str, int]:
    with wormdb.connect(url) as db:
        return {document.id: document["n"] for document in db[name].find_all()}


def test_who_writes_between_the_snapshot_and_the_commit(session: SparkSession, tmp_path: Path) -> None:
    """The driver's commit finds another entry: other documents stay, the same ones are treated by the rule."""

    class Overtaken(WormWriter):
        def commit(self, messages: Any) -> None:
            with wormdb.connect(self.where.url) as db:
                db["things"].insert({"_id": "k1" if self.actor else "other", "n": 100})
            super().commit(messages)

    class Source(WormStreams):
        def writer(self, schema: Any, overwrite: bool) -> WormWriter:
            made = super().writer(schema, overwrite)
            return Overtaken(made.where, made.target, made.texts, made.is_named, made.actor)

    session.dataSource.register(Source)
    url = str(tmp_path)
    frame = session.range(0, 3, 1, 2).selectExpr("concat('k', id) as id", "id as n")
    options = {"url": url, "collection": "things", "job": "load"}
    with pytest.raises(Exception, match="AlreadyExistsError") as failed:
        frame.write.format("worm").mode("append").options(**options, actor="rival").save()
    assert "document 'k1' in things/: it exists already" in str(error_in(str(failed.value)))
    assert state(url, "things") == {"k1": 100}
    frame.write.format("worm").mode("append").options(**options, on_conflict="ignore").save()
    assert state(url, "things") == {"k0": 0, "k1": 100, "k2": 2, "other": 100}


def mortal(moment: str, marks: Path) -> type[WormStreams]:
    """A sink that fails once at a moment of every micro-batch; by value, so that workers need no tests."""

    def die_once(now: str, batch: object) -> None:
        if now == moment and not (marks / str(batch)).exists():
            (marks / str(batch)).touch()
            raise RuntimeError(f"died {moment}")

    class Mortal(StreamWriter):
        def write(self, iterator: Any) -> Any:
            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None
            found = super().write(iterator)
            die_once("in a task", context.getLocalProperty("streaming.sql.batchId"))
            return found

        def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803 - Spark's name
            die_once("before the commit", batchId)
            super().commit(messages, batchId)
            die_once("after the commit", batchId)

    class Source(WormStreams):
        def streamWriter(self, schema: Any, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
            made = super().streamWriter(schema, overwrite)
            return Mortal(made.where, made.schema, made.actor)

    return Source


@pytest.mark.long
@pytest.mark.parametrize("moment", ["in a task", "before the commit", "after the commit"])
def test_a_stream_that_dies_anywhere_goes_on(session: SparkSession, tmp_path: Path, moment: str) -> None:
    """Every micro-batch fails once at the moment, and the query is started again."""
    (tmp_path / "marks").mkdir()
    session.dataSource.register(mortal(moment, tmp_path / "marks"))
    url = str(tmp_path / "db")
    with wormdb.connect(url) as db:
        for n in range(6):
            db["things"].insert({"_id": f"k{n}", "n": n})
    feed = session.readStream.format("worm").options(url=url, collection="things", maxRowsPerTrigger="2").load()
    sink = feed.writeStream.format("worm").options(url=url, collection="copies")
    sink = sink.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    failures = 0
    for _ in range(20):  # a machine with much to do makes Spark give up in other ways too
        query = sink.start()
        try:
            query.awaitTermination()
            break
        except StreamingQueryException as error:
            failures += f"died {moment}" in str(error)
    assert failures == 3
    assert state(url, "copies") == {f"k{n}": n for n in range(6)}
    with wormdb.connect(url) as db:
        changes = [(change.op, change.id) for change in db["copies"].watch(0)]
    assert changes == [("create", f"k{n}") for n in range(6)], "nothing is written twice"


@pytest.mark.long
@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_import_whose_driver_is_killed_is_run_again(spark: SparkSession, tmp_path: Path, moment: str) -> None:
    url, source = str(tmp_path / "db"), tmp_path / "in"
    source.mkdir()
    for part in range(2):
        (source / f"{part}.ndjson").write_text("".join(f'{{"id": "{part}-{n}", "n": {n}}}\n' for n in range(3)))
    child = Path(__file__).with_name("import_child.py")
    command = [sys.executable, str(child), url, str(source), moment]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode == -signal.SIGKILL, done.stderr[-2_000:]
    expected = {f"{part}-{n}": n for part in range(2) for n in range(3)}
    assert state(url, "things") == (expected if moment == "after" else {})
    jobs = pipeline(spark, url, collection="things")
    again = jobs.import_files(FileRecords((str(source),), job="load"))
    assert (again.is_repeated, again.inserted) == ((True, 0) if moment == "after" else (False, 6))
    assert state(url, "things") == expected


@pytest.mark.long
def test_a_rebuild_whose_driver_is_killed_is_run_again(spark: SparkSession, tmp_path: Path) -> None:
    """Half of the pieces of an index are joined: what answers stays as it was, and the next job makes all again."""
    url = str(tmp_path / "db")
    stories(url)
    asked: dict[str, Any] = {"near": {"v": {"vector": wide(1, 2, 1, 300), "k": 20, "exact": True}}}
    with wormdb.connect(url) as db:
        expected = [(row["id"], score) for row, score in db["things"].find(**asked).scored()]
    child = Path(__file__).with_name("rebuild_child.py")
    done = subprocess.run(
        [sys.executable, str(child), url, "join indexes"], capture_output=True, text=True, check=False, timeout=250
    )
    assert done.returncode == -signal.SIGKILL, done.stderr[-2_000:]
    with wormdb.connect(url) as db:
        assert db.verify(["things"])[0].findings == ()
        assert [(row["id"], score) for row, score in db["things"].find(**asked).scored()] == expected
        learned = trained(db)
    rebuilt = pipeline(spark, url, collection="things").rebuild(RebuildOptions(block_bytes=10_000))
    assert [one.name for one in rebuilt.indexes] == ["text", "v"]
    with wormdb.connect(url) as db:
        assert trained(db) != learned
        assert db.verify(["things"])[0].findings == ()
        assert [(row["id"], score) for row, score in db["things"].find(**asked).scored()] == expected


def trained(db: wormdb.Database) -> list[object]:
    """What the lists of each index go by."""
    root = db._site("things/").register.read().root
    assert root is not None
    return [one.lists.trained for one in root.indexes if one.lists is not None]
