"""What a node knows of each collection, and when it has to do something about it. No I/O."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wormdb.format.heartbeat import CollectionActivity
from wormdb.jobs.node.pace import CollectionLoad, Pace
from wormdb.settings import HEARTBEAT_BYTES_MAX, HEARTBEAT_COLLECTIONS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb.jobs.node.caretaker import ForwardResult, UpkeepResult

__all__ = ["WatchedCollection", "Watchlist"]

_NAMED_SECONDS = 600.0
_QUIET_FIRST = 4
"""A collection that is settled at the first look counts as if this many looks had found nothing."""
_ERROR_CHARS = 500
_REMOVED_SECONDS = 120.0
"""How often a collection that was removed is looked at, until it is purged."""
_ESCAPED_BYTES, _OTHER_BYTES = 6, 1_000
"""What a character of a name or an error may take in JSON at most, and all that is beside them."""


@dataclass(slots=True)
class WatchedCollection:
    """One collection. Times are on the node's monotonic clock."""

    prefix: str
    number: int = 0
    """The newest log number that is known; everything through it is brought forward, but for `lag` entries."""
    lag: int = 0
    is_hot: bool = True
    """Whether there may be something to bring forward."""
    rests_until: float = -math.inf
    """Until then a few entries may wait …"""
    rest_entries: int = 0
    """… if they are fewer than these."""
    forwarded_at: float = -math.inf
    """When a round last wrote something."""
    settles_at: float = math.inf
    """When what was begun is gone on with, whether or not there is news."""
    probed_at: float = -math.inf
    quiet: int = 0
    """Looks at its log in a row that found nothing."""
    kept_up_at: float = -math.inf
    """When trash and garbage were looked at."""
    is_changed: bool = True
    """Whether something was written since then, or there is more to do."""
    expires_ms: float = -math.inf
    """When something in the trash expires next, by the store's time."""
    retries_at: float = -math.inf
    failures: int = 0
    error: str = ""
    is_removed: bool = False
    """Whether its last entry removed it, and it was not purged since."""
    written_at: float = -math.inf
    rounds: int = 0
    entries: int = 0
    seconds: float = 0.0
    errors: int = 0

    @property
    def is_new(self) -> bool:
        """Whether nothing is known of it but its name."""
        return self.is_hot and self.number == 0 and self.lag == 0 and not self.rounds and not self.failures

    def found_settled(self, number: int, now: float, upkeep_at: float, pace: Pace) -> None:
        """A first look found everything brought forward; its trash and garbage can wait until `upkeep_at`."""
        self.number, self.is_hot, self.probed_at, self.quiet = number, False, now, _QUIET_FIRST
        self.kept_up_at = upkeep_at - pace.upkeep_seconds

    def found_written(self, number: int, now: float) -> None:
        """A writer wrote to it, through `number` at least."""
        self.lag = max(self.lag, number - self.number, 1)
        self.is_hot, self.quiet, self.written_at, self.is_changed = True, 0, now, True

    def found_quiet(self, now: float) -> None:
        """Nothing was written since the last look."""
        self.probed_at = now
        self.quiet += 1

    def forwarded(self, done: ForwardResult, now: float, pace: Pace) -> None:
        """A round brought it forward."""
        self.number, self.lag, self.is_hot, self.probed_at = done.through, 0, False, now
        self.rounds += 1
        self.entries += done.entries
        self.failures, self.error, self.retries_at = 0, "", -math.inf
        self.settles_at = math.inf
        self.is_removed = done.is_removed
        if done.wrote:
            self.quiet, self.is_changed, self.written_at = 0, True, now
            self._rest(done, now, pace)
            # Builds and files may need more rounds than one: until one writes nothing.
            self.settles_at = max(now + pace.interval, self.rests_until)
        elif done.files_seconds is not None and now - self.written_at < done.files_seconds + pace.interval:
            # Tables of readable files in which little has changed wait for more, but not for ever.
            self.settles_at = self.written_at + done.files_seconds + pace.interval

    def _rest(self, done: ForwardResult, now: float, pace: Pace) -> None:
        """Wait for more after a round that had little to do, or less than makes it worth to write indexes again."""
        load = CollectionLoad(
            entries=done.entries,
            seconds=now - self.forwarded_at,
            changes=done.changes,
            leaves=done.leaves,
            entry_bytes=done.entry_bytes,
        )
        self.rest_entries, seconds = pace.breath(load)
        self.rests_until = now + (seconds if 0 < done.entries < self.rest_entries else 0)
        self.forwarded_at = now

    def failed(self, error: BaseException, now: float, pace: Pace) -> None:
        """A round failed: it is left alone for a while, longer each time."""
        self.errors += 1
        self.failures += 1
        self.error = f"{type(error).__name__}: {error}"[:_ERROR_CHARS]
        self.retries_at = now + pace.retry_seconds(self.failures)

    def kept_up(self, done: UpkeepResult, now: float) -> None:
        """Trash, garbage and lists were looked at."""
        self.kept_up_at, self.expires_ms = now, done.expires_ms
        self.is_changed = bool(done.purged or done.collected or done.waiting or done.renewed)

    def upkeep_due_at(self, pace: Pace, store_ms: float) -> float:
        """When its trash and garbage are to be looked at, as far as is known at a time of the store."""
        is_wanted = self.is_changed or self.expires_ms <= store_ms
        if self.is_removed:  # a purge may break off, and nothing else would show that
            return self.kept_up_at + _REMOVED_SECONDS
        return self.kept_up_at + (pace.upkeep_seconds if is_wanted else pace.upkeep_seconds_idle)


