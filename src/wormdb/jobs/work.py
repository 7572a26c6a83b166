"""A job as pieces of work: what they are, what runs them, and how far they are.

    items = [Item("part 1 of 2", body), …]            # planned: values, nothing is read but lists of blocks
    bodies = runner.run("export", work, items)        # work(body) -> Output, here or in workers of Spark
    …                                                 # the caller puts the bodies together

A piece of work is a function of bytes to bytes that other processes can be sent: a frozen dataclass with `__call__`.
Pieces know nothing of each other, and doing one again gives the same, so a job that failed is simply run again.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from wormdb import errors
from wormdb.errors import WormError
from wormdb.system.clock import Clock, SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


__all__ = [
    "Course",
    "Failure",
    "Item",
    "JobProgress",
    "LocalRunner",
    "Output",
    "ProgressListener",
    "Result",
    "Runner",
    "Work",
    "attempt",
    "bodies_of",
]


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of work."""

    name: str
    """For people."""
    body: bytes
    size: int = 0
    """Stored bytes that it reads, about …"""
    rows: int = 0
    """… and rows that it looks at."""


@dataclass(frozen=True, slots=True)
class Output:
    """What one piece of work came to."""

    body: bytes
    rows: int = 0
    """How many it looked at, or made."""


class Work(Protocol):
    """What is done with the body of each item; can be sent to another process."""

    def __call__(self, body: bytes, /) -> Output:
        """Do it. Raises WormError."""
        ...


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a job is."""

    job: str
    done: int
    items: int
    size: int
    """Stored bytes of what is done, as planned."""
    rows: int
    seconds: float
    seconds_left: float | None
    """None while nothing tells."""
    whole: int = 0
    """Stored bytes of all items; 0 if that is not known."""


ProgressListener: TypeAlias = "Callable[[JobProgress], None]"
"""Hears how far a job is."""


class Runner(Protocol):
    """Does pieces of work, side by side."""

    def run(self, job: str, work: Work, items: Sequence[Item], told: ProgressListener | None = None) -> list[bytes]:
        """What each item came to, in their order. Raises the error of the first that failed, naming it."""
        ...


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as a value that can be sent."""

    kind: str
    what: str
    reason: str
    fix: str


@dataclass(frozen=True, slots=True)
class Result:
    """What became of item `number`."""

    number: int
    body: bytes
    rows: int = 0
    failure: Failure | None = None

    def encode(self) -> bytes:
        """To be sent."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, body: bytes) -> Result:
        """What was sent."""
        return msgspec.msgpack.decode(body, type=Result)


def attempt(work: Work, number: int, body: bytes) -> Result:
    """Do one piece of work; what is wrong with the data is a result too, so that the other pieces go on."""
    try:
        output = work(body)
    except WormError as error:
        return Result(number, b"", failure=Failure(type(error).__name__, error.what, error.reason, error.fix))
    return Result(number, output.body, output.rows)


def bodies_of(job: str, items: Sequence[Item], results: Sequence[Result]) -> list[bytes]:
    """The bodies in the order of items. Raises the error of the first item that failed, with its name."""
    failed = sorted((result.number, result.failure) for result in results if result.failure is not None)
    if failed:
        number, failure = failed[0]
        more = f"; {len(failed) - 1} more of {len(items)} parts failed" if len(failed) > 1 else ""
        kind: type[WormError] = getattr(errors, failure.kind, WormError)
        raise kind(
            f"{job} stopped at {items[number].name}: {failure.what}",
            reason=f"{failure.reason}{more}" if failure.reason else more.removeprefix("; "),
            fix=failure.fix,
        )
    return [result.body for result in sorted(results, key=lambda result: result.number)]


@dataclass(slots=True)
class Course:
    """Follows a job, and tells how far it is. Threads may share it."""

    job: str
    items: Sequence[Item]
    clock: Clock
    told: ProgressListener | None
    _begun: float = field(init=False)
    _done: int = 0
    _size: int = 0
    _rows: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """It begins now."""
        self._begun = self.clock.monotonic()
        self._tell()

    def finished(self, number: int, rows: int) -> None:
        """An item is done."""
        with self._lock:
            self._done += 1
            self._size += self.items[number].size
            self._rows += rows
            self._tell()

    def during(self, number: int, size: int, rows: int) -> None:
        """Some bytes and rows of an item are done."""
        with self._lock:
            most = self.items[number].size
            self._tell(min(size, most), rows)

    def at(self, done: int) -> None:
        """`done` items are done, it is not known which: counts their average size and rows."""
        with self._lock:
            if done <= self._done:
                return
            self._done = done
            self._size = sum(item.size for item in self.items) * done // len(self.items)
            self._rows = sum(item.rows for item in self.items) * done // len(self.items)
            self._tell()

    def _tell(self, more_size: int = 0, more_rows: int = 0) -> None:
        if self.told is None:
            return
        seconds = self.clock.monotonic() - self._begun
        size, rows = self._size + more_size, self._rows + more_rows
        total = sum(item.size for item in self.items)
        whole, done = (total, size) if total else (len(self.items), self._done)
        left = seconds * (whole - done) / done if done else None
        self.told(JobProgress(self.job, self._done, len(self.items), size, rows, seconds, left, total))


# --- pieces of work in this process ---


class LocalRunner:
    """Runs in threads: reading, unpacking and packing go side by side, Python code does not."""

    def __init__(self, threads: int | None = None, *, clock: Clock | None = None) -> None:
        """Without `threads` as many as there are cores."""
        self._threads = threads or os.cpu_count() or 1
        self._clock = clock or SystemClock()

    def run(self, job: str, work: Work, items: Sequence[Item], told: ProgressListener | None = None) -> list[bytes]:
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
