"""The manifest of a collection: its file, and the columns of blocks, which answer queries without documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from wormdb.engine.blocks.runs import Runs
from wormdb.engine.blocks.shelf import Shelf
from wormdb.errors import InvalidRequestError
from wormdb.files.foreign.manifest import Manifest as FileManifest
from wormdb.files.table_state import table_states
from wormdb.files.write.tables import MANIFEST
from wormdb.format.field_statistics import decode_field_statistics
from wormdb.format.past import misc_ms
from wormdb.format.wrappers import moment
from wormdb.storage.url import parse_url

if TYPE_CHECKING:
    from datetime import datetime

    from wormdb.api.access import Access
    from wormdb.engine.log.root import Place
    from wormdb.engine.state.upgrade import Upgrades
    from wormdb.engine.state.view import View
    from wormdb.files.foreign.collection import ForeignCollection
    from wormdb.schema.model import Model

__all__ = ["Manifest", "ManifestStatus", "ParquetFile", "ParquetFiles"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ManifestStatus:
    """The manifest file of a collection, and the columns of its blocks, which answer queries.

    Neither makes an answer wrong: a file only informs other programs, and without columns documents are read.
    """

    exists: bool
    """Whether the file is there, or one of several."""
    fresh: bool
    """Whether it is whole, and shows the newest state. Of files of another program: whether it is used."""
    count: int
    """How many documents the collection has."""
    last_updated: datetime | None
    """The time that the file says, in UTC; the oldest of several."""
    size_bytes: int
    """Bytes of the file, or of several."""
    partitioned: bool
    """Whether it is in several files."""
    fields: tuple[str, ...]
    """The fields that the model gives it; none if it has no manifest."""
    lag_entries: int
    """Log entries that are not in blocks; every reader reads them besides."""
    state: Literal["fresh", "stale", "missing", "damaged", "none"] = "none"
    """`stale`: the file is whole, and behind. `damaged`: it is not what was written. `none`: there is to be none."""
    reason: str | None = None
    """Why it is not fresh."""
    columns_fresh: bool = False
    """Whether every block has every field of the model's manifest as a column, and its type."""
    columns_bytes: int = 0
    """Bytes of these columns, about, as stored."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON, with names and times as the files have them."""
        time = self.last_updated
        return {
            "exists": self.exists,
            "fresh": self.fresh,
            "count": self.count,
            "lastUpdated": None if time is None else f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03}Z",
            "sizeBytes": self.size_bytes,
            "partitioned": self.partitioned,
            "fields": list(self.fields),
            "lagEntries": self.lag_entries,
            "state": self.state,
            "reason": self.reason,
            "columnsFresh": self.columns_fresh,
            "columnsBytes": self.columns_bytes,
        }


@dataclass(frozen=True, slots=True)
class ParquetFile:
    """One block of a collection, for whatever reads Parquet. Each has the columns `_id`, `_deleted` and `_doc`."""

    key: str
    """Its key in the store."""
    run: int
    """Of two rows with one `_id`, that in the file of the greater run counts."""
    rows: int
    deleted: int
    """How many of the rows say that a document was deleted: `_deleted` is true."""
    size_bytes: int
    id_type: str | None
    """The type of `_id` if all ids of the file have one; else None, and `_doc` tells them."""
    partial: tuple[str, ...]
    """Columns with rows whose value is of another type: null there, and only `_doc` has it."""
    is_older: bool = False
    """Whether rows are of an older version of the model, and not mapped yet: forwarding writes the file again."""


@dataclass(frozen=True, slots=True)
class ParquetFiles:
    """The blocks that together hold the documents of one state, the newest run first."""

    files: tuple[ParquetFile, ...]
    number: int
    """The log number that they go through."""
    lag_entries: int
    """Log entries that came later, and are in none of the files."""
    last_change: datetime | None
    """When the newest log entry was written, or all of them brought forward, in UTC."""
    place: str
    """The URL of the store, without secrets; empty if there are no files."""
    version: int = 1
    """The newest version of the model."""
    analyzed: datetime | None = None
    """When the values of fields were last analyzed for plans of queries, in UTC; None if the root keeps nothing."""
    analyzed_fields: tuple[str, ...] = ()
    """The fields of which it keeps something."""

    @property
    def older(self) -> int:
        """How many files are of an older version of the model."""
        return sum(each.is_older for each in self.files)

    @property
    def is_known(self) -> bool:
        """Whether the collection was ever written."""
        return bool(self.number or self.lag_entries)

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(each.size_bytes for each in self.files)

    def locate(self, file: ParquetFile) -> str:
        """Where other programs find a file: a path, or a URL such as s3://bucket/prefix/key. No requests.

        Raises InvalidRequestError for a database in memory.
        """
        url = parse_url(self.place)
        if url.scheme == "memory":
            raise InvalidRequestError(
                f"files of {self.place}", reason="they are in the memory of one process", fix="use a folder or a bucket"
            )
        if url.scheme == "file":
            return f"{url.path.rstrip('/')}/{file.key}"
        return "/".join(part for part in (f"{url.scheme}://{url.bucket}", url.prefix, file.key) if part)


