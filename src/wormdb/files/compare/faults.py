"""Find the files of documents that are not as they should be: edited, missing, or there without reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from wormdb.errors import CorruptionError
from wormdb.files.contents.expected import (
    EDITED,
    EXTRA,
    MISSING,
    FiledDocument,
    expected_files,
    filed_documents,
    has_past,
    may_be_there,
)
from wormdb.files.contents.index import IndexFile, decode_index_file, decode_index_meta, index_texts, type_in_file
from wormdb.files.contents.manifest import ManifestFile, decode_manifest, decode_manifest_meta, manifest_row
from wormdb.files.contents.names import FileKey, FileNames, id_text
from wormdb.files.contents.values import to_canonical
from wormdb.files.write.publish import identity_of
from wormdb.files.write.tables import Place, TableKey, TableSpec, keys_of, part_of
from wormdb.format import json
from wormdb.format.key import encode_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from wormdb.engine.history.read import DocumentHistory, History
    from wormdb.engine.state.view import StoredVersion, View
    from wormdb.engine.tree.definition import Index
    from wormdb.files.contents.expected import ExpectedFile
    from wormdb.format.files_record import FilesTable
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store
    from wormdb.system.types import LogNumber

__all__ = ["DocumentFaults", "FileFault", "TableFaults", "TableFile", "list_files", "meta_fault", "read_part"]

_FILES_MAX: Final = 500
_BYTES_MAX: Final = 8 * 1024 * 1024
_ENGINE: Final = ".worm.db"


@dataclass(frozen=True, slots=True)
class FileFault:
    """A file that is not as it should be."""

    key: str
    what: str
    document: bytes | None = None
    """The key of the document's id that it is of."""
    table: TableKey | None = None
    """The table that it is of."""


@dataclass(frozen=True, slots=True)
class DocumentFaults:
    """The files of documents held against one view, whose files are complete through a number at least."""

    store: Store
    pool: Pool
    names: FileNames
    view: View
    history: History
    through: LogNumber

    # --- what should be there ---

    def wrong(self, each: Callable[[StoredVersion], None], told: Callable[[int], None]) -> Iterator[FileFault]:
        """Files that are missing or edited. 1 GET for each file, and a scan of documents and their history.

        `each` is called with every document, and `told` with the number of documents so far.
        """
        batch: list[tuple[bytes, str, ExpectedFile]] = []
        size = count = 0
        history = self.history if has_past(self.names) else None
        for key, held, recorded in filed_documents(self.view, history):
            identity = identity_of(held.id)
            if identity is None:
                continue
            each(held)
            for name, wanted in self._wanted(FiledDocument(key, identity, held, recorded)).items():
                batch.append((key, name, wanted))
                size += sum(map(len, wanted.bodies))
            count += 1
            if len(batch) >= _FILES_MAX or size >= _BYTES_MAX:
                yield from self._compared(batch)
                told(count)
                batch, size = [], 0
        yield from self._compared(batch)
        told(count)

    def _wanted(self, document: FiledDocument) -> dict[str, ExpectedFile]:
        if document.recorded is None and document.held.rev > self.through:
            recorded = self.history.recorded(document.key)
            document = FiledDocument(document.key, document.identity, document.held, recorded)
        return expected_files(document, self.names, self.through)

    def _compared(self, batch: list[tuple[bytes, str, ExpectedFile]]) -> Iterator[FileFault]:
        found = self.store.get_many([name for _, name, _ in batch], self.pool)
        for (key, name, wanted), there in zip(batch, found, strict=True):
            if there is None:
                if not wanted.may_lack:
                    yield FileFault(name, MISSING, key)
            elif there.body not in wanted.bodies:
                yield FileFault(name, EDITED, key)

    def again(self, keys: set[bytes]) -> Iterator[FileFault]:
        """`wrong` for some documents alone, by the keys of their ids. Costs as `History.recorded` for each."""
        for key, held in self.view.get_many(sorted(keys)).items():
            identity = identity_of(held.id)
            if identity is None:
                continue
            wanted = self._wanted(FiledDocument(key, identity, held, self.history.recorded(key)))
            yield from self._compared([(key, name, each) for name, each in wanted.items()])

    # --- what should not ---

    def unwanted(self, listed: list[tuple[str, FileKey]]) -> Iterator[FileFault]:
        """The files of documents in a listing that should not be there. Costs a look-up of each document."""
        ids = {name: encode_key(found.id) for name, found in listed}
        held = self.view.get_many(sorted(set(ids.values())))
        past: dict[bytes, DocumentHistory] = {}
        for name, found in listed:
            key = ids[name]
            known = held.get(key)
            is_right = not found.is_elsewhere and may_be_there(found, known, self.names, self.through)
            if is_right is None and known is not None:
                past[key] = recorded = past.get(key) or self.history.recorded(key)
                document = FiledDocument(key, json.decode(known.id, name="document id"), known, recorded)
                is_right = name in expected_files(document, self.names, self.through)
            if not is_right:
                yield FileFault(name, EXTRA, key)


