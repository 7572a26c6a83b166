"""The retained log: every entry reads, and each names the hash of the one before it.

The root knows the hashes at `trimmed` and at `applied`, so an entry that was edited, removed or put in between is
noticed. What was removed from the end of the tail leaves no trace.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from wormdb.engine.head import BEFORE_FIRST
from wormdb.engine.history import past_of
from wormdb.errors import CorruptionError, UnsupportedFormatError
from wormdb.format.event import JobAttached
from wormdb.format.past import Taken, encode_past
from wormdb.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.engine.log import Record
    from wormdb.format.entry import Entry
    from wormdb.format.root import Root
    from wormdb.maintenance.report import Report
    from wormdb.maintenance.site import Site

__all__ = ["Chain", "check_chain", "digest_of"]

_AT_ONCE: Final = 32
_BEYOND: Final = 2
"""Slots looked at after the end: if one of them is filled, an entry before it was removed."""
SUM_BITS: Final = 128


@dataclass(slots=True)
class Chain:
    """What the log tells to those who compare with it. About 100 bytes in memory for each entry."""

    begins: int = 0
    """The first number that must be there."""
    last: int = 0
    """The newest number that is there."""
    sums: dict[int, int] = field(default_factory=dict)
    """Of each applied entry: the sum of the digests of the rows that it adds to history."""
    jobs: dict[int, JobAttached] = field(default_factory=dict)
    """Blocks that entries attached."""
    broken: dict[int, str] = field(default_factory=dict)
    """Why an entry is not as it was written."""
    hashes: dict[int, bytes] = field(default_factory=dict)
    """What a broken entry's hash must have been, where the next one tells."""

    @property
    def is_whole(self) -> bool:
        """Whether everything can be made from it."""
        return self.begins == 1 and self.last > 0 and not self.broken


def digest_of(cell: bytes) -> int:
    """What stands for a row of history in a sum."""
    return int.from_bytes(blake2b(cell, digest_size=SUM_BITS // 8).digest(), "big")


def sum_of(entry: Entry) -> int:
    """What an entry adds to history. Marks of one version by one entry are one mark."""
    rows = {(key, row.seq, isinstance(row, Taken)): row for key, row in past_of([entry])}
    return sum(digest_of(encode_past(row)) for row in rows.values()) % (1 << SUM_BITS)


def check_chain(site: Site, root: Root | None, report: Report) -> Chain:
    """Read the log that a root leaves, or all of it. 1 GET an entry, and 3 more at its end."""
    walk = _Walk(site, root, Chain(begins=1 + (0 if root is None else root.trimmed)))
    for number, found in walk.slots():
        walk.take(number, found)
        report.count("entries")
        report.look(site.paths.entry(number))
    walk.settle()
    for broken, why in sorted(walk.chain.broken.items()):
        report.add("log", site.paths.entry(LogNumber(broken)), why)
    return walk.chain


@dataclass(slots=True)
class _Walk:
    site: Site
    root: Root | None
    chain: Chain
    previous: bytes | None = None
    """The hash of the entry before; None if nobody knows."""

    def __post_init__(self) -> None:
        self.previous = BEFORE_FIRST if self.root is None else self.root.hash_trimmed

    @property
    def applied(self) -> int:
        return 0 if self.root is None else self.root.applied

    def slots(self) -> Iterator[tuple[LogNumber, Record | CorruptionError | UnsupportedFormatError | None]]:
        """The slots through `applied`, and those after it until nothing comes."""
        start = self.chain.begins
        while True:
            numbers = [LogNumber(number) for number in range(start, start + _AT_ONCE)]
            if start > self.applied:
                numbers = numbers[: 1 + _BEYOND]
            found = list(self.site.pool.map(self._read, numbers))
            # A slot after the end may have been filled while we asked: then the one before it is there now.
            for place, number in enumerate(numbers):
                if found[place] is None and number > self.applied and any(found[place + 1 :]):
                    found[place] = self._read(number)
            for number, record in zip(numbers, found, strict=True):
                if number > self.applied and record is None and not any(found[numbers.index(number) :]):
                    return
                yield number, record
            start = numbers[-1] + 1

    def _read(self, number: LogNumber) -> Record | CorruptionError | UnsupportedFormatError | None:
        try:
            return self.site.log.read(number)[0]
        except (CorruptionError, UnsupportedFormatError) as error:
            return error

    def take(self, number: LogNumber, found: Record | CorruptionError | UnsupportedFormatError | None) -> None:
        chain = self.chain
        if found is None:
            chain.broken[number] = "it is missing"
        elif isinstance(found, CorruptionError | UnsupportedFormatError):
            chain.broken[number] = found.reason
        else:
            entry = found.entry
            if self.previous is not None and entry.previous != self.previous:
                # Whichever of the two was changed, nobody can follow from the one to the other.
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
        for event in entry.events:
            if isinstance(event, JobAttached):
                self.chain.jobs[entry.number] = event

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
