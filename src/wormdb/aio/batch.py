"""The calls of `Batch`, to be awaited.

Written by `make docs` from `wormdb.api.batch`; edit that instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from wormdb.aio.runner import AsyncHandle

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

    from wormdb.engine.ledger import CommitResult

__all__ = ["AsyncBatch"]

T = TypeVar("T")


class AsyncBatch(AsyncHandle[Any], Generic[T]):
    """Collects changes without I/O; `flush` commits them as one log entry.

    Calls are awaited; `wormdb.api.batch.Batch` has their promises.
    """

    def insert(self, document: T | Mapping[str, Any]) -> Self:
        """A new document, whose id must be free. Raises ValidationError now, AlreadyExistsError at the flush."""
        self._inner.insert(document)
        return self

    def save(self, document: T | Mapping[str, Any]) -> Self:
        """A document, new or not; one that was read must be unchanged when the batch is flushed."""
        self._inner.save(document)
        return self

    def update(self, document: T | Mapping[str, Any]) -> Self:
        """A document that exists, replaced in whole; one that was read must be unchanged at the flush."""
        self._inner.update(document)
        return self

    def delete(self, document: Any) -> Self:
        """A document or its id; not an error if it is gone already."""
        self._inner.delete(document)
        return self

    async def flush(self) -> CommitResult:
        """Commit everything. 1 PUT without competing writers; returns the log number and MISC."""
        return cast("CommitResult", await self._runner.call(self._inner.flush))

    def discard(self) -> None:
        """Forget the changes; nothing was written. No requests."""
        self._inner.discard()

    def __len__(self) -> int:
        """As `Batch.__len__`."""
        return cast("int", self._inner.__len__())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.call(self._inner.__exit__, kind, error, trace)
