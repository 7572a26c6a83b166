"""Write rows as blocks, each of about the target size, under new names."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Literal

from wormdb.engine.log.objects import PARQUET, NewObject, ObjectWriter
from wormdb.format.block import EncodedBlock, Row, write_block

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wormdb.engine.blocks.shelf import Shelf
    from wormdb.format.blocklist import BlockEntry
    from wormdb.format.columns import ColumnSpec

    _Portion = tuple[list[bytes], list[Row]]

__all__ = ["BlockWriter", "weight"]

BLOCKS_AT_ONCE = 2
"""How many are made side by side: each takes about three times its size while it is made."""
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

        One block is in memory at a time. Raises UnavailableError if one could not be written for sure: no
        root names it then.
        """
        return [self._put([self._encode(portion)], run, level, kind)[0] for portion in self._portions(rows)]

    def write_side_by_side(self, rows: Iterable[tuple[bytes, Row]]) -> list[BlockEntry]:
        """As `write` for a job, but a few blocks are made at once: faster, for rows that are in memory anyway."""
        portions = self._portions(rows)
        written: list[BlockEntry] = []
        while some := list(islice(portions, BLOCKS_AT_ONCE)):
            encoded = [self._encode(some[0])] if len(some) == 1 else list(self.writer.pool.map(self._encode, some))
            written += self._put(encoded, 0, 0, "delta")
        return written

    def put(self, block: EncodedBlock) -> BlockEntry:
        """Write one block of a job that is made already. 2 PUTs, side by side."""
        return self.put_all([block])[0]

    def put_all(self, blocks: Sequence[EncodedBlock]) -> list[BlockEntry]:
        """As `put` for several, all side by side."""
        return self._put(blocks, 0, 0, "delta")

    def _portions(self, rows: Iterable[tuple[bytes, Row]]) -> Iterator[_Portion]:
        """Rows for one block each, with their keys."""
        keys: list[bytes] = []
        waiting: list[Row] = []
        size = 0
        for key, row in rows:
            keys.append(key)
            waiting.append(row)
            size += ROW_BYTES + len(row.document or row.trash or b"")  # `weight`, which is called for each row else
            if size >= self.bytes_target:
                yield keys, waiting
                keys, waiting, size = [], [], 0
        if waiting:
            yield keys, waiting

    def _encode(self, portion: _Portion) -> EncodedBlock:
        keys, rows = portion
        members = None if self.members is None else [self.members(row) for row in rows]
        # History is looked up by document, and its columns are its own: frequent paths are of documents.
        return write_block(rows, self.columns, keys=keys, members=members, found=self.members is None)

    def _put(
        self, blocks: Sequence[EncodedBlock], run: int, level: int, kind: Literal["base", "delta"]
    ) -> list[BlockEntry]:
        names = [self.writer.new_name() for _ in blocks]
        objects: list[NewObject] = []
        for name, block in zip(names, blocks, strict=True):
            objects.append(NewObject(self.shelf.block_key(name), block.parquet, PARQUET))
            objects.append(NewObject(self.shelf.sidecar_key(name), block.sidecar))
        self.writer.put_all(objects)
        pairs = zip(names, blocks, strict=True)
        return [block.entry(name, name, kind=kind, level=level, run=run) for name, block in pairs]
