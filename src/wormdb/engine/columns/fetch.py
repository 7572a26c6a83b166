"""Some columns of one block, with as few bytes as that takes; documents only where a column does not tell."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.blocks.fetch import BLOCK_WHOLE_BYTES, rows_shown
from wormdb.engine.blocks.portion import (
    DOCUMENT,
    VERSION_TYPES,
    DecodedColumn,
    Portion,
    decoded_of,
    elsewhere_rows,
    encode_documents,
    join_portions,
    portion_of,
    texts_of,
)
from wormdb.engine.blocks.shelf import Label, Shelf
from wormdb.format.arrays import array_of, scalar_of
from wormdb.format.blockread import Block, assemble_block, parts_for, read_arrow, read_page_rows
from wormdb.format.columns import KIND_PREFIX, ColumnSpec, decode_column
from wormdb.format.project import read_id
from wormdb.format.sidecar import PageMap, PageRef
from wormdb.settings import MIB
from wormdb.storage.store import ByteRange

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    import pyarrow as pa

    from wormdb.format.blocklist import BlockEntry

    GroupRead = Callable[[], Callable[[], "BlockRows"]]
    """Reads the bytes of some row groups, and gives what unpacks them."""

__all__ = ["BlockRows", "ColumnRequest", "fetch_columns", "fetch_groups", "is_heavy", "is_kept", "may_be_kept"]

DOCUMENTS_WHOLE_BYTES: Final = 4 * MIB
"""A block up to this size is read whole if documents are wanted, which are most of it: that saves a round trip."""
_PAGES_AT_ONCE = 64
_ROWS_AT_ONCE: Final = 4_096
_STORED_VERSIONS = ("_rev", "_seq")
_DELETED = "$deleted"  # which no path of a field is


@dataclass(frozen=True, slots=True)
class ColumnRequest:
    """Which columns are read."""

    specs: Mapping[str, ColumnSpec]
    """Paths of fields, and the type that a column of them takes where a block has none."""
    with_ids: bool = False
    with_documents: bool = False
    with_versions: bool = False

    def hiding(self) -> ColumnRequest:
        """Nothing but ids: of rows that only hide older ones."""
        return ColumnRequest({}, with_ids=True)

    def keyed(self) -> ColumnRequest:
        """The same, and ids."""
        return replace(self, with_ids=True)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of a portion of these, but for documents, in order."""
        return (
            *(("_id",) if self.with_ids else ()),
            *self.specs,
            *(VERSION_TYPES if self.with_versions else ()),
        )

    def without(self, names: AbstractSet[str]) -> ColumnRequest | None:
        """What is left; None if nothing is."""
        specs = {path: spec for path, spec in self.specs.items() if path not in names}
        with_ids = self.with_ids and "_id" not in names
        with_versions = self.with_versions and not names >= VERSION_TYPES.keys()
        if not (specs or with_ids or with_versions or self.with_documents):
            return None
        return ColumnRequest(specs, with_ids, self.with_documents, with_versions)


@dataclass(frozen=True, slots=True)
class BlockRows:
    """Rows of one block, deletions too. A deleted row has no values but its id, which its document tells, as ever."""

    portion: Portion
    deleted: pa.ChunkedArray | None
    """None if no row is."""


