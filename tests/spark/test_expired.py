"""Documents that are over, through Spark: batches and jobs leave them out, and a stream tells their removal."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.datasource import GreaterThan

import wormdb
from tests.spark.read.rig import plan, read
from tests.spark.stream.rig import Stream
from tests.spark.stream.start import run_through
from wormdb.format.wrappers import moment
from wormdb.spark import register
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from pyspark.sql import SparkSession

SECONDS = 5


def fill(url: Any, *, forwards: bool = True) -> datetime:
    """Documents of which two are over, in blocks or in the log; none is removed. When they ended."""
    ended = moment(SystemClock().now_ms()) - timedelta(seconds=SECONDS)
    with wormdb.connect(url, settings=wormdb.Settings(forward="manual")) as db:
        things = db["things"]
        for number in range(6):
            at = ended if number < 2 else ended + timedelta(hours=1)
            things.insert({"_id": f"d{number}", "at": at, "n": number})
            if forwards and number == 3:
                things.forward()
        things.expire("at")
    return ended


@pytest.mark.parametrize("forwards", [False, True])
def test_a_scan_leaves_out_what_is_over_in_every_share(tmp_path: Path, forwards: bool) -> None:
    ended = fill(tmp_path, forwards=forwards)
    place: dict[str, Any] = {"url": str(tmp_path), "collection": "things"}
    there = ["d2", "d3", "d4", "d5"]
    assert sorted(row["id"] for row in read(**place)) == there
    assert sorted(row["id"] for row in read(**place, partitions="4", columns="id")) == there
    assert sorted(row["id"] for row in read(**place, filter='{"n": {"$gte": 0}}')) == there
    assert sorted(row["id"] for row in read(pushed=[GreaterThan(("n",), -1)], **place)) == there
    as_of = ended + timedelta(seconds=SECONDS / 2)
    with pytest.raises(wormdb.SnapshotTooOldError):
        read(**place, as_of=as_of.isoformat())


def test_a_frame_that_was_planned_keeps_its_moment(tmp_path: Path) -> None:
    """Every action on it gives the same rows, also if a process removes some meanwhile."""
    fill(tmp_path)
    planned = plan(url=str(tmp_path), collection="things")
    rows = sorted(row["id"] for row in planned.rows())
    with wormdb.connect(tmp_path) as db:
        db["things"].forward()
        assert [one.op for one in db["things"].watch()].count("expire") == 2
    assert sorted(row["id"] for row in planned.rows()) == rows == ["d2", "d3", "d4", "d5"]


def test_a_stream_tells_the_removal_once(tmp_path: Path) -> None:
    fill(tmp_path)
    stream = Stream(url=str(tmp_path), collection="things", changes="true")
    ops = [row["_op"] for batch in stream.batches() for row in batch]
    assert ops == ["create"] * 6
    with wormdb.connect(tmp_path) as db:
        db["things"].forward()
    told = [(row["_op"], row["id"]) for batch in stream.batches() for row in batch]
    assert sorted(told) == [("expire", "d0"), ("expire", "d1")]


@pytest.mark.long
def test_in_a_bucket_a_session_sees_what_is_there_and_a_copy_follows(
    spark: SparkSession, s3_url: str, tmp_path: Path
) -> None:
    fill(s3_url)
    register(spark)
    place = {"url": s3_url, "collection": "things"}
    assert spark.read.format("worm").options(**place).load().count() == 4
    feed = spark.readStream.format("worm").options(**place, changes="true").load()
    sink = feed.writeStream.format("worm").options(url=s3_url, collection="copies")
    for expected in (6, 4):
        run_through(sink.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True))
        with wormdb.connect(s3_url) as db:
            assert db["copies"].count() == expected, "a copy follows the log, and has no rule of its own"
            db["things"].forward()
    register(spark, environment={})
