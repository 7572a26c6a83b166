"""Transfers between two collections: by transactions, by two plain batches that nothing holds together, and by SQLite.

A transfer reads two accounts and writes both. Of a hundred transfers as many as the overlap says are between the same
two accounts; the others are between accounts that no other worker uses. A conflict is tried again until it is in.
"""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import wormdb
from benchmarks.measure import Count, Row, compare
from wormdb.errors import ConflictError, UnavailableError
from wormdb.system.clock import SeededChance
from wormdb.testing.s3_server import S3Server

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.queues import Queue

__all__ = ["TITLE", "run"]

TITLE = "transactions: transfers between two collections"
SECONDS = float(os.environ.get("WORMDB_BENCH_SECONDS", "4"))
ROUND = 50
WORKERS = 16
PROCESSES = 4
BANKS = ("east", "west")
BALANCE = 1_000_000
OVERLAPS = (1, 10, 100)
REFUSED = (ConflictError, UnavailableError)


@dataclass(frozen=True)
class Transfers:
    """What some workers got done."""

    done: int
    conflicts: int
    puts: int
    gets: int

    @property
    def per_second(self) -> float:
        """Of all workers."""
        return self.done / SECONDS

    def __str__(self) -> str:
        each = max(self.done, 1)
        return (
            f"{self.per_second:,.0f}/s, {self.conflicts / each:.2f} conflicts, "
            f"{self.puts / each:.2f} PUTs and {self.gets / each:.2f} GETs each"
        )


def run() -> list[Row | Count]:
    """All comparisons, on a folder and on SeaweedFS."""
    with tempfile.TemporaryDirectory() as folder, S3Server() as server:
        os.environ.update(server.environment)
        places = {"folder": lambda name: f"{folder}/{name}", "SeaweedFS": server.url}
        return [row for place, url in places.items() for row in _rows(place, url, f"{folder}/{place}.sqlite")]


def _rows(place: str, url: Callable[[str], str], path: str) -> list[Row | Count]:
    rows: list[Row | Count] = [*_one(place, url, path)]
    plain = {processes: measure(url(f"plain{processes}"), processes, 1, "batches") for processes in (1, PROCESSES)}
    single = measure(url("single"), 1, 1, "transaction", workers=1)
    rows.append(_count(f"{place}, 1 worker, overlap 1 %", single, None))
    for processes in (1, PROCESSES):
        for overlap in OVERLAPS:
            got = measure(url(f"t{processes}-{overlap}"), processes, overlap, "transaction")
            name = f"{place}, {WORKERS} workers in {processes} process{'es' * (processes > 1)}, overlap {overlap} %"
            rows.append(_count(name, got, plain[processes]))
    return rows


def _count(name: str, got: Transfers, beside: Transfers | None) -> Count:
    reference = str(got) if beside is None else f"{got}; two batches: {beside}"
    return Count(f"{name}: transfers/s", reference, got.per_second, "none", passed=True)


def _one(place: str, url: Callable[[str], str], path: str) -> list[Row | Count]:
    """One worker: time and requests, beside two batches and SQLite."""
    with wormdb.connect(url("one")) as db, wormdb.connect(url("two")) as other:
        for each in (db, other):
            prepare(each, 2)
        sqlite = _sqlite(path)
        ours = _round(lambda: transfer(db, "0", "1"))
        beside = compare(
            f"{place}: a transfer, 1 worker", ours, "as two batches", _round(lambda: two_batches(other, "0", "1")),
            count=ROUND, rounds=5,
        )  # fmt: skip
        peer = compare(
            f"{place}: a transfer, 1 worker", ours, "SQLite, a file, synchronous=FULL", _round(sqlite),
            count=ROUND, rounds=5,
        )  # fmt: skip
        before = db.cost()
        ours()
        after = db.cost()
        puts, gets = (after.puts - before.puts) / ROUND, (after.gets - before.gets) / ROUND
    return [beside, peer, Count(f"{place}: PUTs a transfer, 1 worker", f"{gets:.2f} GETs", puts, "none", passed=True)]


def _round(once: Callable[[], object]) -> Callable[[], None]:
    def several() -> None:
        for _ in range(ROUND):
            once()

    return several


def prepare(db: wormdb.Database, accounts: int) -> None:
    """Accounts in both collections."""
    for bank in BANKS:
        db[bank].insert_many({"id": str(number), "balance": BALANCE} for number in range(accounts))


