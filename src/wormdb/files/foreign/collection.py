"""A collection that another program may keep: whether it does, and what can be asked of its files."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeVar

from wormdb.engine.log.paths import EnginePaths
from wormdb.errors import NotFoundError
from wormdb.files.foreign.answer import ForeignAnswer
from wormdb.files.foreign.files import Entities, Entity
from wormdb.files.foreign.indexes import index_status
from wormdb.files.foreign.manifest import ForeignManifest
from wormdb.files.foreign.site import Site
from wormdb.schema.path import SINGLETON_ID
from wormdb.system.deadline import TimedLock
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.engine.state.view import Held
    from wormdb.files.foreign.indexes import IndexFileStatus
    from wormdb.files.foreign.manifest import RefusedManifest
    from wormdb.schema.model import Model
    from wormdb.settings import Settings
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store, StoredObject
    from wormdb.system.clock import Clock
    from wormdb.system.types import Version

__all__ = ["FileCache", "ForeignCollection"]


# --- What a process has learnt of files of another program, by version: an unchanged file is not decoded again.

T = TypeVar("T")


class FileCache:
    """What files say, the least used forgotten first; of each file only one version. Thread-safe."""

    def __init__(self, bytes_max: int) -> None:
        """Up to `bytes_max` bytes of files; what is made of them takes a few times as much."""
        self._bytes_max = bytes_max
        self._bytes = 0
        self._things: OrderedDict[str, tuple[Version, int, object]] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, found: StoredObject, decode: Callable[[StoredObject], T]) -> T:
        """What a file says: what was kept of this version, or what `decode` makes of it. No requests."""
        with self._lock:
            kept = self._things.get(found.key)
            if kept is not None and kept[0] == found.version:
                self._things.move_to_end(found.key)
                thing: T = kept[2]  # type: ignore[assignment] # one kind of thing is kept for one key
                return thing
        thing = decode(found)
        self._keep(found.key, found.version, len(found.body), thing)
        return thing

    def forget(self) -> None:
        """Know nothing any more. No requests."""
        with self._lock:
            self._things.clear()
            self._bytes = 0

    def _keep(self, key: str, version: Version, size: int, thing: object) -> None:
        with self._lock:
            old = self._things.pop(key, None)
            self._bytes += size - (0 if old is None else old[1])
            self._things[key] = (version, size, thing)
            while self._bytes > self._bytes_max and self._things:
                _, (_, dropped, _) = self._things.popitem(last=False)
                self._bytes -= dropped


_KEPT_SHARE = 4
"""The files of one collection may take `cache_bytes` divided by this."""


class ForeignCollection:
    """The files of one collection of a model that is only read. Thread-safe; what is learnt stays in this process."""

    def __init__(
        self, store: Store, pool: Pool, clock: Clock, *, model: Model, collection: str, settings: Settings
    ) -> None:
        """No requests."""
        self.site = Site(
            store,
            pool,
            clock,
            model,
            collection,
            settings.foreign_check,
            settings.on_broken,
            FileCache(settings.cache_bytes // _KEPT_SHARE),
        )
        self._is_told = settings.source == "files"
        self._is_foreign: bool | None = True if self._is_told else None
        self._lock = TimedLock(f"files of {collection}")

    @property
    def is_known(self) -> bool:
        """Whether it is known already that there is no log. No requests."""
        return self._is_foreign is True

    def is_foreign(self) -> bool:
        """Whether there is neither a root nor a first log entry. 2 GETs side by side at the first call, then none."""
        with self._lock:
            if self._is_foreign is None:
                paths = EnginePaths.of_collection(self.site.collection)
                found = self.site.store.get_many([paths.root, paths.entry(LogNumber(1))], self.site.pool)
                self._is_foreign = all(one is None for one in found)
            return self._is_foreign

    def forget(self) -> None:
        """Know nothing any more of the files, nor whether there is a log. No requests."""
        with self._lock:
            self._is_foreign = True if self._is_told else None
        self.site.kept.forget()
        self.site.confirmed.clear()
        self.site.is_partitioned = False

    def answer(self) -> ForeignAnswer:
        """What answers one query. No requests yet."""
        return ForeignAnswer(self.site)

    def find(self, identity: Any) -> Held | None:
        """One document by its id; None if there is none. 1 GET, or 2 if the id may be written in two ways.

        Raises CorruptionError if its file is broken.
        """
        entities = Entities(self.site)
        known = SINGLETON_ID if self.site.model.is_singleton else identity
        for key in self.site.keys_of(known):
            held = entities.read(Entity(known, key))
            if held is not None:
                return held
        return None

    def exists(self, identity: Any) -> bool:
        """Whether there is a file of this id, whatever is in it. 1 HEAD, or 2 as `find`."""
        return any(map(self._is_there, self.site.keys_of(identity)))

    def manifest(self) -> tuple[ForeignManifest | RefusedManifest, int]:
        """The manifest or why it is not used, and how many documents there are. Lists the files if it does not tell."""
        answer = self.answer()
        found = answer.look.manifest()
        count = found.count if isinstance(found, ForeignManifest) else len(answer.look.listing().keys)
        return found, count

    def indexes(self) -> dict[str, IndexFileStatus]:
        """What each index that the schema declares is worth. 1 GET each, and what confirming them costs."""
        look = self.answer().look
        return {name: index_status(look, name, index) for name, index in self.site.model.indexes.items()}

    def index(self, name: str) -> IndexFileStatus:
        """What one index that the schema declares is worth. Costs as `indexes`, for one."""
        return index_status(self.answer().look, name, self.site.model.indexes[name])

    def _is_there(self, key: str) -> bool:
        try:
            self.site.store.head(key)
        except NotFoundError as error:
            if error.key != key:
                raise  # the bucket is missing, not this file
            return False
        return True