@dataclass(frozen=True, slots=True)
class Manifest(Generic[T]):
    """Shows how far the columns of one collection are, and brings them up to date."""

    access: Access[T]

    def status(self) -> ManifestStatus:
        """1 GET in a warm process, and where a manifest file is kept 1 for it and 1 for the record of files.

        1 GET for each file of a manifest in several; of files of another program what their manifest costs, and if it
        is not fresh a listing.
        """
        files = self.access.files
        return self._status(self.access.present()) if files is None else _status_of_files(files)

    def build(self) -> ManifestStatus:
        """Bring the log forward, and the manifest file with it, whatever became of it. Costs as `rewrite_tables`."""
        access = self.access
        access.log.forward()
        access.write_tables([MANIFEST])
        return self.status()

    def invalidate(self) -> None:
        """Forget what this process knows. No requests."""
        self.access.ledger.forget()
        if self.access.readonly is not None:
            self.access.readonly.forget()

    def files(self) -> ParquetFiles:
        """1 GET in a warm process, and 1 for each page of a long list of blocks."""
        view = self.access.present()
        entries = view.overlay.entries(view.number)
        times = [entry.misc for entry in entries[-1:]] + ([] if view.place is None else [view.place.root.misc])
        fields = () if view.place is None else decode_field_statistics(view.place.root.statistics)
        return ParquetFiles(
            files=() if view.place is None else _files(view.place, view.definition.upgrades),
            number=view.base_number,
            lag_entries=view.number - view.base_number,
            last_change=moment(misc_ms(max(times))) if times else None,
            place="" if view.place is None else view.place.store.name,
            version=view.definition.version,
            analyzed=moment(misc_ms(max(field.misc for field in fields))) if fields else None,
            analyzed_fields=tuple(field.path for field in fields),
        )

    def _status(self, view: View) -> ManifestStatus:
        from wormdb.query.sources.engine import EngineSource

        facts = EngineSource.of(view, self.access.ledger).facts
        root = None if view.place is None else view.place.root
        model = self.access.writer.model or view.definition.model  # the caller's own has its fields in order
        columns = tuple(sorted(facts.column_bytes)) if model is None else model.manifest_fields
        site = self.access.context.files.site(self.access.ledger)
        file = table_states(site, [MANIFEST]).get(MANIFEST)
        return ManifestStatus(
            exists=file is not None and file.state != "missing",
            fresh=file is not None and file.state == "fresh",
            count=view.count,
            last_updated=None if file is None else file.last_updated,
            size_bytes=0 if file is None else file.size_bytes,
            partitioned=file is not None and file.is_parted,
            fields=() if model is None or not model.manifest.enabled else model.manifest_fields,
            lag_entries=view.number - view.base_number,
            state="none" if file is None else file.state,
            reason=_no_manifest(model) if file is None else file.reason,
            columns_fresh=root is not None and (not facts.blocks or facts.columns.issuperset(columns)),
            columns_bytes=sum(facts.column_bytes.get(name, 0) for name in columns),
        )


def _no_manifest(model: Model | None) -> str:
    if model is None:
        return "the collection has no model"
    if model.is_singleton:
        return "the model has one document"
    return "no readable files are kept" if model.manifest.enabled else "the model has no manifest"


def _status_of_files(files: ForeignCollection) -> ManifestStatus:
    found, count = files.manifest()
    model = files.site.model
    is_wanted = found.exists or (model.manifest.enabled and not model.is_singleton)
    reason = None if isinstance(found, FileManifest) else found.reason
    return ManifestStatus(
        exists=found.exists,
        fresh=found.is_fresh,
        count=count,
        last_updated=found.last_updated,
        size_bytes=found.size_bytes,
        partitioned=files.site.is_partitioned and found.exists,
        fields=model.manifest_fields if is_wanted else (),
        lag_entries=0,
        state="fresh" if found.is_fresh else "stale" if found.exists else "missing" if is_wanted else "none",
        reason=reason if is_wanted else _no_manifest(model),
    )


def _files(place: Place, upgrades: Upgrades) -> tuple[ParquetFile, ...]:
    runs = Runs(Shelf(place.store, place.pool, place.paths.data), place.root.blocks, place.root.block_pages)
    found = []
    for block in runs.blocks():
        ids = next((stats for stats in block.columns if stats.path == "_id"), None)
        found.append(
            ParquetFile(
                key=place.paths.block(block.name),
                run=block.run,
                rows=block.rows,
                deleted=block.deleted,
                size_bytes=block.length,
                id_type=None if ids is None or ids.others else ids.type,
                partial=tuple(stats.path for stats in block.columns if stats.others),
                is_older=upgrades.is_old(block),
            )
        )
    return tuple(found)
