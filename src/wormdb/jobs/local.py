"""Pieces of work in this process, some at a time."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING

from wormdb.jobs.work import Course, attempt, bodies_of
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.jobs.work import Item, Told, Work
    from wormdb.system.clock import Clock

__all__ = ["LocalRunner"]


class LocalRunner:
    """Runs in threads: reading, unpacking and packing go side by side, Python code does not."""

    def __init__(self, threads: int | None = None, *, clock: Clock | None = None) -> None:
        """Without `threads` as many as there are cores."""
        self._threads = threads or os.cpu_count() or 1
        self._clock = clock or SystemClock()

    def run(self, job: str, work: Work, items: Sequence[Item], told: Told | None = None) -> list[bytes]:
        """What each item came to, in their order. All are tried; then the error of the first that failed is raised."""
        course = Course(job, items, self._clock, told)
        results = []
        with ThreadPoolExecutor(self._threads, thread_name_prefix="wormdb-job") as pool:
            running = [pool.submit(attempt, work, number, item.body) for number, item in enumerate(items)]
            try:
                for future in as_completed(running):
                    results.append(future.result())
                    course.finished(results[-1].number, results[-1].rows)
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        return bodies_of(job, items, results)
