"""A block's sidecar: where each document lies in the Parquet file, and which ids are not in it.

Two frames, one after the other, so that a reader may fetch only the first:

- the page map: for each page of `_doc` its place, its rows, a checksum and the least key that may be
  in it; for each row group and column its place and checksum; `_rev`, `_seq` and whether it is a
  deletion for each row; length and SHA-256 of the Parquet file;
- the membership filter over the encoded ids.

With it a document is found by one ranged read of one page. Its revision comes from the map, so the
cells of `_doc` stay plain JSON for all other readers.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import blake2b
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from wormdb.format.frame import (
    Count,
    Digest,
    FrameKind,
    Name,
    corrupt,
    decode_frame,
    decode_message,
    encode_frame,
    encode_message,
    frame_length,
)
from wormdb.format.membership import MembershipFilter, join_planes, split_planes
from wormdb.format.node import front_code, front_decode, is_ascending, shared_prefix
from wormdb.settings import SIDECAR_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = [
    "CHECKSUM_BYTES",
    "CheckedRange",
    "GroupRef",
    "PageMap",
    "PageRef",
    "PageSpan",
    "Pages",
    "RowGroup",
    "Sidecar",
    "Versions",
    "checksum",
    "decode_filter",
    "decode_page_map",
    "decode_sidecar",
    "encode_sidecar",
    "locate",
    "locate_key",
    "separators",
]

_VERSION: Final = 1
CHECKSUM_BYTES: Final = 8
"""Of each page, chunk and footer: enough to notice accidents; the file's SHA-256 is in the map."""

_Checksum = Annotated[bytes, Meta(min_length=CHECKSUM_BYTES, max_length=CHECKSUM_BYTES)]


class CheckedRange(msgspec.Struct, frozen=True, array_like=True):
    """A range of the Parquet file that can be read, and checked, by itself."""

    column: Name
    offset: Count
    length: Count
    checksum: _Checksum


class RowGroup(msgspec.Struct, frozen=True, array_like=True):
    """Consecutive rows, column by column; `pages` counts the pages of `_doc`."""

    rows: Count
    pages: Count
    chunks: tuple[CheckedRange, ...]


@dataclass(frozen=True, slots=True)
class PageSpan:
    """One page of `_doc`, header included."""

    length: int
    rows: int
    checksum: bytes


class _Planes(msgspec.Struct, frozen=True, array_like=True):
    least: int
    planes: tuple[bytes, ...]


class _MapMessage(msgspec.Struct, frozen=True, kw_only=True):
    rows: Count = msgspec.field(name="r")
    length: Count = msgspec.field(name="l")
    sha256: Digest = msgspec.field(name="h")
    footer: CheckedRange = msgspec.field(name="f")
    groups: tuple[RowGroup, ...] = msgspec.field(name="g")
    revs: _Planes = msgspec.field(name="v")
    seqs: _Planes = msgspec.field(name="s")
    deleted: bytes = msgspec.field(name="d")
    mapped: bool = msgspec.field(name="m")
    """Whether the runs below are pages of `_doc`; else they are row groups."""
    shared: bytes = msgspec.field(name="ks")
    suffixes: tuple[bytes, ...] = msgspec.field(name="kx")
    page_rows: _Planes = msgspec.field(name="pr")
    page_lengths: _Planes = msgspec.field(name="pl")
    page_checksums: bytes = msgspec.field(name="pc")


_DECODER: Final = msgspec.msgpack.Decoder(_MapMessage)


@dataclass(frozen=True, slots=True)
class Versions:
    """`_rev`, `_seq` and fate of every row of a block, row by row without unpacking all.

    Fates are 0 for a document, 1 for a deletion, 2 for one whose document is in the trash.
    """

    revs: _Planes
    seqs: _Planes
    deleted: bytes

    @classmethod
    def of(cls, revs: Sequence[int], seqs: Sequence[int], fates: Sequence[int]) -> Versions:
        """Pack the three columns."""
        return cls(_pack(revs), _pack(seqs), bytes(fates) if any(fates) else b"")

    def at(self, row: int) -> tuple[int, int, int]:
        """Revision, change number and fate of a row."""
        return _pick(self.revs, row), _pick(self.seqs, row), self.deleted[row] if self.deleted else 0


@dataclass(frozen=True, slots=True)
class Pages:
    """Where rows lie: page by page, or row group by row group where pages are not mapped."""

    keys: tuple[bytes, ...]
    """For each the least key that may be in it."""
    first_rows: tuple[int, ...]
    """The first row of each."""
    spans: tuple[PageSpan, ...] | None
    """None where pages are not mapped."""
    offsets: tuple[int, ...]
    """Where each page begins."""


