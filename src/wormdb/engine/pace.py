"""When to hold back, so that several processes that write one collection all get their turn.

Whoever won the last slot knows its entry already and can try the next one at once; everybody else must
read that entry first. Without a pause the winner would win for ever. So a winner that knows of others waits
as long as they need to catch up; and one that knows of nobody waits now and then, because it could not know.
All waits are multiples of what a request takes here, so they are short where requests are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wormdb.clock import Chance, Clock

__all__ = ["Pace"]

RIVALS_SECONDS = 10.0
"""How long after a lost race others are taken to be about."""
STREAK_FIRST = 4
STREAK_MAX = 64
"""Commits in a row after which a process that knows of nobody leaves a gap: 4, then 8, … at most this many."""
SHARED_REQUESTS = (3.0, 5.0)
"""The pause between two commits among rivals, in requests: they need two to learn of an entry and answer it."""
GAP_REQUESTS = (6.0, 8.0)
"""The gap in a streak: a newcomer is further behind."""
RETRY_REQUESTS_MAX = 8
"""The bound on the pause of a loser before it looks again, in requests."""
REQUEST_SECONDS_MAX = 0.5
"""A request that took longer was an accident, and is not what to measure pauses by."""
WEIGHT = 0.2


class Pace:
    """The rhythm of one process's commits to one collection. For one thread at a time."""

    def __init__(self, clock: Clock, chance: Chance) -> None:
        """Nothing is known: no pauses."""
        self._clock = clock
        self._chance = chance
        self._request_seconds = 0.0
        self._rivals_until: float | None = None
        self._last_won: int | None = None
        self._last_time = 0.0
        self._streak = 0
        self._gap_after = STREAK_FIRST

    def won(self, number: int, seconds: float) -> None:
        """The slot `number` is ours, by one request that took `seconds`."""
        self._measure(seconds)
        now = self._clock.monotonic()
        if now - self._last_time <= seconds + 2 * self._request_seconds:
            self._streak += 1
        else:
            self._streak, self._gap_after = 1, STREAK_FIRST
        self._last_won, self._last_time = number, now

    def lost(self, seconds: float) -> None:
        """A slot went to somebody else, as two requests told in `seconds`."""
        self._measure(seconds / 2)
        self._rivals_until = self._clock.monotonic() + RIVALS_SECONDS
        self._streak, self._gap_after = 0, STREAK_FIRST

    def pause_before(self, number: int) -> None:
        """Wait, if others should have the chance to take slot `number` first."""
        if self._last_won is None or number != self._last_won + 1:
            return
        rest = self._clock.monotonic() - self._last_time
        pause = self._request_seconds * self._requests() - rest
        if pause > 0:
            self._clock.sleep(pause)

    def pause_after_loss(self, losses: int) -> None:
        """Full jitter, so that many losers do not go on losing against each other."""
        bound = self._request_seconds * min(losses, RETRY_REQUESTS_MAX)
        self._clock.sleep(bound * self._chance.fraction())

    def _measure(self, seconds: float) -> None:
        measured = min(seconds, REQUEST_SECONDS_MAX)
        self._request_seconds += WEIGHT * (measured - self._request_seconds) if self._request_seconds else measured

    def _requests(self) -> float:
        if self._rivals_until is not None and self._clock.monotonic() < self._rivals_until:
            low, high = SHARED_REQUESTS
        elif self._streak >= self._gap_after:
            self._streak, self._gap_after = 0, min(self._gap_after * 2, STREAK_MAX)
            low, high = GAP_REQUESTS
        else:
            return 0.0
        return low + (high - low) * self._chance.fraction()
