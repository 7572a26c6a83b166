"""A root, and where the objects that it names are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wormdb.engine.log.paths import EnginePaths
    from wormdb.format.root import Root
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store

__all__ = ["Place"]


@dataclass(frozen=True, slots=True)
class Place:
    """One root of one collection. A value: a newer root is another place."""

    store: Store
    pool: Pool
    paths: EnginePaths
    root: Root
