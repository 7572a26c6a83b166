from __future__ import annotations

import struct
from hashlib import blake2b

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from wormdb.errors import CorruptionError, LimitExceededError, UnsupportedFormatError
from wormdb.format.frame import HEADER_BYTES, Frame, FrameKind, decode_frame, encode_frame, frame_length

BYTES_MAX = 1 << 20


def decode(data: bytes, *, identity: str | None = None, kind: FrameKind = FrameKind.NODE) -> Frame:
    return decode_frame(data, kind, name="some/object", identity=identity, version_max=3, bytes_max=BYTES_MAX)


def craft(body: bytes, *, raw: int, compression: int = 1, version: int = 1, kind: int = FrameKind.NODE) -> bytes:
    """A frame with a right checksum and wrong contents, built from the byte table and not by the codec."""
    prefix = b"WORM" + bytes([kind, version, compression, 0]) + struct.pack("<II", raw, len(body))
    return prefix + blake2b(prefix + body, digest_size=16).digest() + body


def refused(data: bytes) -> str:
    with pytest.raises(CorruptionError) as caught:
        decode(data)
    assert caught.value.key == "some/object"
    assert "some/object" in str(caught.value)
    return caught.value.reason


@given(st.binary(max_size=2000), st.text(max_size=40), st.integers(1, 3), st.sampled_from(FrameKind))
def test_what_is_wrapped_comes_back(payload: bytes, identity: str, version: int, kind: FrameKind) -> None:
    data = encode_frame(kind, version=version, identity=identity, payload=payload)
    assert decode(data, identity=identity, kind=kind) == Frame(version, identity, payload)
    assert data == encode_frame(kind, version=version, identity=identity, payload=payload)
    assert frame_length(data + b"more", name="x") == len(data)


def test_the_layout_is_as_documented() -> None:
    data = encode_frame(FrameKind.ROOT, version=2, identity="id", payload=b"tiny")
    assert data[:16] == b"WORM" + bytes([2, 2, 0, 2]) + struct.pack("<II", 4, 4)
    assert data[16:32] == blake2b(data[:16] + b"id" + b"tiny", digest_size=16).digest()
    assert data[32:] == b"idtiny"
    assert HEADER_BYTES == 32


def test_small_payloads_are_stored_and_large_ones_compressed() -> None:
    assert encode_frame(FrameKind.NODE, version=1, identity="", payload=b"a" * 199)[6] == 0
    large = encode_frame(FrameKind.NODE, version=1, identity="", payload=b"a" * 200)
    assert large[6] == 1
    assert len(large) < 100


def test_noise_is_stored_as_it_is() -> None:
    noise = b"".join(blake2b(bytes([number])).digest() for number in range(8))
    assert encode_frame(FrameKind.NODE, version=1, identity="", payload=noise)[6] == 0


def test_another_kind_is_named() -> None:
    data = encode_frame(FrameKind.ROOT, version=1, identity="a", payload=b"x")
    assert refused(data) == "it should hold a node and holds a root"
    assert "kind 99" in refused(craft(b"x", raw=1, compression=0, kind=99))


def test_another_identity_is_named() -> None:
    data = encode_frame(FrameKind.NODE, version=1, identity="log/7", payload=b"x")
    with pytest.raises(CorruptionError, match="it should be 'log/8' and is 'log/7'"):
        decode(data, identity="log/8")
    assert decode(data).identity == "log/7"


def test_a_newer_version_says_so() -> None:
    data = encode_frame(FrameKind.NODE, version=4, identity="a", payload=b"x")
    with pytest.raises(UnsupportedFormatError, match="format version 4") as caught:
        decode(data)
    assert caught.value.key == "some/object"


def test_too_large_a_payload_is_refused_before_unpacking() -> None:
    body = zstandard.ZstdCompressor().compress(bytes(BYTES_MAX + 1))
    assert "would unpack to" in refused(craft(body, raw=BYTES_MAX + 1))


def test_a_bomb_that_lies_about_its_length_is_refused() -> None:
    bomb = zstandard.ZstdCompressor().compress(bytes(64 << 20))
    assert "declares another length" in refused(craft(bomb, raw=1000))


def test_a_bomb_without_a_length_is_refused() -> None:
    bomb = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(64 << 20))
    assert "declares another length" in refused(craft(bomb, raw=1000))


def test_a_frame_in_two_zstd_frames_is_refused() -> None:
    one = zstandard.ZstdCompressor().compress(b"a" * 500)
    refused(craft(one + one, raw=500))
    refused(craft(one + b"tail", raw=500))


@pytest.mark.parametrize("body", [b"", b"\x28\xb5\x2f\xfd", b"garbage that is no zstd"])
def test_what_is_no_zstd_is_refused(body: bytes) -> None:
    refused(craft(body, raw=500))


def test_stored_lengths_must_agree() -> None:
    assert refused(craft(b"abc", raw=4, compression=0)) == "its two lengths differ"
    assert refused(craft(b"abc", raw=3, compression=9)) == "its compression 9 is unknown"


@pytest.mark.parametrize("data", [b"", b"WORM", b"PAR1" + bytes(40)])
def test_what_is_no_frame_is_refused(data: bytes) -> None:
    refused(data)
    with pytest.raises(CorruptionError):
        frame_length(data, name="x")


def test_an_identity_has_a_limit() -> None:
    with pytest.raises(LimitExceededError):
        encode_frame(FrameKind.NODE, version=1, identity="x" * 256, payload=b"")
