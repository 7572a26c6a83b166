"""The files of manifests and indexes as they are now: fresh, behind, lost or damaged; and writing them again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from wormdb.files.compare.faults import TableFile, meta_fault, read_part
from wormdb.files.contents.expected import EDITED
from wormdb.files.sync import mend_tables
from wormdb.files.write.tables import TableKey, TableSpec, keys_of, specs_of
from wormdb.format.files_record import FilesPart, FilesTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from wormdb.files.compare.check import CollectionFiles, FilesState
    from wormdb.files.keeper import FilesKeeper

__all__ = ["TableState", "rewrite_tables", "table_states"]


@dataclass(frozen=True, slots=True)
class TableState:
    """The files of one manifest or index."""

    state: Literal["fresh", "stale", "missing", "damaged"]
    """`fresh`: whole, and of the newest state. `stale`: whole, and behind. `missing`: not there. `damaged`: no
    reader may use it."""
    reason: str | None
    """Why it is not fresh."""
    size_bytes: int
    """The size of all of its files."""
    last_updated: datetime | None
    """As the files say: the oldest of them."""
    is_parted: bool
    """Whether it is in several files."""


def table_states(site: CollectionFiles, keys: Iterable[TableKey] | None = None) -> dict[TableKey, TableState]:
    """The state of tables that the newest definition asks for, of all or of those in `keys`.

    Empty if files are not kept. 1 GET for the record, 1 for each file, and as `Ledger.view`.
    """
    opened = site.open()
    if opened is None:
        return {}
    specs = specs_of(opened.view.definition)
    tables = {} if opened.record is None else {(table.kind, table.fields): table for table in opened.record.tables}
    wanted = specs.keys() if keys is None else specs.keys() & set(keys)
    return {key: _TableInspection(site, opened, specs[key], tables.get(key)).state() for key in specs if key in wanted}


def rewrite_tables(site: CollectionFiles, keeper: FilesKeeper, keys: Iterable[TableKey]) -> None:
    """Write what waits, and of some tables the files that are lost, edited or foreign.

    Costs what waits, as `table_states`, and for tables that are not fresh then a scan of the documents and 1 PUT for
    each file. Raises UnavailableError, OutcomeUnknownError.
    """
    keeper.forget(site.ledger.collection)
    keeper.flush(site.ledger)
    wrong = {key for key, found in table_states(site, keys).items() if found.state != "fresh"}
    opened = site.open()
    if not wrong or opened is None or opened.record is None:
        return
    tables = [table for table in opened.record.tables if (table.kind, table.fields) in wrong]
    mend_tables(site, wrong, {key for table in tables for key in keys_of(table, opened.names)})
    keeper.forget(site.ledger.collection)
    keeper.flush(site.ledger)


@dataclass(frozen=True, slots=True)
class _TableInspection:
    """One look at the files of a table; without `table` the record does not know of it."""

    site: CollectionFiles
    opened: FilesState
    spec: TableSpec
    table: FilesTable | None

    def state(self) -> TableState:
        kind, fields = self.spec.key
        table = self.table or FilesTable(kind=kind, fields=fields, shape=self.spec.shape, parts=(FilesPart(),))
        keys = keys_of(table, self.opened.names)
        found = [each for each in self.site.store.get_many(keys, self.site.pool) if each is not None]
        bodies = {each.key: each.body for each in found}
        size = sum(map(len, bodies.values()))
        if not bodies:
            is_new = self.table is None or all(part.log == 0 for part in table.parts)
            reason = "it was not written yet" if is_new else "it was deleted"
            return TableState("missing", reason, 0, None, table.is_parted)
        parts = [
            read_part(self.opened.names, table, self.spec.index, number, bodies.get(key))
            for number, key in enumerate(keys[table.is_parted :])
        ]
        times = [file.last_updated for file, _ in parts if file is not None and file.last_updated is not None]
        damage = self._damage(table, keys[0], bodies.get(keys[0]), parts)
        behind = None if damage else self._behind(table, [file for file, _ in parts if file is not None])
        state: Literal["fresh", "stale", "damaged"] = "damaged" if damage else "stale" if behind else "fresh"
        return TableState(state, damage or behind, size, min(times, default=None), table.is_parted)

    def _damage(
        self, table: FilesTable, meta: str, body: bytes | None, parts: Sequence[tuple[TableFile | None, str]]
    ) -> str | None:
        """What makes the files useless as they are."""
        newest = self.opened.view.number
        for number, (file, fault) in enumerate(parts):
            part = table.parts[number]
            where = f"partition {number}: " if table.is_parted else ""
            if file is None:
                return where + fault
            if max(file.log or 0, 1) > max(newest, 1) or (part.log == file.log and part.checksum != file.checksum):
                return where + EDITED
        if table.is_parted and table.meta is not None:
            return meta_fault(table, meta, body, [file for file, _ in parts])
        return None

    def _behind(self, table: FilesTable, files: Sequence[TableFile]) -> str | None:
        """What the files do not show yet."""
        record = self.opened.record
        if self.table is None or record is None or table.shape != self.spec.shape or self.opened.is_to_be_written:
            return "it is to be written again"
        for part, file in zip(table.parts, files, strict=True):
            if part.log == 0:
                return "it is to be written again"
            if (file.log or 0) < part.log:
                return f"it is of log number {file.log or 0}, and should be of {part.log}"
        waiting = sum(part.pending for part in table.parts)
        if waiting:
            return f"{waiting:,} changes wait for it" if waiting > 1 else "1 change waits for it"
        lag = self.opened.view.number - self.opened.through
        if lag:
            return f"{lag:,} log entries are not in it" if lag > 1 else "1 log entry is not in it"
        return None
