"""The calls of `SnapshotCollection`, to be awaited.

Written by `make docs` from `wormdb.api.snapshot`; edit that instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from wormdb.aio.find import AsyncQueryMethods
from wormdb.aio.sessions import SessionHandle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from datetime import datetime

    from wormdb.api.options import WrittenFilter

    Names = str | Sequence[str] | None
    Moments = Mapping[str, int] | datetime | str | None
    from wormdb.aio.query import AsyncQuery

__all__ = ["AsyncSnapshotCollection"]

T = TypeVar("T")


class AsyncSnapshotCollection(SessionHandle, AsyncQueryMethods[T]):
    """One collection of a snapshot. Its calls are those of `Collection` that read, without a choice of the state.

    Calls are awaited; `wormdb.api.snapshot.SnapshotCollection` has their promises.
    """

    async def find_by_id(self, identity: Any, *, raw: bool = False, timeout: float | None = None) -> Any:  # type: ignore[override] # as there
        """The document with this id, or None, as `Collection.find_by_id`."""
        return cast("Any", await self._runner.call(self._inner.find_by_id, identity, raw=raw, timeout=timeout))

    async def exists(self, identity: Any, *, timeout: float | None = None) -> bool:  # type: ignore[override] # as there
        """Whether there is a document with this id."""
        return cast("bool", await self._runner.call(self._inner.exists, identity, timeout=timeout))

    def __aiter__(self) -> AsyncIterator[T]:
        """Every document, in order of id."""
        return self._runner.stream(lambda: iter(self._inner))

    async def count(self, filter: WrittenFilter = None, *, timeout: float | None = None) -> int:  # type: ignore[override] # as there
        """How many documents there are, or match."""
        return cast("int", await self._runner.call(self._inner.count, filter, timeout=timeout))

    async def distinct(self, field: str, filter: WrittenFilter = None, *, timeout: float | None = None) -> list[Any]:  # type: ignore[override] # as there
        """The different values of a field, in order."""
        return cast("list[Any]", await self._runner.call(self._inner.distinct, field, filter, timeout=timeout))

    async def aggregate(
        self, pipeline: None = None, /, *, filter: WrittenFilter = None, **functions: Any
    ) -> dict[str, Any]:
        """Functions over documents, as `Collection.aggregate`."""
        return cast(
            "dict[str, Any]", await self._runner.call(self._inner.aggregate, pipeline, filter=filter, **functions)
        )

    def query(self) -> AsyncQuery[T]:
        """A query to be built step by step."""
        from wormdb.aio.query import AsyncQuery

        return AsyncQuery(self._runner, self._inner.query())
