"""A store that lets a rival act before one of the requests: for schedules at every request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wormdb.storage.store import OCTETS, WrappedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wormdb.storage.store import ListPage, Precondition, PutResult, Store

__all__ = ["Before"]


class Before(WrappedStore):
    """Calls something before the request of a number."""

    def __init__(self, inner: Store, number: int, act: Callable[[], object]) -> None:
        super().__init__(inner)
        self.requests = 0
        self._number = number
        self._act = act

    @property
    def has_acted(self) -> bool:
        return self.requests >= self._number

    def _count(self) -> None:
        self.requests += 1
        if self.requests == self._number:
            self._act()

    def get(self, key: str) -> Any:
        self._count()
        return super().get(key)

    def probe(self, key: str) -> Any:
        self._count()
        return super().probe(key)

    def list(self, prefix: str = "", *, after: str | None = None, delimiter: Any = None) -> Iterator[ListPage]:
        self._count()
        return super().list(prefix, after=after, delimiter=delimiter)

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        self._count()
        return super().put(key, body, precondition, content_type=content_type)

    def delete(self, key: str) -> None:
        self._count()
        super().delete(key)

    def delete_many(self, keys: Sequence[str]) -> None:
        self._count()
        super().delete_many(keys)
