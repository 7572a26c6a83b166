"""One page of a Parquet column, read without the rest of the file.

Only one layout is known: a data page (version 1) of a REQUIRED byte array column, PLAIN, compressed
by zstd. That is what `wormdb.format.block` writes for `_doc`; anything else is refused. The
header is Thrift's compact protocol, of which the few parts that Parquet uses are read here. Nothing
in the bytes is believed before it is checked.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import zstandard

from wormdb.errors import CorruptionError
from wormdb.format.frame import corrupt
from wormdb.format.sidecar import CheckedRange, PageMap, Pages, PageSpan, RowGroup, Versions, checksum, separators
from wormdb.settings import PAGE_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HEADER_BYTES_MAX", "PageHeader", "map_file", "page_cells", "read_header"]

HEADER_BYTES_MAX: Final = 4096
"""A header without statistics takes about 30 bytes."""

_DATA_PAGE: Final = 0
_PLAIN: Final = 0
_DEPTH_MAX: Final = 8
_FIELDS_MAX: Final = 64
_VARINT_BYTES_MAX: Final = 10
_LENGTH: Final = struct.Struct("<I")

# Thrift's compact types
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _STRUCT = 1, 2, 3, 7, 8, 12
_INTEGERS: Final = frozenset({4, 5, 6})


class _UnreadableError(Exception):
    """The header is not a Thrift struct of the expected form; turned into CorruptionError."""


@dataclass(frozen=True, slots=True)
class PageHeader:
    """What a page says of itself; `header_bytes` is where its data begins."""

    header_bytes: int
    stored_bytes: int
    raw_bytes: int
    values: int
    crc: int | None


def read_header(data: bytes | memoryview, *, name: str) -> PageHeader:
    """The header at the beginning of `data`. No requests.

    Raises CorruptionError naming object `name` if it is not one of the layout above.
    """
    view = memoryview(data)[:HEADER_BYTES_MAX]
    try:
        fields, end = _read_struct(view, 0, 0)
        if fields.get(1) != _DATA_PAGE:
            raise _UnreadableError(f"page type {fields.get(1)} is not a data page")
        inner = fields.get(5)
        if not isinstance(inner, dict) or inner.get(2) != _PLAIN:
            raise _UnreadableError("it is not PLAIN")
        stored_bytes, raw_bytes, values = (_size(fields, 3), _size(fields, 2), _size(inner, 1))
        crc = fields.get(4)
    except (_UnreadableError, IndexError) as error:
        corrupt(name, f"a page header cannot be read: {error}")
    return PageHeader(end, stored_bytes, raw_bytes, values, None if crc is None else crc & 0xFFFFFFFF)


def page_cells(page: bytes, *, name: str, rows: int, bytes_max: int) -> list[memoryview]:
    """The `rows` values of a whole page: header and data, nothing more. No requests.

    Raises CorruptionError naming object `name`: a wrong length, checksum, count, or more than
    `bytes_max` bytes after unpacking.
    """
    header = read_header(page, name=name)
    body = memoryview(page)[header.header_bytes :]
    if len(body) != header.stored_bytes:
        corrupt(name, f"a page should hold {header.stored_bytes} bytes and holds {len(body)}")
    if header.values != rows:
        corrupt(name, f"a page should hold {rows} rows and says {header.values}")
    if header.crc is not None and crc32(body) != header.crc:
        corrupt(name, "a page's checksum is wrong")
    if header.raw_bytes > bytes_max:
        corrupt(name, f"a page would unpack to {header.raw_bytes} bytes; {bytes_max} are allowed")
    return _split(_unpack(body, header.raw_bytes, name), rows, name)


def _unpack(body: memoryview, raw_bytes: int, name: str) -> memoryview:
    if raw_bytes == 0 and not body:
        return body
    try:
        if zstandard.frame_content_size(body) != raw_bytes:
            corrupt(name, "a page's compressed data declares another length")
        raw = zstandard.ZstdDecompressor().decompress(body, max_output_size=raw_bytes, allow_extra_data=False)
    except zstandard.ZstdError as error:
        corrupt(name, f"a page cannot be unpacked: {error}")
    if len(raw) != raw_bytes:
        corrupt(name, "a page unpacks to another length")
    return memoryview(raw)


def _split(raw: memoryview, rows: int, name: str) -> list[memoryview]:
    cells, at, end = [], 0, len(raw)
    for _ in range(rows):
        if at + 4 > end:
            corrupt(name, "a page ends before its last row")
        start = at + 4
        at = start + _LENGTH.unpack_from(raw, at)[0]
        if at > end:
            corrupt(name, "a value reaches over the end of its page")
        cells.append(raw[start:at])
    if at != end:
        corrupt(name, "a page goes on after its last row")
    return cells


def _size(fields: dict[int, Any], number: int) -> int:
    value = fields.get(number)
    if type(value) is not int or value < 0:
        raise _UnreadableError(f"field {number} is not a size")
    return value


def _read_struct(view: memoryview, at: int, depth: int) -> tuple[dict[int, Any], int]:
    if depth > _DEPTH_MAX:
        raise _UnreadableError("it is nested too deep")
    fields: dict[int, Any] = {}
    number = 0
    for _ in range(_FIELDS_MAX):
        head = view[at]
        at += 1
        if head == 0:
            return fields, at
        kind, step = head & 0x0F, head >> 4
        if step:
            number += step
        else:
            number, at = _read_int(view, at)
        if number in fields:
            raise _UnreadableError(f"field {number} comes twice")
        fields[number], at = _read_value(view, at, kind, depth)
    raise _UnreadableError("it has too many fields")


def _read_value(view: memoryview, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, at
    if kind in _INTEGERS:
        return _read_int(view, at)
    if kind == _STRUCT:
        return _read_struct(view, at, depth + 1)
    if kind == _BYTE:
        return view[at], at + 1
    if kind in (_BINARY, _DOUBLE):
        length, at = _read_varint(view, at) if kind == _BINARY else (8, at)
        if at + length > len(view):
            raise _UnreadableError("a field reaches over its end")
        return bytes(view[at : at + length]), at + length
    raise _UnreadableError(f"type {kind} does not occur in page headers")


def _read_int(view: memoryview, at: int) -> tuple[int, int]:
    number, at = _read_varint(view, at)
    return (number >> 1) ^ -(number & 1), at


def _read_varint(view: memoryview, at: int) -> tuple[int, int]:
    number = 0
    for place in range(_VARINT_BYTES_MAX):
        byte = view[at]
        at += 1
        number |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return number, at
    raise _UnreadableError("a number does not end")


# --- Making the page map of a Parquet file that was just written.

_NAME: Final = "a new block"
_FOOTER_TAIL_BYTES: Final = 8  # the footer's length and the magic `PAR1` end every Parquet file


def map_file(parquet: bytes, digest: bytes, keys: Sequence[bytes], versions: Versions, *, first_cell: bytes) -> PageMap:
    """The page map of a file whose last column is `_doc` and begins with `first_cell`. No requests.

    If the pages have a layout that `wormdb.format.page` does not know, as a later pyarrow might write,
    the map goes without them (`pages` is None), and readers fetch a row group instead of a page.
    """
    groups, chunks = _row_groups(parquet)
    pages = _pages(parquet, chunks, groups, first_cell)
    runs = [group.rows for group in groups]
    offsets: list[int] = []
    if pages is not None:
        groups = [RowGroup(group.rows, len(own), group.chunks) for group, own in zip(groups, pages, strict=True)]
        for own, chunk in zip(pages, chunks, strict=True):
            offsets += list(accumulate((page.length for page in own), initial=chunk.offset))[:-1]
        runs = [page.rows for own in pages for page in own]
    first_rows = tuple(accumulate(runs, initial=0))[:-1]
    found = Pages(
        keys=separators(keys, first_rows),
        first_rows=first_rows,
        spans=None if pages is None else tuple(page for own in pages for page in own),
        offsets=tuple(offsets),
    )
    return PageMap(
        block=_NAME,
        rows=len(keys),
        length=len(parquet),
        sha256=digest,
        footer=_footer(parquet),
        groups=tuple(groups),
        versions=versions,
        unpack_pages=lambda: found,
    )


def _footer(parquet: bytes) -> CheckedRange:
    length = int.from_bytes(parquet[-_FOOTER_TAIL_BYTES:-4], "little") + _FOOTER_TAIL_BYTES
    offset = len(parquet) - length
    return CheckedRange("footer", offset, length, checksum(memoryview(parquet)[offset:]))


def _row_groups(parquet: bytes) -> tuple[list[RowGroup], list[CheckedRange]]:
    """All row groups with their chunks, and the chunks of `_doc` alone."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(pa.BufferReader(parquet))
    names = file.schema_arrow.names
    view = memoryview(parquet)
    groups = []
    for place in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(place)
        assert group.num_columns == len(names), "every column is one chunk"
        chunks = []
        for column, name in enumerate(names):
            meta = group.column(column)
            offset = min(meta.data_page_offset, meta.dictionary_page_offset or meta.data_page_offset)
            length = meta.total_compressed_size
            chunks.append(CheckedRange(name, offset, length, checksum(view[offset : offset + length])))
        groups.append(RowGroup(group.num_rows, 0, tuple(chunks)))
    return groups, [group.chunks[-1] for group in groups]


