"""History as a projection of the log: every change of every document, in runs of blocks.

A row is a whole version (`wormdb.format.past`). Forwarding adds rows and merges runs; no row is ever changed, and none
is left out but those that the model does not keep (`retention`). What a bulk job attached is not written again: its
blocks, kept as they were, are the history of their documents; unless it brought blocks of history of its own, which are
kept as they were instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Protocol

import msgspec

from wormdb.engine.blocks.grow import Growth
from wormdb.engine.blocks.runs import Runs, held_of, is_run, runs_of
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.state.projection import ProjectionResult, ProjectionStep
from wormdb.engine.state.view import Overlay, StoredVersion, id_key
from wormdb.format import json
from wormdb.format.block import Row
from wormdb.format.blocklist import BlockEntry
from wormdb.format.event import JobAttached, SnapshotTaken
from wormdb.format.frame import corrupt
from wormdb.format.key import encode_key
from wormdb.format.past import HISTORY_COLUMNS, SnapshotMark, Version, encode_past, operation_of, past_id, past_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from wormdb.engine.history.retention import HistorySieve
    from wormdb.format.entry import Entry
    from wormdb.format.past import Operation
    from wormdb.format.root import Root
    from wormdb.system.types import LogNumber

__all__ = [
    "AttachedDocuments",
    "Layer",
    "brought_by",
    "loads_of_root",
    "loads_of_tail",
    "member_of",
    "past_of",
    "project_history",
    "stored_version",
    "with_operations",
]


def project_history(step: ProjectionStep, shelf: Shelf | None = None) -> ProjectionResult:
    """Every change of the step's entries as a new run of history, merged with others by the rule of `tiers`.

    2 PUTs a block that is written, 1 GET for each block of the runs that are merged; for an attached job 1 PUT for each
    page, if it brings many blocks of history. Raises UnavailableError, CorruptionError.
    """
    place, root = step.place, step.root
    shelf = shelf or Shelf(place.store, place.pool, place.paths.history)
    if step.attached is not None:
        assert not any(batch.changes for entry in step.entries for batch in entry.batches), "a job comes alone"
        return _bring(step, step.attached, shelf)
    runs = Runs(shelf, root.history, root.history_pages, keyed=False)
    # Marks of one version by one entry are one mark.
    past = ((key, row) for key, row in past_of(step.entries) if row.rev > step.erased.get(key, 0))
    rows = {_place(key, row): row for key, row in past}
    new = [(place, stored_version(rows[place])) for place in sorted(rows)]
    sieve = _sieve(step)
    sift = None if sieve is None else sieve.left
    growth = Growth(runs, step.writer, step.sizes, HISTORY_COLUMNS, member_of, sift=sift)
    grown = growth.grow(new, run=step.view.number)
    fields = {"history": grown.entries, "history_pages": grown.pages}
    dropped = {} if sieve is None or not grown.retired else {"dropped_through": sieve.trimmed}
    return ProjectionResult({**fields, **dropped}, grown.retired)


def _sieve(step: ProjectionStep) -> HistorySieve | None:
    if step.view.definition.retention is None:
        return None
    from wormdb.engine.history.retention import sieve_of  # few collections have one

    return sieve_of(step.root, step.view.definition.retention, step.time)


def _bring(step: ProjectionStep, job: JobAttached, shelf: Shelf) -> ProjectionResult:
    """What a job brought stays as it is, and is named for ever: the log has nothing of it but its hashes."""
    if not job.history:
        return ProjectionResult()
    number, root = step.view.number, step.root
    blocks = sorted(job.history, key=lambda block: block.key_first)
    if not is_run(blocks):
        corrupt(step.place.paths.entry(number), "the blocks of history of a job overlap")
    runs = Runs(shelf, root.brought, root.brought_pages, keyed=False)
    grown = Growth(runs, step.writer, step.sizes).append(blocks, run=number)
    return ProjectionResult({"brought": grown.entries, "brought_pages": grown.pages})


def member_of(row: Row) -> bytes:
    """What the filters of history know a row by: the key of its document's id."""
    return encode_key(row.id["d"])


def _place(key: bytes, row: Version | SnapshotMark) -> bytes:
    return past_key(key, row.seq, None if isinstance(row, Version) else row.rev)


def stored_version(row: Version | SnapshotMark) -> Row:
    """A version, or the mark of one, as a row of a block of history."""
    return Row(json.decode(past_id(row), name="id of a version"), row.rev, row.seq, encode_past(row))


def past_of(entries: Iterable[Entry]) -> Iterator[tuple[bytes, Version | SnapshotMark]]:
    """What entries add to history, each with the key of its document's id, in the order of the log."""
    for entry in entries:
        for batch in entry.batches:
            for change in batch.changes:
                yield (
                    id_key(change.id),
                    Version(
                        change.id,
                        change.seq,
                        entry.number,
                        operation_of(change),
                        entry.misc,
                        batch.actor,
                        batch.meta,
                        snapshot=change.snapshot,
                        document=change.after,
                    ),
                )
        for event in entry.events:
            if isinstance(event, SnapshotTaken):
                yield (
                    id_key(event.id),
                    SnapshotMark(event.id, event.seq, entry.number, entry.misc, _actor_of_events(entry)),
                )


