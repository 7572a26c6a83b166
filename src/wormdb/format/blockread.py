"""Reading blocks: one page, some columns, or everything, each checked before it is believed."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from hashlib import sha256 as _sha256
from mmap import mmap
from typing import TYPE_CHECKING, Any, Final

from wormdb.errors import InvalidRequestError, UnsupportedFormatError
from wormdb.format.block import FORMAT_VERSION, RESERVED, Row
from wormdb.format.columns import ELSEWHERE, KIND_PREFIX, decode_column
from wormdb.format.frame import corrupt
from wormdb.format.json import encode
from wormdb.format.key import encode_key
from wormdb.format.page import page_cells
from wormdb.format.project import read_id
from wormdb.format.sidecar import CheckedRange, PageMap, PageRef, checksum
from wormdb.settings import PAGE_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = [
    "Block",
    "assemble_block",
    "open_block",
    "parts_for",
    "read_arrow",
    "read_batches",
    "read_columns",
    "read_documents",
    "read_page",
    "read_page_rows",
]

_TYPE_KEY: Final = "wormdb.type."


@dataclass(frozen=True, slots=True)
class Block:
    """A Parquet file whose bytes, as far as they are there, are what was written."""

    name: str
    file: pq.ParquetFile
    types: dict[str, str]
    """The type of each typed column, by path."""

    @property
    def groups(self) -> int:
        """How many row groups it has."""
        return int(self.file.metadata.num_row_groups)


# --- opening ---


def open_block(data: bytes | memoryview, *, name: str, sha256: bytes) -> Block:
    """The whole block stored as object `name`; `sha256` is what the root or sidecar says. No requests.

    Raises CorruptionError if these are not the bytes that were written.
    """
    if _sha256(data).digest() != sha256:
        corrupt(name, "its SHA-256 is not the one recorded for it")
    return _open(data, name)


def parts_for(
    page_map: PageMap, columns: Iterable[str], *, groups: Iterable[int] | None = None
) -> tuple[CheckedRange, ...]:
    """The ranges to read for some columns of some row groups (all by default), footer included.

    No requests; raises InvalidRequestError for a column that the block does not have.
    """
    chosen = page_map.groups if groups is None else [page_map.groups[place] for place in groups]
    known = {chunk.column for chunk in page_map.groups[0].chunks}
    wanted = set()
    for column in columns:
        if column not in known:
            _refuse_column(page_map.block, column)
        # pyarrow reads `a.b` along with `a`; companions go with their columns.
        wanted |= {name for name in known if name.removeprefix(KIND_PREFIX).startswith(f"{column}.")}
        wanted |= {column, KIND_PREFIX + column}
    return (page_map.footer, *(chunk for group in chosen for chunk in group.chunks if chunk.column in wanted))


def assemble_block(page_map: PageMap, parts: Iterable[tuple[CheckedRange, bytes]]) -> Block:
    """A block of which only `parts` were fetched; reading others from it is an error. No requests.

    Raises CorruptionError naming the block if a part is not what was written.
    """
    # Zeros stand for what was not fetched; unlike a bytearray, this takes no memory for pages never touched.
    image = mmap(-1, page_map.length)
    for part, data in parts:
        if len(data) != part.length or checksum(data) != part.checksum:
            corrupt(page_map.block, f"the part {part.column} at byte {part.offset} is not what was written")
        image[part.offset : part.offset + part.length] = data
    return _open(image, page_map.block)


def _open(data: bytes | memoryview | mmap, name: str) -> Block:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(pa.py_buffer(data)))
        metadata = file.schema_arrow.metadata or {}
    except (pa.ArrowException, OSError, ValueError) as error:
        corrupt(name, f"it is not a Parquet file: {error}")
    version = metadata.get(b"wormdb.format", b"")
    if version.isdigit() and int(version) > FORMAT_VERSION:
        raise UnsupportedFormatError(
            f"{name} cannot be read",
            reason=f"it is a block of format version {int(version)}; this wormdb knows up to {FORMAT_VERSION}",
            fix="upgrade wormdb",
            key=name,
        )
    types = {
        key.decode().removeprefix(_TYPE_KEY): value.decode()
        for key, value in metadata.items()
        if key.startswith(_TYPE_KEY.encode())
    }
    if not version.isdigit() or not {*RESERVED, *types} <= set(file.schema_arrow.names) or "_id" not in types:
        corrupt(name, "it is Parquet, but not a block: it lacks what every block has")
    return Block(name, file, types)


# --- reading ---


def read_columns(block: Block, names: Sequence[str], *, groups: Sequence[int] | None = None) -> dict[str, list[Any]]:
    """Exact values of columns: MISSING, None, ELSEWHERE (look into the document), or the value.

    `names` are paths of typed columns, `_id`, `_rev`, `_seq`, `_deleted` or `_doc` (text). No requests;
    raises CorruptionError, and InvalidRequestError for a column that the block does not have.
    """
    table = read_arrow(block, names, groups=groups)
    return {name: _values(block, table, name) for name in names}


def read_arrow(block: Block, names: Sequence[str], *, groups: Sequence[int] | None = None) -> pa.Table:
    """Columns as they are stored, and the companion `$kind.<path>` of each that has one, in Arrow's own types.

    `names` as for `read_columns`; docs/format/objects.md says what companions mean. No Python object is
    made for a value. No requests; raises CorruptionError, and InvalidRequestError for a column that the block
    does not have.
    """
    import pyarrow as pa

    wanted = _with_kinds(block, names)
    rows = range(block.groups) if groups is None else groups
    try:
        # pyarrow reads `a.b` along with `a`.
        return block.file.read_row_groups(list(rows), columns=wanted).select(wanted)
    except (pa.ArrowException, OSError, ValueError) as error:
        corrupt(block.name, f"its columns cannot be read: {error}")


def read_batches(block: Block, names: Sequence[str], group: int, rows: int) -> Iterator[pa.Table]:
    """One row group as `read_arrow` reads it, at most `rows` rows at a time.

    In memory are the row group as it is stored, a page of each column, and what was yielded. No requests; raises as
    `read_arrow`.
    """
    import pyarrow as pa

    wanted = _with_kinds(block, names)
    try:
        batches = block.file.iter_batches(rows, row_groups=[group], columns=wanted, use_threads=False)
        for batch in batches:
            yield pa.Table.from_batches([batch]).select(wanted)
    except (pa.ArrowException, OSError, ValueError) as error:
        corrupt(block.name, f"its columns cannot be read: {error}")


def _with_kinds(block: Block, names: Sequence[str]) -> list[str]:
    """Columns, and the companion of each that has one; raises InvalidRequestError for one that is not there."""
    known = set(block.file.schema_arrow.names)
    for name in names:
        if name not in known or name.startswith(KIND_PREFIX):
            _refuse_column(block.name, name)
    return [*names, *(KIND_PREFIX + name for name in names if KIND_PREFIX + name in known)]


def read_documents(block: Block, *, groups: Sequence[int] | None = None) -> Iterator[Row]:
    """All rows in order of their ids, deletions too; one row group in memory at a time.

    No requests; raises CorruptionError.
    """
    for group in range(block.groups) if groups is None else groups:
        table = read_arrow(block, RESERVED, groups=[group])
        ids, cells = _values(block, table, "_id"), _cells(table)
        if ELSEWHERE in ids:
            known = zip(ids, cells, strict=True)
            ids = [read_id(cell, name=block.name) if found is ELSEWHERE else found for found, cell in known]
        revs, seqs, deleted = (table.column(name).to_pylist() for name in ("_rev", "_seq", "_deleted"))
        if True not in deleted:
            yield from map(Row, ids, revs, seqs, cells)
            continue
        for identity, rev, seq, gone, cell in zip(ids, revs, seqs, deleted, cells, strict=True):
            yield _with_fate(identity, (rev, seq, _fate(identity, cell) if gone else 0), cell)


def read_page(page: bytes, ref: PageRef, keys: Sequence[bytes]) -> list[Row]:
    """Those of the rows whose ids have the encoded `keys`, which ascend, that the page has. No requests.

    Where few of many rows are wanted, the ids of few are decoded. Raises CorruptionError naming the block if one byte
    of the page is not what was written.
    """
    cells, name = _checked_cells(page, ref), ref.map.block
    first, low = ref.map.first_rows[ref.page], 0
    ids: dict[int, Any] = {}

    def key_at(place: int) -> bytes:
        ids[place] = read_id(cells[place], name=name)
        return encode_key(ids[place])

    found = []
    for key in keys:
        low = bisect_left(range(len(cells)), key, lo=low, key=key_at)
        if low < len(cells) and key_at(low) == key:
            found.append(_row(ref.map, first + low, ids[low], cells[low]))
    return found


def read_page_rows(page: bytes, ref: PageRef) -> list[Row]:
    """All rows of a page, for fetching many ids of it at once. No requests; raises CorruptionError."""
    first, name = ref.map.first_rows[ref.page], ref.map.block
    cells = _checked_cells(page, ref)
    return [_row(ref.map, first + place, read_id(cell, name=name), cell) for place, cell in enumerate(cells)]


def _checked_cells(page: bytes, ref: PageRef) -> list[memoryview]:
    assert ref.map.pages is not None, "a page reference comes from a map with pages"
    span = ref.map.pages[ref.page]
    if len(page) != span.length or checksum(page) != span.checksum:
        corrupt(ref.map.block, f"the page at byte {ref.offset} is not what was written")
    return page_cells(page, name=ref.map.block, rows=span.rows, bytes_max=PAGE_BYTES_MAX)


def _row(page_map: PageMap, row: int, identity: Any, cell: memoryview) -> Row:
    return _with_fate(identity, page_map.versions.at(row), bytes(cell))


def _fate(identity: Any, cell: bytes) -> int:
    """Of a deleted row: whether its cell holds more than the id."""
    return 1 if cell == encode({"_id": identity}) else 2


def _with_fate(identity: Any, version: tuple[int, int, int], cell: bytes) -> Row:
    rev, seq, fate = version
    return Row(identity, rev, seq, None if fate else cell, cell if fate == 2 else None)


def _values(block: Block, table: pa.Table, name: str) -> list[Any]:
    if name not in block.types:
        values: list[Any] = table.column(name).to_pylist()
        return values
    companion = KIND_PREFIX + name
    kinds = table.column(companion) if companion in table.column_names else None
    return decode_column(table.column(name), kinds, block.types[name], name=block.name)


def _cells(table: pa.Table) -> list[bytes]:
    import pyarrow as pa

    values: list[bytes] = table.column("_doc").cast(pa.large_binary()).to_pylist()
    return values


def _refuse_column(block: str, column: str) -> None:
    raise InvalidRequestError(
        f"{block} has no column {column!r}", reason="it was written without it", fix="read the documents instead"
    )
