"""The calls of `Collection`, to be awaited.

Written by `make docs` from `wormdb.api.collection`; edit that instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from wormdb.aio.blob_methods import AsyncBlobMethods
from wormdb.aio.familiar import AsyncFamiliarMethods
from wormdb.aio.find import AsyncQueryMethods
from wormdb.aio.index_methods import AsyncIndexMethods
from wormdb.aio.modify import AsyncModifyMethods
from wormdb.aio.notebook import AsyncNotebookMethods

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
    from datetime import datetime, timedelta
    from typing import Unpack

    import polars as pl
    import pyarrow as pa

    from wormdb.api.erase import EraseResult
    from wormdb.api.familiar import InsertManyResult
    from wormdb.api.history import HistoryEntry
    from wormdb.api.imports.records import ImportOptions, ImportResult, Rejection
    from wormdb.api.records import Record
    from wormdb.api.status import ManifestStatus, ParquetFiles
    from wormdb.api.trash import TrashedDocument
    from wormdb.engine.commit.resolve import Fate
    from wormdb.engine.history.snapshots import Snapshot
    from wormdb.errors import OutcomeUnknownError
    from wormdb.maintenance.gc.report import GcResult

    Metadata = Mapping[str, Any] | None
    Moment = int | datetime | str | None
    from wormdb.aio.batch import AsyncBatch
    from wormdb.aio.functions import AsyncFunctionRegistry
    from wormdb.aio.runner import AsyncChangeStream

__all__ = ["AsyncCollection"]

T = TypeVar("T")


class AsyncCollection(
    AsyncQueryMethods[T],
    AsyncFamiliarMethods[T],
    AsyncNotebookMethods[T],
    AsyncModifyMethods[T],
    AsyncIndexMethods[T],
    AsyncBlobMethods[T],
):
    """One collection. Reads return documents of type `T`: `Document`, or the class the model was made from.

    Calls are awaited; `wormdb.api.collection.Collection` has their promises.
    """

    @property
    def name(self) -> str:
        """The model's name, or the collection's folder."""
        return cast("str", self._inner.name)

    @property
    def mode(self) -> str:
        """Which changes are allowed: readonly, readwrite or append."""
        return cast("str", self._inner.mode)

    @property
    def prefix(self) -> str:
        """The folder of the collection in the bucket."""
        return cast("str", self._inner.prefix)

    @overload
    def scan(self, start: Any = None, stop: Any = None, *, as_of: Moment = None) -> AsyncIterator[T]: ...

    @overload
    def scan(
        self, start: Any = None, stop: Any = None, *, columns: Sequence[str], as_of: Moment = None
    ) -> AsyncIterator[dict[str, Any]]: ...

    def scan(
        self, start: Any = None, stop: Any = None, *, columns: Sequence[str] | None = None, as_of: Moment = None
    ) -> AsyncIterator[T] | AsyncIterator[dict[str, Any]]:
        """Documents of one state in order of id, from `start` up to but not including `stop`; all without them."""
        return self._runner.stream(lambda: self._inner.scan(start, stop, columns=columns, as_of=as_of))

    async def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        *,
        start: Any = None,
        stop: Any = None,
        as_of: Moment = None,
        timeout: float | None = None,
    ) -> pa.Table:
        """Columns of all documents of one state as one table in memory, in order of id."""
        return cast(
            "pa.Table",
            await self._runner.call(
                self._inner.to_arrow, columns, start=start, stop=stop, as_of=as_of, timeout=timeout
            ),
        )

    async def to_pandas(
        self, columns: Sequence[str] | None = None, *, start: Any = None, stop: Any = None, as_of: Moment = None
    ) -> Any:
        """What `to_arrow` gives, as a data frame of pandas. Raises MissingExtraError if pandas is not installed."""
        return cast("Any", await self._runner.call(self._inner.to_pandas, columns, start=start, stop=stop, as_of=as_of))

    async def to_polars(
        self, columns: Sequence[str] | None = None, *, start: Any = None, stop: Any = None, as_of: Moment = None
    ) -> pl.DataFrame:
        """What `to_arrow` gives, as a data frame of Polars. Raises MissingExtraError if it is not installed."""
        return cast(
            "pl.DataFrame", await self._runner.call(self._inner.to_polars, columns, start=start, stop=stop, as_of=as_of)
        )

    def __aiter__(self) -> AsyncIterator[T]:
        """Every document of one state, in order of id; writes meanwhile are not seen."""
        return self._runner.stream(lambda: iter(self._inner))

    def create(self, data: T | Mapping[str, Any] | None = None, /, **values: Any) -> T:
        """A new document, not saved: defaults applied, id made, validated. No requests; raises ValidationError."""
        return cast("T", self._inner.create(data, **values))

    async def insert(
        self,
        document: T | Mapping[str, Any],
        *,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> T:
        """Save a new document, whose id must be free. 1 PUT without competing writers."""
        return cast(
            "T", await self._runner.call(self._inner.insert, document, actor=actor, metadata=metadata, timeout=timeout)
        )

    async def insert_many(
        self,
        documents: Iterable[T | Mapping[str, Any]],
        *,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> InsertManyResult:
        """Insert documents, all or none; returns their ids. 1 PUT without competing writers."""
        return cast(
            "InsertManyResult",
            await self._runner.call(
                self._inner.insert_many, documents, actor=actor, metadata=metadata, timeout=timeout
            ),
        )

    async def save(
        self,
        document: T | Mapping[str, Any],
        *,
        if_rev: int | None = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> T:
        """Save a document, new or not. 1 PUT without competing writers; if nothing changed, `find_by_id` instead of it."""
        return cast(
            "T",
            await self._runner.call(
                self._inner.save, document, if_rev=if_rev, actor=actor, metadata=metadata, timeout=timeout
            ),
        )

    async def delete(
        self,
        document: Any,
        *,
        if_rev: int | None = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> bool:
        """Remove a document, given itself or its id; returns whether it was there. 1 PUT without competing writers."""
        return cast(
            "bool",
            await self._runner.call(
                self._inner.delete, document, if_rev=if_rev, actor=actor, metadata=metadata, timeout=timeout
            ),
        )

    async def modify(
        self,
        identity: Any,
        change: Callable[[T], T | Mapping[str, Any] | None],
        *,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> T:
        """Load, change and save a document; again from the start if another writer was faster."""
        return cast(
            "T",
            await self._runner.call(
                self._inner.modify, identity, change, actor=actor, metadata=metadata, timeout=timeout
            ),
        )

    async def expire(
        self, field: str | None, after: str | timedelta | None = None, *, timeout: float | None = None
    ) -> int:
        """Have documents end by themselves: at the date in `field`, or `after` it, such as '7d'. The log number; 1 PUT."""
        return cast("int", await self._runner.call(self._inner.expire, field, after, timeout=timeout))

    async def retain(
        self, *, keep: str | timedelta | None = None, versions: int | None = None, timeout: float | None = None
    ) -> int:
        """Keep no more of history: for how long ('30d') a version stays after another followed it, how many, or both."""
        return cast("int", await self._runner.call(self._inner.retain, keep=keep, versions=versions, timeout=timeout))

    async def get_retention(self, *, timeout: float | None = None) -> dict[str, Any]:
        """How much of history is kept, by the model or by `retain`: `keep`, `versions`; empty if all is. As a read."""
        return cast("dict[str, Any]", await self._runner.call(self._inner.get_retention, timeout=timeout))

    def batch(self, *, actor: str | None = None, metadata: Metadata = None) -> AsyncBatch[T]:
        """Several changes that happen together or not at all. No requests until it is flushed."""
        from wormdb.aio.batch import AsyncBatch

        return AsyncBatch(self._runner, self._inner.batch(actor=actor, metadata=metadata))

    async def import_records(
        self,
        records: Iterable[Record | Mapping[str, Any]],
        *,
        rejected: Callable[[Rejection], None] | None = None,
        actor: str | None = None,
        metadata: Metadata = None,
        **options: Unpack[ImportOptions],
    ) -> ImportResult:
        """Save records of any number by one entry of the log, or none; `rejected` is given each that does not fit."""
        return cast(
            "ImportResult",
            await self._runner.call(
                self._inner.import_records, records, rejected=rejected, actor=actor, metadata=metadata, **options
            ),
        )

    @property
    def functions(self) -> AsyncFunctionRegistry:
        """Named filters that every process knows: `{'$fn': name}` in a filter stands for one. No requests."""
        from wormdb.aio.functions import AsyncFunctionRegistry

        return AsyncFunctionRegistry(self._runner, self._inner.functions)

    async def get_manifest_status(self) -> ManifestStatus:
        """The manifest file as it is now: fresh, behind, lost or edited; and what the columns of blocks can answer."""
        return cast("ManifestStatus", await self._runner.call(self._inner.get_manifest_status))

    async def build_manifest(self) -> ManifestStatus:
        """Bring the log into blocks with a column for each field of the manifest, and write the manifest file."""
        return cast("ManifestStatus", await self._runner.call(self._inner.build_manifest))

    def invalidate_manifest(self) -> None:
        """Forget what this process knows of the collection: the next read begins with the newest root. No requests."""
        self._inner.invalidate_manifest()

    async def parquet_files(self) -> ParquetFiles:
        """The blocks of the present state, for whatever reads Parquet, and how far they are behind the log."""
        return cast("ParquetFiles", await self._runner.call(self._inner.parquet_files))

    async def get_history(self, identity: Any, *, timeout: float | None = None) -> list[HistoryEntry]:
        """Every change of a document, oldest first, also of one that is gone; none if there never was one."""
        return cast("list[HistoryEntry]", await self._runner.call(self._inner.get_history, identity, timeout=timeout))

    async def diff(self, identity: Any, a: int, b: int) -> dict[str, tuple[Any, Any]]:
        """The fields in which changes `a` and `b` left a document different, each with both values."""
        return cast("dict[str, tuple[Any, Any]]", await self._runner.call(self._inner.diff, identity, a, b))

    async def rollback(
        self,
        identity: Any,
        *,
        to_seq: int,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> T:
        """Bring a document back to what its change `to_seq` left, also if it is deleted now. That is one more change."""
        return cast(
            "T",
            await self._runner.call(
                self._inner.rollback, identity, to_seq=to_seq, actor=actor, metadata=metadata, timeout=timeout
            ),
        )

    async def snapshot(self, identity: Any, *, actor: str | None = None, metadata: Metadata = None) -> Snapshot:
        """Keep a document as it is now as a snapshot. 1 PUT, after what `get_history` costs; none if it is one already."""
        return cast("Snapshot", await self._runner.call(self._inner.snapshot, identity, actor=actor, metadata=metadata))

    async def list_snapshots(self, identity: Any) -> list[Snapshot]:
        """The snapshots of a document, oldest first: those within `maxAge` and `maxCount`, and always the newest."""
        return cast("list[Snapshot]", await self._runner.call(self._inner.list_snapshots, identity))

    async def restore_snapshot(
        self, identity: Any, ts: datetime | str, *, actor: str | None = None, metadata: Metadata = None
    ) -> T:
        """Bring a document back as the snapshot of that time has it. Otherwise as `rollback`."""
        return cast(
            "T", await self._runner.call(self._inner.restore_snapshot, identity, ts, actor=actor, metadata=metadata)
        )

    async def erase(
        self, identity: Any, *, missing_ok: bool = False, actor: str | None = None, metadata: Metadata = None
    ) -> EraseResult:
        """Leave nothing of a document: its versions, snapshots, trash, blobs of its own and readable files go."""
        return cast(
            "EraseResult",
            await self._runner.call(self._inner.erase, identity, missing_ok=missing_ok, actor=actor, metadata=metadata),
        )

    async def list_trashed(self) -> list[TrashedDocument[T]]:
        """What lies in the trash, in order of id. 1 GET for each block that holds some of it, and their pages."""
        return cast("list[TrashedDocument[T]]", await self._runner.call(self._inner.list_trashed))

    async def restore(self, identity: Any, *, actor: str | None = None, metadata: Metadata = None) -> T:
        """Bring a document back from the trash, as it was. 1 PUT without competing writers."""
        return cast("T", await self._runner.call(self._inner.restore, identity, actor=actor, metadata=metadata))

    async def purge(self, identity: Any, *, actor: str | None = None, metadata: Metadata = None) -> None:
        """Take a document out of the trash for good. 1 PUT without competing writers; raises NotFoundError."""
        await self._runner.call(self._inner.purge, identity, actor=actor, metadata=metadata)

    async def purge_expired(self, *, actor: str | None = None, metadata: Metadata = None) -> list[Any]:
        """Purge what is in the trash for longer than the model's ttl; returns the ids. 1 PUT after `list_trashed`."""
        return cast("list[Any]", await self._runner.call(self._inner.purge_expired, actor=actor, metadata=metadata))

    async def empty_trash(self, *, actor: str | None = None, metadata: Metadata = None) -> list[Any]:
        """Purge everything in the trash; returns the ids. 1 PUT for each 10,000 after `list_trashed`."""
        return cast("list[Any]", await self._runner.call(self._inner.empty_trash, actor=actor, metadata=metadata))

    def watch(
        self,
        after: int | str = 0,
        *,
        resume_after: int | str | None = None,
        follow: bool = False,
        poll_seconds: float = 1.0,
    ) -> AsyncChangeStream:
        """Changes after a log number, a change's `resume` or 'now', oldest first; with `follow` for ever."""
        return self._runner.watch(
            self._inner, after, resume_after=resume_after, follow=follow, poll_seconds=poll_seconds
        )

    async def resolve(
        self, commit_id: str | OutcomeUnknownError, *, settle: bool = False, timeout: float | None = None
    ) -> Fate:
        """What became of a commit whose outcome was unknown: committed, not committed, or unknown."""
        return cast("Fate", await self._runner.call(self._inner.resolve, commit_id, settle=settle, timeout=timeout))

    async def forward(self, *, timeout: float | None = None) -> int:
        """Bring the log so far into blocks, indexes and history; returns the last log number that is in them."""
        return cast("int", await self._runner.call(self._inner.forward, timeout=timeout))

    async def gc(self, *, dry_run: bool = False, timeout: float | None = None) -> GcResult:
        """Remove what no process needs any more, as `Database.gc` does; with `dry_run` only say what that is."""
        return cast("GcResult", await self._runner.call(self._inner.gc, dry_run=dry_run, timeout=timeout))
