"""Compare the readable files of a collection with its state: documents, oplog, snapshots, trash, manifest, indexes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from wormdb.engine.log.paths import EnginePaths
from wormdb.errors import CorruptionError
from wormdb.files.adopt.sources import changed_sources
from wormdb.files.compare.faults import DocumentFaults, FileFault, TableFaults, list_files
from wormdb.files.contents.expected import EDITED, EXTRA, MISSING
from wormdb.files.contents.names import BUCKET_SENTINEL, FileKey, FileNames, Placement
from wormdb.files.contents.sentinel import read_collection_sentinel
from wormdb.files.write.announce import Announcement
from wormdb.files.write.publication import shape_of
from wormdb.files.write.record import RecordRegister, placement_of
from wormdb.files.write.tables import keys_of, specs_of
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from wormdb.engine.ledger import Ledger
    from wormdb.engine.state.definition import Definition
    from wormdb.engine.state.view import View
    from wormdb.format.files_record import FilesRecord
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store
    from wormdb.system.clock import Chance

__all__ = [
    "CollectionFiles",
    "FilesExamination",
    "FilesState",
    "examine_files",
    "examine_sources",
    "file_names",
    "names_in",
]

FAULTS_MAX: Final = 10_000
"""Faults that are listed for a collection; more are only counted."""
_TRIES_MAX: Final = 3
_TABLE_KINDS: Final = frozenset(
    {"manifest", "manifest_meta", "manifest_partition", "index", "index_meta", "index_partition"}
)


@dataclass(frozen=True, slots=True)
class FilesState:
    """A state whose files are kept, and how far they are."""

    view: View
    names: FileNames
    record: FilesRecord | None

    @property
    def through(self) -> LogNumber:
        """Everything through this number is in files; 0 while all are being written."""
        is_whole = self.record is not None and self.record.fill is None
        return LogNumber(self.record.through if self.record is not None and is_whole else 0)

    @property
    def is_to_be_written(self) -> bool:
        """Whether all files are about to be written again, because the model or their places changed since."""
        record, names = self.record, self.names
        if record is None:
            return False
        return record.shape != shape_of(names.model) or placement_of(record.places) != names.placement

    @property
    def table_keys(self) -> set[str]:
        """The keys that files of tables may have."""
        tables = () if self.record is None else self.record.tables
        return {key for table in tables for key in (*table.obsolete, *keys_of(table, self.names))}


@dataclass(frozen=True, slots=True)
class CollectionFiles:
    """The readable files of one collection, and what is needed to look at them. The store caches nothing."""

    ledger: Ledger
    store: Store
    pool: Pool
    chance: Chance

    @property
    def register(self) -> RecordRegister:
        """How far they are."""
        collection = self.ledger.collection
        return RecordRegister(self.store, EnginePaths.of_collection(collection).files, collection, self.chance)

    def open(self) -> FilesState | None:
        """The state now, which is not before the record; None if files are not kept. 1 GET, and as `Ledger.view`."""
        record = self.register.read().record
        view = self.ledger.view().bare
        names = names_in(view, self.ledger.collection)
        return None if names is None or not view.definition.keeps_files else FilesState(view, names, record)


def names_in(view: View, collection: str) -> FileNames | None:
    """The keys of a collection's files as the log says, kept or not; None if it never said."""
    return file_names(view.definition, collection)


def file_names(definition: Definition, collection: str) -> FileNames | None:
    """The keys of the files of a collection that has a definition; None if it never said where they are."""
    if definition.model is None or definition.files is None:
        return None
    return FileNames(definition.model, collection, Placement.switched(definition.files))


@dataclass(slots=True)
class FilesExamination:
    """What is wrong, and how much was compared."""

    faults: list[FileFault] = field(default_factory=list)
    documents: int = 0
    files: int = 0
    left_out: int = 0
    """Faults that are not listed because there are too many."""


def examine_files(site: CollectionFiles, told: Callable[[int], None] = lambda _: None) -> FilesExamination:
    """What is wrong with the files of a collection; nothing is written. Nothing if files are not kept.

    1 GET for each file, 1 LIST for each 1,000 objects, and a scan of documents and history. Files that are behind the
    log are not wrong: they may be as they were at the number through which files are complete, or newer; and if the
    model changed since so that all are to be written again, nothing is said of them. What looks wrong is checked
    again, because other processes may write meanwhile.
    """
    examined = FilesExamination()
    opened = site.open()
    if opened is None or opened.is_to_be_written:
        return examined
    faults = _document_faults(site, opened, examined, told)
    for _ in range(_TRIES_MAX):
        if not faults:
            break
        faults = _still(site, opened, faults)
    examined.faults += faults
    return examined


