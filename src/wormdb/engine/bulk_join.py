"""Blocks of a job that overlap as one run, column by column: for documents whose ids are text.

Each source is read a row group at a time. In every round all rows are joined and sorted before which no later row of
any source can come. So memory holds a block and a row group of each source, and what is being written.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from wormdb.engine.blockwrite import BLOCKS_AT_ONCE, ROW_BYTES, BlockWriter
from wormdb.engine.bulk_columns import text_bytes
from wormdb.engine.bulk_portion import cuts, joined, keys_of_texts
from wormdb.format.block import RESERVED, Row, write_new_block
from wormdb.format.blockread import read_arrow
from wormdb.format.columns import KIND_PREFIX, arrow_type, column_of
from wormdb.format.filter_run import key_hashes
from wormdb.format.key import encode_key, encode_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    import pyarrow as pa

    from wormdb.engine.objects import ObjectWriter
    from wormdb.engine.shelf import Shelf
    from wormdb.format.block import EncodedBlock
    from wormdb.format.blocklist import BlockEntry
    from wormdb.format.columns import ColumnSpec, EncodedColumn

__all__ = ["Joiner", "Workplace", "can_join"]

_TYPES: Final = frozenset({"string", "int64", "double", "bool", "date", "binary", "json"})
"""Those whose bounds Arrow finds; lists of them have none."""
_HERE, _MISSING = 0, 2
_PLAIN_CODES: Final = bytes((_HERE, _MISSING))
_ID, _SEQ, _DOC = "_id", "_seq", "_doc"


def can_join(shelf: Shelf, blocks: Sequence[BlockEntry]) -> bool:
    """Whether blocks can be joined: all have documents only, with texts as ids, and the same columns. No requests."""
    types = {tuple((stats.path, stats.type) for stats in block.columns) for block in blocks}
    if len(types) > 1 or not all(kind.removeprefix("list<").rstrip(">") in _TYPES for _, kind in next(iter(types))):
        return False
    return not any(_is_odd(block) or shelf.upgrades.is_old(block) for block in blocks)


def _is_odd(block: BlockEntry) -> bool:
    ids = block.columns[0]
    return block.deleted > 0 or block.rev_last > 0 or ids.type != "string" or ids.values < block.rows


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where blocks are read and written."""

    shelf: Shelf
    writer: ObjectWriter
    block_target: int


@dataclass(frozen=True, slots=True)
class Joiner:
    """Joins blocks for one job."""

    tools: Workplace
    columns: Sequence[ColumnSpec]
    keeps_first: bool
    """Of an id that several sources have, whether the first one's row stays, and not the last one's."""
    meet: Callable[[bytes, Row, int], None]
    """Told of each such id: its key, the row that stays, and how many do not. Raises to refuse it."""

    def write(self, sources: Sequence[Sequence[BlockEntry]]) -> list[BlockEntry]:
        """The rows of sources, each one run of blocks that `can_join`, as one run.

        1 GET for each block, and 2 PUTs for each that is written. Two are made while others are read. Raises what
        `meet` does, CorruptionError, UnavailableError.
        """
        writer = BlockWriter(self.tools.shelf, self.tools.writer, self.tools.block_target, self.columns)
        types = [(stats.path, stats.type) for stats in sources[0][0].columns]
        written: list[BlockEntry] = []
        making: deque[Iterator[EncodedBlock]] = deque()
        for table in _portions(self._rounds(sources), self.tools.block_target):
            if len(making) == BLOCKS_AT_ONCE:
                written.append(writer.put(next(making.popleft())))
            making.append(self.tools.shelf.begin(lambda table: _block(table, types), table))
        return written + [writer.put(next(made)) for made in making]

    def _rounds(self, sources: Sequence[Sequence[BlockEntry]]) -> Iterator[pa.Table]:
        """All rows in order of id, each id once."""
        cursors = [_Cursor(self._groups(blocks)) for blocks in sources]
        while cursors := [cursor for cursor in cursors if cursor.fill()]:
            bound = min((cursor.greatest for cursor in cursors if cursor.has_more), default=None)
            yield self._distinct(_together([cursor.cut(bound) for cursor in cursors]))

    def _groups(self, blocks: Sequence[BlockEntry]) -> Iterator[tuple[pa.Table, bool]]:
        """The row groups of a source, and whether another one follows."""
        for place, entry in enumerate(blocks, 1):
            block = self.tools.shelf.whole(entry)
            names = [*RESERVED[:-1], *(stats.path for stats in entry.columns[1:]), _DOC]
            for group in range(block.groups):
                has_more = place < len(blocks) or group + 1 < block.groups
                yield read_arrow(block, names, groups=[group]), has_more

    def _distinct(self, table: pa.Table) -> pa.Table:
        """Rows of several sources, one source after another, in order of id; of each id one."""
        import pyarrow.compute as pc

        # Stable, so rows of one id stay in order of their sources.
        table = table.take(pc.sort_indices(joined(table.column(_ID)))).combine_chunks()
        ids = joined(table.column(_ID))
        again = pc.equal(ids.slice(1), ids.slice(0, len(ids) - 1))
        return table.take(self._chosen(table, again.to_pylist())) if pc.any(again).as_py() else table

    def _chosen(self, table: pa.Table, again: Sequence[bool]) -> list[int]:
        """The places of the rows that stay; `again` says of each but the first whether its id is the one before it."""
        starts = [0, *(place for place, same in enumerate(again, 1) if not same), table.num_rows]
        chosen: list[int] = []
        for start, stop in pairwise(starts):
            place = start if self.keeps_first else stop - 1
            chosen.append(place)
            if stop - start > 1:
                identity, seq, document = (table.column(name)[place].as_py() for name in (_ID, _SEQ, _DOC))
                self.meet(encode_key(identity), Row(identity, 0, seq, document.encode()), stop - start - 1)
        return chosen


