"""How far the readable files of a collection are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wormdb.files.compare.check import names_in
from wormdb.files.compare.faults import list_files

if TYPE_CHECKING:
    from wormdb.files.compare.check import CollectionFiles
    from wormdb.format.files_record import FilesTable
    from wormdb.schema.model import Layout

__all__ = ["FilesStatus", "TableStatus", "status_of"]


@dataclass(frozen=True, slots=True)
class TableStatus:
    """A manifest or an index in files."""

    fields: tuple[str, ...]
    """The fields of an index; none for the manifest."""
    files: int
    """In how many it is."""
    count: int
    """How many entries are in them."""
    pending: int
    """Changes that are not in them."""
    through: int
    """The log number of the oldest of its files; 0 if one is still to be written."""


@dataclass(frozen=True, slots=True)
class FilesStatus:
    """The readable files of one collection."""

    collection: str
    enabled: bool
    oplog: Layout | None
    snapshots: Layout | None
    trash: Layout | None
    name: str
    """The folder of the collection in folders at the root of the bucket."""
    through: int
    """The log number through which files are complete; 0 if they never were."""
    lag_entries: int
    """Log entries that are not in files."""
    is_filling: bool
    """Whether all files are being written."""
    tables: tuple[TableStatus, ...]
    files: int | None = None
    """How many there are, if they were counted."""

    @property
    def pending(self) -> int:
        """Changes that manifests and indexes wait for."""
        return sum(table.pending for table in self.tables)

    def to_dict(self) -> dict[str, Any]:
        """For JSON, with names as files have them."""
        return {
            "collection": self.collection,
            "enabled": self.enabled,
            "storage": {"oplog": self.oplog, "snapshots": self.snapshots, "trash": self.trash, "name": self.name},
            "through": self.through,
            "lagEntries": self.lag_entries,
            "filling": self.is_filling,
            "pending": self.pending,
            "tables": [
                {
                    "type": "index" if table.fields else "manifest",
                    "fields": list(table.fields),
                    "files": table.files,
                    "count": table.count,
                    "pending": table.pending,
                    "through": table.through,
                }
                for table in self.tables
            ],
            "files": self.files,
        }


def status_of(site: CollectionFiles, *, counted: bool = False) -> FilesStatus:
    """How far the files are. 1 GET, and as `Ledger.view`; with `counted` also 1 LIST for each 1,000 objects."""
    record = site.register.read().record
    view = site.ledger.view().bare
    names = names_in(view, site.ledger.collection)
    switched = view.definition.files
    is_filling = record is not None and record.fill is not None
    through = 0 if record is None else record.through
    is_kept = view.definition.keeps_files
    files = None
    if counted and names is not None:
        files = sum(not found.is_elsewhere for page in list_files(site.store, names) for _, found in page)
    return FilesStatus(
        collection=site.ledger.collection,
        enabled=is_kept,
        oplog=None if switched is None else switched.oplog,
        snapshots=None if switched is None else switched.snapshots,
        trash=None if switched is None else switched.trash,
        name="" if switched is None else switched.name,
        through=through,
        lag_entries=view.number - through if is_kept else 0,
        is_filling=is_filling,
        tables=() if record is None else tuple(map(_table, record.tables)),
        files=files,
    )


def _table(table: FilesTable) -> TableStatus:
    return TableStatus(
        fields=table.fields,
        files=len(table.parts) + table.is_parted,
        count=sum(part.count for part in table.parts),
        pending=sum(part.pending for part in table.parts),
        through=min(part.log for part in table.parts),
    )
