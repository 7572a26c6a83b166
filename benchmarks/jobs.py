"""Jobs over whole collections: on Spark against one process with two threads, twice as much against once, and memory.

`WORMDB_BENCH_DOCUMENTS` says how many documents of 1 KB; the bars are meant for 1,000,000. Memory is that of all
processes of a command together, Java included, as `/proc` tells it: pages that several share count once.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import wormdb
from benchmarks.measure import Count, Row, compare
from wormdb.cli.input.engine import RATES
from wormdb.jobs.compact import CompactOptions
from wormdb.jobs.export import ExportOptions
from wormdb.jobs.pipeline import Pipeline, local_pipeline
from wormdb.jobs.work import LocalRunner
from wormdb.settings import MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["TITLE", "run"]

DOCUMENTS = int(os.environ.get("WORMDB_BENCH_DOCUMENTS", "200000"))
TITLE = f"Jobs: {DOCUMENTS:,} documents of 1 KB in a folder, two cores"
BATCH = 20_000
ROUNDS = 5
MEMORY_MAX = 4 * 1024
"""MiB."""
ALL = CompactOptions(history=False, everything=True)
SCHEMA: dict[str, Any] = {
    "schemaVersion": "1.0",
    "models": {
        "Event": {
            "path": "@events/(id:string)",
            "id": "given",
            "fields": {
                "user": {"type": "integer"},
                "amount": {"type": "number"},
                "kind": {"type": "string"},
                "code": {"type": "string"},
                "text": {"type": "string"},
            },
            "indexes": {"byUser": {"field": "user"}, "byCode": {"field": "code", "unique": True}},
        }
    },
}


def run() -> list[Row | Count]:
    """All comparisons; no server is needed."""
    from wormdb.spark import session

    with tempfile.TemporaryDirectory() as folder:
        half, whole = f"{folder}/half", f"{folder}/whole"
        _fill(half, DOCUMENTS // 2)
        _fill(whole, DOCUMENTS)
        spark = session("local[2]", settings={"spark.driver.memory": "1g"})
        try:
            rows: list[Row | Count] = [*_compactions(spark, whole), *_doubled(half, whole)]
        finally:
            spark.stop()
        return [*_rates(folder, whole), *rows, *_engines(whole), *_memory(folder, whole)]


def documents(count: int) -> Iterator[list[dict[str, Any]]]:
    """About 1 KB each; half of it is text that does not repeat."""
    chance = random.Random(7)
    for start in range(0, count, BATCH):
        yield [_document(number, chance) for number in range(start, min(start + BATCH, count))]


def _document(number: int, chance: random.Random) -> dict[str, Any]:
    return {
        "_id": f"event-{number * 7919 % 10_000_000:09}",
        "user": chance.randrange(1_000_000),
        "amount": round(chance.uniform(0, 5_000), 2),
        "kind": chance.choice(["view", "click", "order", "return"]),
        "code": f"{number:012x}",
        "text": chance.randbytes(200).hex() + " the same words over and over" * 17,
    }


def _fill(url: str, count: int) -> None:
    """Documents in blocks, and a tenth of them changed since."""
    with wormdb.connect(url, schema=SCHEMA, apply=True) as db:
        events = db.model("Event")
        for some in documents(count):
            events.insert_many(some)
        events.forward()
        for some in documents(count):
            with events.batch() as batch:
                for document in some[::10]:
                    batch.save({**document, "amount": -1.0})
        events.forward()


def _compactions(spark: Any, url: str) -> list[Row]:
    from wormdb.spark.jobs import pipeline

    remote = pipeline(spark, url, "Event")
    here = Pipeline(remote.where, LocalRunner(2))
    return [
        compare(
            "compaction on Spark",
            lambda: remote.compact(ALL),
            "the same in one process, two threads",
            lambda: here.compact(ALL),
            count=DOCUMENTS,
            at_most=1.3,
            rounds=ROUNDS,
            by=median,
        )
    ]


def _doubled(half: str, whole: str) -> list[Row]:
    sides = [local_pipeline(url, "Event", threads=2) for url in (whole, half)]
    return [
        compare(
            "compaction",
            lambda: sides[0].compact(ALL),
            "of half as many documents",
            lambda: sides[1].compact(ALL),
            count=DOCUMENTS,
            at_most=2.2,
            rounds=ROUNDS,
            by=median,
        )
    ]


def _rates(folder: str, url: str) -> list[Count]:
    """MiB of stored blocks that one core does in a second: what `--engine auto` goes by."""
    with wormdb.connect(url) as db:
        stored = db.model("Event").parquet_files().size_bytes / MIB
    jobs = local_pipeline(url, "Event", threads=1)
    done: dict[str, Callable[[], object]] = {
        "aggregate": lambda: jobs.aggregate({"group_by": "kind", "avg": "amount"}),
        "analyze": jobs.analyze,
        "compact": lambda: jobs.compact(ALL),
        "export": lambda: jobs.export(f"{folder}/lines", ExportOptions("ndjson")),
        "history": lambda: jobs.export_history(f"{folder}/history"),
        "rebuild": jobs.rebuild,
        "verify": jobs.verify,
    }
    rows = []
    for job, function in done.items():
        begun = time.process_time()
        function()
        rate = stored / (time.process_time() - begun)
        wanted = RATES[job]
        is_near = wanted / 2 <= rate <= 2 * wanted
        rows.append(Count(f"{job}: MiB a second of one core", "of --engine auto", rate, f"{wanted} ± half", is_near))
    return rows


# --- whole commands ---


@dataclass(frozen=True)
class _Ran:
    seconds: float
    mebibytes: float
    """The most memory that its processes had at one time."""


def _worm(*arguments: str) -> _Ran:
    """Run a command, and look all the time how much memory it takes."""
    peak = 0.0
    begun = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "wormdb.cli", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        while process.poll() is None:
            peak = max(peak, sum(map(_mebibytes, _tree(process.pid))))
            time.sleep(0.25)
        seconds = time.perf_counter() - begun
        assert process.stderr is not None
        errors = process.stderr.read().decode()
    assert process.returncode == 0, errors[-2_000:]
    return _Ran(seconds, peak)


def _tree(top: int) -> list[int]:
    """A process and all below it."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found, waiting = [], [top]
    while waiting:
        found.append(waiting.pop())
        waiting += parents.get(found[-1], [])
    return found


