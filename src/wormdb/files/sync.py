"""Bring every readable file of a collection to its state, whatever became of it: missing, edited, left over.

What the log tells is written as always; then all files are compared, and what is wrong is mended. Documents are mended
at the state of that moment, so that nothing newer is replaced: a file that shows a number beyond the log was made up.
Deleted files are checked once more after that, because their documents may have come back meanwhile. Everything may be
repeated, and stop anywhere.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    OutcomeUnknownError,
    UnavailableError,
)
from wormdb.files.compare.check import CollectionFiles, examine_files, examine_sources, names_in
from wormdb.files.compare.faults import FileFault, list_files
from wormdb.files.contents.expected import files_of
from wormdb.files.contents.names import BUCKET_SENTINEL, FileNames
from wormdb.files.write.guard import number_in
from wormdb.files.write.publish import identity_of
from wormdb.files.write.tables import TableKey, mark_unwritten
from wormdb.format.files_record import FilesFill, FilesTable
from wormdb.settings import DELETE_MANY_KEYS
from wormdb.storage.store import IfAbsent, IfMatch, StoredObject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wormdb.engine.state.view import View
    from wormdb.files.keeper import FilesKeeper

__all__ = ["FilesSyncResult", "mend_tables", "remove_files", "sync_files"]

log = logging.getLogger(__name__)

_ATTEMPTS_MAX: Final = 8
_BATCH: Final = 200
_ROUNDS_MAX: Final = 4


@dataclass(slots=True)
class FilesSyncResult:
    """What a reconciliation did."""

    documents: int = 0
    """How many were looked at."""
    files: int = 0
    """How many are there."""
    mended: list[FileFault] = field(default_factory=list)
    """What was wrong, and is well now."""
    left: list[FileFault] = field(default_factory=list)
    """What could not be mended, because others write all the time."""
    removed: int = 0
    """Files that were left although files are switched off."""
    left_out: int = 0
    """Files that were wrong and are not listed because there were too many."""
    through: int = 0
    """The log number through which files are."""


def sync_files(
    site: CollectionFiles, keeper: FilesKeeper, told: Callable[[int], None] = lambda _: None
) -> FilesSyncResult:
    """Reconcile every file with the state; what was done. Repeatable, and safe beside other writers.

    Costs what brings the files to the state, and what `examine_files` costs once, or more often if something is wrong.
    Where files are switched off, those that are left are removed. Raises InvalidRequestError if they never were on,
    UnavailableError, OutcomeUnknownError.
    """
    collection = site.ledger.collection
    view = site.ledger.view().bare
    names = names_in(view, collection)
    model = view.definition.model
    if model is not None and model.path.is_of_others:
        # Another program's: what it changed is told, and nothing is written or removed.
        return FilesSyncResult(left=examine_sources(site))
    if names is None:
        raise InvalidRequestError(
            f"the files of {collection}", reason="they were never kept", fix="turn them on: worm files on"
        )
    done = FilesSyncResult()
    if not view.definition.keeps_files:
        done.removed = remove_files(site, names, told)
        return done
    keeper.forget(collection)
    keeper.flush(site.ledger, told)
    rounds = 0
    while rounds < _ROUNDS_MAX:
        found = examine_files(site, told)
        rounds += not found.left_out  # as long as there are too many, every round leaves fewer
        done.documents, done.files, done.left = found.documents, found.files, found.faults
        if not found.faults:
            break
        done.mended += found.faults
        _mend(site, found.faults)
        if found.left_out:
            done.left_out += found.left_out
            _write_all(site)
        keeper.forget(site.ledger.collection)
        keeper.flush(site.ledger, told)
    left = {fault.key for fault in done.left}
    done.mended = list(dict.fromkeys(fault for fault in done.mended if fault.key not in left))
    opened = site.open()
    done.through = 0 if opened is None else opened.through
    return done


def _mend(site: CollectionFiles, faults: Iterable[FileFault]) -> None:
    documents: dict[bytes, set[str]] = {}
    tables: set[TableKey] = set()
    keys: set[str] = set()
    for fault in faults:
        if fault.document is not None:
            documents.setdefault(fault.document, set()).add(fault.key)
        else:
            keys.add(fault.key)
            if fault.table is not None:
                tables.add(fault.table)
    keyed = list(documents)
    for start in range(0, len(keyed), _BATCH):
        _DocumentSync(site).mend({key: documents[key] for key in keyed[start : start + _BATCH]})
    if keys:
        mend_tables(site, tables, keys)


# --- documents ---


@dataclass(slots=True)
class _DocumentSync:
    """The files of some documents."""

    site: CollectionFiles

    def mend(self, documents: dict[bytes, set[str]]) -> None:
        """Write what should be there, and delete of the named keys what should not; by the keys of ids."""
        left = documents
        for attempt in range(_ATTEMPTS_MAX):
            view = self.site.ledger.view().bare
            names = names_in(view, self.site.ledger.collection)
            if names is None or not view.definition.keeps_files:
                return
            left = self._attempt(view, names, left, is_sure=attempt > 1)
            if not left:
                return
        raise UnavailableError(
            f"the files of {self.site.ledger.collection}", reason="others write them all the time", fix="sync again"
        )

    def _attempt(
        self, view: View, names: FileNames, documents: dict[bytes, set[str]], *, is_sure: bool
    ) -> dict[bytes, set[str]]:
        """One attempt at the state of a view; the documents that have to be looked at again.

        A file that shows a number beyond the view is left to the next attempt, unless that `is_sure` that no entry of
        the log has it.
        """
        held = view.get_many(sorted(documents))
        history = self.site.ledger.history(view)
        wanted: dict[str, tuple[bytes, bytes]] = {}
        doomed: dict[str, bytes] = {}
        for key, keys in documents.items():
            known = held.get(key)
            identity = None if known is None else identity_of(known.id)
            own: dict[str, bytes] = {}
            if known is not None and identity is not None:
                past = history.recorded(key)
                own = files_of(identity, known, past.versions, past.snapshots, names.model, names)
            wanted |= {name: (body, key) for name, body in own.items()}
            doomed |= dict.fromkeys(keys - set(own), key)
        again = {key: documents[key] for key in self._unwritten(wanted, names, view, is_sure=is_sure)}
        return again | self._delete(doomed, view, held, documents)

    def _unwritten(
        self, wanted: dict[str, tuple[bytes, bytes]], names: FileNames, view: View, *, is_sure: bool
    ) -> set[bytes]:
        """Write what differs, side by side; the documents of which not everything is there now."""
        store, pool = self.site.store, self.site.pool

        def write(name: str, there: StoredObject | None) -> bool:
            body, _ = wanted[name]
            if there is not None and there.body == body:
                return True
            if there is not None and not is_sure and _number(there, names) > view.number:
                return False
            try:
                precondition = IfAbsent() if there is None else IfMatch(there.version)
                store.put(name, body, precondition, content_type="application/json")
            except (AlreadyExistsError, ConflictError, OutcomeUnknownError):
                return False
            return True

        found = zip(wanted, store.get_many(list(wanted), pool), strict=True)
        are_written = pool.map(lambda each: write(*each), found)
        return {key for (_, key), is_written in zip(wanted.values(), are_written, strict=True) if not is_written}

    def _delete(
        self, doomed: dict[str, bytes], view: View, held: dict[bytes, Any], documents: dict[bytes, set[str]]
    ) -> dict[bytes, set[str]]:
        """Delete files; the documents that changed meanwhile, whose files may have been among them."""
        if not doomed:
            return {}
        _delete(self.site, doomed)
        later = self.site.ledger.view().bare
        if later.number == view.number:
            return {}
        now = later.get_many(sorted(set(doomed.values())))
        return {key: documents[key] for key in set(doomed.values()) if now.get(key) != held.get(key)}


def _number(there: StoredObject, names: FileNames) -> int:
    parsed = names.parse(there.key)
    is_entity = parsed is not None and parsed.kind in {"entity", "snapshot", "trashed"}
    return number_in(there.body, is_entity=is_entity)


def _delete(site: CollectionFiles, keys: Iterable[str]) -> None:
    doomed = sorted(keys)
    for start in range(0, len(doomed), DELETE_MANY_KEYS):
        site.store.delete_many(doomed[start : start + DELETE_MANY_KEYS])


# --- tables ---


def mend_tables(site: CollectionFiles, tables: set[TableKey], keys: set[str]) -> None:
    """Remove what is wrong, and have the record say that it is to be written again. 1 GET, 1 PUT, and the deletes.

    The next flush writes the tables; another writer that was faster does the same.
    """
    opened, known = site.open(), site.register.read()
    if opened is None or known.record is None:
        return
    sentinel = opened.names.sentinel
    # What a table may have is replaced, not deleted, so that there is a table to read all the time; but a file that
    # shows a number beyond the log would never be.
    named = opened.table_keys | {sentinel, BUCKET_SENTINEL}
    stored = site.store.get_many(sorted(keys & named), site.pool)
    beyond = {one.key for one in stored if one is not None and _number(one, opened.names) > opened.view.number}
    _delete(site, (keys - named) | beyond)
    made = tuple(
        _unversioned(mark_unwritten(table)) if (table.kind, table.fields) in tables else table
        for table in known.record.tables
    )
    following = replace(known.record, tables=made)
    if sentinel in keys:
        following = replace(following, sentinel=None, is_unannounced=True)
    if BUCKET_SENTINEL in keys:
        following = replace(following, announced=None)
    if following == known.record:
        return
    try:
        site.register.swap(known, following)
    except ConflictError:
        log.info("%s: another process writes the readable files", site.ledger.collection)


def _unversioned(table: FilesTable) -> FilesTable:
    """A table without what the record says of its files."""
    return replace(table, parts=tuple(replace(part, version=None) for part in table.parts), meta=None)


# --- all of them ---


def _write_all(site: CollectionFiles) -> None:
    """Have the record say that the files of all documents are to be written again. 1 GET, 1 PUT."""
    opened, known = site.open(), site.register.read()
    if opened is None or known.record is None or known.record.fill is not None:
        return
    try:
        site.register.swap(known, replace(known.record, fill=FilesFill(since=opened.view.number)))
    except ConflictError:
        log.info("%s: another process writes the readable files", site.ledger.collection)


def remove_files(
    site: CollectionFiles,
    names: FileNames,
    told: Callable[[int], None] = lambda _: None,
    check: Callable[[], None] = lambda: None,
) -> int:
    """Delete every readable file of a collection, and nothing else; how many. For one whose files are switched off.

    1 LIST for each 1,000 objects and 1 DELETE for each 1,000 files; what `check` costs before each of these, which
    raises if they must stay.
    """
    count = 0
    check()
    site.store.delete(site.register.key)  # first, because the log waits for what a record says
    for page in list_files(site.store, names):
        if page:
            check()
        _delete(site, [key for key, _ in page])
        count += len(page)
        told(count)
    return count
