"""SlateDB with the same documents on the same server, as a reference: whole documents by key."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Any

import msgspec
from slatedb.uniffi import DbBuilder, ObjectStore, WriteBatch  # type: ignore[import-untyped] # it ships no types

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from wormdb.testing.s3_server import S3Server

__all__ = ["Slate"]

BATCH = 1_000


class Slate:
    """One database of SlateDB. It has one writer: a second opener shuts the first one out."""

    def __init__(self, server: S3Server) -> None:
        """Nothing is opened yet."""
        os.environ.update(AWS_ENDPOINT=server.endpoint, AWS_ALLOW_HTTP="true", AWS_BUCKET=server.bucket)
        self._store = ObjectStore.resolve(f"s3://{server.bucket}")
        self._loop = asyncio.new_event_loop()
        self._opened: Any = None

    def open(self) -> None:
        """Open it, for `get`."""
        self._opened = self._wait(DbBuilder("slate", self._store).build())

    def close(self) -> None:
        """Close it."""
        self._wait(self._opened.shutdown())

    def load(self, documents: Sequence[dict[str, Any]]) -> None:
        """Put documents under their ids, and wait until they are in the store."""
        self._wait(self._load(documents))

    def get(self, ids: Sequence[str]) -> None:
        """Get documents one after the other."""
        self._wait(self._get(ids))

    def insert(self, documents: Sequence[dict[str, Any]], at_once: int) -> float:
        """Put documents, so many at a time, each waiting until it is in the store; the seconds it took."""
        start = time.perf_counter()
        self._wait(self._insert(documents, at_once))
        return time.perf_counter() - start

    def end(self) -> None:
        """No more calls."""
        self._loop.close()

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(work)

    async def _load(self, documents: Sequence[dict[str, Any]]) -> None:
        for start in range(0, len(documents), BATCH):
            batch = WriteBatch()
            for document in documents[start : start + BATCH]:
                batch.put(document["_id"].encode(), msgspec.json.encode(document))
            await self._opened.write(batch)
        await self._opened.flush()

    async def _get(self, ids: Sequence[str]) -> None:
        for identity in ids:
            assert await self._opened.get(identity.encode()) is not None

    async def _insert(self, documents: Sequence[dict[str, Any]], at_once: int) -> None:
        async def work(number: int) -> None:
            for document in documents[number::at_once]:
                handle = await self._opened.put(document["id"].encode(), msgspec.json.encode(document))
                await handle.await_durable()

        await asyncio.gather(*map(work, range(at_once)))
