"""Streams in a real session: a feed is copied to another collection, through restarts at the points that matter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

import wormdb
from tests.spark.stream.test_changes import trimmed
from tests.spark.things import plain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from wormdb import Database


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    """With batches staged as blocks from a few hundred bytes on."""
    tuned = wormdb.Settings(forward="manual", forward_interval_ms=0, block_bytes=300, stage_bytes=600)
    with wormdb.connect(tmp_path / "db", settings=tuned) as opened:
        yield opened


def copy(spark: SparkSession, db: Database, folder: Path, **options: str) -> list[int]:
    """Follow the feed of `things` into `copies` as far as it goes; how many rows each micro-batch had."""
    feed = spark.readStream.format("worm").options(url=db.url, collection="things", **options).load()
    sink = feed.writeStream.format("worm").options(url=db.url, collection="copies", actor="copier")
    query = sink.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def state(db: Database, name: str) -> dict[Any, Any]:
    return {found.id: plain(dict(found)) for found in db[name].find_all()}


def test_a_feed_is_copied_once_through_restarts(spark: SparkSession, db: Database, tmp_path: Path) -> None:
    things = db["things"]
    with things.batch() as batch:  # attached as blocks
        for n in range(20):
            batch.save({"_id": f"k{n:02}", "n": n, "pad": "p" * 60})
    things.save({"_id": "k03", "n": "three"})
    things.delete("k04")
    assert copy(spark, db, tmp_path, maxRowsPerTrigger="12") == [12, 10]
    assert state(db, "copies") == state(db, "things")
    # The driver dies when the sink has the last micro-batch, and Spark does not know it yet.
    (tmp_path / "checkpoint" / "commits" / "1").unlink()
    (tmp_path / "checkpoint" / "commits" / ".1.crc").unlink(missing_ok=True)
    db["copies"].delete("k19")
    things.insert({"_id": "b"})
    number = db["copies"]._ledger.view().number
    assert copy(spark, db, tmp_path, maxRowsPerTrigger="12") == [10, 1]
    assert state(db, "copies") == {k: v for k, v in state(db, "things").items() if k != "k19"}
    assert [(change.op, change.id, change.actor) for change in db["copies"].watch(number)] == [
        ("create", "b", "copier")
    ], "the repeated micro-batch wrote nothing"


def test_a_stream_behind_the_log_fails_with_the_remedy(spark: SparkSession, db: Database, tmp_path: Path) -> None:
    for n in range(3):
        db["things"].insert({"_id": n})
    trimmed(db)
    with pytest.raises(StreamingQueryException, match=r"SnapshotTooOldError.*up to 3.*startingOffset"):
        copy(spark, db, tmp_path, startingOffset="1")
