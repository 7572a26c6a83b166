"""The store contract: bytes by key, and a precondition inside every write.

A store is dumb. It knows nothing of documents, and every verb either does what it says
or raises one typed error:

=====================  ==============================================================
NotFoundError          the object is not there (get, get_range, get_ranges, head)
AlreadyExistsError     put with IfAbsent: an object is there
ConflictError          put with IfMatch: another version, or no object, is there
PermissionDeniedError  credentials or rights
UnavailableError       the store refused or could not be reached; nothing was done
OutcomeUnknownError    put: no answer came, so it may have happened or may happen later
CorruptionError        an object is longer than any of its kind (get, get_many, probe)
LimitExceededError     put: it would be; nothing was sent
InvalidRequestError    a key or a range that no store can serve; nothing was sent
ClosedError            the store was closed, or was opened before a fork
=====================  ==============================================================

Nothing is missing because something between us and the store says so: only what the store itself
says counts. How many bytes an object may have is known by its key before it is read (`Bound`).

No verb of a bare store retries. Wrappers (`WrappedStore`: `retry`, `readback`, `meter`, `cache`) have the
same verbs, and `wormdb.testing.store_contract` is the suite that all of them pass.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, Self, runtime_checkable

from wormdb.errors import ClosedError, CorruptionError, InvalidRequestError, LimitExceededError, NotFoundError
from wormdb.settings import KEY_BYTES_MAX, OBJECT_BYTES_MAX, RANGE_GAP_BYTES_MAX, SEGMENT_BYTES_MAX

if TYPE_CHECKING:
    from types import TracebackType

    from wormdb.storage.pool import Pool
    from wormdb.system.types import StoreTime, Version

__all__ = [
    "OCTETS",
    "Always",
    "Bound",
    "BoundedStore",
    "ByteRange",
    "CloudLifetime",
    "IfAbsent",
    "IfMatch",
    "KeepingStore",
    "Lifetime",
    "ListPage",
    "ObjectInfo",
    "Precondition",
    "Probe",
    "PutResult",
    "Store",
    "StoredObject",
    "UploadSource",
    "WrappedStore",
    "any_object",
    "check_key",
    "check_prefix",
    "check_write",
    "coalesce",
    "oversized",
]

OCTETS = "application/octet-stream"

# Nearly every key the engine makes; the rest are judged byte by byte.
_PLAIN_KEY = re.compile(r"\.?[\w\-][\w\-.]{0,200}(?:/\.?[\w\-][\w\-.]{0,200})*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Always:
    """Write, whatever is there."""


@dataclass(frozen=True, slots=True)
class IfAbsent:
    """Write only if no object is there."""


@dataclass(frozen=True, slots=True)
class IfMatch:
    """Write only if exactly this version is there."""

    version: Version


Precondition = Always | IfAbsent | IfMatch


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes `start` up to but not including `start + length`; negative ones raise InvalidRequestError."""

    start: int
    length: int

    def __post_init__(self) -> None:
        if self.start < 0 or self.length < 0:
            raise InvalidRequestError(
                f"byte range start {self.start}, length {self.length}", reason="neither may be negative"
            )

    @property
    def stop(self) -> int:
        """The first byte after the range."""
        return self.start + self.length


@dataclass(frozen=True, slots=True)
class StoredObject:
    """A whole object as it was read. `time` is the store's own, where the answer showed it."""

    key: str
    body: bytes
    version: Version
    time: StoreTime | None = None


@dataclass(frozen=True, slots=True)
class Probe:
    """Whether an object was there, and the store's time of that answer where it has one."""

    found: StoredObject | None
    time: StoreTime | None


