"""A collection as users hold it: documents in, documents out.

Thin on purpose: what is true is decided by `wormdb.engine`, what fits a model by `wormdb.schema`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from wormdb.api.batch import Batch
from wormdb.api.blob_methods import BlobMethods
from wormdb.api.calls import commits, reads, works
from wormdb.api.familiar import InsertManyResult
from wormdb.api.fork import follow_forks
from wormdb.api.index_methods import IndexMethods
from wormdb.api.modify import ModifyMethods
from wormdb.api.notebook import NotebookMethods
from wormdb.api.pymongo_names import explained
from wormdb.errors import InvalidRequestError, OutcomeUnknownError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta
    from typing import Unpack

    import polars as pl
    import pyarrow as pa

    from wormdb.api.access import Access
    from wormdb.api.arrow import TableReader
    from wormdb.api.calls import Author, CallKind
    from wormdb.api.erase import EraseResult
    from wormdb.api.feed import ChangeStream
    from wormdb.api.functions import FunctionRegistry
    from wormdb.api.history import HistoryEntry
    from wormdb.api.imports.records import ImportOptions, ImportResult, Rejection
    from wormdb.api.records import Record
    from wormdb.api.status import CollectionManifest, ManifestStatus, ParquetFiles
    from wormdb.api.trash import Trashcan, TrashedDocument
    from wormdb.api.write import PreparedOperation
    from wormdb.engine.commit.resolve import Fate
    from wormdb.engine.history.snapshots import Snapshot
    from wormdb.engine.ledger import CommitResult
    from wormdb.maintenance.gc.report import GcResult
    from wormdb.system.deadline import within

    Metadata = Mapping[str, Any] | None
    Moment = int | datetime | str | None

__all__ = ["Collection"]

T = TypeVar("T")


class Collection(NotebookMethods[T], ModifyMethods[T], IndexMethods[T], BlobMethods[T]):
    """One collection. Reads return documents of type `T`: `Document`, or the class the model was made from.

    Calls that write take an `actor` and `metadata`, a mapping, which are kept with each change; without them those
    of the database count. Calls with `as_of` read the past: a log number, a datetime with a time zone, or ISO text.
    They raise InvalidRequestError for a moment to come, and SnapshotTooOldError for one before history. `timeout` in
    seconds replaces the deadline of the settings: after it, UnavailableError says that nothing was read or written, and
    OutcomeUnknownError that a write was on its way.

    Reads see the newest state, unless they say how new it must be: `at_least` is a log number or a token, `stale_ms` an
    age. With both, both hold; with either, no request is made if this process knows such a state.
    """

    def __init__(self, access: Access[T]) -> None:
        """Made by `Database.model` and `Database[...]`."""
        self._take(access)
        follow_forks(self, is_inner=True)

    def _take(self, access: Access[T]) -> None:
        self._access, self._ledger, self._writer = access, access.ledger, access.writer

    def _follow_fork(self) -> None:
        self._take(self._access.home.again(self._access))

    @property  # As below: what one family of calls needs is imported by the first of them; others do not wait for it.
    def _trash(self) -> Trashcan[T]:
        from wormdb.api.trash import Trashcan

        return Trashcan(self._access)

    @property
    def _tables(self) -> TableReader[T]:
        from wormdb.api.arrow import TableReader

        return TableReader(self._access)

    @property
    def _manifest(self) -> CollectionManifest[T]:
        from wormdb.api.status import CollectionManifest

        return CollectionManifest(self._access)

    @property
    def name(self) -> str:
        """The model's name, or the collection's folder."""
        return self._writer.name

    @property
    def mode(self) -> str:
        """Which changes are allowed: readonly, readwrite or append."""
        return self._writer.mode

    @property
    def prefix(self) -> str:
        """The folder of the collection in the bucket."""
        return self._ledger.collection

    def _limited(self, kind: CallKind, timeout: float | None) -> within:
        return self._access.limited(kind, timeout)

    # --- reading ---

    @overload
    def scan(self, start: Any = None, stop: Any = None, *, as_of: Moment = None) -> Iterator[T]: ...

    @overload
    def scan(
        self, start: Any = None, stop: Any = None, *, columns: Sequence[str], as_of: Moment = None
    ) -> Iterator[dict[str, Any]]: ...

    @reads
    def scan(
        self, start: Any = None, stop: Any = None, *, columns: Sequence[str] | None = None, as_of: Moment = None
    ) -> Iterator[T] | Iterator[dict[str, Any]]:
        """Documents of one state in order of id, from `start` up to but not including `stop`; all without them.

        Writes meanwhile are not seen. 1 GET for each block in the range; of the past for each block of history.
        With `columns`, dicts with `id` and these fields alone, of which only the columns are read. `address.city`
        gives {"address": {"city": …}}, through arrays too. Raises InvalidRequestError for a column that the
        model does not have, and if one is a part of another.
        """
        if columns is not None:
            return self._tables.rows(columns, start, stop, as_of)
        return self._recall.scan(start, stop, as_of)

    @reads
    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        *,
        start: Any = None,
        stop: Any = None,
        as_of: Moment = None,
        timeout: float | None = None,
    ) -> pa.Table:
        """Columns of all documents of one state as one table in memory, in order of id.

        `columns` are `id` and dotted paths of fields; without them `id` and every column of the model, or, without a
        model, `id`, the paths that a tenth of the documents has, at most 64, and `doc`, the document as JSON. A type
        is the declared one; if nothing is declared, or a value is of another type, the one type of its values, and
        else text: extended JSON. Null and missing are null. Only the columns are read: 1 GET for each of their ranges
        in a block, about 2 for each 16,384 documents, and 2 more a block. Raises InvalidRequestError for unknown ones.
        """
        return self._tables.arrow(columns, start, stop, as_of)

    @reads
    def to_pandas(
        self, columns: Sequence[str] | None = None, *, start: Any = None, stop: Any = None, as_of: Moment = None
    ) -> Any:
        """What `to_arrow` gives, as a data frame of pandas. Raises MissingExtraError if pandas is not installed."""
        return self._tables.pandas(columns, start, stop, as_of)

    @reads
    def to_polars(
        self, columns: Sequence[str] | None = None, *, start: Any = None, stop: Any = None, as_of: Moment = None
    ) -> pl.DataFrame:
        """What `to_arrow` gives, as a data frame of Polars. Raises MissingExtraError if it is not installed."""
        return self._tables.polars(columns, start, stop, as_of)

    def __contains__(self, identity: Any) -> bool:
        """Whether there is a document with this id, as `exists`. 1 GET in a warm process."""
        return self.exists(identity)

    def __iter__(self) -> Iterator[T]:
        """Every document of one state, in order of id; writes meanwhile are not seen."""
        return self.scan()

    # --- writing ---

    def create(self, data: T | Mapping[str, Any] | None = None, /, **values: Any) -> T:
        """A new document, not saved: defaults applied, id made, validated. No requests; raises ValidationError."""
        return self._writer.create(data, values)

    @commits
    def insert(
        self,
        document: T | Mapping[str, Any],
        *,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> T:
        """Save a new document, whose id must be free. 1 PUT without competing writers.

        Raises AlreadyExistsError, UniqueViolationError, ValidationError, UnavailableError, OutcomeUnknownError.
        """
        return self._access.write("insert", document, self._access.by(actor, metadata))

    @commits
    def insert_many(
        self,
        documents: Iterable[T | Mapping[str, Any]],
        *,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> InsertManyResult:
        """Insert documents, all or none; returns their ids. 1 PUT without competing writers."""
        if not isinstance(documents, Iterable):
            raise InvalidRequestError(
                f"insert_many of {type(documents).__name__}",
                reason="it must be an iterable",
                fix="give a list of documents",
            )
        return InsertManyResult(self._access.insert_all(documents, self._access.by(actor, metadata)))

    @commits
    def save(
        self,
        document: T | Mapping[str, Any],
        *,
        if_rev: int | None = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> T:
        """Save a document, new or not. 1 PUT without competing writers; if nothing changed, `find_by_id` instead of it.

        A Document or an instance that was read must be unchanged since (ConflictError), and is at its new revision
        afterwards. Fields that a class does not have stay. Another mapping replaces what is there, but for a model's
        `createdAt`; another instance must be new (ConflictError), because it may be an old copy. With `if_rev`, from
        `rev_of`, what is there must be at that revision, whatever this was read as; that costs `find_by_id` more.
        """
        by = self._access.by(actor, metadata)
        loaded = None if if_rev is None else self._access.loaded_at(document, if_rev)
        return self._access.write("save", document, by, loaded)

    @commits
    def delete(
        self,
        document: Any,
        *,
        if_rev: int | None = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> bool:
        """Remove a document, given itself or its id; returns whether it was there. 1 PUT without competing writers.

        Of a model with softDelete it goes to the trash. A document that was read must be unchanged since
        (ConflictError). With `if_rev` it must be at that revision, as in `save`.
        """
        by = self._access.by(actor, metadata)
        loaded = None if if_rev is None else self._access.loaded_at(document, if_rev)
        return bool(self._access.commit([self._writer.prepare("delete", document, loaded).operation], by).changes)

    @commits
    def modify(
        self,
        identity: Any,
        change: Callable[[T], T | Mapping[str, Any] | None],
        *,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> T:
        """Load, change and save a document; again from the start if another writer was faster.

        `change` may edit the document in place or return another; it may run several times. `find_by_id` of the state
        now, and 1 PUT, none if nothing changed. Raises NotFoundError, and ConflictError after many losses.
        """
        by = self._access.by(actor, metadata)
        if not callable(change):
            raise InvalidRequestError(
                f"modify of document {identity!r} in {self.name}",
                reason=f"the change must be a function, not {type(change).__name__}",
                fix="give a function that takes the document",
            )
        return self._access.modify(identity, change, by)

    @commits
    def expire(self, field: str | None, after: str | timedelta | None = None, *, timeout: float | None = None) -> int:
        """Have documents end by themselves: at the date in `field`, or `after` it, such as "7d". The log number; 1 PUT.

        From that moment of the store's time on no read sees them, and the next forwarding or a node removes them: the
        feed and history say `expire`. A document without a date there stays; of an array of dates the earliest counts.
        With None documents stay again; what was removed stays removed. It counts for documents of before too. Raises
        InvalidRequestError if the model says when documents end, and for what is not a field or a duration.
        """
        from wormdb.api.expiry import set_expiry  # few collections have one

        return set_expiry(self._access, field, after)

    @commits
    def retain(
        self, *, keep: str | timedelta | None = None, versions: int | None = None, timeout: float | None = None
    ) -> int:
        """Keep no more of history: for how long ("30d") a version stays after another followed it, how many, or both.

        The log number; 1 PUT. The newest version always stays; without both all are kept again, but what is gone does
        not come back. From that moment of the store's time on readers are shown no more; what is stored goes with the
        merges of forwarding and compaction, once the log has forgotten it. Raises InvalidRequestError if the model says
        how much is kept, or keeps readable files of versions, and for what is not a duration or a number from 1 on.
        """
        from wormdb.api.retention import set_retention  # few collections have one

        return set_retention(self._access, keep, versions)

    @reads
    def get_retention(self, *, timeout: float | None = None) -> dict[str, Any]:
        """How much of history is kept, by the model or by `retain`: `keep`, `versions`; empty if all is. As a read."""
        from wormdb.api.retention import retention_of

        return retention_of(self._access)

    def batch(self, *, actor: str | None = None, metadata: Metadata = None) -> Batch[T]:
        """Several changes that happen together or not at all. No requests until it is flushed."""
        by = self._access.by(actor, metadata)
        return Batch(self._writer.prepare, lambda prepared: self._flush(prepared, by))

    @commits
    def _flush(self, prepared: Sequence[PreparedOperation], by: Author) -> CommitResult:
        return self._access.commit_all(prepared, by)

    @works
    def import_records(
        self,
        records: Iterable[Record | Mapping[str, Any]],
        *,
        rejected: Callable[[Rejection], None] | None = None,
        actor: str | None = None,
        metadata: Metadata = None,
        **options: Unpack[ImportOptions],
    ) -> ImportResult:
        """Save records of any number by one entry of the log, or none; `rejected` is given each that does not fit.

        Up to 10,000 records of at most 2 MiB cost 1 GET, the look-up of their ids, and 1 PUT. More are a bulk job:
        memory does not grow with them, blocks are written and attached by one entry, and the log is brought forward
        unless the settings say manual. `rejected` hears at the end, `told` on the way. Raises InvalidRequestError for
        options, ConflictError if others write the same documents again and again, and what a commit raises.
        """
        from wormdb.api.imports.records import import_records  # only imports need it

        return import_records(self._access, self._access.by(actor, metadata), records, rejected, options)

    # --- functions ---

    @property
    def functions(self) -> FunctionRegistry:
        """Named filters that every process knows: `{"$fn": name}` in a filter stands for one. No requests."""
        from wormdb.api.functions import FunctionRegistry

        return FunctionRegistry(self._access)

    # --- the manifest ---

    @reads
    def get_manifest_status(self) -> ManifestStatus:
        """The manifest file as it is now: fresh, behind, lost or edited; and what the columns of blocks can answer.

        1 GET in a warm process, and where a manifest file is kept 1 for each of its files and 1 more.
        """
        return self._manifest.status()

    @works
    def build_manifest(self) -> ManifestStatus:
        """Bring the log into blocks with a column for each field of the manifest, and write the manifest file.

        A file that is lost, edited or another program's is written again. Costs as `forward`, and as
        `get_manifest_status` twice. Blocks that were written before a field was declared get its column when they are
        merged; until then the documents of these blocks are read instead, and `columns_fresh` is False.
        """
        return self._manifest.build()

    def invalidate_manifest(self) -> None:
        """Forget what this process knows of the collection: the next read begins with the newest root. No requests.

        Columns are never stale, because every reader adds the log's tail; so there is nothing to throw away.
        """
        self._manifest.invalidate()

    @reads
    def parquet_files(self) -> ParquetFiles:
        """The blocks of the present state, for whatever reads Parquet, and how far they are behind the log.

        1 GET in a warm process, and 1 for each page of a long list of blocks. Blocks are deleted some time after a
        newer state replaced them.
        """
        return self._manifest.files()

    # --- history ---

    @reads
    def get_history(self, identity: Any, *, timeout: float | None = None) -> list[HistoryEntry]:
        """Every change of a document, oldest first, also of one that is gone; none if there never was one.

        1 GET if the log tells all; 2 more for each run of history that holds it, 1 or none if the run is known.
        Every collection has history.
        """
        return self._recall.entries(identity)

    @reads
    def diff(self, identity: Any, a: int, b: int) -> dict[str, tuple[Any, Any]]:
        """The fields in which changes `a` and `b` left a document different, each with both values.

        None stands for an absent field; after a delete all are. Costs as `get_history`. Raises InvalidRequestError,
        NotFoundError, and SnapshotTooOldError for a seq before history.
        """
        return self._recall.diff(identity, a, b)

    @commits
    def rollback(
        self,
        identity: Any,
        *,
        to_seq: int,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> T:
        """Bring a document back to what its change `to_seq` left, also if it is deleted now. That is one more change.

        `rollbackTo` is added to its metadata, and a model's `updatedAt` is now. 1 PUT after what `get_history` and
        `find_by_id` cost.
        Raises InvalidRequestError for a seq that deleted it, NotFoundError, ValidationError if the old version does
        not fit the model as it is now, UniqueViolationError, and SnapshotTooOldError for a seq before history.
        """
        return self._recall.rollback(identity, to_seq, self._access.by(actor, metadata))

    @commits
    def snapshot(self, identity: Any, *, actor: str | None = None, metadata: Metadata = None) -> Snapshot:
        """Keep a document as it is now as a snapshot. 1 PUT, after what `get_history` costs; none if it is one already.

        Raises NotFoundError, and InvalidRequestError if the model has no snapshots.
        """
        return self._recall.take(identity, self._access.by(actor, metadata))

    @reads
    def list_snapshots(self, identity: Any) -> list[Snapshot]:
        """The snapshots of a document, oldest first: those within `maxAge` and `maxCount`, and always the newest.

        A purge takes all of them. Costs as `get_history`, twice. Raises InvalidRequestError if the model has none.
        """
        return self._recall.snapshots(identity)

    @commits
    def restore_snapshot(
        self, identity: Any, ts: datetime | str, *, actor: str | None = None, metadata: Metadata = None
    ) -> T:
        """Bring a document back as the snapshot of that time has it. Otherwise as `rollback`.

        `snapshot` is added to the metadata. Raises NotFoundError if there is none of that time.
        """
        return self._recall.restore(identity, ts, self._access.by(actor, metadata))

    @works
    def erase(
        self, identity: Any, *, missing_ok: bool = False, actor: str | None = None, metadata: Metadata = None
    ) -> EraseResult:
        """Leave nothing of a document: its versions, snapshots, trash, blobs of its own and readable files go.

        From the entry on no read finds any of it, in no process. Then the log is brought forward, so that the root
        names nothing that holds it, and garbage is collected once; what older roots named, and the log up to the entry,
        is deleted by the next garbage collection an hour later. `history` says ErasedError from then on; a new document
        may have the id. `worm verify --erased` proves it.

        Costs as `get_history`, 1 PUT, and as `forward` and `gc`; for each block that has a version 1 GET and 2 PUTs.
        Raises NotFoundError if there never was such a document, InvalidRequestError in a transaction, UnavailableError,
        and OutcomeUnknownError: call it again with `missing_ok`.
        """
        from wormdb.api.erase import erase_document

        return erase_document(self._access, identity, self._access.by(actor, metadata), missing_ok=missing_ok)

    # --- the trash ---

    @reads
    def list_trashed(self) -> list[TrashedDocument[T]]:
        """What lies in the trash, in order of id. 1 GET for each block that holds some of it, and their pages.

        Raises InvalidRequestError if the model has no softDelete, as all calls about the trash.
        """
        return self._trash.contents()

    @commits
    def restore(self, identity: Any, *, actor: str | None = None, metadata: Metadata = None) -> T:
        """Bring a document back from the trash, as it was. 1 PUT without competing writers.

        Raises NotFoundError if it is not there, AlreadyExistsError if there is another with its id by now, and
        UniqueViolationError if another has one of its values.
        """
        return self._trash.restore(identity, self._access.by(actor, metadata))

    @commits
    def purge(self, identity: Any, *, actor: str | None = None, metadata: Metadata = None) -> None:
        """Take a document out of the trash for good. 1 PUT without competing writers; raises NotFoundError.

        Its history stays, so that it can be told what happened; its snapshots are gone.
        """
        self._trash.purge(identity, self._access.by(actor, metadata))

    @commits
    def purge_expired(self, *, actor: str | None = None, metadata: Metadata = None) -> list[Any]:
        """Purge what is in the trash for longer than the model's ttl; returns the ids. 1 PUT after `list_trashed`.

        Nodes (`worm node run`) do it by themselves; without nodes call it now and then.
        """
        return self._trash.purge_expired(self._access.by(actor, metadata))

    @works
    def empty_trash(self, *, actor: str | None = None, metadata: Metadata = None) -> list[Any]:
        """Purge everything in the trash; returns the ids. 1 PUT for each 10,000 after `list_trashed`."""
        return self._trash.empty(self._access.by(actor, metadata))

    # --- the log ---

    @explained
    def watch(
        self,
        after: int | str = 0,
        *,
        resume_after: int | str | None = None,
        follow: bool = False,
        poll_seconds: float = 1.0,
    ) -> ChangeStream:
        """Changes after a log number, a change's `resume` or "now", oldest first; with `follow` for ever.

        Go through it, or use it as a block, which closes it. 1 GET an entry, and 1 GET a poll; "now" is 1 GET at once.
        Raises SnapshotTooOldError if the log was trimmed beyond it, and InvalidRequestError for a number behind its
        end, and for a `resume` of a collection that was made anew since.
        """
        from wormdb.api.feed import watch

        return watch(
            self._access, after if resume_after is None else resume_after, follow=follow, poll_seconds=poll_seconds
        )

    @reads
    def resolve(
        self, commit_id: str | OutcomeUnknownError, *, settle: bool = False, timeout: float | None = None
    ) -> Fate:
        """What became of a commit whose outcome was unknown: committed, not committed, or unknown.

        With `settle` an empty slot is filled, after which the write can no longer land. 2 to 5 requests.
        """
        text = commit_id.commit_id if isinstance(commit_id, OutcomeUnknownError) else commit_id
        if text is None:
            raise InvalidRequestError("resolve", reason="the error carries no commit id")
        return self._access.log.resolve(text, settle=settle)

    @works
    def forward(self, *, timeout: float | None = None) -> int:
        """Bring the log so far into blocks, indexes and history; returns the last log number that is in them.

        Reads are cheaper after it: nothing has to be read from the log. 2 GETs if nothing is new; otherwise 1 PUT for
        the root, 2 for each new block and 1 for each changed index node.
        """
        return self._access.log.forward()

    @works
    def gc(self, *, dry_run: bool = False, timeout: float | None = None) -> GcResult:
        """Remove what no process needs any more, as `Database.gc` does; with `dry_run` only say what that is."""
        return self._access.home.collect(self._access.log.collection, dry_run=dry_run)
