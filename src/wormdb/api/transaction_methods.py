"""The transaction methods of `Database`.

The first call imports what carries it out: programs without transactions do not wait for it.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar

from wormdb.api.calls import reads
from wormdb.errors import ConflictError, InvalidRequestError, OutcomeUnknownError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from wormdb.api.access import Access
    from wormdb.api.author import Author
    from wormdb.api.calls import CallKind
    from wormdb.api.collection import Collection
    from wormdb.api.connection import Ledgers
    from wormdb.api.document import Document
    from wormdb.api.snapshot import DatabaseSnapshot
    from wormdb.api.transaction import Isolation, Transaction
    from wormdb.engine.commit.resolve import Fate
    from wormdb.engine.ledger import Ledger
    from wormdb.settings import Settings
    from wormdb.storage.pool import Pool
    from wormdb.system.clock import Chance, Clock
    from wormdb.system.deadline import within

__all__ = ["OpenTransactions", "TransactionMethods"]

R = TypeVar("R")

_OPEN: ContextVar[tuple[OpenTransactions, Transaction] | None] = ContextVar("open transaction", default=None)
"""The last one that began here."""
_PAUSE_SECONDS_MIN: Final = 0.001
_PAUSE_SECONDS_MAX: Final = 0.5


class OpenTransactions:
    """The transactions of a database that are open in a process, one for each thread or task of asyncio at most."""

    def begin(self, transaction: Transaction) -> None:
        """Raise InvalidRequestError if this thread or task has one open."""
        owner, known = _OPEN.get() or (None, None)
        if owner is self and known is not None and known.state == "open" and not known.is_over:
            raise InvalidRequestError(
                "a transaction inside of a transaction",
                reason="one is open here, and one does not see what the other writes",
                fix="end it first, or use it for all",
            )
        _OPEN.set((self, transaction))


class TransactionMethods:
    """Transactions over collections of a database, as users call for them."""

    _settings: Settings
    _clock: Clock
    _chance: Chance
    _by: Author
    _pool: Pool
    _ledgers: Ledgers
    _transactions: OpenTransactions

    def _limited(self, kind: CallKind, timeout: float | None) -> within:
        raise NotImplementedError

    def _prefixes(self, names: Iterable[str] | None) -> list[str]:
        raise NotImplementedError

    def _ledger(self, prefix: str) -> Ledger:
        raise NotImplementedError

    def _named(self, name: str) -> Access[Document]:
        raise NotImplementedError

    def _modeled(self, model: Any, outer: Mapping[str, Any]) -> Access[Any]:
        raise NotImplementedError

    def _of_handle(self, handle: Collection[Any]) -> Access[Any]:
        raise NotImplementedError

    def transaction(
        self,
        *,
        isolation: Isolation = "serializable",
        seconds: float | None = None,
        actor: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        is_bound: bool = True,
    ) -> Transaction:
        """Reads and writes of any collections at one moment or not at all: `with db.transaction() as tx:`. No requests.

        `tx["accounts"]` and `tx.model(…)` have the calls of collections. It commits at the end of the block, and writes
        nothing if the block raises. `serializable` validates all that was read, `snapshot` only what is written.
        It may be open for `seconds`, by default `transaction_seconds` of the settings. A thread has one at most, and
        it is for that thread; without `is_bound` any thread may use it, one at a time. Raises InvalidRequestError.
        """
        from wormdb.api.transaction import CollectionOpener, Transaction

        made = Transaction(
            CollectionOpener(self._named, self._modeled, self._of_handle, self._pool),
            lambda: self._ledgers.runtime.coordinator,
            settings=self._settings,
            clock=self._clock,
            author=self._by.but(actor, metadata),
            isolation=isolation,
            seconds=seconds,
            is_bound=is_bound,
        )
        if is_bound:
            self._transactions.begin(made)
        return made

    def run(
        self,
        work: Callable[[Transaction], R],
        *,
        seconds: float | None = None,
        isolation: Isolation = "serializable",
        actor: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> R:
        """What `work` returns, after the transaction that it is given has committed; again after each conflict.

        `work` may run several times, so it should do nothing but use the transaction. Between two tries it waits a
        little, at random; after `seconds`, by default `commit_seconds` of the settings, the last conflict is raised.
        """
        if not callable(work):
            raise InvalidRequestError(
                "run", reason=f"the work must be a function, not {type(work).__name__}", fix="give run(lambda tx: …)"
            )
        from wormdb.api.transaction import note_conflict

        end = self._clock.monotonic() + (self._settings.commit_seconds if seconds is None else seconds)
        losses = 0
        while True:
            try:
                with self.transaction(isolation=isolation, actor=actor, metadata=metadata) as transaction:
                    return work(transaction)
            except ConflictError as error:
                losses += 1
                note_conflict(error, losses)
                bound = min(_PAUSE_SECONDS_MAX, _PAUSE_SECONDS_MIN * 2 ** min(losses, 20))
                pause = self._chance.fraction() * bound
                if self._clock.monotonic() + pause >= end:
                    raise
                self._clock.sleep(pause)

    @reads
    def snapshot(
        self,
        names: Iterable[str] | None = None,
        *,
        as_of: Mapping[str, int] | datetime | str | None = None,
        timeout: float | None = None,
    ) -> DatabaseSnapshot:
        """One moment over several collections, for reading: `with db.snapshot(["orders", "lines"]) as s:`.

        `names` are models or folders; without them those that were opened here or are in the schema. 2 GETs for each,
        side by side; again if one of them changes meanwhile; 1 more if the published schema has to be read. `as_of` is
        an earlier moment: the `numbers` of another snapshot, or a time; then every collection may be asked, and calls
        cost what `as_of` costs there. At a time each collection is as of its own entries up to then: only numbers tell
        whether a transaction was in all of them. Raises InvalidRequestError, UnavailableError.
        """
        from wormdb.api.snapshot import DatabaseSnapshot
        from wormdb.api.transaction import CollectionOpener

        if as_of is not None and (isinstance(as_of, int) or names is not None):
            raise InvalidRequestError(
                f"snapshot of as_of={as_of!r:.60}",
                reason="a number is of one collection" if isinstance(as_of, int) else "as_of names its collections",
                fix="give the numbers of a snapshot by collection, or a time, and no names",
            )
        opener = CollectionOpener(self._named, self._modeled, self._of_handle, self._pool)
        snapshot = DatabaseSnapshot(opener, as_of, lambda name: self._prefixes([name])[0])
        if as_of is None:
            folders = self._prefixes(names)
            snapshot.collect([self._ledger(folder) for folder in folders])
        return snapshot

    @reads
    def resolve(
        self, commit_id: str | OutcomeUnknownError, *, settle: bool = False, timeout: float | None = None
    ) -> Fate:
        """What became of a transaction whose outcome was unknown: committed, not committed, or unknown.

        With `settle` one that is not decided is aborted: it can no longer commit. 2 to 4 requests. The id is the
        `commit_id` of the error; one of a single collection is resolved by `Collection.resolve`. Raises
        InvalidRequestError.
        """
        from wormdb.engine.commit.resolve import Fate

        text = commit_id.commit_id if isinstance(commit_id, OutcomeUnknownError) else commit_id
        found = None if not isinstance(text, str) else re.fullmatch(r"tx-([0-9a-f]{32})", text)
        if found is None:
            raise InvalidRequestError(
                f"resolve({text!r:.60})",
                reason="it is not the id of a transaction over several collections",
                fix="take commit_id from the error; a transaction of one collection is resolved by db[…].resolve()",
            )
        if settle:
            self._ledgers.before_first_write()
        end = self._clock.monotonic() + self._settings.commit_seconds
        committed = self._ledgers.runtime.records.fate(found[1], settle=settle, deadline=end)
        if committed is None:
            return Fate.UNKNOWN
        return Fate.COMMITTED if committed else Fate.NOT_COMMITTED