@dataclass(frozen=True, slots=True)
class PutResult:
    """A write that certainly happened: the version it made, and the store's time."""

    version: Version
    time: StoreTime | None


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object without its bytes. `modified` is the store's time of the last write.

    A listing of some stores has no usable version; then it is None, and `head` has it.
    """

    key: str
    size: int
    modified: StoreTime
    version: Version | None


@dataclass(frozen=True, slots=True)
class ListPage:
    """One answer of a listing: objects and, with a delimiter, the folders beside them.

    Both are sorted by key bytes, also across the pages of one listing.
    """

    objects: tuple[ObjectInfo, ...]
    prefixes: tuple[str, ...] = ()


class UploadSource(Protocol):
    """The bytes of an object too large for memory; a call that is repeated asks for them again."""

    @property
    def size(self) -> int:
        """How many bytes there are."""
        ...

    def parts(self) -> Iterator[bytes]:
        """All of them in order, from the beginning, each part but the last of one and the same length."""
        ...


class Store(ABC):
    """Bytes by key. See the module's text for the errors that every verb may raise."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The store's URL without secrets, for messages and cache keys."""

    @property
    def is_served(self) -> bool:
        """Whether a server answers: by a clock that is not this machine's, and after a while."""
        return True

    @abstractmethod
    def get(self, key: str) -> StoredObject:
        """The whole object. 1 GET."""

    @abstractmethod
    def get_range(self, key: str, span: ByteRange) -> bytes:
        """The bytes of `span` that exist: fewer at the end, none beyond it. 1 GET."""

    @abstractmethod
    def get_ranges(self, key: str, spans: Sequence[ByteRange]) -> tuple[bytes, ...]:
        """Several ranges, in the order asked. 1 GET for each span of `coalesce(spans)`."""

    @abstractmethod
    def probe(self, key: str) -> Probe:
        """The object or None, with the store's time of the answer in both cases. 1 GET."""

    @abstractmethod
    def head(self, key: str) -> ObjectInfo:
        """Size, time and version of an object. 1 HEAD, and 1 GET where a cloud's answer does not show what it means."""

    @abstractmethod
    def list(
        self, prefix: str = "", *, after: str | None = None, delimiter: Literal["/"] | None = None
    ) -> Iterator[ListPage]:
        """Objects under a folder (`prefix` is empty or ends with /), in order of key bytes.

        `after` skips names up to and including it, whether or not it exists. With a
        delimiter only this level is listed, and folders come as `prefixes`: they are
        names ending with /, and `after` compares with them like with keys. So a listing
        that broke off goes on after the last name seen.
        1 LIST a page of up to 1,000, and in clouds 1 GET if nothing is listed; pages are not one snapshot. Errors may
        come when the pages are taken, not when `list` is called.
        """

    @abstractmethod
    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        """Write a whole object, atomically, if the precondition holds (default `Always`). 1 PUT."""

    def upload(self, key: str, source: UploadSource, *, content_type: str = OCTETS) -> None:
        """Write a whole object as `put` with `Always` does: all of it is there or nothing.

        A store of its own writes a part at a time, with a few parts in memory; this one joins them. 1 PUT, or 1 for
        each part and 2 more. An upload that breaks off may leave parts behind that a rule of the bucket must remove.
        """
        self.put(key, b"".join(source.parts()), content_type=content_type)

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove the object; not an error if it is not there. 1 DELETE."""

    @abstractmethod
    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove many objects. 1 DELETE for each 1,000 where the store can, else one each."""

    @abstractmethod
    def close(self) -> None:
        """Give back connections; every later verb raises ClosedError. May be called twice."""

    def get_many(self, keys: Sequence[str], pool: Pool) -> tuple[StoredObject | None, ...]:
        """Whole objects side by side, None where one is missing. 1 GET each."""

        def get_or_none(key: str) -> StoredObject | None:
            try:
                return self.get(key)
            except NotFoundError as error:
                if error.key != key:
                    raise  # the bucket is missing, not this object
                return None

        return tuple(pool.map(get_or_none, keys))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check_key(key: str) -> str:
    """Return `key` if every store can hold it, else raise InvalidRequestError. No requests.

    Keys are segments joined by /; no segment is empty, `.` or `..`, none has a control
    character or a backslash, and the lengths stay within `KEY_BYTES_MAX` and
    `SEGMENT_BYTES_MAX`. So a key means the same in a bucket and in a folder. One thing
    no key shows by itself: `a` and `a/b` cannot both be objects in a folder, so do not
    rely on it anywhere.
    """
    if len(key) <= KEY_BYTES_MAX and _PLAIN_KEY.fullmatch(key):
        return key
    if not key:
        raise InvalidRequestError(f"object key {key!r}", reason="it is empty")
    try:
        encoded = key.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequestError(f"object key {key!r}", reason="it is not valid Unicode") from error
    if len(encoded) > KEY_BYTES_MAX:
        raise LimitExceededError(
            f"object key {key[:60]!r}…", reason=f"{len(encoded)} bytes are over the limit of {KEY_BYTES_MAX}"
        )
    if any(byte < 0x20 or byte in (0x5C, 0x7F) for byte in encoded):
        raise InvalidRequestError(
            f"object key {key!r}",
            reason="it holds a control character or a backslash",
            fix="encode ids with wormdb.format.segment",
        )
    for segment in encoded.split(b"/"):
        if segment in (b"", b".", b".."):
            raise InvalidRequestError(
                f"object key {key!r}",
                reason=f"the segment {segment.decode()!r} is not allowed",
                fix="encode ids with wormdb.format.segment",
            )
        if len(segment) > SEGMENT_BYTES_MAX:
            raise LimitExceededError(
                f"object key {key[:60]!r}…",
                reason=f"a segment of {len(segment)} bytes is over the limit of {SEGMENT_BYTES_MAX}",
            )
    return key


