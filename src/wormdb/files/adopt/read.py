"""Read the files of documents that are to be adopted, many at once, and say what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from wormdb.errors import CorruptionError, NotFoundError, Problem, ValidationError, WormError
from wormdb.files.adopt.past import Disagreement, FileContents, SettledDocument, settle
from wormdb.files.contents.document import OplogEntry, read_entity, read_oplog, read_tombstone_file
from wormdb.files.contents.values import fault_text
from wormdb.format import json
from wormdb.format.frame import corrupt
from wormdb.format.segment import check_id
from wormdb.format.values import equal, normalize
from wormdb.schema.identity import id_problem
from wormdb.schema.validate import validate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wormdb.files.adopt.listing import DocumentLine, DocumentListing
    from wormdb.files.contents.names import FileNames
    from wormdb.format.kinds import Document
    from wormdb.schema.model import Model
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store

__all__ = ["DocumentReader", "DocumentReading"]

T = TypeVar("T")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_Body = bytes | CorruptionError | None
"""The bytes of a file, why they cannot be read, or None if it is gone."""
_FILES_AT_ONCE: Final = 1_000
_BYTES_AT_ONCE: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class DocumentReading:
    """One document: what becomes of it, and what is wrong with its files. `settled` is None if it cannot be read."""

    key: bytes
    listed: DocumentListing
    settled: SettledDocument | None
    broken: tuple[Problem, ...]
    mismatches: tuple[Problem, ...]
    notes: tuple[Problem, ...]
    log: int = 0
    """The greatest number of a log that its files say they are of; 0 if they say none."""


@dataclass(frozen=True, slots=True)
class DocumentReader:
    """Reads the documents of one collection."""

    store: Store
    pool: Pool
    names: FileNames
    limit: int
    """A MISC: nothing that is adopted is later."""

    def read(self, documents: Sequence[tuple[bytes, DocumentListing]]) -> Iterator[DocumentReading]:
        """Documents in order. 1 GET for each file, many at once; in memory are up to 1,000 files or 16 MiB of them."""
        for some in _portions(documents):
            keys = [key for _, listed in some for key in listed.keys(self.names)]
            bodies = dict(zip(keys, self.pool.map(self._body, keys), strict=True))
            for key, listed in some:
                yield self._reading(key, listed, bodies)

    def _body(self, key: str) -> _Body:
        try:
            return self.store.get(key).body
        except NotFoundError as error:
            if error.key != key:
                raise  # the bucket is missing, not this object
            return None
        except CorruptionError as error:
            return error

    def _reading(self, key: bytes, listed: DocumentListing, bodies: dict[str, _Body]) -> DocumentReading:
        if listed.line is not None:
            return self._of_line(key, listed, listed.line)
        parsed = _DocumentParser(self.names, listed.id, bodies)
        filed, is_lost = parsed.filed(listed)
        settled = None if is_lost else parsed.settled(filed, self.limit)
        faults = () if settled is None else settled.faults
        mismatches = tuple(self._problem(listed, fault) for fault in faults if not fault.is_note)
        notes = [self._problem(listed, fault) for fault in faults if fault.is_note]
        notes += parsed.misfits(filed.entity)
        return DocumentReading(key, listed, settled, tuple(parsed.broken), mismatches, tuple(notes), parsed.log)

    def _of_line(self, key: bytes, listed: DocumentListing, line: DocumentLine) -> DocumentReading:
        """A document that has no other files, and was read with the listing. No requests."""
        document = json.decode_document(line.document, name="document")
        try:
            settled = settle(FileContents(listed.id, document), self.limit)
        except WormError as error:
            broken = (Problem(line.place, fault_text(error), error.fix),)
            return DocumentReading(key, listed, None, broken, (), ())
        notes = tuple(_misfits(self.names.model, document, line.place))
        return DocumentReading(key, listed, settled, (), (), notes)

    def _problem(self, listed: DocumentListing, fault: Disagreement) -> Problem:
        names, identity = self.names, listed.id
        match fault.kind:
            case "oplog":
                path = names.oplog(identity, fault.seq)
            case "snapshot":
                assert fault.ts is not None
                path = listed.snapshots[fault.ts]
            case "trash":
                path = names.trash_folder(identity)
            case _:
                path = names.entity(identity)
        return Problem(path, fault.what, severity="warning" if fault.is_note else "error")


def _portions(documents: Sequence[tuple[bytes, DocumentListing]]) -> Iterator[list[tuple[bytes, DocumentListing]]]:
    waiting: list[tuple[bytes, DocumentListing]] = []
    files = size = 0
    for key, listed in documents:
        if waiting and (files + listed.count > _FILES_AT_ONCE or size + listed.size > _BYTES_AT_ONCE):
            yield waiting
            waiting, files, size = [], 0, 0
        waiting.append((key, listed))
        files, size = files + listed.count, size + listed.size
    if waiting:
        yield waiting


def _misfits(model: Model, document: Document, place: str) -> list[Problem]:
    try:
        validate(model, document)
    except ValidationError as error:
        return [Problem(f"{place}: {one.path}", one.reason, one.fix, "warning") for one in error.problems]
    return []


class _DocumentParser:
    """The files of one document."""

    def __init__(self, names: FileNames, identity: Any, bodies: dict[str, _Body]) -> None:
        self._names = names
        self._id = identity
        self._bodies = bodies
        self.broken: list[Problem] = []
        self.log = 0

    def filed(self, listed: DocumentListing) -> tuple[FileContents, bool]:
        """What could be read, and whether that is too little: a document whose own file is broken is left out."""
        names, identity = self._names, self._id
        self._check_id()
        entity = self._document(names.entity(identity)) if listed.has_entity else None
        trashed = self._document(names.trashed(identity)) if listed.has_trashed else None
        stone = None
        if listed.has_tombstone:
            key = names.tombstone(identity)
            stone = self._try(key, lambda: read_tombstone_file(self._body(key), key=key))
            self._note(None if stone is None else stone.log)
        is_lost = bool(self.broken)
        oplog = [entry for seq in listed.oplog if (entry := self._entry(seq)) is not None]
        snapshots = {
            ts: found for ts, key in listed.snapshots.items() if (found := self._snapshot(ts, key)) is not None
        }
        return FileContents(identity, entity, tuple(oplog), snapshots, trashed, stone), is_lost

    def settled(self, filed: FileContents, limit: int) -> SettledDocument | None:
        """What the files say together; None if that is too large for a document."""
        return self._try(self._names.entity(self._id), lambda: settle(filed, limit))

    def misfits(self, entity: Document | None) -> list[Problem]:
        """Where a document does not fit its model; it is adopted as it is."""
        return [] if entity is None else _misfits(self._names.model, entity, self._names.entity(self._id))

    def _check_id(self) -> None:
        key = self._names.entity(self._id)
        problem = None if self._names.model.is_singleton else id_problem(self._names.model, self._id)
        if problem is not None:
            self.broken.append(Problem(key, f"its id {self._id!r} {problem.reason}", problem.fix))
        else:
            self._try(key, lambda: check_id(self._id))

    def _body(self, key: str) -> bytes:
        body = self._bodies[key]
        if body is None:
            corrupt(key, "it was there a moment ago, and is gone")
        if isinstance(body, CorruptionError):
            raise body
        return body

    def _document(self, key: str) -> Document | None:
        model = self._names.model
        found = self._try(key, lambda: read_entity(self._body(key), key=key, model=model, identity=self._id))
        document, rev = (None, None) if found is None else found
        self._note(rev)
        return document

    def _note(self, log: int | None) -> None:
        self.log = max(self.log, log or 0)

    def _snapshot(self, ts: datetime, key: str) -> Document | None:
        document = self._document(key)
        if ts < _EPOCH:
            self.broken.append(Problem(key, "it is of before 1970"))
            return None
        return document

    def _entry(self, seq: int) -> OplogEntry | None:
        key = self._names.oplog(self._id, seq)
        return self._try(key, lambda: self._read_entry(key, seq))

    def _read_entry(self, key: str, seq: int) -> OplogEntry:
        entry = read_oplog(self._body(key), key=key, model=self._names.model)
        if entry.seq != seq:
            corrupt(key, f"its seq is {entry.seq}")
        if entry.ts < _EPOCH:
            corrupt(key, "it is of before 1970")
        found = None if entry.snapshot is None else entry.snapshot.get("_id")
        if found is not None and not equal(found, self._id) and str(found) != str(self._id):
            corrupt(key, f"its snapshot is of another document, {found!r}")
        normalize(entry.snapshot or {})
        self._note(entry.log)
        return entry

    def _try(self, key: str, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except WormError as error:
            self.broken.append(Problem(key, fault_text(error), error.fix))
            return None
