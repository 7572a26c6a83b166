"""The calls of `ModifyMethods`, to be awaited.

Written by `make docs` from `wormdb.api.modify`; edit that instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from wormdb.aio.runner import AsyncHandle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Literal

    from wormdb.api.update import DeleteResult, UpdateResult
    from wormdb.bql.sorting import WrittenSort

    ArrayFilters = Sequence[Mapping[str, Any]] | None
    Metadata = Mapping[str, Any] | None
    Select = Sequence[str] | Mapping[str, Any]
    Which = Literal["before", "after"] | bool
    "Which document is returned; `ReturnDocument.AFTER` is True, as pymongo's is."

__all__ = ["AsyncModifyMethods"]

T = TypeVar("T")


class AsyncModifyMethods(AsyncHandle[Any], Generic[T]):
    """Changes by filters, each one batch in the log: all of it or nothing.

    Calls are awaited; `wormdb.api.modify.ModifyMethods` has their promises.
    """

    async def update_one(
        self,
        filter: Mapping[str, Any] | str,
        update: Mapping[str, Any],
        *,
        upsert: bool = False,
        array_filters: ArrayFilters = None,
        sort: WrittenSort = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> UpdateResult:
        """Change the first document that matches, by operators: $set, $unset, $inc, $push and others."""
        return cast(
            "UpdateResult",
            await self._runner.call(
                self._inner.update_one,
                filter,
                update,
                upsert=upsert,
                array_filters=array_filters,
                sort=sort,
                actor=actor,
                metadata=metadata,
                timeout=timeout,
            ),
        )

    async def update_many(
        self,
        filter: Mapping[str, Any] | str,
        update: Mapping[str, Any],
        *,
        upsert: bool = False,
        array_filters: ArrayFilters = None,
        sort: WrittenSort = None,
        limit: int | None = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> UpdateResult:
        """Change all documents that match one state, in one batch. Otherwise as `update_one`."""
        return cast(
            "UpdateResult",
            await self._runner.call(
                self._inner.update_many,
                filter,
                update,
                upsert=upsert,
                array_filters=array_filters,
                sort=sort,
                limit=limit,
                actor=actor,
                metadata=metadata,
                timeout=timeout,
            ),
        )

    async def replace_one(
        self,
        filter: Mapping[str, Any] | str,
        replacement: T | Mapping[str, Any],
        *,
        upsert: bool = False,
        sort: WrittenSort = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> UpdateResult:
        """Put a whole document in the place of the first that matches, under its id; a model's `createdAt` stays."""
        return cast(
            "UpdateResult",
            await self._runner.call(
                self._inner.replace_one,
                filter,
                replacement,
                upsert=upsert,
                sort=sort,
                actor=actor,
                metadata=metadata,
                timeout=timeout,
            ),
        )

    async def delete_one(
        self,
        filter: Mapping[str, Any] | str,
        *,
        sort: WrittenSort = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> DeleteResult:
        """Delete the first document that matches; of a model with softDelete it goes to the trash."""
        return cast(
            "DeleteResult",
            await self._runner.call(
                self._inner.delete_one, filter, sort=sort, actor=actor, metadata=metadata, timeout=timeout
            ),
        )

    async def delete_many(
        self,
        filter: Mapping[str, Any] | str,
        *,
        sort: WrittenSort = None,
        limit: int | None = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> DeleteResult:
        """Delete all documents that match one state, in one batch; {} matches every document."""
        return cast(
            "DeleteResult",
            await self._runner.call(
                self._inner.delete_many, filter, sort=sort, limit=limit, actor=actor, metadata=metadata, timeout=timeout
            ),
        )

    @overload
    async def find_one_and_update(
        self,
        filter: Mapping[str, Any] | str,
        update: Mapping[str, Any],
        *,
        sort: WrittenSort = None,
        upsert: bool = False,
        return_document: Which = "before",
        select: None = None,
        array_filters: ArrayFilters = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> T | None: ...

    @overload
    async def find_one_and_update(
        self,
        filter: Mapping[str, Any] | str,
        update: Mapping[str, Any],
        *,
        sort: WrittenSort = None,
        upsert: bool = False,
        return_document: Which = "before",
        select: Select,
        array_filters: ArrayFilters = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> dict[str, Any] | None: ...

    async def find_one_and_update(
        self,
        filter: Mapping[str, Any] | str,
        update: Mapping[str, Any],
        *,
        sort: WrittenSort = None,
        upsert: bool = False,
        return_document: Which = "before",
        select: Select | None = None,
        array_filters: ArrayFilters = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> T | dict[str, Any] | None:
        """As `update_one`, and the document as it was before, or is after that; None if there was none."""
        return cast(
            "T | dict[str, Any] | None",
            await self._runner.call(
                self._inner.find_one_and_update,
                filter,
                update,
                sort=sort,
                upsert=upsert,
                return_document=return_document,
                select=select,
                array_filters=array_filters,
                actor=actor,
                metadata=metadata,
                timeout=timeout,
            ),
        )

    @overload
    async def find_one_and_replace(
        self,
        filter: Mapping[str, Any] | str,
        replacement: T | Mapping[str, Any],
        *,
        sort: WrittenSort = None,
        upsert: bool = False,
        return_document: Which = "before",
        select: None = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> T | None: ...

    @overload
    async def find_one_and_replace(
        self,
        filter: Mapping[str, Any] | str,
        replacement: T | Mapping[str, Any],
        *,
        sort: WrittenSort = None,
        upsert: bool = False,
        return_document: Which = "before",
        select: Select,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> dict[str, Any] | None: ...

    async def find_one_and_replace(
        self,
        filter: Mapping[str, Any] | str,
        replacement: T | Mapping[str, Any],
        *,
        sort: WrittenSort = None,
        upsert: bool = False,
        return_document: Which = "before",
        select: Select | None = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> T | dict[str, Any] | None:
        """As `replace_one`, and the document as it was before, or is after that. Otherwise as `find_one_and_update`."""
        return cast(
            "T | dict[str, Any] | None",
            await self._runner.call(
                self._inner.find_one_and_replace,
                filter,
                replacement,
                sort=sort,
                upsert=upsert,
                return_document=return_document,
                select=select,
                actor=actor,
                metadata=metadata,
                timeout=timeout,
            ),
        )

    @overload
    async def find_one_and_delete(
        self,
        filter: Mapping[str, Any] | str,
        *,
        sort: WrittenSort = None,
        select: None = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> T | None: ...

    @overload
    async def find_one_and_delete(
        self,
        filter: Mapping[str, Any] | str,
        *,
        sort: WrittenSort = None,
        select: Select,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> dict[str, Any] | None: ...

    async def find_one_and_delete(
        self,
        filter: Mapping[str, Any] | str,
        *,
        sort: WrittenSort = None,
        select: Select | None = None,
        actor: str | None = None,
        metadata: Metadata = None,
        timeout: float | None = None,
    ) -> T | dict[str, Any] | None:
        """As `delete_one`, and the document as it was; None if there was none."""
        return cast(
            "T | dict[str, Any] | None",
            await self._runner.call(
                self._inner.find_one_and_delete,
                filter,
                sort=sort,
                select=select,
                actor=actor,
                metadata=metadata,
                timeout=timeout,
            ),
        )
