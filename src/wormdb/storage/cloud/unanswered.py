"""Calls of a client library that nothing can interrupt, given up when the time of their caller is over.

Such a call is made in a thread beside the caller's. A caller that has no time left goes on without it; the thread
stays until the library's own timeout ends the call, and what it brings then is thrown away. The threads are daemons:
the end of a program does not wait for them.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wormdb.errors import UnavailableError
from wormdb.settings import POOL_THREADS, UNANSWERED_MAX
from wormdb.system.deadline import current

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["AbandonedCallError", "give_up_in_time"]

T = TypeVar("T")

LOOK_SECONDS = 1.0
"""How often a waiting caller looks whether its deadline was moved."""


class AbandonedCallError(Exception):
    """The time was over before the call was."""


class _InterruptibleCall(Generic[T]):
    """One call, and what became of it."""

    def __init__(self, function: Callable[[], T], late: Callable[[T], object]) -> None:
        self._function = function
        self._late = late
        self._lock = threading.Lock()
        self.done = threading.Event()
        self.result: T | None = None
        self.error: BaseException | None = None
        self._is_given_up = False

    def run(self) -> None:
        try:
            result = self._function()
        except BaseException as error:  # noqa: BLE001 - it is the caller's
            self.error = error
            self.done.set()
            return
        with self._lock:
            self.result = result
            self.done.set()
            if not self._is_given_up:
                return
        self._late(result)

    def give_up(self) -> bool:
        """Stop waiting; False if the call ended just now."""
        with self._lock:
            self._is_given_up = not self.done.is_set()
            return self._is_given_up


_idle: deque[SimpleQueue[_InterruptibleCall[Any]]] = deque()
_places = threading.BoundedSemaphore(UNANSWERED_MAX)


def _forget_in_child() -> None:
    # The threads that wait for work did not follow into a forked child; a call given to one would wait for ever.
    global _places  # noqa: PLW0603 - its lock may be held by a thread that is gone
    _idle.clear()
    _places = threading.BoundedSemaphore(UNANSWERED_MAX)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


def give_up_in_time(
    function: Callable[[], T], *, longest: float, what: str, late: Callable[[T], object] = lambda _: None
) -> T:
    """What `function` returns or raises; raises AbandonedCallError when the time of the current call is over.

    If that is longer than `longest` seconds away, which is when the function ends by itself, it is called as it is.
    `late` is given what came too late. Raises UnavailableError, with nothing begun, if no time is left, or too many
    calls were given up and did not end yet.
    """
    deadline = current()
    if deadline is None or deadline.rest > longest:
        return function()
    deadline.check(what)
    if not _places.acquire(blocking=False):
        raise UnavailableError(
            what, reason=f"{UNANSWERED_MAX} requests before it were not answered yet", fix="retry later"
        )
    call = _InterruptibleCall(function, late)
    try:
        worker = _idle.pop()
    except IndexError:
        worker = SimpleQueue()
        threading.Thread(target=_serve, args=(worker,), name="wormdb-request", daemon=True).start()
    worker.put(call)
    while not call.done.wait(min(deadline.rest, LOOK_SECONDS)):
        if deadline.rest <= 0 and call.give_up():
            raise AbandonedCallError
    if call.error is not None:
        try:
            raise call.error
        finally:
            del call
    return call.result  # type: ignore[return-value]  # it is done, without an error


def _serve(worker: SimpleQueue[_InterruptibleCall[Any]]) -> None:
    while True:
        worker.get().run()
        _places.release()
        if len(_idle) >= POOL_THREADS:
            return
        _idle.append(worker)
