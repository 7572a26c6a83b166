"""Hold the files of manifests and indexes against the documents, without having both in memory.

Entries of a file and entries that documents should have are summed up as digests, in any order. Only where the sums
differ everything of that file is held in memory, to name the entries. Documents that changed after a file was written
are left out on both sides: the file is behind, not wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from wormdb.errors import CorruptionError
from wormdb.files.faults import EDITED, MISSING, Fault
from wormdb.files.index_file import decode_index_file, decode_index_meta, index_texts
from wormdb.files.manifest_file import ManifestFile, decode_manifest, decode_manifest_meta, manifest_row
from wormdb.files.names import id_text
from wormdb.files.partition import part_of
from wormdb.files.plain import canonical
from wormdb.files.publish import identity_of
from wormdb.files.tables import keys_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wormdb.engine.state import Held, View
    from wormdb.files.index_file import IndexFile
    from wormdb.files.names import FileNames
    from wormdb.files.partition import Place
    from wormdb.files.tables import TableKey, TableSpec
    from wormdb.format.files_record import FilesTable
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store

__all__ = ["TableFaults"]

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
        """Of the tables that are written as the definition says now; others are about to be written again."""
        known = {}
        for table in tables:
            spec = specs.get((table.kind, table.fields))
            if spec is not None and spec.shape == table.shape and all(part.log for part in table.parts):
                known[spec.key] = table
        made = cls(names, known, specs)
        made._oldest = min((part.log for table in known.values() for part in table.parts), default=0)
        return made

    def note(self, held: Held) -> None:
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

    def _entries(self, text: str, held: Held) -> Iterator[tuple[TableKey, int, Place, Any]]:
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

    def faults(self, store: Store, pool: Pool, view: View) -> Iterator[Fault]:
        """What is wrong with the files. 1 GET a file; a scan of the documents for one whose entries are wrong."""
        for key, table in self.tables.items():
            names = keys_of(table, self.names)
            bodies = [None if found is None else found.body for found in store.get_many(names, pool)]
            if table.is_parted:
                if (what := _meta_fault(table, names[0], bodies[0])) is not None:
                    yield Fault(names[0], what, table=key)
                names, bodies = names[1:], bodies[1:]
            for number, (name, body) in enumerate(zip(names, bodies, strict=True)):
                for what in self._part_faults(key, number, name, body, view):
                    yield Fault(name, what, table=key)

    def _part_faults(self, key: TableKey, number: int, name: str, body: bytes | None, view: View) -> list[str]:
        if body is None:
            return [MISSING]
        table = self.tables[key]
        part = table.parts[number]
        is_manifest = self.specs[key].index is None
        try:
            found = decode_manifest(body, key=name) if is_manifest else decode_index_file(body, key=name)
        except CorruptionError as error:
            return [f"{EDITED}: {error.reason}"]
        if (fault := found.fault(self.names.model)) is not None:
            return [f"{EDITED}: {fault}"]
        if max(found.log or 0, 1) != part.log:
            return [f"it is stale: it is of log number {found.log or 0}, and should be of {part.log}"]
        if found.partition != (number if table.is_parted else None):
            return [f"{EDITED}: it says that it is part {found.partition}"]
        behind = {text for text, rev in self.behind.items() if rev > part.log}
        entries = {place: row for place, row in _entries_of(found).items() if _text(key, place) not in behind}
        total = sum(_digest(place, row) for place, row in entries.items()) % _MODULUS
        if total != self._sums.get((key, number), 0):
            return self._named(key, number, entries, view)
        return [] if found.checksum == part.checksum else [EDITED]

    def _named(self, key: TableKey, number: int, entries: dict[Place, Any], view: View) -> list[str]:
        """The entries that are wrong, missing or too many."""
        left, wrong = dict(entries), []
        log = self.tables[key].parts[number].log
        for _, held in view.scan():
            identity = identity_of(held.id)
            if identity is None or held.rev > log:
                continue
            for own, part, place, row in self._entries(id_text(identity), held):
                if (own, part) == (key, number) and (place not in left or canonical(left.pop(place)) != canonical(row)):
                    wrong.append(place)
        texts = [f"its entry {_shown(place)} is wrong or missing" for place in wrong]
        texts += [f"its entry {_shown(place)} should not be there" for place in left]
        return texts[:_NAMED_MAX]


def _entries_of(found: ManifestFile | IndexFile) -> dict[Place, Any]:
    if isinstance(found, ManifestFile):
        return {(text, ""): row for text, row in found.entities.items()}
    return {(value, text): None for value, ids in found.entries.items() for text in ids}


def _text(key: TableKey, place: Place) -> str:
    """The text of the id of an entry."""
    return place[0] if key[0] == "manifest" else place[1]


def _shown(place: Place) -> str:
    return f"{place[0]} → {place[1]}" if place[1] else place[0]


def _digest(place: Place, row: Any) -> int:
    return int.from_bytes(blake2b(canonical([*place, row]), digest_size=16).digest())


def _meta_fault(table: FilesTable, key: str, body: bytes | None) -> str | None:
    if body is None:
        return MISSING
    lows = [part.low for part in table.parts]
    try:
        if table.kind == "manifest":
            meta = decode_manifest_meta(body, key=key)
            firsts = [(low, "") for low, _ in meta.ranges]
            checksums, total = meta.checksums, meta.total_count
        else:
            of_index = decode_index_meta(body, key=key)
            firsts = [low for low, _ in of_index.ranges]
            checksums, total = of_index.checksums, of_index.total_count
    except CorruptionError as error:
        return f"{EDITED}: {error.reason}"
    if firsts != lows:
        return f"{EDITED}: its ranges are others"
    if checksums != tuple(part.checksum for part in table.parts) or total != sum(part.count for part in table.parts):
        return "it is stale: its partitions are others"
    return None