def check_prefix(prefix: str) -> str:
    """Return `prefix` if it is empty or a folder (ends with /), else raise InvalidRequestError."""
    if not prefix:
        return prefix
    if not prefix.endswith("/"):
        raise InvalidRequestError(
            f"list prefix {prefix!r}", reason="a prefix is empty or ends with /", fix=f"use {prefix + '/'!r}"
        )
    check_key(prefix[:-1])
    return prefix


@runtime_checkable
class KeepingStore(Protocol):
    """A store that keeps what it was asked for."""

    @property
    def bytes_held(self) -> int:
        """In memory, of all objects."""
        ...

    def held_of(self, key: str) -> int:
        """Bytes of an object that are in memory, about: where ranges overlap they count twice. No requests."""
        ...


def coalesce(spans: Sequence[ByteRange], gap: int = RANGE_GAP_BYTES_MAX) -> list[ByteRange]:
    """The ranges to request for `spans`: sorted, those at most `gap` bytes apart joined."""
    joined: list[ByteRange] = []
    for span in sorted((span for span in spans if span.length > 0), key=lambda span: span.start):
        if joined and span.start - joined[-1].stop <= gap:
            last = joined.pop()
            joined.append(ByteRange(last.start, max(last.stop, span.stop) - last.start))
        else:
            joined.append(span)
    return joined


# --- Whether a store may still be used: not after close, and not in a forked child.

_REMEDY = "open it again in the child, or start processes with the spawn method"
_CLOUD_REMEDY = (
    "connect in the child (gunicorn: post_fork), start processes with spawn, or use no cloud store before the fork"
)
_REMEDIES = {
    "memory:": "use a folder or a bucket: a memory is one process's own, and start processes with the spawn method",
    **dict.fromkeys(("s3://", "gs://", "az://"), _CLOUD_REMEDY),
}

_runtime_process: int | None = None
"""The process in which a cloud client was first used."""


class Lifetime:
    """Begins when a store is opened; every verb calls `check` first, before it takes any lock.

    A forked child has the parent's locks and sockets but not its threads, so a verb could
    wait for ever on a lock that is never released. The process id tells, at no cost.
    """

    def __init__(self, name: str) -> None:
        """`name` is the store's name."""
        self._name = name
        self._process = os.getpid()
        self._closed = False

    def check(self) -> None:
        """Return if the store is open in this process, else raise ClosedError. No requests."""
        if self._closed:
            raise ClosedError(f"store {self._name}", reason="it was closed")
        if os.getpid() != self._process:
            raise ClosedError(
                f"store {self._name}",
                reason="it was opened before a fork, and its threads and connections did not follow",
                fix=next((fix for begin, fix in _REMEDIES.items() if self._name.startswith(begin)), _REMEDY),
            )

    @property
    def is_forked(self) -> bool:
        """Whether it was open in the process of which this one is a forked child."""
        return not self._closed and os.getpid() != self._process

    @property
    def is_open(self) -> bool:
        """Whether `check` would return."""
        return not self._closed and os.getpid() == self._process

    def close(self) -> bool:
        """End it; True the first time in the process that opened it: then connections are to be given back."""
        first = self.is_open
        self._closed = True
        return first


class CloudLifetime(Lifetime):
    """Of a store whose client library keeps threads for the whole process.

    They are started by the first request and do not follow into a forked child, where a new client would use them
    all the same: it hangs, and the events that it asks the kernel for reach the parent and can crash it. Requests
    that are signed here do without the library.
    """

    @property
    def has_library(self) -> bool:
        """Whether the client library can be used in this process."""
        return _runtime_process is None or _runtime_process == self._process

    def check_library(self) -> None:
        """Before each use of the library: raise ClosedError if it was used before the fork that made this process."""
        global _runtime_process  # noqa: PLW0603 - the library's threads are the process's too
        if not self.has_library:
            raise ClosedError(
                f"store {self._name}",
                reason="a cloud store was used before the fork, and the client library's threads did not follow",
                fix=_CLOUD_REMEDY,
            )
        _runtime_process = self._process


