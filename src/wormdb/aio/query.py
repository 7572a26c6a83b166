"""The calls of `Query`, to be awaited.

Written by `make docs` from `wormdb.api.query`; edit that instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from wormdb.aio.runner import AsyncHandle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from wormdb.aio.results import AsyncResults
    from wormdb.api.options import Moment, WrittenFilter
    from wormdb.bql.nearest import Distance
    from wormdb.bql.tree import Filter
    from wormdb.query.execute.explain import Explanation
    from wormdb.query.request import Strategy

__all__ = ["AsyncQuery"]

T = TypeVar("T")


class AsyncQuery(AsyncHandle[Any], Generic[T]):
    """A query that does not change: every call gives a new one, so that a part can be kept and used again.

    Calls are awaited; `wormdb.api.query.Query` has their promises.
    """

    def eq(self, field: str, value: Any) -> AsyncQuery[T]:
        """The field has this value; of an array one element, or the whole of it."""
        return AsyncQuery(self._runner, self._inner.eq(field, value))

    def ne(self, field: str, value: Any) -> AsyncQuery[T]:
        """The field does not have this value; it may be missing."""
        return AsyncQuery(self._runner, self._inner.ne(field, value))

    def gt(self, field: str, value: Any) -> AsyncQuery[T]:
        """The field has a value above this one, of the same kind."""
        return AsyncQuery(self._runner, self._inner.gt(field, value))

    def gte(self, field: str, value: Any) -> AsyncQuery[T]:
        """The field has this value or one above it."""
        return AsyncQuery(self._runner, self._inner.gte(field, value))

    def lt(self, field: str, value: Any) -> AsyncQuery[T]:
        """The field has a value below this one, of the same kind."""
        return AsyncQuery(self._runner, self._inner.lt(field, value))

    def lte(self, field: str, value: Any) -> AsyncQuery[T]:
        """The field has this value or one below it."""
        return AsyncQuery(self._runner, self._inner.lte(field, value))

    def in_(self, field: str, values: Sequence[Any]) -> AsyncQuery[T]:
        """The field has one of these values."""
        return AsyncQuery(self._runner, self._inner.in_(field, values))

    def nin(self, field: str, values: Sequence[Any]) -> AsyncQuery[T]:
        """The field has none of these values; it may be missing."""
        return AsyncQuery(self._runner, self._inner.nin(field, values))

    def exists(self, field: str, is_there: bool = True) -> AsyncQuery[T]:
        """The field is there, null too; with False it is not."""
        return AsyncQuery(self._runner, self._inner.exists(field, is_there))

    def contains(self, field: str, value: Any) -> AsyncQuery[T]:
        """The field is an array with this element, or a text with this part."""
        return AsyncQuery(self._runner, self._inner.contains(field, value))

    def starts_with(self, field: str, prefix: str) -> AsyncQuery[T]:
        """The field is a text that begins like this."""
        return AsyncQuery(self._runner, self._inner.starts_with(field, prefix))

    def ends_with(self, field: str, suffix: str) -> AsyncQuery[T]:
        """The field is a text that ends like this."""
        return AsyncQuery(self._runner, self._inner.ends_with(field, suffix))

    def regex(self, field: str, pattern: str, options: str = "") -> AsyncQuery[T]:
        """The field is a text in which this pattern is found; `options` are letters of i, m, s and x."""
        return AsyncQuery(self._runner, self._inner.regex(field, pattern, options))

    def where(self, filter: WrittenFilter) -> AsyncQuery[T]:
        """A filter holds too: a mapping, or text as on the command line."""
        return AsyncQuery(self._runner, self._inner.where(filter))

    def or_(self, *filters: WrittenFilter | AsyncQuery[Any]) -> AsyncQuery[T]:
        """Any of these filters holds: mappings, texts, or other queries, of which only the conditions count."""
        return AsyncQuery(self._runner, self._inner.or_(*self._plain(filters)))

    @property
    def filter(self) -> Filter:
        """All conditions as one filter; `str` of it is JSON."""
        return cast("Filter", self._inner.filter)

    def sort(self, *fields: str | tuple[str, str | int]) -> AsyncQuery[T]:
        """The order: `sort('name')`, `sort('city', '-age')`, `sort('name', 'desc')`. Ties are in order of id."""
        return AsyncQuery(self._runner, self._inner.sort(*fields))

    def limit(self, rows: int) -> AsyncQuery[T]:
        """How many rows at most, 1 or more."""
        return AsyncQuery(self._runner, self._inner.limit(rows))

    def offset(self, rows: int) -> AsyncQuery[T]:
        """How many rows are passed over first."""
        return AsyncQuery(self._runner, self._inner.offset(rows))

    def select(self, *fields: str | Mapping[str, Any]) -> AsyncQuery[dict[str, Any]]:
        """Only these parts of documents: names, or one projection. Rows are plain dicts then."""
        return AsyncQuery(self._runner, self._inner.select(*fields))

    def populate(self, *refs: str) -> AsyncQuery[dict[str, Any]]:
        """The documents that these refs lead to, in their places. Rows are plain dicts then."""
        return AsyncQuery(self._runner, self._inner.populate(*refs))

    def near(
        self,
        field: str,
        vector: Any,
        *,
        k: int = 10,
        recall: float | None = None,
        exact: bool = False,
        min_score: float | None = None,
        distance: Distance | None = None,
    ) -> AsyncQuery[T]:
        """Only the `k` documents whose vectors at a field are nearest to this one, the nearest first."""
        return AsyncQuery(
            self._runner,
            self._inner.near(field, vector, k=k, recall=recall, exact=exact, min_score=min_score, distance=distance),
        )

    def search(
        self,
        text: str,
        *,
        index: str | None = None,
        fields: Sequence[str] | None = None,
        language: str | None = None,
        stop_words: Sequence[str] | bool | None = None,
        weight: float | None = None,
    ) -> AsyncQuery[T]:
        """Only what a text search finds, the best first: `search('red shoes -leather 'running shoe' adi*')`."""
        return AsyncQuery(
            self._runner,
            self._inner.search(
                text, index=index, fields=fields, language=language, stop_words=stop_words, weight=weight
            ),
        )

    def strategy(self, name: Strategy) -> AsyncQuery[T]:
        """The only way to be used: index_lookup, manifest_scan, manifest_fetch or full_scan."""
        return AsyncQuery(self._runner, self._inner.strategy(name))

    def as_of(self, moment: Moment) -> AsyncQuery[T]:
        """The state of a moment: a log number, a datetime with a time zone, or ISO text."""
        return AsyncQuery(self._runner, self._inner.as_of(moment))

    def at_least(self, state: int | str) -> AsyncQuery[T]:
        """Any state from this log number on, or from that of a token: no request if this process knows one."""
        return AsyncQuery(self._runner, self._inner.at_least(state))

    def stale_ms(self, milliseconds: float) -> AsyncQuery[T]:
        """Any state that was the newest at most this long ago; 0 for the newest, whatever the settings say."""
        return AsyncQuery(self._runner, self._inner.stale_ms(milliseconds))

    def find(self) -> AsyncResults[T]:
        """The rows, lazily, as `Collection.find` gives them."""
        from wormdb.aio.results import AsyncResults

        return AsyncResults(self._runner, self._inner.find())

    async def execute(self) -> list[T]:
        """All rows. Costs as `Collection.find`."""
        return cast("list[T]", await self._runner.call(self._inner.execute))

    def __aiter__(self) -> AsyncIterator[T]:
        """The rows, read as they are wanted."""
        return self._runner.stream(lambda: iter(self._inner))

    async def first(self) -> T | None:
        """The first row; None if there is none."""
        return cast("T | None", await self._runner.call(self._inner.first))

    async def count(self) -> int:
        """How many rows there are, limit and offset counted in."""
        return cast("int", await self._runner.call(self._inner.count))

    async def explain(self, *, analyze: bool = False) -> Explanation:
        """How the rows are found, as `Collection.explain`."""
        return cast("Explanation", await self._runner.call(self._inner.explain, analyze=analyze))

    async def aggregate(self, **functions: Any) -> dict[str, Any]:
        """Functions over what the conditions find, as `Collection.aggregate`: group_by, count, sum, avg, min, max."""
        return cast("dict[str, Any]", await self._runner.call(self._inner.aggregate, **functions))

    async def distinct(self, field: str) -> list[Any]:
        """The different values of a field in what the conditions find, as `Collection.distinct`."""
        return cast("list[Any]", await self._runner.call(self._inner.distinct, field))
