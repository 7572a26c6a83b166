"""The calls of `FunctionRegistry`, to be awaited.

Written by `make docs` from `wormdb.api.functions`; edit that instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from wormdb.aio.runner import AsyncHandle

if TYPE_CHECKING:
    from wormdb.api.functions import FunctionDefinition
    from wormdb.api.options import WrittenFilter

__all__ = ["AsyncFunctionRegistry"]

T = TypeVar("T")


class AsyncFunctionRegistry(AsyncHandle[Any]):
    """What `Collection.functions` gives: predicates that filters use as `{"$fn": name}`.

    Calls are awaited; `wormdb.api.functions.FunctionRegistry` has their promises.
    """

    async def register(self, name: str, filter: WrittenFilter) -> FunctionDefinition:
        """Have a name stand for a filter, in place of what it may have stood for. 1 PUT; 1 GET in a warm process."""
        return cast("FunctionDefinition", await self._runner.call(self._inner.register, name, filter))

    async def drop(self, name: str) -> None:
        """Forget a function. 1 PUT; 1 GET in a warm process."""
        await self._runner.call(self._inner.drop, name)

    async def get(self, name: str) -> FunctionDefinition:
        """One function. 1 GET in a warm process; raises NotFoundError."""
        return cast("FunctionDefinition", await self._runner.call(self._inner.get, name))

    async def list(self) -> list[FunctionDefinition]:
        """All of them, in order of their names. 1 GET in a warm process."""
        return cast("list[FunctionDefinition]", await self._runner.call(self._inner.list))
