"""A store around another: every verb is handed on, and a wrapper overrides what it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from wormdb.storage.lifetime import Lifetime
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
        Source,
        StoredObject,
    )

__all__ = ["WrappedStore"]


class WrappedStore(Store):
    """Hands every verb to `inner`. `get_many` goes through the wrapper's own `get`."""

    def __init__(self, inner: Store) -> None:
        """Closing the wrapper closes `inner`."""
        self._inner = inner
        self._lifetime = Lifetime(inner.name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inner!r})"

    @property
    def inner(self) -> Store:
        """The store inside."""
        return self._inner

    @property
    def name(self) -> str:
        """The name of the store inside: a wrapper is no other place."""
        return self._inner.name

    @property
    def is_served(self) -> bool:
        """As the store inside."""
        return self._inner.is_served

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

    def upload(self, key: str, source: Source, *, content_type: str = OCTETS) -> None:
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
