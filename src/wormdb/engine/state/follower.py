"""What a log says after a state, kept while a transaction needs it, whatever roots take the place of its tail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wormdb.engine.state.view import DocumentChange, id_key
from wormdb.format.event import JobAttached

if TYPE_CHECKING:
    from wormdb.format.entry import Entry
    from wormdb.system.types import LogNumber

__all__ = ["LogFollower"]

ENTRIES_MAX: Final = 10_000
"""Entries that are kept; a transaction that is open for longer has to do without."""


class LogFollower:
    """The entries after one number, as a process comes to know them. Told under the lock of its head."""

    def __init__(self, number: LogNumber, *, is_whole: bool) -> None:
        """Of entries after `number`; not `is_whole` if some of them are not known any more."""
        self._number = int(number)
        self._entries: list[Entry] = []
        self._is_whole = is_whole

    def told(self, entry: Entry) -> None:
        """Keep an entry, unless it is known already."""
        if entry.number <= self._number + len(self._entries) or not self._is_whole:
            return
        is_next = entry.number == self._number + len(self._entries) + 1
        if (
            not is_next
            or len(self._entries) >= ENTRIES_MAX
            or any(isinstance(one, JobAttached) for one in entry.events)
        ):
            self._entries, self._is_whole = [], False
            return
        self._entries.append(entry)

    def changes(self, after: int, number: int) -> list[DocumentChange] | None:
        """Every change by entries after one number through another; None if not all of them are known. No requests."""
        if not self._is_whole or after < self._number or self._number + len(self._entries) < number:
            return None
        return [
            DocumentChange(id_key(change.id), change.seq, change.before, change.after, entry.number, batch.actor)
            for entry in self._entries
            if after < entry.number <= number
            for batch in entry.batches
            for change in batch.changes
        ]
