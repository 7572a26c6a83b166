"""How far a collection is: what an operator asks for."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from wormdb.engine.blocks.runs import Runs, runs_of
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.lists.definition import why_renew
from wormdb.engine.state.indexes import PRIMARY, IndexStatus
from wormdb.engine.tree.statistics import decode_statistics
from wormdb.errors import InvalidRequestError, UnsupportedFormatError
from wormdb.files.foreign.manifest import ForeignManifest
from wormdb.files.table_state import table_states
from wormdb.files.write.tables import MANIFEST
from wormdb.format import json
from wormdb.format.bson_types import bson_type_of
from wormdb.format.field_statistics import decode_field_statistics
from wormdb.format.past import misc_ms
from wormdb.format.wrappers import moment
from wormdb.storage.url import parse_url

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from wormdb.api.access import Access
    from wormdb.engine.ledger import Ledger
    from wormdb.engine.log.root import Place
    from wormdb.engine.state.definition import Definition
    from wormdb.engine.state.upgrade import Upgrades
    from wormdb.engine.state.view import View
    from wormdb.engine.tree.definition import Index
    from wormdb.files.foreign.collection import ForeignCollection
    from wormdb.format.list_run import Calibration
    from wormdb.format.root import Root
    from wormdb.query.sources.source import Facts
    from wormdb.schema.model import Model

__all__ = [
    "CollectionManifest",
    "CollectionStatus",
    "IndexDescription",
    "IndexSummary",
    "ManifestStatus",
    "ParquetFile",
    "ParquetFiles",
    "describe_index",
    "describe_index_of_files",
    "indexes_of",
    "indexes_of_files",
    "status_of",
]


@dataclass(frozen=True, slots=True)
class IndexSummary:
    """One index of a collection."""

    name: str
    fields: tuple[str, ...]
    unique: bool
    state: Literal["waiting", "building", "ready", "failed", "dropped"]
    reason: str | None = None
    """Why it failed."""
    task: Literal["build", "renew"] | None = None
    """What is to be done, or is being done: an index is built, or one that is ready is made anew: it is outgrown."""


@dataclass(frozen=True, slots=True)
class IndexDescription:
    """One index in detail. Numbers are of the last forwarding, and 0 for the primary one and until it is ready."""

    name: str
    fields: tuple[str, ...]
    type: Literal["standard", "multiValue", "compound", "text", "vector"]
    unique: bool
    sparse: bool
    """Whether documents without any of the fields are left out."""
    declared: bool
    """Whether it is the primary one or the model's; otherwise `create_index` made it."""
    state: Literal["waiting", "building", "ready", "failed", "dropped"]
    reason: str | None
    """Why it failed."""
    entries: int
    distinct: int
    """Different values, about."""
    height: int
    """Levels of its tree: what a look-up reads."""
    buckets: int = 0
    """Parts of the histogram by which ranges are estimated; 0 until it is measured."""
    arrays: tuple[bool, ...] = ()
    """For each field whether a document had an array there; empty until it is measured."""
    bson_types: tuple[str, ...] = ()
    """For each field the only type that values may have; empty if all may be."""
    file: Literal["fresh", "stale", "missing", "damaged"] | None = None
    """The readable file of it: whole and new, behind, not there, or not what was written; None if none is kept."""
    file_reason: str | None = None
    """Why the file is not fresh."""
    runs: int = 0
    """Of an index of lists (text, vector): how many runs a look-up reads."""
    size: int = 0
    """Stored bytes of these."""
    is_outgrown: bool = False
    """Whether these had better be made anew; nodes do so, and `build_index` or `worm index build`."""
    outgrown_reason: str | None = None
    """Why."""
    is_renewed: bool = False
    """Whether that was begun: it goes on by steps, and meanwhile the old lists answer."""
    lists: int = 0
    """Of a vector index: how many lists there are, as far as that was measured."""
    recall: float | None = None
    """Of a vector index: what is expected to be found if a query asks for no recall; None until that is measured."""
    read_share: float | None = None
    """The share of all vectors that is read for that."""
    options: Mapping[str, Any] | None = None
    """What such an index was made with; None for others."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        lists = {"fields": list(self.fields), "arrays": list(self.arrays), "bson_types": list(self.bson_types)}
        return {**asdict(self), **lists}


@dataclass(frozen=True, slots=True)
class CollectionStatus:
    """One collection: what is in its log, and how much of that is in blocks, indexes and history."""

    name: str
    """The model's name, or the folder of a collection without one."""
    prefix: str
    """The folder in the bucket."""
    mode: str
    """Which changes are allowed: readonly, readwrite or append."""
    number: int
    """The newest log number."""
    applied: int
    """The log number through which it was brought forward."""
    lag_entries: int
    """Log entries that every reader has to read besides: `number` less `applied`."""
    lag_bytes: int
    """Their bytes."""
    count: int
    """How many documents there are."""
    blocks: int
    """Blocks that hold them."""
    runs: int
    """Sorted runs that the blocks form; a look-up may have to ask each."""
    indexes: tuple[IndexSummary, ...]
    """The primary one first, the others in order of their names."""
    history_from: int
    """History has every change after this log number."""
    version: int = 1
    """The newest version of the model."""
    older_blocks: int = 0
    """Blocks of older versions, which forwarding writes again; of a long list those of pages that have some."""


