"""Where Arrow takes its memory from."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

__all__ = ["give_back_memory", "plain_memory"]


@contextmanager
def plain_memory() -> Iterator[None]:
    """Let Arrow take its memory from the system's own allocator, for as long as much is written.

    It costs half as much time in the kernel, and what is freed is used again: Arrow's own pool keeps that of each
    thread for itself.
    """
    _PLAIN.enter()
    try:
        yield
    finally:
        _PLAIN.leave()


class _PlainPool:
    """Counts the callers inside `plain_memory`: the first sets the pool of the process, the last sets it back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before: pa.MemoryPool | None = None

    def enter(self) -> None:
        import pyarrow as pa

        with self._lock:
            if self._inside == 0:
                self._before = pa.default_memory_pool()
                pa.set_memory_pool(pa.system_memory_pool())
            self._inside += 1

    def leave(self) -> None:
        import pyarrow as pa

        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                pa.set_memory_pool(self._before)


_PLAIN = _PlainPool()


def give_back_memory() -> None:
    """Give memory that was freed back to the machine: pieces between those in use count as used until then.

    It takes milliseconds, so it is for the end of something large, a block or more. No requests.
    """
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    _trimmer()()


@cache
def _trimmer() -> Callable[[], object]:
    """Gives back what the allocator of C keeps, of every thread; it is glibc's that keeps much of each."""
    import ctypes

    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return lambda: None
    return partial(trim, 0)