def list_files(store: Store, names: FileNames) -> Iterator[list[tuple[str, FileKey]]]:
    """All files that are there, also where another layout puts them, in pages; not in the engine's folder.

    1 LIST for each 1,000 objects, and 4 at least.
    """
    for root in names.every_root:
        engine = f"{root}{_ENGINE}/"
        after: str | None = None
        is_whole = False
        while not is_whole:
            is_whole = True
            for page in store.list(root, after=after):
                keys = [each.key for each in page.objects]
                parsed = [(key, names.parse_anywhere(key)) for key in keys]
                yield [(key, found) for key, found in parsed if found is not None]
                if keys and keys[-1].startswith(engine):
                    # Nothing that begins alike is of interest: the next name has another sign than the slash.
                    after, is_whole = f"{root}{_ENGINE}0", False
                    break


# --- Hold the files of manifests and indexes against the documents, without having both in memory.
#
# Entries of a file and entries that documents should have are summed up as digests, in any order. Only where the sums
# differ everything of that file is held in memory, to name the entries. Documents that changed after a file was written
# are left out on both sides: the file is behind, not wrong.

TableFile: TypeAlias = ManifestFile | IndexFile
_NAMED_MAX: Final = 20
_MODULUS: Final = 1 << 128


@dataclass(slots=True)
class TableFaults:
    """The tables of one record. Show it every document of a view, then ask for the faults."""

    names: FileNames
    tables: Mapping[TableKey, FilesTable]
    specs: Mapping[TableKey, TableSpec]
    behind: dict[str, int] = field(default_factory=dict)
    """The texts of ids that changed after the oldest file was written, and when."""
    documents: int = 0
    _sums: dict[tuple[TableKey, int], int] = field(default_factory=dict)
    _oldest: int = 0

    @classmethod
    def of(cls, names: FileNames, tables: Iterable[FilesTable], specs: Mapping[TableKey, TableSpec]) -> TableFaults:
        """For the tables that are written as the definition says now; others are about to be written again."""
        known = {}
        for table in tables:
            spec = specs.get((table.kind, table.fields))
            if spec is not None and spec.shape == table.shape and all(part.log for part in table.parts):
                known[spec.key] = table
        made = cls(names, known, specs)
        made._oldest = min((part.log for table in known.values() for part in table.parts), default=0)
        return made

    def note(self, held: StoredVersion) -> None:
        """A document, or what is left of one. No requests."""
        self.documents += held.document is not None
        identity = identity_of(held.id)
        if identity is None or not self.tables:
            return
        text = id_text(identity)
        if held.rev > self._oldest:
            self.behind[text] = held.rev
        for key, number, place, row in self._entries(text, held):
            if held.rev <= self.tables[key].parts[number].log:
                self._sums[key, number] = (self._sums.get((key, number), 0) + _digest(place, row)) % _MODULUS

    def _entries(self, text: str, held: StoredVersion) -> Iterator[tuple[TableKey, int, Place, Any]]:
        """What a document has in each table: the number of the file, the place in it, and the row of a manifest."""
        if held.document is None:
            return
        for key, table in self.tables.items():
            lows = [part.low for part in table.parts]
            index = self.specs[key].index
            if index is None:
                yield key, part_of(lows, (text, "")), (text, ""), manifest_row(held.document, self.names.model)
            else:
                for value in index_texts(index, held.document, self.names.model):
                    yield key, part_of(lows, (value, text)), (value, text), None

    # --- files ---

    def faults(self, store: Store, pool: Pool, view: View) -> Iterator[FileFault]:
        """What is wrong with the files. 1 GET a file; a scan of the documents for one whose entries are wrong."""
        for key, table in self.tables.items():
            keys = keys_of(table, self.names)
            bodies = {found.key: found.body for found in store.get_many(keys, pool) if found is not None}
            parts = keys[1:] if table.is_parted else keys
            found: list[TableFile | None] = []
            for number, name in enumerate(parts):
                file, what = read_part(self.names, table, self.specs[key].index, number, bodies.get(name))
                wrong = [what] if file is None else self._part_faults(key, number, file, view)
                found.append(file)
                yield from (FileFault(name, each, table=key) for each in wrong)
            if table.is_parted and (fault := meta_fault(table, keys[0], bodies.get(keys[0]), found)):
                yield FileFault(keys[0], fault, table=key)

    def _part_faults(self, key: TableKey, number: int, file: TableFile, view: View) -> list[str]:
        part, log = self.tables[key].parts[number], max(file.log or 0, 1)
        if not part.log <= log <= max(view.number, 1):
            return [f"it is stale: it is of log number {file.log or 0}, and should be of {part.log}"]
        behind = {text for text, rev in self.behind.items() if rev > log}
        entries = {place: row for place, row in _entries_of(file).items() if _text(key, place) not in behind}
        if log > part.log:
            # It was written again, and the record does not say so yet: there is no sum for its number.
            return self._named(key, number, entries, view, log)
        total = sum(_digest(place, row) for place, row in entries.items()) % _MODULUS
        if total != self._sums.get((key, number), 0):
            return self._named(key, number, entries, view, log)
        return [] if file.checksum == part.checksum else [EDITED]

    def _named(self, key: TableKey, number: int, entries: dict[Place, Any], view: View, log: int) -> list[str]:
        """The entries that are wrong, missing or too many in a file of a log number."""
        left, wrong = dict(entries), []
        for _, held in view.scan():
            identity = identity_of(held.id)
            if identity is None or held.rev > log:
                continue
            for own, part, place, row in self._entries(id_text(identity), held):
                if (own, part) == (key, number) and (
                    place not in left or to_canonical(left.pop(place)) != to_canonical(row)
                ):
                    wrong.append(place)
        texts = [f"its entry {_shown(place)} is wrong or missing" for place in wrong]
        texts += [f"its entry {_shown(place)} should not be there" for place in left]
        return texts[:_NAMED_MAX]


