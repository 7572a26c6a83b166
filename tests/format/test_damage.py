"""Every byte of every stored object matters: change one, and the object is refused by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import samples
from wormdb.errors import CorruptionError, UnsupportedFormatError
from wormdb.format.block import write_block
from wormdb.format.blocklist import decode_block_page, encode_block_page
from wormdb.format.blockread import open_block, read_documents, read_page
from wormdb.format.entry import decode_entry, encode_entry
from wormdb.format.frame import FrameKind, decode_frame
from wormdb.format.key import encode_key
from wormdb.format.membership import decode_filter_run, encode_filter_run
from wormdb.format.node import decode_node, encode_node
from wormdb.format.page import page_cells
from wormdb.format.root import decode_root, encode_root
from wormdb.format.sidecar import PageRef, decode_sidecar, locate

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "some/stored/object"
BLOCK = write_block(samples.rows(), samples.COLUMNS)
SIDECAR = decode_sidecar(BLOCK.sidecar, name=NAME, identity=BLOCK.sha256.hex(), block=NAME)
REF = locate(SIDECAR, encode_key("a"))
assert isinstance(REF, PageRef)
PAGE_REF: PageRef = REF


@dataclass(frozen=True)
class Kind:
    """One kind of stored object: some bytes, and how to read them."""

    name: str
    data: bytes
    read: Callable[[bytes], Any]
    step: int = 1
    """Look at some bytes only, evenly spaced."""


def _read_page(data: bytes) -> Any:
    return read_page(data, PAGE_REF, [encode_key("a")])


def _read_block(data: bytes) -> Any:
    return list(read_documents(open_block(data, name=NAME, sha256=BLOCK.sha256)))


def _read_sidecar(data: bytes) -> Any:
    return decode_sidecar(data, name=NAME, identity=BLOCK.sha256.hex(), block=NAME).map


KINDS = [
    Kind(
        "entry",
        encode_entry(samples.entry(), collection=samples.COLLECTION),
        lambda data: decode_entry(data, name=NAME, number=7, collection=samples.COLLECTION),
    ),
    Kind(
        "small entry",
        encode_entry(samples.small_entry(), collection=samples.COLLECTION),
        lambda data: decode_entry(data, name=NAME, number=1, collection=samples.COLLECTION),
    ),
    Kind("root", encode_root(samples.root()), lambda data: decode_root(data, name=NAME, path=samples.PATH)),
    Kind(
        "block list",
        encode_block_page(samples.block_page(), identity="i"),
        lambda data: decode_block_page(data, name=NAME, identity="i"),
    ),
    Kind(
        "filter run",
        encode_filter_run(samples.filter_run(), identity="i"),
        lambda data: decode_filter_run(data, name=NAME, identity="i"),
    ),
    Kind("leaf", encode_node(samples.leaf(), identity="i"), lambda data: decode_node(data, name=NAME, identity="i")),
    Kind("inner", encode_node(samples.inner(), identity="j"), lambda data: decode_node(data, name=NAME, identity="j")),
    Kind("sidecar", BLOCK.sidecar, _read_sidecar),
    Kind("page", BLOCK.parquet[REF.offset : REF.offset + REF.length], _read_page),
    Kind("block", BLOCK.parquet, _read_block, step=7),
]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def refused(kind: Kind, data: bytes) -> None:
    with pytest.raises((CorruptionError, UnsupportedFormatError)) as caught:
        kind.read(data)
    assert caught.value.key == NAME
    assert NAME in str(caught.value)


@every_kind
def test_untouched_bytes_are_read(kind: Kind) -> None:
    assert kind.read(kind.data) is not None


@every_kind
def test_every_flipped_byte_is_noticed(kind: Kind) -> None:
    for place in range(0, len(kind.data), kind.step):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(kind.data)
            damaged[place] ^= flip
            refused(kind, bytes(damaged))


@every_kind
def test_every_cut_is_noticed(kind: Kind) -> None:
    for length in range(0, len(kind.data), kind.step):
        refused(kind, kind.data[:length])


@every_kind
def test_added_bytes_are_noticed(kind: Kind) -> None:
    for more in (b"\0", b"WORM", kind.data):
        refused(kind, kind.data + more)
        refused(kind, more + kind.data)


@every_kind
def test_exchanged_objects_are_noticed(kind: Kind) -> None:
    for other in KINDS:
        if other is not kind:
            refused(kind, other.data)


@every_kind
def test_exchanged_halves_are_noticed(kind: Kind) -> None:
    half = len(kind.data) // 2
    refused(kind, kind.data[half:] + kind.data[:half])


@given(st.sampled_from(KINDS), st.binary(max_size=200))
def test_noise_is_refused(kind: Kind, noise: bytes) -> None:
    refused(kind, noise)
    if len(noise) > 40:
        refused(kind, kind.data[:32] + noise)


@given(st.binary(max_size=120))
def test_noise_is_never_a_page(noise: bytes) -> None:
    """Without the sidecar's checksum the parser stands alone: typed errors only, and no hang."""
    with pytest.raises(CorruptionError):
        page_cells(noise, name=NAME, rows=3, bytes_max=1000)


def test_a_flipped_page_without_its_checksum_is_a_typed_error_or_the_same_rows() -> None:
    """The parser behind the checksum: damage may reach it only if the sidecar is wrong as well."""
    page = BLOCK.parquet[PAGE_REF.offset : PAGE_REF.offset + PAGE_REF.length]
    good = [bytes(cell) for cell in page_cells(page, name=NAME, rows=len(samples.rows()), bytes_max=1 << 20)]
    for place in range(len(page)):
        damaged = bytearray(page)
        damaged[place] ^= 0x10
        try:
            cells = page_cells(bytes(damaged), name=NAME, rows=len(samples.rows()), bytes_max=1 << 20)
        except CorruptionError:
            continue
        assert [bytes(cell) for cell in cells] == good


@given(st.binary(max_size=120))
def test_noise_is_never_a_frame(noise: bytes) -> None:
    with pytest.raises(CorruptionError):
        decode_frame(noise, FrameKind.NODE, name=NAME, version_max=255, bytes_max=1 << 20)
