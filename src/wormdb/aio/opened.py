"""A database that is opened and closed by an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wormdb.aio.runner import AsyncHandle

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import TracebackType
    from typing import Self

    from wormdb.aio.runner import AsyncRunner
    from wormdb.api.database import Database

__all__ = ["OpenedDatabase"]


def _import_calls() -> None:
    """Import what calls need that are not awaited (`db[name]`, `find`): in a thread now, or they would hold up the loop.

    About 0.3 seconds of a processor, once in a process.
    """
    import wormdb.aio.collection
    import wormdb.aio.cursor
    import wormdb.aio.query
    import wormdb.aio.results  # noqa: F401 - as all of them
    from wormdb.api.database import import_first_calls

    import_first_calls()


class OpenedDatabase(AsyncHandle[Any]):
    """What `async with` and `await` do with a database."""

    def __init__(
        self, runner: AsyncRunner, inner: Database, *, is_owner: bool = False, is_applied: bool = False
    ) -> None:
        """With `is_applied` the schema is committed when it is entered, or awaited."""
        super().__init__(runner, inner)
        self._is_owner = is_owner
        self._is_applied = is_applied

    async def _begin(self) -> Self:
        await self._runner.call(_import_calls)
        if self._is_applied:
            try:
                await self._runner.call(self._inner.apply_schema)
            except BaseException:
                await self.close()
                raise
            self._is_applied = False
        return self

    def __await__(self) -> Generator[Any, None, Self]:
        """`db = await aio.connect(url)`, to be closed by `await db.close()`."""
        return self._begin().__await__()

    async def __aenter__(self) -> Self:
        return await self._begin()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give back threads and connections. May be called twice; does nothing for what `as_actor` gave."""
        if self._is_owner and not self._runner.is_closed:
            await self._runner.call(self._inner.close)
            self._runner.close()
