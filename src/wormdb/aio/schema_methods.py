"""The calls of `SchemaMethods`, to be awaited.

Written by `make docs` from `wormdb.api.schema_methods`; edit that instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from wormdb.aio.runner import AsyncHandle

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from wormdb.api.schema import SchemaPlan
    from wormdb.engine.migrate import Migrate
    from wormdb.schema.difference import SchemaDifference
    from wormdb.schema.model import Schema

__all__ = ["AsyncSchemaMethods"]

T = TypeVar("T")


class AsyncSchemaMethods(AsyncHandle[Any]):
    """The schema of a database, compared, planned and applied.

    Calls are awaited; `wormdb.api.schema_methods.SchemaMethods` has their promises.
    """

    @property
    def schema(self) -> Coroutine[Any, Any, Schema | None]:
        """The schema given to `connect`, or the published one (1 GET); None if there is neither."""
        return self._runner.call(getattr, self._inner, "schema")

    async def schema_changes(self) -> dict[str, tuple[SchemaDifference, ...]]:
        """How the schema differs from what the database has, by model; empty if it does not. 2 GETs a model."""
        return cast("dict[str, tuple[SchemaDifference, ...]]", await self._runner.call(self._inner.schema_changes))

    async def plan_schema(
        self, *, mappings: Mapping[str, Mapping[str, Any]] | None = None, migrate: Mapping[str, Migrate] | None = None
    ) -> SchemaPlan:
        """What `apply_schema` with the same arguments would do, and about what it would cost. Writes nothing."""
        return cast("SchemaPlan", await self._runner.call(self._inner.plan_schema, mappings=mappings, migrate=migrate))

    async def apply_schema(
        self, *, mappings: Mapping[str, Mapping[str, Any]] | None = None, migrate: Mapping[str, Migrate] | None = None
    ) -> dict[str, tuple[SchemaDifference, ...]]:
        """Make the schema the database's definition; returns what changed. 2 GETs and 1 PUT a changed model."""
        return cast(
            "dict[str, tuple[SchemaDifference, ...]]",
            await self._runner.call(self._inner.apply_schema, mappings=mappings, migrate=migrate),
        )