def _entries_of(found: TableFile) -> dict[Place, Any]:
    if isinstance(found, ManifestFile):
        return {(text, ""): row for text, row in found.entities.items()}
    return {(value, text): None for value, ids in found.entries.items() for text in ids}


def _text(key: TableKey, place: Place) -> str:
    """The text of the id of an entry."""
    return place[0] if key[0] == "manifest" else place[1]


def _shown(place: Place) -> str:
    return f"{place[0]} → {place[1]}" if place[1] else place[0]


def _digest(place: Place, row: Any) -> int:
    return int.from_bytes(blake2b(to_canonical([*place, row]), digest_size=16).digest())


def read_part(
    names: FileNames, table: FilesTable, index: Index | None, number: int, body: bytes | None
) -> tuple[TableFile | None, str]:
    """The file of a part of a manifest or an index, or what is wrong within the file. No requests."""
    if body is None:
        return None, MISSING
    name = keys_of(table, names)[number + table.is_parted]
    found: TableFile
    try:
        found = decode_manifest(body, key=name) if index is None else decode_index_file(body, key=name)
    except CorruptionError as error:
        return None, f"{EDITED}: {error.reason}"
    fault = found.fault(names.model)
    if fault is None and isinstance(found, IndexFile) and index is not None:
        said, meant = (found.fields, found.type, found.unique), (index.fields, type_in_file(index), index.unique)
        fault = None if said == meant else "it is of another index"
    if fault is None and found.partition != (number if table.is_parted else None):
        fault = f"it says that it is part {found.partition}"
    return (found, "") if fault is None else (None, f"{EDITED}: {fault}")


def meta_fault(table: FilesTable, key: str, body: bytes | None, parts: Sequence[TableFile | None]) -> str | None:
    """What is wrong with what names the parts, as they are found; a part may have been written again since."""
    if body is None:
        return MISSING
    try:
        meta = decode_manifest_meta(body, key=key) if table.kind == "manifest" else decode_index_meta(body, key=key)
    except CorruptionError as error:
        return f"{EDITED}: {error.reason}"
    firsts = [(low, "") if isinstance(low, str) else low for low, _ in meta.ranges]
    if firsts != [part.low for part in table.parts]:
        return f"{EDITED}: its ranges are others"
    log = max(meta.log or 0, 1)
    if log < max(part.log for part in table.parts):
        return f"it is stale: it is of log number {meta.log or 0}"
    pairs = zip(meta.checksums or (), parts, strict=True)
    if any(part is not None and checksum != part.checksum and (part.log or 0) <= log for checksum, part in pairs):
        return f"{EDITED}: its partitions are others"
    return None