def fetch_columns(
    shelf: Shelf, entry: BlockEntry, wanted: ColumnRequest, low: bytes = b"", high: bytes | None = None
) -> BlockRows:
    """Columns of a block; of all row groups in which keys from `low` up to but not including `high` may be.

    1 GET for a small block, or one of medium size if documents are read. Otherwise 1 for its page map unless that is
    kept, and 1 for each range of chunks (those that lie close together are one range). Cells that are elsewhere cost
    1 GET more for each range of the pages of the documents that have them. Nothing for columns that the shelf keeps.
    Raises CorruptionError, SnapshotTooOldError.
    """
    if not may_be_kept(shelf, wanted):
        return _read(shelf, entry, wanted, low, high)
    kept = _kept(shelf, entry, wanted)
    missing = wanted.without(kept.keys())
    if missing is None:
        return _of_kept(entry, wanted, kept)
    if entry.key_first < low or (high is not None and entry.key_last >= high):
        return _read(shelf, entry, wanted, low, high)
    read = _read(shelf, entry, missing)
    found = decoded_of(read.portion)
    if read.deleted is not None:
        found[_DELETED] = DecodedColumn(read.deleted, None, "bool")
    for name, column in found.items():
        shelf.columns.keep(_label(shelf, entry, wanted, name), column, column.bytes)
    return _of_kept(entry, wanted, kept | found)


def fetch_groups(shelf: Shelf, entry: BlockEntry, wanted: ColumnRequest) -> deque[GroupRead]:
    """As `fetch_columns` of a whole block, but each row group is read by a call: its documents are in memory alone.

    1 GET for a block of medium size now. Otherwise 1 for its page map unless that is kept, and 1 for each range of
    chunks by each of the calls. None of it is kept. Raises as `fetch_columns`; the calls too.
    """
    return deque(_steps(shelf, entry, wanted, b"", None, by_group=True))


def may_be_kept(shelf: Shelf, wanted: ColumnRequest) -> bool:
    """Whether such columns stay decoded at all: documents do not, which are much longer."""
    return shelf.columns.bytes_max > 0 and not wanted.with_documents


def is_kept(shelf: Shelf, entry: BlockEntry, wanted: ColumnRequest) -> bool:
    """Whether `fetch_columns` of a whole block would make no requests, if nothing is forgotten before."""
    return may_be_kept(shelf, wanted) and wanted.without(_kept(shelf, entry, wanted).keys()) is None


def _kept(shelf: Shelf, entry: BlockEntry, wanted: ColumnRequest) -> dict[str, DecodedColumn]:
    """The columns that are kept; none if which rows are deleted is to be read again, which is read with any."""
    names = (*wanted.names, _DELETED) if entry.deleted else wanted.names
    found = {
        name: column for name in names if (column := shelf.columns.find(_label(shelf, entry, wanted, name))) is not None
    }
    return {} if entry.deleted and _DELETED not in found else found


def _label(shelf: Shelf, entry: BlockEntry, wanted: ColumnRequest, name: str) -> Label:
    spec = wanted.specs.get(name)
    # Where a block has no such column, what is made of its documents depends on the type that is wanted.
    return Label(shelf.label(entry), "" if spec is None else spec.type, name)


def _of_kept(entry: BlockEntry, wanted: ColumnRequest, columns: Mapping[str, DecodedColumn]) -> BlockRows:
    portion = portion_of({name: columns[name] for name in wanted.names})
    return BlockRows(portion, columns[_DELETED].cells if entry.deleted else None)


def _read(
    shelf: Shelf, entry: BlockEntry, wanted: ColumnRequest, low: bytes = b"", high: bytes | None = None
) -> BlockRows:
    """The same from the store."""
    return _joined_rows([read()() for read in _steps(shelf, entry, wanted, low, high, by_group=False)])


def _joined_rows(found: Sequence[BlockRows]) -> BlockRows:
    """Rows of one block, of one stretch after the other."""
    import pyarrow as pa

    if len(found) == 1:
        return found[0]
    gone = [one.deleted for one in found if one.deleted is not None]
    deleted = pa.chunked_array([chunk for one in gone for chunk in one.chunks], pa.bool_()) if gone else None
    return BlockRows(join_portions([one.portion for one in found]), deleted)


