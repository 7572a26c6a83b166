"""A lock for which a call waits no longer than it may take."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from wormdb.deadline import current

if TYPE_CHECKING:
    from typing import Self

__all__ = ["TimedLock"]

LOOK_SECONDS = 1.0
"""How often it is looked whether the deadline of the call was moved."""


MOMENT = 0.001


class TimedLock:
    """A lock that may be held while a request is on its way."""

    def __init__(self, what: str, *, is_reentrant: bool = False) -> None:
        """Free. `what` it guards, for messages. A reentrant one can be taken several times by the same thread."""
        self._what = what
        self._lock = threading.RLock() if is_reentrant else threading.Lock()

    def acquire(self, *, blocking: bool = True) -> bool:
        """Take it; without `blocking` say whether it was free. Raises UnavailableError when the call's time is over."""
        if self._lock.acquire(blocking=False):
            return True
        if not blocking:
            return False
        deadline = current()
        if deadline is None:
            return self._lock.acquire()
        while not self._lock.acquire(timeout=max(min(deadline.rest, LOOK_SECONDS), MOMENT)):
            deadline.check(self._what)
        return True

    def release(self) -> None:
        """Give it back."""
        self._lock.release()

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()
