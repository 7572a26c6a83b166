"""The sink of Spark against `df.write.parquet` of the same frame, in the same session.

Files of Parquet are read, and written as a collection or as Parquet again: rounds alternate, and medians are compared,
because a round keeps the whole machine busy. `WORMDB_BENCH_ROWS` says how many rows; the bars are meant for 5,000,000.
"""

from __future__ import annotations

import os
import shutil
from functools import partial
from itertools import count
from statistics import median
from typing import TYPE_CHECKING, Any

import wormdb
from benchmarks.measure import Row, still, take

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["sinks"]

ROWS = int(os.environ.get("WORMDB_BENCH_ROWS", "1000000"))
ROUNDS = 5
BARS = {"made": 0.8, "given": 0.25}
FIELDS: dict[str, Any] = {
    "user": {"type": "integer"},
    "amount": {"type": "number"},
    "rate": {"type": "number"},
    "kind": {"type": "string"},
    "text": {"type": "string"},
    "valid": {"type": "boolean"},
    "at": {"type": "datetime"},
}
SCHEMA: dict[str, Any] = {
    "schemaVersion": "1.0",
    "models": {
        "Made": {
            "path": "@made/(id:string)",
            "id": "ulid",
            "files": False,
            "fields": {"label": {"type": "string"}, **FIELDS},
        },
        "Given": {
            "path": "@given/(id:string)",
            "id": "given",
            "files": False,
            "fields": FIELDS,
            "indexes": {"byText": {"field": "text", "unique": True}},
        },
    },
}


def sinks(spark: SparkSession, folder: Path) -> list[Row]:
    """What writing takes with ids that are made, and with given ids, in no order, and a unique key."""
    frame = _frame(spark, folder / "frame")
    made = frame.withColumnRenamed("id", "label")
    ways: dict[str, Callable[[Path], object]] = {
        "parquet": lambda place: frame.write.parquet(f"{place}/files"),
        "made": partial(_write, made, "Made"),
        "given": partial(_write, frame, "Given"),
    }
    taken = _alternating(ways, folder)
    for model in ("Made", "Given"):
        _write(made if model == "Made" else frame, model, folder / "checked")
        with wormdb.connect(str(folder / "checked")) as db:
            assert db.model(model).count() == ROWS, "all rows are there"
    names = {"made": "ids that are made", "given": "given ids and a unique key"}
    return [
        Row(name, "df.write.parquet", ROWS, taken[way], taken["parquet"], at_least=BARS[way])
        for way, name in names.items()
    ]


def _frame(spark: SparkSession, place: Path) -> DataFrame:
    """Rows in two files, read again from there by whoever writes them."""
    spark.range(ROWS, numPartitions=2).selectExpr(
        "concat('event-', lpad(cast(abs(xxhash64(id)) as string), 19, '0')) as id",
        "cast(abs(xxhash64(id, 1)) % 1000000 as bigint) as user",
        "round(abs(xxhash64(id, 2)) % 500000 / 100, 2) as amount",
        "(abs(xxhash64(id, 3)) % 9007199254740992) / 9007199254740992 as rate",
        "element_at(array('view', 'click', 'order', 'return'), cast(abs(xxhash64(id, 4)) % 4 + 1 as int)) as kind",
        "lpad(cast(id as string), 12, '0') as text",
        "abs(xxhash64(id, 5)) % 10 < 9 as valid",
        "timestamp_seconds(1577836800 + id) as at",
    ).write.parquet(str(place))
    return spark.read.parquet(str(place))


def _write(frame: DataFrame, model: str, place: Path) -> None:
    wormdb.connect(str(place), schema=SCHEMA, apply=True).close()
    frame.write.format("worm").mode("append").options(url=str(place), model=model).save()


def _alternating(ways: dict[str, Callable[[Path], object]], folder: Path) -> dict[str, float]:
    """The median time of each way, after a round to warm up; what was written is removed at once."""
    taken: dict[str, list[float]] = {way: [] for way in ways}
    places = (folder / f"round-{number}" for number in count())
    with still():
        for number in range(ROUNDS + 1):
            for way in sorted(ways, reverse=number % 2 == 0):
                place = next(places)
                seconds = take(partial(ways[way], place))
                shutil.rmtree(place)
                if number:
                    taken[way].append(seconds)
    return {way: median(seconds) for way, seconds in taken.items()}
