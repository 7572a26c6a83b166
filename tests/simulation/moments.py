"""By which time of the store a call of a simulated run may have read: as narrow as its clocks allow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from tests.simulation.scheduler import START_MS
from wormdb.engine.log.clock import BEST_SECONDS

if TYPE_CHECKING:
    from tests.simulation.history import Call

__all__ = ["read_between"]

TOLD_MS: Final = 1_000
"""A store tells whole seconds."""
DRIFT: Final = 0.02
"""How much faster than true a monotonic clock of a run is at most."""


def read_between(call: Call) -> tuple[float, float]:
    """The earliest and the latest time of the store, in ms since 1970, that a process may have read by.

    It knows the time of an answer that came after the call began, and what passed since then on its monotonic clock; or
    that of an answer up to a minute before, if that tells more. Where answers have no time, or the processes themselves
    tell it, any is right.
    """
    if not call.is_dated:
        return -math.inf, math.inf
    passed = call.ended - call.began
    return START_MS + call.began - TOLD_MS, START_MS + call.ended + DRIFT * (passed + 1000 * BEST_SECONDS) + 1