@dataclass(slots=True)
class Watchlist:
    """All collections that a node looks after."""

    pace: Pace
    known: dict[str, WatchedCollection] = field(default_factory=dict)

    def add(self, prefixes: Iterable[str]) -> None:
        """Add collections to look after."""
        new = {prefix: WatchedCollection(prefix) for prefix in prefixes if prefix not in self.known}
        if new:
            # A new dict, because the thread of heartbeats may be going through this one.
            self.known = dict(sorted({**self.known, **new}.items()))

    def heard(self, written: Iterable[CollectionActivity], now: float) -> None:
        """Another node says what it has seen written."""
        for each in written:
            self.add([each.collection])
            watched = self.known[each.collection]
            if each.number > watched.number + watched.lag and (each.lag or each.removed):
                watched.found_written(each.number, now)

    def probe_due_at(self, watched: WatchedCollection, nodes: int) -> float:
        """When the log of a collection is to be looked at next."""
        return watched.probed_at + self.pace.probe_seconds(watched.quiet, len(self.known), nodes)

    def is_busy(self, now: float) -> bool:
        """Whether there is something to do, or was a moment ago."""
        return any(
            each.is_hot or now - each.written_at < self.pace.busy_seconds
            for each in self.known.values()
            if not each.failures
        )

    def removed(self) -> frozenset[tuple[str, int]]:
        """The collections that were removed and not purged yet, with the entries that say so."""
        return frozenset((each.prefix, each.number) for each in self.known.values() if each.is_removed)

    def written(self, now: float) -> tuple[CollectionActivity, ...]:
        """What the next heartbeat names: what was written lately, and what fails; of too many the newest."""
        named = [
            each
            for each in self.known.values()
            if each.error or each.is_removed or now - each.written_at < _NAMED_SECONDS
        ]
        named.sort(key=lambda each: (not each.is_removed, -each.written_at))
        told, room = [], HEARTBEAT_BYTES_MAX - _OTHER_BYTES
        for each in named[:HEARTBEAT_COLLECTIONS_MAX]:
            room -= _OTHER_BYTES + _ESCAPED_BYTES * (len(each.prefix) + len(each.error))
            if room < 0:
                break
            told.append(
                CollectionActivity(
                    collection=each.prefix,
                    number=each.number + each.lag,
                    lag=each.lag,
                    error=each.error,
                    removed=each.is_removed,
                )
            )
        return tuple(sorted(told, key=lambda each: each.collection))
