"""A bounded number of threads for requests that may run side by side."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from wormdb.errors import ClosedError
from wormdb.settings import CLOSE_SECONDS, POOL_THREADS
from wormdb.system import tracing
from wormdb.system.deadline import Deadline, current, within
from wormdb.system.waiting import check_waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future, ThreadPoolExecutor


__all__ = ["Pool", "SerialPool", "ThreadPool"]

T = TypeVar("T")
R = TypeVar("R")

_MOMENT = 0.1
_LOOK_SECONDS = 1.0
"""How often it is looked whether the deadline of the call was moved."""


class Pool(Protocol):
    """Runs a function over items, perhaps side by side."""

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Results in the order of `items`; the first error in that order is raised."""
        ...

    def close(self) -> None:
        """End the threads, after what they are doing."""
        ...


class SerialPool:
    """One after the other, in the caller's thread: for tests and simulations."""

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Results in the order of `items`."""
        return map(function, items)

    def close(self) -> None:
        """Nothing to end."""


class ThreadPool:
    """At most `threads` at once; started on first use, so opening a store costs no thread."""

    def __init__(self, threads: int = POOL_THREADS) -> None:
        """Threads are made when there is work for them."""
        self._threads = threads
        self._executor: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._running: set[Future[Any]] = set()

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Results in the order of `items`; the first error in that order is raised. ClosedError after `close`.

        The threads work for the call that this one works for. Raises UnavailableError if its time is over before a
        result is there: others may have taken all threads.
        """
        check_waiting("threads of the pool")
        executor = self._started()
        deadline, tracer = current(), tracing.tracer
        call = None if tracer is None else tracer.here()

        def run(item: T) -> R:
            with within(deadline):
                if tracer is None:
                    return function(item)
                with tracer.there(call):
                    return function(item)

        futures = deque(self._submit(executor, run, item) for item in items)
        return self._results(futures, deadline)

    def _started(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._closed:
                raise ClosedError("thread pool", reason="the database it belongs to was closed")
            if self._executor is None:
                from concurrent.futures import ThreadPoolExecutor  # many processes never need it

                self._executor = ThreadPoolExecutor(max_workers=self._threads, thread_name_prefix="wormdb")
            return self._executor

    def _submit(self, executor: ThreadPoolExecutor, run: Callable[[T], R], item: T) -> Future[R]:
        try:
            future = executor.submit(run, item)
        except RuntimeError as error:  # of an executor that was shut down, or whose interpreter ends
            raise ClosedError("thread pool", reason=f"{error}") from None
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        return future

    @staticmethod
    def _results(futures: deque[Future[R]], deadline: Deadline | None) -> Iterator[R]:
        try:
            while futures:
                # Popped first: a result that was taken is not kept.
                yield _result(futures.popleft(), deadline)
        finally:
            for future in futures:
                future.cancel()

    def close(self) -> None:
        """Wait for what runs, but not for long, drop what has not begun, end the threads."""
        with self._lock:
            self._closed = True
        if self._executor is not None:
            from concurrent.futures import wait

            self._executor.shutdown(wait=False, cancel_futures=True)
            wait(self._running.copy(), CLOSE_SECONDS)


def _result(future: Future[R], deadline: Deadline | None) -> R:
    if deadline is None:
        return future.result()
    while True:
        # What runs ends in time by itself; the moment more is for it to say so.
        rest = deadline.rest + _MOMENT
        try:
            return future.result(min(rest, _LOOK_SECONDS))
        except TimeoutError:
            if not future.done() and deadline.rest <= 0 and rest <= _MOMENT:
                future.cancel()
                raise deadline.passed("request") from None
