"""The MISC clock: names that sort by time and never repeat."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from wormdb.errors import InvalidRequestError
from wormdb.settings import MISC_LEAD_MS_MAX
from wormdb.system.types import Misc

if TYPE_CHECKING:
    from wormdb.system.clock import Clock
    from wormdb.system.types import StoreTime

__all__ = ["NODE_MAX", "MiscClock"]

NODE_MAX = 255
BEST_SECONDS = 60.0
"""A time that was told counts for this long, if later answers told less: then the monotonic clock may be wrong."""
HELD_MS = 10_000
"""The store's time stands still for this long at most, instead of going back."""


class MiscClock:
    """Gives numbers (microseconds << 8 | node), each greater than those that it gave and those that it heard of.

    `observe` is told every MISC read from a root or a log entry, so that this process makes none below them: wall
    clocks differ, and times should not go back. But a time that is an hour ahead, of the wall clock and of the store's
    time, is the mistake of one clock: if others went on from there, it would be that of all. So it is not followed:
    times go back there, once. Thread-safe.
    """

    def __init__(self, clock: Clock, node: int = 0) -> None:
        """`node` is 0 to 255; clients that are no service use 0."""
        _check(node)
        self._clock = clock
        self._node = node
        self._given_us = 0
        self._seen_us = 0
        self._told: tuple[int, float] | None = None
        self._best: tuple[int, float] | None = None
        self._shown_ms = 0
        self._is_served = False
        self._lock = threading.Lock()

    @property
    def node(self) -> int:
        """The node id in every number."""
        return self._node

    @property
    def lead_ms(self) -> int:
        """How far the wall clock is ahead of the time that a server told; 0 if none did."""
        told = self._told
        return 0 if told is None or not self._is_served else self._clock.now_ms() - self._since(told)

    def store_ms(self) -> int:
        """The store's time now: what an answer told last, and what has passed since on the monotonic clock.

        The wall clock if no answer told. It does not go back by less than HELD_MS: some stores tell whole seconds.
        """
        best = self._best
        now_ms = self._clock.now_ms() if best is None else self._since(best)
        with self._lock:
            if not now_ms < self._shown_ms <= now_ms + HELD_MS:
                self._shown_ms = now_ms
            return self._shown_ms

    def become(self, node: int) -> None:
        """Give numbers of `node` from now on: of a process that has become a service."""
        _check(node)
        self._node = node

    def doubt(self) -> None:
        """Take the store's time as unknown until it is told again: it may be long ago, after a suspension."""
        self._told = None

    def tell(self, time: StoreTime | None, *, is_served: bool) -> None:
        """Learn the store's time in an answer that just came, and whether it is of a server; None tells nothing.

        What is not ahead of it is followed, also if the wall clock is behind.
        """
        if time is None:
            return
        told = time, self._clock.monotonic()
        self._told, self._is_served = told, is_served
        # An answer that was long on its way tells an old time: one before it may tell more, for a while.
        best = self._best or told
        passed = told[1] - best[1]
        if passed >= BEST_SECONDS or not 0 < best[0] + 1000 * passed - time <= HELD_MS:
            best = told
        self._best = best

    def next(self) -> Misc:
        """A number greater than every one given or observed, but for those that were too far ahead.

        If the wall clock was ahead and was set right, numbers go back with it.
        """
        with self._lock:
            before = [known + 1 for known in (self._given_us, self._seen_us) if self._is_plausible(known)]
            self._given_us = max(self._clock.now_ms() * 1000, *before, 0)
            return Misc(self._given_us << 8 | self._node)

    def observe(self, seen: Misc) -> None:
        """Give no number at or below `seen` from now on, unless it is too far ahead."""
        with self._lock:
            if self._is_plausible(seen >> 8):
                self._seen_us = max(self._seen_us, seen >> 8)

    def _is_plausible(self, time_us: int) -> bool:
        now_ms = self._clock.now_ms()
        if self._told is not None:
            now_ms = max(now_ms, self._since(self._told))
        return time_us <= (now_ms + MISC_LEAD_MS_MAX) * 1000

    def _since(self, told: tuple[int, float]) -> int:
        time, at = told
        return time + int((self._clock.monotonic() - at) * 1000)


def _check(node: int) -> None:
    if not 0 <= node <= NODE_MAX:
        raise InvalidRequestError(f"node id {node}", reason=f"it must be an integer between 0 and {NODE_MAX}")
