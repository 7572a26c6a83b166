"""One collection as verify and repair reach it: past every cache, because they ask what the store has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wormdb.engine.log.entries import Log
from wormdb.engine.log.paths import EnginePaths
from wormdb.engine.log.root import Place, Register
from wormdb.errors import NotFoundError
from wormdb.storage.store import ByteRange, Store

if TYPE_CHECKING:
    from wormdb.engine.ledger import Ledger, Runtime
    from wormdb.engine.log.objects import ObjectWriter
    from wormdb.format.root import Root
    from wormdb.storage.pool import Pool

__all__ = ["StoredCollection"]


@dataclass(frozen=True, slots=True)
class StoredCollection:
    """One collection, and what is needed to read and to write it. The store of `runtime` caches nothing."""

    collection: str
    """Its folder, ending with /."""
    runtime: Runtime
    passed: frozenset[bytes] = frozenset()
    """Blocks that were found to be sound already, by `wormdb.maintenance.audit.lists.claim_of`."""

    @property
    def store(self) -> Store:
        """Where it is."""
        return self.runtime.store

    @property
    def pool(self) -> Pool:
        """For requests side by side."""
        return self.runtime.pool

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
        return self.runtime.writer

    def ledger(self) -> Ledger:
        """A ledger of its own, which begins with the newest root. No requests."""
        return self.runtime.open(self.collection)

    def place(self, root: Root) -> Place:
        """A root of it."""
        return Place(self.store, self.pool, self.paths, root)

    def body(self, key: str, recorded: int | None = None) -> bytes | None:
        """The bytes of an object, None if there is none. 1 GET; raises CorruptionError if it is too long for its kind.

        Of one whose length is `recorded` somewhere, at most one byte more: then the caller says that it is too long,
        and may save what is in it.
        """
        try:
            if recorded is not None:
                return self.store.get_range(key, ByteRange(0, recorded + 1))
            return self.store.get(key).body
        except NotFoundError as error:
            if error.key != key:
                raise  # the bucket is missing, not this object
            return None
