"""Jobs, frames and streams with everything in a bucket of a real S3 server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import wormdb
from tests.spark.stream.start import run_through
from wormdb.jobs.export import ExportOptions
from wormdb.jobs.import_ import FileRecords
from wormdb.jobs.target import store_at
from wormdb.spark import register, write
from wormdb.spark.jobs import pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def session(spark: SparkSession, s3_url: str) -> Iterator[SparkSession]:
    """Whose workers have the keys of the server; `s3_url` has put them into the environment."""
    register(spark)
    yield spark
    register(spark, environment={})


def below(url: str, folder: str) -> str:
    """A folder of a place that is written with options behind a question mark."""
    place, mark, options = url.partition("?")
    return f"{place}/{folder}{mark}{options}"


def test_an_import_by_workers(session: SparkSession, s3_url: str) -> None:
    lake = below(s3_url, "lake")
    for part in range(2):
        body = "id,n\n" + "".join(f"{part}-{n},{n}\n" for n in range(10)) + ("0-0,5\n" if part else "")
        store_at(lake).put(f"{part}.csv", body.encode())
    done = pipeline(session, s3_url, collection="things").import_files(FileRecords((lake,), job="load"))
    assert (done.read, done.inserted, [each.line for each in done.rejected]) == (21, 20, [12])
    assert session.read.format("worm").options(url=s3_url, collection="things").load().count() == 20


@pytest.mark.long
def test_frames_streams_and_exports(session: SparkSession, s3_url: str, tmp_path: Path) -> None:
    frame = session.range(0, 50, 1, 2).selectExpr("concat('k', id) as id", "id as n")
    write(frame, s3_url, collection="things", job="load", partitions=2)
    feed = session.readStream.format("worm").options(url=s3_url, collection="things", maxRowsPerTrigger="20").load()
    sink = feed.writeStream.format("worm").options(url=s3_url, collection="copies")
    for _ in range(2):
        run_through(sink.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True))
        with wormdb.connect(s3_url) as db:
            assert {found.id: found["n"] for found in db["copies"].find_all()} == {
                found.id: found["n"] for found in db["things"].find_all()
            }
            db["things"].save({"_id": "k7", "n": 700})
    jobs = pipeline(session, s3_url, collection="things")
    target = below(s3_url, "out")
    assert jobs.export(target, ExportOptions("ndjson", tasks=2)).rows == 50
    assert jobs.aggregate({"sum": "n"})["sum"] == sum(range(50)) - 7 + 700
