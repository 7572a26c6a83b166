"""The retained log: every entry reads, and each names the hash of the one before it.

The root knows the hashes at `trimmed` and at `applied`, so an entry that was edited, removed or put in between is
noticed. What was removed from the end of the tail leaves no trace.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from wormdb.engine.history.changes import past_of
from wormdb.engine.log.entries import BEFORE_FIRST, LogRecord
from wormdb.engine.state.erased import erasures_of
from wormdb.errors import CorruptionError
from wormdb.format.event import JobAttached, TransactionFinished, TransactionPrepared
from wormdb.format.past import SnapshotMark, encode_past
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wormdb.format.entry import Entry
    from wormdb.format.root import Root
    from wormdb.maintenance.audit.report import AuditReport
    from wormdb.maintenance.collection import StoredCollection

__all__ = ["Chain", "check_chain", "digest_of"]

_AT_ONCE: Final = 32
_BEYOND: Final = 2
"""Slots looked at after the end: if one of them is filled, an entry before it was removed."""
SUM_BITS: Final = 128


@dataclass(slots=True)
class Chain:
    """What of the log is compared with the other lists. About 100 bytes in memory for each entry."""

    begins: int = 0
    """The first number that must be there."""
    last: int = 0
    """The newest number that is there."""
    sums: dict[int, int] = field(default_factory=dict)
    """By number of each applied entry, the sum of the digests of the rows that it adds to history."""
    jobs: dict[int, JobAttached] = field(default_factory=dict)
    """Blocks that entries attached."""
    broken: dict[int, str] = field(default_factory=dict)
    """Why an entry is not as it was written."""
    growth: int = 0
    """How many documents more there are after the last entry than in the root."""
    pending: dict[str, TransactionPrepared] = field(default_factory=dict)
    """Transactions that were prepared and are not finished, by their ids."""
    at_root: frozenset[str] = frozenset()
    """Those that were pending when the root had applied the log."""
    erased: dict[bytes, int] = field(default_factory=dict)
    """What applied entries erased, by the keys of ids, each with the last of these entries."""
    hashes: dict[int, bytes] = field(default_factory=dict)
    """What a broken entry's hash must have been, where the next one tells."""

    def has_job(self, number: int) -> bool:
        """Whether an entry attached blocks."""
        return number in self.jobs

    def has_entry(self, number: int) -> bool:
        """Whether there is a sum to compare with."""
        return number in self.sums

    @property
    def is_whole(self) -> bool:
        """Whether everything can be made from it."""
        return self.begins == 1 and self.last > 0 and not self.broken


