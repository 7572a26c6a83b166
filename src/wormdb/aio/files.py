"""The calls of `ReadableFiles`, to be awaited.

Written by `make docs` from `wormdb.api.files`; edit that instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from wormdb.aio.runner import AsyncHandle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from wormdb.files.migrate import LayoutMigration
    from wormdb.files.status import FilesStatus
    from wormdb.files.sync import FilesSyncResult
    from wormdb.schema.model import Layout

__all__ = ["AsyncReadableFiles"]

T = TypeVar("T")


class AsyncReadableFiles(AsyncHandle[Any]):
    """What `Database.files` gives. `names` are those of models or folders; without any, all models are meant.

    Calls are awaited; `wormdb.api.files.ReadableFiles` has their promises.
    """

    async def status(self, names: Iterable[str] | None = None, *, counted: bool = False) -> list[FilesStatus]:
        """How far the files of collections are, in order of their folders."""
        return cast("list[FilesStatus]", await self._runner.call(self._inner.status, names, counted=counted))

    async def sync(self, name: str, told: Callable[[int], None] | None = None) -> FilesSyncResult:
        """Reconcile every file of a collection with its state, whatever became of it; returns what was done."""
        return cast("FilesSyncResult", await self._runner.call(self._inner.sync, name, told))

    async def on(self, name: str, told: Callable[[int], None] | None = None) -> FilesSyncResult:
        """Keep readable files from now on, and write all of them. 1 PUT for the log, and what `sync` costs."""
        return cast("FilesSyncResult", await self._runner.call(self._inner.on, name, told))

    async def off(self, name: str, told: Callable[[int], None] | None = None) -> int:
        """Keep no readable files any more, and remove those that are there; returns how many. Documents stay."""
        return cast("int", await self._runner.call(self._inner.off, name, told))

    async def migrate(
        self,
        name: str,
        *,
        wanted: Mapping[str, Layout],
        dry_run: bool = False,
        told: Callable[[int], None] | None = None,
    ) -> LayoutMigration:
        """Move some of `oplog`, `snapshots` and `trash` of a collection to other places; returns from where to where."""
        return cast(
            "LayoutMigration",
            await self._runner.call(self._inner.migrate, name, wanted=wanted, dry_run=dry_run, told=told),
        )
