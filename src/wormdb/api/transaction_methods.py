"""The transaction methods of `Database`.

The first call imports what carries it out: programs without transactions do not wait for it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, TypeVar

from wormdb.errors import ConflictError, InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wormdb.api.access import Access
    from wormdb.api.author import Author
    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.api.transaction import Isolation, Transaction
    from wormdb.settings import Settings
    from wormdb.system.clock import Chance, Clock

__all__ = ["OpenTransactions", "TransactionMethods"]

R = TypeVar("R")

_PAUSE_SECONDS_MIN: Final = 0.001
_PAUSE_SECONDS_MAX: Final = 0.5


class OpenTransactions:
    """The transactions that are open in a process, one for each thread at most."""

    def __init__(self) -> None:
        """None is."""
        self._of_thread: dict[int, Transaction] = {}

    def begin(self, transaction: Transaction) -> None:
        """Raise InvalidRequestError if this thread has one open."""
        thread = threading.get_ident()
        known = self._of_thread.get(thread)
        if known is not None and known.state == "open" and not known.is_over:
            raise InvalidRequestError(
                "a transaction inside of a transaction",
                reason="this thread has one open, and one does not see what the other writes",
                fix="end it first, or use it for all",
            )
        self._of_thread[thread] = transaction

    def end(self, transaction: Transaction) -> None:
        """Forget one."""
        for thread, known in list(self._of_thread.items()):
            if known is transaction:
                self._of_thread.pop(thread, None)


class TransactionMethods:
    """Transactions over collections of a database, as users call for them."""

    _settings: Settings
    _clock: Clock
    _chance: Chance
    _by: Author
    _transactions: OpenTransactions

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
    ) -> Transaction:
        """Reads and writes of any collections at one moment or not at all: `with db.transaction() as tx:`. No requests.

        `tx["accounts"]` and `tx.model(…)` have the calls of collections. It commits at the end of the block, and writes
        nothing if the block raises. `serializable` validates all that was read, `snapshot` only what is written.
        It may be open for `seconds`, by default `transaction_seconds` of the settings. Raises InvalidRequestError.
        """
        from wormdb.api.transaction import CollectionOpener, Transaction

        made = Transaction(
            CollectionOpener(self._named, self._modeled, self._of_handle),
            settings=self._settings,
            clock=self._clock,
            author=self._by.but(actor, metadata),
            isolation=isolation,
            seconds=seconds,
            ended=self._transactions.end,
        )
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
        end = self._clock.monotonic() + (self._settings.commit_seconds if seconds is None else seconds)
        losses = 0
        while True:
            try:
                with self.transaction(isolation=isolation, actor=actor, metadata=metadata) as transaction:
                    return work(transaction)
            except ConflictError:
                losses += 1
                bound = min(_PAUSE_SECONDS_MAX, _PAUSE_SECONDS_MIN * 2 ** min(losses, 20))
                pause = self._chance.fraction() * bound
                if self._clock.monotonic() + pause >= end:
                    raise
                self._clock.sleep(pause)