def digest_of(cell: bytes) -> int:
    """What stands for a row of history in a sum."""
    return int.from_bytes(blake2b(cell, digest_size=SUM_BITS // 8).digest(), "big")


def sum_of(entry: Entry, erased: Mapping[bytes, int] | None = None) -> int:
    """What an entry adds to history, without what later ones erased. Marks of one version by one entry are one mark."""
    past = [(key, row) for key, row in past_of([entry]) if not erased or row.rev > erased.get(key, 0)]
    rows = {(key, row.seq, isinstance(row, SnapshotMark)): row for key, row in past}
    return sum(digest_of(encode_past(row)) for row in rows.values()) % (1 << SUM_BITS)


def check_chain(site: StoredCollection, root: Root | None, report: AuditReport) -> Chain:
    """Read the log that a root leaves, or all of it. 1 GET an entry, and at its end 3 that find nothing.

    After a long tail these may be up to 32.
    """
    walk = _ChainWalk(site, root, Chain(begins=1 + (0 if root is None else root.trimmed)))
    for number, found in walk.slots():
        walk.take(number, found)
        report.count("entries")
        report.look(site.paths.entry(number))
    walk.settle()
    report.count("documents", walk.chain.growth)
    for broken, why in sorted(walk.chain.broken.items()):
        report.add("log", site.paths.entry(LogNumber(broken)), why)
    return walk.chain


_Slot = LogRecord | CorruptionError | None
"""What is in a slot of the log: an entry, damage, or nothing."""


def _empty_at_end(found: Sequence[tuple[LogNumber, _Slot]]) -> int:
    return next((count for count, (_, slot) in enumerate(reversed(found)) if slot is not None), len(found))


@dataclass(slots=True)
class _ChainWalk:
    site: StoredCollection
    root: Root | None
    chain: Chain
    previous: bytes | None = None
    """The hash of the entry before; None if unknown."""

    def __post_init__(self) -> None:
        self.previous = BEFORE_FIRST if self.root is None else self.root.hash_trimmed
        if self.root is not None:  # what was prepared before the log begins, only the root has
            old = (one for one in self.root.pending if one.number < self.chain.begins)
            self.chain.pending = {one.prepared.tx: one.prepared for one in old}
            self.chain.at_root = frozenset(self.chain.pending)

    @property
    def applied(self) -> int:
        return 0 if self.root is None else self.root.applied

    def slots(self) -> Iterator[tuple[LogNumber, _Slot]]:
        """The slots through `applied`, and those after it until nothing comes."""
        start, width = self.chain.begins, 1 + _BEYOND
        while start <= self.applied:
            stop = min(start + _AT_ONCE, self.applied + 1)
            yield from self._window(start, stop)
            start = stop
        while True:
            found = self._window(start, start + width)
            while 0 < (empty := _empty_at_end(found)) <= _BEYOND:
                after = found[-1][0] + 1
                found += self._window(after, after + 1 + _BEYOND - empty)
            # A slot may have been filled while we asked for those after it: then it is there now.
            for place, (number, record) in enumerate(found[: len(found) - empty]):
                if record is None:
                    found[place] = number, self._read(number)
            yield from found[: len(found) - empty]
            if empty:
                return
            start, width = found[-1][0] + 1, min(2 * width, _AT_ONCE)

    def _window(self, start: int, stop: int) -> list[tuple[LogNumber, _Slot]]:
        numbers = [LogNumber(number) for number in range(start, stop)]
        return list(zip(numbers, self.site.pool.map(self._read, numbers), strict=True))

    def _read(self, number: LogNumber) -> _Slot:
        try:
            return self.site.log.read(number)[0]
        except CorruptionError as error:
            return error

    def take(self, number: LogNumber, found: _Slot) -> None:
        chain = self.chain
        if found is None:
            chain.broken[number] = "it is missing"
        elif isinstance(found, CorruptionError):
            chain.broken[number] = found.reason
        else:
            entry = found.entry
            if self.previous is not None and entry.previous != self.previous:
                # Whichever of the two was changed, the one does not lead to the other.
                chain.broken.setdefault(max(number - 1, chain.begins), f"entry {number} does not follow it by its hash")
            if number - 1 in chain.broken:
                chain.hashes[number - 1] = entry.previous
            self._note(entry)
        chain.last = number
        self.previous = found.hash if found is not None and not isinstance(found, Exception) else None
        if number == self.applied:
            self._compare_applied(number)

    def _note(self, entry: Entry) -> None:
        if entry.number <= self.applied:
            self.chain.sums[entry.number] = sum_of(entry)
            self.chain.erased |= erasures_of((entry,))
        else:
            changes = [change for batch in entry.batches for change in batch.changes]
            self.chain.growth += sum((one.after is not None) - (one.before is not None) for one in changes)
        for event in entry.events:
            if isinstance(event, JobAttached):
                self.chain.jobs[entry.number] = event
                self.chain.growth += event.added if entry.number > self.applied else 0
            elif isinstance(event, TransactionPrepared):
                self.chain.pending[event.tx] = event
            elif isinstance(event, TransactionFinished):
                self._finish(entry, event)
        if entry.number == self.applied:
            self.chain.at_root = frozenset(self.chain.pending)

    def _finish(self, entry: Entry, event: TransactionFinished) -> None:
        """What finishes a transaction must have its batch as it was prepared, or none of it."""
        prepared = self.chain.pending.pop(event.tx, None)
        if prepared is None:
            if self.chain.begins == 1:
                self.chain.broken[entry.number] = f"it finishes transaction {event.tx}, which was not prepared"
            return
        found = [batch for batch in entry.batches if batch.id == prepared.batch.id]
        if found != ([prepared.batch] if event.committed and prepared.batch.changes else []):
            self.chain.broken[entry.number] = f"it does not finish transaction {event.tx} as that was prepared"

    def _compare_applied(self, number: int) -> None:
        assert self.root is not None
        if self.previous is None:
            self.previous = self.root.hash_applied
        elif self.previous != self.root.hash_applied:
            self.chain.broken[number] = "it is not the entry that the root has applied, by its hash"
            self.previous = self.root.hash_applied
        if number in self.chain.broken:
            self.chain.hashes[number] = self.root.hash_applied

    def settle(self) -> None:
        """What a broken entry says is not to be compared with."""
        for number in self.chain.broken:
            self.chain.sums.pop(number, None)
            self.chain.jobs.pop(number, None)
