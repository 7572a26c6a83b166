"""What a process has learnt of somebody else's files, by the version of each: what did not change is not read again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.storage.store import StoredObject
    from wormdb.system.types import Version

__all__ = ["Kept"]

T = TypeVar("T")


class Kept:
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
