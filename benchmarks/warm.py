"""A warm process: what one read costs in calls of Python functions, and in processor time beside SQLite.

Calls are exact, the same on every machine, and held by tests/api/test_warm_calls.py too. Times are of the processor,
the best of several rounds that alternate with the reference; the time of one probe of the log is taken in the same run
and subtracted, because it is the store's.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
from typing import TYPE_CHECKING, Any

import wormdb
from benchmarks.documents import make_documents
from benchmarks.measure import Count, still
from tests.python_calls import count_calls

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.measure import Row
    from wormdb import Collection, Document

__all__ = ["TITLE", "run"]

DOCUMENTS = 10_000
TITLE = f"warm: one process that has read everything, {DOCUMENTS:,} documents of 1 KB in a folder, an index"
KEPT = 100
"""Documents that are asked for again and again."""
BATCH = 100
ROUNDS = 7
CALLS = 100


def run() -> list[Row | Count]:
    """Load a folder and SQLite with the same documents, and read them."""
    documents = make_documents(DOCUMENTS)
    with tempfile.TemporaryDirectory() as folder, wormdb.connect(folder) as database:
        things = database["things"]
        things.insert_many(documents)
        things.create_index("email")
        things.forward()
        reads = _reads(things, documents)
        for read in reads.values():
            read()
            read()
        return [*_calls(reads), *_times(things, reads, _sqlite(documents))]


def _reads(things: Collection[Document], documents: list[dict[str, Any]]) -> dict[str, Callable[[], object]]:
    ids = [one["_id"] for one in documents[:KEPT]]
    emails = [one["email"] for one in documents[:KEPT]]
    turns = iter(range(1_000_000_000))

    def find_by_id() -> None:
        assert things.find_by_id(ids[next(turns) % KEPT]) is not None

    def find() -> None:
        assert len(things.find({"email": emails[next(turns) % KEPT]}).to_list()) == 1

    def find_raw() -> None:
        assert len(things.find({"email": emails[next(turns) % KEPT]}, raw=True).to_list()) == 1

    def cursor() -> None:
        with things.cursor(batch_size=BATCH) as rows:
            assert sum(map(len, iter(rows.next_batch, []))) == DOCUMENTS

    for row in range(KEPT):
        assert things.find_by_id(ids[row]) is not None
        assert len(things.find({"email": emails[row]}).to_list()) == 1
    return {"find_by_id": find_by_id, "find": find, "find, raw": find_raw, "cursor": cursor}


def _calls(reads: dict[str, Callable[[], object]]) -> list[Row | Count]:
    reference = "sys.setprofile, without the store's own"
    for name in ("find_by_id", "find"):
        reads[name]()  # the plan is chosen again when far more is kept than before
    by_id, by_index = count_calls(reads["find_by_id"]), count_calls(reads["find"])
    row = count_calls(reads["cursor"]) / DOCUMENTS
    return [
        Count("calls of Python: find_by_id", reference, by_id, "≤ 60", by_id <= 60),
        Count("calls of Python: equality by index, one row", reference, by_index, "≤ 150", by_index <= 150),
        Count(f"calls of Python: a row of a cursor, {BATCH} at a time", reference, row, "≤ 15", row <= 15),
    ]


def _times(
    things: Collection[Document], reads: dict[str, Callable[[], object]], theirs: dict[str, Callable[[], object]]
) -> list[Row | Count]:
    taken = _best({"probe": things._access.view, **reads}, theirs)  # noqa: SLF001 - the probe alone
    probe = taken["probe"]
    rows: list[Row | Count] = []
    for what, name, bar, pieces in (
        ("find_by_id", "find_by_id", 45, 1),
        ("equality by index, one row", "find", 120, 1),
        ("the same with raw=True", "find, raw", 120, 1),
        (f"a row of a cursor, {BATCH} at a time", "cursor", 12, DOCUMENTS),
    ):
        micros = (taken[name] - probe) / pieces * 1e6
        peer = taken[f"sqlite {name.partition(',')[0]}"] / pieces * 1e6
        rows.append(
            Count(
                f"µs of processor time above the probe: {what}",
                f"SQLite and json.loads {peer:.1f} µs, {micros / peer:.1f}x; the probe {probe * 1e6:.0f} µs",
                micros,
                f"≤ {bar}",
                micros <= bar,
            )
        )
    return rows


def _best(ours: dict[str, Callable[[], object]], theirs: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Seconds of processor time that each takes, at best."""
    works = {**ours, **{f"sqlite {name}": work for name, work in theirs.items()}}
    best: dict[str, float] = {}
    with still():
        for _ in range(ROUNDS):
            for name, work in works.items():
                times = 1 if "cursor" in name else CALLS
                begin = time.process_time()
                for _ in range(times):
                    work()
                spent = (time.process_time() - begin) / times
                best[name] = min(best.get(name, spent), spent)
    return best


def _sqlite(documents: list[dict[str, Any]]) -> dict[str, Callable[[], object]]:
    """The same reads of a table in memory with the same index, each row decoded."""
    table = sqlite3.connect(":memory:")
    table.execute("CREATE TABLE things (id TEXT PRIMARY KEY, email TEXT, doc TEXT) WITHOUT ROWID")
    table.executemany(
        "INSERT INTO things VALUES (?, ?, ?)", [(one["_id"], one["email"], json.dumps(one)) for one in documents]
    )
    table.execute("CREATE INDEX by_email ON things (email)")
    ids = [one["_id"] for one in documents[:KEPT]]
    emails = [one["email"] for one in documents[:KEPT]]
    turns = iter(range(1_000_000_000))

    def find_by_id() -> None:
        (text,) = table.execute("SELECT doc FROM things WHERE id = ?", (ids[next(turns) % KEPT],)).fetchone()
        json.loads(text)

    def find() -> None:
        for (text,) in table.execute("SELECT doc FROM things WHERE email = ?", (emails[next(turns) % KEPT],)):
            json.loads(text)

    def cursor() -> None:
        rows = table.execute("SELECT doc FROM things ORDER BY id")
        while some := rows.fetchmany(BATCH):
            for (text,) in some:
                json.loads(text)

    return {"find_by_id": find_by_id, "find": find, "cursor": cursor}
