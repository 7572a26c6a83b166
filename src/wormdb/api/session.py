"""One collection in a transaction: the state that it sees, what was read of it, and what is to be written.

Everything that a transaction reads is of one moment, before it commits already. The first access to a collection takes
its state; a later access to another one looks again at those before it. Where nothing changed that was read, their
states move on together; where something did, the transaction is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from wormdb.api.document import TransactionOrigin
from wormdb.bql.tree import MatchAll
from wormdb.engine.commit.draft import Draft
from wormdb.engine.commit.operations import ReadVersion
from wormdb.engine.commit.reads import ReadGuard, ReadSet
from wormdb.engine.ledger import CommitResult
from wormdb.engine.state.view import StoredVersion, id_key
from wormdb.errors import InvalidRequestError, TransactionConflictError, UniqueViolationError
from wormdb.format import json
from wormdb.system.types import LogNumber, Misc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.bql.tree import Filter
    from wormdb.engine.commit.operations import Pending
    from wormdb.engine.ledger import Ledger
    from wormdb.engine.state.follower import LogFollower
    from wormdb.engine.state.view import View
    from wormdb.storage.pool import Pool

__all__ = ["CollectionSession", "SessionHolder", "collect_moment"]

ROUNDS_MAX: Final = 16
"""How often the states of several collections are looked at again because one of them has moved on."""


class SessionHolder(Protocol):
    """The transaction that a session belongs to."""

    @property
    def id(self) -> str:
        """For messages."""
        ...

    @property
    def state(self) -> str:
        """open, committed, aborted or unknown."""
        ...

    def check(self) -> None:
        """Raise what keeps it from being used: that it has ended, is too old, or is used by another thread."""
        ...

    def open(self, session: CollectionSession) -> View:
        """The state of a collection that is accessed for the first time, of the moment of all others."""
        ...

    def room(self) -> int:
        """How many bytes may still be written."""
        ...


class CollectionSession:
    """A collection in a transaction, as `wormdb.api.access.Session` says. For one thread."""

    def __init__(self, holder: SessionHolder, ledger: Ledger, name: str, origin: str) -> None:
        """Nothing is read yet. No requests."""
        self.ledger = ledger
        self.name = name
        self.folder = ledger.collection.rstrip("/")
        """As conflicts name it."""
        self.origin = TransactionOrigin(origin)
        self.origin.settle = self.settle
        self.landed: int | None = None
        """The entry that has its changes; None if that is not known."""
        self._holder = holder
        self._plain_origin = origin
        self._draft: Draft | None = None
        self._follower: LogFollower | None = None
        self._ids: dict[bytes, int] = {}
        self._filters: dict[str, Filter] = {}

    # --- what handles of the collection ask ---

    def view(self, at_least: int = 0) -> View:
        """The state that the transaction sees, its own writes included. As `Ledger.view` at the first call."""
        view = self._opened().view
        if view.number < at_least:
            raise InvalidRequestError(
                f"a state of {self.name} that is at least of log number {at_least}",
                reason=f"the transaction reads the one of {view.number}",
                fix="leave at_least out, or begin another transaction",
            )
        return view

    def read(self, identity: bytes) -> tuple[View, StoredVersion | None]:
        """That state, and what is under an id; it is noted as read. 1 GET for a page that is not kept."""
        draft = self._opened()
        held = draft.view.get(id_key(identity))
        if identity not in self._ids and identity not in draft.last:
            self._ids[identity] = 0 if held is None else held.seq
        return draft.view, held

    def note(self, tree: Filter | None) -> None:
        """Note that what a filter finds is read; None if all documents are. No requests."""
        self._opened()
        tree = tree or MatchAll()
        self._filters.setdefault(tree.text, tree)

    def commit(self, pending: Pending) -> CommitResult:
        """Check a batch against the state so far and keep it. Nothing is written; costs look-ups.

        Raises what a commit is refused for, and TransactionTooLargeError.
        """
        draft = self._opened()
        try:
            changes = draft.add(pending, self._holder.room())
        except UniqueViolationError as error:
            self.read(json.encode(error.owner))  # what the transaction does next may depend on it
            raise
        return CommitResult(LogNumber(draft.seen.number + 1), Misc(0), changes)

    def settle(self, loaded: ReadVersion, asker: str) -> ReadVersion | None:
        """What a document of this transaction was read as, for a writer of the log `asker`. No requests.

        Raises InvalidRequestError for one that the transaction wrote, while it is open or its outcome is unknown.
        """
        draft, held = self._draft, loaded.held
        last = None if draft is None else draft.last.get(held.id)
        if draft is None or last is None or not draft.has_written(held.id, held.seq):
            return loaded if asker is self.origin else ReadVersion(held, loaded.number, self._plain_origin)
        if asker is self.origin:
            now = draft.view.get(id_key(held.id))
            assert now is not None, "it was written"
            now = now if now.seq == held.seq else StoredVersion(held.id, now.rev, 0, held.document)
            return ReadVersion(now, draft.view.number, self.origin)
        return self._after(draft, held, last.seq)

    def _after(self, draft: Draft, held: StoredVersion, last: int) -> ReadVersion | None:
        """What a document that was written is for others, after the transaction has ended."""
        state = self._holder.state
        if state == "aborted":
            return draft.below(held.id)
        if state != "committed":
            known = "it is still open" if state == "open" else "it is not known whether it was committed"
            raise InvalidRequestError(
                f"document {json.decode(held.id, name='document id')!r} in {self.name}",
                reason=f"transaction {self._holder.id} wrote it, and {known}",
                fix="read it again after the transaction has ended",
            )
        if held.seq != last:  # the transaction changed it again
            number = draft.seen.number if self.landed is None else self.landed - 1
            return ReadVersion(
                StoredVersion(held.id, number + 1, 0, held.document), LogNumber(number), self._plain_origin
            )
        if self.landed is None:  # its revision is that of an entry that may not be there yet
            number = draft.seen.number
            return ReadVersion(StoredVersion(held.id, number + 1, last, held.document), number, self._plain_origin)
        version = StoredVersion(held.id, self.landed, last, held.document)
        return ReadVersion(version, LogNumber(self.landed), self._plain_origin)

    # --- what the transaction asks ---

    @property
    def draft(self) -> Draft | None:
        """What is to be written; None if the collection was not accessed."""
        return self._draft

    @property
    def is_writing(self) -> bool:
        """Whether something is to be written."""
        return self._draft is not None and not self._draft.is_empty

    @property
    def is_reading(self) -> bool:
        """Whether anything was read that a commit has to validate."""
        return bool(self._ids or self._filters)

    def reads(self, *, is_serializable: bool = True) -> ReadSet:
        """What must be as it was when the changes are committed: what they follow, and what was read."""
        draft = self._draft
        assert draft is not None, "it was accessed"
        ids = {**self._ids, **draft.written} if is_serializable else draft.written
        filters = tuple(self._filters.values()) if is_serializable else ()
        return ReadSet(draft.seen, ids, filters, self._follower)

    def take(self, view: View) -> None:
        """See a state, at the first access."""
        self._follower, sequence = self.ledger.follow(view)
        self._draft = Draft(
            view,
            collection=self.name,
            origin=self._plain_origin,
            trees=self.ledger.trees,
            sequence=sequence,
            now_ms=self.ledger.store_ms(),
        )

    def move(self, view: View) -> bool:
        """See a newer state, if nothing that was read or written has changed until then; whether it is another one.

        Raises TransactionConflictError. No requests, as `ReadGuard.check`.
        """
        draft = self._draft
        assert draft is not None, "it was accessed"
        seen = draft.seen
        if view.number == seen.number and _tops(view) == _tops(seen):
            return False
        ReadGuard(self.folder, self.reads()).check(view)
        draft.move(view)
        return True

    def _opened(self) -> Draft:
        self._holder.check()
        if self._draft is None:
            self.take(self._holder.open(self))
        assert self._draft is not None
        return self._draft


def _view_of(session: CollectionSession) -> View:
    view = session.ledger.view()
    return session.ledger.expiry.alive(view) if view.definition.expiries else view


def _tops(view: View) -> list[tuple[bytes, int]]:
    """What other transactions are certain to write, on top of a state."""
    return [(change.id, change.seq) for change in view.top]


def collect_moment(new: CollectionSession, others: Sequence[CollectionSession], pool: Pool) -> View:
    """The state of a collection, at a moment at which those of others were also what they are, or moved on to.

    1 GET, and 1 more for each of the others, side by side; again if one of them has moved on meanwhile. Raises
    TransactionConflictError if something changed that was read of them, or if they never stand still.
    """
    for _ in range(ROUNDS_MAX):
        view = _view_of(new)
        # Whatever did not change since before this state was taken, was so when it was.
        found = [_view_of(other) for other in others] if len(others) < 2 else list(pool.map(_view_of, others))
        moved = [other.move(now) for other, now in zip(others, found, strict=True)]
        if not any(moved):
            return view
    raise TransactionConflictError(
        f"transaction: {new.name} and {', '.join(other.name for other in others)}",
        reason=f"they changed {ROUNDS_MAX} times while their states were read",
        collection=new.folder,
    )
