"""Whether a store may still be used: not after close, and not in a forked child."""

from __future__ import annotations

import os

from wormdb.errors import ClosedError

__all__ = ["CloudLifetime", "Lifetime"]

_CLOUDS = ("s3://", "gs://", "az://")
_REMEDY = "open it again in the child, or start processes with the spawn method"
_CLOUD_REMEDY = "start processes with the spawn method, or use no cloud store before the fork"

_runtime_process: int | None = None
"""The process in which a cloud client was first used."""


class Lifetime:
    """Begins when a store is opened; every verb calls `check` first, before it takes any lock.

    A forked child has the parent's locks and sockets but not its threads, so a verb could
    wait for ever on a lock that nobody will release. The process id tells, at no cost.
    """

    def __init__(self, name: str) -> None:
        """`name` is the store's name."""
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
                fix=_CLOUD_REMEDY if self._name.startswith(_CLOUDS) else _REMEDY,
            )

    @property
    def is_open(self) -> bool:
        """Whether `check` would return."""
        return not self._closed and os.getpid() == self._process

    def close(self) -> bool:
        """End it; True the first time in the process that opened it: then connections are to be given back."""
        first = self.is_open
        self._closed = True
        return first


class CloudLifetime(Lifetime):
    """Of a store whose client library keeps threads for the whole process.

    They are started by the first request and do not follow into a forked child, where a new client would use them
    all the same: it hangs, and the events that it asks the kernel for reach the parent and can crash it.
    """

    def check(self) -> None:
        """As above; ClosedError also if a cloud store was used before the fork that made this process."""
        global _runtime_process  # noqa: PLW0603 - the library's threads are the process's too
        super().check()
        if _runtime_process is None:
            _runtime_process = self._process
        elif _runtime_process != self._process:
            raise ClosedError(
                f"store {self._name}",
                reason="a cloud store was used before the fork, and the client library's threads did not follow",
                fix=_CLOUD_REMEDY,
            )
