"""Many threads that read beside a writer that commits all the time, and many processes that write.

The store takes 25 ms for a request, and 100 ms for a PUT of the processes that write. These are databases in one
interpreter, each with what a process has of its own: so what more processors would give does not show.
"""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING
from unittest import mock

from benchmarks.commits import open_slowly
from benchmarks.measure import Count
from wormdb.engine.commit import turns as turns_of_writers
from wormdb.engine.commit.readers import GroupRead
from wormdb.errors import UnavailableError
from wormdb.storage.memory import drop_memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from typing import Any

    from benchmarks.measure import Row
    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.engine.state.view import View

__all__ = ["TITLE", "run"]

TITLE = "crowd: threads that read beside a writer, and processes that write; 25 ms a request"
THREADS = (1, 16, 64)
DELAY_MS = 25
STALE_MS = 100
SECONDS = float(os.environ.get("WORMDB_BENCH_SECONDS", "6"))
URL = "memory://crowd"
PROCESSES = (4, 16)
WRITERS = 4
PUT_MS = 100
WARM_SECONDS = 3.0
TAIL_SECONDS = 1.5
"""For how long writers go on after what is measured, so that none of that waits for one that has ended."""


@dataclass(frozen=True)
class Rate:
    """What readers got."""

    threads: int
    reads: int
    seconds: float
    gets: int
    processor_seconds: float
    stale: int
    """Reads that missed what was acknowledged before they began."""

    @property
    def per_second(self) -> float:
        """Reads of all threads in a second."""
        return self.reads / self.seconds

    @property
    def gets_a_read(self) -> float:
        """GETs of the readers' process for a read."""
        return self.gets / self.reads

    def __str__(self) -> str:
        mean_ms = 1000 * self.threads * self.seconds / self.reads
        processor = 1e6 * self.processor_seconds / self.reads
        return f"{self.per_second:,.0f} reads/s, mean {mean_ms:.0f} ms, {processor:,.0f} µs of processor time"


def run() -> list[Row | Count]:
    """Each number of threads, with probes of their own and together."""
    reads = [row for threads in THREADS for row in _rows(threads)]
    return [*reads, *_choices(), *(row for processes in PROCESSES for row in _written(processes))]


def _choices() -> list[Count]:
    """Reads that need not see the newest state."""
    threads = THREADS[-1]
    stale, known = measure(threads, stale_ms=STALE_MS), measure(threads, at_least=1)
    return [
        Count(
            f"{threads} threads, stale_ms={STALE_MS}: GETs a read",
            str(stale),
            stale.gets_a_read,
            "≤ 0.1",
            stale.gets_a_read <= 0.1,
        ),
        Count(f"{threads} threads, at_least of what is known: GETs", str(known), known.gets, "0", known.gets == 0),
    ]


def _rows(threads: int) -> list[Count]:
    alone, together = measure(threads, _probes_alone()), measure(threads)
    is_crowd = threads == THREADS[-1]
    ratio = together.per_second / alone.per_second
    return [
        Count(
            f"{threads} threads, together: GETs a read",
            str(together),
            together.gets_a_read,
            "≤ 0.3" if is_crowd else "none",
            not is_crowd or together.gets_a_read <= 0.3,
        ),
        Count(f"{threads} threads, a probe each: GETs a read", str(alone), alone.gets_a_read, "none", passed=True),
        Count(
            f"{threads} threads: reads/s together, beside a probe each",
            "the same run",
            ratio,
            "≥ 8" if is_crowd else "none",
            not is_crowd or ratio >= 8,
        ),
        Count(
            f"{threads} threads: reads that miss what was acknowledged before",
            f"{together.reads:,} reads",
            together.stale,
            "0",
            together.stale == 0,
        ),
    ]


def _probes_alone() -> AbstractContextManager[object]:
    """Every reader asks for itself."""

    def view(self: GroupRead, *_: object, **__: object) -> View:
        self._head.refresh()
        return self._head.view()

    return mock.patch.object(GroupRead, "view", view)


def measure(threads: int, way: AbstractContextManager[object] | None = None, **options: Any) -> Rate:
    """What `threads` threads read in some seconds beside a writer of another process, which has its own database."""
    with way or nullcontext(), open_slowly(URL, DELAY_MS) as database, _writing() as acknowledged:
        things = database["things"]
        things.find_by_id("x", **options)
        before, processor, start = database.cost().gets, time.process_time(), time.perf_counter()
        end = start + SECONDS
        with ThreadPoolExecutor(threads) as pool:
            found = list(pool.map(lambda _: _read(things, acknowledged, end, options), range(threads)))
        seconds, processor = time.perf_counter() - start, time.process_time() - processor
        gets = database.cost().gets - before
    drop_memory("crowd")
    reads, stale = (sum(each) for each in zip(*found, strict=True))
    return Rate(threads, reads, seconds, gets, processor, stale)