_PRIMARY_SUMMARY = IndexSummary(PRIMARY, (PRIMARY,), unique=True, state="ready")
_PRIMARY = IndexDescription(
    name=PRIMARY,
    fields=(PRIMARY,),
    type="standard",
    unique=True,
    sparse=False,
    declared=True,
    state="ready",
    reason=None,
    entries=0,
    distinct=0,
    height=0,
)


def indexes_of(definition: Definition, root: Root | None = None) -> tuple[IndexSummary, ...]:
    """The primary index and those of a definition, in order of their names, without dropped ones. No requests.

    With the root they tell which of them are to be made anew.
    """
    others = tuple(
        IndexSummary(each.index.name, each.index.fields, each.index.unique, each.state, each.reason, _task(each, root))
        for each in definition.indexes
        if each.state != "dropped" and not each.index.is_owners
    )
    return (_PRIMARY_SUMMARY, *others)


def _task(status: IndexStatus, root: Root | None) -> Literal["build", "renew"] | None:
    if status.state != "ready":
        return "build" if status.state in {"waiting", "building"} else None
    found = root.index(status.index.name) if root is not None and status.index.kind else None
    if root is None or found is None or found.lists is None:
        return None
    try:
        return "renew" if found.successor is not None or why_renew(found, status.index, root.changes) else None
    except UnsupportedFormatError:  # a kind of a newer release
        return None


def indexes_of_files(files: ForeignCollection) -> tuple[IndexSummary, ...]:
    """The primary index and those of the model, by what their files are worth: one that is not used has failed.

    1 GET each, and what confirming them costs.
    """
    found = files.indexes()
    others = (
        IndexSummary(name, index.fields, index.unique, "ready" if found[name].is_used else "failed", found[name].reason)
        for name, index in sorted(files.folder.model.indexes.items())
    )
    return (_PRIMARY_SUMMARY, *others)


def describe_index_of_files(files: ForeignCollection, name: str) -> IndexDescription | None:
    """One index file in detail; None if the model declares none of that name. Costs as `indexes_of_files`."""
    if name == PRIMARY:
        return _PRIMARY
    index = files.folder.model.indexes.get(name)
    if index is None:
        return None
    found = files.index(name)
    return IndexDescription(
        name=name,
        fields=index.fields,
        type="compound" if len(index.fields) > 1 and not index.is_lists else index.type,
        unique=index.unique,
        sparse=index.sparse,
        declared=True,
        state="ready" if found.is_used else "failed",
        reason=found.reason,
        entries=found.entries,
        distinct=found.distinct,
        height=0,
    )


def describe_index(view: View, name: str) -> IndexDescription | None:
    """One index of a state in detail; None if there is none of that name. No requests.

    One that was dropped is there until garbage collection has removed what it was stored in.
    """
    if name == PRIMARY:
        return _PRIMARY
    found = view.definition.indexes.get(name)
    if found is None or found.index.is_owners:
        return None
    stored = None if view.place is None else view.place.root.index(name)
    measured = None
    if stored is not None and stored.statistics is not None:
        measured = decode_statistics(stored.statistics, name="root")
    index = found.index
    described = IndexDescription(
        name=name,
        fields=index.fields,
        type=_type_of(index),
        unique=index.unique,
        sparse=index.sparse,
        declared=found.declared,
        state=found.state,
        reason=found.reason,
        entries=0 if stored is None else stored.entries,
        distinct=0 if measured is None else measured.distinct,
        height=0 if stored is None else stored.height,
        buckets=len(measured.bounds) + 1 if measured is not None and measured.entries else 0,
        arrays=() if measured is None else measured.arrays,
        bson_types=index.bson_types or _types_in_model(found, view.definition.model),
        runs=0 if stored is None or stored.lists is None else len(stored.lists.runs),
        size=0 if stored is None or stored.lists is None else stored.lists.size,
        options=json.parse(index.options.decode()) if index.kind else None,
    )
    if view.place is None or stored is None or stored.lists is None:
        return described
    why = why_renew(stored, index, view.place.root.changes)
    described = replace(
        described, is_outgrown=why is not None, outgrown_reason=why, is_renewed=stored.successor is not None
    )
    measured_lists = stored.lists.calibration
    return described if measured_lists is None else _with_recall(described, measured_lists)


