"""States with what pending transactions write that have committed, and what a batch does that waits for one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from wormdb.engine.commit.head import is_recent
from wormdb.engine.state.prepared import with_committed
from wormdb.errors import TransactionConflictError, UnavailableError

if TYPE_CHECKING:
    from wormdb.engine.commit.head import Head
    from wormdb.engine.commit.operations import LockedError, Pending
    from wormdb.engine.commit.readers import GroupRead
    from wormdb.engine.state.prepared import Decisions
    from wormdb.engine.state.view import View
    from wormdb.engine.transact.arbiter import Arbiter

__all__ = ["ShownStates"]

PREPARE_WAIT_SECONDS: Final = 0.2
"""How long a transaction waits for an older one that is in its way."""


@dataclass(slots=True)
class ShownStates:
    """The states of one collection as readers see them, while transactions are pending. Thread-safe."""

    head: Head
    readers: GroupRead
    arbiter: Arbiter
    _last: tuple[View, View] | None = field(default=None, init=False)
    """The last state without and with what lies on top: queries keep what they found out about it."""

    @property
    def decisions(self) -> Decisions:
        """Which transactions are known to have committed, or not."""
        return self.arbiter.decisions

    def is_decided(self, view: View) -> bool:
        """Whether it is known of all pending transactions of a state what became of them. No requests."""
        return all(self.decisions(one.id) is not None for one in view.pending)

    def newest(self, view: View) -> View:
        """A state as it is shown, which was just read. 1 GET for each transaction not known to be decided.

        Their records are read after the state: a reader that saw one of them elsewhere before sees it here too. So what
        was found undecided is asked for again each time.
        """
        while not self.is_decided(view):
            answered = self.arbiter.look(view.pending)
            with self.head.lock:
                time, pending = self.head.time, {one.id for one in self.head.view().pending}
            is_open = all(one.id in pending for one in view.pending if self.decisions(one.id) is None)
            if answered is None or (is_open and is_recent(time, answered)):
                break
            view = self.readers.view()  # so late that what was pending may be finished, and its record be gone
        return self.known(view)

    def known(self, view: View) -> View:
        """A state with what is known to have committed. No requests."""
        committed = frozenset(one.id for one in view.pending if self.decisions(one.id))
        last = self._last
        if last is not None and last[0] is view and last[1].committed == committed:
            return last[1]
        shown = with_committed(view, committed)
        self._last = (view, shown)
        return shown

    def await_free(self, pending: Pending, locked: LockedError, deadline: float) -> None:
        """Wait until it is decided what became of the transactions in the way of a batch. Costs as `Arbiter.clear`.

        A transaction waits for older ones only for a moment: of two that wait for each other one must give up. Raises
        TransactionConflictError then, UnavailableError at the deadline, which is on the monotonic clock.
        """
        until, prepare = deadline, pending.prepare
        is_patient = prepare is None or all(one.id > prepare.tx for one in locked.by)
        if not is_patient:
            until = min(deadline, self.arbiter.clock.monotonic() + PREPARE_WAIT_SECONDS)
        is_decided = self.arbiter.clear(locked.by, until)
        if is_decided and self.arbiter.clock.monotonic() < deadline:
            return
        name, by = self.head.collection.rstrip("/"), locked.by[0].id
        if is_patient or is_decided:
            raise UnavailableError(f"commit to {name}", reason=f"it waited for transaction {by}", fix="retry later")
        raise TransactionConflictError(
            f"transaction in {name}", reason=f"transaction {by} is in its way", collection=name, by=by
        )
