"""The base of a view: what the root's blocks hold, read when it is first needed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from wormdb.engine.state import Held
from wormdb.errors import NotFoundError, SnapshotTooOldError
from wormdb.format import json
from wormdb.format.blockread import open_block, read_documents
from wormdb.format.key import encode_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.engine.paths import EnginePaths
    from wormdb.format.blocklist import BlockEntry
    from wormdb.storage.store import Store

__all__ = ["BlockBase"]


class BlockBase:
    """The documents of a root's blocks, in memory once one of them is asked for. Thread-safe."""

    def __init__(self, store: Store, paths: EnginePaths, blocks: Sequence[BlockEntry]) -> None:
        """No requests."""
        self._store = store
        self._paths = paths
        self._blocks = blocks
        self._lock = threading.Lock()
        self._held: dict[bytes, Held] | None = None

    def get(self, key: bytes) -> Held | None:
        """What is under an id's key. The first call costs 1 GET a block."""
        return self._loaded().get(key)

    def scan(self) -> Iterator[tuple[bytes, Held]]:
        """Everything, in order of key. The first call costs 1 GET a block."""
        return iter(self._loaded().items())

    def _loaded(self) -> dict[bytes, Held]:
        with self._lock:
            if self._held is None:
                self._held = {key: held for block in self._blocks for key, held in self._read(block)}
            return self._held

    def _read(self, block: BlockEntry) -> Iterator[tuple[bytes, Held]]:
        key = self._paths.block(block.name)
        try:
            body = self._store.get(key).body
        except NotFoundError as error:
            raise SnapshotTooOldError(
                f"block {key}", reason="its root has been replaced, and it was removed"
            ) from error
        for row in read_documents(open_block(body, name=key, sha256=block.sha256)):
            yield encode_key(row.id), Held(json.encode(row.id), row.rev, row.seq, row.document)
