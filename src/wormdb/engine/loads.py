"""What bulk jobs attached, as history: the blocks of a job are one version of each document in them.

They are kept as they were written, before the number of their entry was known; when, by whom and why is told by the
job's outcome in the root, or by the entry while no root has applied it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Protocol

import msgspec

from wormdb.engine.blocks.listing import runs_of
from wormdb.engine.blocks.runs import Runs, held_of
from wormdb.format.blocklist import BlockEntry
from wormdb.format.damage import corrupt
from wormdb.format.event import JobAttached
from wormdb.format.past import Version

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from wormdb.engine.blocks.shelf import Shelf
    from wormdb.engine.state.view import Held, Overlay
    from wormdb.format.entry import Entry
    from wormdb.format.past import Operation
    from wormdb.format.root import Root
    from wormdb.system.types import LogNumber

__all__ = ["Layer", "Load", "brought_by", "loads_of_root", "loads_of_tail", "with_operations"]


class Layer(Protocol):
    """Documents by the keys of their ids."""

    def get(self, key: bytes) -> Held | None:
        """What is under an id's key."""
        ...

    def scan(self, low: bytes = b"", high: bytes | None = None) -> Iterator[tuple[bytes, Held]]:
        """What is under the keys of a range, in order."""
        ...


@dataclass(frozen=True, slots=True)
class Load:
    """The documents that a job attached by entry `number`."""

    number: int
    misc: int
    actor: str | None
    meta: bytes | None
    layer: Layer

    def version(self, held: Held) -> Version:
        """A document of it as a version, which does not know yet what there was before."""
        op: Operation = "delete" if held.document is None else "create"
        return Version(held.id, held.seq, self.number, op, self.misc, self.actor, self.meta, document=held.document)


def loads_of_root(root: Root, shelf: Shelf) -> list[Load]:
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
        loads.append(Load(job.number, job.misc, job.actor, job.meta, _Documents(Runs(shelf, entries, pages))))
    return loads


def loads_of_tail(overlay: Overlay, number: LogNumber) -> list[Load]:
    """What jobs attached by entries after the root, up to `number`; without what brought its history. No requests."""
    entries = {entry.number: entry for entry in overlay.entries(number)}
    loads = []
    for attached in overlay.attached(number):
        entry = entries[attached.number]
        if brought_by(entry):
            continue
        batch = entry.batches[0] if entry.batches else None
        actor, meta = (None, None) if batch is None else (batch.actor, batch.meta)
        loads.append(Load(entry.number, entry.misc, actor, meta, attached.base))
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
class _Documents:
    """A layer of blocks that a root names."""

    runs: Runs

    def get(self, key: bytes) -> Held | None:
        row = self.runs.get(key)
        return None if row is None else held_of(row)

    def scan(self, low: bytes = b"", high: bytes | None = None) -> Iterator[tuple[bytes, Held]]:
        return ((key, held_of(row)) for key, row in self.runs.scan(low, high))
