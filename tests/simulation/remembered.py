"""Blocks that are encoded and decoded once: sweeps and simulations make the same ones again and again."""

from __future__ import annotations

import hashlib
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING
from unittest import mock

from wormdb.engine.blocks import fetch as blockfetch
from wormdb.engine.blocks import shelf
from wormdb.engine.blocks import write as blockwrite
from wormdb.format.block import write_block
from wormdb.format.blockread import open_block, read_documents
from wormdb.maintenance.audit import block_check
from wormdb.maintenance.audit import lists as listed

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from wormdb.format.block import EncodedBlock, Row
    from wormdb.format.blockread import Block
    from wormdb.format.columns import ColumnSpec

__all__ = ["remembered_blocks"]


class _Memory:
    """What pure functions of the format gave for each input."""

    def __init__(self) -> None:
        self._written: dict[Hashable, EncodedBlock] = {}
        self._opened: dict[tuple[str, bytes], Block] = {}
        self._rows: dict[int, tuple[Block, list[Row]]] = {}

    def write(
        self,
        rows: Sequence[Row],
        columns: Sequence[ColumnSpec],
        *,
        keys: Sequence[bytes],
        members: Sequence[bytes] | None,
        found: bool = False,
    ) -> EncodedBlock:
        # Ids of different types may have the same key; a cell says which one it is.
        held = tuple((row.rev, row.seq, row.document, row.trash, row.cell) for row in rows)
        given = held, tuple(columns), tuple(keys), None if members is None else tuple(members), found
        if given not in self._written:
            self._written[given] = write_block(rows, columns, keys=keys, members=members, found=found)
        return self._written[given]

    def open(self, data: bytes, *, name: str, sha256: bytes) -> Block:
        # What is not as it was written is refused, each time.
        if hashlib.sha256(data).digest() != sha256:
            return open_block(data, name=name, sha256=sha256)
        if (name, sha256) not in self._opened:
            self._opened[name, sha256] = open_block(data, name=name, sha256=sha256)
        return self._opened[name, sha256]

    def read(self, block: Block, *, groups: Sequence[int] | None = None) -> Iterator[Row]:
        if groups is not None:
            return read_documents(block, groups=groups)
        # A block is kept with its rows, so that no other one gets its place in memory.
        if id(block) not in self._rows:
            self._rows[id(block)] = block, list(read_documents(block))
        return iter(self._rows[id(block)][1])


@contextmanager
def remembered_blocks() -> Iterator[None]:
    """Inside, a block of equal rows is encoded once, and a block with equal bytes is decoded once.

    Both are pure functions, which most of the time of such runs would go to otherwise.
    """
    memory = _Memory()
    with ExitStack() as stack:
        for module in (blockwrite, block_check):
            stack.enter_context(mock.patch.object(module, "write_block", memory.write))
        for module in (shelf, block_check):
            stack.enter_context(mock.patch.object(module, "open_block", memory.open))
        for module in (blockfetch, block_check, listed):
            stack.enter_context(mock.patch.object(module, "read_documents", memory.read))
        yield