class WrappedStore(Store):
    """Hands every verb to `inner`. `get_many` goes through the wrapper's own `get`."""

    def __init__(self, inner: Store) -> None:
        """Closing the wrapper closes `inner`."""
        self._inner = inner
        self._is_served = inner.is_served
        self._lifetime = Lifetime(inner.name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inner!r})"

    @property
    def inner(self) -> Store:
        """The store inside."""
        return self._inner

    @property
    def name(self) -> str:
        """The name of the store inside: a wrapper is not a place of its own."""
        return self._inner.name

    @property
    def is_served(self) -> bool:
        """As the store inside."""
        return self._is_served

    def get(self, key: str) -> StoredObject:
        """As the store inside."""
        return self._inner.get(key)

    def get_range(self, key: str, span: ByteRange) -> bytes:
        """As the store inside."""
        return self._inner.get_range(key, span)

    def get_ranges(self, key: str, spans: Sequence[ByteRange]) -> tuple[bytes, ...]:
        """As the store inside."""
        return self._inner.get_ranges(key, spans)

    def probe(self, key: str) -> Probe:
        """As the store inside."""
        return self._inner.probe(key)

    def head(self, key: str) -> ObjectInfo:
        """As the store inside."""
        return self._inner.head(key)

    def list(
        self, prefix: str = "", *, after: str | None = None, delimiter: Literal["/"] | None = None
    ) -> Iterator[ListPage]:
        """As the store inside."""
        return self._inner.list(prefix, after=after, delimiter=delimiter)

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        """As the store inside."""
        return self._inner.put(key, body, precondition, content_type=content_type)

    def upload(self, key: str, source: UploadSource, *, content_type: str = OCTETS) -> None:
        """As the store inside."""
        self._inner.upload(key, source, content_type=content_type)

    def delete(self, key: str) -> None:
        """As the store inside."""
        self._inner.delete(key)

    def delete_many(self, keys: Sequence[str]) -> None:
        """As the store inside."""
        self._inner.delete_many(keys)

    def close(self) -> None:
        """End the wrapper and the store inside."""
        self._lifetime.close()
        self._inner.close()


# --- How many bytes an object may have: known by its key before it is read, so that nothing fills the memory.


Bound = Callable[[str], int]
"""The most bytes that an object of this key has."""


def any_object(key: str) -> int:  # noqa: ARG001 - a rule takes a key
    """The rule of a store that knows nothing of what it holds. No requests."""
    return OBJECT_BYTES_MAX


def oversized(key: str, size: int, bytes_max: int) -> CorruptionError:
    """The error for an object that is too long to be what its key says. No requests."""
    return CorruptionError(
        f"object {key}",
        reason=f"it has {size} bytes, and an object of its kind has at most {bytes_max}",
        fix="look what wrote it; restore it, or rebuild it",
        key=key,
    )


def check_write(key: str, size: int, bytes_max: int) -> None:
    """Raise LimitExceededError for an object that no reader would take. No requests."""
    if size > bytes_max:
        raise LimitExceededError(
            f"object {key}", reason=f"{size} bytes are over the limit of {bytes_max} for its kind", key=key
        )


class BoundedStore(WrappedStore):
    """Holds a store that was opened without a rule to one. An object over its bound is refused after it was read."""

    def __init__(self, inner: Store, bound: Bound) -> None:
        """Closing it closes `inner`."""
        super().__init__(inner)
        self._bound = bound

    def get(self, key: str) -> StoredObject:
        """The whole object. 1 GET; raises CorruptionError for one over its bound."""
        return self._checked(self._inner.get(key))

    def probe(self, key: str) -> Probe:
        """The object or None. 1 GET; raises CorruptionError for one over its bound."""
        probe = self._inner.probe(key)
        if probe.found is not None:
            self._checked(probe.found)
        return probe

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        """Write if the precondition holds. 1 PUT; raises LimitExceededError for a body over its bound, unsent."""
        check_write(key, len(body), self._bound(key))
        return self._inner.put(key, body, precondition, content_type=content_type)

    def _checked(self, found: StoredObject) -> StoredObject:
        if len(found.body) > self._bound(found.key):
            raise oversized(found.key, len(found.body), self._bound(found.key))
        return found
