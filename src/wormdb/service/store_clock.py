"""The store's time now, as far as a process knows: by answers that carry it, and its own monotonic clock since then."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wormdb.system.clock import Clock
    from wormdb.system.types import StoreTime

__all__ = ["StoreClock"]


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
