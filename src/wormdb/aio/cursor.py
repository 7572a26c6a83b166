"""The calls of `Cursor`, to be awaited.

Written by `make docs` from `wormdb.api.cursor`; edit that instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from wormdb.aio.runner import AsyncHandle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType
    from typing import Self

__all__ = ["AsyncCursor"]

T = TypeVar("T")


class AsyncCursor(AsyncHandle[Any], Generic[T]):
    """The rows of one state that does not move, batch by batch. A context manager; for one thread at a time.

    Calls are awaited; `wormdb.api.cursor.Cursor` has their promises.
    """

    @property
    def batch_size(self) -> int:
        """How many rows a batch has, but for the last."""
        return cast("int", self._inner.batch_size)

    async def next_batch(self) -> list[T]:
        """The next rows, as many as the batch size; fewer at the end, and none exactly when there are no more."""
        return cast("list[T]", await self._runner.call(self._inner.next_batch))

    @property
    def token(self) -> str:
        """Where it stands, for `Collection.resume`: behind the last batch. Raises ClosedError. No requests."""
        return cast("str", self._inner.token)

    def __aiter__(self) -> AsyncIterator[T]:
        """The rows that are left, one by one."""
        return self._runner.stream(lambda: iter(self._inner))

    def close(self) -> None:
        """Give up what it holds in memory. May be called twice; its tokens can still be resumed. No requests."""
        self._inner.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.call(self._inner.__exit__, kind, error, trace)