def _read(
    things: Collection[Document], acknowledged: list[int], end: float, options: dict[str, Any]
) -> tuple[int, int]:
    reads = stale = 0
    while time.perf_counter() < end:
        least = acknowledged[0]
        found = things.find_by_id("x", **options)
        reads += 1
        stale += found is None or found["n"] < least
    return reads, stale


@contextmanager
def _writing() -> Iterator[list[int]]:
    """Another client commits one after the other; gives what was acknowledged last."""
    acknowledged, is_over = [0], threading.Event()
    with open_slowly(URL, DELAY_MS) as database:
        things = database["things"]
        things.save({"id": "x", "n": 0})

        def write() -> None:
            while not is_over.is_set():
                number = acknowledged[0] + 1
                things.save({"id": "x", "n": number})
                acknowledged[0] = number

        writer = threading.Thread(target=write)
        writer.start()
        try:
            yield acknowledged
        finally:
            is_over.set()
            writer.join()


# --- Processes that write.


@dataclass(frozen=True)
class Written:
    """What writers of several processes got into one collection."""

    latencies: list[float]
    """Of each insert, in seconds, in order."""
    seconds: float
    puts: int
    failed: int

    @property
    def per_second(self) -> float:
        """Inserts of all processes in a second."""
        return len(self.latencies) / self.seconds

    @property
    def spread(self) -> float:
        """The 99th percentile over the median."""
        return self.latencies[len(self.latencies) * 99 // 100] / self.latencies[len(self.latencies) // 2]

    def __str__(self) -> str:
        median = 1000 * self.latencies[len(self.latencies) // 2]
        return f"{self.per_second:,.0f} inserts/s, median {median:,.0f} ms, {self.failed} failed"


def _written(processes: int) -> list[Count]:
    turns, gathered = write(processes, mock.patch.object(turns_of_writers, "GATHER_EMPTY_MAX", 0)), write(processes)
    is_crowd, name = processes == PROCESSES[-1], f"{processes} processes x {WRITERS} writers"
    ratio, puts = gathered.per_second / turns.per_second, gathered.puts / len(gathered.latencies)
    return [
        Count(
            f"{name}: inserts/s, beside turns alone",
            f"{gathered}; turns: {turns}",
            ratio,
            "≥ 5" if is_crowd else "none",
            not is_crowd or ratio >= 5,
        ),
        Count(f"{name}: p99 / median", f"turns: {turns.spread:.1f}", gathered.spread, "≤ 4", gathered.spread <= 4),
        Count(f"{name}: PUTs an insert", f"turns: {turns.puts / len(turns.latencies):.2f}", puts, "none", passed=True),
        Count(f"{name}: inserts that failed", f"turns: {turns.failed}", gathered.failed, "0", gathered.failed == 0),
    ]


def write(processes: int, way: AbstractContextManager[object] | None = None) -> Written:
    """What threads of several databases insert in some seconds, each as fast as it can."""
    with way or nullcontext(), ExitStack() as stack:
        opened = [stack.enter_context(open_slowly(URL, DELAY_MS, PUT_MS)) for _ in range(processes)]
        opened[0]["things"].insert({"id": "first"})
        begin = time.perf_counter() + WARM_SECONDS
        before = sum(database.cost().puts for database in opened)
        start = time.perf_counter()
        with ThreadPoolExecutor(processes * WRITERS) as pool:
            jobs = [(database["things"], begin) for database in opened for _ in range(WRITERS)]
            found = list(pool.map(lambda job: _insert(*job), jobs))
        whole = time.perf_counter() - start
        puts = sum(database.cost().puts for database in opened) - before
    drop_memory("crowd")
    latencies = sorted(latency for one, _ in found for latency in one)
    # PUTs are counted from the first on, and so are told for the share of the time in which inserts are.
    return Written(latencies, SECONDS, round(puts * SECONDS / whole), sum(failed for _, failed in found))


def _insert(things: Collection[Document], begin: float) -> tuple[list[float], int]:
    latencies, failed = [], 0
    while (start := time.perf_counter()) < begin + SECONDS + TAIL_SECONDS:
        try:
            things.insert({"value": "x" * 200})
        except UnavailableError:
            failed += 1
            continue
        if begin <= start < begin + SECONDS:
            latencies.append(time.perf_counter() - start)
    return latencies, failed
