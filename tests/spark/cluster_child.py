"""A driver of its own on a cluster: `python -m tests.spark.cluster_child <what> <master> <url> <folder>`.

It prints a line of JSON with what it found. `jobs` runs a job of each kind, source, sink and stream; `killed` loses an
executor in the middle of a write, and `slow` has a task that only a second copy of it ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext

import wormdb
from tests.cli.printed import worm
from tests.spark.stream.start import PATIENCE, run_through
from wormdb.cli.commands.pipeline import MOVED
from wormdb.spark import session, write
from wormdb.spark.read.source import WormSource
from wormdb.spark.sink import WormWriter
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = {
    "schemaVersion": "1.0",
    "models": {
        "Order": {
            "path": "@orders/(id:string)",
            "fields": {"status": {"type": "string"}, "total": {"type": "integer"}},
            "indexes": {"byStatus": {"field": "status"}},
            "files": False,
        }
    },
}


def jobs(spark: SparkSession, master: str, url: str, folder: Path) -> dict[str, Any]:
    """A job of each kind, by the command line, on the cluster; then what is in the database."""
    with wormdb.connect(url, schema=SCHEMA, apply=True):
        pass
    (folder / "in").mkdir()
    for part in range(3):
        lines = [
            f'{{"id": "o{n:03}", "status": "{("open", "paid")[n % 2]}", "total": {n}}}\n' for n in range(part, 90, 3)
        ]
        (folder / "in" / f"{part}.ndjson").write_text("".join(lines) + '{"id": "bad", "total": "x"}\n' * (part == 1))
    arguments = {
        "import": [str(folder / "in"), "--model", "Order", "--rejects", str(folder / "rejects"), "--max-errors", "1"],
        "export": ["Order", "--to", str(folder / "out"), "--format", "ndjson", "--tasks", "3"],
        "aggregate": ["Order", "--group-by", "status", "--sum", "total", "--json", "--tasks", "3"],
        "analyze": ["Order", "--json"],
        "verify": ["Order"],
        "history": ["Order", "--to", str(folder / "history")],
        "compact": ["Order", "--yes"],
        "rebuild": ["Order"],
    }
    found: dict[str, Any] = {"verbs": sorted(MOVED), "codes": {}}
    for name in ["import", *sorted(set(MOVED) - {"import"})]:
        verb = MOVED[name].split()
        done = worm(*verb, *arguments[name], "--url", url, "--engine", "spark", "--master", master)
        found["codes"][name] = done.code if not done.code else f"{done.code}: {done.errors[-1_000:]}"
        if name == "import":
            forward_twice(url)
        if name == "aggregate":
            found["sums"] = json.loads(done.text)
    found["rejected"] = len((folder / "rejects").read_text().splitlines())
    found["exported"] = sum(len(file.read_text().splitlines()) for file in (folder / "out").glob("part-*"))
    found.update(frames(spark, url, folder))
    return found


def forward_twice(url: str) -> None:
    """Blocks that hide each other, so that there is something to compact."""
    with wormdb.connect(url) as db:
        orders = db.model("Order")
        orders.forward()
        orders.save({"id": "o001", "status": "paid", "total": 1})
        orders.forward()


def frames(spark: SparkSession, url: str, folder: Path) -> dict[str, Any]:
    """Source, sink and a stream from one collection to another."""
    orders = spark.read.format("worm").options(url=url, model="Order").load()
    paid = orders.filter("status = 'paid' and total > 10").select("id", "total")
    write(paid, url, collection="paid", job="copy", partitions=2)
    feed = spark.readStream.format("worm").options(url=url, model="Order", changes="true").load()
    sink = feed.writeStream.format("worm").options(url=url, collection="copies")
    sink = sink.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    run_through(sink)
    with wormdb.connect(url) as db:
        known = {found.id: found["total"] for found in db.model("Order").find_all()}
        copies = {found.id: found["total"] for found in db["copies"].find_all()}
        return {"read": orders.count(), "paid": db["paid"].count(), "copied": copies == known, "known": len(known)}


def troubled(name: str, spark: SparkSession, url: str, folder: Path) -> dict[str, Any]:
    """A write of four rows in two tasks, one of them in trouble; and which executor ran which."""

    class Troubled(WormWriter):
        def write(self, iterator: Any) -> Any:
            context = TaskContext.get()
            assert context is not None
            mark = f"{context.partitionId()}-{context.attemptNumber()}"
            (folder / f"{name}-{mark}").touch()
            if context.partitionId() == 1 and context.attemptNumber() == 0:
                next(iterator)
                if name == "killed":
                    daemon = os.getppid()
                    executor = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
                    os.kill(executor, signal.SIGKILL)
                SystemClock().sleep(600)  # the process that waits for it gives up before
            return super().write(iterator)

    class Source(WormSource):
        def writer(self, schema: Any, overwrite: bool) -> WormWriter:
            made = super().writer(schema, overwrite)
            return Troubled(made.where, made.target, made.texts, made.is_named, made.actor)

    spark.dataSource.register(Source)
    frame = spark.range(0, 4, 1, 2).selectExpr("concat('k', id) as id", "id as n")
    frame.write.format("worm").mode("append").options(url=url, collection=name, job=name).save()
    with wormdb.connect(url) as db:
        return {
            "rows": {document.id: document["n"] for document in db[name].find_all()},
            "number": db.status([name])[0].number,
            "attempts": sorted(file.name.removeprefix(f"{name}-") for file in folder.glob(f"{name}-*")),
        }


def main(what: str, master: str, url: str, folder: str) -> None:
    settings = {
        **PATIENCE,
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    if what == "slow":
        settings |= {
            "spark.speculation": "true",
            "spark.speculation.interval": "200ms",
            "spark.speculation.quantile": "0.1",
            "spark.speculation.multiplier": "1.1",
            "spark.speculation.minTaskRuntime": "500ms",
        }
    spark = session(master, settings=settings)
    try:
        own = Path(folder)
        found = jobs(spark, master, url, own) if what == "jobs" else troubled(what, spark, url, own)
    finally:
        spark.stop()
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
