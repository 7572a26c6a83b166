"""Write rows as blocks, each of about the target size, under new names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from wormdb.engine.objects import PARQUET, NewObject
from wormdb.format.block import write_block

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from wormdb.engine.objects import ObjectWriter
    from wormdb.engine.shelf import Shelf
    from wormdb.format.block import Row
    from wormdb.format.blocklist import BlockEntry
    from wormdb.format.columns import ColumnSpec

__all__ = ["BlockWriter", "weight"]

ROW_BYTES = 64
"""What a row weighs beside its document."""


def weight(row: Row) -> int:
    """What a row counts for when blocks are cut: about its bytes before compression."""
    return ROW_BYTES + len(row.document or row.trash or b"")


@dataclass(frozen=True, slots=True)
class BlockWriter:
    """Writes blocks into one folder. A job uses it as forwarding does, with `run` 0 and rows of revision 0."""

    shelf: Shelf
    writer: ObjectWriter
    bytes_target: int
    columns: Sequence[ColumnSpec] = ()
    members: Callable[[Row], bytes] | None = None
    """What the filter of a block knows a row by; None: by the key of its id."""

    def write(
        self,
        rows: Iterable[tuple[bytes, Row]],
        *,
        run: int = 0,
        level: int = 0,
        kind: Literal["base", "delta"] = "delta",
    ) -> list[BlockEntry]:
        """The entries of the blocks that hold `rows`, which come in order of key. 2 PUTs a block, side by side.

        One block is in memory at a time. Raises UnavailableError if one could not be written for sure: nobody
        names it then.
        """
        written: list[BlockEntry] = []
        waiting: list[Row] = []
        size = 0
        for _, row in rows:
            waiting.append(row)
            size += weight(row)
            if size >= self.bytes_target:
                written.append(self._put(waiting, run, level, kind))
                waiting, size = [], 0
        if waiting:
            written.append(self._put(waiting, run, level, kind))
        return written

    def _put(self, rows: list[Row], run: int, level: int, kind: Literal["base", "delta"]) -> BlockEntry:
        members = None if self.members is None else [self.members(row) for row in rows]
        block = write_block(rows, self.columns, members=members)
        name = self.writer.new_name()
        self.writer.put_all(
            [
                NewObject(self.shelf.block_key(name), block.parquet, PARQUET),
                NewObject(self.shelf.sidecar_key(name), block.sidecar),
            ]
        )
        return block.entry(name, name, kind=kind, level=level, run=run)
