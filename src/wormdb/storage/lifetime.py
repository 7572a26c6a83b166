"""Whether a store may still be used: not after close, and not in a forked child."""

from __future__ import annotations

import os

from wormdb.errors import ClosedError

__all__ = ["Lifetime"]


class Lifetime:
    """Begins when a store is opened; every verb calls `check` first, before it takes any lock.

    A forked child has the parent's locks and sockets but not its threads, so a verb could
    wait for ever on a lock that nobody will release. The process id tells, at no cost.
    """

    def __init__(self, name: str) -> None:
        """`name` is the store's name for messages."""
        self._name = name
        self._process = os.getpid()
        self._closed = False

    def check(self) -> None:
        """Return if the store is open in this process, else raise ClosedError. No requests."""
        if self._closed:
            raise ClosedError(f"store {self._name}", reason="it was closed")
        if os.getpid() != self._process:
            raise ClosedError(
                f"store {self._name}",
                reason="it was opened before a fork, and its threads and connections did not follow",
                fix="open the store again in the child, or start processes with the spawn method",
            )

    def close(self) -> bool:
        """End it; True the first time in the process that opened it: then connections are to be given back."""
        first = not self._closed and os.getpid() == self._process
        self._closed = True
        return first
