"""Read the write-forward log: one object a number, found by guessing the next one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from wormdb.format.entry import Entry, decode_entry, entry_hash
from wormdb.format.event import check_acted_on
from wormdb.settings import POOL_THREADS, TAIL_PROBES_MAX
from wormdb.system.types import LogNumber, StoreTime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.engine.log.paths import EnginePaths
    from wormdb.engine.log.root import Register
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Probe, Store

__all__ = ["BEFORE_FIRST", "Chase", "Log", "LogRecord", "TailRound"]

BEFORE_FIRST = bytes(32)
"""What the first entry carries as the hash of the one before it."""


@dataclass(frozen=True, slots=True)
class LogRecord:
    """An entry as it was found, with the hash that the next one must carry."""

    entry: Entry
    hash: bytes
    bytes: int

    @property
    def number(self) -> LogNumber:
        """Its place in the log."""
        return LogNumber(self.entry.number)


class TailRound(msgspec.Struct, frozen=True):
    """One round of guesses: the entries found in unbroken order, and the store's times.

    `ended` says that the number after the last record was not there. Times are None if the store
    shows none. `enough` is the number before the slot far ahead that was asked for too, if that was empty.
    """

    records: tuple[LogRecord, ...]
    ended: bool
    first: StoreTime | None
    last: StoreTime | None
    enough: LogNumber | None = None


class Chase:
    """The rounds by which one reader follows the log: of 1, 2, 4, … slots, until one of them is empty.

    Writers may add entries as fast as the reader finds them. So when rounds grow no more, each asks for a slot far
    ahead too, twice as far each time, until that is empty: whatever was acknowledged before comes before it, so that is
    `enough`, and there the reader may stop.
    """

    # Defaults of the class, not set by a method: every read has one, and nearly all end after the first round.
    width = 1
    """Slots of the next round."""
    enough: LogNumber | None = None
    """No entry after this one was there at a moment after the reader began; None if no such number is known."""
    distance = 0
    """How far ahead a slot is asked for; 0 before rounds are as wide as they get."""

    def mark(self, after: LogNumber) -> LogNumber | None:
        """The slot far ahead that a round behind `after` has to ask for; None if it has not to."""
        return LogNumber(after + self.distance) if self.distance and self.enough is None else None

    def go_on(self) -> None:
        """A round found no end: the next is wider, or asks further ahead."""
        if self.width < TAIL_PROBES_MAX:
            self.width = min(2 * self.width, TAIL_PROBES_MAX)
        elif self.enough is None:
            self.distance = 2 * max(self.distance, TAIL_PROBES_MAX)

    def is_over(self, number: LogNumber) -> bool:
        """Whether a reader that knows all entries through `number` may stop, though more are there."""
        return self.enough is not None and number >= self.enough


@dataclass(frozen=True, slots=True)
class Log:
    """The log of one collection. Reads only; `commit` writes."""

    store: Store
    paths: EnginePaths
    collection: str
    pool: Pool

    def read(self, number: LogNumber) -> tuple[LogRecord | None, Probe]:
        """The entry at `number`, or None, and the answer it came from. 1 GET; raises CorruptionError."""
        probe = self.store.probe(self.paths.entry(number))
        return self._decode(number, probe), probe

    def between(self, after: LogNumber, through: LogNumber, register: Register) -> list[LogRecord] | None:
        """The entries after one number through another; None if one was trimmed, or is not there.

        1 GET each, side by side, and 1 for the root after them: a slot that was trimmed may hold a late write of
        a process that slept, which was never committed. Raises CorruptionError.
        """
        numbers = [LogNumber(number) for number in range(after + 1, through + 1)]
        found = [record for record, _ in self.pool.map(self.read, numbers) if record is not None]
        if not numbers or len(found) < len(numbers):
            return None if numbers else []
        root = register.read().root
        return None if root is not None and root.trimmed > after else found

    def ask(self, after: LogNumber) -> Iterator[Probe]:
        """Ask for the entry after `after` in another thread; take the answer when it is needed. 1 GET."""
        return self.pool.map(self.store.probe, [self.paths.entry(LogNumber(after + 1))])

    def rounds(self, after: LogNumber, ahead: Iterator[Probe] | None = None) -> Iterator[TailRound]:
        """Guess the numbers after `after`: 1, then 2, 4, … at once, until one is not there.

        If others write as fast, the last round goes as far as there were entries when the first was asked for, and
        not to the end. `ahead` is the answer about the first, if it was asked for already.

        An empty tail costs 1 GET. A tail of k entries costs k GETs and at most k + 1 more that
        find nothing, in about log2(k) rounds.
        """
        chase = Chase()
        while True:
            answer = self.round(after, chase.width, ahead, chase.mark(after))
            yield answer
            after, ahead = LogNumber(after + len(answer.records)), None
            chase.enough = chase.enough or answer.enough
            if answer.ended or chase.is_over(after):
                return
            chase.go_on()

    def round(
        self, after: LogNumber, width: int, ahead: Iterator[Probe] | None = None, mark: LogNumber | None = None
    ) -> TailRound:
        """Guess `width` numbers after `after` at once, which need not be the last. `width` GETs, none if asked `ahead`.

        1 GET more for `mark`, a number far ahead. Raises CorruptionError.
        """
        if width == 1 and mark is None:
            # One request alone gains nothing from another thread.
            number = LogNumber(after + 1)
            (probe,) = (self.store.probe(self.paths.entry(number)),) if ahead is None else ahead
            if probe.found is None:
                return TailRound((), ended=True, first=probe.time, last=probe.time)
            return self._round([number], [probe])
        numbers = [LogNumber(number) for number in range(after + 1, after + 1 + width)]
        asked = numbers if mark is None else [mark, *numbers]  # the sooner it is asked for, the less is below it
        return self._round(numbers, self._probe_all([self.paths.entry(number) for number in asked]), mark)

    def _probe_all(self, keys: list[str]) -> list[Probe]:
        """The answers about some slots, side by side; a thread asks for several if there are more than threads.

        Files of this machine are read one after the other: threads that hardly wait only stand in each other's way.
        """
        if not self.store.is_served:
            return list(map(self.store.probe, keys))
        size = -(-len(keys) // POOL_THREADS)
        if size == 1:
            return list(self.pool.map(self.store.probe, keys))
        parts = [keys[start : start + size] for start in range(0, len(keys), size)]
        return [
            probe for found in self.pool.map(lambda part: list(map(self.store.probe, part)), parts) for probe in found
        ]

    def _round(self, numbers: list[LogNumber], probes: list[Probe], mark: LogNumber | None = None) -> TailRound:
        """What the probes say of `numbers`, and the first of them of `mark`, if there is one."""
        records: list[LogRecord] = []
        for number, probe in zip(numbers, probes if mark is None else probes[1:], strict=True):
            record = self._decode(number, probe)
            if record is None:
                # A later number may be there already: it was created while we asked. What counts is
                # that this one was not there when we looked.
                break
            records.append(record)
        times = [probe.time for probe in probes if probe.time is not None]
        known = len(times) == len(probes)
        return TailRound(
            tuple(records),
            ended=len(records) < len(numbers),
            first=min(times) if known else None,
            last=max(times) if known else None,
            enough=None if mark is None or probes[0].found is not None else LogNumber(mark - 1),
        )

    def _decode(self, number: LogNumber, probe: Probe) -> LogRecord | None:
        return None if probe.found is None else self.decode(number, probe.found.body)

    def decode(self, number: LogNumber, body: bytes) -> LogRecord:
        """The entry in the bytes of slot `number`. No requests; raises CorruptionError, UnsupportedFormatError."""
        name = self.paths.entry(number)
        entry = decode_entry(body, name=name, number=number, collection=self.collection)
        if entry.events:
            check_acted_on(entry.events, name=name)
        return LogRecord(entry, entry_hash(body), len(body))
