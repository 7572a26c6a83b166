"""One entry on its way into one slot of the log, and what is told of the batches in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wormdb.engine.commit.operations import CommitId
from wormdb.errors import WormError
from wormdb.format.event import TransactionPrepared
from wormdb.system.types import LogNumber, Misc, WriteId

if TYPE_CHECKING:
    from collections.abc import Container

    from wormdb.engine.commit.offers import Offer
    from wormdb.format.change import LoggedBatch, LoggedChange
    from wormdb.format.entry import Entry
    from wormdb.system.types import StoreTime

__all__ = ["Attempt", "CommitResult", "Outcome", "batches_of", "committed", "offered"]


@dataclass(frozen=True, slots=True)
class CommitResult:
    """A batch that is in the log for good."""

    number: LogNumber
    misc: Misc
    changes: tuple[LoggedChange, ...]
    id: str = ""
    """Its commit id, as `resolve` takes it; empty if nothing had to be written."""
    time: StoreTime | None = None
    """The store's time of the answer that told; None if it showed none, or if another process wrote it."""


Outcome = CommitResult | WormError


@dataclass(slots=True)
class Attempt:
    """One entry on its way into one slot: the same bytes until its fate is known."""

    entry: Entry
    body: bytes
    known: StoreTime | None
    """When the state it was checked against was known, by the store's time."""
    answered: StoreTime | None = None
    """When the store said that it is there."""
    refused_only: bool = True
    """Whether every answer so far said that nothing was done, so that the entry is certainly not in the log."""

    @property
    def batches(self) -> int:
        """How many share the entry."""
        return len(batches_of(self.entry))

    def has(self, ids: Container[str]) -> bool:
        """Whether one of these batches is in the entry."""
        return any(batch.id in ids for batch in batches_of(self.entry))

    @property
    def number(self) -> LogNumber:
        """The slot."""
        return LogNumber(self.entry.number)

    def commit_id(self, batch: str) -> CommitId:
        """Of one of its batches."""
        return CommitId(self.number, WriteId(self.entry.write_id), batch)


def batches_of(entry: Entry) -> list[LoggedBatch]:
    """The batches of an entry: those that it writes, and those that it prepares for transactions."""
    prepared = (event.batch for event in entry.events if isinstance(event, TransactionPrepared))
    return [*entry.batches, *prepared] if entry.events else list(entry.batches)


def committed(entry: Entry, batch: str, time: StoreTime | None = None) -> CommitResult:
    """The outcome of a batch that an entry holds, as the store said at `time`."""
    (changes,) = (one.changes for one in batches_of(entry) if one.id == batch)
    number = LogNumber(entry.number)
    return CommitResult(number, Misc(entry.misc), changes, str(CommitId(number, WriteId(entry.write_id), batch)), time)


def offered(offer: Offer, batch: str) -> CommitId:
    """What a batch of an offer is called until it is known where it is."""
    entry = offer.entry
    return CommitId(LogNumber(entry.number), WriteId(entry.write_id), batch, offer.through - entry.number)
