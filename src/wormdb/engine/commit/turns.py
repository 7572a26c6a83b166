"""Which batch is written next: processes take turns, and concurrent batches of one process share an entry.

A lost race costs three requests, and some stores let two writes of one object at once wait for a second. So writers
take turns, and the log itself says whose turn it is: each entry tells whether its writer will be back at once, and as
all writers read the same entries, all have the same queue. The first in the queue writes up to `TURN_COMMITS` entries,
and is last then. The others look for these entries meanwhile, which they must read anyway. A writer that does not come
when it is first is overtaken after a while, and left out the second time. A writer outside the queue writes after a
look between two turns; and now and then, and after each such writer, the door is open: the queue waits for those
outside.

Many writers need more than turns: then one of them gathers what the others offer, see `wormdb.engine.commit.offers`.
It says so in its entries, and is the only one in the queue. The others offer as long as its entries come; when they
stay away, the first of them that does not wait any more writes an entry itself, and gathers from then on.

A writer that is alone does not wait. It cannot know of a writer that never wins, and leaves a gap now and then.
All waits are multiples of what a request takes here, so they are short where requests are. Nothing here is needed for
safety: whatever a queue says, a slot goes to one writer.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wormdb.errors import LimitExceededError, OutcomeUnknownError, UnavailableError, WormError
from wormdb.settings import ENTRY_BYTES_MAX, GRACE_SECONDS, GROUP_BATCHES_MAX
from wormdb.system.deadline import pause

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.engine.commit.commit import Outcome
    from wormdb.engine.commit.operations import Pending
    from wormdb.format.entry import Entry
    from wormdb.system.clock import Chance, Clock

__all__ = ["GroupCommit", "TurnLook", "WriterTurns"]

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
"""Every DOOR_EVERY entries the queue pauses for DOOR_CYCLES cycles, so that newcomers can enter."""
TURN_COMMITS = 4
"""How many commits one after the other a process makes in its turn, if it has them: the others read them at once."""
GATHERS = 0x80
"""The byte behind the mark of a writer that takes what others offer. It is back at once, and in no turn."""
GATHER_EMPTY_MAX = 4
"""How many looks for offers may find none before a writer gathers no more."""
INTERVALS = 4
OFFER_BEATS = (3.0, 6.0)
"""How long an entry of the writer that gathers is waited for, in what it takes to gather and write one."""
STREAK_FIRST = 4
STREAK_MAX = 64
"""Commits in a row after which a process that knows of no other writer leaves a gap: 4, then 8, … at most this many."""
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
"""A write counts as at most this many looks; if it took longer, it opened a connection."""


@dataclass(frozen=True, slots=True)
class TurnLook:
    """What to do before the turn has come: wait, then ask for the next entries."""

    after_seconds: float
    width: int
    """How many entries are likely there by then."""


class WriterTurns:
    """The rhythm of one process's commits to one collection. For one thread at a time, but for `heard`."""

    def __init__(self, clock: Clock, chance: Chance) -> None:
        """Nothing is known: no pauses."""
        self._clock = clock
        self._chance = chance
        self._mark = chance.token(MARK_BYTES).hex()
        self._put, self._look = _Least(), _Least()
        self._queue: tuple[str, ...] = ()
        self._late: frozenset[str] = frozenset()
        """Writers that did not come at their turn; they are left out if they do not come again."""
        self._held = 0
        """How many commits are left to the first in the queue, if it is in the middle of its turn."""
        self._door = False
        self._writer, self._turn = "", 1
        """The writer of the last entry, and how many it wrote in a row."""
        self._gatherer = ""
        """The writer of the last entry, if it gathers."""
        self._intervals: deque[float] = deque(maxlen=INTERVALS)
        """How long its last entries were apart."""
        self._empty = 0
        """How many looks for offers in a row found none."""
        self._waits = 0.0
        """For how long an entry is waited for after an offer."""
        self._others: float | None = None
        """When an entry of another writer was heard of."""
        self._seen = self._looked = 0.0
        self._last_won: int | None = None
        self._last_time = 0.0
        self._streak = 0
        self._gap_after = STREAK_FIRST

    @property
    def name(self) -> str:
        """How all write ids of this writer begin."""
        return self._mark

    def mark(self, arrived: float, *, may_gather: bool = False) -> str:
        """How the write id of the next entry begins; `arrived` is when its first batch came.

        A writer that comes back right after its last commit is expected to do so again.
        """
        left = 0
        if self._has_rivals():
            if may_gather and self._empty < GATHER_EMPTY_MAX and arrived - self._last_time <= self._put.seconds:
                return f"{self._mark}{GATHERS:02x}"
            if self._held and self._queue[0] == self._mark:
                left = self._held
            elif arrived - self._last_time <= self._put.seconds:
                # Alone in the queue it promises no turn: those outside would wait for the end of it, and again.
                left = TURN_COMMITS if self._is_shared() else 1
        return f"{self._mark}{left:02x}"

    def told(self, entry: Entry) -> None:
        """An entry is known, the next of the log; see `Head`."""
        self.heard(entry.number, entry.write_id, self._clock.now_ms() - (entry.misc >> 8) / 1000)

    def heard(self, number: int, write_id: str, age_ms: float) -> None:
        """Entry `number` is known, the next of the log; it is `age_ms` old by its own time. One call at a time."""
        writer, left = write_id[: 2 * MARK_BYTES], int(write_id[2 * MARK_BYTES : 2 * MARK_BYTES + 2], 16)
        now = self._clock.monotonic()
        if writer != self._mark:
            if age_ms > 1000 * RIVALS_SECONDS:
                return
            self._streak, self._gap_after, self._others, self._empty = 0, STREAK_FIRST, now, 0
        self._gatherer = writer if left == GATHERS else ""
        if self._gatherer:
            self._intervals.append(min(now - self._seen, REQUEST_SECONDS_MAX))
            self._queue, self._late, self._held, self._seen = (writer,), frozenset(), 0, now
            self._writer, self._turn, self._door = writer, 1, (number + 1) % DOOR_EVERY == 0
            return
        queue = self._queue if now - self._seen <= RIVALS_SECONDS else ()
        place = queue.index(writer) if writer in queue else -1
        # A writer that is overtaken for the first time keeps its place.
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
        """A slot went to another writer, as two requests told in `seconds`."""
        if not self._put.seconds:
            self._put.add(min(seconds / 2, LOSS_SECONDS_MAX))

    def looked(self, seconds: float, width: int, *, ended: bool) -> None:
        """The log was asked for `width` entries at once, which took `seconds`; `ended` if they were not all there."""
        if width == 1:
            self._look.add(seconds)
        self._looked = self._clock.monotonic()
        if not ended:
            self._seen -= self._cycle()  # They may have been there for a while, and more behind them.

    def next_look(self) -> TurnLook | None:
        """What to do before a commit; None if it is our turn."""
        if not self._has_rivals():
            return None
        now, queue = self._clock.monotonic(), self._queue
        look, cycle, rest = self._look.seconds or self._put.seconds, self._cycle(), now - self._seen
        is_member = self._mark in queue
        # A writer outside the queue lets the first one end its turn, to which it would lose, unless the door is open.
        place = queue.index(self._mark) if is_member else int(bool(queue) and self._held > 0 and not self._door)
        door = DOOR_CYCLES if is_member and self._door else 0
        if door and self.gathers:
            cycle, door = self._beat(), 1  # most of the others offer, and are not at the door
        if place:
            ahead = 1 if place == 1 else max(self._held, 1) + (place - 2) * self._turn
            if rest < (ahead + door) * cycle:
                return TurnLook((ahead + door) * cycle - rest, ahead)
            patience = PATIENCE if is_member and queue[0] not in self._late else PATIENCE_LATE
            if rest < (patience + place - 1 + door) * cycle:
                return TurnLook(look * place, 1)
        elif rest < door * cycle:
            return TurnLook(door * cycle - rest, 1)
        known = now - max(self._seen, self._looked)
        return TurnLook(0.0, 1) if known > (cycle if is_member else look) else None

    @property
    def gathers(self) -> bool:
        """Whether others may have offered something to this writer."""
        return self._gatherer == self._mark

    def gathered(self, found: int, seconds: float) -> None:
        """Tell how many offers were new, as was asked for in `seconds`; if there were any by two requests."""
        self._look.add(seconds / 2 if found else seconds)
        self._empty = 0 if found else self._empty + 1
        if found:
            self._others = self._clock.monotonic()

    @property
    def is_gathered(self) -> bool:
        """Whether another writer is about to write the next entry, and takes what is offered to it."""
        rest = self._clock.monotonic() - self._seen
        return bool(self._gatherer) and not self.gathers and rest < self._patience(OFFER_BEATS[0])

    def offered(self, seconds: float) -> None:
        """Something was offered, by one request that took `seconds`."""
        self._put.add(seconds)
        low, high = OFFER_BEATS
        self._waits = self._patience(low + (high - low) * self._chance.fraction())

    def next_offer_look(self) -> float | None:
        """After how many seconds to look whether an offer was taken; None if it is not waited for any more."""
        rest = self._clock.monotonic() - self._seen
        is_gathered = bool(self._gatherer) and not self.gathers and rest < self._waits
        return max(0.0, self._beat() - rest) if is_gathered else None

    def taken(self) -> None:
        """What was offered is in the log."""
        self._last_time = self._clock.monotonic()

    def _beat(self) -> float:
        """What it takes to find what others offer, and to write it, as requests take."""
        return 2 * (self._look.seconds or self._put.seconds) + self._put.seconds

    def _patience(self, beats: float) -> float:
        """For how long the next entry is waited for; longer if the last ones were late."""
        beat, last = self._beat(), self._intervals
        return beats * max(beat, sum(last) / len(last)) if last and beat else beats * beat

    def _has_rivals(self) -> bool:
        return self._others is not None and self._clock.monotonic() - self._others <= RIVALS_SECONDS

    def _is_shared(self) -> bool:
        return any(writer != self._mark for writer in self._queue)

    def _cycle(self) -> float:
        """What it takes to learn of an entry and to write the next."""
        look = self._look.seconds or self._put.seconds
        return look + min(self._put.seconds, PUT_LOOKS_MAX * look)

    def leave_gap(self, number: int) -> None:
        """Wait after a streak, so that a writer that is not known yet can take slot `number` first."""
        if self._last_won is None or number != self._last_won + 1 or self._streak < self._gap_after:
            return
        now = self._clock.monotonic()
        if self.gathers or (self._has_rivals() and self._is_shared()):
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


