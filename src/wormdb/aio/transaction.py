"""The calls of `Transaction`, to be awaited.

Written by `make docs` from `wormdb.api.transaction`; edit that instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from wormdb.aio.sessions import OpenedTransaction

if TYPE_CHECKING:
    from wormdb.aio.collection import AsyncCollection
    from wormdb.aio.transaction_collection import AsyncTransactionCollection
    from wormdb.api.document import Document
    from wormdb.api.transaction import TransactionCommit

__all__ = ["AsyncTransaction"]

T = TypeVar("T")
R = TypeVar("R")


class AsyncTransaction(OpenedTransaction):
    """Reads and writes of any collections of one database, at one moment or not at all. A context manager.

    Calls are awaited; `wormdb.api.transaction.Transaction` has their promises.
    """

    @property
    def id(self) -> str:
        """Of the commit; empty before."""
        return cast("str", self._inner.id)

    def __getitem__(self, name: str | AsyncCollection[Any]) -> AsyncTransactionCollection[Document]:
        """A collection without a schema, at folder `name`; or the one of a handle of the same database."""
        from wormdb.aio.transaction_collection import AsyncTransactionCollection

        return AsyncTransactionCollection(self._runner, self._inner.__getitem__(*self._plain([name])))

    @overload
    async def model(self, model: str, /, **outer: Any) -> AsyncTransactionCollection[Document]: ...

    @overload
    async def model(self, model: type[T], /, **outer: Any) -> AsyncTransactionCollection[T]: ...

    async def model(self, model: str | type[T], /, **outer: Any) -> AsyncTransactionCollection[Any]:
        """The collection of a model of the schema, or of a class, as `Database.model`."""
        from wormdb.aio.transaction_collection import AsyncTransactionCollection

        return AsyncTransactionCollection(self._runner, await self._runner.call(self._inner.model, model, **outer))

    @property
    def size(self) -> int:
        """How many bytes it will write, about. No requests."""
        return cast("int", self._inner.size)

    @property
    def numbers(self) -> dict[str, int]:
        """By folder the log number of the state that it reads, of the collections read so far. No requests."""
        return cast("dict[str, int]", self._inner.numbers)

    async def commit(self, *, timeout: float | None = None) -> TransactionCommit:
        """Commit now; nothing can be read or written afterwards. At the end of the block it happens by itself."""
        return cast("TransactionCommit", await self._runner.call(self._inner.commit, timeout=timeout))

    def rollback(self) -> None:
        """Forget everything; nothing was written. No requests; nothing happens after the end."""
        self._inner.rollback()
