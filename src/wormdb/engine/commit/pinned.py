"""One state of a collection as a value that can be sent: other processes make the same view of it.

    sent = pin(view, collection)              # in one process
    view = unpin(sent, load, log, register)   # in another: the same documents, whatever was committed since

It holds the root as it was and the entries after it, or only their numbers if they are long: entries stay for an hour
at least after a root has applied them, as blocks do after no root names them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wormdb.engine.log.root import RootState
from wormdb.engine.state.definition import Definition
from wormdb.engine.state.jobs import Jobs
from wormdb.engine.state.prepared import after_events, from_root, with_committed
from wormdb.engine.state.view import Overlay, View
from wormdb.errors import SnapshotTooOldError
from wormdb.format.entry import encode_entry
from wormdb.format.event import JobAttached
from wormdb.format.root import encode_root
from wormdb.settings import MIB
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from wormdb.engine.commit.head import BaseLoader
    from wormdb.engine.log.entries import Log
    from wormdb.engine.log.root import Register
    from wormdb.format.entry import Entry

__all__ = ["PinnedView", "pin", "unpin"]

ENTRIES_BYTES_MAX: Final = MIB
"""Longer tails are read by each process instead of being sent to it."""


@dataclass(frozen=True, slots=True)
class PinnedView:
    """The state of one collection through log entry `number`."""

    number: int
    count: int
    """How many documents there are."""
    root: bytes | None
    """As it was stored."""
    entries: tuple[bytes, ...] | None
    """Those after the root, as they were stored; None if they are to be read from the log."""
    now_ms: int | None = None
    """The store's time at which it is shown, if documents end by themselves."""
    committed: tuple[str, ...] = ()
    """Transactions that are pending in it and had committed when it was pinned."""


def pin(view: View, collection: str) -> PinnedView:
    """The state of a view of a ledger, to be sent. No requests."""
    committed, now_ms, view = tuple(sorted(view.committed)), view.now_ms, view.bare
    place = view.place
    entries = []
    size = 0
    for entry in view.overlay.entries(view.number):
        entries.append(encode_entry(entry, collection=collection))
        size += len(entries[-1])
        if size > ENTRIES_BYTES_MAX:
            break
    return PinnedView(
        number=view.number,
        count=view.count,
        root=None if place is None else encode_root(place.root),
        entries=tuple(entries) if size <= ENTRIES_BYTES_MAX else None,
        now_ms=now_ms,
        committed=committed,
    )


def unpin(pinned: PinnedView, load: BaseLoader, log: Log, register: Register) -> View:
    """The view that was pinned. No requests, or those of `Log.between` for the entries after the root.

    Raises SnapshotTooOldError if such an entry is gone.
    """
    root = None if pinned.root is None else register.decode(pinned.root)
    applied = LogNumber(0 if root is None else root.applied)
    definition = Definition.none() if root is None else Definition.of_root(root)
    jobs = Jobs() if root is None else Jobs.of(root.jobs)
    pending = () if root is None else from_root(root.pending)
    overlay = Overlay()
    for entry in _entries(pinned, applied, log, register):
        number = LogNumber(entry.number)
        definition = definition.after(entry.events, number)
        jobs = jobs.after(entry)
        pending = after_events(pending, entry.events, number, collection=log.collection)
        attaching = next((event for event in entry.events if isinstance(event, JobAttached)), None)
        overlay.apply(entry, None if attaching is None else load.attached(attaching, number))
    base = load.root(RootState(root, None, None))
    view = View(LogNumber(pinned.number), definition, base, applied, overlay, pinned.count, jobs, pending)
    view = with_committed(view, frozenset(pinned.committed)) if pinned.committed else view
    if pinned.now_ms is None:
        return view
    from wormdb.engine.overdue import OverdueDocuments

    return OverdueDocuments().hide(view, pinned.now_ms)


def _entries(pinned: PinnedView, applied: LogNumber, log: Log, register: Register) -> list[Entry]:
    if pinned.entries is not None:
        numbers = range(applied + 1, pinned.number + 1)
        return [log.decode(LogNumber(number), body).entry for number, body in zip(numbers, pinned.entries, strict=True)]
    found = log.between(applied, LogNumber(pinned.number), register)
    if found is None:
        raise SnapshotTooOldError(
            f"the state of {log.collection} through entry {pinned.number}",
            reason="entries of its tail have been trimmed since it was pinned",
        )
    return [record.entry for record in found]
