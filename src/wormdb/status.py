"""How far a collection is: what an operator asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from wormdb.engine.index_state import PRIMARY
from wormdb.engine.listing import runs_of

if TYPE_CHECKING:
    from wormdb.engine.definition import Definition
    from wormdb.engine.ledger import Ledger

__all__ = ["CollectionStatus", "IndexSummary", "indexes_of", "status_of"]


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


def indexes_of(definition: Definition) -> tuple[IndexSummary, ...]:
    """The primary index and those of a definition, in order of their names, without dropped ones. No requests."""
    primary = IndexSummary(PRIMARY, (PRIMARY,), unique=True, state="ready")
    others = tuple(
        IndexSummary(each.index.name, each.index.fields, each.index.unique, each.state, each.reason)
        for each in definition.indexes
        if each.state != "dropped"
    )
    return (primary, *others)


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
    )