def _steps(
    shelf: Shelf, entry: BlockEntry, wanted: ColumnRequest, low: bytes, high: bytes | None, *, by_group: bool
) -> list[GroupRead]:
    """What reads the rows of a block that are wanted, one stretch after the other.

    Their bytes are read now; with `by_group` each time, unless the block is read whole.
    """
    most = DOCUMENTS_WHOLE_BYTES if is_heavy(shelf, entry, wanted) else BLOCK_WHOLE_BYTES
    reader = _BlockReader.of(shelf, entry, low, high, most)
    stored = {stats.path: stats.type for stats in shelf.stats(entry)}
    absent = [spec for path, spec in wanted.specs.items() if path not in stored]
    typed = [*(["_id"] if wanted.with_ids or absent else []), *(path for path in wanted.specs if path in stored)]
    whole = bool(absent) or wanted.with_documents
    needed = [*typed, *(["_deleted"] if entry.deleted else []), *(reader.of_documents if whole else [])]
    columns = list(dict.fromkeys([*needed, *(_STORED_VERSIONS if wanted.with_versions else ())]))
    block, types = None if by_group else reader.open(columns), {path: stored[path] for path in typed}
    # Documents are much longer than the columns made of them: those of one row group are in memory at a time.
    steps = [range(group, group + 1) for group in reader.groups] if absent or by_group else [reader.groups]

    def unpack(groups: range, opened: Block) -> BlockRows:
        table, choice = read_arrow(opened, columns, groups=groups), _Choice(wanted, types, absent)
        if not absent:
            return _from_table(reader, groups, table, choice)
        # Columns that are made of documents: only of some of them at once these are in memory another two times.
        starts = range(0, table.num_rows, _ROWS_AT_ONCE)
        return _joined_rows([_from_table(reader, groups, table.slice(at, _ROWS_AT_ONCE), choice) for at in starts])

    def read(groups: range) -> Callable[[], BlockRows]:
        return partial(unpack, groups, block or reader.open(columns, groups))

    return [partial(read, groups) for groups in steps]


def is_heavy(shelf: Shelf, entry: BlockEntry, wanted: ColumnRequest) -> bool:
    """Whether the documents of a block are read, and not only columns. No requests."""
    return wanted.with_documents or not wanted.specs.keys() <= {stats.path for stats in shelf.stats(entry)}


@dataclass(frozen=True, slots=True)
class _Choice:
    wanted: ColumnRequest
    types: Mapping[str, str]
    """Of the columns that the block has."""
    absent: Sequence[ColumnSpec]
    """The others, which are made of its documents."""


def _from_table(reader: _BlockReader, groups: range, table: pa.Table, choice: _Choice) -> BlockRows:
    """What is wanted of some row groups that were read."""
    wanted, types = choice.wanted, dict(choice.types)
    deleted = table.column("_deleted") if reader.entry.deleted else None
    if "_doc" in table.column_names:
        table = _mapped(reader, table)
    besides = {"_deleted", "_doc", *_STORED_VERSIONS}
    columns = {name: table.column(name) for name in table.column_names if name not in besides}
    if choice.absent:
        ids = _ids(columns, types["_id"], table.column("_doc"), name=reader.key)
        found = _from_documents(_documents(table, deleted), choice.absent, ids, name=reader.key)
        columns |= found.columns
        types |= found.types
    chosen = [*(["_id"] if wanted.with_ids else []), *wanted.specs]
    columns = {name: column for name, column in columns.items() if name.removeprefix(KIND_PREFIX) in chosen}
    if wanted.with_documents:
        columns[DOCUMENT] = table.column("_doc")
    elif rows := _elsewhere(columns):
        columns[DOCUMENT] = _sparse(rows, reader.cells(rows, table, groups), table.num_rows)
    types = {path: types[path] for path in chosen}
    if wanted.with_versions:
        columns |= _versions(reader.entry, table)
        types |= VERSION_TYPES
    return BlockRows(Portion(_as_table(columns), types), deleted)


