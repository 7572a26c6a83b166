"""The collections of a database that other programs may keep: those of models that are only read.

What reads files is imported when there is such a model: others do not wait for it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.files.foreign.collection import ForeignCollection
    from wormdb.schema.model import Model
    from wormdb.schema.path import PathTemplate
    from wormdb.settings import Settings
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store
    from wormdb.system.clock import Clock

__all__ = ["ForeignCollections"]


class ForeignCollections:
    """What a process knows of files that others keep, by collection. Thread-safe."""

    def __init__(self, store: Store, pool: Pool, clock: Clock, settings: Settings) -> None:
        """No requests."""
        self._store = store
        self._pool = pool
        self._clock = clock
        self._settings = settings
        self._found: dict[str, ForeignCollection] = {}
        self._lock = threading.Lock()

    def of(self, prefix: str, model: Model | None, others: Sequence[PathTemplate] = ()) -> ForeignCollection | None:
        """The files of a collection, if its model is only read, or they are of a kind that only others write.

        `is_foreign` says if another program keeps them. `others` are the paths of the other models.
        """
        if model is None or not (model.mode == "readonly" or model.path.is_of_others):
            return None
        from wormdb.files.foreign.collection import ForeignCollection

        with self._lock:
            found = self._found.get(prefix)
            if found is None or (found.folder.model is not model and found.folder.model != model):
                found = self._found[prefix] = ForeignCollection(
                    self._store, self._pool, self._clock, model=model, collection=prefix, settings=self._settings
                )
            found.folder.others = others or found.folder.others
            return found

    def forget(self, prefix: str) -> None:
        """Know nothing any more of a collection, nor whether it has a log. No requests."""
        with self._lock:
            found = self._found.get(prefix)
        if found is not None:
            found.forget()
