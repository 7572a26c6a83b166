"""The blob methods of `Collection`.

The first call imports what answers it: most programs keep no blobs, and do not wait for it.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, Generic, TypeVar

from wormdb.api.calls import reads

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wormdb.api.access import Access
    from wormdb.api.blobs import BlobReader, BlobTarget, CollectionBlobs, StoredBlob
    from wormdb.format.blob import BlobReference

__all__ = ["BlobMethods"]

T = TypeVar("T")


class BlobMethods(Generic[T]):
    """The blobs of a collection, as users call for them."""

    _access: Access[T]

    @property
    def _blobs(self) -> CollectionBlobs:
        from wormdb.api.blobs import CollectionBlobs

        return CollectionBlobs(self._access)

    def create_blob_target(self, content_type: str | None = None, name: str | None = None) -> BlobTarget:
        """A stream to write a blob to, of up to BLOB_BYTES_MAX bytes; its `reference` goes into documents. No requests.

        `content_type`, such as "image/png", is guessed from `name`, the name of a file, if none is given. Content that
        the collection has already is not stored again. A blob that no document refers to is removed by gc after a day.
        Raises InvalidRequestError, PermissionDeniedError.
        """
        return self._blobs.target(content_type, name)

    def put_blob(
        self, data: bytes | IO[bytes], *, content_type: str | None = None, name: str | None = None
    ) -> BlobReference:
        """Store bytes, or all that a binary file still gives; returns the reference. Costs as `BlobTarget.close`."""
        return self._blobs.put(data, content_type, name)

    @reads
    def open_blob(self, reference: BlobReference | Mapping[str, Any] | str) -> BlobReader:
        """A stream of the blob that a reference, or its key `sha256:…`, means. 1 HEAD, then 1 GET for each 4 MiB.

        Raises NotFoundError if it is gone: an old version of a document may refer to what no document has any more.
        Raises InvalidRequestError for anything else than a reference, CorruptionError for an object of another size.
        """
        return self._blobs.open(reference)

    def list_blobs(self) -> Iterator[StoredBlob]:
        """Every stored blob, in order of digest, with how many documents refer to it.

        1 GET, 1 LIST for each 1,000, and 1 GET for each node of the index of owners.
        """
        return self._blobs.all()
