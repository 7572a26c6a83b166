"""The calls of `QueryMethods`, to be awaited.

Written by `make docs` from `wormdb.api.find`; edit that instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from wormdb.aio.runner import AsyncHandle

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from typing import Literal, Self, Unpack

    from wormdb.api.options import FindOneOptions, FindOptions, Moment, WrittenFilter, WrittenSelect
    from wormdb.bql.sorting import WrittenSort
    from wormdb.bql.stages import WrittenStages
    from wormdb.query.execute.explain import Explanation
    from wormdb.query.request import Strategy

    Names = str | Sequence[str] | None
    from wormdb.aio.cursor import AsyncCursor
    from wormdb.aio.query import AsyncQuery
    from wormdb.aio.results import AsyncResults

__all__ = ["AsyncQueryMethods"]

T = TypeVar("T")


class AsyncQueryMethods(AsyncHandle[Any], Generic[T]):
    """Queries. Filters are mappings as in MongoDB, or text as on the command line; `id` and `_id` are the same field.

    Calls are awaited; `wormdb.api.find.QueryMethods` has their promises.
    """

    @property
    def source(self) -> Coroutine[Any, Any, Literal["log", "files"]]:
        """What it is read from: its log, or files that another program keeps."""
        return self._runner.call(getattr, self._inner, "source")

    @property
    def token(self) -> str:
        """What this process has read and written of the collection so far, for `at_least` here or elsewhere."""
        return cast("str", self._inner.token)

    async def refresh(self) -> int:
        """Learn the newest state; its log number, 0 if there is no such collection. 1 GET, shared by threads."""
        return cast("int", await self._runner.call(self._inner.refresh))

    def with_options(self, *, at_least: int | str | None = None, stale_ms: float | None = None) -> Self:
        """A handle of the same collection whose reads need not see the newest state. No requests."""
        return type(self)(self._runner, self._inner.with_options(at_least=at_least, stale_ms=stale_ms))

    @overload
    async def find_by_id(
        self,
        identity: Any,
        *,
        as_of: Moment = None,
        at_least: int | str | None = None,
        stale_ms: float | None = None,
        raw: Literal[False] = False,
        timeout: float | None = None,
    ) -> T | None: ...

    @overload
    async def find_by_id(
        self,
        identity: Any,
        *,
        as_of: Moment = None,
        at_least: int | str | None = None,
        stale_ms: float | None = None,
        raw: Literal[True],
        timeout: float | None = None,
    ) -> bytes | None: ...

    async def find_by_id(
        self,
        identity: Any,
        *,
        as_of: Moment = None,
        at_least: int | str | None = None,
        stale_ms: float | None = None,
        raw: bool = False,
        timeout: float | None = None,
    ) -> T | bytes | None:
        """The document with this id, or None. 1 GET in a warm process; of the past as `get_history`."""
        return cast(
            "T | bytes | None",
            await self._runner.call(
                self._inner.find_by_id,
                identity,
                as_of=as_of,
                at_least=at_least,
                stale_ms=stale_ms,
                raw=raw,
                timeout=timeout,
            ),
        )

    async def exists(
        self,
        identity: Any,
        *,
        as_of: Moment = None,
        at_least: int | str | None = None,
        stale_ms: float | None = None,
        timeout: float | None = None,
    ) -> bool:
        """Whether there is a document with this id. 1 GET in a warm process; of the past as `get_history`."""
        return cast(
            "bool",
            await self._runner.call(
                self._inner.exists, identity, as_of=as_of, at_least=at_least, stale_ms=stale_ms, timeout=timeout
            ),
        )

    @overload
    def find(
        self,
        filter: WrittenFilter = None,
        select: None = None,
        *,
        raw: Literal[False] = False,
        populate: None = None,
        **options: Unpack[FindOptions],
    ) -> AsyncResults[T]: ...

    @overload
    def find(
        self,
        filter: WrittenFilter,
        select: WrittenSelect,
        *,
        raw: Literal[False] = False,
        populate: Names = None,
        **options: Unpack[FindOptions],
    ) -> AsyncResults[dict[str, Any]]: ...

    @overload
    def find(
        self,
        filter: WrittenFilter = None,
        *,
        select: WrittenSelect,
        raw: Literal[False] = False,
        populate: Names = None,
        **options: Unpack[FindOptions],
    ) -> AsyncResults[dict[str, Any]]: ...

    @overload
    def find(
        self,
        filter: WrittenFilter = None,
        select: None = None,
        *,
        raw: Literal[False] = False,
        populate: str | Sequence[str],
        **options: Unpack[FindOptions],
    ) -> AsyncResults[dict[str, Any]]: ...

    @overload
    def find(
        self,
        filter: WrittenFilter = None,
        select: WrittenSelect | None = None,
        *,
        raw: Literal[True],
        populate: Names = None,
        **options: Unpack[FindOptions],
    ) -> AsyncResults[bytes]: ...

    def find(
        self,
        filter: WrittenFilter = None,
        select: WrittenSelect | None = None,
        *,
        raw: bool = False,
        populate: Names = None,
        **options: Unpack[FindOptions],
    ) -> AsyncResults[Any]:
        """What a filter finds, lazily: nothing is asked before rows are wanted. See `FindOptions` for the options."""
        from wormdb.aio.results import AsyncResults

        return AsyncResults(self._runner, self._inner.find(filter, select, raw=raw, populate=populate, **options))

    @overload
    async def find_all(
        self,
        filter: WrittenFilter = None,
        select: None = None,
        *,
        raw: Literal[False] = False,
        populate: None = None,
        **options: Unpack[FindOptions],
    ) -> list[T]: ...

    @overload
    async def find_all(
        self,
        filter: WrittenFilter,
        select: WrittenSelect,
        *,
        raw: Literal[False] = False,
        populate: Names = None,
        **options: Unpack[FindOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    async def find_all(
        self,
        filter: WrittenFilter = None,
        *,
        select: WrittenSelect,
        raw: Literal[False] = False,
        populate: Names = None,
        **options: Unpack[FindOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    async def find_all(
        self,
        filter: WrittenFilter = None,
        select: None = None,
        *,
        raw: Literal[False] = False,
        populate: str | Sequence[str],
        **options: Unpack[FindOptions],
    ) -> list[dict[str, Any]]: ...

    @overload
    async def find_all(
        self,
        filter: WrittenFilter = None,
        select: WrittenSelect | None = None,
        *,
        raw: Literal[True],
        populate: Names = None,
        **options: Unpack[FindOptions],
    ) -> list[bytes]: ...

    async def find_all(
        self,
        filter: WrittenFilter = None,
        select: WrittenSelect | None = None,
        *,
        raw: bool = False,
        populate: Names = None,
        **options: Unpack[FindOptions],
    ) -> list[Any]:
        """What `find` finds, as a list."""
        return cast(
            "list[Any]",
            await self._runner.call(self._inner.find_all, filter, select, raw=raw, populate=populate, **options),
        )

    @overload
    async def find_one(
        self,
        filter: WrittenFilter = None,
        select: None = None,
        *,
        raw: Literal[False] = False,
        populate: None = None,
        **options: Unpack[FindOneOptions],
    ) -> T | None: ...

    @overload
    async def find_one(
        self,
        filter: WrittenFilter,
        select: WrittenSelect,
        *,
        raw: Literal[False] = False,
        populate: Names = None,
        **options: Unpack[FindOneOptions],
    ) -> dict[str, Any] | None: ...

    @overload
    async def find_one(
        self,
        filter: WrittenFilter = None,
        *,
        select: WrittenSelect,
        raw: Literal[False] = False,
        populate: Names = None,
        **options: Unpack[FindOneOptions],
    ) -> dict[str, Any] | None: ...

    @overload
    async def find_one(
        self,
        filter: WrittenFilter = None,
        select: None = None,
        *,
        raw: Literal[False] = False,
        populate: str | Sequence[str],
        **options: Unpack[FindOneOptions],
    ) -> dict[str, Any] | None: ...

    @overload
    async def find_one(
        self,
        filter: WrittenFilter = None,
        select: WrittenSelect | None = None,
        *,
        raw: Literal[True],
        populate: Names = None,
        **options: Unpack[FindOneOptions],
    ) -> bytes | None: ...

    async def find_one(
        self,
        filter: WrittenFilter = None,
        select: WrittenSelect | None = None,
        *,
        raw: bool = False,
        populate: Names = None,
        **options: Unpack[FindOneOptions],
    ) -> Any:
        """The first row of what `find` finds, or None. By id 1 GET in a warm process, and 1 for its page."""
        return cast(
            "Any", await self._runner.call(self._inner.find_one, filter, select, raw=raw, populate=populate, **options)
        )

    def query(self) -> AsyncQuery[T]:
        """A query to be built step by step: `query().eq('role', 'admin').sort('name').limit(10).execute()`."""
        from wormdb.aio.query import AsyncQuery

        return AsyncQuery(self._runner, self._inner.query())

    async def explain(
        self,
        filter: WrittenFilter = None,
        *,
        analyze: bool = False,
        select: WrittenSelect | None = None,
        populate: Names = None,
        **options: Unpack[FindOptions],
    ) -> Explanation:
        """How `find` would find it: strategy, reason, estimated requests, the plan, and the plans that were rejected."""
        return cast(
            "Explanation",
            await self._runner.call(
                self._inner.explain, filter, analyze=analyze, select=select, populate=populate, **options
            ),
        )

    async def count(
        self,
        filter: WrittenFilter = None,
        *,
        as_of: Moment = None,
        at_least: int | str | None = None,
        stale_ms: float | None = None,
        timeout: float | None = None,
    ) -> int:
        """How many documents there are, or match. All: 1 GET in a warm process; of the past a scan of history."""
        return cast(
            "int",
            await self._runner.call(
                self._inner.count, filter, as_of=as_of, at_least=at_least, stale_ms=stale_ms, timeout=timeout
            ),
        )

    async def distinct(
        self,
        field: str,
        filter: WrittenFilter = None,
        *,
        as_of: Moment = None,
        at_least: int | str | None = None,
        stale_ms: float | None = None,
        timeout: float | None = None,
    ) -> list[Any]:
        """The different values of a field, in order; of an array its elements."""
        return cast(
            "list[Any]",
            await self._runner.call(
                self._inner.distinct, field, filter, as_of=as_of, at_least=at_least, stale_ms=stale_ms, timeout=timeout
            ),
        )

    @overload
    async def aggregate(
        self,
        pipeline: WrittenStages,
        /,
        *,
        as_of: Moment = None,
        at_least: int | str | None = None,
        stale_ms: float | None = None,
        timeout: float | None = None,
    ) -> list[dict[str, Any]]: ...

    @overload
    async def aggregate(
        self,
        /,
        *,
        group_by: Names = None,
        count: bool | None = None,
        sum: Names = None,
        avg: Names = None,
        min: Names = None,
        max: Names = None,
        filter: WrittenFilter = None,
        as_of: Moment = None,
        at_least: int | str | None = None,
        stale_ms: float | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]: ...

    async def aggregate(
        self,
        pipeline: WrittenStages | None = None,
        /,
        *,
        group_by: Names = None,
        count: bool | None = None,
        sum: Names = None,
        avg: Names = None,
        min: Names = None,
        max: Names = None,
        filter: WrittenFilter = None,
        as_of: Moment = None,
        at_least: int | str | None = None,
        stale_ms: float | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Functions over all documents, or over what a filter finds: `{'count': 2, 'sum': 30}`."""
        return cast(
            "Any",
            await self._runner.call(
                self._inner.aggregate,
                pipeline,
                group_by=group_by,
                count=count,
                sum=sum,
                avg=avg,
                min=min,
                max=max,
                filter=filter,
                as_of=as_of,
                at_least=at_least,
                stale_ms=stale_ms,
                timeout=timeout,
            ),
        )

    @overload
    async def cursor(
        self,
        filter: WrittenFilter = None,
        *,
        raw: Literal[False] = False,
        sort: WrittenSort = None,
        select: None = None,
        batch_size: int = 100,
        strategy: Strategy | None = None,
        as_of: Moment = None,
        at_least: int | str | None = None,
        stale_ms: float | None = None,
    ) -> AsyncCursor[T]: ...

    @overload
    async def cursor(
        self,
        filter: WrittenFilter = None,
        *,
        raw: Literal[False] = False,
        sort: WrittenSort = None,
        select: WrittenSelect,
        batch_size: int = 100,
        strategy: Strategy | None = None,
        as_of: Moment = None,
        at_least: int | str | None = None,
        stale_ms: float | None = None,
    ) -> AsyncCursor[dict[str, Any]]: ...

    @overload
    async def cursor(
        self,
        filter: WrittenFilter = None,
        *,
        raw: Literal[True],
        sort: WrittenSort = None,
        select: WrittenSelect | None = None,
        batch_size: int = 100,
        strategy: Strategy | None = None,
        as_of: Moment = None,
        at_least: int | str | None = None,
        stale_ms: float | None = None,
    ) -> AsyncCursor[bytes]: ...

    async def cursor(
        self,
        filter: WrittenFilter = None,
        *,
        raw: bool = False,
        sort: WrittenSort = None,
        select: WrittenSelect | None = None,
        batch_size: int = 100,
        strategy: Strategy | None = None,
        as_of: Moment = None,
        at_least: int | str | None = None,
        stale_ms: float | None = None,
    ) -> AsyncCursor[Any]:
        """The rows of the state as it is now in batches, whatever is written meanwhile; for 30 minutes."""
        from wormdb.aio.cursor import AsyncCursor

        return AsyncCursor(
            self._runner,
            await self._runner.call(
                self._inner.cursor,
                filter,
                raw=raw,
                sort=sort,
                select=select,
                batch_size=batch_size,
                strategy=strategy,
                as_of=as_of,
                at_least=at_least,
                stale_ms=stale_ms,
            ),
        )

    def resume(self, token: str) -> AsyncCursor[T]:
        """The cursor of a token, behind its last batch, in this process or another one. No requests."""
        from wormdb.aio.cursor import AsyncCursor

        return AsyncCursor(self._runner, self._inner.resume(token))
