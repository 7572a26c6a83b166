"""Lists of an index as bytes: immutable objects of which parts can be read.

An object holds pages one after the other, and last a frame with the directory of them: the first key, the length and a
checksum of each. A page holds whole lists in order of key, about 8 KiB of small ones or one large one; so a list costs
one range, a prefix of keys a range of pages, and a reader that has the directory believes no byte unchecked.

A list has entries and deletions, each in order of the document: entries with a payload, and the documents whose entry
in older runs counts no longer. Documents are named by their ids, or by their place in the ids of the run.

The bytes are told in docs/format/objects.md.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from dataclasses import dataclass
from hashlib import blake2b, sha256
from itertools import accumulate, pairwise
from operator import sub
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

import msgspec
import zstandard

from wormdb.format.frame import (
    Count,
    FrameKind,
    corrupt,
    decode_frame,
    decode_message,
    encode_frame,
    encode_message,
)
from wormdb.format.list_run import ListPart
from wormdb.format.node import is_ascending, shared_prefix
from wormdb.settings import KIB, MIB, OBJECT_BYTES_MAX, SIDECAR_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "DIRECTORY_DECODER",
    "IDS_PER_PAGE",
    "NO_TEXTS",
    "PART_BYTES_MAX",
    "VERSION_MAX",
    "Directory",
    "IdPage",
    "ListCursor",
    "ListForm",
    "PartDraft",
    "StoredList",
    "TextArray",
    "decode_directory",
    "decode_ids",
    "decode_list",
    "decode_trained",
    "encode_ids",
    "encode_list",
    "encode_trained",
    "fixed_numbers",
    "lists_in",
    "number_width",
    "payload_columns",
    "read_fixed",
    "varint",
]

_VERSION: Final = 1
VERSION_MAX: Final = 2
"""Of an object; that of one with pages of columns."""
PAGE_BYTES: Final = 8 * KIB
"""Of lists in a page before it is packed; a longer list has a page of its own."""
PART_BYTES_MAX: Final = 64 * MIB
"""Of one object; a single longer list is the only exception."""
IDS_PER_PAGE: Final = 1_024
"""In the ids of a run: so a place tells its page."""
_SUM_BYTES: Final = 8
_PACK_BYTES_MIN: Final = 64
_ZSTD_LEVEL: Final = 3


# --- Numbers and texts, so that any of them can be reached without the others.


_BYTES: Final = [bytes((number,)) for number in range(256)]


def varint(number: int) -> bytes:
    """A number, 7 bits a byte, the lowest first. No requests."""
    if number < 0x80:
        return _BYTES[number]
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


class ListCursor:
    """A place in the bytes of a page; every read is checked."""

    def __init__(self, data: memoryview, name: str) -> None:
        """At the begin of bytes of object `name`."""
        self._data = data
        self._name = name
        self._at = 0

    @property
    def rest(self) -> int:
        """How many bytes are left."""
        return len(self._data) - self._at

    def take(self, length: int) -> memoryview:
        """The next bytes."""
        if length > self.rest:
            corrupt(self._name, "a list is cut off")
        self._at += length
        return self._data[self._at - length : self._at]

    def varint(self) -> int:
        """The next number."""
        number = shift = 0
        while True:
            (byte,) = self.take(1)
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7
            if shift > 63:
                corrupt(self._name, "a number in a list has no end")

    def end(self) -> None:
        """Nothing may be left."""
        if self.rest:
            corrupt(self._name, "a list goes on behind its end")


_CODES: Final = {1: "B", 2: "H", 4: "I"}


def fixed_numbers(numbers: Sequence[int], width: int) -> bytes:
    """Numbers of a width each. No requests."""
    made = array(_CODES[width], numbers)
    if sys.byteorder == "big":
        made.byteswap()
    return made.tobytes()


def number_width(most: int) -> int:
    """The bytes of numbers up to one: 1, 2 or 4. No requests."""
    return 1 if most < 1 << 8 else 2 if most < 1 << 16 else 4


def read_fixed(data: memoryview, width: int) -> Sequence[int]:
    """The numbers in these bytes. No requests."""
    if sys.byteorder == "big":
        made = array(_CODES[width], data.tobytes())
        made.byteswap()
        return made
    return data if width == 1 else data.cast("H") if width == 2 else data.cast("I")


class TextArray:
    """Some byte strings, of which each is found without the others. A value."""

    __slots__ = ("_body", "_count", "_ends", "_prefix", "_width")

    def __init__(self, count: int, prefix: bytes, width: int, ends: Sequence[int] | None, body: memoryview) -> None:
        """As `_read_texts` found them: all of one `width`, or each up to its end."""
        self._count, self._prefix, self._width, self._ends, self._body = count, prefix, width, ends, body

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: int) -> bytes:
        if not 0 <= place < self._count:
            raise IndexError(place)
        if self._ends is None:
            start = place * self._width
            return self._prefix + self._body[start : start + self._width]
        start = self._ends[place - 1] if place else 0
        return self._prefix + self._body[start : self._ends[place]]

    def __iter__(self) -> Iterator[bytes]:
        body, prefix = bytes(self._body), self._prefix
        if self._ends is None:
            width = self._width
            return iter([prefix + body[at * width : (at + 1) * width] for at in range(self._count)])
        ends = [0, *self._ends]
        return iter([prefix + body[start:stop] for start, stop in pairwise(ends)])

    def copy(self) -> TextArray:
        """The same, in memory of its own: then the page that it was read from is not kept by it."""
        ends = None if self._ends is None else array("I", self._ends)
        return TextArray(self._count, self._prefix, self._width, ends, memoryview(bytes(self._body)))


def _texts(texts: Sequence[bytes]) -> bytes:
    """Byte strings with what all of them begin with once."""
    if not texts:
        return b""
    prefix = texts[0][: shared_prefix(texts[0], texts[-1])] if len(texts) > 1 else b""
    if not all(text.startswith(prefix) for text in texts):  # they need not be in order of their bytes
        prefix = b""
    cut = len(prefix)
    rests = [text[cut:] for text in texts] if cut else texts
    lengths = {len(rest) for rest in rests}
    head = varint(cut) + prefix
    if len(lengths) == 1:
        return head + b"\0" + varint(lengths.pop()) + b"".join(rests)
    ends = list(accumulate(map(len, rests)))
    width = number_width(ends[-1])
    return head + bytes((width,)) + fixed_numbers(ends, width) + b"".join(rests)


def _read_texts(cursor: ListCursor, count: int, name: str) -> TextArray:
    if not count:
        return TextArray(0, b"", 0, None, memoryview(b""))
    prefix = bytes(cursor.take(cursor.varint()))
    (form,) = cursor.take(1)
    if form == 0:
        width = cursor.varint()
        return TextArray(count, prefix, width, None, cursor.take(count * width))
    if form not in _CODES:
        corrupt(name, f"texts of a list have the unknown form {form}")
    ends = read_fixed(cursor.take(count * form), form)
    if any(one > other for one, other in pairwise(ends)):
        corrupt(name, "texts of a list end before they begin")
    return TextArray(count, prefix, 0, ends, cursor.take(ends[-1]))


def _places(places: Sequence[int]) -> bytes:
    """Ascending numbers as differences, their low bytes first: the high ones are mostly 0 and pack well."""
    if not places:
        return b""
    steps = [places[0], *map(sub, places[1:], places)]
    width = number_width(max(steps))
    if width == 1:
        return b"\1" + bytes(steps)
    plain = fixed_numbers(steps, width)
    return _BYTES[width] + b"".join([plain[plane::width] for plane in range(width)])


def _read_places(cursor: ListCursor, count: int, name: str) -> array[int]:
    if not count:
        return array("I")
    (width,) = cursor.take(1)
    if width not in _CODES:
        corrupt(name, f"places in a list have the unknown width {width}")
    plain = bytearray(count * width)
    for plane in range(width):
        plain[plane::width] = cursor.take(count)
    try:
        return array("I", accumulate(read_fixed(memoryview(bytes(plain)), width)))
    except OverflowError:
        corrupt(name, "a place in a list is too large")


NO_TEXTS: Final = TextArray(0, b"", 0, None, memoryview(b""))
_NO_PLACES: Final = array("I")


# --- One list.


@dataclass(frozen=True, slots=True)
class StoredList:
    """The entries and deletions of one list in one run: of ids as JSON, or of places in the ids of the run."""

    count: int
    """How many entries there are."""
    ids: TextArray
    gone: TextArray
    places: array[int]
    """In place of `ids`, where documents are named by places."""
    gone_places: array[int]
    columns: tuple[memoryview, ...]
    """Of all entries together, a column of n times its width bytes each; () if payloads have any length."""
    payloads: TextArray | None
    """Of each entry, if payloads have any length."""
    widths: tuple[int, ...]

    def payload(self, place: int) -> bytes:
        """What the list says of one entry."""
        if self.payloads is not None:
            return self.payloads[place]
        pairs = zip(self.columns, self.widths, strict=True)
        return b"".join([bytes(column[place * width : (place + 1) * width]) for column, width in pairs])

    def all_payloads(self) -> list[bytes]:
        """The same of all entries in order."""
        if self.payloads is not None:
            return list(self.payloads)
        count = self.count
        if not self.widths:
            return [b""] * count
        cut = []
        for column, width in zip(self.columns, self.widths, strict=True):
            body = bytes(column)
            cut.append([body[at : at + width] for at in range(0, count * width, width)] if width else [b""] * count)
        return cut[0] if len(cut) == 1 else [b"".join(parts) for parts in zip(*cut, strict=True)]


def encode_list(
    ids: Sequence[bytes] | Sequence[int],
    payloads: Sequence[bytes],
    gone: Sequence[bytes] | Sequence[int],
    widths: tuple[int, ...] | None,
    *,
    is_shared: bool,
) -> bytes:
    """The bytes of one list. With `is_shared` documents are places. No requests."""
    assert len(ids) == len(payloads), "one payload an entry"
    head = varint(len(ids)) + varint(len(gone)) + _named(ids, is_shared) + _named(gone, is_shared)
    if widths is None:
        return head + _texts(payloads)
    return head + b"".join(payload_columns(payloads, widths))


def _named(documents: Sequence[bytes] | Sequence[int], is_shared: bool) -> bytes:
    if not documents:
        return b""
    return _places(cast("Sequence[int]", documents)) if is_shared else _texts(cast("Sequence[bytes]", documents))


def payload_columns(payloads: Sequence[bytes], widths: tuple[int, ...]) -> Iterator[bytes]:
    """The parts of payloads, each of all together. No requests."""
    total = sum(widths)
    joined, start = b"".join(payloads), 0
    assert len(joined) == total * len(payloads), "payloads of the kind's width"
    for width in widths:
        if width == total:
            yield joined
        elif width == 1:
            yield joined[start::total]
        else:
            yield b"".join([payload[start : start + width] for payload in payloads])
        start += width


def decode_list(body: memoryview, widths: tuple[int, ...] | None, *, is_shared: bool, name: str) -> StoredList:
    """The list in these bytes of object `name`. No requests; raises CorruptionError."""
    cursor = ListCursor(body, name)
    entries, gone = cursor.varint(), cursor.varint()
    if entries + gone > 8 * max(len(body), 1) and (widths or widths is None or is_shared):
        corrupt(name, "a list says that it is longer than it is")
    ids = taken = NO_TEXTS
    places = gone_places = _NO_PLACES
    if is_shared:
        places, gone_places = _read_places(cursor, entries, name), _read_places(cursor, gone, name)
    else:
        ids, taken = _read_texts(cursor, entries, name), _read_texts(cursor, gone, name)
    columns: tuple[memoryview, ...] = ()
    payloads: TextArray | None = None
    if widths is None:
        payloads = _read_texts(cursor, entries, name)
    else:
        columns = tuple([cursor.take(entries * width) for width in widths])
    cursor.end()
    return StoredList(entries, ids, taken, places, gone_places, columns, payloads, widths or ())


# --- The ids of a run.


@dataclass(frozen=True, slots=True)
class IdPage:
    """Some documents of a run in order of id, and which of them are in no list any more."""

    ids: TextArray
    dead: bytes
    """For each of them 1 if it has no entry in any list since, else 0."""


def encode_ids(ids: Sequence[bytes], dead: Sequence[bool]) -> bytes:
    """The bytes of one page of ids, given as JSON. No requests."""
    assert len(ids) == len(dead), "one mark an id"
    return varint(len(ids)) + _texts(ids) + bytes(dead)


def decode_ids(body: memoryview, *, name: str) -> IdPage:
    """The ids in these bytes of object `name`. No requests; raises CorruptionError."""
    cursor = ListCursor(body, name)
    count = cursor.varint()
    if count > IDS_PER_PAGE:
        corrupt(name, f"a page has {count} ids")
    page = IdPage(_read_texts(cursor, count, name), bytes(cursor.take(count)))
    cursor.end()
    return page


# --- Pages and their directory.


ListForm: TypeAlias = Literal["ids", "lists", "places", "columns"]


class _DirectoryMessage(msgspec.Struct, frozen=True, array_like=True):
    firsts: tuple[bytes, ...]
    lengths: tuple[Count, ...]
    """Stored bytes of each page."""
    raw: tuple[Count, ...]
    """Bytes of each page before it was packed; 0 if it is not packed."""
    sums: bytes
    form: ListForm
    """What the pages hold: ids of documents, or lists that name documents by ids or by places, or columns of these."""
    widths: tuple[Count, ...] | None
    """Of the parts of payloads, as the kind has them."""


DIRECTORY_DECODER: Final = msgspec.msgpack.Decoder(_DirectoryMessage)


@dataclass(frozen=True, slots=True)
class Directory:
    """Where the pages of an object are."""

    name: str
    """The key of the object, for messages."""
    firsts: tuple[bytes, ...]
    starts: tuple[int, ...]
    """And last where the last one ends."""
    raw: tuple[int, ...]
    sums: bytes
    form: ListForm
    widths: tuple[int, ...] | None

    def page_of(self, key: bytes) -> int | None:
        """The page in which a key is if it is there; None if it is below the first."""
        place = bisect_right(self.firsts, key) - 1
        return place if place >= 0 else None

    def pages_between(self, low: bytes, high: bytes | None) -> range:
        """The pages that may have keys from `low` up to below `high`."""
        begin = max(bisect_right(self.firsts, low) - 1, 0)
        end = len(self.firsts)
        if high is not None:
            end = bisect_right(self.firsts, high)
            if end and self.firsts[end - 1] == high:
                end -= 1
        return range(begin, max(begin, end))

    def unpack(self, page: int, data: bytes) -> bytes:
        """The lists of a page from its stored bytes. Raises CorruptionError. No requests."""
        length = self.starts[page + 1] - self.starts[page]
        if len(data) != length:
            corrupt(self.name, f"a page should have {length} bytes and has {len(data)}")
        if _sum(data) != self.sums[page * _SUM_BYTES : (page + 1) * _SUM_BYTES]:
            corrupt(self.name, f"the checksum of page {page} is wrong")
        raw = self.raw[page]
        if not raw:
            return data
        try:
            if raw > OBJECT_BYTES_MAX or zstandard.frame_content_size(data) != raw:
                corrupt(self.name, "a packed page declares another length")
            return zstandard.ZstdDecompressor().decompress(data, max_output_size=raw)
        except zstandard.ZstdError as error:
            corrupt(self.name, f"a page cannot be unpacked: {error}")


def _sum(data: bytes) -> bytes:
    return blake2b(data, digest_size=_SUM_BYTES).digest()


def decode_directory(data: bytes, *, name: str, identity: str, directory: int) -> Directory:
    """The directory at the end of object `name`, which begins at byte `directory`; `data` are its bytes from there on.

    No requests; raises CorruptionError, UnsupportedFormatError.
    """
    frame = decode_frame(
        data, FrameKind.LIST_PART, name=name, identity=identity, version_max=VERSION_MAX, bytes_max=SIDECAR_BYTES_MAX
    )
    message = decode_message(DIRECTORY_DECODER, frame.payload, name=name)
    starts = (0, *accumulate(message.lengths))
    count = len(message.firsts)
    if not count == len(message.lengths) == len(message.raw) == len(message.sums) / _SUM_BYTES:
        corrupt(name, "its directory has pages without a length or checksum")
    if starts[-1] != directory:
        corrupt(name, f"its pages have {starts[-1]} bytes of {directory}")
    if not is_ascending(message.firsts):
        corrupt(name, "its pages are out of order")
    return Directory(name, message.firsts, starts, message.raw, message.sums, message.form, message.widths)


def lists_in(page: bytes, *, name: str) -> Iterator[tuple[bytes, memoryview]]:
    """The lists of an unpacked page of object `name`, each with its bytes, in order. Raises CorruptionError."""
    cursor = ListCursor(memoryview(page), name)
    while cursor.rest:
        key = bytes(cursor.take(cursor.varint()))
        yield key, cursor.take(cursor.varint())


class PartDraft:
    """An object of a run in the making: takes lists in order of key. Used by one thread."""

    def __init__(
        self,
        *,
        is_packed: bool,
        is_alone: bool = False,
        form: ListForm = "lists",
        widths: tuple[int, ...] | None = None,
    ) -> None:
        """With `is_alone` every list has a page of its own. `form` and `widths` tell others how to read them."""
        self._is_packed, self._is_alone = is_packed, is_alone
        self._form, self._widths = form, widths
        self._pages: list[bytes] = []
        self._firsts: list[bytes] = []
        self._raw: list[int] = []
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self.size = 0
        """Bytes of its pages so far."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no list."""
        return not self._firsts

    def add(self, key: bytes, body: bytes) -> None:
        """The next list."""
        assert not self._firsts or key > self._firsts[-1], "lists out of order"
        parts = (varint(len(key)), key, varint(len(body)), body)
        size = len(parts[0]) + len(key) + len(parts[2]) + len(body)
        if self._waiting and (self._is_alone or self._waiting_bytes + size > PAGE_BYTES):
            self._close()
        if not self._waiting:
            self._firsts.append(key)
        self._waiting.extend(parts)
        self._waiting_bytes += size

    def add_page(self, first: bytes, page: bytes) -> None:
        """The next page, as it is stored: of columns, whose first list has this key."""
        assert not self._waiting, "pages of columns stand by themselves"
        self._firsts.append(first)
        self._pages.append(page)
        self._raw.append(0)
        self.size += len(page)

    def _close(self) -> None:
        page = b"".join(self._waiting)
        raw = 0
        if self._is_packed and len(page) >= _PACK_BYTES_MIN:
            packed = zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(page)
            if len(packed) < len(page):
                page, raw = packed, len(page)
        self._pages.append(page)
        self._raw.append(raw)
        self.size += len(page)
        self._waiting, self._waiting_bytes = [], 0

    def finish(self, name: str, *, identity: str, first: bytes | None = None) -> tuple[bytes, ListPart]:
        """The bytes of the object of that name, and what names it. Raises LimitExceededError."""
        if self._waiting:
            self._close()
        sums = b"".join(map(_sum, self._pages))
        lengths, raw = tuple(map(len, self._pages)), tuple(self._raw)
        message = _DirectoryMessage(tuple(self._firsts), lengths, raw, sums, self._form, self._widths)
        payload = encode_message(
            message, what="a directory of lists", bytes_max=SIDECAR_BYTES_MAX, fix="index shorter texts"
        )
        version = VERSION_MAX if self._form == "columns" else _VERSION
        frame = encode_frame(FrameKind.LIST_PART, version=version, identity=identity, payload=payload)
        body = b"".join([*self._pages, frame])
        begin = self._firsts[0] if first is None and self._firsts else first or b""
        digest = sha256(body).digest()
        return body, ListPart(name=name, sha256=digest, length=len(body), directory=self.size, first=begin)


# --- What was learned.


def encode_trained(trained: bytes, *, identity: str) -> bytes:
    """The bytes of a trained object. No requests; raises LimitExceededError."""
    return encode_frame(FrameKind.LIST_TRAINED, version=_VERSION, identity=identity, payload=trained)


def decode_trained(data: bytes, *, name: str, identity: str) -> bytes:
    """The trained object stored as object `name`. No requests; raises CorruptionError, UnsupportedFormatError."""
    frame = decode_frame(
        data, FrameKind.LIST_TRAINED, name=name, identity=identity, version_max=_VERSION, bytes_max=OBJECT_BYTES_MAX
    )
    return frame.payload