# --- In one process: concurrent batches share one entry.
#
# The first caller commits at once. Batches that arrive while a PUT is on its way wait, and one of their callers takes
# all of them into the next entry: so an idle collection answers at once, and a busy one needs few entries. The caller
# with the most time left leads, so that a commit does not end for the others before their time; each of them returns at
# its own deadline, wherever its batch is.

GATHER_SECONDS_MIN = 0.001
GATHER_SECONDS_MAX = 0.02
GATHER_SHARE = 0.2
"""How long to wait for company, as a share of what the last commit took."""
GATHER_STEPS = 8
EARLY_SECONDS_MAX = 1.0
"""By how much a commit may end before the deadline of a batch that another caller commits."""


@dataclass(slots=True, eq=False)
class _Ticket:
    pending: Pending
    deadline: float
    leads: bool = False
    outcome: Outcome | None = None
    wake: threading.Event = field(default_factory=threading.Event)


class GroupCommit:
    """The queue in front of one collection's committer. Thread-safe."""

    def __init__(
        self,
        commit: Callable[[list[Pending], float], list[Outcome]],
        clock: Clock,
        fate_of: Callable[[Pending], Outcome | str | None] = lambda _: None,
        withdraw: Callable[[Pending], Outcome | str | None] = lambda _: None,
    ) -> None:
        """`commit` is called by one thread at a time; `fate_of` tells what is known of a batch if it was interrupted.

        That is its outcome if it has one, its commit id if it is on its way, None if it was not sent. `withdraw` tells
        the same, and takes the batch out of the commit that is under way, so that it will not be sent any more.
        """
        self._commit = commit
        self._fate_of = fate_of
        self._withdraw = withdraw
        self._clock = clock
        self._lock = threading.Lock()
        self._queue: list[_Ticket] = []
        self._group: list[_Ticket] = []
        """Those that the leader commits for; it does not leave before each of them knows its outcome."""
        self._is_led = False
        self._last_size = 1
        self._last_seconds = 0.0

    def submit(self, pending: Pending, deadline: float) -> Outcome:
        """Commit a batch, perhaps in company; returns its own outcome, soon after `deadline` at the latest."""
        ticket = _Ticket(pending, deadline)
        try:
            self._enter(ticket)
            if not ticket.leads and not ticket.wake.wait(self._rest(ticket)):
                self._give_up(ticket)
            while ticket.leads and ticket.outcome is None:
                self._lead(ticket)
        finally:
            # An interrupt may come at any moment, here too; a leader must never leave without a successor.
            try:
                self._leave(ticket)
            except BaseException:
                self._leave(ticket)
                raise
        assert ticket.outcome is not None
        return ticket.outcome

    def _enter(self, ticket: _Ticket) -> None:
        with self._lock:
            self._queue.append(ticket)
            if not self._is_led:
                # In this order: a leader that is interrupted in between leaves, and hands over nothing it has not.
                ticket.leads = True
                self._is_led = True

    def _leave(self, ticket: _Ticket) -> None:
        """The leader makes the oldest ticket that waits lead next; if none waits, the next caller leads at once.

        A thread that was interrupted while it waited takes its ticket along: no thread would lead for it. If it led, it
        tells those for whom it did what it knows. All of this can be done again, if an interrupt comes meanwhile.
        """
        with self._lock:
            if ticket in self._queue:
                self._queue.remove(ticket)
            if not ticket.leads:
                return
            self._settle(self._group, [each.outcome or self._interrupted(each.pending) for each in self._group])
            self._group = []
            self._is_led = bool(self._queue)
            if self._queue:
                following = max(self._queue, key=lambda waiting: waiting.deadline)
                following.leads = True
                following.wake.set()
            ticket.leads = False

    def _rest(self, ticket: _Ticket) -> float:
        return max(0.0, ticket.deadline + GRACE_SECONDS - self._clock.monotonic())

    def _give_up(self, ticket: _Ticket) -> None:
        """The time of a batch is over while another commits, perhaps for it too."""
        with self._lock:
            if ticket.leads:
                return
            if ticket in self._queue:
                self._queue.remove(ticket)
                ticket.outcome = self._too_late("it waited for batches before it")
                return
        fate = self._withdraw(ticket.pending)
        if ticket.outcome is not None:
            return
        if fate is None:
            ticket.outcome = self._too_late("the state that it is checked against was not read in time")
        elif isinstance(fate, str):
            ticket.outcome = _unknown("no answer came until its deadline", fate)
        else:
            ticket.outcome = fate

    @staticmethod
    def _too_late(reason: str) -> UnavailableError:
        return UnavailableError("commit", reason=f"{reason} until its deadline; nothing was written", fix="retry later")

    def _lead(self, leader: _Ticket) -> None:
        self._gather()
        with self._lock:
            group = self._take(leader)
        start = self._clock.monotonic()
        outcomes: list[Outcome]
        try:
            outcomes = self._commit([ticket.pending for ticket in group], leader.deadline)
        except LimitExceededError:
            # Nothing was written: together they are too much for an entry, each alone may fit.
            outcomes = [self._alone(ticket) for ticket in group]
        except WormError as error:
            # Raised before an entry was sent, or after it was known to have lost: nothing was written.
            outcomes = [error] * len(group)
        self._last_seconds = self._clock.monotonic() - start
        self._settle(group, outcomes)

    def _alone(self, ticket: _Ticket) -> Outcome:
        outcome: Outcome
        try:
            (outcome,) = self._commit([ticket.pending], ticket.deadline)
        except WormError as error:
            outcome = error
        # Now, and not with the others: the next commit forgets what became of this one.
        self._settle([ticket], [outcome])
        return outcome

    def _settle(self, group: list[_Ticket], outcomes: list[Outcome]) -> None:
        for ticket, outcome in zip(group, outcomes, strict=True):
            if ticket.outcome is None:  # a caller that gave up has its answer
                ticket.outcome = outcome
            ticket.wake.set()

    def _gather(self) -> None:
        """Under load, wait a moment for the callers of the last group to come back."""
        limit = min(max(GATHER_SHARE * self._last_seconds, GATHER_SECONDS_MIN), GATHER_SECONDS_MAX)
        for _ in range(GATHER_STEPS):
            if len(self._queue) >= self._last_size:
                return
            self._clock.sleep(limit / GATHER_STEPS)

    def _take(self, leader: _Ticket) -> list[_Ticket]:
        """As many as fit into one entry, the oldest first; none that has much more time than the leader."""
        latest = leader.deadline + EARLY_SECONDS_MAX
        group: list[_Ticket] = []
        size = 0
        for ticket in self._queue:
            if ticket.deadline > latest:
                continue
            size += ticket.pending.bytes_about
            is_full = size > ENTRY_BYTES_MAX // 2 or len(group) == GROUP_BATCHES_MAX
            if group and (is_full or ticket.pending.is_alone or group[0].pending.is_alone):
                break
            group.append(ticket)
        taken = set(group)
        self._group = group
        self._queue = [ticket for ticket in self._queue if ticket not in taken]
        self._last_size = len(group)
        return group

    def _interrupted(self, pending: Pending) -> Outcome:
        """The outcome of a batch that another thread committed until it was interrupted."""
        fate = self._fate_of(pending)
        reason = "the thread that committed for several was interrupted"
        if fate is None:
            return UnavailableError("commit", reason=f"{reason}; nothing was written", fix="retry")
        return _unknown(reason, fate) if isinstance(fate, str) else fate


def _unknown(reason: str, commit_id: str) -> OutcomeUnknownError:
    fix = "call resolve(commit_id) before retrying: the batch may be in the log, or may still land"
    return OutcomeUnknownError("commit", reason=reason, fix=fix, commit_id=commit_id)
