"""Changes that are checked against one state and not committed yet: what a transaction has written so far.

Each batch is checked as a commit would check it, on top of those before it, and is refused or kept; nothing is
written. `operations` are all of them as one batch, which makes the same changes again. A document that is over when it
is written ends at once, as it does for every reader of a collection: its end is one of the changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wormdb.engine.commit.operations import Expire, Insert, ReadVersion, Remove, Save
from wormdb.engine.commit.validate import Group
from wormdb.engine.index.unique import UniqueOwners
from wormdb.engine.state.view import StoredVersion, id_key
from wormdb.errors import TransactionTooLargeError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb.engine.commit.operations import Operation, Pending
    from wormdb.engine.index.shelf import IndexShelf
    from wormdb.engine.state.definition import Definition
    from wormdb.engine.state.view import View
    from wormdb.engine.tree.definition import Index
    from wormdb.format.entry import LoggedChange
    from wormdb.format.event import Event

__all__ = ["Draft", "without_ends"]


@dataclass(frozen=True, slots=True)
class _StateHead:
    """One state, as validation sees the head."""

    state: View
    trees: IndexShelf
    numbered: int
    owners: dict[Index, UniqueOwners]
    """Of unique values at the state, as far as they were asked for."""

    def view(self) -> View:
        return self.state

    def unique(self, index: Index) -> UniqueOwners:
        if index not in self.owners:
            self.owners[index] = UniqueOwners.of(index, self.state, self.trees)
        return self.owners[index]

    def sequence(self) -> int:
        return self.numbered


class Draft:
    """Changes on top of one state of a collection. For one thread at a time."""

    def __init__(
        self, seen: View, *, collection: str, origin: str, trees: IndexShelf, sequence: int, now_ms: int
    ) -> None:
        """Nothing is changed yet. `sequence` is the greatest id made of digits that is known. No requests.

        What is over at `now_ms`, the store's time, is not seen; that of a state that is shown at a time of its own.
        """
        self.seen = seen
        """The state below the changes."""
        self.view = seen
        """The state with the changes so far on top."""
        self.size = 0
        """About how many bytes the changes would take in an entry."""
        self.events: tuple[Event, ...] = ()
        """What comes with the changes: the definition of a new collection."""
        self._collection = collection
        self._origin = origin
        self._trees = trees
        self._sequence = sequence
        self._now_ms = now_ms if seen.now_ms is None else seen.now_ms
        self._changes: list[LoggedChange] = []
        self.last: dict[bytes, LoggedChange] = {}
        """By id as JSON the last change of each changed document."""
        self._seqs: set[tuple[bytes, int]] = set()
        self._owners: dict[Index, UniqueOwners] = {}
        self._below: dict[bytes, ReadVersion | None] = {}
        """By key what the first change of a document follows."""
        self._fresh: set[bytes] = set()
        """Ids that were made from randomness."""

    def add(self, pending: Pending, room: int | None = None) -> tuple[LoggedChange, ...]:
        """Check a batch and keep it; returns its changes. Its guard is asked with the state so far.

        Costs as checking a commit does: what has to be looked up. Raises what a commit is refused for, and
        TransactionTooLargeError if the changes need more than `room` bytes; then nothing of the batch is kept.
        """
        group = Group(_StateHead(self.view, self._trees, self._sequence, self._owners), self._collection)
        changes = group.add(pending)
        size = sum(200 + len(change.before or b"") + len(change.after or b"") for change in changes)
        if room is not None and size > room:
            raise TransactionTooLargeError(
                f"a transaction with about {size} more bytes in {self._collection}", reason=f"it has room for {room}"
            )
        fresh = {each.id for each in pending.operations if isinstance(each, Insert) and each.fresh}
        below = self._found([change.id for change in changes], fresh)
        made = (*changes, *self._ends({change.id: change for change in changes}.values(), group.definition))
        view = self.view.on_top(made, pending.actor, is_owned=True)
        for owners in self._owners.values():
            owners.take(made)
        if pending.events:
            view = replace(view, definition=group.definition)
        self.events += pending.events
        self._below |= below
        self._fresh |= fresh
        self._note(made)
        self._sequence = max(self._sequence, group.numbered())
        self.size += size
        self.view = view
        return changes

    def _note(self, changes: Iterable[LoggedChange]) -> None:
        for change in changes:
            self._changes.append(change)
            self.last[change.id] = change
            self._seqs.add((change.id, change.seq))

    def _ends(self, changes: Iterable[LoggedChange], definition: Definition) -> list[LoggedChange]:
        """The ends of documents that are over as some changes leave them."""
        rule = definition.expiry
        if rule is None:
            return []
        from wormdb.engine.state.expiry import end_of

        left = [(change, change.after) for change in changes if change.after is not None]
        over = [(change, after) for change, after in left if rule.is_over(after, self._now_ms)]
        return [end_of(StoredVersion(change.id, 0, change.seq, after)) for change, after in over]

    def _found(self, identities: list[bytes], fresh: set[bytes]) -> dict[bytes, ReadVersion | None]:
        """What lies below documents that were not changed so far."""
        keys = {id_key(identity): identity in fresh for identity in identities}
        missing = [key for key, is_fresh in keys.items() if key not in self._below and not is_fresh]
        held = self.seen.get_many(missing) if missing else {}
        found: dict[bytes, ReadVersion | None] = {key: None for key in keys if key not in self._below}
        return found | {key: ReadVersion(one, self.seen.number, self._origin) for key, one in held.items()}

    def move(self, seen: View) -> None:
        """Lie on top of a newer state, in which no changed document is another than in the one before. No requests."""
        if seen.now_ms is not None:
            self._now_ms = seen.now_ms
        self._note(self._ends(list(self.last.values()), self.view.definition if self.events else seen.definition))
        view = seen.on_top(self._changes, is_owned=True)
        self._owners = {}
        self.view = replace(view, definition=self.view.definition) if self.events else view
        self.seen = seen

    @property
    def is_empty(self) -> bool:
        """Whether nothing was changed."""
        return not self._changes

    @property
    def written(self) -> dict[bytes, int]:
        """The ids of changed documents as JSON, each with the `seq` below the changes; 0 if nothing ever was there.

        Without ids that were made from randomness: no other writer has them.
        """
        below = {change.id: self._below[id_key(change.id)] for change in self._changes if change.id not in self._fresh}
        return {identity: 0 if loaded is None else loaded.held.seq for identity, loaded in below.items()}

    def has_written(self, identity: bytes, seq: int) -> bool:
        """Whether a change left a document at `seq`; 0 stands for any that a later one of its batch replaced."""
        return identity in self.last and (not seq or (identity, seq) in self._seqs)

    def below(self, identity: bytes) -> ReadVersion | None:
        """What the first change of a changed document follows; None if nothing is there."""
        return self._below[id_key(identity)]

    def operations(self) -> tuple[Operation, ...]:
        """All changes again, as the operations of one batch. No requests."""
        begun: set[bytes] = set()
        made = []
        for change in self._changes:
            loaded = None if change.id in begun else self._below[id_key(change.id)]
            begun.add(change.id)
            made.append(self._operation(change, loaded))
        return tuple(made)

    def _operation(self, change: LoggedChange, loaded: ReadVersion | None) -> Operation:
        if change.op == "expire":
            return Expire(change.id)
        if change.after is None:
            return Remove(change.id, loaded, tombstone=_tombstone(change))
        if change.before is None:
            return Insert(change.id, change.after, fresh=change.id in self._fresh and change.seq == 1)
        return Save(change.id, change.after, loaded)


def without_ends(operations: tuple[Operation, ...]) -> tuple[Operation, ...]:
    """What callers asked for: without the ends of documents that were over. No requests."""
    return tuple(each for each in operations if not isinstance(each, Expire))


def _tombstone(change: LoggedChange) -> bytes | None:
    """The members that say when and by whom a document went to the trash; None if it did not."""
    if change.trash is None or change.before is None:
        return None
    begin, end = b'{"_id":' + change.id + b",", b',"document":' + change.before + b"}"
    return change.trash.removeprefix(begin).removesuffix(end)
