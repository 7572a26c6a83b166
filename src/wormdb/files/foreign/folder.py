"""The files of a collection that another program keeps: where they are, and what a process has learnt of them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.files.contents.names import FileNames, Placement, identity_in
from wormdb.schema.path import SINGLETON_ID
from wormdb.storage.store import Store, StoredObject, check_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wormdb.schema.model import Model
    from wormdb.schema.path import PathTemplate
    from wormdb.storage.pool import Pool
    from wormdb.system.types import Version

__all__ = ["FileFolder", "FileMemory"]


T = TypeVar("T")


@dataclass(slots=True)
class FileFolder:
    """A collection of files: where they are, and what their keys mean."""

    store: Store
    pool: Pool
    model: Model
    collection: str
    """Its folder, ending with /."""
    others: Sequence[PathTemplate] = ()
    """The paths of other models: what lies there is explained."""
    names: FileNames = field(init=False)

    def __post_init__(self) -> None:
        # Oplogs, snapshots and trash are not looked at, wherever they are.
        self.names = FileNames(self.model, self.collection, Placement())

    @property
    def manifest_fields(self) -> frozenset[str]:
        """The fields that a manifest of this model may hold, by what the schema says."""
        return frozenset((*self.model.manifest_fields, "createdAt", "updatedAt"))

    def identity_of(self, key: str) -> Any | None:
        """The id of the document whose file has this key; None for every other key. No requests.

        Names that begin with a dot are system folders. A name that we would write in another way is an id as it is.
        """
        return identity_in(key, self.model, self.collection)

    def keys_of(self, identity: Any) -> list[str]:
        """Where the file of a document may be: as we name it, and as others may. No requests."""
        if self.model.is_singleton:
            return [self.names.entity(SINGLETON_ID)]
        name = self.model.path.file_name
        found: list[str] = []
        with suppress(LimitExceededError):  # longer than we would write it, which need not bother others
            found.append(self.names.entity(identity))
        path = self.model.path
        plain = f"{self.collection}{identity}{path.extension if path.is_flat else f'/{name}'}"
        if plain not in found and _is_key(plain) and self.identity_of(plain) == identity:
            found.append(plain)
        return found


def _is_key(key: str) -> bool:
    try:
        check_key(key)
    except InvalidRequestError:
        return False
    return True


class FileMemory:
    """What a process has learnt of files, one version of each, the least used forgotten first. Thread-safe."""

    def __init__(self, bytes_max: int) -> None:
        """Up to `bytes_max` bytes of files; what is made of them takes a few times as much."""
        self._bytes_max = bytes_max
        self._bytes = 0
        self._things: OrderedDict[str, tuple[Version, int, object]] = OrderedDict()
        self._lock = threading.Lock()
        self.is_partitioned = False
        """Whether the manifest was last seen in several files: then that is where it is looked for first."""
        self.confirmed: dict[str, str] = {}
        """By key the version of each index file that a manifest has confirmed."""

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
            self.is_partitioned = False
            self.confirmed.clear()

    def _keep(self, key: str, version: Version, size: int, thing: object) -> None:
        with self._lock:
            old = self._things.pop(key, None)
            self._bytes += size - (0 if old is None else old[1])
            self._things[key] = (version, size, thing)
            while self._bytes > self._bytes_max and self._things:
                _, (_, dropped, _) = self._things.popitem(last=False)
                self._bytes -= dropped
