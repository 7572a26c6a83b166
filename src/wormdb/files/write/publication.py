"""One attempt to bring the readable files of a collection to a state: documents, then tables, sentinels, the record.

Only the record says what the files hold, and it is swapped last. So after a crash the same is done again, and of two
processes that do it at once one loses the swap and looks again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from wormdb.errors import ConflictError, SnapshotTooOldError
from wormdb.files.contents.names import FileKey, FileNames, Placement
from wormdb.files.contents.sentinel import collection_sentinel
from wormdb.files.write.announce import Announcement
from wormdb.files.write.changes import read_windows
from wormdb.files.write.guard import FileDraft, put_guarded
from wormdb.files.write.publish import DocumentFiles, FileWork, name_document
from wormdb.files.write.record import KnownRecord, RecordRegister, placement_of, places_of
from wormdb.files.write.table_files import TableWriter
from wormdb.files.write.tables import (
    MANIFEST,
    PendingChanges,
    TablePatience,
    align_tables,
    date_paths,
    keys_of,
    mark_erased,
    specs_of,
)
from wormdb.format.files_record import FilesFill, FilesPlaces, FilesRecord, FilesTable
from wormdb.format.past import misc_ms
from wormdb.format.wrappers import moment
from wormdb.system.types import LogNumber, WriteId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from wormdb.engine.history.read import DocumentHistory
    from wormdb.engine.ledger import Ledger
    from wormdb.engine.state.view import StoredVersion, View
    from wormdb.files.write.changes import Window
    from wormdb.files.write.tables import TableKey
    from wormdb.schema.model import Model
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store
    from wormdb.system.clock import Clock

__all__ = ["Extent", "LostAttempts", "Publication", "find_tables", "mark_touched_tables", "shape_of"]


# --- Files of tables that the record does not know of: after it was lost, or after a writer was overtaken by another.


def find_tables(
    store: Store, names: FileNames, tables: Sequence[FilesTable]
) -> tuple[tuple[FilesTable, ...], list[str]]:
    """The tables, with the files to delete when they are complete; and the keys of files to delete now.

    1 LIST for each 1,000 files of tables, twice.
    """
    folders = (names.manifest.removesuffix(".json") + "/", names.index(("x",)).rpartition("/")[0] + "/")
    listed = [found.key for folder in folders for page in store.list(folder) for found in page.objects]
    found = _of_tables((names.manifest, *listed), names)
    made = []
    for table in tables:
        own = [key for key, what in found.items() if _table_of(what) == (table.kind, table.fields)]
        obsolete = [key for key in own if key not in keys_of(table, names)]
        # What names the parts goes before them.
        obsolete.sort(key=lambda key: found[key].partition is not None)
        made.append(replace(table, obsolete=tuple(obsolete)))
    return tuple(made), _unknown(found, made, names)


def mark_touched_tables(
    keys: Iterable[str], names: FileNames, tables: Sequence[FilesTable]
) -> tuple[tuple[FilesTable, ...], list[str]]:
    """The tables, marked to be written again if one of `keys` is theirs; and those keys that are of no table.

    A process that was overtaken wrote these, perhaps in other parts than the table has now. No requests.
    """
    found = _of_tables(sorted(keys), names)
    hit = {_table_of(what) for what in found.values()}
    made = [
        replace(table, parts=tuple(replace(part, log=0) for part in table.parts))
        if (table.kind, table.fields) in hit
        else table
        for table in tables
    ]
    return tuple(made), _unknown(found, made, names)


def _of_tables(keys: Iterable[str], names: FileNames) -> dict[str, FileKey]:
    return {key: what for key in keys if (what := names.parse(key)) is not None}


def _table_of(what: FileKey) -> TableKey:
    return ("index", what.fields) if what.fields else MANIFEST


def _unknown(found: Iterable[str], tables: Iterable[FilesTable], names: FileNames) -> list[str]:
    known = {key for table in tables for key in (*keys_of(table, names), *table.obsolete)}
    return [key for key in found if key not in known]


_CHUNK_DOCUMENTS: Final = 500
_CHUNK_BYTES: Final = 8 * 1024 * 1024
_ROUNDS_MAX: Final = 6
"""How often tables may be cut anew in one publication."""
_NO_ID: Final = WriteId("0" * 32)


@dataclass(frozen=True, slots=True)
class Extent:
    """How much one publication writes."""

    fill_max: int | None = None
    """How many documents may be written at once if all have to be; None for no limit."""
    is_forced: bool = False
    """Whether everything that waits is written now."""
    told: Callable[[int], None] = lambda _: None
    """Called with the number of documents of all that have been written."""


@dataclass(slots=True)
class LostAttempts:
    """What overtaken attempts did: they may have put an older state over a newer one."""

    after: LogNumber
    """They wrote documents that were changed after this number."""
    tables: set[str] = field(default_factory=set)
    """Keys of files of tables that they wrote."""
    places: list[FilesPlaces] = field(default_factory=list)
    """Where they put files."""
    shapes: set[bytes] = field(default_factory=set)
    """What the models that they knew said of files."""


@dataclass(slots=True)
class Publication:
    """Brings files to the state of a view. For one thread, once."""

    store: Store
    pool: Pool
    clock: Clock
    bucket: str
    """Its name, for the sentinel."""
    seconds: float
    """How long a change may wait for a file of a table."""
    extent: Extent
    ledger: Ledger
    view: View
    register: RecordRegister
    known: KnownRecord
    record: FilesRecord = field(init=False)
    model: Model = field(init=False)
    names: FileNames = field(init=False)
    touched: set[str] = field(default_factory=set)
    """Keys of files of tables that it has written."""

    def __post_init__(self) -> None:
        definition = self.view.definition
        assert definition.model is not None, "only models have readable files"
        assert definition.files is not None, "files are kept"
        self.model = definition.model
        placement = Placement.switched(definition.files)
        self.names = FileNames(self.model, self.ledger.collection, placement)
        self.record = self._begun(self.known.record, placement)

    def _begun(self, record: FilesRecord | None, placement: Placement) -> FilesRecord:
        """The record to go on from: all files are to be written if it does not fit the definition."""
        shape, places = shape_of(self.model), places_of(placement, self.names.file_name)
        fill = FilesFill(since=self.view.number)
        if record is None:
            fill = replace(fill, is_lost=self.known.version is not None)
            path = self.ledger.collection
            return FilesRecord(path=path, revision=0, write_id=_NO_ID, shape=shape, places=places, fill=fill)
        if record.shape == shape and record.places == places:
            return record
        before = () if record.fill is None else record.fill.former
        former = tuple(dict.fromkeys(each for each in (record.places, *before) if each != places))
        # What began to write them under another definition left files that no record names.
        fill = replace(fill, former=former, is_lost=record.fill is not None)
        return replace(record, shape=shape, places=places, fill=fill, announced=None)

    def run(self, lost: LostAttempts | None = None) -> KnownRecord:
        """Bring the files to the state, and do again what is `lost`.

        Returns the record as it then is. Raises ConflictError if another process was faster, UnavailableError,
        OutcomeUnknownError.
        """
        if lost is not None:
            self._note_definitions(lost)
        if self.record.fill is not None and not self._fill(self.record.fill):
            return self.known
        try:
            self._follow(LogNumber(self.record.through) if lost is None else min(lost.after, self.record.through))
        except SnapshotTooOldError:
            self.record = replace(self.record, fill=FilesFill(since=self.view.number))
        if self.record.fill is not None:
            self._swap()
            return self.run(None if lost is None else LostAttempts(LogNumber(self.view.number), lost.tables))
        if lost is not None and lost.tables:
            self._keep(mark_touched_tables(lost.tables, self.names, self.record.tables))
        self._write_tables()
        self._announce()
        if self.known.record != self.record:
            self._swap()
        return self.known

    def _note_definitions(self, lost: LostAttempts) -> None:
        """Go through all documents if an overtaken attempt knew another definition.

        Then files may lie where they no longer belong, or look as they no longer should.
        """
        elsewhere = [places for places in lost.places if places != self.record.places]
        if elsewhere or lost.shapes - {self.record.shape}:
            fill = self.record.fill or FilesFill(since=self.view.number)
            former = tuple(dict.fromkeys((*elsewhere, *fill.former)))
            self.record = replace(self.record, fill=replace(fill, cursor=b"", former=former, is_lost=True))

    def check(self) -> None:
        """Raise ConflictError if another process has swapped the record. 1 GET."""
        if not self.register.is_current(self.known):
            raise ConflictError(f"the files of {self.ledger.collection}", reason="another process writes them")

    def _swap(self) -> None:
        self.known = self.register.swap(self.known, self.record)
        assert self.known.record is not None, "it was just written"
        self.record = self.known.record

    # --- everything ---

    def _fill(self, fill: FilesFill) -> bool:
        """Write all documents from where the last attempt stopped; returns whether all are written."""
        former = [
            FileNames(self.model, self.names.collection, placement_of(places), places.file) for places in fill.former
        ]
        documents = DocumentFiles(self.model, self.names)
        is_new = self.record.through == 0 and not former and not fill.is_lost
        work, size, done, cursor, limit = FileWork(), 0, 0, fill.cursor, self.extent.fill_max
        for key, held, found in self._recorded(fill.cursor):
            if limit is not None and done >= limit:
                self._filled(work, replace(fill, cursor=cursor))
                return False
            more = documents.whole(held, found, former, is_new=is_new)
            work.drafts += more.drafts
            work.deleted += more.deleted
            size += sum(len(draft.body) for draft in more.drafts)
            cursor, done = key, done + 1
            if done % _CHUNK_DOCUMENTS == 0 or size >= _CHUNK_BYTES:
                self._filled(work, replace(fill, cursor=cursor))
                work, size = FileWork(), 0
                self.extent.told(done)
        work.do(self.store, self.pool, self.check)
        self.extent.told(done)
        self._align(is_all=True)
        if fill.is_lost:
            self._keep(find_tables(self.store, self.names, self.record.tables))
        misc = max(self.record.misc, _misc_of(self.view))
        self.record = replace(self.record, fill=None, through=fill.since, misc=misc, is_unannounced=True)
        self._swap()
        return True

    def _filled(self, work: FileWork, fill: FilesFill) -> None:
        work.do(self.store, self.pool, self.check)
        self.record = replace(self.record, fill=fill)
        self._swap()

    def _recorded(self, cursor: bytes) -> Iterator[tuple[bytes, StoredVersion, DocumentHistory | None]]:
        """Every document after a key, with what history has of it."""
        low = cursor + b"\0" if cursor else b""
        past = self.ledger.history(self.view).documents(low)
        found = next(past, None)
        for key, held in self.view.scan(low):
            while found is not None and found.key < key:
                found = next(past, None)
            yield key, held, found if found is not None and found.key == key else None

    # --- what entries of the log changed ---

    def _follow(self, after: int) -> None:
        """Write the files of what was changed after a number, at or before that of the record."""
        counted = self.record.through
        if after >= self.view.number:
            return
        self._align(is_all=False)
        specs = specs_of(self.view.definition)
        documents, history = DocumentFiles(self.model, self.names), self.ledger.history(self.view)
        pending = PendingChanges(self.record.tables, specs, self.model)
        windows = read_windows(self.ledger, LogNumber(after), self.view.number)
        erased: set[str] = set()
        for window in windows:
            if window.needs_all:
                # Those of documents that were erased are not among the files that are written again.
                for left in chain([window], windows):
                    documents.erased(left).do(self.store, self.pool, self.check)
                    erased |= _erased_in(left)
                tables = mark_erased(self.record.tables, erased, is_all=True)
                self.record = replace(self.record, fill=FilesFill(since=self.view.number), tables=tables)
                return
            documents.changed(window, LogNumber(after), self.view, history).do(self.store, self.pool, self.check)
            pending.note(seen for seen in window.changes if seen.version.rev > counted)
            erased |= _erased_in(window)
            if window.changes:
                self.record = replace(self.record, misc=max(window.misc, self.record.misc), is_unannounced=True)
            if window.is_whole:
                tables = mark_erased(pending.tables(self.clock.now_ms()), erased)
                self.record = replace(self.record, through=max(window.through, counted), tables=tables)
                if not window.is_last:
                    self._swap()
                    pending = PendingChanges(tables, specs, self.model)

    # --- tables and sentinels ---

    def _align(self, *, is_all: bool) -> None:
        """Keep the tables that the definition asks for, and no files of others."""
        specs = specs_of(self.view.definition)
        self._keep(align_tables(self.record.tables, specs, self.names, is_all=is_all))

    def _keep(self, changed: tuple[tuple[FilesTable, ...], Sequence[str]]) -> None:
        """Keep some tables, after other files of tables were deleted."""
        tables, gone = changed
        if gone:
            self.check()
            self.store.delete_many(gone)
        self.record = replace(self.record, tables=tables)

    def _write_tables(self) -> None:
        specs = specs_of(self.view.definition)
        patience = TablePatience(self.clock.now_ms(), self.seconds, self.extent.is_forced)
        names, view, updated = self.names, self.view, self._updated
        writer = TableWriter(self.store, self.pool, self.model, names, view, updated, self.check, self.touched)
        for _ in range(_ROUNDS_MAX):
            chosen = [
                table
                for table in self.record.tables
                if self.extent.is_forced or specs[table.kind, table.fields].is_automatic or table.has_erased
            ]
            written, is_cut = writer.write(chosen, specs, patience)
            made = {(table.kind, table.fields): _settled(table) for table in written}
            tables = tuple(made.get((table.kind, table.fields), table) for table in self.record.tables)
            self.record = replace(self.record, tables=tables)
            if not is_cut:
                return
            self._swap()

    def _announce(self) -> None:
        if self.record.is_unannounced:
            body = collection_sentinel(self.model, self.view.count, self._updated, self.view.number)
            version = self.record.sentinel
            draft = FileDraft(self.names.sentinel, body, self.view.number, is_new=True, version=version)
            version = put_guarded(self.store, draft).version
            self.record = replace(self.record, sentinel=version, is_unannounced=False)
        told = Announcement(self.bucket, self.model, self.names.collection, self.names.placement)
        if self.record.announced != told.digest:
            told.make(self.store)
            self.record = replace(self.record, announced=told.digest)

    @property
    def _updated(self) -> datetime | None:
        """When the collection was last changed."""
        return moment(misc_ms(self.record.misc)) if self.record.misc else None


def shape_of(model: Model) -> bytes:
    """A digest that changes when the files of documents have to be written again."""
    named = ["µs"] if model.snapshots.enabled else []  # the names of snapshots, which earlier releases cut short
    said = (model.path.file_name, date_paths(model), model.oplog, model.snapshots.to_json(), *named)
    return sha256(msgspec.json.encode(said)).digest()


def _settled(table: FilesTable) -> FilesTable:
    """A table that was written, without the mark of an erasure if all of its files are."""
    return replace(table, has_erased=False) if all(part.log for part in table.parts) else table


def _erased_in(window: Window) -> set[str]:
    """The texts of the ids that were erased."""
    return {name_document(encoded)[1] for encoded, _ in window.erased.values()} - {""}


def _misc_of(view: View) -> int:
    """When the last entry of a state was written, or brought forward."""
    entries = view.overlay.entries(view.number)
    return entries[-1].misc if entries else 0 if view.place is None else view.place.root.misc
