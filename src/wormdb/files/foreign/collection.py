"""A collection that another program may keep: whether it does, and what can be asked of its files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wormdb.engine.log.paths import EnginePaths
from wormdb.errors import NotFoundError
from wormdb.files.foreign.answer import ForeignAnswer
from wormdb.files.foreign.files import Entities, Entity
from wormdb.files.foreign.folder import FileFolder, FileMemory
from wormdb.files.foreign.indexes import IndexFileStatus, index_status
from wormdb.files.foreign.manifest import ForeignManifest, RefusedManifest
from wormdb.format.key import encode_key
from wormdb.schema.path import SINGLETON_ID
from wormdb.system.deadline import TimedLock
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from wormdb.engine.state.view import StoredVersion
    from wormdb.schema.model import Model
    from wormdb.settings import Settings
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store
    from wormdb.system.clock import Clock

__all__ = ["ForeignCollection"]


_KEPT_SHARE = 4
"""The files of one collection may take `cache_bytes` divided by this."""


class ForeignCollection:
    """The files of one collection of a model that is only read. Thread-safe; what is learnt stays in this process."""

    def __init__(
        self, store: Store, pool: Pool, clock: Clock, *, model: Model, collection: str, settings: Settings
    ) -> None:
        """No requests."""
        self.folder = FileFolder(store, pool, model, collection)
        self.memory = FileMemory(settings.cache_bytes // _KEPT_SHARE)
        self._clock = clock
        self._settings = settings
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
                paths = EnginePaths.of_collection(self.folder.collection)
                found = self.folder.store.get_many([paths.root, paths.entry(LogNumber(1))], self.folder.pool)
                self._is_foreign = all(one is None for one in found)
            return self._is_foreign

    def forget(self) -> None:
        """Know nothing any more of the files, nor whether there is a log. No requests."""
        with self._lock:
            self._is_foreign = True if self._is_told else None
        self.memory.forget()

    def answer(self) -> ForeignAnswer:
        """What answers one query. No requests yet."""
        check, on_broken = self._settings.foreign_check, self._settings.on_broken
        return ForeignAnswer(self.folder, self.memory, self._clock, check=check, on_broken=on_broken)

    def find(self, identity: Any) -> StoredVersion | None:
        """One document by its id; None if there is none. 1 GET, or 2 if the id may be written in two ways.

        Where files have many documents, all of them are read.

        Raises CorruptionError if its file is broken.
        """
        if self.folder.model.path.holds_many:
            entity = self.answer().files.listing(is_strict=False).keys.get(encode_key(identity))
            return None if entity is None else entity.held
        entities = Entities(self.folder, self._settings.on_broken)
        known = SINGLETON_ID if self.folder.model.is_singleton else identity
        for key in self.folder.keys_of(known):
            held = entities.read(Entity(known, key))
            if held is not None:
                return held
        return None

    def exists(self, identity: Any) -> bool:
        """Whether there is a file of this id, whatever is in it. 1 HEAD, or 2 as `find`."""
        if self.folder.model.path.holds_many:
            return self.find(identity) is not None
        return any(map(self._is_there, self.folder.keys_of(identity)))

    def manifest(self) -> tuple[ForeignManifest | RefusedManifest, int]:
        """The manifest or why it is not used, and how many documents there are. Lists the files if it does not tell."""
        answer = self.answer()
        found = answer.files.manifest()
        count = found.count if isinstance(found, ForeignManifest) else len(answer.files.listing(is_strict=False).keys)
        return found, count

    def indexes(self) -> dict[str, IndexFileStatus]:
        """What each index that the schema declares is worth. 1 GET each, and what confirming them costs."""
        files = self.answer().files
        return {name: index_status(files, name, index) for name, index in self.folder.model.indexes.items()}

    def index(self, name: str) -> IndexFileStatus:
        """What one index that the schema declares is worth. Costs as `indexes`, for one."""
        return index_status(self.answer().files, name, self.folder.model.indexes[name])

    def _is_there(self, key: str) -> bool:
        try:
            self.folder.store.head(key)
        except NotFoundError as error:
            if error.key != key:
                raise  # the bucket is missing, not this file
            return False
        return True
