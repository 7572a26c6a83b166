"""Write immutable objects under new names.

A name has random bits and is used once, so an unclear answer needs no reading back: the object is simply not named by
anything, and the next try takes another name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wormdb.errors import AlreadyExistsError, OutcomeUnknownError, UnavailableError
from wormdb.storage.store import IfAbsent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb.engine.log.clock import MiscClock
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store
    from wormdb.system.clock import Chance

__all__ = ["PARQUET", "ZSTD", "NewObject", "ObjectWriter"]

PARQUET = "application/vnd.apache.parquet"
ZSTD = "application/zstd"


@dataclass(frozen=True, slots=True)
class NewObject:
    """An object on its way: its whole key, its bytes and what they are."""

    key: str
    body: bytes
    content_type: str = ZSTD


@dataclass(frozen=True, slots=True)
class ObjectWriter:
    """Writes what a new root will name."""

    store: Store
    pool: Pool
    misc: MiscClock
    chance: Chance

    def new_name(self) -> str:
        """A name never used before, greater than those this process made before. No requests."""
        return f"{self.misc.next():016x}-{self.chance.token(4).hex()}"

    def put(self, new: NewObject) -> None:
        """Write one object. 1 PUT; raises UnavailableError if it is not there for sure: no root names it then."""
        try:
            self.store.put(new.key, new.body, IfAbsent(), content_type=new.content_type)
        except (AlreadyExistsError, OutcomeUnknownError) as error:
            # That it is there already says that the request was sent twice on its way.
            raise UnavailableError(
                f"object {new.key}", reason=error.reason, fix="retry: the state is as before", key=error.key
            ) from error

    def put_all(self, objects: Iterable[NewObject]) -> None:
        """Write several, side by side. 1 PUT each; raises as `put`, when some may have been written."""
        waiting = list(objects)
        if len(waiting) == 1:
            self.put(waiting[0])
            return
        for _ in self.pool.map(self.put, waiting):
            pass
