"""Blocks that several tasks wrote as one run: those that overlap are merged, the others stay as they are."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import groupby, pairwise, repeat
from typing import TYPE_CHECKING, Final

from wormdb.engine.blocks.fetch import BLOCK_WHOLE_BYTES, rows_between
from wormdb.engine.blocks.memory import give_back_memory
from wormdb.engine.blocks.portion import encode_documents
from wormdb.engine.blocks.write import ROW_BYTES, BlockWriter
from wormdb.engine.bulk.columns import text_bytes
from wormdb.engine.bulk.portion import cuts, joined, keys_of_texts
from wormdb.errors import AlreadyExistsError
from wormdb.format.block import RESERVED, EncodedBlock, Row, write_new_block
from wormdb.format.blockread import Block, assemble_block, parts_for, read_batches
from wormdb.format.columns import KIND_PREFIX, EncodedColumn, arrow_type, column_of
from wormdb.format.frequent import frequent_columns_of_texts
from wormdb.format.key import encode_key, encode_keys
from wormdb.format.membership import key_hashes
from wormdb.storage.store import ByteRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    import pyarrow as pa

    from wormdb.engine.blocks.shelf import Shelf
    from wormdb.engine.bulk.report import ConflictRule
    from wormdb.format.blocklist import BlockEntry
    from wormdb.format.sidecar import CheckedRange, PageMap

__all__ = ["Joiner", "MergeResult", "Merger", "can_join", "twice"]


# --- Blocks of a job that overlap as one run, column by column: for documents whose ids are text.
#
# Each source is read a row group at a time, and decoded some rows at a time. In every round some rows are joined and
# sorted before which no later row of any source can come. So memory holds a row group of each source as it is stored,
# of a few sources a block; the rows of a round; and what is being written.

WHOLE_SOURCES_MAX: Final = 4
"""Of more sources no whole blocks are in memory, but row groups."""
ROUND_ROWS: Final = 16_384

_TYPES: Final = frozenset({"string", "int64", "double", "bool", "date", "binary", "json"})
"""Those whose bounds Arrow finds; lists of them have none."""
_HERE, _MISSING = 0, 2
_PLAIN_CODES: Final = bytes((_HERE, _MISSING))
_ID, _SEQ, _DOC = "_id", "_seq", "_doc"


def can_join(shelf: Shelf, blocks: Sequence[BlockEntry], declared: Iterable[str] = ()) -> bool:
    """Whether blocks can be joined: all have documents only, with texts as ids, and the same declared columns.

    No requests.
    """
    if not {_ID, *declared} <= {path for path, _ in _common_types(blocks)}:
        return False
    return not any(_is_odd(block) or shelf.upgrades.is_old(block) for block in blocks)


def _common_types(blocks: Iterable[BlockEntry]) -> list[tuple[str, str]]:
    """The columns that all blocks have in one type, as far as they can be joined; in the order of the first."""
    first, *others = [{stats.path: stats.type for stats in block.columns} for block in blocks]
    return [
        (path, kind)
        for path, kind in first.items()
        if kind.removeprefix("list<").rstrip(">") in _TYPES and all(other.get(path) == kind for other in others)
    ]


def _is_odd(block: BlockEntry) -> bool:
    ids = block.columns[0]
    return block.deleted > 0 or block.rev_last > 0 or ids.type != "string" or ids.values < block.rows


@dataclass(frozen=True, slots=True)
class Joiner:
    """Joins blocks for one job."""

    blocks: BlockWriter
    keeps_first: bool
    """Of an id that several sources have, whether the first one's row stays, and not the last one's."""
    meet: Callable[[bytes, Row, int], None]
    """Told of each such id: its key, the row that stays, and how many do not. Raises to refuse it."""

    def write(self, sources: Sequence[Sequence[BlockEntry]]) -> list[BlockEntry]:
        """The rows of sources, each one run of blocks that `can_join`, as one run.

        1 GET for each block, and 2 PUTs for each that is written; of more than 4 sources each block costs 1 for its
        page map and 1 or 2 for each row group instead. Nothing is read while a block is made, so that memory holds
        one. Raises what `meet` does, CorruptionError, UnavailableError.
        """
        types = _common_types(block for blocks in sources for block in blocks)
        written: list[BlockEntry] = []
        names = [*RESERVED[:-1], *(path for path, _ in types[1:]), _DOC]
        for table in _portions(self._rounds(sources, names), self.blocks.bytes_target):
            give_back_memory()  # of the last round, before there is a block beside its rows
            written.append(self.blocks.put(_block(table, types, [spec.path for spec in self.blocks.columns])))
            del table  # or its rows would stay while those of the next block are gathered
            give_back_memory()
        return written

    def _rounds(self, sources: Sequence[Sequence[BlockEntry]], names: Sequence[str]) -> Iterator[pa.Table]:
        """All rows in order of id, each id once."""
        whole = len(sources) <= WHOLE_SOURCES_MAX
        # Some of each, so that a round is about as much whatever the number of sources.
        some = max(ROUND_ROWS // len(sources), 1)
        cursors = [_Cursor(self._batches(blocks, names, some, whole=whole), some) for blocks in sources]
        while cursors := [cursor for cursor in cursors if cursor.fill()]:
            bound = min((end for cursor in cursors if (end := cursor.end()) is not None), default=None)
            yield self._distinct(_together([cursor.cut(bound) for cursor in cursors]))
            give_back_memory()  # pages that were unpacked for the round lie between rows that stay

    def _batches(
        self, blocks: Sequence[BlockEntry], names: Sequence[str], rows: int, *, whole: bool
    ) -> Iterator[tuple[pa.Table, bool]]:
        """The rows of a source, some at a time, and whether others follow."""
        left = sum(entry.rows for entry in blocks)
        for entry in blocks:
            for group, block in enumerate(self._opened(entry, names, whole=whole)):
                for table in read_batches(block, names, group, rows):
                    left -= table.num_rows
                    yield table, left > 0

    def _opened(self, entry: BlockEntry, names: Sequence[str], *, whole: bool) -> Iterator[Block]:
        """A block once for each of its row groups, with that one or with all."""
        if whole or entry.length <= BLOCK_WHOLE_BYTES:
            block = self.blocks.shelf.whole(entry)
            return repeat(block, block.groups)
        return self._parts(entry, self.blocks.shelf.learn([entry])[0][entry.name], names)

    def _parts(self, entry: BlockEntry, page_map: PageMap, names: Sequence[str]) -> Iterator[Block]:
        """A block with one of its row groups, and then with the next."""
        footer: list[tuple[CheckedRange, bytes]] = []
        for group in range(len(page_map.groups)):
            wanted = parts_for(page_map, names, groups=[group])[len(footer) :]
            bodies = self.blocks.shelf.ranges(entry, [ByteRange(part.offset, part.length) for part in wanted])
            found = [*footer, *zip(wanted, bodies, strict=True)]
            footer, block = found[:1], assemble_block(page_map, found)
            del bodies, found  # the block has a copy of them
            yield block

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

    def __init__(self, batches: Iterator[tuple[pa.Table, bool]], rows: int) -> None:
        self._batches = batches
        self._rows = rows
        self._table: pa.Table | None = None
        self.has_more = True

    def fill(self) -> bool:
        """Read on until there are the rows of a round, or all that are left; False at the end."""
        while self.has_more and (self._table is None or self._table.num_rows < self._rows):
            table, self.has_more = next(self._batches, (None, False))
            if table is not None:
                self._table = table if self._table is None else _together([self._table, table])
        return self._table is not None and self._table.num_rows > 0

    def end(self) -> str | None:
        """The last id of the next rows; None if these are all there are."""
        assert self._table is not None
        if not self.has_more and self._table.num_rows <= self._rows:
            return None
        return str(self._table.column(_ID)[self._rows - 1])

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
        held = [whole.slice(start, stop - start)]
        del whole  # the rows that were yielded
        size = _weight(held[0])
        if size >= target:
            yield held.pop()
            size = 0
    if held:
        yield _together(held)


def _weight(table: pa.Table) -> int:
    import pyarrow.compute as pc

    documents: int = pc.sum(pc.binary_length(table.column(_DOC))).as_py()
    rows: int = table.num_rows
    return documents + ROW_BYTES * rows


def _block(table: pa.Table, types: Sequence[tuple[str, str]], declared: Sequence[str]) -> EncodedBlock:
    """The block of rows with columns of `types`: the declared ones, and those of frequent paths.

    A frequent path that not all sources have as a column of one type is read from the documents.
    """
    ids = joined(table.column(_ID))
    texts = text_bytes(ids)
    # Keys write these two characters in another way.
    keys = encode_keys(ids.to_pylist()) if b"\0" in texts or b"\1" in texts else keys_of_texts(ids)
    found = frequent_columns_of_texts(table.column(_DOC), declared)
    joined_types = dict(types)
    absent = [spec for spec in found if spec.path not in joined_types]
    made = {} if not absent else encode_documents(_bodies(table), absent, ids.to_pylist(), name="a new block")
    paths = [_ID, *declared, *(spec.path for spec in found)]
    columns = [made[path] if path in made else _column(table, path, joined_types[path]) for path in paths]
    seqs: list[int] = table.column(_SEQ).to_pylist()
    return write_new_block(keys, key_hashes(keys), table.column(_DOC), columns, seqs)


def _bodies(table: pa.Table) -> list[bytes]:
    import pyarrow as pa

    bodies: list[bytes] = table.column(_DOC).cast(pa.large_binary()).to_pylist()
    return bodies


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


SOURCES_MAX: Final = 8
"""Sources that are merged at once; more of them become fewer first, which writes them once more."""
SMALL_SHARE: Final = 64
"""Neighbours that have together less than this part of a block are written as one: tasks may be many and small."""

_Item = tuple[bytes, int, Row | None]
"""A key, the place of its source, and what the source has there; None: nothing."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A block of a source; or without a block one change, which counts more than all sources."""

    first: bytes
    last: bytes
    source: int
    block: BlockEntry | None
    row: Row | None = None

    @property
    def size(self) -> int:
        """At least what its rows weigh when blocks are cut: their documents are packed in it."""
        return 0 if self.block is None else self.block.length + ROW_BYTES * self.block.rows


