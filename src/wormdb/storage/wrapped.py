"""A store around another: every verb is handed on, and a wrapper overrides what it changes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from wormdb.errors import ClosedError
from wormdb.storage.store import OCTETS, Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.storage.store import (
        ByteRange,
        ListPage,
        ObjectInfo,
        Precondition,
        Probe,
        PutResult,
        StoredObject,
        UploadSource,
    )

__all__ = ["CloudLifetime", "Lifetime", "WrappedStore"]


# --- Whether a store may still be used: not after close, and not in a forked child.

_REMEDY = "open it again in the child, or start processes with the spawn method"
_CLOUD_REMEDY = (
    "connect in the child (gunicorn: post_fork), start processes with spawn, or use no cloud store before the fork"
)
_REMEDIES = {
    "memory:": "use a folder or a bucket: a memory is one process's own, and start processes with the spawn method",
    **dict.fromkeys(("s3://", "gs://", "az://"), _CLOUD_REMEDY),
}

_runtime_process: int | None = None
"""The process in which a cloud client was first used."""


class Lifetime:
    """Begins when a store is opened; every verb calls `check` first, before it takes any lock.

    A forked child has the parent's locks and sockets but not its threads, so a verb could
    wait for ever on a lock that is never released. The process id tells, at no cost.
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
                fix=next((fix for begin, fix in _REMEDIES.items() if self._name.startswith(begin)), _REMEDY),
            )

    @property
    def is_forked(self) -> bool:
        """Whether it was open in the process of which this one is a forked child."""
        return not self._closed and os.getpid() != self._process

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
    all the same: it hangs, and the events that it asks the kernel for reach the parent and can crash it. Requests
    that are signed here do without the library.
    """

    @property
    def has_library(self) -> bool:
        """Whether the client library can be used in this process."""
        return _runtime_process is None or _runtime_process == self._process

    def check_library(self) -> None:
        """Before each use of the library: raise ClosedError if it was used before the fork that made this process."""
        global _runtime_process  # noqa: PLW0603 - the library's threads are the process's too
        if not self.has_library:
            raise ClosedError(
                f"store {self._name}",
                reason="a cloud store was used before the fork, and the client library's threads did not follow",
                fix=_CLOUD_REMEDY,
            )
        _runtime_process = self._process


class WrappedStore(Store):
    """Hands every verb to `inner`. `get_many` goes through the wrapper's own `get`."""

    def __init__(self, inner: Store) -> None:
        """Closing the wrapper closes `inner`."""
        self._inner = inner
        self._is_served = inner.is_served
        self._lifetime = Lifetime(inner.name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inner!r})"

    @property
    def inner(self) -> Store:
        """The store inside."""
        return self._inner

    @property
    def name(self) -> str:
        """The name of the store inside: a wrapper is not a place of its own."""
        return self._inner.name

    @property
    def is_served(self) -> bool:
        """As the store inside."""
        return self._is_served

    def get(self, key: str) -> StoredObject:
        """As the store inside."""
        return self._inner.get(key)

    def get_range(self, key: str, span: ByteRange) -> bytes:
        """As the store inside."""
        return self._inner.get_range(key, span)

    def get_ranges(self, key: str, spans: Sequence[ByteRange]) -> tuple[bytes, ...]:
        """As the store inside."""
        return self._inner.get_ranges(key, spans)

    def probe(self, key: str) -> Probe:
        """As the store inside."""
        return self._inner.probe(key)

    def head(self, key: str) -> ObjectInfo:
        """As the store inside."""
        return self._inner.head(key)

    def list(
        self, prefix: str = "", *, after: str | None = None, delimiter: Literal["/"] | None = None
    ) -> Iterator[ListPage]:
        """As the store inside."""
        return self._inner.list(prefix, after=after, delimiter=delimiter)

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        """As the store inside."""
        return self._inner.put(key, body, precondition, content_type=content_type)

    def upload(self, key: str, source: UploadSource, *, content_type: str = OCTETS) -> None:
        """As the store inside."""
        self._inner.upload(key, source, content_type=content_type)

    def delete(self, key: str) -> None:
        """As the store inside."""
        self._inner.delete(key)

    def delete_many(self, keys: Sequence[str]) -> None:
        """As the store inside."""
        self._inner.delete_many(keys)

    def close(self) -> None:
        """End the wrapper and the store inside."""
        self._lifetime.close()
        self._inner.close()
