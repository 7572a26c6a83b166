"""Follow the log from a number on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, Protocol

from wormdb.engine.commit.head import is_recent
from wormdb.errors import InvalidRequestError, SnapshotTooOldError
from wormdb.format.entry import Change
from wormdb.format.event import JobAttached

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.engine.log.entries import Log, Record
    from wormdb.engine.log.root import Register, RootState
    from wormdb.engine.state.view import Base
    from wormdb.format.entry import Batch
    from wormdb.system.types import LogNumber, StoreTime

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

    def __init__(self, log: Log, register: Register, after: LogNumber, past: Past, digest: bytes = b"") -> None:
        """Begin behind entry `after`, whose hash begins with `digest`. No requests."""
        self._log = log
        self._register = register
        self._number = after
        self._digest = digest
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
        and after a minute's silence, with 1 for the last entry that was seen if the root has not applied it. Raises
        SnapshotTooOldError if entries that were not seen yet have been trimmed, InvalidRequestError if the log is not
        the one that was seen: it ends before, or has another entry there.
        """
        begin = self._number
        for tail in self._log.rounds(begin):
            state = None if is_recent(self._known, tail.last) else self._check()
            if state is not None and not tail.records and self._number == begin:
                self._check_last(state)
            for record in tail.records:
                self._check_same(record.entry.previous)
                self._number, self._digest = record.number, record.hash
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

    def _check_last(self, state: RootState) -> None:
        """Raise InvalidRequestError unless the last entry that was seen is in the log, now that none follows it."""
        if state.root is not None and state.root.applied >= self._number:
            if state.root.applied == self._number:
                self._check_same(state.root.hash_applied)
            return
        record = self._log.read(self._number)[0] if self._number else None
        if record is not None:
            self._check_same(record.hash)
        elif self._number:
            self._refuse("it is not there")

    def _check_same(self, digest: bytes) -> None:
        """Raise InvalidRequestError if the entry of that hash is not the last one that was seen."""
        if self._number and not digest.startswith(self._digest):
            self._refuse("it is another one")

    def _refuse(self, reason: str) -> NoReturn:
        raise InvalidRequestError(
            f"the log of {self._log.collection} after entry {self._number}",
            reason=f"{reason}: the number is wrong, or the collection was removed and made again",
            fix="begin with 0, or with the newest entry",
        )
