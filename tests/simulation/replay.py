"""The log that was really written, replayed by a small model that shares no code with the engine.

It knows documents, the trash, indexes and their lives, and what bulk jobs attached, which it reads as
plain Parquet. Every later state and every change can be asked for: projections and answers are held against it.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

from wormdb.engine.tree.definition import Index, decode_index
from wormdb.format.entry import decode_entry
from wormdb.format.event import (
    CollectionClosed,
    IndexBuilding,
    IndexCreated,
    IndexDropped,
    IndexFailed,
    IndexReady,
    JobAttached,
    ListsCreated,
    SchemaChanged,
    SnapshotTaken,
)
from wormdb.format.json import decode_document
from wormdb.schema.load import load_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from wormdb.format.entry import Entry, LoggedBatch, LoggedChange
    from wormdb.format.event import Event

__all__ = ["Replay", "ReplayedChange", "ReplayedDocument", "ReplayedIndex", "State", "Violation", "shared_values"]

IndexLife = Literal["waiting", "building", "ready", "failed", "dropped"]


class Violation(AssertionError):  # noqa: N818 - it is a finding, not a failure of the harness
    """The engine broke a promise."""


@dataclass(frozen=True, slots=True)
class ReplayedDocument:
    """One document in the model; `body` is None after a delete, `trash` what can then be restored."""

    body: str | None
    rev: int
    seq: int
    trash: str | None = None

    @property
    def values(self) -> dict[str, Any] | None:
        """The document, parsed."""
        return None if self.body is None else decode_document(self.body.encode(), name="document")


@dataclass(frozen=True, slots=True)
class ReplayedIndex:
    """One index: what it is, how far it is, and by which entry it came there."""

    index: Index
    life: IndexLife
    number: int
    declared: bool = False


@dataclass(frozen=True, slots=True)
class ReplayedChange:
    """One change of one document."""

    number: int
    id: str
    seq: int
    op: str
    before: str | None
    after: str | None
    actor: str | None
    batch: str
    snapshot: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """The model after one log number."""

    documents: dict[str, ReplayedDocument]
    definition: bytes
    indexes: dict[str, ReplayedIndex] = field(default_factory=dict)

    def document(self, identity: str) -> dict[str, Any] | None:
        """A document, parsed; None if there is none."""
        stored = self.documents.get(identity)
        return None if stored is None else stored.values

    def rev(self, identity: str) -> int:
        """The revision of a document; 0 if there is none."""
        stored = self.documents.get(identity)
        return 0 if stored is None or stored.body is None else stored.rev

    def bodies(self) -> dict[str, str]:
        """Every document there is, as text."""
        return {identity: stored.body for identity, stored in self.documents.items() if stored.body is not None}

    @property
    def mode(self) -> str:
        """The mode of the collection; `readwrite` without a definition."""
        if not self.definition:
            return "readwrite"
        ((_, model),) = json.loads(self.definition).items()
        return str(model.get("mode", "readwrite"))

    @property
    def ready(self) -> list[Index]:
        """The indexes that answer."""
        return [living.index for _, living in sorted(self.indexes.items()) if living.life == "ready"]


def _is_removal(entry: Entry) -> bool:
    is_removal = any(isinstance(event, CollectionClosed) for event in entry.events)
    if is_removal and (len(entry.events) > 1 or any(batch.changes for batch in entry.batches)):
        raise Violation(f"entry {entry.number}: what removes the collection is not alone in it")
    return is_removal


class Replay:
    """The model at every log number, from the entries that were really created."""

    def __init__(self, entries: Mapping[int, bytes], collection: str, read: Callable[[str], bytes]) -> None:
        """Check that the log has no gap, chains by its hashes, and that every image and `seq` fits what was before.

        `read` gives the bytes of a block that a job attached, by its name. Raises Violation.
        """
        self.states = [State({}, b"")]
        self.entries: list[Entry] = []
        self.landed: dict[str, list[int]] = {}
        self.happened: list[ReplayedChange] = []
        self.taken: list[tuple[int, str, int]] = []
        """Snapshots taken by hand: number, id, seq."""
        self._read = read
        previous = bytes(32)
        if sorted(entries) != list(range(1, len(entries) + 1)):
            raise Violation(f"the log has gaps: {sorted(entries)}")
        for number in range(1, len(entries) + 1):
            body = entries[number]
            entry = decode_entry(body, name=f"entry {number}", number=number, collection=collection)
            if entry.previous != previous:
                raise Violation(f"entry {number} does not follow entry {number - 1} by its hash")
            previous = sha256(body).digest()
            self.entries.append(entry)
            self.states.append(self._following(self.states[-1], entry))

    @property
    def last(self) -> int:
        """The last log number."""
        return len(self.entries)

    def past_of(self, identity: str, number: int | None = None) -> list[ReplayedChange]:
        """Every change of one document up to a log number."""
        end = self.last if number is None else number
        return [change for change in self.happened if change.id == identity and change.number <= end]

    # --- one entry ---

    def _following(self, state: State, entry: Entry) -> State:
        if _is_removal(entry):
            return State({}, b"")
        documents = dict(state.documents)
        attached = [event for event in entry.events if isinstance(event, JobAttached)]
        for batch in entry.batches:
            self.landed.setdefault(batch.id, []).append(entry.number)
            for change in batch.changes:
                self._change(documents, entry.number, batch, change)
        if attached:
            if len(attached) > 1 or len(entry.batches) != 1 or entry.batches[0].changes:
                raise Violation(f"entry {entry.number}: what a job attaches is not alone in it")
            self._attach(documents, entry, attached[0])
        definition, indexes = state.definition, dict(state.indexes)
        for event in entry.events:
            if isinstance(event, SchemaChanged):
                if event.definition != definition:
                    indexes = _declared(indexes, event, entry.number)
                definition = event.definition
            elif isinstance(event, SnapshotTaken):
                self.taken.append((entry.number, str(json.loads(event.id)), event.seq))
            else:
                _live(indexes, event, entry.number)
        following = State(documents, definition, indexes)
        check_unique(following, entry.number)
        return following

    def _change(
        self, documents: dict[str, ReplayedDocument], number: int, batch: LoggedBatch, change: LoggedChange
    ) -> None:
        identity = str(json.loads(change.id))
        before = documents.get(identity)
        image = None if change.before is None else change.before.decode()
        if image != (None if before is None else before.body):
            raise Violation(f"entry {number}: the before image of {identity} is not what was there")
        if change.seq != (before.seq if before else 0) + 1:
            raise Violation(f"entry {number}: seq {change.seq} of {identity} follows {before}")
        after = None if change.after is None else change.after.decode()
        op = change.op or _operation(image, after)
        if op == "purge" and (before is None or before.trash is None):
            raise Violation(f"entry {number}: {identity} was purged, and it was not in the trash")
        trash = None if change.trash is None else change.trash.decode()
        documents[identity] = ReplayedDocument(after, number, change.seq, trash)
        self.happened.append(
            ReplayedChange(
                number, identity, change.seq, op, image, after, batch.actor, batch.id, snapshot=change.snapshot
            )
        )

    def _attach(self, documents: dict[str, ReplayedDocument], entry: Entry, event: JobAttached) -> None:
        added = 0
        for name in (block.name for block in sorted(event.blocks, key=lambda block: block.key_first)):
            for row in _rows(self._read(name)):
                identity = str(json.loads(row["_doc"])["_id"])
                before = documents.get(identity)
                if row["_seq"] != (before.seq if before else 0) + 1:
                    raise Violation(f"entry {entry.number}: seq {row['_seq']} of attached {identity} follows {before}")
                after = None if row["_deleted"] else row["_doc"]
                trash = row["_doc"] if row["_deleted"] and "document" in json.loads(row["_doc"]) else None
                image = None if before is None else before.body
                documents[identity] = ReplayedDocument(after, entry.number, row["_seq"], trash)
                op, brought = _operation(image, after), entry.batches[0]
                self.happened.append(
                    ReplayedChange(entry.number, identity, row["_seq"], op, image, after, brought.actor, brought.id)
                )
                added += (after is not None) - (image is not None)
        if added != event.added:
            raise Violation(f"entry {entry.number} says that it adds {event.added} documents, and it adds {added}")


def check_unique(state: State, number: int) -> None:
    """Raise Violation if a unique index that is ready has a value on two documents."""
    for index in state.ready:
        shared = shared_values(state, index) if index.unique else []
        if shared:
            raise Violation(f"entry {number}: more than one document has each of {shared} in {index.name}")


def shared_values(state: State, index: Index) -> list[str]:
    """The values, as JSON, that several documents have in an index. Fields are plain names."""
    owners: dict[str, list[str]] = {}
    for identity, body in state.bodies().items():
        found = [json.loads(body).get(name) for name in index.fields]
        if index.sparse and all(value is None for value in found):
            continue
        several = found[0] if len(found) == 1 and isinstance(found[0], list) else [found]
        for value in {json.dumps(value if isinstance(value, list) else [value]) for value in several}:
            owners.setdefault(value, []).append(identity)
    return sorted(value for value, names in owners.items() if len(names) > 1)


def _operation(before: str | None, after: str | None) -> str:
    return "delete" if after is None else "create" if before is None else "update"


def _rows(parquet: bytes) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq

    yield from pq.read_table(io.BytesIO(parquet), columns=["_seq", "_deleted", "_doc"]).to_pylist()


def _declared(indexes: dict[str, ReplayedIndex], event: SchemaChanged, number: int) -> dict[str, ReplayedIndex]:
    """The indexes under another model: what it no longer has is dropped, what is new waits or is ready at once."""
    ((name, source),) = json.loads(event.definition).items()
    wanted = {name: Index.of(name, index) for name, index in load_model(name, source).indexes.items()}
    kept = {
        name: replace(living, life="dropped", number=number, declared=False)
        if living.declared and name not in wanted
        else living
        for name, living in indexes.items()
    }
    for name, index in wanted.items():
        held = kept.get(name)
        if held is None or held.life == "dropped" or held.index != index:
            kept[name] = ReplayedIndex(index, "ready" if event.empty else "waiting", number, declared=True)
        else:
            kept[name] = replace(held, declared=True)
    return kept


_NEXT: dict[type[Event], tuple[IndexLife, frozenset[str]]] = {
    IndexBuilding: ("building", frozenset({"waiting"})),
    IndexReady: ("ready", frozenset({"building"})),
    IndexFailed: ("failed", frozenset({"waiting", "building"})),
    IndexDropped: ("dropped", frozenset({"waiting", "building", "ready", "failed"})),
}


def _live(indexes: dict[str, ReplayedIndex], event: Event, number: int) -> None:
    """What an event makes of one index."""
    if isinstance(event, IndexCreated | ListsCreated):
        held = indexes.get(event.name)
        if held is not None and held.life not in {"failed", "dropped"}:
            raise Violation(f"entry {number}: index {event.name} was created while it was {held.life}")
        index = decode_index(event.name, event.definition, source=f"entry {number}")
        declared = held is not None and held.declared
        indexes[event.name] = ReplayedIndex(index, "ready" if event.empty else "waiting", number, declared=declared)
    elif isinstance(event, IndexBuilding | IndexReady | IndexFailed | IndexDropped):
        life, before = _NEXT[type(event)]
        living = indexes[event.name]
        if living.life not in before:
            raise Violation(f"entry {number}: index {event.name} is {living.life} and becomes {life}")
        declared = living.declared and life != "dropped"
        indexes[event.name] = replace(living, life=life, number=number, declared=declared)