@dataclass(frozen=True, slots=True)
class MergeResult:
    """One run, and what was decided on the way."""

    blocks: list[BlockEntry]
    dropped: dict[bytes, Row] = field(default_factory=dict)
    """Of each id that came more than once, what it is now."""
    times: dict[bytes, int] = field(default_factory=dict)
    """How many rows of it were left out."""


@dataclass(frozen=True, slots=True)
class Merger:
    """Makes runs for one job."""

    blocks: BlockWriter
    rule: ConflictRule

    def merge(
        self, sources: Sequence[Sequence[BlockEntry]], changes: Mapping[bytes, Row | None] | None = None
    ) -> MergeResult:
        """The rows of sources, each one run, as one run; with `changes`, these rows instead of what sources have.

        Of an id that several sources have, the rule decides: `error` raises AlreadyExistsError naming it, `replace`
        takes the last source's, `ignore` the first one's. 1 GET for each block that is merged, and 2 PUTs for each
        that is written; a part of each source is in memory at a time, of 8 sources at once, and more are merged in
        several passes, each of which costs as much. Where all ids are texts it goes column by column, which is many
        times faster.
        """
        pieces = [_Piece(b.key_first, b.key_last, place, b) for place, blocks in enumerate(sources) for b in blocks]
        pieces += [_Piece(key, key, -1, None, row) for key, row in (changes or {}).items()]
        merged = MergeResult([])
        for cluster in _clusters(pieces, self.blocks.bytes_target // SMALL_SHARE):
            only = cluster[0].block if len(cluster) == 1 else None
            if only is not None:
                merged.blocks.append(only)
            else:
                merged.blocks.extend(self._written(cluster, merged))
        return merged

    def _written(self, cluster: Sequence[_Piece], merged: MergeResult) -> list[BlockEntry]:
        """Some pieces as new blocks."""
        sources: dict[int, list[BlockEntry]] = {}
        changes: list[_Piece] = []
        for piece in cluster:
            if piece.block is None:
                changes.append(piece)
            else:
                sources.setdefault(piece.source, []).append(piece.block)
        runs = [sources[source] for source in sorted(sources)]
        by_column = not changes and can_join(
            self.blocks.shelf, [block for run in runs for block in run], [spec.path for spec in self.blocks.columns]
        )
        while len(runs) > SOURCES_MAX:
            # Neighbours, so that the order of sources stays: the rule asks for it.
            parts = [runs[start : start + SOURCES_MAX] for start in range(0, len(runs), SOURCES_MAX)]
            runs = [self._run(part, (), merged, by_column=by_column) for part in parts]
        return self._run(runs, changes, merged, by_column=by_column)

    def _run(
        self, runs: Sequence[list[BlockEntry]], changes: Sequence[_Piece], merged: MergeResult, *, by_column: bool
    ) -> list[BlockEntry]:
        """Runs and changes as one run."""
        if len(runs) == 1 and not changes:
            return runs[0]
        if by_column:
            return Joiner(self.blocks, self.rule == "ignore", lambda *met: self._meet(merged, *met)).write(runs)
        pieces = [_Piece(b.key_first, b.key_last, place, b) for place, blocks in enumerate(runs) for b in blocks]
        return self.blocks.write(self._rows([*pieces, *changes], merged))

    def _meet(self, merged: MergeResult, key: bytes, row: Row, times: int) -> None:
        """Note that an id came more than once, and what stays; raise if the rule refuses it."""
        if self.rule == "error":
            raise twice(row)
        merged.dropped[key], merged.times[key] = row, merged.times.get(key, 0) + times

    def _rows(self, cluster: Sequence[_Piece], merged: MergeResult) -> Iterator[tuple[bytes, Row]]:
        """The rows of some pieces, each id once."""
        items = heapq.merge(*self._streams(cluster), key=lambda item: item[:2])
        for key, same in groupby(items, key=lambda item: item[0]):
            found = list(same)
            _, source, row = found[0]
            if source >= 0 and len(found) > 1:
                row = found[0 if self.rule == "ignore" else -1][2]
                assert row is not None, "sources have rows"
                self._meet(merged, key, row, len(found) - 1)
            if row is not None:
                yield key, row

    def _streams(self, cluster: Sequence[_Piece]) -> Iterator[Iterator[_Item]]:
        """The items of each source, in order of key."""
        sources: dict[int, list[_Piece]] = {}
        for piece in cluster:
            sources.setdefault(piece.source, []).append(piece)
        for source, pieces in sources.items():
            yield self._items(source, pieces)

    def _items(self, source: int, pieces: Sequence[_Piece]) -> Iterator[_Item]:
        for piece in pieces:
            if piece.block is None:
                yield piece.first, source, piece.row
            else:
                for key, row in rows_between(self.blocks.shelf, piece.block):
                    yield key, source, row


def twice(row: Row) -> AlreadyExistsError:
    """What is said of an id that came twice."""
    return AlreadyExistsError(
        f"document {row.id!r}",
        reason="the data have it more than once",
        fix='leave one of them out, or choose on_conflict "replace" or "ignore"',
    )


def _clusters(pieces: Sequence[_Piece], small: int) -> Iterator[list[_Piece]]:
    """Pieces that have to be written together: they overlap, or are small neighbours."""
    cluster: list[_Piece] = []
    last, size = b"", 0
    for piece in sorted(pieces, key=lambda piece: (piece.first, piece.last)):
        if cluster and piece.first > last and size + piece.size > small:
            yield cluster
            cluster, size = [], 0
        cluster.append(piece)
        last, size = max(last, piece.last), size + piece.size
    if cluster:
        yield cluster
