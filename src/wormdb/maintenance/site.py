"""One collection as verify and repair reach it: past every cache, because they ask what the store has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wormdb.engine.log import Log
from wormdb.engine.objects import ObjectWriter
from wormdb.engine.paths import EnginePaths
from wormdb.engine.projection import DEFAULT_SIZES, Sizes
from wormdb.engine.register import Register
from wormdb.errors import NotFoundError

if TYPE_CHECKING:
    from wormdb.clock import Chance
    from wormdb.engine.misc_clock import MiscClock
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store

__all__ = ["Site"]


@dataclass(frozen=True, slots=True)
class Site:
    """One collection, and what is needed to read and to write it. `store` keeps nothing."""

    collection: str
    """Its folder, ending with /."""
    store: Store
    pool: Pool
    misc: MiscClock
    chance: Chance
    sizes: Sizes = DEFAULT_SIZES

    @property
    def paths(self) -> EnginePaths:
        """Its keys."""
        return EnginePaths.of_collection(self.collection)

    @property
    def log(self) -> Log:
        """Its log."""
        return Log(self.store, self.paths, self.collection, self.pool)

    @property
    def register(self) -> Register:
        """Its root."""
        return Register(self.store, self.paths, self.collection)

    @property
    def writer(self) -> ObjectWriter:
        """Writes new objects."""
        return ObjectWriter(self.store, self.pool, self.misc, self.chance)

    def body(self, key: str) -> bytes | None:
        """The bytes of an object, None if there is none. 1 GET."""
        try:
            return self.store.get(key).body
        except NotFoundError as error:
            if error.key != key:
                raise  # the bucket is missing, not this object
            return None
