from __future__ import annotations

import struct
from zlib import crc32

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from wormdb.errors import CorruptionError
from wormdb.format.page import PageHeader, page_cells, read_header

BYTES_MAX = 1 << 20


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def i32(number: int) -> bytes:
    return varint(number << 1 if number >= 0 else (-number << 1) - 1)


def header(
    *, raw: int, stored: int, values: int, crc: int | None = None, kind: int = 0, encoding: int = 0, extra: bytes = b""
) -> bytes:
    """A page header written by hand from the Thrift compact protocol."""
    out = b"\x15" + i32(kind) + b"\x15" + i32(raw) + b"\x15" + i32(stored)
    if crc is None:
        out += b"\x2c"  # a step of two: field 4 is left out
    else:
        out += b"\x15" + i32(crc - (1 << 32) if crc >= 1 << 31 else crc) + b"\x1c"
    return out + b"\x15" + i32(values) + b"\x15" + i32(encoding) + b"\x15\x06\x15\x06" + extra + b"\x00\x00"


def body(cells: list[bytes]) -> bytes:
    return b"".join(struct.pack("<I", len(cell)) + cell for cell in cells)


def page(cells: list[bytes], *, with_crc: bool = True) -> bytes:
    raw = body(cells)
    packed = zstandard.ZstdCompressor().compress(raw)
    crc = crc32(packed) if with_crc else None
    return header(raw=len(raw), stored=len(packed), values=len(cells), crc=crc) + packed


def refused(data: bytes, *, rows: int = 2, bytes_max: int = BYTES_MAX) -> str:
    with pytest.raises(CorruptionError) as caught:
        page_cells(data, name="data/b.parquet", rows=rows, bytes_max=bytes_max)
    assert caught.value.key == "data/b.parquet"
    return caught.value.reason


@given(st.lists(st.binary(max_size=80), min_size=1, max_size=30), st.booleans())
def test_cells_come_back(cells: list[bytes], with_crc: bool) -> None:
    data = page(cells, with_crc=with_crc)
    assert [bytes(cell) for cell in page_cells(data, name="x", rows=len(cells), bytes_max=BYTES_MAX)] == cells


def test_a_header_is_read_as_the_protocol_says() -> None:
    data = header(raw=70_000, stored=300, values=5, crc=0xFFFFFFFE)
    assert read_header(data + b"rest", name="x") == PageHeader(len(data), 300, 70_000, 5, 0xFFFFFFFE)


def test_statistics_in_a_header_are_passed_over() -> None:
    # Field 5 of the data page header: a struct of max, min (binary), null count and a boolean.
    statistics = b"\x1c" + b"\x18\x03abc" + b"\x18\x01x" + b"\x16\x00" + b"\x41" + b"\x00"
    assert read_header(header(raw=9, stored=9, values=2, extra=statistics), name="x").values == 2


def test_fields_with_long_numbers_and_other_types_are_passed_over() -> None:
    others = b"\x03\xc8\x01\x05" + b"\x17" + bytes(8) + b"\x12"
    assert read_header(header(raw=9, stored=9, values=2, extra=others), name="x").values == 2


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x15",
        header(raw=9, stored=9, values=2, kind=2),
        header(raw=9, stored=9, values=2, kind=3),
        header(raw=9, stored=9, values=2, encoding=8),
        header(raw=-1, stored=9, values=2),
        header(raw=9, stored=-9, values=2),
        header(raw=9, stored=9, values=-2),
        b"\x15\x00\x15\x02\x15\x02\x00",
        b"\x15\x00" + b"\x05\x02\x00" * 2 + b"\x00",
        b"\x15" + b"\xff" * 12,
        b"\x1c" * 100,
        b"\x11" * 100 + b"\x00",
        b"\x19\x00\x00",
        b"\x18\x7fshort",
        b"\x13",
        b"\x17\x00",
    ],
)
def test_headers_of_another_layout_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptionError) as caught:
        read_header(data, name="data/b.parquet")
    assert caught.value.key == "data/b.parquet"


def test_lengths_counts_and_checksums_must_agree() -> None:
    good = page([b"one", b"two"])
    assert "bytes and holds" in refused(good + b"x")
    assert "bytes and holds" in refused(good[:-1])
    assert "3 rows" in refused(good, rows=3)
    assert "checksum" in refused(good[:-1] + bytes([good[-1] ^ 1]))
    assert "would unpack to" in refused(good, bytes_max=5)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (body([b"one"]), "ends before its last row"),
        (body([b"one"]) + b"\0\0", "ends before its last row"),
        (body([b"one"]) + struct.pack("<I", 50) + b"two", "reaches over the end"),
        (body([b"one"]) + struct.pack("<I", 2**32 - 1), "reaches over the end"),
        (body([b"one", b"two", b""]), "goes on after"),
    ],
)
def test_cells_must_fill_the_page(raw: bytes, reason: str) -> None:
    packed = zstandard.ZstdCompressor().compress(raw)
    assert reason in refused(header(raw=len(raw), stored=len(packed), values=2) + packed)


def test_bombs_are_refused() -> None:
    bomb = zstandard.ZstdCompressor().compress(bytes(64 << 20))
    assert "declares another length" in refused(header(raw=100, stored=len(bomb), values=2) + bomb)
    silent = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(64 << 20))
    assert "declares another length" in refused(header(raw=100, stored=len(silent), values=2) + silent)
    refused(header(raw=64, stored=7, values=2) + b"garbage")
    refused(header(raw=64, stored=0, values=2))


def test_an_empty_page_without_data_is_empty() -> None:
    assert page_cells(header(raw=0, stored=0, values=0), name="x", rows=0, bytes_max=10) == []