def examine_sources(site: CollectionFiles) -> list[FileFault]:
    """Files of another program that were adopted, are not written back, and are not what they were then.

    No requests but those of `Ledger.view` for a collection that has none; else as `changed_sources`.
    """
    model = site.ledger.view().bare.definition.model
    if model is None or not model.path.is_of_others:
        return []
    found = changed_sources(site.store, site.pool, model, site.ledger.collection)
    return [FileFault(each.key, each.what) for each in found]


def _document_faults(
    site: CollectionFiles, opened: FilesState, examined: FilesExamination, told: Callable[[int], None]
) -> list[FileFault]:
    view, names, record = opened.view, opened.names, opened.record
    checks = DocumentFaults(site.store, site.pool, names, view, site.ledger.history(view), opened.through)
    tables = TableFaults.of(names, () if record is None else record.tables, specs_of(view.definition))
    faults = list(_limited(checks.wrong(tables.note, told), FAULTS_MAX, examined))
    examined.documents += tables.documents
    for page in list_files(site.store, names):
        examined.files += sum(not found.is_elsewhere for _, found in page)
        faults += _limited(_extra(opened, checks, page), FAULTS_MAX - len(faults), examined)
    faults += tables.faults(site.store, site.pool, view)
    faults += _sentinel_faults(site, opened)
    faults += _bucket_sentinel_faults(site, opened)
    return faults


def _limited(faults: Iterable[FileFault], room: int, examined: FilesExamination) -> Iterator[FileFault]:
    """As many as there is room for; the others are counted."""
    for number, fault in enumerate(faults):
        if number < room:
            yield fault
        else:
            examined.left_out += 1


def _extra(opened: FilesState, checks: DocumentFaults, page: list[tuple[str, FileKey]]) -> list[FileFault]:
    known, is_filling = opened.table_keys, opened.record is not None and opened.record.fill is not None
    faults = [FileFault(key, EXTRA) for key, found in page if found.kind in _TABLE_KINDS and key not in known]
    of_documents = [
        (key, found)
        for key, found in page
        if found.kind not in _TABLE_KINDS and found.kind != "sentinel" and not (found.is_elsewhere and is_filling)
    ]
    return faults + list(checks.unwanted(of_documents))


def _sentinel_faults(site: CollectionFiles, opened: FilesState) -> list[FileFault]:
    """The sentinel of the collection informs only: it must be there, be readable, and be of this model."""
    if opened.record is None or opened.record.sentinel is None or opened.record.is_unannounced:
        return []
    key, model = opened.names.sentinel, opened.names.model
    found = site.store.probe(key).found
    if found is None:
        return [FileFault(key, MISSING)]
    try:
        said = read_collection_sentinel(found.body, key=key)
    except CorruptionError as error:
        return [FileFault(key, f"{EDITED}: {error.reason}")]
    is_right = said.model == model.name and said.log is not None and said.log <= opened.view.number
    if is_right and said.log == opened.view.number:
        is_right = said.count == opened.view.count
    return [] if is_right else [FileFault(key, EDITED)]


def _bucket_sentinel_faults(site: CollectionFiles, opened: FilesState) -> list[FileFault]:
    """The sentinel of the bucket informs only: it must be readable, and right about this collection."""
    if opened.record is None or opened.record.announced is None:
        return []
    names = opened.names
    told = Announcement("", names.model, names.collection, names.placement)
    fault = told.fault(site.store.probe(BUCKET_SENTINEL).found)
    return [] if fault is None else [FileFault(BUCKET_SENTINEL, fault)]


def _still(site: CollectionFiles, opened: FilesState, faults: list[FileFault]) -> list[FileFault]:
    """The faults that the newest state still has."""
    later = site.open()
    if later is None or later.is_to_be_written:
        return []
    if later.view.number == opened.view.number and later.record == opened.record:
        return faults
    view, names = later.view, later.names
    checks = DocumentFaults(site.store, site.pool, names, view, site.ledger.history(view), opened.through)
    documents = {fault.document for fault in faults if fault.document is not None}
    found = list(checks.again(documents))
    extras = [(fault.key, names.parse_anywhere(fault.key)) for fault in faults if fault.what == EXTRA]
    found += _extra(later, checks, [(key, parsed) for key, parsed in extras if parsed is not None])
    if any(fault.table is not None for fault in faults):
        tables = TableFaults.of(names, () if later.record is None else later.record.tables, specs_of(view.definition))
        for _, held in view.scan():
            tables.note(held)
        found += tables.faults(site.store, site.pool, view)
    found += _sentinel_faults(site, later)
    found += _bucket_sentinel_faults(site, later)
    keys = {fault.key for fault in faults}
    return [fault for fault in found if fault.key in keys]
