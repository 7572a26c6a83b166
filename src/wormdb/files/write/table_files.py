"""Make the files of tables from a state, write those that are due, and let tables grow into parts and back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from wormdb.files.contents.index import (
    IndexFile,
    IndexMeta,
    IndexTexts,
    encode_index_file,
    encode_index_meta,
    type_in_file,
)
from wormdb.files.contents.manifest import (
    ManifestFile,
    ManifestMeta,
    encode_manifest,
    encode_manifest_meta,
    manifest_row,
)
from wormdb.files.write.guard import FileDraft, put_all, put_guarded
from wormdb.files.write.publish import name_document
from wormdb.files.write.tables import BEGINNING, has_parts, is_uneven, keys_of, lows_of, part_of, parts_of
from wormdb.format.files_record import FilesPart, FilesTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from wormdb.engine.state.view import View
    from wormdb.files.contents.names import FileNames
    from wormdb.files.write.tables import Place, TableKey, TablePatience, TableSpec
    from wormdb.schema.model import Model
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store

__all__ = ["TableWriter"]


class _Checksum(msgspec.Struct):
    checksum: str


_CHECKED: Final = msgspec.json.Decoder(_Checksum)


@dataclass(slots=True)
class _DueTable:
    """A table of which some files are to be written, and what the state has for them."""

    table: FilesTable
    spec: TableSpec
    numbers: frozenset[int]
    lows: list[Place]
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    """The rows of each file of a manifest."""
    keys: dict[str, bytes] = field(default_factory=dict)
    """The keys of the ids of these rows."""
    places: dict[int, list[Place]] = field(default_factory=dict)
    """The values and ids of each file of an index."""

    @classmethod
    def of(cls, table: FilesTable, spec: TableSpec, numbers: Iterable[int]) -> _DueTable:
        due = cls(table, spec, frozenset(numbers), [part.low for part in table.parts])
        due.rows = {number: {} for number in due.numbers}
        due.places = {number: [] for number in due.numbers}
        return due

    def count(self, number: int) -> int:
        return len(self.rows[number] if self.spec.index is None else self.places[number])

    def low(self, number: int) -> Place:
        """Where a file begins: at its first entry, so that no bound tells of one that is gone.

        The first file begins before every entry; one without entries stays where it is.
        """
        low = self.lows[number]
        if low == BEGINNING or not self.count(number):
            return low
        return (min(self.rows[number]), "") if self.spec.index is None else min(self.places[number])


@dataclass(frozen=True, slots=True)
class TableWriter:
    """Writes the tables of one state."""

    store: Store
    pool: Pool
    model: Model
    names: FileNames
    view: View
    updated: datetime | None
    """When the state was last changed."""
    check: Callable[[], None]
    """Asked before anything is deleted or cut anew; raises ConflictError if another writer was faster."""
    touched: set[str]
    """Gets the keys of all files that may have been written."""

    def write(
        self,
        tables: Sequence[FilesTable],
        specs: Mapping[TableKey, TableSpec],
        patience: TablePatience,
    ) -> tuple[tuple[FilesTable, ...], bool]:
        """Write the files that are due; the tables as they are then, and whether one of them is to be cut anew.

        Then the caller swaps the record and calls again. 1 PUT a file that is as the record says, and a scan of what is
        in it: of a part of a manifest its range of ids, otherwise of all documents, once for all tables together.
        """
        tables = [self._ranged(table) for table in tables]
        indexed = [(table, part) for table in tables if table.kind == "index" for part in table.parts]
        is_read = any(patience.is_due(table, part) for table, part in indexed)
        dues = {}
        for table in tables:
            spec = specs[table.kind, table.fields]
            is_near = is_read and table.kind == "index"
            due = [patience.is_due(table, part, is_near=is_near) for part in table.parts]
            numbers = [number for number, is_due in enumerate(due) if is_due]
            if numbers or table.obsolete:
                dues[spec.key] = _DueTable.of(table, spec, numbers)
        if any(due.table.is_parted for due in dues.values()):
            self.check()
        whole = [due for due in dues.values() if due.numbers and (due.spec.index or not due.table.is_parted)]
        if whole:
            self._collect(whole)
        written = [
            self._written(dues[table.kind, table.fields]) if (table.kind, table.fields) in dues else table
            for table in tables
        ]
        is_cut = any(table.parts[0].log == 0 for table in written if (table.kind, table.fields) in dues)
        return tuple(written), is_cut

    # --- what the state has ---

    def _ranged(self, table: FilesTable) -> FilesTable:
        """The table; for a manifest whose parts have no range of ids, after a scan that finds the ranges."""
        is_known = not table.is_parted or table.kind == "index" or not any(part.is_unknown for part in table.parts)
        if is_known:
            return table
        lows = [part.low for part in table.parts]
        ends: dict[int, tuple[bytes, bytes]] = {}
        for key, held in self.view.scan():
            text = "" if held.document is None else name_document(held.id)[1]
            if text:
                number = part_of(lows, (text, ""))
                first, _ = ends.get(number, (key, key))
                ends[number] = first, key
        parts = [
            replace(part, first=ends[number][0], last=ends[number][1]) if number in ends and part.is_unknown else part
            for number, part in enumerate(table.parts)
        ]
        return replace(table, parts=tuple(parts))

    def _collect(self, dues: Sequence[_DueTable], low: bytes = b"", high: bytes | None = None) -> None:
        rows = [due for due in dues if due.spec.index is None]
        indexed = [due for due in dues if due.spec.index is not None]
        texts = IndexTexts([due.spec.index for due in indexed if due.spec.index is not None], self.model)
        for key, held in self.view.scan(low, high):
            text = "" if held.document is None else name_document(held.id)[1]
            if held.document is None or not text:
                continue
            for due in rows:
                self._collect_row(due, key, text, held.document)
            for due, values in zip(indexed, texts.of(held.document), strict=True):
                for value in values:
                    number = part_of(due.lows, (value, text))
                    if number in due.numbers:
                        due.places[number].append((value, text))

    def _collect_row(self, due: _DueTable, key: bytes, text: str, document: bytes) -> None:
        number = part_of(due.lows, (text, ""))
        if number in due.numbers:
            due.rows[number][text] = manifest_row(document, self.model)
            due.keys[text] = key

    # --- files ---

    def _written(self, due: _DueTable) -> FilesTable:
        """The table after its files were written, or cut anew, to be written next time."""
        table = due.table
        cut = None if table.is_parted or table.obsolete or not due.numbers else self._cut(due)
        if cut is not None:
            return cut
        if table.is_parted and due.spec.index is None:
            parts = [self._range_written(due, number) for number in sorted(due.numbers)]
        else:
            parts = self._put(due, sorted(due.numbers))
        made = dict(zip(sorted(due.numbers), parts, strict=True))
        table = replace(table, parts=tuple(made.get(number, part) for number, part in enumerate(table.parts)))
        if table.is_parted and (made or table.meta is None):
            table = replace(table, meta=self._put_meta(table, due.spec))
        if table.obsolete:
            self.check()
            for key in table.obsolete:  # one after the other: what names the others goes first
                self.store.delete(key)
            table = replace(table, obsolete=())
        due.table = table
        if not table.is_parted:
            return (self._cut(due) if due.numbers else None) or table
        return self._joined(table)

    def _range_written(self, due: _DueTable, number: int) -> FilesPart:
        """One part of a manifest: only its own range of ids is read and held in memory."""
        part = due.table.parts[number]
        own = _DueTable.of(due.table, due.spec, [number])
        if part.last:
            self._collect([own], part.first, part.last + b"\0")
        (made,) = self._put(own, [number])
        return made

    def _put(self, due: _DueTable, numbers: Sequence[int]) -> list[FilesPart]:
        bodies = [self._encoded(due, number) for number in numbers]
        keys = keys_of(due.table, self.names)[1 if due.table.is_parted else 0 :]
        drafts = [
            FileDraft(keys[number], body, self.view.number, is_new=True, version=due.table.parts[number].version)
            for number, body in zip(numbers, bodies, strict=True)
        ]
        self.touched.update(draft.key for draft in drafts)
        made = []
        for number, body, written in zip(numbers, bodies, put_all(self.store, self.pool, drafts), strict=True):
            ids = sorted(due.keys[text] for text in due.rows[number])
            made.append(
                FilesPart(
                    low=due.low(number),
                    first=ids[0] if ids else b"",
                    last=ids[-1] if ids else b"",
                    log=max(self.view.number, 1),
                    count=due.count(number),
                    size=len(body),
                    checksum=_CHECKED.decode(body).checksum,
                    version=written.version,
                )
            )
        return made

    def _encoded(self, due: _DueTable, number: int) -> bytes:
        partition = number if due.table.is_parted else None
        index = due.spec.index
        if index is None:
            return encode_manifest(
                ManifestFile(
                    model=self.model.name,
                    count=due.count(number),
                    last_updated=self.updated,
                    checksum="",
                    entities=due.rows[number],
                    partition=partition,
                    log=self.view.number,
                    fields=self.model.manifest_fields,
                )
            )
        entries: dict[str, list[str]] = {}
        for value, text in sorted(due.places[number]):
            entries.setdefault(value, []).append(text)
        return encode_index_file(
            IndexFile(
                model=self.model.name,
                fields=index.fields,
                type=type_in_file(index),
                unique=index.unique,
                last_updated=self.updated,
                entries=entries,
                log=self.view.number,
                partition=partition,
            )
        )

    def _put_meta(self, table: FilesTable, spec: TableSpec) -> str:
        lows = [part.low for part in table.parts]
        ends: list[Place | None] = [*lows[1:], None]
        total = sum(part.count for part in table.parts)
        checksums = tuple(part.checksum for part in table.parts)
        index = spec.index
        if index is None:
            body = encode_manifest_meta(
                ManifestMeta(
                    total_count=total,
                    ranges=tuple(
                        (low[0], None if end is None else end[0]) for low, end in zip(lows, ends, strict=True)
                    ),
                    model=self.model.name,
                    fields=self.model.manifest_fields,
                    last_updated=self.updated,
                    log=self.view.number,
                    checksums=checksums,
                )
            )
        else:
            body = encode_index_meta(
                IndexMeta(
                    model=self.model.name,
                    fields=index.fields,
                    type=type_in_file(index),
                    unique=index.unique,
                    total_count=total,
                    ranges=tuple(zip(lows, ends, strict=True)),
                    last_updated=self.updated,
                    log=self.view.number,
                    checksums=checksums,
                )
            )
        key = keys_of(table, self.names)[0]
        self.touched.add(key)
        draft = FileDraft(key, body, self.view.number, is_new=True, version=table.meta)
        return put_guarded(self.store, draft).version

    # --- growing and shrinking ---

    def _cut(self, due: _DueTable) -> FilesTable | None:
        """A table in one file as one in parts, to be written next; None if it stays."""
        limits = self.model.manifest
        count = due.count(0)
        if not has_parts(count, limits.partition_threshold, is_parted=False):
            return None
        places = sorted((text, "") for text in due.rows[0]) if due.spec.index is None else sorted(due.places[0])
        lows = lows_of(places, parts_of(count, limits.partition_threshold, limits.max_partitions))
        if len(lows) == 1:
            return None
        ids: dict[int, list[bytes]] = {}
        for text, key in due.keys.items():
            ids.setdefault(part_of(lows, (text, "")), []).append(key)
        parts = [
            FilesPart(low=low, first=min(ids[number]), last=max(ids[number])) if number in ids else FilesPart(low=low)
            for number, low in enumerate(lows)
        ]
        obsolete = keys_of(due.table, self.names)
        return replace(due.table, is_parted=True, parts=tuple(parts), meta=None, obsolete=obsolete)

    def _joined(self, table: FilesTable) -> FilesTable:
        """A table in parts as one in a single file, to be written next; or as it is."""
        limits = self.model.manifest
        counts = [part.count for part in table.parts]
        # A file without entries, but for the first, has a bound that no entry has any more.
        stays = has_parts(sum(counts), limits.partition_threshold, is_parted=True) and all(counts[1:])
        if stays and not is_uneven(counts, limits.partition_threshold, limits.max_partitions):
            return table
        obsolete = keys_of(table, self.names)
        return replace(table, is_parted=False, parts=(FilesPart(),), meta=None, obsolete=obsolete)
