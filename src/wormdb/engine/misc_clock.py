"""The MISC clock: names that sort by time and never repeat."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from wormdb.errors import InvalidRequestError
from wormdb.types import Misc

if TYPE_CHECKING:
    from wormdb.clock import Clock

__all__ = ["NODE_MAX", "MiscClock"]

NODE_MAX = 255


class MiscClock:
    """Gives numbers (microseconds << 8 | node), each greater than every one seen before.

    Wall clocks go back; names must not. `observe` is told every MISC read from a root or
    a log entry, so that this process never makes one below them. Thread-safe.
    """

    def __init__(self, clock: Clock, node: int = 0) -> None:
        """`node` is 0 to 255; clients that are no service use 0."""
        _check(node)
        self._clock = clock
        self._node = node
        self._last_us = 0
        self._lock = threading.Lock()

    @property
    def node(self) -> int:
        """The node id in every number."""
        return self._node

    def become(self, node: int) -> None:
        """Give numbers of `node` from now on: of a process that has become a service."""
        _check(node)
        self._node = node

    def next(self) -> Misc:
        """A number greater than every one given or observed."""
        with self._lock:
            self._last_us = max(self._clock.now_ms() * 1000, self._last_us + 1)
            return Misc(self._last_us << 8 | self._node)

    def observe(self, seen: Misc) -> None:
        """Never give a number at or below `seen` from now on."""
        with self._lock:
            self._last_us = max(self._last_us, seen >> 8)


def _check(node: int) -> None:
    if not 0 <= node <= NODE_MAX:
        raise InvalidRequestError(f"node id {node}", reason=f"it must be an integer between 0 and {NODE_MAX}")
