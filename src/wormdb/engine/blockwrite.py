"""Write rows as blocks, each of about the target size, under new names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wormdb.errors import AlreadyExistsError, OutcomeUnknownError, UnavailableError
from wormdb.format import json
from wormdb.format.block import Row, write_block
from wormdb.storage.store import IfAbsent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.clock import Chance
    from wormdb.engine.misc_clock import MiscClock
    from wormdb.engine.paths import EnginePaths
    from wormdb.engine.state import Held
    from wormdb.format.blocklist import BlockEntry
    from wormdb.format.columns import ColumnSpec
    from wormdb.storage.store import Store

__all__ = ["BlockWriter"]

PARQUET = "application/vnd.apache.parquet"
ZSTD = "application/zstd"
ROW_BYTES = 64
"""What a row weighs beside its document."""


@dataclass(frozen=True, slots=True)
class BlockWriter:
    """Writes the blocks of one collection."""

    store: Store
    paths: EnginePaths
    misc: MiscClock
    chance: Chance
    bytes_target: int

    def write(
        self, rows: Iterator[tuple[bytes, Held]], columns: Sequence[ColumnSpec], *, run: int, level: int
    ) -> list[BlockEntry]:
        """The entries of the blocks that hold `rows`, which come in order of key. 2 PUTs a block.

        Raises UnavailableError if a block could not be written for sure: nobody names it then.
        """
        written: list[BlockEntry] = []
        waiting: list[Row] = []
        size = 0
        for _, held in rows:
            waiting.append(Row(json.decode(held.id, name="document id"), held.rev, held.seq, held.document, held.trash))
            size += ROW_BYTES + len(held.document or held.trash or b"")
            if size >= self.bytes_target:
                written.append(self._put(waiting, columns, run, level))
                waiting, size = [], 0
        if waiting:
            written.append(self._put(waiting, columns, run, level))
        return written

    def _put(self, rows: list[Row], columns: Sequence[ColumnSpec], run: int, level: int) -> BlockEntry:
        block = write_block(rows, columns)
        name = f"{self.misc.next():016x}-{self.chance.token(4).hex()}"
        # The name is new, so an unclear answer needs no reading back: the block is simply not named. That it
        # is there already says that the request was sent twice on its way.
        try:
            self.store.put(self.paths.block(name), block.parquet, IfAbsent(), content_type=PARQUET)
            self.store.put(self.paths.sidecar(name), block.sidecar, IfAbsent(), content_type=ZSTD)
        except (AlreadyExistsError, OutcomeUnknownError) as error:
            raise UnavailableError(
                f"block {name}", reason=error.reason, fix="retry: the state is as before", key=error.key
            ) from error
        return block.entry(name, name, kind="delta", level=level, run=run)
