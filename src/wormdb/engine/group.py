"""Commit together what waits at the same time.

The first caller commits at once. Whoever comes while a PUT is on its way waits, and the first of those
takes all of them into the next entry: so an idle collection answers at once, and a busy one needs few entries.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wormdb.errors import LimitExceededError, OutcomeUnknownError, WormError
from wormdb.limits import ENTRY_BYTES_MAX, GROUP_BATCHES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.clock import Clock
    from wormdb.engine.commit import Outcome
    from wormdb.engine.operations import Pending

__all__ = ["GroupCommit"]

GATHER_SECONDS_MIN = 0.001
GATHER_SECONDS_MAX = 0.02
GATHER_SHARE = 0.2
"""How long to wait for company, as a share of what the last commit took."""
GATHER_STEPS = 8


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
        commit_id_of: Callable[[Pending], str | None] = lambda _: None,
    ) -> None:
        """`commit` is called by one thread at a time; `commit_id_of` tells what it was doing when interrupted."""
        self._commit = commit
        self._commit_id_of = commit_id_of
        self._clock = clock
        self._lock = threading.Lock()
        self._queue: list[_Ticket] = []
        self._is_led = False
        self._last_size = 1
        self._last_seconds = 0.0

    def submit(self, pending: Pending, deadline: float) -> Outcome:
        """Commit a batch, perhaps in company; returns its own outcome."""
        ticket = _Ticket(pending, deadline)
        try:
            self._enter(ticket)
            if not ticket.leads:
                ticket.wake.wait()
            if ticket.leads:
                self._lead()
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

        A thread that was interrupted while it waited takes its ticket along: nobody would lead for it.
        """
        with self._lock:
            if ticket in self._queue:
                self._queue.remove(ticket)
            if not ticket.leads:
                return
            self._is_led = bool(self._queue)
            if self._queue:
                self._queue[0].leads = True
                self._queue[0].wake.set()
            ticket.leads = False

    def _lead(self) -> None:
        self._gather()
        with self._lock:
            group = self._take()
        deadline = max(ticket.deadline for ticket in group)
        start = self._clock.monotonic()
        outcomes: list[Outcome]
        try:
            outcomes = self._commit([ticket.pending for ticket in group], deadline)
        except LimitExceededError:
            # Nothing was written: together they are too much for an entry, each alone may fit.
            outcomes = [self._alone(ticket) for ticket in group]
        except WormError as error:
            # Raised before an entry was sent, or after it was known to have lost: nothing was written.
            outcomes = [error] * len(group)
        except BaseException:
            self._settle(group, [self._interrupted(ticket.pending) for ticket in group])
            raise
        self._last_seconds = self._clock.monotonic() - start
        self._settle(group, outcomes)

    def _alone(self, ticket: _Ticket) -> Outcome:
        try:
            (outcome,) = self._commit([ticket.pending], ticket.deadline)
        except WormError as error:
            return error
        return outcome

    def _settle(self, group: list[_Ticket], outcomes: list[Outcome]) -> None:
        for ticket, outcome in zip(group, outcomes, strict=True):
            ticket.outcome = outcome
            ticket.wake.set()

    def _gather(self) -> None:
        """Under load, wait a moment for those who were in the last group to come back."""
        limit = min(max(GATHER_SHARE * self._last_seconds, GATHER_SECONDS_MIN), GATHER_SECONDS_MAX)
        for _ in range(GATHER_STEPS):
            if len(self._queue) >= self._last_size:
                return
            self._clock.sleep(limit / GATHER_STEPS)

    def _take(self) -> list[_Ticket]:
        """As many as fit into one entry, the oldest first."""
        taken, size = 0, 0
        for ticket in self._queue[:GROUP_BATCHES_MAX]:
            size += ticket.pending.bytes_about
            if taken and (size > ENTRY_BYTES_MAX // 2 or ticket.pending.is_alone or self._queue[0].pending.is_alone):
                break
            taken += 1
        group, self._queue = self._queue[:taken], self._queue[taken:]
        self._last_size = taken
        return group

    def _interrupted(self, pending: Pending) -> OutcomeUnknownError:
        return OutcomeUnknownError(
            "commit",
            reason="the thread that committed for several was interrupted",
            commit_id=self._commit_id_of(pending),
        )
