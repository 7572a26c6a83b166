"""The calls of `NotebookMethods`, to be awaited.

Written by `make docs` from `wormdb.api.notebook`; edit that instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from wormdb.aio.runner import AsyncHandle
from wormdb.api.notebook import HEAD_ROWS

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from wormdb.aio.results import AsyncResults
    from wormdb.api.imports.records import ConflictRule, ImportResult

__all__ = ["AsyncNotebookMethods"]

T = TypeVar("T")


class AsyncNotebookMethods(AsyncHandle[Any], Generic[T]):
    """Queries, names of pymongo, and what notebooks ask of an object.

    Calls are awaited; `wormdb.api.notebook.NotebookMethods` has their promises.
    """

    def head(self, count: int = HEAD_ROWS) -> AsyncResults[T]:
        """The first documents in order of id, which show themselves as a table. Nothing is asked before they are."""
        from wormdb.aio.results import AsyncResults

        return AsyncResults(self._runner, self._inner.head(count))

    @property
    def columns(self) -> Coroutine[Any, Any, list[str]]:
        """The columns of a table of it, as `to_arrow` has them. No requests with a model, else 1 GET in a warm process."""
        return self._runner.call(getattr, self._inner, "columns")

    async def insert_frame(
        self,
        frame: Any,
        *,
        on_conflict: ConflictRule = "error",
        id_field: str | None = None,
        actor: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> ImportResult:
        """Insert the rows of a data frame of pandas or Polars, or of a table of Arrow, all by one entry or none."""
        return cast(
            "ImportResult",
            await self._runner.call(
                self._inner.insert_frame,
                frame,
                on_conflict=on_conflict,
                id_field=id_field,
                actor=actor,
                metadata=metadata,
            ),
        )
