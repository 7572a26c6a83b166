from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.format.groups import read_group
from tests.golden import samples
from wormdb.errors import CorruptionError
from wormdb.format import page as pagemap
from wormdb.format.block import RESERVED, EncodedBlock, Row, write_block
from wormdb.format.blockread import assemble_block, parts_for, read_page
from wormdb.format.columns import ColumnSpec
from wormdb.format.frame import FrameKind, decode_frame, encode_frame, frame_length
from wormdb.format.json import encode_document
from wormdb.format.key import encode_key
from wormdb.format.sidecar import (
    GroupRef,
    PageRef,
    Sidecar,
    Versions,
    decode_page_map,
    decode_sidecar,
    locate,
    locate_key,
    separators,
)

NAME, BLOCK = "data/b.sidecar", "data/b.parquet"


def numbered(count: int) -> list[Row]:
    return [Row(n, 5000 + n % 7, 1 + n % 2, encode_document({"_id": n, "t": "x" * 300})) for n in range(count)]


def decode(block: EncodedBlock) -> Sidecar:
    return decode_sidecar(block.sidecar, name=NAME, identity=block.sha256.hex(), block=BLOCK)


def test_the_page_map_can_be_read_alone() -> None:
    block = write_block(numbered(700))
    page_map = decode_page_map(block.sidecar[: block.map_bytes], name=NAME, identity=block.sha256.hex(), block=BLOCK)
    assert page_map == decode(block).map
    assert page_map.found == decode(block).map.found
    assert (page_map.rows, page_map.length, page_map.sha256) == (700, len(block.parquet), block.sha256)
    ref = locate_key(page_map, encode_key(650))
    assert isinstance(ref, PageRef)
    (row,) = read_page(block.parquet[ref.offset : ref.offset + ref.length], ref, [encode_key(650)])
    assert row == numbered(700)[650]


def test_it_is_small() -> None:
    block = write_block(numbered(3000))
    assert len(block.sidecar) / 3000 < 2.2


def test_a_sidecar_of_another_block_is_noticed() -> None:
    one, other = write_block(numbered(5)), write_block(numbered(6))
    with pytest.raises(CorruptionError) as caught:
        decode_sidecar(other.sidecar, name=NAME, identity=one.sha256.hex(), block=BLOCK)
    assert caught.value.key == NAME


@given(
    st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(1, 2**63 - 1), st.booleans()), min_size=1, max_size=20)
)
def test_versions_are_picked_row_by_row(rows: list[tuple[int, int, bool]]) -> None:
    revs, seqs, deleted = (list(column) for column in zip(*rows, strict=True))
    versions = Versions.of(revs, seqs, deleted)
    assert [versions.at(row) for row in range(len(rows))] == rows


@given(st.lists(st.binary(max_size=6), min_size=1, max_size=20, unique=True).map(sorted), st.data())
def test_separators_send_every_key_to_its_page(keys: list[bytes], data: st.DataObject) -> None:
    cuts = data.draw(st.sets(st.integers(1, len(keys) - 1))) if len(keys) > 1 else set()
    first_rows = sorted({0, *cuts})
    short = separators(keys, first_rows)
    for row, key in enumerate(keys):
        page = max(place for place, first in enumerate(first_rows) if first <= row)
        assert max(place for place, separator in enumerate(short) if separator <= key) == page
    assert all(len(separator) <= len(keys[row]) for separator, row in zip(short, first_rows, strict=True))


def unknown_layout(*_: object, **__: object) -> None:
    raise CorruptionError("a page of another layout")


