"""The calls of `TransactionMethods`, to be awaited.

Written by `make docs` from `wormdb.api.transaction_methods`; edit that instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from wormdb.aio.runner import AsyncHandle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wormdb.api.transaction import Isolation, Transaction
    from wormdb.engine.commit.resolve import Fate
    from wormdb.errors import OutcomeUnknownError

__all__ = ["AsyncTransactionMethods"]

T = TypeVar("T")
R = TypeVar("R")


class AsyncTransactionMethods(AsyncHandle[Any]):
    """Transactions over collections of a database, as users call for them.

    Calls are awaited; `wormdb.api.transaction_methods.TransactionMethods` has their promises.
    """

    async def run(
        self,
        work: Callable[[Transaction], R],
        *,
        seconds: float | None = None,
        isolation: Isolation = "serializable",
        actor: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> R:
        """What `work` returns, after the transaction that it is given has committed; again after each conflict."""
        return cast(
            "R",
            await self._runner.call(
                self._inner.run, work, seconds=seconds, isolation=isolation, actor=actor, metadata=metadata
            ),
        )

    async def resolve(
        self, commit_id: str | OutcomeUnknownError, *, settle: bool = False, timeout: float | None = None
    ) -> Fate:
        """What became of a transaction whose outcome was unknown: committed, not committed, or unknown."""
        return cast("Fate", await self._runner.call(self._inner.resolve, commit_id, settle=settle, timeout=timeout))
