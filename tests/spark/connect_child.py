"""A client of Spark Connect: `python -m tests.spark.connect_child <sc://…> <url> <folder>`.

It prints a line of JSON with what it found: a process of its own, because one that has a JVM cannot be a client.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import wormdb
from tests.cli.printed import worm
from tests.spark.stream.start import run_through
from wormdb.errors import WormError
from wormdb.jobs.export import ExportOptions
from wormdb.spark import session, write
from wormdb.spark.jobs import history, import_frame, pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def frames(spark: SparkSession, url: str) -> dict[str, Any]:
    """What is written and read, and what is said of a conflict."""
    frame = spark.range(0, 20, 1, 2).selectExpr("concat('k', id) as id", "id as n")
    write(frame, url, collection="things", job="load", partitions=2)
    refused = ""
    try:
        write(frame, url, collection="things", job="again", partitions=2)
    except WormError as error:
        refused = f"{type(error).__name__}: {error}"
    things = spark.read.format("worm").options(url=url, collection="things").load()
    pushed = spark.read.format("worm").options(url=url, collection="things", pushdown="on").load().filter("n > 4")
    return {
        "refused": refused,
        "large": things.filter("n > 4").count(),
        "pushed": pushed.count(),
        "all": things.count(),
    }


def jobs(spark: SparkSession, master: str, url: str, folder: Path) -> dict[str, Any]:
    """Jobs in Python, one by the command line, and a frame that is imported."""
    made = pipeline(spark, url, collection="things")
    rows = spark.createDataFrame([("k1", 1), ("new", 100)], "id string, n bigint")
    done = import_frame(rows, url, collection="things")
    printed = worm(
        "table", "aggregate", "things", "--sum", "n", "--json", "--url", url, "--engine", "spark", "--master", master
    )
    return {
        "sum": made.aggregate({"sum": "n"}),
        "imported": [done.inserted, [row.reason for row in done.rejected]],
        "exported": made.export(str(folder / "out"), ExportOptions("ndjson", tasks=2)).rows,
        "changes": history(spark, url, collection="things").count(),
        "code": printed.code,
        "printed": printed.text if printed.code == 0 else printed.errors[-1_000:],
    }


def stream(spark: SparkSession, url: str, folder: Path) -> dict[str, Any]:
    """A copy by the change feed."""
    feed = spark.readStream.format("worm").options(url=url, collection="things", changes="true").load()
    sink = feed.writeStream.format("worm").options(url=url, collection="copies")
    run_through(sink.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True))
    with wormdb.connect(url) as db:
        copies, known = db["copies"].find_all(), db["things"].find_all()
        return {"copied": {each.id: each["n"] for each in copies} == {each.id: each["n"] for each in known}}


def main(master: str, url: str, folder: str) -> None:
    spark = session(master)
    own = Path(folder)
    found = {**frames(spark, url), **jobs(spark, master, url, own), **stream(spark, url, own)}
    spark.stop()
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
