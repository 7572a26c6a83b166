"""Rows of one block: some by their keys, or all in a range, with as few bytes as that takes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Final

from wormdb.format.block import RESERVED, Row
from wormdb.format.blockread import assemble_block, parts_for, read_documents, read_page, read_page_rows
from wormdb.format.key import encode_key
from wormdb.format.sidecar import PageMap, PageRef, locate_key
from wormdb.settings import KIB
from wormdb.storage.store import ByteRange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wormdb.engine.blocks.shelf import Shelf
    from wormdb.format.blocklist import BlockEntry

__all__ = ["rows_at", "rows_between", "rows_by_key", "rows_shown"]

BLOCK_WHOLE_BYTES: Final = 64 * KIB
"""A block up to this size is read whole, even if a part of it is wanted: its sidecar would cost a request more."""

_PAGES_AT_ONCE: Final = 64
_SEARCH_ROWS: Final = 4
"""How many rows are unpacked one after the other in the time in which one of a page is found, about."""


def rows_by_key(shelf: Shelf, entry: BlockEntry, page_map: PageMap, keys: Sequence[bytes]) -> dict[bytes, Row]:
    """Those of the rows with these keys that the block has. 1 GET a page, one for pages that lie close together.

    Nothing for rows that the shelf keeps. Raises CorruptionError, SnapshotTooOldError.
    """
    kept = {key: row for key in keys if (row := shelf.find_row(entry, key)) is not None}
    if len(kept) == len(keys):
        return kept
    found = _read_by_key(shelf, entry, page_map, [key for key in keys if key not in kept])
    for key, row in found.items():
        shelf.keep_row(entry, key, row)
    return kept | found


def _read_by_key(shelf: Shelf, entry: BlockEntry, page_map: PageMap, keys: Sequence[bytes]) -> dict[bytes, Row]:
    places: dict[int, list[bytes]] = {}
    for key in keys:
        ref = locate_key(page_map, key)
        if ref is not None:
            places.setdefault(ref.page if isinstance(ref, PageRef) else ref.group, []).append(key)
    if page_map.pages is None:
        return _pick(rows_shown(shelf, entry, _group_rows(shelf, entry, page_map, places)), keys)
    found: dict[bytes, Row] = {}
    wanted = sorted(places)
    for start in range(0, len(wanted), _PAGES_AT_ONCE):
        refs = [_page_ref(page_map, page) for page in wanted[start : start + _PAGES_AT_ONCE]]
        bodies = shelf.ranges(entry, [ByteRange(ref.offset, ref.length) for ref in refs])
        for ref, body in zip(refs, bodies, strict=True):
            found |= _from_page(shelf, entry, ref, body, places[ref.page])
    return found


def rows_between(
    shelf: Shelf, entry: BlockEntry, low: bytes = b"", high: bytes | None = None
) -> Iterator[tuple[bytes, Row]]:
    """The rows with keys from `low` up to but not including `high`, in order of key.

    1 GET if all of the block is wanted, or it is small; else 1 for its page map unless that is kept, and 1 for each
    row group in which the range has pages. One row group is unpacked at a time. Raises CorruptionError,
    SnapshotTooOldError.
    """
    if low <= entry.key_first and (high is None or entry.key_last < high):
        return rows_shown(shelf, entry, read_documents(shelf.whole(entry)))
    return _between(rows_shown(shelf, entry, _rows_near(shelf, entry, low, high)), low, high)


def rows_at(shelf: Shelf, entry: BlockEntry, start: int, stop: int) -> Iterator[tuple[bytes, Row]]:
    """The rows of a block from place `start` up to but not including `stop`, in order of key.

    1 GET if all of them are wanted, or the block is small; else 1 for its page map unless that is kept, and 1 for each
    row group that has some. Raises CorruptionError, SnapshotTooOldError.
    """
    if (start == 0 and stop >= entry.rows) or entry.length <= BLOCK_WHOLE_BYTES:
        return rows_shown(shelf, entry, islice(read_documents(shelf.whole(entry)), start, stop))
    page_map = shelf.learn([entry])[0][entry.name]
    ends = list(accumulate(group.rows for group in page_map.groups))
    first, last = bisect_right(ends, start), bisect_left(ends, stop)
    begin = ends[first - 1] if first else 0
    rows = _group_rows(shelf, entry, page_map, range(first, min(last + 1, len(ends))))
    return rows_shown(shelf, entry, islice(rows, start - begin, stop - begin))


def _between(rows: Iterable[tuple[bytes, Row]], low: bytes, high: bytes | None) -> Iterator[tuple[bytes, Row]]:
    for key, row in rows:
        if high is not None and key >= high:
            return
        if key >= low:
            yield key, row


def _rows_near(shelf: Shelf, entry: BlockEntry, low: bytes, high: bytes | None) -> Iterable[Row]:
    """The rows of a part of the block in which the range lies."""
    if entry.length <= BLOCK_WHOLE_BYTES and shelf.known_map(entry) is None:
        return read_documents(shelf.whole(entry))
    page_map = shelf.learn([entry])[0][entry.name]
    first = max(bisect_right(page_map.keys, low) - 1, 0)
    last = len(page_map.keys) if high is None else bisect_left(page_map.keys, high)
    if page_map.pages is None:
        return _group_rows(shelf, entry, page_map, range(first, last))
    return _page_rows(shelf, entry, page_map, range(first, last))


def _page_rows(shelf: Shelf, entry: BlockEntry, page_map: PageMap, wanted: range) -> Iterator[Row]:
    """Pages side by side in a row group are one read."""
    ends = list(accumulate(group.pages for group in page_map.groups))
    for start, stop in zip([0, *ends], ends, strict=False):
        refs = [_page_ref(page_map, page) for page in range(max(start, wanted.start), min(stop, wanted.stop))]
        if not refs:
            continue
        begin = refs[0].offset
        (body,) = shelf.ranges(entry, [ByteRange(begin, refs[-1].offset + refs[-1].length - begin)])
        for ref in refs:
            yield from read_page_rows(body[ref.offset - begin : ref.offset - begin + ref.length], ref)


def _group_rows(shelf: Shelf, entry: BlockEntry, page_map: PageMap, groups: Iterable[int]) -> Iterator[Row]:
    for group in groups:
        parts = parts_for(page_map, RESERVED, groups=[group])
        bodies = shelf.ranges(entry, [ByteRange(part.offset, part.length) for part in parts])
        yield from read_documents(assemble_block(page_map, zip(parts, bodies, strict=True)), groups=[group])


def _page_ref(page_map: PageMap, page: int) -> PageRef:
    assert page_map.pages is not None
    return PageRef(page_map, page, page_map.offsets[page], page_map.pages[page].length)


def _from_page(shelf: Shelf, entry: BlockEntry, ref: PageRef, body: bytes, keys: Sequence[bytes]) -> dict[bytes, Row]:
    pages = ref.map.pages
    if pages is None or len(keys) * _SEARCH_ROWS > pages[ref.page].rows:
        return _pick(rows_shown(shelf, entry, read_page_rows(body, ref)), keys)
    return dict(rows_shown(shelf, entry, read_page(body, ref, sorted(keys))))


def _pick(rows: Iterable[tuple[bytes, Row]], keys: Sequence[bytes]) -> dict[bytes, Row]:
    wanted = set(keys)
    return {key: row for key, row in rows if key in wanted}


def rows_shown(shelf: Shelf, entry: BlockEntry, rows: Iterable[Row]) -> Iterator[tuple[bytes, Row]]:
    """Rows with their keys, as the shelf shows them, and with the block's number if they were written before it."""
    if not entry.rev_first:
        rows = (row if row.rev else Row(row.id, entry.run, row.seq, row.document, row.trash) for row in rows)
    if shelf.upgrades.is_old(entry):
        rows = (shelf.upgrades.row(entry, row) for row in rows)
    return ((encode_key(row.id), row) for row in rows)