class _Cursor:
    """Where a source is."""

    def __init__(self, groups: Iterator[tuple[pa.Table, bool]]) -> None:
        self._groups = groups
        self._table: pa.Table | None = None
        self.has_more = True

    def fill(self) -> bool:
        """Read on if nothing is left of what was read; False at the end."""
        if self._table is None or not self._table.num_rows:
            self._table, self.has_more = next(self._groups, (None, False))
        return self._table is not None

    @property
    def greatest(self) -> str:
        """The last id of what was read."""
        assert self._table is not None
        return str(self._table.column(_ID)[-1])

    def cut(self, bound: str | None) -> pa.Table:
        """Take the rows through an id, all of them without one."""
        assert self._table is not None
        table, ids = self._table, self._table.column(_ID)
        stop = len(ids)
        if bound is not None:
            stop = bisect_right(range(len(ids)), bound, key=lambda place: str(ids[place]))
        self._table = table.slice(stop)
        return table.slice(0, stop)


def _together(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables of the same columns as one; a companion that one of them has, all get."""
    import pyarrow as pa

    names = {name for table in tables for name in table.column_names if name.startswith(KIND_PREFIX)}
    return pa.concat_tables([_with_companions(table, names) for table in tables], promote_options="default")


def _with_companions(table: pa.Table, names: AbstractSet[str]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    for name in names - set(table.column_names):
        valid = pc.is_valid(table.column(name.removeprefix(KIND_PREFIX)))
        here, missing = (pa.scalar(code, pa.uint8()) for code in (_HERE, _MISSING))
        table = table.append_column(name, pc.if_else(valid, here, missing))
    return table


def _portions(tables: Iterator[pa.Table], target: int) -> Iterator[pa.Table]:
    """The rows of tables for one block each, cut as rows are."""
    held: list[pa.Table] = []
    size = 0
    for table in tables:
        held.append(table)
        size += _weight(table)
        if size < target:
            continue
        whole = _together(held)
        *full, (start, stop) = cuts(whole.column(_DOC), target)
        for first, last in full:
            yield whole.slice(first, last - first)
        rest = whole.slice(start, stop - start)
        held, size = [rest], _weight(rest)
        if size >= target:
            yield rest
            held, size = [], 0
    if held:
        yield _together(held)


def _weight(table: pa.Table) -> int:
    import pyarrow.compute as pc

    documents: int = pc.sum(pc.binary_length(table.column(_DOC))).as_py()
    rows: int = table.num_rows
    return documents + ROW_BYTES * rows


def _block(table: pa.Table, types: Sequence[tuple[str, str]]) -> EncodedBlock:
    ids = joined(table.column(_ID))
    texts = text_bytes(ids)
    # Keys write these two characters in another way.
    keys = encode_keys(ids.to_pylist()) if b"\0" in texts or b"\1" in texts else keys_of_texts(ids)
    columns = [_column(table, path, kind) for path, kind in types]
    seqs: list[int] = table.column(_SEQ).to_pylist()
    return write_new_block(keys, key_hashes(keys), table.column(_DOC), columns, seqs)


def _column(table: pa.Table, path: str, kind: str) -> EncodedColumn:
    cells, codes = table.column(path), None
    if KIND_PREFIX + path in table.column_names:
        codes = bytes(table.column(KIND_PREFIX + path).to_pylist())
        codes = codes if codes.translate(None, _PLAIN_CODES) else None
    return column_of(path, kind, _as_written(cells, kind), codes)


def _as_written(column: pa.ChunkedArray, kind: str) -> pa.ChunkedArray | pa.Array:
    """Parquet calls the elements of a list by another name than Arrow, and tells both."""
    import pyarrow as pa

    if not kind.startswith("list<"):
        return column
    cells = joined(column)
    bits, ends, *_ = cells.buffers()
    return pa.Array.from_buffers(
        arrow_type(kind), len(cells), [bits, ends], offset=cells.offset, children=[cells.values]
    )
