"""A bounded number of threads for requests that may run side by side."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol, TypeVar

from wormdb.errors import ClosedError
from wormdb.limits import POOL_THREADS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["Pool", "SerialPool", "ThreadPool"]

T = TypeVar("T")
R = TypeVar("R")


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
        self._executor = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="wormdb")
        self._closed = False

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Results in the order of `items`; the first error in that order is raised. ClosedError after `close`."""
        if self._closed:
            raise ClosedError("thread pool", reason="the database it belongs to was closed")
        return self._executor.map(function, items)

    def close(self) -> None:
        """Wait for what runs, drop what has not begun, end the threads."""
        self._closed = True
        self._executor.shutdown(wait=True, cancel_futures=True)
