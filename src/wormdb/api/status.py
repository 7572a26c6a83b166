"""How far a collection is: what an operator asks for."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from wormdb.engine.blocks.listing import runs_of
from wormdb.engine.state.indexes import PRIMARY
from wormdb.engine.tree.statistics import decode_statistics

if TYPE_CHECKING:
    from wormdb.engine.ledger import Ledger
    from wormdb.engine.state.definition import Definition
    from wormdb.engine.state.upgrade import Upgrades
    from wormdb.engine.state.view import View
    from wormdb.files.foreign.collection import ForeignCollection
    from wormdb.format.root import Root

__all__ = [
    "CollectionStatus",
    "IndexDescription",
    "IndexSummary",
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


@dataclass(frozen=True, slots=True)
class IndexDescription:
    """One index in detail. Numbers are of the last forwarding, and 0 for the primary one and until it is ready."""

    name: str
    fields: tuple[str, ...]
    type: Literal["standard", "multiValue", "compound"]
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
    """Who may write: readonly, readwrite or append."""
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


def indexes_of(definition: Definition) -> tuple[IndexSummary, ...]:
    """The primary index and those of a definition, in order of their names, without dropped ones. No requests."""
    others = tuple(
        IndexSummary(each.index.name, each.index.fields, each.index.unique, each.state, each.reason)
        for each in definition.indexes
        if each.state != "dropped" and not each.index.is_owners
    )
    return (_PRIMARY_SUMMARY, *others)


def indexes_of_files(files: ForeignCollection) -> tuple[IndexSummary, ...]:
    """The primary index and those of the model, by what their files are worth: one that is not used has failed.

    1 GET each, and what confirming them costs.
    """
    found = files.indexes()
    others = (
        IndexSummary(name, index.fields, index.unique, "ready" if found[name].is_used else "failed", found[name].reason)
        for name, index in sorted(files.site.model.indexes.items())
    )
    return (_PRIMARY_SUMMARY, *others)


def describe_index_of_files(files: ForeignCollection, name: str) -> IndexDescription | None:
    """One index file in detail; None if the model declares none of that name. Costs as `indexes_of_files`."""
    if name == PRIMARY:
        return _PRIMARY
    index = files.site.model.indexes.get(name)
    if index is None:
        return None
    found = files.index(name)
    return IndexDescription(
        name=name,
        fields=index.fields,
        type="compound" if len(index.fields) > 1 else index.type,
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
    return IndexDescription(
        name=name,
        fields=index.fields,
        type="compound" if len(index.fields) > 1 else "multiValue" if index.multi_valued else "standard",
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
        bson_types=index.bson_types,
    )


def status_of(ledger: Ledger) -> CollectionStatus:
    """The state of a collection. 2 GETs and 1 for each entry of the tail, for a ledger that was not used before."""
    view = ledger.view()
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
        indexes=indexes_of(definition),
        history_from=0 if root is None else root.history_from,
        version=definition.version,
        older_blocks=0 if root is None else _older(root, definition.upgrades),
    )


def _older(root: Root, upgrades: Upgrades) -> int:
    pages = sum(page.blocks for page in root.block_pages if upgrades.is_old(page))
    return sum(map(upgrades.is_old, root.blocks)) + pages
