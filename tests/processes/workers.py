"""Threads of one process that work on one database until its input ends: what writers and bankers have in common."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Protocol

import wormdb

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PAUSE_SECONDS", "work_until_the_end"]

# Few, so that forwardings, root swaps and full tails happen in a short run too.
FORWARD_ENTRIES, TAIL_ENTRIES_MAX = 30, 45
PAUSE_SECONDS = 0.01
REST_SECONDS = 0.02
"""Between two steps of a thread: so that a process that was killed soon goes on, on a machine with two cores."""


class Worker(Protocol):
    """One thread's work."""

    def step(self) -> None: ...


def work_until_the_end(
    url: str, name: str, seconds: float, *, threads: int, hire: Callable[[wormdb.Database, str], Worker]
) -> int:
    """Let workers step, each in a thread, until the input ends or one of them fails; the exit code.

    `hire` makes one from the database and its name; `seconds` is how long a commit tries.
    """
    settings = wormdb.Settings(
        commit_seconds=seconds, forward_entries=FORWARD_ENTRIES, tail_entries_max=TAIL_ENTRIES_MAX
    )
    ended = threading.Event()
    failures: list[BaseException] = []

    def work(worker: Worker) -> None:
        try:
            while not ended.wait(REST_SECONDS):
                worker.step()
        except BaseException as error:
            failures.append(error)
            ended.set()
            raise

    with wormdb.connect(url, settings=settings, actor=name) as db:
        workers = [hire(db, f"{name}-{thread}") for thread in range(threads)]
        running = [threading.Thread(target=work, args=(worker,)) for worker in workers]
        for thread in running:
            thread.start()
        threading.Thread(target=_wait_for_end, args=(ended,), daemon=True).start()
        for thread in running:
            thread.join()
    return 1 if failures else 0


def _wait_for_end(ended: threading.Event) -> None:
    """The pipe ends when the test says so, and also when the test is gone."""
    os.read(0, 1)
    ended.set()