def _actor_of_events(entry: Entry) -> str | None:
    """The actor of the events: batches that came for their events alone have no changes. None if not just one."""
    actors = {batch.actor for batch in entry.batches if not batch.changes}
    return actors.pop() if len(actors) == 1 else None


# --- What bulk jobs attached, as history: the blocks of a job are one version of each document in them.
#
# They are kept as they were written, before the number of their entry was known; when, by whom and why is told by the
# job's outcome in the root, or by the entry while no root has applied it.


class Layer(Protocol):
    """Documents by the keys of their ids."""

    def get(self, key: bytes) -> StoredVersion | None:
        """What is under an id's key."""
        ...

    def scan(self, low: bytes = b"", high: bytes | None = None) -> Iterator[tuple[bytes, StoredVersion]]:
        """What is under the keys of a range, in order."""
        ...


@dataclass(frozen=True, slots=True)
class AttachedDocuments:
    """The documents that a job attached by entry `number`."""

    number: int
    misc: int
    actor: str | None
    meta: bytes | None
    layer: Layer

    def without(self, erased: Mapping[bytes, int]) -> AttachedDocuments:
        """The same without what an entry erased that is not older; by the keys of ids."""
        gone = frozenset(key for key, number in erased.items() if number >= self.number)
        return replace(self, layer=_LeftDocuments(self.layer, gone)) if gone else self

    def version(self, held: StoredVersion) -> Version:
        """A document of it as a version, which does not know yet what there was before."""
        op: Operation = "delete" if held.document is None else "create"
        return Version(held.id, held.seq, self.number, op, self.misc, self.actor, self.meta, document=held.document)


def loads_of_root(root: Root, shelf: Shelf) -> list[AttachedDocuments]:
    """What jobs attached by entries that a root has applied; `shelf` is of the folder of data. No requests.

    Without those that brought the history of their documents. Raises CorruptionError if the root does not know one of
    the jobs.
    """
    jobs = {job.number: job for job in root.jobs if job.state == "attached"}
    told = {run.through for run in runs_of(root.brought, root.brought_pages)}
    loads = []
    for number, runs in groupby(runs_of(root.attached, root.attached_pages), key=lambda run: run.through):
        if number in told:
            continue
        job = jobs.get(number)
        if job is None:
            corrupt(f"the root of {root.path}", f"it has forgotten the job that entry {number} attached")
        parts = [part for run in runs for part in run.parts]
        entries = [part for part in parts if isinstance(part, BlockEntry)]
        pages = [part for part in parts if not isinstance(part, BlockEntry)]
        loads.append(
            AttachedDocuments(job.number, job.misc, job.actor, job.meta, _BlockDocuments(Runs(shelf, entries, pages)))
        )
    return loads


def loads_of_tail(overlay: Overlay, number: LogNumber) -> list[AttachedDocuments]:
    """What jobs attached by entries after the root, up to `number`; without what brought its history. No requests."""
    entries = {entry.number: entry for entry in overlay.entries(number)}
    loads = []
    for attached in overlay.attached(number):
        entry = entries[attached.number]
        if brought_by(entry):
            continue
        batch = entry.batches[0] if entry.batches else None
        actor, meta = (None, None) if batch is None else (batch.actor, batch.meta)
        loads.append(AttachedDocuments(entry.number, entry.misc, actor, meta, attached.base))
    return loads


def brought_by(entry: Entry) -> tuple[BlockEntry, ...]:
    """The blocks of history that the job of an entry brought, named as a run of it. No requests."""
    blocks = [block for event in entry.events if isinstance(event, JobAttached) for block in event.history]
    return tuple(msgspec.structs.replace(block, run=entry.number) for block in blocks)


def with_operations(versions: Sequence[Version], loaded: AbstractSet[int]) -> list[Version]:
    """Versions in order, those by the entries `loaded` with what they did: the version before tells."""
    told = list(versions[:1])
    for before, version in pairwise(versions):
        if version.rev in loaded:
            there, stays = before.document is not None, version.document is not None
            op: Operation = ("update" if there else "create") if stays else ("delete" if there else "purge")
            told.append(replace(version, op=op))
        else:
            told.append(version)
    return told


@dataclass(frozen=True, slots=True)
class _LeftDocuments:
    """A layer without some documents."""

    layer: Layer
    gone: frozenset[bytes]

    def get(self, key: bytes) -> StoredVersion | None:
        return None if key in self.gone else self.layer.get(key)

    def scan(self, low: bytes = b"", high: bytes | None = None) -> Iterator[tuple[bytes, StoredVersion]]:
        return ((key, held) for key, held in self.layer.scan(low, high) if key not in self.gone)


@dataclass(frozen=True, slots=True)
class _BlockDocuments:
    """A layer of blocks that a root names."""

    runs: Runs

    def get(self, key: bytes) -> StoredVersion | None:
        row = self.runs.get(key)
        return None if row is None else held_of(row)

    def scan(self, low: bytes = b"", high: bytes | None = None) -> Iterator[tuple[bytes, StoredVersion]]:
        return ((key, held_of(row)) for key, row in self.runs.scan(low, high))
