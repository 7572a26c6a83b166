"""Open a database for an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wormdb.aio.database import AsyncDatabase
from wormdb.aio.runner import CALLS_AT_ONCE, AsyncRunner
from wormdb.api.database import connect as connect_plainly
from wormdb.settings import Settings
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from wormdb.schema.model import Schema
    from wormdb.storage.meter import MeteredRequest
    from wormdb.storage.store import Store
    from wormdb.system.clock import Chance, Clock

__all__ = ["connect"]


def connect(
    url: str | Path | Store,
    *,
    schema: Schema | Mapping[str, Any] | str | Path | None = None,
    apply: bool = False,
    actor: str | None = None,
    settings: Settings | None = None,
    hook: Callable[[MeteredRequest], None] | None = None,
    clock: Clock | None = None,
    chance: Chance | None = None,
    concurrency: int = CALLS_AT_ONCE,
) -> AsyncDatabase:
    """Open the database at `url`, as `wormdb.connect`: `async with aio.connect(url) as db`. No requests.

    With `apply` the definitions are committed when it is entered, or awaited. At most `concurrency` calls are under way
    at once; others wait, and can be cancelled without having begun. Raises InvalidRequestError, SchemaError.
    """
    clock = clock or SystemClock()
    runner = AsyncRunner(clock, settings or Settings(), concurrency)
    database = connect_plainly(
        url, schema=schema, actor=actor, settings=settings, hook=hook, clock=clock, chance=chance
    )
    return AsyncDatabase(runner, database, is_owner=True, is_applied=apply)
