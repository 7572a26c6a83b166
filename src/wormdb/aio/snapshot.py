"""The calls of `DatabaseSnapshot`, to be awaited.

Written by `make docs` from `wormdb.api.snapshot`; edit that instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from wormdb.aio.sessions import OpenedSnapshot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from wormdb.api.document import Document

    Names = str | Sequence[str] | None
    Moments = Mapping[str, int] | datetime | str | None
    from wormdb.aio.snapshot_collection import AsyncSnapshotCollection

__all__ = ["AsyncDatabaseSnapshot"]

T = TypeVar("T")


class AsyncDatabaseSnapshot(OpenedSnapshot):
    """One moment of several collections, for reading. A context manager, for one thread at a time.

    Calls are awaited; `wormdb.api.snapshot.DatabaseSnapshot` has their promises.
    """

    @property
    def numbers(self) -> dict[str, int]:
        """By folder the log number of each collection: for `as_of` of another snapshot, of jobs and of Spark."""
        return cast("dict[str, int]", self._taken.numbers)

    def __getitem__(self, name: str) -> AsyncSnapshotCollection[Document]:
        """A collection at folder `name`."""
        from wormdb.aio.snapshot_collection import AsyncSnapshotCollection

        return AsyncSnapshotCollection(self._runner, self._taken.__getitem__(name))

    @overload
    async def model(self, model: str, /, **outer: Any) -> AsyncSnapshotCollection[Document]: ...

    @overload
    async def model(self, model: type[T], /, **outer: Any) -> AsyncSnapshotCollection[T]: ...

    async def model(self, model: str | type[T], /, **outer: Any) -> AsyncSnapshotCollection[Any]:
        """The collection of a model of the schema, or of a class."""
        from wormdb.aio.snapshot_collection import AsyncSnapshotCollection

        return AsyncSnapshotCollection(self._runner, await self._runner.call(self._taken.model, model, **outer))

    def close(self) -> None:
        """Give up what it holds in memory. May be called twice. No requests."""
        self._taken.close()