def _mapped(reader: _BlockReader, table: pa.Table) -> pa.Table:
    """The same rows with their documents as the shelf shows them; what is left of a deleted one tells its id."""
    upgrades, entry = reader.shelf.upgrades, reader.entry
    if not upgrades.is_old(entry):
        return table
    cells, numbers = _cells(table), table.column("_rev").to_pylist()
    gone = table.column("_deleted").to_pylist() if entry.deleted else [False] * len(cells)
    shown = [
        cell if is_gone else upgrades.document(cell, max(entry.shape, number or entry.run))
        for cell, number, is_gone in zip(cells, numbers, gone, strict=True)
    ]
    place = table.column_names.index("_doc")
    return table.set_column(place, "_doc", _chunked(texts_of(shown)))


def _versions(entry: BlockEntry, table: pa.Table) -> dict[str, pa.ChunkedArray]:
    """The columns of versions, with the block's number where rows were written before it was known."""
    import pyarrow.compute as pc

    revisions, sequences = (table.column(name) for name in _STORED_VERSIONS)
    if not entry.rev_first:
        revisions = pc.if_else(pc.equal(revisions, scalar_of(0)), scalar_of(entry.run), revisions)
    return dict(zip(VERSION_TYPES, (revisions, sequences), strict=True))


@dataclass(frozen=True, slots=True)
class _BlockReader:
    """One block, whole or by its map."""

    shelf: Shelf
    entry: BlockEntry
    block: Block | None
    page_map: PageMap | None
    groups: range

    @classmethod
    def of(cls, shelf: Shelf, entry: BlockEntry, low: bytes, high: bytes | None, whole_bytes_max: int) -> _BlockReader:
        if entry.length <= whole_bytes_max and shelf.known_map(entry) is None:
            block = shelf.whole(entry)
            return cls(shelf, entry, block, None, range(block.groups))
        page_map = shelf.learn([entry])[0][entry.name]
        return cls(shelf, entry, None, page_map, _groups_between(page_map, low, high))

    @property
    def key(self) -> str:
        return self.shelf.block_key(self.entry.name)

    @property
    def of_documents(self) -> list[str]:
        """The columns that tell what documents are now."""
        is_old = self.shelf.upgrades.is_old(self.entry)
        return ["_doc", *(["_rev"] if is_old else []), *(["_deleted"] if is_old and self.entry.deleted else [])]

    def open(self, columns: Sequence[str], groups: range | None = None) -> Block:
        """The block, with some columns of row groups; of those that are wanted if none are named."""
        if self.block is not None:
            return self.block
        assert self.page_map is not None
        parts = parts_for(self.page_map, columns, groups=self.groups if groups is None else groups)
        bodies = self.shelf.ranges(self.entry, [ByteRange(part.offset, part.length) for part in parts])
        return assemble_block(self.page_map, zip(parts, bodies, strict=True))

    def cells(self, rows: Sequence[int], table: pa.Table, groups: range) -> list[bytes]:
        """The documents of some of the rows of the table that was read from row groups, as the shelf shows them."""
        import pyarrow as pa

        places = array_of(rows, pa.int64())
        if "_doc" in table.column_names:
            return _cells(table.select(["_doc"]).take(places))
        if self.page_map is not None and self.page_map.pages is not None:
            first = sum(group.rows for group in self.page_map.groups[: groups.start])
            return _page_cells(self.shelf, self.entry, self.page_map, [first + row for row in rows])
        names = self.of_documents
        return _cells(_mapped(self, read_arrow(self.open(names), names, groups=groups).take(places)))