@dataclass(frozen=True)
class PageMap:
    """The first frame of a sidecar, unpacked. `block` is the name of the Parquet object.

    Its pages are unpacked when they are asked for: a scan of columns does without. Only then is noticed, by
    CorruptionError, that they cannot be right.
    """

    block: str
    rows: int
    length: int
    sha256: bytes
    footer: CheckedRange
    groups: tuple[RowGroup, ...]
    versions: Versions
    unpack_pages: Callable[[], Pages] = field(compare=False, repr=False)

    @cached_property
    def found(self) -> Pages:
        """Its pages."""
        return self.unpack_pages()

    @property
    def page_count(self) -> int:
        """How many pages there are, or row groups where pages are not mapped."""
        return sum(group.pages for group in self.groups) or len(self.groups)

    @property
    def keys(self) -> tuple[bytes, ...]:
        """For each page, or each row group where pages are not mapped, the least key that may be in it."""
        return self.found.keys

    @property
    def pages(self) -> tuple[PageSpan, ...] | None:
        """None where pages are not mapped."""
        return self.found.spans

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where each page begins."""
        return self.found.offsets

    @property
    def first_rows(self) -> tuple[int, ...]:
        """The first row of each page, or of each row group."""
        return self.found.first_rows


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A whole sidecar."""

    map: PageMap
    membership: MembershipFilter


@dataclass(frozen=True, slots=True)
class PageRef:
    """The one page that can hold an id: read `length` bytes at `offset`, then `read_page`."""

    map: PageMap
    page: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class GroupRef:
    """The one row group that can hold an id, where pages are not mapped: read its `parts`."""

    map: PageMap
    group: int


def checksum(data: bytes | memoryview) -> bytes:
    """Of a part of a Parquet file."""
    return blake2b(data, digest_size=CHECKSUM_BYTES).digest()


def separators(keys: Sequence[bytes], first_rows: Iterable[int]) -> tuple[bytes, ...]:
    """For each run of rows the shortest key above all rows before it; empty for the first run."""
    return tuple(keys[row][: shared_prefix(keys[row - 1], keys[row]) + 1] if row else b"" for row in first_rows)


def encode_sidecar(page_map: PageMap, membership: MembershipFilter, *, identity: str) -> tuple[bytes, int]:
    """The bytes of a sidecar, and how many of them are the page map.

    No requests; raises LimitExceededError.
    """
    pages = page_map.pages or ()
    shared, suffixes = front_code(page_map.keys)
    message = _MapMessage(
        rows=page_map.rows,
        length=page_map.length,
        sha256=page_map.sha256,
        footer=page_map.footer,
        groups=page_map.groups,
        revs=page_map.versions.revs,
        seqs=page_map.versions.seqs,
        deleted=page_map.versions.deleted,
        mapped=page_map.pages is not None,
        shared=shared,
        suffixes=suffixes,
        page_rows=_pack([page.rows for page in pages]),
        page_lengths=_pack([page.length for page in pages]),
        page_checksums=b"".join([page.checksum for page in pages]),
    )
    payload = encode_message(message, what="a block's page map", bytes_max=SIDECAR_BYTES_MAX, fix="use smaller blocks")
    first = encode_frame(FrameKind.PAGE_MAP, version=_VERSION, identity=identity, payload=payload)
    second = encode_frame(FrameKind.FILTER, version=_VERSION, identity=identity, payload=membership.to_bytes())
    return first + second, len(first)


def decode_sidecar(data: bytes, *, name: str, identity: str, block: str) -> Sidecar:
    """The sidecar stored as object `name`; `block` names its Parquet object. No requests.

    Raises CorruptionError, UnsupportedFormatError.
    """
    cut = frame_length(data, name=name)
    page_map = decode_page_map(data[:cut], name=name, identity=identity, block=block)
    assert page_map.found.keys is not None, "reading the whole sidecar checks all of it"
    return Sidecar(page_map, decode_filter(data[cut:], name=name, identity=identity))


def decode_filter(data: bytes, *, name: str, identity: str) -> MembershipFilter:
    """The second frame of a sidecar alone: enough to know that an id is not there. No requests.

    Raises CorruptionError, UnsupportedFormatError.
    """
    frame = decode_frame(
        data, FrameKind.FILTER, name=name, identity=identity, version_max=_VERSION, bytes_max=SIDECAR_BYTES_MAX
    )
    return MembershipFilter.from_bytes(frame.payload, name=name)


