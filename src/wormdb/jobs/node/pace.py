"""How often a node does what, and with that what an idle one costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wormdb.errors import InvalidRequestError
from wormdb.settings import MIB, NODE_WINDOW_MS, NODES_LOOK_SECONDS

if TYPE_CHECKING:
    from wormdb.system.clock import Clock
    from wormdb.system.types import StoreTime

__all__ = ["LEAF_ENTRIES", "CollectionLoad", "Pace", "StoreClock"]

LEAF_ENTRIES = 1_000
"""Entries in a leaf of an index, about."""
INTERVAL_MS_MIN, INTERVAL_MS_MAX = 50, 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionLoad:
    """What comes to one collection, and what bringing it forward writes again."""

    entries: float
    """Of the log, in some time …"""
    seconds: float
    """… and how long that was."""
    changes: float
    """Documents that they changed."""
    leaves: float = 0.0
    """Of all its indexes: changes at random reach all of them, however few there are on each."""
    entry_bytes: float = 1.0
    """About, of an entry as it is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Times of one node; all nodes of a database should have the same interval."""

    interval_ms: int = NODE_WINDOW_MS
    """The length of a window, and of the time between two heartbeats while there is work."""
    idle_factor: int = 6
    """Intervals between two heartbeats while there is nothing to do."""
    busy_seconds: float = 60.0
    """For how long after work a node counts as busy."""
    look_seconds: float = NODES_LOOK_SECONDS
    """How often the folder of heartbeats is listed, for nodes that are new."""
    probe_seconds_max: float = 60.0
    """How often the log of a quiet collection is looked at; less often if there are more of them than seconds in it."""
    probes_apart_seconds: float = 1.0
    """On average, between two looks at quiet collections."""
    discover_seconds: float = 600.0
    """How often the bucket is searched for collections; less often if that takes many requests."""
    discover_list_seconds: float = 30.0
    """The next search waits this long for each LIST that the last one took."""
    breath_seconds: float = 30.0
    """How often a collection with few new entries is brought forward."""
    breath_entries: int = 64
    """With this many new entries a collection is brought forward at once."""
    shared_seconds: float = 300.0
    """The same where changes that come later would share leaves of indexes with those that are there."""
    shared_entries: int = 1_000
    shared_bytes: int = 32 * MIB
    """Readers read what waits, so there are never more entries or bytes than these."""
    leaf_changes: int = 512
    """Changes on each leaf for which more are waited for."""
    upkeep_seconds: float = 3_600.0
    """How often the trash and the garbage of a collection that changes are looked at."""
    upkeep_seconds_idle: float = 86_400.0
    """The same of one that does not change."""
    crowd: int = 32
    """With this many new collections, a node looks at all of them side by side before it looks after any …"""
    upkeep_apart_seconds: float = 1.0
    """… and the first upkeep of those with nothing else to do is spread: one in this time."""
    retry_seconds_max: float = 600.0
    """A collection whose rounds fail is tried again after longer and longer times, up to this one."""

    def __post_init__(self) -> None:
        if not INTERVAL_MS_MIN <= self.interval_ms <= INTERVAL_MS_MAX:
            raise InvalidRequestError(
                f"interval of {self.interval_ms} ms",
                reason=f"it must be between {INTERVAL_MS_MIN} and {INTERVAL_MS_MAX} ms",
            )

    @property
    def interval(self) -> float:
        """The interval in seconds."""
        return self.interval_ms / 1000

    def probe_seconds(self, quiet: int, collections: int, nodes: int) -> float:
        """How long after a look at a log that found nothing, the last of `quiet` ones, the next one is due.

        It doubles up to a bound which grows with the number of collections, so that the bill does not. Nodes share
        the looks.
        """
        most = max(self.probe_seconds_max, collections * self.probes_apart_seconds)
        return min(most, self.interval * 2.0 ** min(quiet, 30)) * nodes

    def breath(self, load: CollectionLoad) -> tuple[int, float]:
        """From how many new entries on a collection is brought forward, and after how many seconds at the latest.

        A forwarding writes each leaf that has a change again. When most leaves have changes, forwarding twice as many
        at once halves the cost of each; with few changes, waiting for more gains nothing.
        """
        entries, seconds = self.breath_entries, self.breath_seconds
        if not load.entries or not load.changes or not load.leaves:
            return entries, seconds
        each = load.changes / load.entries
        rate = load.entries / max(load.seconds, self.interval)
        most = min(self.shared_entries, self.shared_bytes / load.entry_bytes, rate * self.shared_seconds)
        if most * each < load.leaves:
            return entries, seconds
        wanted = min(self.leaf_changes * load.leaves / each, most)
        return max(entries, int(wanted)), max(seconds, wanted / rate)

    def retry_seconds(self, failures: int) -> float:
        """How long a collection is left alone after `failures` rounds that failed."""
        return min(self.retry_seconds_max, self.interval * 2.0 ** min(failures, 30))


# --- The store's time now, as far as a process knows: by answers that carry it, and its own monotonic clock since then.


class StoreClock:
    """Tells the store's time, so that the wall clocks of machines do not matter. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        """Until an answer shows a time, the wall clock has to do."""
        self._clock = clock
        self._known: tuple[int, float] | None = None

    def observe(self, time: StoreTime | None) -> None:
        """Learn the time in an answer that just came; None if it shows none."""
        if time is not None:
            self._known = (time, self._clock.monotonic())

    def now_ms(self) -> float:
        """Milliseconds since 1970, by the store."""
        known = self._known
        if known is None:
            return self._clock.now_ms()
        time, at = known
        return time + (self._clock.monotonic() - at) * 1000

    @property
    def offset_ms(self) -> float:
        """How far the wall clock of this machine is ahead of the store's; 0 if nothing is known of that."""
        return 0.0 if self._known is None else self._clock.now_ms() - self.now_ms()
