"""A store in this process's memory: for tests, examples and data that may be lost."""

from __future__ import annotations

import itertools
import os
import threading
from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, assert_never

from wormdb.errors import AlreadyExistsError, ConflictError, NotFoundError
from wormdb.settings import LIST_PAGE_KEYS
from wormdb.storage.store import (
    OCTETS,
    Always,
    Bound,
    ByteRange,
    IfAbsent,
    IfMatch,
    Lifetime,
    ListPage,
    ObjectInfo,
    Precondition,
    Probe,
    PutResult,
    Store,
    StoredObject,
    any_object,
    check_key,
    check_prefix,
    check_write,
    oversized,
)
from wormdb.system.clock import Clock, SystemClock
from wormdb.system.types import StoreTime, Version

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


__all__ = ["MemoryStore", "drop_memory"]

# One count for all stores, so that a version does not come back after a drop either.
_versions = itertools.count(1)


@dataclass(frozen=True, slots=True)
class _Entry:
    body: bytes
    version: Version
    modified: StoreTime


class _Shelf:
    """The data behind all handles of one name. Its methods need `lock` held."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.entries: dict[str, _Entry] = {}
        self.keys: list[str] = []  # sorted; code points sort as their UTF-8 bytes do

    def write(self, key: str, entry: _Entry) -> None:
        if key not in self.entries:
            insort(self.keys, key)
        self.entries[key] = entry

    def remove(self, key: str) -> None:
        if self.entries.pop(key, None) is not None:
            del self.keys[bisect_left(self.keys, key)]

    def page(self, prefix: str, after: str, delimiter: str | None) -> tuple[ListPage, str | None]:
        """One page of names above `after`, and the name to go on after, None at the end."""
        objects: list[ObjectInfo] = []
        prefixes: list[str] = []
        last = after
        position = max(bisect_left(self.keys, prefix), bisect_right(self.keys, after))
        while position < len(self.keys) and self.keys[position].startswith(prefix):
            if len(objects) + len(prefixes) == LIST_PAGE_KEYS:
                return ListPage(tuple(objects), tuple(prefixes)), last
            key = self.keys[position]
            slash = key.find("/", len(prefix)) if delimiter else -1
            if slash < 0:
                entry = self.entries[key]
                objects.append(ObjectInfo(key, len(entry.body), entry.modified, entry.version))
                last, position = key, position + 1
                continue
            last = key[: slash + 1]
            if last > after:
                prefixes.append(last)
            # "0" follows "/": the first key that is not in this folder.
            position = bisect_left(self.keys, key[:slash] + "0", position)
        return ListPage(tuple(objects), tuple(prefixes)), None


_shelves: dict[str, _Shelf] = {}
_shelves_lock = threading.Lock()


def _forget_in_child() -> None:
    # A child gets copies, perhaps with a lock held for ever; memory is one process's own.
    global _shelves_lock  # noqa: PLW0603 - the lock itself may be held by a thread that is gone
    _shelves_lock = threading.Lock()
    _shelves.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


def drop_memory(name: str) -> None:
    """Forget the data of `memory://name`; open handles keep what they see, new ones begin empty."""
    with _shelves_lock:
        _shelves.pop(name, None)


class MemoryStore(Store):
    """Objects in memory. Handles of one name share their data within this process."""

    def __init__(self, name: str | None = None, *, clock: Clock | None = None, bound: Bound = any_object) -> None:
        """Open `memory://name`, or with no name data of its own. Times come from `clock`.

        `bound` says how many bytes an object has at most.
        """
        self._bound = bound
        self._name = f"memory://{name or ''}"
        self._clock = clock or SystemClock()
        self._lifetime = Lifetime(self._name)
        if name is None:
            self._shelf = _Shelf()
            return
        with _shelves_lock:
            self._shelf = _shelves.setdefault(name, _Shelf())

    def __repr__(self) -> str:
        return f"MemoryStore({self._name!r})"

    @property
    def name(self) -> str:
        """`memory://` and the name."""
        return self._name

    def get(self, key: str) -> StoredObject:
        """The whole object; raises NotFoundError, CorruptionError if it is longer than its bound."""
        entry = self._entry(key)
        if len(entry.body) > self._bound(key):
            raise oversized(key, len(entry.body), self._bound(key))
        return StoredObject(key, entry.body, entry.version, self._time())

    def get_range(self, key: str, span: ByteRange) -> bytes:
        """The bytes of `span` that exist; raises NotFoundError."""
        return self._entry(key).body[span.start : span.stop]

    def get_ranges(self, key: str, spans: Sequence[ByteRange]) -> tuple[bytes, ...]:
        """Several ranges of one state of the object; raises NotFoundError."""
        body = self._entry(key).body
        return tuple(body[span.start : span.stop] for span in spans)

    def probe(self, key: str) -> Probe:
        """The object or None, with the clock's time."""
        self._lifetime.check()
        check_key(key)
        if key not in self._shelf.entries:  # most probes find nothing: they cost no error
            return Probe(None, self._time())
        try:
            found = self.get(key)
        except NotFoundError:
            return Probe(None, self._time())
        return Probe(found, found.time)

    def head(self, key: str) -> ObjectInfo:
        """Size, time and version; raises NotFoundError."""
        entry = self._entry(key)
        return ObjectInfo(key, len(entry.body), entry.modified, entry.version)

    def list(
        self, prefix: str = "", *, after: str | None = None, delimiter: Literal["/"] | None = None
    ) -> Iterator[ListPage]:
        """Objects under a folder, in order of key bytes, 1,000 a page."""
        check_prefix(prefix)
        position: str | None = after or ""
        while position is not None:
            self._lifetime.check()
            with self._shelf.lock:
                page, position = self._shelf.page(prefix, position, delimiter)
            yield page

    def put(
        self,
        key: str,
        body: bytes,
        precondition: Precondition | None = None,
        *,
        content_type: str = OCTETS,  # noqa: ARG002 - a memory has no use for it
    ) -> PutResult:
        """Write if the precondition holds; raises AlreadyExistsError, ConflictError, LimitExceededError."""
        self._lifetime.check()
        check_key(key)
        check_write(key, len(body), self._bound(key))
        with self._shelf.lock:
            self._judge(key, self._shelf.entries.get(key), precondition or Always())
            time = self._time()
            entry = _Entry(bytes(body), Version(str(next(_versions))), time)
            self._shelf.write(key, entry)
        return PutResult(entry.version, time)

    def delete(self, key: str) -> None:
        """Remove the object if it is there."""
        self.delete_many((key,))

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove the objects that are there."""
        self._lifetime.check()
        for key in keys:
            check_key(key)
        with self._shelf.lock:
            for key in keys:
                self._shelf.remove(key)

    def close(self) -> None:
        """End this handle; the data of a named store stays."""
        self._lifetime.close()

    def _entry(self, key: str) -> _Entry:
        self._lifetime.check()
        check_key(key)
        entry = self._shelf.entries.get(key)
        if entry is None:
            raise NotFoundError(f"object {key}", reason=f"it is not in {self._name}", key=key)
        return entry

    def _time(self) -> StoreTime:
        return StoreTime(self._clock.now_ms())

    @staticmethod
    def _judge(key: str, entry: _Entry | None, precondition: Precondition) -> None:
        match precondition:
            case Always():
                pass
            case IfAbsent():
                if entry is not None:
                    raise AlreadyExistsError(f"object {key}", reason="it is there already", key=key)
            case IfMatch(version):
                if entry is None:
                    raise ConflictError(f"object {key}", reason="it is not there any more", key=key)
                if entry.version != version:
                    raise ConflictError(f"object {key}", reason="another version is there", key=key)
            case _:
                assert_never(precondition)
