"""How a part of the log is shared among tasks: ranges of entries, and parts of what a job attached.

The driver reads no entries for it but those that attached blocks, which a state knows by its jobs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

from wormdb.engine.feed import FeedParts, places_of
from wormdb.errors import InvalidRequestError
from wormdb.format.event import JobAttached
from wormdb.spark.stream.changes import PlacedChange

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wormdb.engine.log.entries import LogRecord
    from wormdb.engine.state.view import View

__all__ = ["HASH_DIGITS", "LogPosition", "Offset", "Stretch", "stretches"]


# --- Places in a log as Spark keeps them in its checkpoints.
#
# An offset says which changes have been read: all through entry `log`, and the first `place` of the entry after it, if
# that was larger than a micro-batch may be. It holds the hash of entry `log`, so that a log that was thrown away and
# begun anew is noticed; and where its stream began, which Spark does not keep: it asks again if the first micro-batch
# is repeated.

HASH_DIGITS: Final = 16
"""Digits of a hash that are kept: enough to tell a log from another one."""

_MARK: Final = re.compile(r"(\d+)\.(\d+)@([0-9a-f]*)")


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A place in a log: after entry `log`, and after the first `place` changes of the next one."""

    log: int
    place: int = 0
    hash: str = ""
    """Of entry `log`, the beginning of it."""

    @classmethod
    def of(cls, log: int, hash_: bytes, place: int = 0) -> LogPosition:
        """After entry `log`, whose hash is `hash_`."""
        return cls(log, place, hash_.hex()[:HASH_DIGITS])

    @classmethod
    def parse(cls, text: str) -> LogPosition:
        """What `str` gave; raises InvalidRequestError."""
        found = _MARK.fullmatch(text)
        if found is None:
            _foreign(text)
        return cls(int(found[1]), int(found[2]), found[3])

    def __str__(self) -> str:
        return f"{self.log}.{self.place}@{self.hash}"


@dataclass(frozen=True, slots=True)
class Offset:
    """How far a stream is, and where it began."""

    at: LogPosition
    first: LogPosition

    @classmethod
    def parse(cls, known: Mapping[str, Any]) -> Offset:
        """An offset as Spark keeps it; raises InvalidRequestError for one of another source."""
        try:
            at = LogPosition(known["log"], known["place"], known["hash"])
            return cls(at, LogPosition.parse(known["first"]))
        except (KeyError, TypeError):
            _foreign(known)

    def shown(self) -> dict[str, Any]:
        """As Spark keeps it."""
        return {"log": self.at.log, "place": self.at.place, "hash": self.at.hash, "first": str(self.first)}


def _foreign(what: object) -> NoReturn:
    raise InvalidRequestError(
        f"the offset {what}",
        reason='it is none of format("worm"): the checkpoint is of a query with another source',
        fix="use another checkpointLocation",
    )


TASK_ENTRIES: Final = 256
"""Entries that a task reads, some of them side by side."""
TASK_ROWS: Final = 100_000
"""Attached documents that a task reads, about: whole blocks, at least one."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """What one task reads: entries `first` to `last`, from place `start` of the first to before `stop` of the last."""

    first: int
    last: int
    start: int = 0
    stop: int | None = None
    """None is all of it."""
    hash: str = ""
    """What the entry before `first` must have, if it is not empty."""

    def read(self, parts: FeedParts, *, with_before: bool) -> Iterator[PlacedChange]:
        """The changes in it, in order. Costs as `FeedParts.records` and `FeedParts.changes`.

        Raises SnapshotTooOldError if an entry was trimmed, InvalidRequestError if the log is another one.
        """
        for record in parts.records(self.first - 1, self.last):
            if record.number == self.first:
                self._check(record, parts.log.collection)
            start = self.start if record.number == self.first else 0
            stop = self.stop if record.number == self.last else None
            for place, batch, change in parts.changes(record, start, stop, with_before=with_before):
                yield PlacedChange(record.entry, place, batch, change)

    def _check(self, record: LogRecord, collection: str) -> None:
        if self.hash and record.entry.previous.hex()[:HASH_DIGITS] != self.hash:
            raise InvalidRequestError(
                f"the stream of {collection} after entry {self.first - 1}",
                reason="its log is another one: the collection was removed and made again",
                fix="start with a new checkpointLocation",
            )


def stretches(
    view: View, parts: FeedParts, start: LogPosition, end: LogPosition, *, tasks: int | None = None
) -> list[Stretch]:
    """What lies between two places of a log, as shares of tasks; `tasks` of them if only entries are read.

    `view` has all of it. 1 GET for each entry by which a job attached documents.
    """
    first, last = start.log + 1, end.log + bool(end.place)
    attached = {job.number for job in view.jobs.known.values() if job.state == "attached"}
    # Those of which only a part is read stand alone, as those that are shared.
    alone = {number for number in attached if first <= number <= last}
    alone |= {first} if start.place else set()
    alone |= {last} if end.place else set()
    found: list[Stretch] = []
    reached = first
    share = TASK_ENTRIES if tasks is None else -(-(last - first + 1) // tasks) or 1
    for number in [*sorted(alone), last + 1]:
        found += [Stretch(low, min(low + share, number) - 1) for low in range(reached, number, share)]
        if number <= last:
            low = start.place if number == first else 0
            high = end.place if number == last and end.place else None
            found += (
                _parts(parts.record(number), low, high) if number in attached else [Stretch(number, number, low, high)]
            )
        reached = number + 1
    return [_checking(found[0], start.hash), *found[1:]] if found else []


def _parts(record: LogRecord, low: int, high: int | None) -> list[Stretch]:
    """An entry that attached blocks, cut where blocks begin."""
    high = places_of(record) if high is None else high
    cuts, reached = [low], sum(len(batch.changes) for batch in record.entry.batches)
    for event in record.entry.events:
        for block in event.blocks if isinstance(event, JobAttached) else ():
            reached += block.rows
            if TASK_ROWS <= reached - cuts[-1] < high - cuts[-1]:
                cuts.append(reached)
    number = int(record.number)
    return [Stretch(number, number, a, b) for a, b in zip(cuts, [*cuts[1:], high], strict=True)]


def _checking(stretch: Stretch, hash_: str) -> Stretch:
    return Stretch(stretch.first, stretch.last, stretch.start, stretch.stop, hash_)