def transfer(db: Any, payer: str, payee: str) -> None:
    """By one transaction. Raises ConflictError."""
    with db.transaction() as tx:
        giver, taker = tx[BANKS[0]].find_by_id(payer), tx[BANKS[1]].find_by_id(payee)
        giver["balance"] -= 1
        taker["balance"] += 1
        tx[BANKS[0]].save(giver)
        tx[BANKS[1]].save(taker)


def two_batches(db: Any, payer: str, payee: str) -> None:
    """The same changes, one collection after the other, each tried again by itself."""
    for bank, account, step in ((BANKS[0], payer, -1), (BANKS[1], payee, 1)):
        db[bank].modify(account, lambda found, step=step: found | {"balance": found["balance"] + step})


WAYS: dict[str, Callable[[Any, str, str], None]] = {"transaction": transfer, "batches": two_batches}


def _sqlite(path: str) -> Callable[[], None]:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    for bank in BANKS:
        connection.execute(f"CREATE TABLE {bank} (id TEXT PRIMARY KEY, balance INTEGER)")
        connection.executemany(f"INSERT INTO {bank} VALUES (?, ?)", [("0", BALANCE), ("1", BALANCE)])

    def once() -> None:
        connection.execute("BEGIN IMMEDIATE")
        (giver,) = connection.execute("SELECT balance FROM east WHERE id = '0'").fetchone()
        (taker,) = connection.execute("SELECT balance FROM west WHERE id = '1'").fetchone()
        connection.execute("UPDATE east SET balance = ? WHERE id = '0'", (giver - 1,))
        connection.execute("UPDATE west SET balance = ? WHERE id = '1'", (taker + 1,))
        connection.execute("COMMIT")

    return once


def measure(url: str, processes: int, overlap: int, way: str, workers: int = WORKERS) -> Transfers:
    """What some workers get done in some seconds, in threads of this process or of several others."""
    with wormdb.connect(url) as db:
        prepare(db, 2 + 2 * WORKERS)
    each = workers // processes
    if processes == 1:
        got = [work(url, 0, each, overlap, way)]
    else:
        context = multiprocessing.get_context("spawn")
        results: Queue[Transfers] = context.Queue()
        jobs = [
            context.Process(target=_report, args=(url, number * each, each, overlap, way, results))
            for number in range(processes)
        ]
        for job in jobs:
            job.start()
        got = [results.get() for _ in jobs]
        for job in jobs:
            job.join()
    with wormdb.connect(url) as db:
        _check_sum(db, sum(one.done for one in got), way)
    return Transfers(*(sum(getattr(one, name) for one in got) for name in ("done", "conflicts", "puts", "gets")))


def _check_sum(db: Any, done: int, way: str) -> None:
    """No transfer was lost, none came twice, none is half."""
    total = BALANCE * (2 + 2 * WORKERS)
    given, taken = (total - sum(each["balance"] for each in db[bank].find({})) for bank in BANKS)
    assert (given, -taken) == (done, done), f"{done} transfers by {way}, and {given} were given, {-taken} taken"


def _report(url: str, first: int, workers: int, overlap: int, way: str, results: Queue[Transfers]) -> None:
    results.put(work(url, first, workers, overlap, way))


def work(url: str, first: int, workers: int, overlap: int, way: str) -> Transfers:
    """Transfers by threads of this process, for some seconds after it has warmed up."""
    with wormdb.connect(url) as db:
        for bank in BANKS:
            db[bank].count()
        before = db.cost()
        end = time.monotonic() + SECONDS
        with ThreadPoolExecutor(workers) as pool:
            found = list(
                pool.map(lambda number: _work(db, number, overlap, WAYS[way], end), range(first, first + workers))
            )
        after = db.cost()
    done, conflicts = (sum(each) for each in zip(*found, strict=True))
    return Transfers(done, conflicts, after.puts - before.puts, after.gets - before.gets)


def _work(db: Any, number: int, overlap: int, once: Callable[[Any, str, str], None], end: float) -> tuple[int, int]:
    chance, done, conflicts = SeededChance(number), 0, 0
    own = (str(2 + 2 * number), str(3 + 2 * number))
    while time.monotonic() < end:
        payer, payee = ("0", "1") if chance.fraction() * 100 < overlap else own
        while True:
            try:
                once(db, payer, payee)
                done += 1
                break
            except REFUSED:
                conflicts += 1
                time.sleep(chance.fraction() * 0.01)
    return done, conflicts
