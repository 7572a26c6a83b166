"""A cache for objects that never change, bounded by bytes: in memory, and on disk if a folder is given.

Only keys that `immutable` accepts are cached, because a stale root is a wrong answer.
Misses and errors are never cached, so nothing that appears later is hidden. What another
process deletes may be served a while longer: immutable keys are never used again, so it is
what it was. `probe` and `head` always ask the store: their point is what it says now.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wormdb.storage.store import OCTETS, ByteRange, Store, StoredObject, WrappedStore, check_key
from wormdb.system.types import Version

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from wormdb.storage.cache_disk import DiskCache
    from wormdb.storage.store import Precondition, Probe, PutResult, UploadSource

__all__ = ["CacheStats", "CachedStore"]

_NO_VERSION = Version("")  # a range's answer tells none, and none is asked of it
ENTRY_BYTES = 256
"""What an entry costs besides its bytes and key, about."""


@dataclass(frozen=True, slots=True)
class CacheStats:
    """How often the cache answered, and what memory it holds."""

    hits: int
    misses: int
    bytes_held: int


class _Memory:
    """Whole objects and ranges, the longest unused dropped first. Methods need the owner's lock."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes_held = 0
        self._items: OrderedDict[tuple[str, ByteRange | None], StoredObject] = OrderedDict()
        self._spans: dict[str, set[ByteRange | None]] = {}
        self._sizes: dict[str, int] = {}
        """The bytes of all spans of a key: planners ask for them with each query."""

    def find(self, key: str, span: ByteRange | None) -> StoredObject | None:
        """The object, or one that holds just the bytes of `span`, out of anything that covers it."""
        held = self._spans.get(key)
        if held is None:
            return None
        wide = span if span in held else next((wide for wide in held if _covers(wide, span)), span)
        stored = self._items.get((key, wide))
        if stored is None:
            return None
        self._items.move_to_end((key, wide))
        if span is None or wide == span:
            return stored
        begin = span.start - (wide.start if wide else 0)
        return replace(stored, body=stored.body[begin : begin + span.length])

    def keep(self, span: ByteRange | None, stored: StoredObject) -> None:
        cost = self._cost(stored)
        if cost > self.bytes_max or span in self._spans.get(stored.key, ()):
            return
        self._items[stored.key, span] = stored
        self._spans.setdefault(stored.key, set()).add(span)
        self._sizes[stored.key] = self._sizes.get(stored.key, 0) + len(stored.body)
        self.bytes_held += cost
        while self.bytes_held > self.bytes_max:
            oldest = next(iter(self._items))
            self._drop(*oldest)

    def held_of(self, key: str) -> int:
        return self._sizes.get(key, 0)

    def forget(self, key: str) -> None:
        for span in list(self._spans.get(key, ())):
            self._drop(key, span)

    def _drop(self, key: str, span: ByteRange | None) -> None:
        dropped = self._items.pop((key, span))
        self.bytes_held -= self._cost(dropped)
        self._sizes[key] -= len(dropped.body)
        self._spans[key].discard(span)
        if not self._spans[key]:
            del self._spans[key], self._sizes[key]

    @staticmethod
    def _cost(stored: StoredObject) -> int:
        return ENTRY_BYTES + len(stored.key) + len(stored.body)


def _covers(wide: ByteRange | None, span: ByteRange | None) -> bool:
    """Whether `span` can be cut out of `wide`; None is the whole object."""
    if wide is None or span is None:
        return wide is None
    return wide.start <= span.start and span.stop <= wide.stop


