"""One page of a Parquet column, read without the rest of the file.

Only one layout is known: a data page (version 1) of a REQUIRED byte array column, PLAIN, compressed
by zstd. That is what `wormdb.format.block` writes for `_doc`; anything else is refused. The
header is Thrift's compact protocol, of which the few parts that Parquet uses are read here. Nothing
in the bytes is believed before it is checked.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final
from zlib import crc32

import zstandard

from wormdb.format.damage import corrupt

__all__ = ["HEADER_BYTES_MAX", "PageHeader", "page_cells", "read_header"]

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
    """The header is no Thrift struct of the expected form; turned into CorruptionError."""


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
