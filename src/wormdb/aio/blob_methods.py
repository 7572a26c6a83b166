"""The calls of `BlobMethods`, to be awaited.

Written by `make docs` from `wormdb.api.blob_methods`; edit that instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from wormdb.aio.runner import AsyncHandle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from typing import IO

    from wormdb.aio.blobs import AsyncBlobReader, AsyncBlobTarget
    from wormdb.api.blobs import StoredBlob
    from wormdb.format.blob import BlobReference

__all__ = ["AsyncBlobMethods"]

T = TypeVar("T")


class AsyncBlobMethods(AsyncHandle[Any], Generic[T]):
    """The blobs of a collection, as users call for them.

    Calls are awaited; `wormdb.api.blob_methods.BlobMethods` has their promises.
    """

    def create_blob_target(self, content_type: str | None = None, name: str | None = None) -> AsyncBlobTarget:
        """A stream to write a blob to, of up to BLOB_BYTES_MAX bytes; its `reference` goes into documents. No requests."""
        from wormdb.aio.blobs import AsyncBlobTarget

        return AsyncBlobTarget(self._runner, self._inner.create_blob_target(content_type, name))

    async def put_blob(
        self, data: bytes | IO[bytes], *, content_type: str | None = None, name: str | None = None
    ) -> BlobReference:
        """Store bytes, or all that a binary file still gives; returns the reference. Costs as `BlobTarget.close`."""
        return cast(
            "BlobReference", await self._runner.call(self._inner.put_blob, data, content_type=content_type, name=name)
        )

    async def open_blob(self, reference: BlobReference | Mapping[str, Any] | str) -> AsyncBlobReader:
        """A stream of the blob that a reference, or its key `sha256:…`, means. 1 HEAD, then 1 GET for each 4 MiB."""
        from wormdb.aio.blobs import AsyncBlobReader

        return AsyncBlobReader(self._runner, await self._runner.call(self._inner.open_blob, reference))

    def list_blobs(self) -> AsyncIterator[StoredBlob]:
        """Every stored blob, in order of digest, with how many documents refer to it."""
        return self._runner.stream(self._inner.list_blobs)