class CachedStore(WrappedStore):
    """Serves `get` and ranges of immutable keys from memory and disk. Safe under threads and processes."""

    def __init__(
        self,
        inner: Store,
        *,
        immutable: Callable[[str], bool],
        bytes_max: int,
        folder: str | os.PathLike[str] | None = None,
        folder_bytes_max: int | None = None,
    ) -> None:
        """Hold at most `bytes_max` in memory, and about `folder_bytes_max` (default: as much) in `folder`.

        Several stores and processes may share a folder. Raises PermissionDeniedError or
        UnavailableError if the folder cannot be made.
        """
        super().__init__(inner)
        self._immutable = immutable
        self._memory = _Memory(bytes_max)
        self._lock = threading.Lock()
        self._changes = 0
        self._hits = 0
        self._misses = 0
        self._disk: DiskCache | None = None
        if folder is not None:
            from wormdb.storage.cache_disk import DiskCache

            self._disk = DiskCache(folder, inner.name, bytes_max if folder_bytes_max is None else folder_bytes_max)

    def stats(self) -> CacheStats:
        """Counts since the start; a range is counted by itself."""
        with self._lock:
            return CacheStats(self._hits, self._misses, self._memory.bytes_held)

    @property
    def bytes_held(self) -> int:
        """As `KeepingStore`."""
        return self._memory.bytes_held

    def held_of(self, key: str) -> int:
        """As `KeepingStore`."""
        with self._lock:
            return self._memory.held_of(key)

    def get(self, key: str) -> StoredObject:
        """The whole object; `time` is None if it is from the cache. 0 or 1 GET."""
        self._lifetime.check()
        check_key(key)
        if not self._immutable(key):
            return self._inner.get(key)
        held = self._find(key, None)
        if held is not None:
            return held
        changes = self._changes
        found = self._inner.get(key)
        self._fill(changes, None, found)
        return found

    def get_range(self, key: str, span: ByteRange) -> bytes:
        """The bytes of `span` that exist. 0 or 1 GET."""
        return self.get_ranges(key, [span])[0]

    def get_ranges(self, key: str, spans: Sequence[ByteRange]) -> tuple[bytes, ...]:
        """Several ranges; only what is not held is asked for."""
        self._lifetime.check()
        check_key(key)
        if not self._immutable(key):
            return self._inner.get_ranges(key, spans)
        held = {span: found.body for span in set(spans) if (found := self._find(key, span)) is not None}
        missing = [span for span in dict.fromkeys(spans) if span not in held]
        if missing:
            changes = self._changes
            for span, body in zip(missing, self._inner.get_ranges(key, missing), strict=True):
                held[span] = body
                self._fill(changes, span, StoredObject(key, body, _NO_VERSION))
        return tuple(held[span] for span in spans)

    def probe(self, key: str) -> Probe:
        """The object or None, from the store, because its time is wanted; what is found is kept. 1 GET."""
        changes = self._changes
        probe = self._inner.probe(key)
        if probe.found is not None and self._immutable(key):
            self._fill(changes, None, probe.found)
        return probe

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        """Write, and forget what was held, whatever the outcome. 1 PUT."""
        self._lifetime.check()
        check_key(key)
        try:
            return self._inner.put(key, body, precondition, content_type=content_type)
        finally:
            self._forget((key,))

    def upload(self, key: str, source: UploadSource, *, content_type: str = OCTETS) -> None:
        """Write, and forget what was held, whatever the outcome."""
        self._lifetime.check()
        check_key(key)
        try:
            self._inner.upload(key, source, content_type=content_type)
        finally:
            self._forget((key,))

    def delete(self, key: str) -> None:
        """Remove the object, and forget what was held. 1 DELETE."""
        self._lifetime.check()
        check_key(key)
        try:
            self._inner.delete(key)
        finally:
            self._forget((key,))

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove many objects, and forget what was held of them."""
        self._lifetime.check()
        for key in keys:
            check_key(key)
        try:
            self._inner.delete_many(keys)
        finally:
            self._forget(keys)

    def _find(self, key: str, span: ByteRange | None) -> StoredObject | None:
        with self._lock:
            held = self._memory.find(key, span)
            changes = self._changes
        if held is None and self._disk is not None:
            held = self._disk.find(key, span)
            if held is not None:
                self._keep(changes, span, held)
        with self._lock:
            self._hits += held is not None
            self._misses += held is None
        return held

    def _fill(self, changes: int, span: ByteRange | None, stored: StoredObject) -> None:
        """Keep what was read, unless something was written or deleted since the `changes` noted before."""
        # A time belongs to the answer it came with, not to a later one from the cache.
        timeless = replace(stored, time=None)
        if self._keep(changes, span, timeless) and self._disk is not None:
            self._disk.keep(span, timeless)
            if self._changes != changes:
                self._disk.forget(stored.key)  # written behind the back of a forget

    def _keep(self, changes: int, span: ByteRange | None, stored: StoredObject) -> bool:
        with self._lock:
            if self._changes != changes:
                return False
            self._memory.keep(span, stored)
            return True

    def _forget(self, keys: Sequence[str]) -> None:
        with self._lock:
            self._changes += 1
            for key in keys:
                self._memory.forget(key)
        if self._disk is not None:
            for key in keys:
                if self._immutable(key):
                    self._disk.forget(key)