def _with_recall(described: IndexDescription, found: Calibration) -> IndexDescription:
    from wormdb.engine.lists.probes import count_probes, expect_recall, share_read

    probes = count_probes(found.lists, None, found)
    recall = expect_recall(probes, found)
    return replace(
        described,
        lists=found.lists,
        recall=None if recall is None else round(recall, 3),
        read_share=None if recall is None else round(share_read(found), 3),
    )


def _type_of(index: Index) -> Literal["standard", "multiValue", "compound", "text", "vector"]:
    if index.kind:
        return "vector" if index.kind == "vector" else "text"
    return "compound" if len(index.fields) > 1 else "multiValue" if index.multi_valued else "standard"


def _types_in_model(status: IndexStatus, model: Model | None) -> tuple[str, ...]:
    """The types that the model in force checks for the fields of an index, by MongoDB's names."""
    declared = model.indexes.get(status.index.name) if status.declared and model is not None else None
    return () if declared is None else tuple(bson_type_of(name) or name for name in declared.bson_type)


def status_of(ledger: Ledger) -> CollectionStatus:
    """The state of a collection. 2 GETs and 1 for each entry of the tail, for a ledger that was not used before."""
    view = ledger.view()
    if view.definition.expiries:
        view = ledger.expiry.alive(view)
    definition, root = view.definition, None if view.place is None else view.place.root
    return CollectionStatus(
        name=ledger.collection.rstrip("/") if definition.model is None else definition.model.name,
        prefix=ledger.collection,
        mode="readwrite" if definition.model is None else definition.model.mode,
        number=view.number,
        applied=view.base_number,
        lag_entries=view.number - view.base_number,
        lag_bytes=ledger.lag_bytes,
        count=view.count,
        blocks=0 if root is None else len(root.blocks) + sum(page.blocks for page in root.block_pages),
        runs=0 if root is None else len(runs_of(root.blocks, root.block_pages)),
        indexes=indexes_of(definition, root),
        history_from=0 if root is None else root.history_from,
        version=definition.version,
        older_blocks=0 if root is None else _older(root, definition.upgrades),
    )


def _older(root: Root, upgrades: Upgrades) -> int:
    pages = sum(page.blocks for page in root.block_pages if upgrades.is_old(page))
    return sum(map(upgrades.is_old, root.blocks)) + pages


# --- The manifest of a collection: its file, and the columns of blocks, which answer queries without documents.

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
    columns: tuple[tuple[str, str], ...] = ()
    """Its columns of fields: each path and the type of column. Another file may have others, or other types."""


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
class CollectionManifest(Generic[T]):
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
        view = self.access.present().bare
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

        facts = EngineSource(view, self.access.ledger).facts
        root = None if view.place is None else view.place.root
        model = self.access.writer.model or view.definition.model  # the caller's own has its fields in order
        columns = tuple(sorted(facts.column_bytes)) if model is None else model.manifest_fields
        site = self.access.home.files.site(self.access.ledger)
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
            columns_fresh=root is not None and (not facts.blocks or _are_complete(facts, columns)),
            columns_bytes=sum(facts.column_bytes.get(name, 0) for name in columns),
        )


def _are_complete(facts: Facts, columns: Sequence[str]) -> bool:
    """Whether every block has each of the columns."""
    return facts.columns.issuperset(columns) and not any(facts.lacking_bytes.get(name) for name in columns)


def _no_manifest(model: Model | None) -> str:
    if model is None:
        return "the collection has no model"
    if model.is_singleton:
        return "the model has one document"
    return "no readable files are kept" if model.manifest.enabled else "the model has no manifest"


def _status_of_files(files: ForeignCollection) -> ManifestStatus:
    found, count = files.manifest()
    model = files.folder.model
    is_wanted = found.exists or (model.manifest.enabled and not model.is_singleton)
    reason = None if isinstance(found, ForeignManifest) else found.reason
    return ManifestStatus(
        exists=found.exists,
        fresh=found.is_fresh,
        count=count,
        last_updated=found.last_updated,
        size_bytes=found.size_bytes,
        partitioned=files.memory.is_partitioned and found.exists,
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
                columns=tuple((stats.path, stats.type) for stats in block.columns if stats.path != "_id"),
            )
        )
    return tuple(found)
