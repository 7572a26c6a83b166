"""Documents of one collection whose time is over, for a ledger: hidden from readers, and removed by entries."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

import msgspec

from wormdb.engine.commit.operations import Expire, LockedError, Pending
from wormdb.engine.overdue import OverdueDocuments
from wormdb.errors import WormError
from wormdb.settings import COMMIT_SECONDS, EXPIRE_DOCUMENTS_MAX
from wormdb.system.deadline import current

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.engine.commit.attempt import Outcome
    from wormdb.engine.log.clock import MiscClock
    from wormdb.engine.state.view import StoredVersion, View
    from wormdb.system.clock import Clock

__all__ = ["CollectionExpiry"]


@dataclass(frozen=True, slots=True)
class CollectionExpiry:
    """Thread-safe; everything that it needs comes in by argument."""

    view: Callable[[], View]
    """The newest state of the collection, as it is stored."""
    submit: Callable[[Pending, float], Outcome]
    """Commits a batch by a deadline on the monotonic clock."""
    batch_id: Callable[[], str]
    misc: MiscClock
    clock: Clock
    overdue: OverdueDocuments = field(default_factory=OverdueDocuments)

    def alive(self, view: View) -> View:
        """A state of the collection without the documents that are over by the store's time now.

        Costs as `OverdueDocuments.hide`.
        """
        return self.overdue.hide(view, self.misc.store_ms()) if view.definition.expiry is not None else view

    def living(self, view: View, held: StoredVersion | None) -> StoredVersion | None:
        """What is under an id in a state of the collection; nothing if it is over by the store's time. No requests."""
        rule = view.definition.expiry
        if held is None or held.document is None or rule is None:
            return held
        is_over = rule.is_over(held.document, self.misc.store_ms())
        return msgspec.structs.replace(held, document=None) if is_over else held

    def remove(self) -> int:
        """Remove the documents that are over by the store's time, by ordinary entries; how many.

        1 GET, what `OverdueDocuments.ends` costs, and 1 PUT for each 1,000 of them. Any number of processes may do
        this at once: each document ends once. What transactions hold is left for the next time.
        """
        view = self.view().bare
        if view.definition.closed is not None or view.definition.expiry is None:
            return 0
        ends, _ = self.overdue.ends(view, self.misc.store_ms())
        done = 0
        for start in range(0, len(ends), EXPIRE_DOCUMENTS_MAX):
            operations = tuple(Expire(one.id) for one in ends[start : start + EXPIRE_DOCUMENTS_MAX])
            seconds = min(COMMIT_SECONDS, call.left if (call := current()) is not None else COMMIT_SECONDS)
            outcome = self.submit(Pending(self.batch_id(), operations), self.clock.monotonic() + seconds)
            if isinstance(outcome, LockedError):
                continue
            if isinstance(outcome, WormError):
                raise outcome
            done += len(outcome.changes)
        return done

    def due_ms(self) -> float:
        """When a document may be over next, by the store's time; infinite if none ends. Costs as `remove` to look."""
        view = self.view().bare
        if view.definition.closed is not None or view.definition.expiry is None:
            return inf
        ends, until_ms = self.overdue.ends(view, self.misc.store_ms())
        return -inf if ends else until_ms
