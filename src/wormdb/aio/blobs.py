"""Large bodies that are written and read a part at a time, each part awaited."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from wormdb.aio.runner import AsyncHandle

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from wormdb.format.blob import BlobReference

__all__ = ["AsyncBlobReader", "AsyncBlobTarget"]


class AsyncBlobReader(AsyncHandle[Any]):
    """A blob that is read: see `wormdb.BlobReader`."""

    @property
    def content_type(self) -> str:
        """What the bytes are."""
        return str(self._inner.content_type)

    @property
    def size(self) -> int:
        """In bytes."""
        return int(self._inner.size)

    async def read(self, size: int = -1) -> bytes:
        """The next bytes, at most `size`; all that are left without it. 1 GET for each range."""
        return bytes(await self._runner.call(self._inner.read, size))

    async def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place in it. No requests."""
        return int(self._inner.seek(offset, whence))

    async def close(self) -> None:
        """Give up what it holds in memory."""
        await self._runner.call(self._inner.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.call(self._inner.__exit__, kind, error, trace)


class AsyncBlobTarget(AsyncHandle[Any]):
    """A blob that is written: see `wormdb.BlobTarget`."""

    @property
    def reference(self) -> BlobReference:
        """What a document has of it, when it is closed."""
        found: BlobReference = self._inner.reference
        return found

    async def write(self, data: bytes | bytearray | memoryview) -> int:
        """Take some bytes."""
        return int(await self._runner.call(self._inner.write, data))

    async def close(self) -> None:
        """Write what is left, and make the reference."""
        await self._runner.call(self._inner.close)

    async def abort(self) -> None:
        """Throw away what was written."""
        await self._runner.call(self._inner.abort)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.call(self._inner.__exit__, kind, error, trace)
