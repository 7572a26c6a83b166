"""The calls of `IndexMethods`, to be awaited.

Written by `make docs` from `wormdb.api.index_methods`; edit that instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from wormdb.aio.runner import AsyncHandle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.api.indexes import WrittenFields
    from wormdb.api.status import IndexDescription, IndexSummary
    from wormdb.bql.nearest import Distance

__all__ = ["AsyncIndexMethods"]

T = TypeVar("T")


class AsyncIndexMethods(AsyncHandle[Any], Generic[T]):
    """Indexes: made, shown, measured, built and dropped.

    Calls are awaited; `wormdb.api.index_methods.IndexMethods` has their promises.
    """

    async def create_index(
        self,
        fields: WrittenFields,
        *,
        name: str | None = None,
        unique: bool = False,
        sparse: bool = True,
        bson_type: str | Sequence[str] | None = None,
        expireAfterSeconds: float | None = None,
        wait: bool = True,
    ) -> IndexSummary:
        """Make an index over a dotted field, or over several in order; arrays are entered by their elements."""
        return cast(
            "IndexSummary",
            await self._runner.call(
                self._inner.create_index,
                fields,
                name=name,
                unique=unique,
                sparse=sparse,
                bson_type=bson_type,
                expireAfterSeconds=expireAfterSeconds,
                wait=wait,
            ),
        )

    async def create_text_index(
        self,
        fields: str | Sequence[str],
        *,
        language: str | None = None,
        stop_words: Sequence[str] | bool | None = None,
        name: str | None = None,
        wait: bool = True,
    ) -> IndexSummary:
        """Make an index of the words of some fields, for `find(search='red shoes')`; each may have a weight: 'title^3'."""
        return cast(
            "IndexSummary",
            await self._runner.call(
                self._inner.create_text_index, fields, language=language, stop_words=stop_words, name=name, wait=wait
            ),
        )

    async def create_vector_index(
        self, field: str, *, dimensions: int, distance: Distance = "cosine", name: str | None = None, wait: bool = True
    ) -> IndexSummary:
        """Make an index of the vectors at a dotted field, each of `dimensions` numbers; `name` is that of the field."""
        return cast(
            "IndexSummary",
            await self._runner.call(
                self._inner.create_vector_index, field, dimensions=dimensions, distance=distance, name=name, wait=wait
            ),
        )

    async def drop_index(self, name: str | Sequence[tuple[str, int]]) -> None:
        """Drop an index that is not the model's, by its name or its pairs of fields and orders. 1 PUT."""
        await self._runner.call(self._inner.drop_index, name)

    async def indexes(self) -> list[IndexSummary]:
        """Every index with its state, the primary one first. 1 GET in a warm process."""
        return cast("list[IndexSummary]", await self._runner.call(self._inner.indexes))

    async def describe_index(self, name: str) -> IndexDescription:
        """One index in detail: its definition, its state, and how many entries and values. 1 GET in a warm process."""
        return cast("IndexDescription", await self._runner.call(self._inner.describe_index, name))

    async def analyze_index(self, name: str) -> IndexDescription:
        """Bring the log forward, which measures indexes whose entries changed by a tenth, and describe one of them."""
        return cast("IndexDescription", await self._runner.call(self._inner.analyze_index, name))

    async def index_tasks(self) -> list[IndexSummary]:
        """The indexes that wait, are being built, are to be made anew or failed. 1 GET in a warm process."""
        return cast("list[IndexSummary]", await self._runner.call(self._inner.index_tasks))

    async def build_index(self, name: str) -> IndexSummary:
        """Build an index that waits or failed; one that is ready is brought up to date. Costs as `forward`."""
        return cast("IndexSummary", await self._runner.call(self._inner.build_index, name))

    async def build_indexes(self) -> list[IndexSummary]:
        """Build all indexes that wait, and bring the others up to date; every index. Costs as `forward`, and 1 GET."""
        return cast("list[IndexSummary]", await self._runner.call(self._inner.build_indexes))
