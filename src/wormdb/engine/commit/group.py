"""Commit together what waits at the same time.

The first caller commits at once. Whoever comes while a PUT is on its way waits, and one of those takes all of them into
the next entry: so an idle collection answers at once, and a busy one needs few entries. The one with the most time
leads, so that a commit does not end for the others before their time; each of them ends at its own deadline, wherever
its batch is.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wormdb.errors import LimitExceededError, OutcomeUnknownError, UnavailableError, WormError
from wormdb.settings import ENTRY_BYTES_MAX, GRACE_SECONDS, GROUP_BATCHES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.engine.commit.commit import Outcome
    from wormdb.engine.state.operations import Pending
    from wormdb.system.clock import Clock

__all__ = ["GroupCommit"]

GATHER_SECONDS_MIN = 0.001
GATHER_SECONDS_MAX = 0.02
GATHER_SHARE = 0.2
"""How long to wait for company, as a share of what the last commit took."""
GATHER_STEPS = 8
EARLY_SECONDS_MAX = 1.0
"""By how much a commit may end before the deadline of a batch that somebody else commits."""


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
            # An interrupt may come at any moment, here too; whoever leads must never leave without a successor.
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
                # In this order: a leader who is interrupted in between leaves, and hands over nothing it has not.
                ticket.leads = True
                self._is_led = True

    def _leave(self, ticket: _Ticket) -> None:
        """Whoever led makes the oldest that waits lead next; whoever comes when nobody waits leads at once.

        A thread that was interrupted while it waited takes its ticket along: nobody would lead for it. If it led, it
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
            if ticket.outcome is None:  # whoever gave up has been told something
                ticket.outcome = outcome
            ticket.wake.set()

    def _gather(self) -> None:
        """Under load, wait a moment for those who were in the last group to come back."""
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
