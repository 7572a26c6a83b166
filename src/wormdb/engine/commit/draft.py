"""Changes that are checked against one state and not committed yet: what a transaction has written so far.

Each batch is checked as a commit would check it, on top of those before it, and is refused or kept; nothing is
written. `operations` are all of them as one batch, one operation for each document.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wormdb.engine.commit.operations import Insert, ReadVersion, Remove, Save
from wormdb.engine.commit.validate import Group
from wormdb.engine.index.unique import UniqueOwners
from wormdb.engine.state.view import id_key

if TYPE_CHECKING:
    from wormdb.engine.commit.operations import Operation, Pending
    from wormdb.engine.index.shelf import IndexShelf
    from wormdb.engine.state.view import StoredVersion, View
    from wormdb.engine.tree.definition import Index
    from wormdb.format.entry import LoggedChange

__all__ = ["Draft"]


@dataclass(frozen=True, slots=True)
class _StateHead:
    """One state, as validation sees the head."""

    state: View
    trees: IndexShelf
    numbered: int

    def view(self) -> View:
        return self.state

    def unique(self, index: Index) -> UniqueOwners:
        return UniqueOwners.of(index, self.state, self.trees)

    def sequence(self) -> int:
        return self.numbered


class Draft:
    """Changes on top of one state of a collection, which does not move. For one thread at a time."""

    def __init__(self, seen: View, *, collection: str, origin: str, trees: IndexShelf, sequence: int) -> None:
        """Nothing is changed yet. `sequence` is the greatest id made of digits that is known. No requests."""
        self.seen = seen
        self.view = seen
        """The state with the changes so far on top."""
        self.size = 0
        """About how many bytes the changes would take in an entry."""
        self._collection = collection
        self._origin = origin
        self._trees = trees
        self._sequence = sequence
        self._changes: list[LoggedChange] = []
        self._first: dict[bytes, StoredVersion | None] = {}
        """By key what was there before the first change, in order of the first changes."""

    def add(self, pending: Pending) -> tuple[LoggedChange, ...]:
        """Check a batch and keep it; returns its changes. Its guard is asked with the state so far.

        Costs as checking a commit does: what has to be looked up. Raises what a commit is refused for; then nothing
        of the batch is kept.
        """
        group = Group(_StateHead(self.view, self._trees, self._sequence), self._collection)
        changes = group.add(pending)
        keys = [id_key(change.id) for change in changes]
        missing = [key for key in dict.fromkeys(keys) if key not in self._first]
        before = self.seen.get_many(missing) if missing else {}
        view = self.view.on_top(changes)
        self._first |= {key: before.get(key) for key in missing}
        self._changes += changes
        self._sequence = max(self._sequence, group.numbered())
        self.size += sum(200 + len(change.before or b"") + len(change.after or b"") for change in changes)
        self.view = view
        return changes

    @property
    def written(self) -> dict[bytes, int]:
        """The ids of changed documents as JSON, each with the `seq` that it had before; 0 if it never was."""
        firsts = {id_key(change.id): change.id for change in reversed(self._changes)}
        return {firsts[key]: 0 if held is None else held.seq for key, held in self._first.items()}

    def operations(self) -> tuple[Operation, ...]:
        """What has changed, as one operation for each document, in the order of their first changes. No requests.

        A document that is as it was before, or that came and went, is not among them.
        """
        last = {id_key(change.id): change for change in self._changes}
        made = (self._operation(last[key], held) for key, held in self._first.items())
        return tuple(each for each in made if each is not None)

    def _operation(self, last: LoggedChange, held: StoredVersion | None) -> Operation | None:
        is_there = held is not None and held.document is not None
        if not is_there:
            return None if last.after is None else Insert(last.id, last.after)
        assert held is not None
        loaded = ReadVersion(held, self.seen.number, self._origin)
        if last.after is None:
            return Remove(last.id, loaded, must_exist=True, tombstone=_tombstone(last))
        return None if last.after == held.document else Save(last.id, last.after, loaded)


def _tombstone(change: LoggedChange) -> bytes | None:
    """The members that say when and by whom a document went to the trash; None if it did not."""
    if change.trash is None or change.before is None:
        return None
    begin, end = b'{"_id":' + change.id + b",", b',"document":' + change.before + b"}"
    return change.trash.removeprefix(begin).removesuffix(end)
