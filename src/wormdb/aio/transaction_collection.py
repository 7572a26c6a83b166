"""The calls of `TransactionCollection`, to be awaited.

Written by `make docs` from `wormdb.api.transaction`; edit that instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from wormdb.aio.blob_methods import AsyncBlobMethods
from wormdb.aio.familiar import AsyncFamiliarMethods
from wormdb.aio.find import AsyncQueryMethods
from wormdb.aio.modify import AsyncModifyMethods
from wormdb.aio.sessions import SessionHandle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping

    from wormdb.aio.batch import AsyncBatch
    from wormdb.api.familiar import InsertManyResult

__all__ = ["AsyncTransactionCollection"]

T = TypeVar("T")
R = TypeVar("R")


class AsyncTransactionCollection(
    SessionHandle, AsyncQueryMethods[T], AsyncFamiliarMethods[T], AsyncModifyMethods[T], AsyncBlobMethods[T]
):
    """One collection in a transaction. Its calls are those of `Collection`; they see what the transaction wrote.

    Calls are awaited; `wormdb.api.transaction.TransactionCollection` has their promises.
    """

    def scan(self, start: Any = None, stop: Any = None) -> AsyncIterator[T]:
        """Documents in order of id, as `Collection.scan`; all documents of the collection count as read."""
        return self._runner.stream(lambda: self._inner.scan(start, stop))

    def __aiter__(self) -> AsyncIterator[T]:
        """Every document, in order of id."""
        return self._runner.stream(lambda: iter(self._inner))

    def create(self, data: T | Mapping[str, Any] | None = None, /, **values: Any) -> T:
        """A new document, not saved, as `Collection.create`."""
        return cast("T", self._inner.create(data, **values))

    async def insert(self, document: T | Mapping[str, Any]) -> T:
        """Save a new document, whose id must be free, when the transaction commits; as `Collection.insert`."""
        return cast("T", await self._runner.call(self._inner.insert, document))

    async def insert_many(self, documents: Iterable[T | Mapping[str, Any]]) -> InsertManyResult:
        """Insert documents when the transaction commits; returns their ids."""
        return cast("InsertManyResult", await self._runner.call(self._inner.insert_many, documents))

    async def save(self, document: T | Mapping[str, Any], *, if_rev: int | None = None) -> T:
        """Save a document, new or not, when the transaction commits; as `Collection.save`."""
        return cast("T", await self._runner.call(self._inner.save, document, if_rev=if_rev))

    async def delete(self, document: Any, *, if_rev: int | None = None) -> bool:
        """Remove a document, given itself or its id, when the transaction commits; whether it is there."""
        return cast("bool", await self._runner.call(self._inner.delete, document, if_rev=if_rev))

    async def modify(self, identity: Any, change: Callable[[T], T | Mapping[str, Any] | None]) -> T:
        """Load, change and save a document when the transaction commits; as `Collection.modify`."""
        return cast("T", await self._runner.call(self._inner.modify, identity, change))

    def batch(self) -> AsyncBatch[T]:
        """Several changes that are checked together when it is flushed."""
        from wormdb.aio.batch import AsyncBatch

        return AsyncBatch(self._runner, self._inner.batch())