def _pages(
    parquet: bytes, chunks: Sequence[CheckedRange], groups: Sequence[RowGroup], first_cell: bytes
) -> list[list[PageSpan]] | None:
    try:
        pages = [_chunk_pages(parquet, chunk) for chunk in chunks]
        first = parquet[chunks[0].offset : chunks[0].offset + pages[0][0].length]
        cells = page_cells(first, name=_NAME, rows=pages[0][0].rows, bytes_max=PAGE_BYTES_MAX)
    except CorruptionError:
        # These bytes are fresh from the writer: not damaged, only of another layout.
        return None
    counted = all(sum(page.rows for page in own) == group.rows for own, group in zip(pages, groups, strict=True))
    return pages if counted and cells[0] == first_cell else None


def _chunk_pages(parquet: bytes, chunk: CheckedRange) -> list[PageSpan]:
    view = memoryview(parquet)[: chunk.offset + chunk.length]
    pages, at = [], chunk.offset
    while at < len(view):
        header = read_header(view[at:], name=_NAME)
        length = header.header_bytes + header.stored_bytes
        pages.append(PageSpan(length, header.values, checksum(view[at : at + length])))
        at += length
    if at != len(view) or not pages:
        raise CorruptionError(f"{_NAME} has pages of unknown layout", key=_NAME)
    return pages
