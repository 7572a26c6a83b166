"""The calls of `Results`, to be awaited.

Written by `make docs` from `wormdb.api.results`; edit that instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from wormdb.aio.runner import AsyncHandle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    import polars as pl
    import pyarrow as pa

    from wormdb.bql.search.highlight import Highlight
    from wormdb.bql.sorting import WrittenSort
    from wormdb.query.execute.explain import Explanation

__all__ = ["AsyncResults"]

T = TypeVar("T")


class AsyncResults(AsyncHandle[Any], Generic[T]):
    """The rows of a query. Nothing is asked before they are wanted; then all of them are of one state.

    Calls are awaited; `wormdb.api.results.Results` has their promises.
    """

    def sort(self, key: WrittenSort, direction: int | str | None = None, /) -> AsyncResults[T]:
        """The same in another order: any that `find` takes, or a field and 1 or -1. No requests."""
        return AsyncResults(self._runner, self._inner.sort(key, direction))

    def skip(self, count: int, /) -> AsyncResults[T]:
        """The same without the first rows. No requests; raises InvalidRequestError for a number below 0."""
        return AsyncResults(self._runner, self._inner.skip(count))

    def limit(self, count: int, /) -> AsyncResults[T]:
        """At most this many rows of the same; 0 for all. No requests; raises InvalidRequestError for one below 0."""
        return AsyncResults(self._runner, self._inner.limit(count))

    def __aiter__(self) -> AsyncIterator[T]:
        """The rows in their order. 1 GET for the log in a warm process, and what the plan costs: see `explain`."""
        return self._runner.stream(lambda: iter(self._inner))

    def scored(self) -> AsyncIterator[tuple[T, float]]:
        """The rows of a query with `near` or `search`, each with its score: the best first, unless there is a sort."""
        return self._runner.stream(self._inner.scored)

    def highlights(self, chars: int = 160) -> AsyncIterator[tuple[T, list[Highlight]]]:
        """The rows of a query with `search`, each with the parts of its texts that have words of the search."""
        return self._runner.stream(lambda: self._inner.highlights(chars))

    async def to_list(self) -> list[T]:
        """All rows."""
        return cast("list[T]", await self._runner.call(self._inner.to_list))

    async def first(self) -> T | None:
        """The first row; None if there is none. No more than that row is read."""
        return cast("T | None", await self._runner.call(self._inner.first))

    async def count(self) -> int:
        """How many rows there are, `limit`, `offset` and `page` counted in. Documents are read only if needed."""
        return cast("int", await self._runner.call(self._inner.count))

    @property
    def next_page(self) -> Coroutine[Any, Any, str | None]:
        """A token for `page`: the rows behind these, in the state at that time. None if there are none."""
        return self._runner.call(getattr, self._inner, "next_page")

    @property
    def skipped(self) -> dict[str, str]:
        """By key why each broken file of another program was passed over so far (setting `on_broken`). No requests."""
        return cast("dict[str, str]", self._inner.skipped)

    async def explain(self, *, analyze: bool = False) -> Explanation:
        """How the rows are found, and what that costs; with `analyze` they are read, and it is measured."""
        return cast("Explanation", await self._runner.call(self._inner.explain, analyze=analyze))

    async def to_arrow(self) -> pa.Table:
        """The rows as one table in memory: the columns of `select`, else those of the model, else those of the rows."""
        return cast("pa.Table", await self._runner.call(self._inner.to_arrow))

    async def to_pandas(self) -> Any:
        """What `to_arrow` gives, as a data frame of pandas. Raises MissingExtraError if pandas is not installed."""
        return cast("Any", await self._runner.call(self._inner.to_pandas))

    async def to_polars(self) -> pl.DataFrame:
        """What `to_arrow` gives, as a data frame of Polars. Raises MissingExtraError if it is not installed."""
        return cast("pl.DataFrame", await self._runner.call(self._inner.to_polars))
