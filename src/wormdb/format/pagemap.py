"""Making the page map of a Parquet file that was just written."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final

from wormdb.errors import CorruptionError
from wormdb.format.page import page_cells, read_header
from wormdb.format.sidecar import PageMap, Pages, PageSpan, Part, RowGroup, Versions, checksum, separators
from wormdb.settings import PAGE_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["map_file"]

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


def _footer(parquet: bytes) -> Part:
    length = int.from_bytes(parquet[-_FOOTER_TAIL_BYTES:-4], "little") + _FOOTER_TAIL_BYTES
    offset = len(parquet) - length
    return Part("footer", offset, length, checksum(memoryview(parquet)[offset:]))


def _row_groups(parquet: bytes) -> tuple[list[RowGroup], list[Part]]:
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
            chunks.append(Part(name, offset, length, checksum(view[offset : offset + length])))
        groups.append(RowGroup(group.num_rows, 0, tuple(chunks)))
    return groups, [group.chunks[-1] for group in groups]


def _pages(
    parquet: bytes, chunks: Sequence[Part], groups: Sequence[RowGroup], first_cell: bytes
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


def _chunk_pages(parquet: bytes, chunk: Part) -> list[PageSpan]:
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
