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
says counts. How many bytes an object may have is known by its key before it is read (`bounds`).

No verb of a bare store retries. Wrappers (`retry`, `readback`, `meter`, `cache`) have the
same verbs, and `wormdb.testing.store_contract` is the suite that all of them pass.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from wormdb.errors import InvalidRequestError, LimitExceededError, NotFoundError
from wormdb.settings import KEY_BYTES_MAX, RANGE_GAP_BYTES_MAX, SEGMENT_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from wormdb.storage.pool import Pool
    from wormdb.system.types import StoreTime, Version

__all__ = [
    "OCTETS",
    "Always",
    "ByteRange",
    "IfAbsent",
    "IfMatch",
    "KeepingStore",
    "ListPage",
    "ObjectInfo",
    "Precondition",
    "Probe",
    "PutResult",
    "Store",
    "StoredObject",
    "UploadSource",
    "check_key",
    "check_prefix",
    "coalesce",
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
