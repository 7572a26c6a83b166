"""Whose turn it is, so that several processes that write one collection do not get in each other's way.

A lost race costs three requests, and some stores let two writes of one object at once wait for a second. So writers
take turns, and the log itself says whose turn it is: each entry tells whether its writer will be back at once, and as
everybody reads the same entries, everybody has the same queue. Who is first writes, up to `TURN_COMMITS` entries, and
is last then. The others look for these entries meanwhile, which they must read anyway. Who does not come when it is
first is overtaken after a while, and left out the second time. Who is not in the queue writes after a look between
two turns; and now and then, and after each such writer, the door is open: the queue waits for those outside.

A writer that is alone waits for nobody. It cannot know of one who never wins, and leaves a gap now and then.
All waits are multiples of what a request takes here, so they are short where requests are. Nothing here is needed for
safety: whatever a queue says, a slot goes to one writer.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wormdb.system.deadline import pause

if TYPE_CHECKING:
    from wormdb.system.clock import Chance, Clock

__all__ = ["Look", "Pace"]

MARK_BYTES = 4
"""How much of a write id names the writer. The byte behind it says how many commits are left of its turn, this one
included, before it is the last in the queue; 0 if it will not be back at once."""
RIVALS_MAX = 8
"""As many of the last writers are in the queue; with more there are races again."""
RIVALS_SECONDS = 3.0
"""How long after their last entry others are taken to be about."""
PATIENCE, PATIENCE_LATE = 5, 2
"""How long the first in the queue is waited for, and one that was late before, in cycles of a look and a write."""
DOOR_EVERY = 32
DOOR_CYCLES = 3
"""Before each so manyth entry those who are not in the queue have so much time."""
TURN_COMMITS = 4
"""How many commits one after the other a process makes in its turn, if it has them: the others read them at once."""
STREAK_FIRST = 4
STREAK_MAX = 64
"""Commits in a row after which a process that knows of nobody leaves a gap: 4, then 8, … at most this many."""
STREAK_REQUESTS = 4
"""What may lie between two commits in a row, in requests."""
GAP_REQUESTS = (6.0, 8.0)
"""The gap in a streak: a newcomer is further behind."""
RETRY_REQUESTS_MAX = 8
"""The bound on the pause of a loser before it looks again, in requests."""
REQUEST_SECONDS_MAX = 0.5
"""A request that took longer was an accident, and is not what to measure pauses by."""
LOSS_SECONDS_MAX = 0.05
"""What a lost race says about a request at most: it may have waited for the winner."""
SAMPLES = 8
PUT_LOOKS_MAX = 2.5
"""A write takes at most so many looks; if it took longer, that was its first connection."""


@dataclass(frozen=True, slots=True)
class Look:
    """What to do before the turn has come: wait, then ask for the next entries."""

    after_seconds: float
    width: int
    """How many entries are likely there by then."""


class Pace:
    """The rhythm of one process's commits to one collection. For one thread at a time, but for `heard`."""

    def __init__(self, clock: Clock, chance: Chance) -> None:
        """Nothing is known: no pauses."""
        self._clock = clock
        self._chance = chance
        self._mark = chance.token(MARK_BYTES).hex()
        self._put, self._look = _Least(), _Least()
        self._queue: tuple[str, ...] = ()
        self._late: frozenset[str] = frozenset()
        """Who did not come when it was their turn; they are left out if they do not come again."""
        self._held = 0
        """How many commits are left to the first in the queue, if it is in the middle of its turn."""
        self._door = False
        self._writer, self._turn = "", 1
        """Who wrote the last entry, and how many in a row."""
        self._others: float | None = None
        """When an entry of another writer was heard of."""
        self._seen = self._looked = 0.0
        self._last_won: int | None = None
        self._last_time = 0.0
        self._streak = 0
        self._gap_after = STREAK_FIRST

    def mark(self, arrived: float) -> str:
        """How the write id of the next entry begins; `arrived` is when its first batch came.

        Whoever comes back right after its last commit is expected to do so again.
        """
        left = 0
        if self._has_rivals():
            if self._held and self._queue[0] == self._mark:
                left = self._held
            elif arrived - self._last_time <= self._put.seconds:
                # Alone in the queue it promises no turn: those outside would wait for the end of it, and again.
                left = TURN_COMMITS if self._is_shared() else 1
        return f"{self._mark}{left:02x}"

    def heard(self, number: int, write_id: str, age_ms: float) -> None:
        """Entry `number` is known, the next of the log; it is `age_ms` old by its own time. One call at a time."""
        writer, left = write_id[: 2 * MARK_BYTES], int(write_id[2 * MARK_BYTES : 2 * MARK_BYTES + 2], 16)
        now = self._clock.monotonic()
        if writer != self._mark:
            if age_ms > 1000 * RIVALS_SECONDS:
                return
            self._streak, self._gap_after, self._others = 0, STREAK_FIRST, now
        queue = self._queue if now - self._seen <= RIVALS_SECONDS else ()
        place = queue.index(writer) if writer in queue else -1
        # Who is overtaken for the first time keeps its place.
        overtaken = tuple(other for other in queue[: max(place, 0)] if other not in self._late)
        others = (*overtaken, *queue[place + 1 :])[-RIVALS_MAX:]
        self._late = (self._late & {*queue[place + 1 :]}) | {*overtaken}
        self._writer, self._turn = writer, 1 + self._turn * (writer == self._writer)
        self._door = place < 0 or (number + 1) % DOOR_EVERY == 0
        self._held = left - 1 if 1 < left <= TURN_COMMITS else 0
        if self._held:
            self._queue = (writer, *others)
        else:
            self._queue = (*others, writer) if left == 1 else others
        self._seen = now

    def won(self, number: int, seconds: float) -> None:
        """The slot `number` is ours, by one request that took `seconds`."""
        self._put.add(seconds)
        now = self._clock.monotonic()
        if now - self._last_time <= seconds + STREAK_REQUESTS * self._put.seconds:
            self._streak += 1
        else:
            self._streak, self._gap_after = 1, STREAK_FIRST
        self._last_won, self._last_time = number, now

    def lost(self, seconds: float) -> None:
        """A slot went to somebody else, as two requests told in `seconds`."""
        if not self._put.seconds:
            self._put.add(min(seconds / 2, LOSS_SECONDS_MAX))

    def looked(self, seconds: float, width: int, *, ended: bool) -> None:
        """The log was asked for so many entries at once, which took `seconds`; `ended` if they were not all there."""
        if width == 1:
            self._look.add(seconds)
        self._looked = self._clock.monotonic()
        if not ended:
            self._seen -= self._cycle()  # They may have been there for a while, and more behind them.

    def next_look(self) -> Look | None:
        """What to do before a commit; None if it is our turn."""
        if not self._has_rivals():
            return None
        now, queue = self._clock.monotonic(), self._queue
        look, cycle, rest = self._look.seconds or self._put.seconds, self._cycle(), now - self._seen
        is_member = self._mark in queue
        # Who is not in the queue lets the first one end its turn, against which it would lose, unless the door is open.
        place = queue.index(self._mark) if is_member else int(bool(queue) and self._held > 0 and not self._door)
        door = DOOR_CYCLES if is_member and self._door else 0
        if place:
            ahead = 1 if place == 1 else max(self._held, 1) + (place - 2) * self._turn
            if rest < (ahead + door) * cycle:
                return Look((ahead + door) * cycle - rest, ahead)
            patience = PATIENCE if is_member and queue[0] not in self._late else PATIENCE_LATE
            if rest < (patience + place - 1 + door) * cycle:
                return Look(look * place, 1)
        elif rest < door * cycle:
            return Look(door * cycle - rest, 1)
        known = now - max(self._seen, self._looked)
        return Look(0.0, 1) if known > (cycle if is_member else look) else None

    def _has_rivals(self) -> bool:
        return self._others is not None and self._clock.monotonic() - self._others <= RIVALS_SECONDS

    def _is_shared(self) -> bool:
        return any(writer != self._mark for writer in self._queue)

    def _cycle(self) -> float:
        """What it takes to learn of an entry and to write the next."""
        look = self._look.seconds or self._put.seconds
        return look + min(self._put.seconds, PUT_LOOKS_MAX * look)

    def leave_gap(self, number: int) -> None:
        """Wait, if nobody else is known who should have the chance to take slot `number` first."""
        if self._last_won is None or number != self._last_won + 1 or self._streak < self._gap_after:
            return
        now = self._clock.monotonic()
        if self._has_rivals() and self._is_shared():
            return
        self._streak, self._gap_after = 0, min(self._gap_after * 2, STREAK_MAX)
        low, high = GAP_REQUESTS
        seconds = self._put.seconds * (low + (high - low) * self._chance.fraction()) - (now - self._last_time)
        if seconds > 0:
            pause(self._clock, seconds)
            self._last_time = self._clock.monotonic()  # The gap does not end the streak.

    def pause_after_loss(self, losses: int) -> None:
        """Full jitter, so that many losers do not go on losing against each other."""
        bound = self._put.seconds * min(losses, RETRY_REQUESTS_MAX)
        pause(self._clock, bound * self._chance.fraction())


class _Least:
    """What a request takes if nothing is in its way: the least of the last few."""

    def __init__(self) -> None:
        self._last: deque[float] = deque(maxlen=SAMPLES)

    def add(self, seconds: float) -> None:
        self._last.append(min(seconds, REQUEST_SECONDS_MAX))

    @property
    def seconds(self) -> float:
        return min(self._last, default=0.0)
