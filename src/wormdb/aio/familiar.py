"""The calls of `FamiliarMethods`, to be awaited.

Written by `make docs` from `wormdb.api.familiar`; edit that instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from wormdb.aio.runner import AsyncHandle

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wormdb.api.bulk_write import BulkWriteResult
    from wormdb.api.familiar import InsertOneResult
    from wormdb.api.options import WrittenFilter

__all__ = ["AsyncFamiliarMethods"]

T = TypeVar("T")


class AsyncFamiliarMethods(AsyncHandle[Any], Generic[T]):
    """Queries, and names of pymongo for what has another name here.

    Calls are awaited; `wormdb.api.familiar.FamiliarMethods` has their promises.
    """

    async def insert_one(
        self,
        document: T | Mapping[str, Any],
        *,
        actor: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> InsertOneResult:
        """As `insert`, which returns the document: the id alone. The mapping itself is not changed."""
        return cast(
            "InsertOneResult",
            await self._runner.call(self._inner.insert_one, document, actor=actor, metadata=metadata, timeout=timeout),
        )

    async def bulk_write(
        self, requests: Iterable[Any], *, actor: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> BulkWriteResult:
        """Carry out requests of pymongo (`InsertOne`, `UpdateOne`, …) in order, all of them or none."""
        return cast(
            "BulkWriteResult", await self._runner.call(self._inner.bulk_write, requests, actor=actor, metadata=metadata)
        )

    async def count_documents(self, filter: WrittenFilter, *, timeout: float | None = None) -> int:
        """As `count`, with a filter that must be given: {} for all documents."""
        return cast("int", await self._runner.call(self._inner.count_documents, filter, timeout=timeout))

    async def estimated_document_count(self, *, timeout: float | None = None) -> int:
        """How many documents there were within the last minute. No requests in a process that knows a state so new."""
        return cast("int", await self._runner.call(self._inner.estimated_document_count, timeout=timeout))