def test_pages_of_an_unknown_layout_are_read_by_row_group(monkeypatch: pytest.MonkeyPatch) -> None:
    from wormdb.format import block as block_module

    monkeypatch.setattr(pagemap, "read_header", unknown_layout)
    monkeypatch.setattr(block_module, "_GROUP_ROWS", 40)
    rows = numbered(100)
    rows[50] = Row(50, 9, 9, None)
    block = write_block(rows, [ColumnSpec("t")])
    sidecar = decode(block)
    assert sidecar.map.pages is None
    for row in rows:
        ref = locate(sidecar, encode_key(row.id))
        assert isinstance(ref, GroupRef)
        parts = parts_for(ref.map, RESERVED, groups=[ref.group])
        fetched = [(part, block.parquet[part.offset : part.offset + part.length]) for part in parts]
        assert read_group(assemble_block(ref.map, fetched), ref, encode_key(row.id)) == row
        assert read_group(assemble_block(ref.map, fetched), ref, encode_key(-5)) is None


@pytest.mark.parametrize("page_version", ["2.0", "dictionary"])
def test_what_another_writer_setting_makes_is_mapped_by_row_group(
    page_version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real writer with other settings: the layouts that the page parser does not know."""
    import pyarrow.parquet as pq

    class OtherWriter(pq.ParquetWriter):  # type: ignore[misc] # pyarrow has no types
        def __init__(self, sink: Any, schema: Any, **options: Any) -> None:
            if page_version == "dictionary":
                options["use_dictionary"] = ["_doc"]
            else:
                options["data_page_version"] = page_version
            super().__init__(sink, schema, **options)

    monkeypatch.setattr(pq, "ParquetWriter", OtherWriter)
    block = write_block(numbered(50))
    sidecar = decode(block)
    assert sidecar.map.pages is None
    ref = locate(sidecar, encode_key(7))
    assert isinstance(ref, GroupRef)
    parts = parts_for(ref.map, RESERVED, groups=[ref.group])
    fetched = [(part, block.parquet[part.offset : part.offset + part.length]) for part in parts]
    assert read_group(assemble_block(ref.map, fetched), ref, encode_key(7)) == numbered(50)[7]


def payload_of(block: EncodedBlock) -> dict[str, Any]:
    frame = decode_frame(
        block.sidecar[: block.map_bytes], FrameKind.PAGE_MAP, name=NAME, version_max=1, bytes_max=1 << 26
    )
    value = msgspec.msgpack.decode(frame.payload)
    assert isinstance(value, dict)
    return value


@pytest.mark.parametrize(
    "damage",
    [
        {"r": 7},
        {"r": -1},
        {"g": []},
        {"v": [0, []]},
        {"v": [0, [b"\0"]]},
        {"s": [0, [b"\0"]]},
        {"s": [0, []]},
        {"d": b"\0"},
        {"ks": b""},
        {"ks": b"\0", "kx": [b"", b"a"]},
        {"ks": b"", "kx": []},
        {"pc": b"12345678" * 2},
        {"pc": b"1234567"},
        {"pr": [0, [b"\0"]]},
        {"pl": [1, [b"\0"]]},
        {"pl": [0, [b"\0", b"\1\2"]]},
        {"l": 10},
        {"m": "yes"},
        {"f": ["footer", 2**40, 5, b"12345678"]},
    ],
)
def test_maps_that_cannot_be_are_corruption(damage: dict[str, Any]) -> None:
    block = write_block(samples.rows())
    payload = msgspec.msgpack.encode({**payload_of(block), **damage})
    first = encode_frame(FrameKind.PAGE_MAP, version=1, identity=block.sha256.hex(), payload=payload)
    with pytest.raises(CorruptionError) as caught:
        assert decode_page_map(first, name=NAME, identity=block.sha256.hex(), block=BLOCK).found.keys
    assert caught.value.key == NAME


def test_both_frames_are_needed_and_nothing_more() -> None:
    block = write_block(numbered(5))
    cut = frame_length(block.sidecar, name=NAME)
    assert cut == block.map_bytes
    for data in (block.sidecar[:cut], block.sidecar + b"x", block.sidecar[cut:], block.sidecar[cut:] * 2):
        with pytest.raises(CorruptionError):
            decode_sidecar(data, name=NAME, identity=block.sha256.hex(), block=BLOCK)
