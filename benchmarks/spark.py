"""The source of Spark against `spark.read.parquet` on the same rows in local files, in the same session.

`WORMDB_BENCH_ROWS` says how many rows; the bars are meant for 5,000,000. All is read to a sink that drops it. Then the
sink, see `spark_sink`.
"""

from __future__ import annotations

import os
import random
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import wormdb
from benchmarks.measure import Count, Row, compare
from benchmarks.spark_sink import sinks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["TITLE", "run"]

ROWS = int(os.environ.get("WORMDB_BENCH_ROWS", "1000000"))
TITLE = f"Spark: {ROWS:,} rows of 8 columns in a folder, local[2]"
ROUNDS = 5
BATCH = 250_000
EPOCH = datetime(2020, 1, 1, tzinfo=UTC)
SCHEMA: dict[str, Any] = {
    "schemaVersion": "1.0",
    "models": {
        "Event": {
            "path": "@events/(id:string)",
            "id": "given",
            "fields": {
                "user": {"type": "integer"},
                "amount": {"type": "number"},
                "rate": {"type": "number"},
                "kind": {"type": "string"},
                "text": {"type": "string"},
                "valid": {"type": "boolean"},
                "at": {"type": "datetime"},
            },
        }
    },
}
COLUMNS = ["id", *SCHEMA["models"]["Event"]["fields"]]
TWO = ["user", "amount"]


def run() -> list[Row | Count]:
    """All comparisons; no server is needed."""
    from wormdb.spark import session

    with tempfile.TemporaryDirectory() as folder:
        url, files = f"{folder}/db", f"{folder}/parquet"
        _fill(url, files)
        spark = session("local[2]", settings={"spark.driver.memory": "2g"})
        try:
            return [*_scans(spark, url, files), *_pruned(url), *sinks(spark, Path(folder))]
        finally:
            spark.stop()


def _documents() -> Iterator[list[dict[str, Any]]]:
    chance = random.Random(7)
    for start in range(0, ROWS, BATCH):
        yield [_document(number, chance) for number in range(start, min(start + BATCH, ROWS))]


def _document(number: int, chance: random.Random) -> dict[str, Any]:
    return {
        "_id": f"event-{number:09}",
        "user": chance.randrange(1_000_000),
        "amount": round(chance.uniform(0, 5_000), 2),
        "rate": chance.random(),
        "kind": chance.choice(["view", "click", "order", "return"]),
        "text": f"{chance.randrange(10**12):012}",
        "valid": chance.random() < 0.9,
        "at": EPOCH + timedelta(seconds=number),
    }


def _fill(url: str, files: str) -> None:
    """The same rows as a collection, and as files of 250,000."""
    import pyarrow.parquet as pq

    with wormdb.connect(url, schema=SCHEMA, apply=True) as db:
        events = db.model("Event")
        for documents in _documents():
            events.insert_many(documents)
            events.forward()
        Path(files).mkdir()
        ids = [f"event-{number:09}" for number in range(0, ROWS, BATCH)]
        for place, start in enumerate(ids):
            stop = ids[place + 1] if place + 1 < len(ids) else None
            table = events.to_arrow(COLUMNS, start=start, stop=stop)
            pq.write_table(table, f"{files}/{place:03}.parquet", compression="zstd")


def _scans(spark: SparkSession, url: str, files: str) -> list[Row]:
    ours = spark.read.format("worm").options(url=url, model="Event", columns=",".join(COLUMNS)).load()
    two = spark.read.format("worm").options(url=url, model="Event", columns=",".join(TWO)).load()
    theirs = spark.read.parquet(files)
    assert _digest(ours) == _digest(theirs), "both have the same rows"
    reference = "spark.read.parquet"
    return [
        compare(
            "all columns",
            lambda: _drop(ours),
            reference,
            lambda: _drop(theirs),
            count=ROWS,
            at_least=0.5,
            rounds=ROUNDS,
            by=median,
        ),
        compare(
            "2 of 8 columns",
            lambda: _drop(two),
            "all columns of ours",
            lambda: _drop(ours),
            count=ROWS,
            at_least=1.5,
            rounds=ROUNDS,
            by=median,
        ),
        compare(
            "2 of 8 columns",
            lambda: _drop(two),
            reference,
            lambda: _drop(theirs.select(TWO)),
            count=ROWS,
            rounds=ROUNDS,
            by=median,
        ),
    ]


def _drop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _digest(frame: DataFrame) -> object:
    from pyspark.sql.functions import count, xxhash64
    from pyspark.sql.functions import sum as total

    # Half of each hash, so that the sum of many does not overflow.
    return (
        frame.select((xxhash64(*COLUMNS) / 2**32).cast("bigint").alias("hash"))
        .agg(total("hash"), count("hash"))
        .first()
    )


def _pruned(url: str) -> list[Count]:
    """How many blocks are read for filters, by a process that knows none of them."""
    from pyspark.sql.types import StructType

    from wormdb.jobs.place import Where
    from wormdb.jobs.row_filter import RowFilter
    from wormdb.jobs.shares import shares
    from wormdb.jobs.state import PinnedState
    from wormdb.spark.read.infer import columns_of_state
    from wormdb.spark.read.source import SparkScan
    from wormdb.spark.types import spark_field

    last = (EPOCH + timedelta(seconds=ROWS - 10)).isoformat()
    half = ROWS // 2
    rows = []
    for what, written, most in (
        ("an id", f'{{"id": "event-{half:09}"}}', 1),
        ("ten ids in a row", f'{{"id": {{"$gte": "event-{half:09}", "$lt": "event-{half + 10:09}"}}}}', 2),
        ("the last ten seconds", f'{{"at": {{"$gte": {{"$date": "{last}"}}}}}}', 1),
    ):
        where = Where.of({"url": url, "model": "Event"}, {"WORMDB_BENCH_FILTER": what}, ())
        seen: set[str] = set()
        where.open()._metered._hook = lambda request, seen=seen: seen.add(request.key)  # noqa: SLF001 - counted here only
        state = PinnedState.of(where)
        columns = tuple(columns_of_state(state.newest(), state.model(), COLUMNS))
        scan = SparkScan(state, columns, StructType([spark_field(column) for column in columns]), RowFilter.of(written))
        found = sum(
            batch.num_rows for share in shares(state, scan.narrowing(), tasks=None) for batch in scan.read(share)
        )
        blocks = sum(key.endswith(".parquet") for key in seen)
        rows.append(
            Count(f"blocks read for {what}", f"{found} rows found", blocks, f"1 to {most}", 1 <= blocks <= most)
        )
    return rows
