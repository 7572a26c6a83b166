"""Lists by places as bytes, a page at a time: what lists say of documents stands column by column over all lists.

Most words are in a few documents, so a list of its own has nothing to pack. A page has about 16 KiB of lists: one
section with their keys and counts, one for each byte of the differences between places, and one for each part of the
payloads. Each is packed by itself, so that numbers of one kind share one code.

The bytes are told in docs/format/objects.md.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from itertools import accumulate, pairwise
from operator import sub
from typing import TYPE_CHECKING, Final

import zstandard

from wormdb.format.frame import HEADER_BYTES, FrameKind, corrupt, decode_frame, decode_message, frame_length
from wormdb.format.list_part import (
    DIRECTORY_DECODER,
    NO_TEXTS,
    VERSION_MAX,
    ListCursor,
    PartDraft,
    StoredList,
    decode_directory,
    decode_ids,
    decode_list,
    fixed_numbers,
    lists_in,
    number_width,
    read_fixed,
    varint,
)
from wormdb.settings import KIB, OBJECT_BYTES_MAX, SIDECAR_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["ColumnPage", "ColumnPages", "names_in", "steps_of"]

COLUMN_PAGE_BYTES: Final = 16 * KIB
"""Of lists in a page before it is packed; a longer list has a page of its own."""
_STEP_BYTES: Final = 4
_MAGIC: Final = b"WORM"
_LIST_BYTES: Final = 3  # of a list beside its key and its entries, about
_PACK_BYTES_MIN: Final = 32
_ZSTD_LEVEL: Final = 3


def steps_of(places: Sequence[int]) -> bytes:
    """Ascending places as differences, of four bytes each with the lowest first. No requests."""
    if not places:
        return b""
    made = array("I", [places[0], *map(sub, places[1:], places)])
    if sys.byteorder == "big":
        made.byteswap()
    return made.tobytes()


# --- Writing.


class ColumnPages:
    """Takes lists in order of key, and puts pages of them into an object. Used by one thread."""

    def __init__(self, part: PartDraft, widths: Sequence[int]) -> None:
        """`widths` are those of the parts of payloads."""
        self._part = part
        self._widths = widths
        self._packer = zstandard.ZstdCompressor(level=_ZSTD_LEVEL)
        self._clear()

    def _clear(self) -> None:
        self._keys: list[bytes] = []
        self._counts: list[int] = []
        self._gone_counts: list[int] = []
        self._steps = bytearray()
        self._gone = bytearray()
        self._columns = [bytearray() for _ in self._widths]
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes of its pages so far."""
        return self._part.size + self._size

    def add(self, key: bytes, steps: bytes, columns: Sequence[bytes], gone: bytes) -> None:
        """The next list: `steps_of` its entries, the parts of their payloads, and `steps_of` its deletions."""
        size = len(key) + _LIST_BYTES + len(steps) + len(gone) + sum(map(len, columns))
        if self._size and self._size + size > COLUMN_PAGE_BYTES:
            self.close()
        self._keys.append(key)
        self._counts.append(len(steps) // _STEP_BYTES)
        self._gone_counts.append(len(gone) // _STEP_BYTES)
        self._steps += steps
        self._gone += gone
        for held, column in zip(self._columns, columns, strict=True):
            held.extend(column)
        self._size += size

    def close(self) -> None:
        """Put what waits into a page of the object."""
        if self._keys:
            sections = [self._heads(), *_planes(self._steps), *_planes(self._gone), *self._columns]
            self._part.add_page(self._keys[0], varint(len(self._keys)) + b"".join(map(self._section, sections)))
            self._clear()

    def _heads(self) -> bytes:
        numbers = [list(map(len, self._keys)), self._counts, self._gone_counts]
        widths = [number_width(max(some)) if any(some) else 0 for some in numbers]
        fixed = (fixed_numbers(some, width) if width else b"" for some, width in zip(numbers, widths, strict=True))
        return bytes(widths) + b"".join(fixed) + b"".join(self._keys)

    def _section(self, body: bytes | bytearray) -> bytes:
        if not body:
            return b"\0"
        packed = self._packer.compress(body) if len(body) >= _PACK_BYTES_MIN else body
        if len(packed) >= len(body):
            return b"".join((varint(len(body)), b"\0", body))
        return b"".join((varint(len(body)), varint(len(packed)), packed))


def _planes(steps: bytearray) -> Iterator[bytes | bytearray]:
    """The lowest byte of each number, the next of each, and so on; nothing stands for zeros."""
    for plane in range(_STEP_BYTES):
        found = steps[plane::_STEP_BYTES]
        yield found if found.strip(b"\0") else b""


# --- Reading.


class ColumnPage:
    """The lists of one page. A value; lists are decoded when they are asked for."""

    __slots__ = ("_columns", "_gone", "_gone_starts", "_name", "_starts", "_steps", "_widths", "keys", "size")

    def __init__(self, data: bytes, widths: Sequence[int], *, name: str) -> None:
        """A page of object `name`, which was checked. No requests; raises CorruptionError."""
        cursor = ListCursor(memoryview(data), name)
        count = cursor.varint()
        heads = ListCursor(_read_section(cursor, name), name)
        lengths, counts, gone = _read_heads(heads, count, name)
        self._name, self._widths = name, tuple(widths)
        self._starts = (0, *accumulate(counts))
        self._gone_starts = (0, *accumulate(gone))
        self._steps = [_read_section(cursor, name) for _ in range(_STEP_BYTES)]
        self._gone = [_read_section(cursor, name) for _ in range(_STEP_BYTES)]
        self._columns = [_read_section(cursor, name) for _ in widths]
        cursor.end()
        ends = (0, *accumulate(lengths))
        body = bytes(heads.take(ends[-1]))
        heads.end()
        self.keys = [body[start:stop] for start, stop in pairwise(ends)]
        """In ascending order."""
        self._check()
        self.size = len(body) + sum(map(len, (*self._steps, *self._gone, *self._columns)))
        """Bytes that it takes, about."""

    def _check(self) -> None:
        entries, gone = self._starts[-1], self._gone_starts[-1]
        for planes, length in ((self._steps, entries), (self._gone, gone)):
            if any(len(plane) not in {0, length} for plane in planes):
                corrupt(self._name, "a page has other places than its lists say")
        if any(len(column) != entries * width for column, width in zip(self._columns, self._widths, strict=True)):
            corrupt(self._name, "a page has other payloads than its lists say")

    def find(self, key: bytes) -> StoredList | None:
        """A list; None if it is not there. Raises CorruptionError."""
        place = bisect_left(self.keys, key)
        return self._list(place) if place < len(self.keys) and self.keys[place] == key else None

    def lists(self) -> Iterator[tuple[bytes, StoredList]]:
        """All of them in order. Raises CorruptionError."""
        return ((key, self._list(place)) for place, key in enumerate(self.keys))

    def _list(self, place: int) -> StoredList:
        start, stop = self._starts[place], self._starts[place + 1]
        columns = tuple(
            [column[start * width : stop * width] for column, width in zip(self._columns, self._widths, strict=True)]
        )
        return StoredList(
            stop - start,
            NO_TEXTS,
            NO_TEXTS,
            self._places(self._steps, start, stop),
            self._places(self._gone, self._gone_starts[place], self._gone_starts[place + 1]),
            columns,
            None,
            self._widths,
        )

    def _places(self, planes: Sequence[memoryview], start: int, stop: int) -> array[int]:
        if start == stop:
            return array("I")
        plain = bytearray((stop - start) * _STEP_BYTES)
        for number, plane in enumerate(planes):
            if plane:
                plain[number::_STEP_BYTES] = plane[start:stop]
        try:
            return array("I", accumulate(read_fixed(memoryview(plain), _STEP_BYTES)))
        except OverflowError:
            corrupt(self._name, "a place in a list is too large")


def _read_section(cursor: ListCursor, name: str) -> memoryview:
    raw = cursor.varint()
    if not raw:
        return memoryview(b"")
    packed = cursor.varint()
    if not packed:
        return cursor.take(raw)
    data = bytes(cursor.take(packed))
    try:
        if raw > OBJECT_BYTES_MAX or zstandard.frame_content_size(data) != raw:
            corrupt(name, "a packed part of a page declares another length")
        return memoryview(zstandard.ZstdDecompressor().decompress(data, max_output_size=raw))
    except zstandard.ZstdError as error:
        corrupt(name, f"a part of a page cannot be unpacked: {error}")


def _read_heads(heads: ListCursor, count: int, name: str) -> list[Iterable[int]]:
    """The lengths of the keys, and the numbers of entries and of deletions."""
    widths = bytes(heads.take(3))
    if not set(widths) <= {0, 1, 2, 4}:
        corrupt(name, "numbers of lists have an unknown width")
    if not widths[0] and count > 1:
        corrupt(name, "lists of a page have no keys")
    # Numbers of no width are zeros: as many as there are lists, of which each has at least one byte elsewhere.
    if not widths[1] and not widths[2]:
        corrupt(name, "lists of a page are empty")
    return [read_fixed(heads.take(count * width), width) if width else [0] * count for width in widths]


def names_in(data: bytes, *, name: str) -> Iterator[tuple[bytes, bytes]]:
    """Every key of a list and every id in the whole object `name`, each with the key of its list. No requests.

    The object tells by itself how it is read. Raises CorruptionError, UnsupportedFormatError.
    """
    begin = _find_directory(data, name=name)
    frame = decode_frame(
        data[begin:], FrameKind.LIST_PART, name=name, version_max=VERSION_MAX, bytes_max=SIDECAR_BYTES_MAX
    )
    message = decode_message(DIRECTORY_DECODER, frame.payload, name=name)
    directory = decode_directory(data[begin:], name=name, identity=frame.identity, directory=begin)
    for page in range(len(directory.firsts)):
        body = directory.unpack(page, data[directory.starts[page] : directory.starts[page + 1]])
        if message.form == "columns":
            yield from ((key, b"") for key in ColumnPage(body, message.widths or (), name=name).keys)
            continue
        for key, one in lists_in(body, name=name):
            yield key, b""
            if message.form == "ids":
                yield from ((key, identity) for identity in decode_ids(one, name=name).ids)
            elif message.form == "lists":
                found = decode_list(one, message.widths, is_shared=False, name=name)
                yield from ((key, identity) for names in (found.ids, found.gone) for identity in names)


def _find_directory(data: bytes, *, name: str) -> int:
    """Where the directory of a whole object begins."""
    begin = data.rfind(_MAGIC)
    while begin > 0 and not _ends_here(data, begin, name):
        begin = data.rfind(_MAGIC, 0, begin)
    if begin < 0:
        corrupt(name, "it has no directory")
    return begin


def _ends_here(data: bytes, begin: int, name: str) -> bool:
    """Whether a frame that begins at a place ends where the data does."""
    return len(data) - begin >= HEADER_BYTES and frame_length(data[begin:], name=name) == len(data) - begin
