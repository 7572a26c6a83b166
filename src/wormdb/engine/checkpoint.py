"""Bring the log into one block, so that opening a collection never reads the log from its start.

The block is written under a new name, then the root is swapped: the only visible step. A crash
in between leaves a block that nobody names.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from wormdb.clock import new_write_id
from wormdb.engine.trim import with_mark
from wormdb.errors import AlreadyExistsError, ConflictError, OutcomeUnknownError, UnavailableError
from wormdb.format import json
from wormdb.format.block import Row, write_block
from wormdb.format.root import Retired, Root
from wormdb.storage.store import IfAbsent

if TYPE_CHECKING:
    from wormdb.clock import Chance
    from wormdb.engine.misc_clock import MiscClock
    from wormdb.engine.paths import EnginePaths
    from wormdb.engine.register import Register, RootState
    from wormdb.engine.state import View
    from wormdb.format.blocklist import BlockEntry
    from wormdb.storage.store import Store

__all__ = ["Checkpointer"]

log = logging.getLogger(__name__)

PARQUET = "application/vnd.apache.parquet"
ZSTD = "application/zstd"


@dataclass(frozen=True, slots=True)
class Checkpointer:
    """Writes checkpoints of one collection."""

    store: Store
    paths: EnginePaths
    collection: str
    register: Register
    misc: MiscClock
    chance: Chance

    def run(self, view: View, digest: bytes) -> RootState:
        """Write the state of `view` (whose last entry has hash `digest`) and name it in the root.

        Returns the root as it then is, which is another's if that is as new. 1 GET and 3 PUTs, 1 GET more after
        a lost race.
        """
        current = self.register.read()
        if current.root is not None and current.root.applied >= view.number:
            return current
        rows = [
            Row(json.decode(held.id, name="document id"), held.rev, held.seq, held.document) for _, held in view.scan()
        ]
        blocks = (self._write(rows),) if rows else ()
        try:
            return self.register.swap(current, self._following(current, view, digest, blocks))
        except ConflictError:
            return self.register.read()

    def _write(self, rows: list[Row]) -> BlockEntry:
        block = write_block(rows)
        name = f"{self.misc.next():016x}-{self.chance.token(4).hex()}"
        # The name is new, so a refused or lost answer needs no reading back: the block is simply not named. That it
        # is there already says that the request was sent twice on its way.
        try:
            self.store.put(self.paths.block(name), block.parquet, IfAbsent(), content_type=PARQUET)
            self.store.put(self.paths.sidecar(name), block.sidecar, IfAbsent(), content_type=ZSTD)
        except (AlreadyExistsError, OutcomeUnknownError) as error:
            raise UnavailableError(
                f"checkpoint of {self.collection}",
                reason=error.reason,
                fix="retry: the state is as before",
                key=error.key,
            ) from error
        return block.entry(name, name, kind="base")

    def _following(self, current: RootState, view: View, digest: bytes, blocks: tuple[BlockEntry, ...]) -> Root:
        before = current.root
        root = before or Root(
            path=self.collection,
            collection=new_write_id(self.chance),
            revision=0,
            write_id=new_write_id(self.chance),
            misc=0,
            hash_applied=digest,
            hash_trimmed=bytes(32),
            definition=b"",
        )
        retired = tuple(
            Retired(name=key.removeprefix(self.paths.folder), revision=root.revision + 1)
            for block in root.blocks
            for key in (self.paths.block(block.name), self.paths.sidecar(block.sidecar.name))
        )
        return msgspec.structs.replace(
            root,
            revision=root.revision + 1,
            write_id=new_write_id(self.chance),
            misc=self.misc.next(),
            applied=view.number,
            hash_applied=digest,
            marks=with_mark(before, current.time),
            definition=view.definition.body,
            rows=sum(block.rows - block.deleted for block in blocks),
            blocks=blocks,
            retired=root.retired + retired,
            closed=view.definition.closed,
        )
