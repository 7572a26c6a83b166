"""Large bodies beside documents: written as streams, referred to by documents, read in parts."""

from __future__ import annotations

import io
from dataclasses import dataclass
from hashlib import sha256
from typing import IO, TYPE_CHECKING, Any, Final, Self

from wormdb.engine.commit.blobs import missing_blob
from wormdb.engine.commit.define import IndexGuard
from wormdb.engine.commit.operations import Guards, Pending
from wormdb.engine.tree.definition import OWNERS, encode_index
from wormdb.errors import ConflictError, CorruptionError, InvalidRequestError, LimitExceededError, NotFoundError
from wormdb.format.blob import BlobKey, BlobReference, is_content_type, reference_of
from wormdb.format.event import IndexCreated
from wormdb.settings import BLOB_BYTES_MAX, BLOB_READ_BYTES, BLOB_TYPE_CHARS_MAX, UPLOAD_PART_BYTES
from wormdb.storage.store import OCTETS, ByteRange, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    from wormdb.api.access import Access

__all__ = ["BlobReader", "BlobSpool", "BlobTarget", "CollectionBlobs", "StoredBlob"]


# --- The two streams of a blob: one that is written and stored by its end, and one that is read in parts.


class BlobTarget:
    """A binary stream to write a blob to. `close`, or the end of a `with` block, stores it; `reference` is then there.

    What is written is kept in memory up to 8 MiB, and in a temporary file beyond it; nothing is sent before `close`,
    because the digest of the bytes names the blob. If the block ends by an error, nothing is stored.
    """

    def __init__(
        self, store: Callable[[str, BlobSpool, str], BlobKey], content_type: str, name: str | None, bytes_max: int
    ) -> None:
        """Made by `Collection.create_blob_target`."""
        from tempfile import SpooledTemporaryFile

        self._store = store
        self._content_type = content_type
        self._name = name
        self._bytes_max = bytes_max
        self._digest = sha256()
        self._size = 0
        self._file: IO[bytes] | None = SpooledTemporaryFile(max_size=UPLOAD_PART_BYTES)  # noqa: SIM115 - `close` ends it
        self._reference: BlobReference | None = None

    @property
    def reference(self) -> BlobReference:
        """The reference to put into documents; raises InvalidRequestError before `close`. No requests."""
        if self._reference is None:
            raise InvalidRequestError(
                "reference of a blob", reason="it is not stored yet", fix="close the target first"
            )
        return self._reference

    @property
    def closed(self) -> bool:
        """Whether nothing more can be written."""
        return self._file is None

    def writable(self) -> bool:
        """As every stream that takes bytes."""
        return not self.closed

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Add bytes; returns how many. No requests. Raises InvalidRequestError, LimitExceededError."""
        file = self._open("write to a blob")
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InvalidRequestError(
                f"{type(data).__name__} for a blob", reason="a blob is bytes", fix="encode text before writing it"
            )
        size = memoryview(data).nbytes
        if self._size + size > self._bytes_max:
            raise LimitExceededError(
                "a blob is too large",
                reason=f"BLOB_BYTES_MAX is {self._bytes_max}",
                fix="store it in several blobs",
            )
        self._digest.update(data)
        file.write(data)
        self._size += size
        return size

    def flush(self) -> None:
        """Nothing to do: all is sent by `close`."""

    def close(self) -> None:
        """Store what was written; a second call does nothing.

        1 GET and 1 HEAD; unless the collection has the content, 1 PUT up to 8 MiB and else 1 for each 8 MiB and 2 more.
        The first blob of a collection is 1 GET and 1 PUT more, for the entry that makes it keep owners. Raises
        UnavailableError, OutcomeUnknownError; then it may be called again.
        """
        if self._file is None:
            return
        key = self._store(self._digest.hexdigest(), BlobSpool(self._file, self._size), self._content_type)
        self._reference = BlobReference(key, self._size, self._content_type, self._name)
        self.abort()

    def abort(self) -> None:
        """Forget what was written. No requests."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.close()
        finally:
            self.abort()

    def _open(self, doing: str) -> IO[bytes]:
        if self._file is None:
            raise InvalidRequestError(doing, reason="it is closed", fix="make another target")
        return self._file


