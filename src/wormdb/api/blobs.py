"""Large bodies beside documents: written as streams, referred to by documents, read in parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final, Generic, TypeVar

from wormdb.blob_streams import BlobReader, BlobTarget
from wormdb.calls import reads, works
from wormdb.engine.commit.blobs import missing_blob
from wormdb.engine.state.operations import Pending
from wormdb.engine.tree.definition import OWNERS, encode_index
from wormdb.errors import ConflictError, CorruptionError, InvalidRequestError, NotFoundError
from wormdb.format.blob import BlobKey, BlobReference, is_content_type, reference_of
from wormdb.format.event import IndexCreated
from wormdb.settings import BLOB_BYTES_MAX, BLOB_TYPE_CHARS_MAX
from wormdb.storage.store import OCTETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wormdb.api.access import Access
    from wormdb.blob_streams import Spool
    from wormdb.engine.state.view import View

__all__ = ["Blobs", "StoredBlob"]

T = TypeVar("T")

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


class Blobs(Generic[T]):
    """The blobs of a collection, as users call for them."""

    _access: Access[T]

    def create_blob_target(self, content_type: str | None = None, name: str | None = None) -> BlobTarget:
        """A stream to write a blob to, of up to BLOB_BYTES_MAX bytes; its `reference` goes into documents. No requests.

        `content_type`, such as "image/png", is guessed from `name`, the name of a file, if none is given. Content that
        the collection has already is not stored again. A blob that no document refers to is removed by gc after a day.
        Raises InvalidRequestError, PermissionDeniedError.
        """
        from mimetypes import guess_type

        self._access.check_mode()
        _check_name(name)
        kind = content_type or (None if name is None else guess_type(name)[0]) or OCTETS
        if not is_content_type(kind):
            raise InvalidRequestError(
                f"content type {kind!r}", reason="it is none", fix='write type/subtype, such as "image/png"'
            )
        return BlobTarget(self._write_blob, kind, name, BLOB_BYTES_MAX)

    def put_blob(
        self, data: bytes | IO[bytes], *, content_type: str | None = None, name: str | None = None
    ) -> BlobReference:
        """Store bytes, or all that a binary file still gives; the reference. Costs as `BlobTarget.close`."""
        with self.create_blob_target(content_type, name) as target:
            if isinstance(data, bytes | bytearray | memoryview):
                target.write(data)
            else:
                while some := data.read(_COPY_BYTES):
                    target.write(some)
        return target.reference

    @reads
    def open_blob(self, reference: BlobReference | Mapping[str, Any] | str) -> BlobReader:
        """A stream of the blob that a reference, or its key `sha256:…`, means. 1 HEAD, then 1 GET for each 4 MiB.

        Raises NotFoundError if it is gone: an old version of a document may refer to what no document has any more.
        Raises InvalidRequestError for what is no reference, CorruptionError for an object of another size.
        """
        found = reference_of({"_blob": reference} if isinstance(reference, str) else reference)
        if found is None:
            raise InvalidRequestError(
                "open_blob", reason="this is no reference to a blob", fix='give {"_blob": "sha256:…", …} of a document'
            )
        blobs = self._access.log.blobs
        path = blobs.path(found.key)
        try:
            size = blobs.store.head(path).size
        except NotFoundError as error:
            raise missing_blob(found.key, self._access.name) from error
        if found.size not in (size, -1):
            raise CorruptionError(
                f"blob {found.key}", reason=f"it has {size} bytes, and its reference says {found.size}", key=path
            )
        return BlobReader(blobs.store, path, BlobReference(found.key, size, found.content_type, found.name))

    def list_blobs(self) -> Iterator[StoredBlob]:
        """Every stored blob, in order of digest, with how many documents refer to it.

        1 GET, 1 LIST for each 1,000, and 1 GET for each node of the index of owners.
        """
        view = self._access.present()
        log = self._access.log
        condemned = view.definition.blobs.condemned
        for page in log.blobs.store.list(log.blobs.folder):
            for info in page.objects:
                key = BlobKey.parse(f"sha256:{info.key.removeprefix(log.blobs.folder)}")
                if key is not None:
                    owners = log.blobs.owners(view, key)
                    yield StoredBlob(str(key), info.size, info.modified, owners, key in condemned)

    @works
    def _write_blob(self, digest: str, body: Spool, content_type: str) -> BlobKey:
        _keep_owners(self._access)
        return self._access.ledger.blobs.write(digest, body, content_type)


def _keep_owners(access: Access[Any]) -> None:
    """Have the index of owners, made by an entry before the first blob is written. 1 PUT once, with a new model."""
    access.check_mode()
    known = access.log.known()
    if known.definition.indexes.owners is not None:
        return
    known = access.present()
    events = access.writer.first_events(known)
    created = IndexCreated(name=OWNERS.name, definition=encode_index(OWNERS))
    inner = access.writer.guard((), events)

    def guard(view: View) -> None:
        inner(view)
        view.definition.indexes.check(created)

    if events:
        access.context.creating()
    pending = Pending(access.context.new_batch_id(), events=(*events, created), guard=guard)
    try:
        access.ledger.commit(pending, seconds=access.context.settings.commit_seconds)
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