def _page_cells(shelf: Shelf, entry: BlockEntry, page_map: PageMap, rows: Sequence[int]) -> list[bytes]:
    """The documents of some rows of a block, which come in ascending order, as the shelf shows them."""
    assert page_map.pages is not None
    wanted: dict[int, list[int]] = {}
    for row in rows:
        page = bisect_right(page_map.first_rows, row) - 1
        wanted.setdefault(page, []).append(row - page_map.first_rows[page])
    pages = list(wanted)
    found: list[bytes] = []
    for start in range(0, len(pages), _PAGES_AT_ONCE):
        spans = [
            ByteRange(page_map.offsets[page], page_map.pages[page].length) for page in pages[start:][:_PAGES_AT_ONCE]
        ]
        for page, span, body in zip(pages[start:], spans, shelf.ranges(entry, spans), strict=False):
            stored = read_page_rows(body, PageRef(page_map, page, span.start, span.length))
            shown = rows_shown(shelf, entry, [stored[place] for place in wanted[page]])
            found += [row.cell for _, row in shown]
    return found


def _groups_between(page_map: PageMap, low: bytes, high: bytes | None) -> range:
    """The row groups in which keys of a range may be; at least one."""
    if not low and high is None:
        return range(len(page_map.groups))  # without unpacking the keys
    first = max(bisect_right(page_map.keys, low) - 1, 0)
    last = max((len(page_map.keys) if high is None else bisect_left(page_map.keys, high)) - 1, first)
    if page_map.pages is None:
        return range(first, last + 1)
    ends = list(accumulate(group.pages for group in page_map.groups))
    return range(bisect_right(ends, first), bisect_right(ends, last) + 1)


# --- cells that a column does not have ---


def _elsewhere(columns: Mapping[str, pa.ChunkedArray]) -> list[int]:
    """The rows that have a cell elsewhere, in order."""
    found = [elsewhere_rows(column) for name, column in columns.items() if name.startswith(KIND_PREFIX)]
    return sorted(set().union(*found))


def _sparse(rows: Sequence[int], cells: Sequence[bytes], count: int) -> pa.ChunkedArray:
    """A column of documents in which only some rows have one."""
    import pyarrow as pa

    documents: list[bytes | None] = [None] * count
    for row, cell in zip(rows, cells, strict=True):
        documents[row] = cell
    return pa.chunked_array([texts_of(documents)])


# --- columns that a block does not have ---


def _ids(columns: Mapping[str, pa.ChunkedArray], kind: str, texts: pa.ChunkedArray, *, name: str) -> list[Any]:
    import pyarrow as pa

    kinds = columns.get(f"{KIND_PREFIX}_id")
    ids = decode_column(columns["_id"], kinds, kind, name=name)
    rows = elsewhere_rows(kinds)
    cells = texts.take(array_of(rows, pa.int64())).cast(pa.large_binary()).to_pylist() if rows else []
    for row, cell in zip(rows, cells, strict=True):
        ids[row] = read_id(cell, name=name)
    return ids


def _documents(table: pa.Table, deleted: pa.ChunkedArray | None) -> list[bytes | None]:
    cells = _cells(table)
    if deleted is None:
        return list(cells)
    return [None if gone else cell for gone, cell in zip(deleted.to_pylist(), cells, strict=True)]


def _cells(table: pa.Table) -> list[bytes]:
    import pyarrow as pa

    cells: list[bytes] = table.column("_doc").cast(pa.large_binary()).to_pylist()
    return cells


@dataclass(frozen=True, slots=True)
class _BlockColumns:
    columns: dict[str, pa.ChunkedArray]
    types: dict[str, str]


def _from_documents(
    documents: Sequence[bytes | None], specs: Sequence[ColumnSpec], ids: Sequence[Any], *, name: str
) -> _BlockColumns:
    found = _BlockColumns({}, {})
    for path, column in encode_documents(documents, specs, ids, name=name).items():
        found.types[path] = column.type
        found.columns[path] = _chunked(column.cells)
        if column.kinds is not None:
            found.columns[KIND_PREFIX + path] = _chunked(column.kinds)
    return found


def _chunked(cells: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    return cells if isinstance(cells, pa.ChunkedArray) else pa.chunked_array([cells])


def _as_table(columns: Mapping[str, pa.ChunkedArray]) -> pa.Table:
    import pyarrow as pa

    return pa.table(dict(columns))
