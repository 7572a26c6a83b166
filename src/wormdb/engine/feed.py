"""Follow the log from a number on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from wormdb.engine.head import is_recent
from wormdb.errors import SnapshotTooOldError
from wormdb.format.entry import Change
from wormdb.format.event import JobAttached

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.engine.log import Log, Record
    from wormdb.engine.register import Register, RootState
    from wormdb.engine.state import Base
    from wormdb.format.entry import Batch
    from wormdb.types import LogNumber, StoreTime

__all__ = ["Feed", "Past"]


class Past(Protocol):
    """What a feed needs to tell what a job attached."""

    def attached(self, event: JobAttached, number: LogNumber) -> Base:
        """The documents of blocks that entry `number` attaches."""
        ...

    def version(self, key: bytes, seq: int) -> bytes | None:
        """What change `seq` left of a document, as JSON."""
        ...


class Feed:
    """A place in the log that moves forward. For one thread."""

    def __init__(self, log: Log, register: Register, after: LogNumber, past: Past) -> None:
        """Begin behind entry `after`. No requests."""
        self._log = log
        self._register = register
        self._number = after
        self._past = past
        self._known: StoreTime | None = None

    def changes(self, record: Record) -> Iterator[tuple[Batch, Change]]:
        """The changes of an entry in order, each with the batch that it came in.

        What a job attached is read from its blocks, in order of id: 1 GET for each, and for a document that was there
        before what `History.version` costs. A document that came with its history is there once, as it came.
        """
        for batch in record.entry.batches:
            for change in batch.changes:
                yield batch, change
        for event in record.entry.events:
            if isinstance(event, JobAttached):
                (batch,) = record.entry.batches
                for key, held in self._past.attached(event, record.number).scan():
                    is_first = held.seq == 1 or event.history
                    before = None if is_first else self._past.version(key, held.seq - 1)
                    yield batch, Change(id=held.id, seq=held.seq, before=before, after=held.document, trash=held.trash)

    def poll(self) -> Iterator[Record]:
        """The entries there are now, in order, each once.

        1 GET an entry and at most as many more; 1 GET if there is none, and 1 for the root the first time
        and after a minute's silence. Raises SnapshotTooOldError if entries that were not seen yet have been trimmed.
        """
        for tail in self._log.rounds(self._number):
            state = None if is_recent(self._known, tail.last) else self._check()
            for record in tail.records:
                self._number = record.number
                yield record
            # An entry that was there may be old, and the next one be trimmed in a moment; only an empty slot
            # and what no root has applied yet are known for a while.
            if tail.ended:
                self._known = tail.first
            elif state is not None:
                self._known = state.time if state.applied <= self._number else None

    def _check(self) -> RootState:
        # Read after the slots: what is not trimmed now was not trimmed when they were looked at.
        state = self._register.read()
        if state.root is not None and state.root.trimmed > self._number:
            raise SnapshotTooOldError(
                f"the log of {self._log.collection} after number {self._number}",
                reason=f"entries up to {state.root.trimmed} have been trimmed",
            )
        return state
