"""Follow the log from a number on."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

from wormdb.engine.blocks.fetch import rows_at
from wormdb.engine.blocks.runs import held_of
from wormdb.engine.commit.head import is_recent
from wormdb.errors import InvalidRequestError, RemovedError, SnapshotTooOldError
from wormdb.format.entry import LoggedChange
from wormdb.format.event import CollectionClosed, JobAttached
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.engine.blocks.shelf import Shelf
    from wormdb.engine.commit.head import BaseLoader
    from wormdb.engine.history.read import History
    from wormdb.engine.log.entries import Log, LogRecord
    from wormdb.engine.log.root import Register, RootState
    from wormdb.engine.state.view import Base
    from wormdb.format.blocklist import BlockEntry
    from wormdb.format.entry import LoggedBatch
    from wormdb.system.types import StoreTime

__all__ = ["Feed", "FeedHistory", "FeedParts", "LedgerPast", "check_goes_on", "places_of"]


class FeedHistory(Protocol):
    """What a feed needs to tell what a job attached."""

    def attached(self, event: JobAttached, number: LogNumber) -> Base:
        """The documents of blocks that entry `number` attaches."""
        ...

    def version(self, key: bytes, seq: int) -> bytes | None:
        """What change `seq` left of a document, as JSON."""
        ...


@dataclass(frozen=True, slots=True)
class LedgerPast:
    """The past of a collection, as a process has it."""

    load: BaseLoader
    history: Callable[[], History]

    def attached(self, event: JobAttached, number: LogNumber) -> Base:
        """The documents of blocks that entry `number` attaches."""
        return self.load.attached(event, number)

    def version(self, key: bytes, seq: int) -> bytes | None:
        """What change `seq` left of a document, as JSON."""
        found = self.history().version(key, seq)
        return None if found is None else found.document


class Feed:
    """A place in the log that moves forward. For one thread."""

    def __init__(self, log: Log, register: Register, after: LogNumber, past: FeedHistory, digest: bytes = b"") -> None:
        """Begin behind entry `after`, whose hash begins with `digest`. No requests."""
        self._log = log
        self._register = register
        self._number = after
        self._digest = digest
        self._past = past
        self._known: StoreTime | None = None

    def changes(self, record: LogRecord) -> Iterator[tuple[LoggedBatch, LoggedChange]]:
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
                    yield (
                        batch,
                        LoggedChange(id=held.id, seq=held.seq, before=before, after=held.document, trash=held.trash),
                    )

    def poll(self) -> Iterator[LogRecord]:
        """The entries there are now, in order, each once.

        1 GET an entry and at most as many more; 1 GET if there is none, and 1 for the root the first time
        and after a minute's silence, with 1 for the last entry that was seen if the root has not applied it. Raises
        SnapshotTooOldError if entries that were not seen yet have been trimmed, InvalidRequestError if the log is not
        the one that was seen: it ends before, or has another entry there.
        """
        begin = self._number
        for tail in self._log.rounds(begin):
            number = self._number
            state = None if is_recent(self._known, tail.last) else self._check()
            if number < self._number:
                yield from self.poll()  # the slots of a life that ended are not its own
                return
            if state is not None and not tail.records and self._number == begin:
                self._check_last(state)
            for record in tail.records:
                self._check_same(record.entry.previous)
                self._number, self._digest = record.number, record.hash
                check_goes_on(record, self._log.collection)
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
        if self._number == 0 and state.root is not None:
            self._number = LogNumber(state.root.removed)  # the beginning of a collection that was made anew
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


def check_goes_on(record: LogRecord, collection: str) -> None:
    """Raise RemovedError if an entry removed the collection: what follows it are changes of another one."""
    if any(isinstance(event, CollectionClosed) for event in record.entry.events):
        raise RemovedError(
            f"the log of {collection}",
            reason=f"entry {record.number} removed the collection",
            fix=f"forget its documents; what comes behind entry {record.number} is of a new collection",
        )


# --- Parts of the log by their numbers: for processes that share a change feed, or stop within an entry.
#
# The changes of an entry have places, counted from 0: first those that it holds itself, then what a job attached, block
# after block. They never move, so a place in the log is an entry's number and a place in it.

ENTRIES_AT_ONCE: Final = 16
"""Entries are asked for side by side, but not more of them: each may have 64 MiB."""
ROWS_AT_ONCE: Final = 4_096
"""Documents of a job for which what was there before is looked up together."""


def places_of(record: LogRecord) -> int:
    """How many changes an entry has, with those that its jobs attached. No requests."""
    own = sum(len(batch.changes) for batch in record.entry.batches)
    return own + sum(block.rows for event in _attaching(record) for block in event.blocks)


@dataclass(frozen=True, slots=True)
class FeedParts:
    """Reads entries by number, and changes by their places. What it gives is the same in every process."""

    log: Log
    register: Register
    shelf: Shelf
    """Of the folder of data."""
    history: Callable[[], History]
    """Of a state that has all entries that are asked for."""

    def record(self, number: int) -> LogRecord:
        """One entry that is known to have been there. 2 GETs; raises SnapshotTooOldError if it was trimmed."""
        (record,) = self.records(number - 1, number)
        return record

    def records(self, after: int, through: int) -> Iterator[LogRecord]:
        """The entries after one number through another, in order. 1 GET each, some side by side, and 1 for those.

        Raises SnapshotTooOldError if one of them was trimmed.
        """
        for start in range(after, through, ENTRIES_AT_ONCE):
            stop = min(start + ENTRIES_AT_ONCE, through)
            found = self.log.between(LogNumber(start), LogNumber(stop), self.register)
            if found is None:
                self._too_old(start + 1)
            for record in found:
                check_goes_on(record, self.log.collection)
                yield record

    def changes(
        self, record: LogRecord, start: int = 0, stop: int | None = None, *, with_before: bool = True
    ) -> Iterator[tuple[int, LoggedBatch, LoggedChange]]:
        """The changes of an entry with their places and batches, from place `start` up to but not including `stop`.

        What a job attached costs as `rows_at` of its blocks; where it replaced documents, and with
        `with_before`, also what look-ups in history cost, or a scan of it if they are many.
        """
        stop = places_of(record) if stop is None else stop
        own = ((batch, change) for batch in record.entry.batches for change in batch.changes)
        for place, (batch, change) in islice(enumerate(own), start, stop):
            yield place, batch, change
        first = sum(len(batch.changes) for batch in record.entry.batches)
        for event in _attaching(record):
            (batch,) = record.entry.batches
            for block in event.blocks:
                low, high = max(start - first, 0), min(stop - first, block.rows)
                if low < high:
                    found = self._attached(block, low, high, with_before=with_before and not event.history)
                    yield from ((first + place, batch, change) for place, change in found)
                first += block.rows

    def _attached(
        self, block: BlockEntry, start: int, stop: int, *, with_before: bool
    ) -> Iterator[tuple[int, LoggedChange]]:
        rows = enumerate(rows_at(self.shelf, block, start, stop), start)
        while several := list(islice(rows, ROWS_AT_ONCE)):
            helds = [(place, key, held_of(row)) for place, (key, row) in several]
            wanted = {key: held.seq - 1 for _, key, held in helds if held.seq > 1} if with_before else {}
            before = self.history().versions_at(wanted) if wanted else {}
            for place, key, held in helds:
                image = before[key].document if key in before else None
                yield place, LoggedChange(id=held.id, seq=held.seq, before=image, after=held.document, trash=held.trash)

    def _too_old(self, number: int) -> NoReturn:
        root = self.register.read().root
        trimmed = 0 if root is None else root.trimmed
        reason = f"entries up to {trimmed} have been trimmed" if trimmed >= number else "it has been removed"
        raise SnapshotTooOldError(f"entry {number} of the log of {self.log.collection}", reason=reason)


def _attaching(record: LogRecord) -> list[JobAttached]:
    return [event for event in record.entry.events if isinstance(event, JobAttached)]
