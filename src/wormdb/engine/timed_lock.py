"""A lock for which a call waits no longer than it may take."""

from __future__ import annotations

import _thread
from typing import TYPE_CHECKING, Any

from wormdb.system.deadline import current

if TYPE_CHECKING:
    from typing import Self

__all__ = ["TimedLock"]

LOOK_SECONDS = 1.0
"""How often it is looked whether the deadline of the call was moved."""


MOMENT = 0.001

_RLock: Any = _thread.RLock  # the stubs do not know all that it has


class TimedLock(_RLock):  # type: ignore[misc]  # of a type that the stubs do not know
    """A lock that may be held while a request is on its way.

    An interrupt may come at any line, also between taking it and knowing so. `with` is safe: it is left by the
    interpreter's own function, in which no signal is handled. Whoever calls `attempt` notes the `depth` before, and
    goes back to it whatever happens.
    """

    def __new__(cls, what: str, *, is_reentrant: bool = False) -> Self:
        """Free. `what` it guards, for messages. A reentrant one can be taken several times by the same thread."""
        lock: Self = super().__new__(cls)
        lock._what, lock._is_reentrant = what, is_reentrant
        return lock

    _what: str
    _is_reentrant: bool

    @property
    def depth(self) -> int:
        """How often this thread has taken it."""
        count: int = self._recursion_count()
        return count

    def attempt(self) -> bool:
        """Take it if it is free; whether it was."""
        if self.depth and not self._is_reentrant:
            return False
        taken: bool = self.acquire(blocking=False)
        return taken

    def release_to(self, depth: int) -> None:
        """Give it back until this thread has it so often."""
        while self.depth > depth:
            self.release()

    def __enter__(self) -> Self:
        """Take it. Raises UnavailableError when the time of the call is over."""
        depth = self.depth
        try:
            self._wait()
            return self  # noqa: TRY300 - an interrupt here must give it back
        except BaseException:
            self.release_to(depth)
            raise

    def _wait(self) -> None:
        if self.attempt():
            return
        assert not self.depth, f"{self._what}: a thread waits for itself"
        deadline = current()
        if deadline is None:
            self.acquire()
            return
        while not self.acquire(timeout=max(min(deadline.rest, LOOK_SECONDS), MOMENT)):
            deadline.check(self._what)