def decode_page_map(data: bytes, *, name: str, identity: str, block: str) -> PageMap:
    """The first frame of a sidecar alone: enough to find a document. No requests.

    Raises CorruptionError, UnsupportedFormatError.
    """
    frame = decode_frame(
        data, FrameKind.PAGE_MAP, name=name, identity=identity, version_max=_VERSION, bytes_max=SIDECAR_BYTES_MAX
    )
    message = decode_message(_DECODER, frame.payload, name=name)
    page_map = PageMap(
        block=block,
        rows=message.rows,
        length=message.length,
        sha256=message.sha256,
        footer=message.footer,
        groups=message.groups,
        versions=Versions(message.revs, message.seqs, message.deleted),
        unpack_pages=partial(_pages, message, name),
    )
    _check(page_map, name)
    return page_map


def locate(sidecar: Sidecar, key: bytes) -> PageRef | GroupRef | None:
    """The page, or without a page map the row group, that can hold the id with an encoded `key`; None if none does.

    No requests. The id may still be absent: one absent id in 256 is looked for in vain.
    """
    return locate_key(sidecar.map, key) if sidecar.membership.might_contain(key) else None


def locate_key(page_map: PageMap, key: bytes) -> PageRef | GroupRef | None:
    """The same for an encoded key, without asking the filter."""
    place = bisect_right(page_map.keys, key) - 1
    if place < 0:
        return None
    if page_map.pages is None:
        return GroupRef(page_map, place)
    return PageRef(page_map, place, page_map.offsets[place], page_map.pages[place].length)


def _pack(numbers: Sequence[int]) -> _Planes:
    if numbers and numbers.count(numbers[0]) == len(numbers):
        return _Planes(numbers[0], (bytes(len(numbers)),))
    least = min(numbers, default=0)
    return _Planes(least, split_planes([number - least for number in numbers]))


def _unpack(packed: _Planes, name: str) -> list[int]:
    return [number + packed.least for number in join_planes(packed.planes, name=name)]


def _pick(packed: _Planes, row: int) -> int:
    return packed.least + sum(plane[row] << (8 * place) for place, plane in enumerate(packed.planes))


def _pages(message: _MapMessage, name: str) -> Pages:
    keys = front_decode(message.shared, message.suffixes, name=name)
    spans = _spans(message, name)
    runs = [group.rows for group in message.groups] if spans is None else [page.rows for page in spans]
    if sum(runs) != message.rows:
        corrupt(name, "its counts of rows differ")
    if len(keys) != len(runs) or not is_ascending(keys):
        corrupt(name, "it does not know the first key of every page")
    return Pages(
        keys=keys,
        first_rows=tuple(accumulate(runs, initial=0))[:-1],
        spans=spans,
        offsets=() if spans is None else _offsets(message.groups, spans, name),
    )


def _spans(message: _MapMessage, name: str) -> tuple[PageSpan, ...] | None:
    if not message.mapped:
        return None
    rows, lengths = _unpack(message.page_rows, name), _unpack(message.page_lengths, name)
    size = CHECKSUM_BYTES
    sums = [message.page_checksums[at : at + size] for at in range(0, len(message.page_checksums), size)]
    if not len(rows) == len(lengths) == len(sums) or any(len(digest) != size for digest in sums[-1:]):
        corrupt(name, "its columns of pages have different lengths")
    if any(number <= 0 for number in rows) or any(number <= 0 for number in lengths):
        corrupt(name, "a page has no rows")
    return tuple(map(PageSpan, lengths, rows, sums))


def _offsets(groups: Sequence[RowGroup], pages: Sequence[PageSpan], name: str) -> tuple[int, ...]:
    """Pages of one row group lie one after another in its chunk of `_doc`, the last column."""
    offsets: list[int] = []
    for group in groups:
        own = pages[len(offsets) : len(offsets) + group.pages]
        ends = list(accumulate((page.length for page in own), initial=group.chunks[-1].offset if group.chunks else 0))
        if not group.chunks or len(own) != group.pages or ends[-1] != group.chunks[-1].offset + group.chunks[-1].length:
            corrupt(name, "its pages do not fill their row group")
        offsets += ends[:-1]
    if len(offsets) != len(pages):
        corrupt(name, "it has pages of no row group")
    return tuple(offsets)


def _check(page_map: PageMap, name: str) -> None:
    versions, rows = page_map.versions, page_map.rows
    columns = [*versions.revs.planes, *versions.seqs.planes, *([versions.deleted] if versions.deleted else [])]
    if sum(group.rows for group in page_map.groups) != rows:
        corrupt(name, "its counts of rows differ")
    if any(len(column) != rows for column in columns) or (rows and not (versions.revs.planes and versions.seqs.planes)):
        corrupt(name, "it does not know the revision of every row")
    parts = [page_map.footer, *(chunk for group in page_map.groups for chunk in group.chunks)]
    if any(part.offset + part.length > page_map.length for part in parts):
        corrupt(name, "a part reaches over the end of the file")