@dataclass(frozen=True, slots=True)
class BlobSpool:
    """What was written to a target, from the beginning as often as it is asked for."""

    file: IO[bytes]
    size: int

    def parts(self) -> Iterator[bytes]:
        """All of it, in pieces of a part. No requests."""
        self.file.seek(0)
        while part := self.file.read(UPLOAD_PART_BYTES):
            yield part


class BlobReader(io.RawIOBase):
    """A binary stream that reads a blob: seekable, with up to 4 MiB of it in memory.

    Read from the beginning to the end, in order, its bytes are checked against the digest: a CorruptionError comes
    with the last of them.
    """

    def __init__(self, store: Store, path: str, reference: BlobReference, *, read_bytes: int = BLOB_READ_BYTES) -> None:
        """Made by `Collection.open_blob`."""
        super().__init__()
        self._store = store
        self._path = path
        self.reference = reference
        """What was opened, with the true size."""
        self._read_bytes = read_bytes
        self._position = 0
        self._held = (0, b"")
        self._digest = sha256()
        self._digested: int | None = 0
        """How far the digest is; None if a part was passed over."""

    @property
    def content_type(self) -> str:
        """What its writer said it is."""
        return self.reference.content_type

    @property
    def size(self) -> int:
        """In bytes."""
        return self.reference.size

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Where the next read begins. No requests."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go elsewhere. No requests; raises InvalidRequestError for a place before the beginning."""
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}
        place = starts.get(whence, -1) + offset
        if whence not in starts or place < 0:
            raise InvalidRequestError(f"seek({offset}, {whence}) in a blob", reason="there is no such place")
        self._position = place
        return place

    def readinto(self, buffer: Any) -> int:
        """Read some bytes into a buffer; returns how many, 0 at the end. 1 GET for each 4 MiB.

        Raises NotFoundError if it was removed meanwhile, CorruptionError, UnavailableError.
        """
        room = memoryview(buffer).cast("B")
        start, held = self._held
        if not start <= self._position < start + len(held):
            start, held = self._held = self._position, self._fetch(max(len(room), 1))
        offset = self._position - start
        some = held[offset : offset + len(room)]
        room[: len(some)] = some
        self._check(some)
        self._position += len(some)
        return len(some)

    def _fetch(self, wanted: int) -> bytes:
        left = max(self.size - self._position, 0)
        if not left:
            return b""
        # A reader that goes through it gets a large part at once; one that jumps gets what it asks for.
        length = self._read_bytes if self._digested == self._position else min(max(wanted, 64 * 1024), self._read_bytes)
        length = min(length, left)
        try:
            found = self._store.get_range(self._path, ByteRange(self._position, length))
        except NotFoundError as error:
            raise missing_blob(self.reference.key, self._path.partition(".worm.db/")[0], "it was removed") from error
        if len(found) < length:
            raise CorruptionError(
                f"blob {self.reference.key}", reason=f"it ends {length - len(found)} bytes too early", key=self._path
            )
        return found

    def _check(self, some: bytes) -> None:
        if self._digested is None or not some:
            return
        if self._digested != self._position:
            self._digested = None if self._position > self._digested else self._digested
            return
        self._digest.update(some)
        self._digested += len(some)
        if self._digested == self.size and self._digest.hexdigest() != self.reference.sha256:
            raise CorruptionError(
                f"blob {self.reference.key}",
                reason="its bytes have another SHA-256",
                fix="write the content again: it is stored under the same name",
                key=self._path,
            )


_COPY_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """One blob as it is stored."""

    key: str
    """As references have it: `sha256:…`."""
    size: int
    modified_ms: int
    """When it was written, by the store's clock."""
    owners: int
    """Documents that refer to it, those in the trash apart."""
    is_condemned: bool
    """Whether it is about to be deleted: no document can refer to it any more."""


