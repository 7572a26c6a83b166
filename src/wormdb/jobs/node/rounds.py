"""All that a node has to do, and when: which collections there are, and a round for each when it is due."""

from __future__ import annotations

import logging
import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar
from zlib import crc32

from wormdb.api.schema import PublishedSchema
from wormdb.errors import ClosedError, WormError
from wormdb.jobs.node.watchlist import Watchlist

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wormdb.jobs.node.caretaker import Caretaker
    from wormdb.jobs.node.pace import Pace
    from wormdb.jobs.node.watchlist import WatchedCollection
    from wormdb.system.clock import Clock

__all__ = ["Round", "Rounds", "Turns", "turn_of", "until_next_window", "window_of"]


# --- Whose turn it is to look after a collection. No I/O.
#
# Every node that sees the same live nodes and about the same time names the same one. Where they disagree for a
# moment, two of them do the same work, and the root's compare-and-set lets one of them win.


def window_of(now_ms: float, window_ms: int) -> int:
    """The number of the window that a moment is in, by the store's time."""
    return int(now_ms // window_ms)


def until_next_window(now_ms: float, window_ms: int) -> float:
    """Milliseconds until the next window begins; never 0."""
    return window_ms - now_ms % window_ms


def turn_of(collection: str, ring: Sequence[int], window: int) -> int:
    """The node of a sorted `ring` that looks after a collection in a window; the ring has one node at least.

    Collections begin at different places of the ring, so that all nodes have something to do in every window.
    """
    return ring[(window + crc32(collection.encode())) % len(ring)]


log = logging.getLogger(__name__)

R = TypeVar("R")

_AT_ONCE = 256
"""Collections that are asked about before an answer is looked at."""


class Turns(Protocol):
    """Which node looks after which collection now."""

    @property
    def id(self) -> int | None:
        """The node's id."""
        ...

    def ring(self) -> tuple[int, ...]:
        """The nodes that live. No requests."""
        ...

    def has_turn(self, collection: str) -> bool:
        """Whether this node looks after a collection now. No requests."""
        ...


@dataclass(frozen=True, slots=True)
class Round:
    """What a node did for one collection."""

    collection: str
    through: int
    """The log number through which it is brought forward."""
    entries: int
    """Entries that were brought forward now."""
    purged: int = 0
    """Documents whose time in the trash was over."""
    collected: int = 0
    """Objects that nothing needs any more and that were deleted."""
    error: str = ""
    """What failed; empty if nothing did."""


class Rounds:
    """The work of one node. For one thread; another may read the watchlist."""

    def __init__(self, caretaker: Caretaker, turns: Turns, pace: Pace, clock: Clock) -> None:
        """Knows no collection yet."""
        self.watchlist = Watchlist(pace)
        self._caretaker = caretaker
        self._database = caretaker.database
        self._time = caretaker.time
        self._turns = turns
        self._pace = pace
        self._clock = clock
        self._schema_due = self._search_due = -math.inf
        self._last = ""
        """The collection that was looked after last."""
        self._is_behind = False
        """Whether some have to wait for the next call."""

    def discover(self) -> None:
        """Find the collections that there are, if it is time: those of the schema, and all by a search of the bucket.

        1 GET; a search costs 1 LIST for each folder above collections and each of them. What this very process writes
        is known at once, and to other nodes from its next heartbeats.
        """
        now = self._clock.monotonic()
        opened = self._database._ledgers.opened()  # noqa: SLF001 - this package is a part of the database
        self.watchlist.add(prefix for prefix, ledger in opened.items() if ledger.lag_bytes)
        try:
            if now >= self._schema_due:
                self._schema_due = now + self._pace.look_seconds
                self._read_schema()
            if now >= self._search_due:
                self._search_due = now + self._pace.discover_seconds
                before = self._database.cost().lists
                self.watchlist.add(self._database.collections(with_removed=True))
                lists = self._database.cost().lists - before
                self._search_due = max(self._search_due, now + lists * self._pace.discover_list_seconds)
        except ClosedError:
            raise
        except WormError as error:
            log.warning("node %s: the search for collections failed: %s", self._turns.id, error)

    def _read_schema(self) -> None:
        schema = PublishedSchema(self._database.store).read()
        models = () if schema is None else schema.models.values()
        self.watchlist.add(model.path.collection_prefix({}) for model in models if not model.path.outer)

    def survey(self) -> None:
        """If there are many new collections, find out which of them have nothing to do. 2 GETs each, side by side."""
        new = [each for each in self.watchlist.known.values() if each.is_new]
        if len(new) < self._pace.crowd:
            return
        upkeep_at = self._clock.monotonic()
        for watched, settled in zip(new, self._side_by_side(self._settled_at, new), strict=True):
            if settled is not None:
                watched.found_settled(settled, self._clock.monotonic(), upkeep_at, self._pace)
                upkeep_at += self._pace.upkeep_apart_seconds

    def look_after_all(self, is_over: Callable[[], bool]) -> None:
        """Look after each collection for which something is due, for about one interval.

        What is due then is gone on with by the next call, behind the last one, so that none waits for ever.
        """
        self.survey()
        began = self._clock.monotonic()
        self._probe_due(began)
        known = self.watchlist.known
        names = list(known)
        start = bisect_right(names, self._last)
        self._is_behind = False
        for name in names[start:] + names[:start]:
            if is_over():
                return
            if self._clock.monotonic() - began > self._pace.interval:
                self._is_behind = True
                return
            self.look_after(known[name])
            self._last = name

    def _probe_due(self, now: float) -> None:
        """Look at the logs of quiet collections for which that is due. 1 GET each, side by side."""
        nodes = len(self._turns.ring())
        due = [
            each
            for each in self.watchlist.known.values()
            if not each.is_hot and now >= each.retries_at and now >= self.watchlist.probe_due_at(each, nodes)
        ]
        for watched, found in zip(due, self._side_by_side(self._has_more, due), strict=True):
            if found:
                watched.found_written(watched.number + 1, now)
            elif found is not None:
                watched.found_quiet(now)

    def _side_by_side(self, ask: Callable[[WatchedCollection], R], some: list[WatchedCollection]) -> Iterator[R | None]:
        """What is asked of each; None where it failed, which is kept with the collection."""

        def asked(watched: WatchedCollection) -> R | WormError:
            try:
                return ask(watched)
            except ClosedError:
                raise
            except WormError as error:
                return error

        pool = self._database._pool  # noqa: SLF001 - this package is a part of the database
        for start in range(0, len(some), _AT_ONCE):
            part = some[start : start + _AT_ONCE]
            for watched, found in zip(part, pool.map(asked, part), strict=True):
                if isinstance(found, WormError):
                    self._fail(watched, found)
                    yield None
                else:
                    yield found

    def _settled_at(self, watched: WatchedCollection) -> int | None:
        return self._caretaker.settled_at(watched.prefix)

    def _has_more(self, watched: WatchedCollection) -> bool:
        return self._caretaker.has_entry(watched.prefix, watched.number + 1)

    def look_after(self, watched: WatchedCollection) -> None:
        """Do a round if there is work and it is this node's turn."""
        now = self._clock.monotonic()
        if now < watched.retries_at:
            return
        with_upkeep = now >= watched.upkeep_due_at(self._pace, self._time.now_ms())
        is_due = watched.is_hot or now >= watched.settles_at or with_upkeep
        if not is_due or not self._turns.has_turn(watched.prefix):
            return
        # Asked again right before the work: rounds of others, and answers, may take longer than a window.
        if (with_upkeep or not self._is_resting(watched, now)) and self._turns.has_turn(watched.prefix):
            self.round(watched, with_upkeep=with_upkeep)

    def round(self, watched: WatchedCollection, *, with_upkeep: bool) -> Round:
        """Bring a collection forward, and with `with_upkeep` keep its trash and garbage small. Raises ClosedError.

        Anything else that goes wrong is kept with the collection.
        """
        began = self._clock.monotonic()
        entries = purged = collected = 0
        try:
            done = self._caretaker.forward(watched.prefix)
            now = self._clock.monotonic()
            entries = done.entries
            watched.forwarded(done, now, self._pace)
            if with_upkeep:
                kept = self._caretaker.keep_up(watched.prefix)
                purged, collected = kept.purged, kept.collected
                watched.kept_up(kept, now)
        except ClosedError:
            raise
        except Exception as error:  # noqa: BLE001 - the edge of a service: whatever it is, other collections go on
            self._fail(watched, error)
        watched.seconds += self._clock.monotonic() - began
        return Round(watched.prefix, watched.number, entries, purged, collected, watched.error)

    def rest(self) -> float:
        """Seconds until something of this is due again. No requests."""
        if self._is_behind:
            return 0.0
        now, nodes = self._clock.monotonic(), len(self._turns.ring())
        due = [self._schema_due, self._search_due]
        window = until_next_window(self._time.now_ms(), self._pace.interval_ms) / 1000
        for watched in self.watchlist.known.values():
            looks = now if watched.is_hot else self.watchlist.probe_due_at(watched, nodes)
            wanted = min(watched.settles_at, watched.upkeep_due_at(self._pace, self._time.now_ms()), looks)
            # What is due already waits for this node's turn, or for its next try.
            due.append(max(wanted if wanted > now else now + window, watched.retries_at))
        return min(due) - now

    def _is_resting(self, watched: WatchedCollection, now: float) -> bool:
        """Whether the few entries that there are may wait for more."""
        if now >= watched.rests_until:
            return False
        try:
            return not self._caretaker.has_entry(watched.prefix, watched.number + watched.rest_entries)
        except WormError as error:
            self._fail(watched, error)
            return True

    def _fail(self, watched: WatchedCollection, error: Exception) -> None:
        watched.failed(error, self._clock.monotonic(), self._pace)
        is_bug = not isinstance(error, WormError)
        log.warning("node %s: %s: %s", self._turns.id, watched.prefix, watched.error, exc_info=is_bug)