def _mebibytes(process: int) -> float:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def _engines(url: str) -> list[Row]:
    """What --engine auto decides between: Spark with its start, or this process."""
    rows = []
    for job, more in (("aggregate", ["--group-by", "kind", "--avg", "amount"]), ("rebuild", [])):
        taken = {engine: _worm("table", job, "Event", *more, "--engine", engine, "--url", url) for engine in ENGINES}
        spark, local = taken["spark"].seconds, taken["local"].seconds
        rows.append(Row(f"{job} by Spark, its start included", "in one process", DOCUMENTS, spark, local))
    return rows


ENGINES = ("local", "spark")


def _memory(folder: str, url: str) -> list[Count]:
    lines = Path(folder) / "events.ndjson"
    with lines.open("wb") as file:
        for some in documents(DOCUMENTS):
            file.writelines(wormdb_json(document) for document in some)
    target = f"{folder}/imported"
    wormdb.connect(target, schema=SCHEMA, apply=True).close()
    jobs = {
        "import": ["import", str(lines), "--model", "Event", "--url", target],
        "rebuild": ["table", "rebuild", "Event", "--url", url],
        "verify": ["verify", "Event", "--url", url],
    }
    rows = []
    for job, arguments in jobs.items():
        ran = _worm(*arguments, "--engine", "spark")
        what = f"{job} on Spark: {ran.seconds:,.0f} s"
        rows.append(
            Count(what, "MiB of all processes", ran.mebibytes, f"≤ {MEMORY_MAX:,}", ran.mebibytes <= MEMORY_MAX)
        )
    return rows


def wormdb_json(document: dict[str, Any]) -> bytes:
    """A line of a file."""
    from wormdb.format import json

    return json.encode(document).replace(b'"_id"', b'"id"', 1) + b"\n"
