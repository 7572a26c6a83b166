"""Commits by many threads and processes, against one thread of the same code in the same run."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from benchmarks.measure import Count, Row
from wormdb.api.database import Database
from wormdb.errors import ConflictError
from wormdb.settings import Settings
from wormdb.storage.meter import MeteredStore
from wormdb.storage.open import open_store
from wormdb.storage.pool import ThreadPool
from wormdb.system.clock import SystemChance, SystemClock
from wormdb.testing.latency_store import Latency, LatencyProfile, LatencyStore
from wormdb.testing.s3_server import S3Server

if TYPE_CHECKING:
    from multiprocessing.queues import Queue

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document

__all__ = ["TITLE", "run"]

TITLE = "commits: group commit and fairness"
THREADS = 64
SAVES = 100
PROCESSES = 4
SHARE_SECONDS = 8.0
DELAY_MS = 50
SINGLE_SAVES = 200
BATCH_DOCUMENTS = 1_000
BATCHES = 5


def open_slowly(url: str, delay_ms: float, put_ms: float | None = None) -> Database:
    """A database whose every request takes at least `delay_ms`, or a PUT `put_ms`."""
    clock, chance = SystemClock(), SystemChance()
    each, put = Latency(delay_ms), Latency(delay_ms if put_ms is None else put_ms)
    slow = LatencyStore(
        open_store(url, clock=clock, chance=chance),
        clock=clock,
        chance=chance,
        profile=LatencyProfile(get=each, head=each, list=each, put=put, delete=each),
    )
    metered = MeteredStore(slow, clock=clock)
    settings = Settings()
    pool = ThreadPool(settings.pool_threads)
    return Database(metered, pool, settings=settings, schema=None, actor=None, clock=clock, chance=chance)


def run() -> list[Row | Count]:
    """All comparisons."""
    with tempfile.TemporaryDirectory() as folder:
        slow = [_grouped(f"{folder}/threads"), *_shares(f"{folder}/processes")]
    with S3Server() as server:
        os.environ.update(server.environment)
        return [*slow, *_rates(server.url("commits"))]


def _save_by_threads(customers: Collection[Document], threads: int, saves: int) -> float:
    """Seconds for all threads together."""

    def work(thread: int) -> None:
        for number in range(saves):
            customers.insert({"id": f"{thread}-{number}-{time.monotonic_ns()}", "value": "x" * 200})

    with ThreadPoolExecutor(threads) as pool:
        start = time.perf_counter()
        list(pool.map(work, range(threads)))
        return time.perf_counter() - start


def _grouped(url: str) -> Count:
    with open_slowly(url, DELAY_MS) as database:
        customers = database["customers"]
        customers.insert({"id": "first"})
        before = database.cost().puts
        _save_by_threads(customers, THREADS, SAVES)
        puts = database.cost().puts - before
        assert customers.count() == THREADS * SAVES + 1
    return Count(
        f"log PUTs for {THREADS} threads x {SAVES} saves, {DELAY_MS} ms a request",
        f"{THREADS * SAVES:,} saves",
        puts,
        "≤ 250",
        puts <= 250,
    )


def share(url: str, name: str, ready: Queue[str], results: Queue[tuple[int, int]]) -> None:
    """A process of its own: saves as often as it can for a while; commits and conflicts."""
    with open_slowly(url, DELAY_MS) as database:
        customers = database["customers"]
        customers.count()
        ready.put(name)
        commits = conflicts = 0
        end = time.monotonic() + SHARE_SECONDS
        while time.monotonic() < end:
            try:
                customers.insert({"id": f"{name}-{commits}"})
                commits += 1
            except ConflictError:
                conflicts += 1
        results.put((commits, conflicts))


def _shares(url: str) -> list[Count]:
    context = multiprocessing.get_context("spawn")
    ready: Queue[str] = context.Queue()
    results: Queue[tuple[int, int]] = context.Queue()
    with open_slowly(url, 0) as database:
        database["customers"].insert({"id": "first"})
    workers = [context.Process(target=share, args=(url, f"p{n}", ready, results)) for n in range(PROCESSES)]
    for worker in workers:
        worker.start()
    got = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    commits = [count for count, _ in got]
    smallest = min(commits) / (sum(commits) / PROCESSES)
    conflicts = sum(count for _, count in got)
    shown = ", ".join(map(str, sorted(commits)))
    return [
        Count(
            f"smallest share of {PROCESSES} processes, {DELAY_MS} ms a request",
            f"fair share of {shown}",
            smallest,
            "≥ 0.5",
            smallest >= 0.5,
        ),
        Count(
            f"conflicts of {PROCESSES} processes with disjoint ids",
            f"{sum(commits)} commits",
            conflicts,
            "0",
            conflicts == 0,
        ),
    ]


def _rates(url: str) -> list[Row]:
    with open_slowly(url, 0) as database:
        customers = database["customers"]
        customers.insert({"id": "first"})
        one = _save_by_threads(customers, 1, SINGLE_SAVES) / SINGLE_SAVES
        many = _save_by_threads(customers, THREADS, SAVES) / (THREADS * SAVES)
        batches = _batches(customers) / (BATCHES * BATCH_DOCUMENTS)
    return [
        Row(f"a save by {THREADS} threads on S3", "a save by 1 thread", 1, many, one, at_least=10),
        Row(
            f"a document of a {BATCH_DOCUMENTS:,}-document batch on S3",
            "a save by 1 thread",
            1,
            batches,
            one,
            at_least=50,
        ),
    ]


def _batches(customers: Collection[Document]) -> float:
    start = time.perf_counter()
    for batch in range(BATCHES):
        customers.insert_many({"id": f"b{batch}-{number}", "value": "x" * 200} for number in range(BATCH_DOCUMENTS))
    return time.perf_counter() - start
