"""Transactions and snapshots that stay open in an event loop: begun, entered and ended by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from wormdb.aio.runner import AsyncHandle, TurnRunner
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping
    from datetime import datetime
    from types import TracebackType
    from typing import Self

    from wormdb.aio.runner import AsyncRunner
    from wormdb.aio.snapshot import AsyncDatabaseSnapshot
    from wormdb.aio.transaction import AsyncTransaction
    from wormdb.api.snapshot import DatabaseSnapshot
    from wormdb.api.transaction import Isolation, Transaction, TransactionCommit, TransactionState

__all__ = ["OpenedSnapshot", "OpenedTransaction", "SessionHandle", "SessionMethods"]


class SessionMethods(AsyncHandle[Any]):
    """What of a database begins something that stays open. Its calls run in any thread, one after the other."""

    def transaction(
        self,
        *,
        isolation: Isolation = "serializable",
        seconds: float | None = None,
        actor: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        is_bound: bool = True,
    ) -> AsyncTransaction:
        """Reads and writes of any collections at one moment or not at all: `async with db.transaction() as tx:`.

        No requests. It commits at the end of the block, and writes nothing if the block raises or is cancelled. A task
        has one at most, those that it starts inside of the block included; without `is_bound` any number.
        """
        from wormdb.aio.transaction import AsyncTransaction

        made: Transaction = self._inner.transaction(
            isolation=isolation, seconds=seconds, actor=actor, metadata=metadata, is_bound=False
        )
        if is_bound:
            self._inner._transactions.begin(made)  # noqa: SLF001 - of the same package's API
        return AsyncTransaction(TurnRunner(self._runner), made)

    def snapshot(
        self,
        names: Iterable[str] | None = None,
        *,
        as_of: Mapping[str, int] | datetime | str | None = None,
        timeout: float | None = None,
    ) -> AsyncDatabaseSnapshot:
        """One moment over several collections, for reading: `async with db.snapshot(["orders", "lines"]) as s:`.

        It is taken when it is entered, or awaited. Costs as `Database.snapshot`.
        """
        from wormdb.aio.snapshot import AsyncDatabaseSnapshot

        def take() -> DatabaseSnapshot:
            taken: DatabaseSnapshot = self._inner.snapshot(names, as_of=as_of, timeout=timeout)
            return taken

        return AsyncDatabaseSnapshot(TurnRunner(self._runner), take)


class SessionHandle(AsyncHandle[Any]):
    """One collection of a transaction or a snapshot: what it cannot do is refused as the API refuses it."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            getattr(self._inner, name)  # it raises, and says why
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def name(self) -> str:
        """The model's name, or the collection's folder."""
        name: str = self._inner.name
        return name

    async def cursor(self, *_: Any, **__: Any) -> NoReturn:
        """Not in a transaction, and not of a snapshot: raises InvalidRequestError."""
        await self._runner.call(self._inner.cursor, *_, **__)
        raise AssertionError  # it raised

    def resume(self, *_: Any, **__: Any) -> NoReturn:
        """Not in a transaction, and not of a snapshot: raises InvalidRequestError."""
        self._inner.resume(*_, **__)
        raise AssertionError  # it raised


class OpenedTransaction(AsyncHandle[Any]):
    """What `async with` does with a transaction."""

    @property
    def state(self) -> TransactionState:
        """As `Transaction.state`."""
        state: TransactionState = self._inner.state
        return state

    @property
    def result(self) -> TransactionCommit | None:
        """As `Transaction.result`."""
        result: TransactionCommit | None = self._inner.result
        return result

    @property
    def isolation(self) -> Isolation:
        """As `Transaction.isolation`."""
        isolation: Isolation = self._inner.isolation
        return isolation

    async def __aenter__(self) -> Self:
        self._inner.check()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            # Without a thread, for which a task that is cancelled once more would not wait. Calls of other tasks that
            # still wait for their turn are refused.
            self._inner.rollback()
        else:
            await self._runner.call(self._inner.__exit__, None, None, None)


class OpenedSnapshot(AsyncHandle[Any]):
    """What `async with` and `await` do with a snapshot."""

    def __init__(self, runner: AsyncRunner, take: Callable[[], DatabaseSnapshot]) -> None:
        """Made by `Database.snapshot`. No requests."""
        super().__init__(runner, None)
        self._take = take

    async def _begin(self) -> Self:
        if self._inner is None:
            self._inner = await self._runner.call(self._take)
        return self

    @property
    def _taken(self) -> Any:
        if self._inner is None:
            raise InvalidRequestError(
                "snapshot", reason="it is not taken yet", fix="write async with db.snapshot(…) as s, or await it"
            )
        return self._inner

    def __await__(self) -> Generator[Any, None, Self]:
        """`s = await db.snapshot(…)`, to be closed by `s.close()`."""
        return self._begin().__await__()

    async def __aenter__(self) -> Self:
        await self._begin()
        self._taken.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._taken.close()

    def __repr__(self) -> str:
        return f"Async{self._inner!r}" if self._inner is not None else "AsyncDatabaseSnapshot(not taken)"