@dataclass(frozen=True, slots=True)
class CollectionBlobs:
    """The blobs of one collection; `wormdb.api.blob_methods` says what each call promises."""

    access: Access[Any]

    def target(self, content_type: str | None, name: str | None) -> BlobTarget:
        """A stream to write a blob to. No requests; raises InvalidRequestError, PermissionDeniedError."""
        from mimetypes import guess_type

        self.access.check_mode()
        _check_name(name)
        kind = content_type or (None if name is None else guess_type(name)[0]) or OCTETS
        if not is_content_type(kind):
            raise InvalidRequestError(
                f"content type {kind!r}",
                reason="it must be a media type",
                fix='write type/subtype, such as "image/png"',
            )
        return BlobTarget(self._write, kind, name, BLOB_BYTES_MAX)

    def put(self, data: bytes | IO[bytes], content_type: str | None, name: str | None) -> BlobReference:
        """Store bytes, or all that a binary file still gives. Costs as `BlobTarget.close`."""
        with self.target(content_type, name) as target:
            if isinstance(data, bytes | bytearray | memoryview):
                target.write(data)
            else:
                while some := data.read(_COPY_BYTES):
                    target.write(some)
        return target.reference

    def open(self, reference: BlobReference | Mapping[str, Any] | str) -> BlobReader:
        """A stream of a blob. 1 HEAD; raises NotFoundError, InvalidRequestError, CorruptionError."""
        found = reference_of({"_blob": reference} if isinstance(reference, str) else reference)
        if found is None:
            raise InvalidRequestError(
                "open_blob",
                reason="it must be a reference to a blob",
                fix='give {"_blob": "sha256:…", …} of a document',
            )
        blobs = self.access.log.blobs
        path = blobs.path(found.key)
        try:
            size = blobs.store.head(path).size
        except NotFoundError as error:
            raise missing_blob(found.key, self.access.name) from error
        if found.size not in (size, -1):
            raise CorruptionError(
                f"blob {found.key}", reason=f"it has {size} bytes, and its reference says {found.size}", key=path
            )
        return BlobReader(blobs.store, path, BlobReference(found.key, size, found.content_type, found.name))

    def all(self) -> Iterator[StoredBlob]:
        """Every stored blob, in order of digest. 1 GET, 1 LIST for each 1,000, and 1 GET for each node of owners."""
        view = self.access.present()
        log = self.access.log
        condemned = view.definition.blobs.condemned
        for page in log.blobs.store.list(log.blobs.folder):
            for info in page.objects:
                key = BlobKey.parse(f"sha256:{info.key.removeprefix(log.blobs.folder)}")
                if key is not None:
                    owners = log.blobs.owners(view, key)
                    yield StoredBlob(str(key), info.size, info.modified, owners, key in condemned)

    def _write(self, digest: str, body: BlobSpool, content_type: str) -> BlobKey:
        with self.access.limited("work"):
            _keep_owners(self.access)
            return self.access.ledger.blobs.write(digest, body, content_type)


def _keep_owners(access: Access[Any]) -> None:
    """Have the index of owners, made by an entry before the first blob is written. 1 PUT once, with a new model."""
    access.check_mode()
    known = access.log.known()
    if known.definition.indexes.owners is not None:
        return
    known = access.present()
    events = access.writer.first_events(known)
    created = IndexCreated(name=OWNERS.name, definition=encode_index(OWNERS))
    guard = Guards((access.writer.guard((), events), IndexGuard(created)))
    if events:
        access.home.publish()
    pending = Pending(access.ledger.batch_id(), events=(*events, created), guard=guard)
    try:
        access.ledger.commit(pending, seconds=access.settings.commit_seconds)
    except ConflictError:
        if access.present().definition.indexes.owners is None:
            raise


def _check_name(name: Any) -> None:
    if name is not None and not (isinstance(name, str) and 0 < len(name) <= BLOB_TYPE_CHARS_MAX and name.isprintable()):
        raise InvalidRequestError(
            f"name {name!r} of a blob",
            reason=f"a name has 1 to {BLOB_TYPE_CHARS_MAX} characters that can be printed",
            fix="give the name of the file, without its folder",
        )
