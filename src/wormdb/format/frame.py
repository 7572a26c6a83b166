"""The envelope of every stored object that is not Parquet.

A frame says what it holds (kind, version), which object it is (identity) and how it is packed, and
carries a checksum over all of it. So a flipped, cut, extended or exchanged object is noticed before
one byte of its payload is believed. The first 32 bytes have the same layout in every version; the
version counts changes of the payload that older code would misread.
"""

from __future__ import annotations

import enum
import struct
from collections import deque
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Final, NoReturn, TypeVar

import msgspec
import zstandard
from msgspec import Meta

from wormdb.errors import CorruptionError, LimitExceededError, UnsupportedFormatError
from wormdb.settings import INT_MAX
from wormdb.system.types import WriteId

__all__ = [
    "HASH_BYTES",
    "HEADER_BYTES",
    "IDENTITY_BYTES_MAX",
    "ZERO_HASH",
    "Count",
    "Digest",
    "Frame",
    "FrameKind",
    "Id",
    "Name",
    "corrupt",
    "decode_frame",
    "decode_message",
    "encode_frame",
    "encode_message",
    "frame_length",
]


# --- The one way to say that stored bytes are not what was written.


def corrupt(name: str, reason: str) -> NoReturn:
    """Raise CorruptionError about object `name`. No requests."""
    raise CorruptionError(f"{name} is damaged", reason=reason, key=name)


_MAGIC: Final = b"WORM"
# magic, kind, version, compression, bytes of identity, raw bytes, stored bytes
_PREFIX: Final = struct.Struct("<4sBBBBII")
_DIGEST_BYTES: Final = 16
HEADER_BYTES: Final = _PREFIX.size + _DIGEST_BYTES
"""Bytes before the identity."""
IDENTITY_BYTES_MAX: Final = 255
"""UTF-8 bytes of an identity."""

_STORED: Final = 0
_ZSTD: Final = 1
_ZSTD_LEVEL: Final = 3
_COMPRESS_BYTES_MIN: Final = 200
_FRAME_BYTES_MAX: Final = 2**32 - 1


_idle: Final[deque[zstandard.ZstdDecompressor]] = deque(maxlen=64)
"""What unpacks and is not in use: to make one takes ten times as long as to unpack a log entry."""


class FrameKind(enum.IntEnum):
    """What a frame holds. Numbers are stored: never reuse one."""

    ENTRY = 1
    ROOT = 2
    NODE = 3
    BLOCK_LIST = 4
    PAGE_MAP = 5
    FILTER = 6
    FILTER_RUN = 7
    RETIRED = 8
    FILES = 9
    ADOPTION = 10
    TRANSACTION = 11
    FLOOR = 12
    LIST_PART = 13
    LIST_TRAINED = 14


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame whose checksum was right."""

    version: int
    identity: str
    payload: bytes


def encode_frame(kind: FrameKind, *, version: int, identity: str, payload: bytes) -> bytes:
    """Wrap `payload`; equal arguments give equal bytes under one zstd library. No requests."""
    name = identity.encode()
    assert 0 < version < 256, version
    if len(name) > IDENTITY_BYTES_MAX or len(payload) > _FRAME_BYTES_MAX:
        raise LimitExceededError(
            f"cannot store a {kind.name.lower()} of {len(payload)} bytes for {identity[:80]!r}",
            reason=f"a frame holds {_FRAME_BYTES_MAX} bytes and {IDENTITY_BYTES_MAX} bytes of identity",
            fix="split it, or use a shorter name",
        )
    compression, body = _STORED, payload
    if len(payload) >= _COMPRESS_BYTES_MIN:
        packed = zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(payload)
        if len(packed) < len(payload):
            compression, body = _ZSTD, packed
    prefix = _PREFIX.pack(_MAGIC, kind, version, compression, len(name), len(payload), len(body))
    return b"".join((prefix, _digest(prefix, name, body), name, body))


def decode_frame(
    data: bytes, kind: FrameKind, *, name: str, version_max: int, bytes_max: int, identity: str | None = None
) -> Frame:
    """Check and unwrap the frame stored as object `name`. No requests.

    Raises CorruptionError, naming the object, if any byte is not what was written, if it is of
    another kind, if it is the frame of another object than `identity`, or if it would unpack to
    more than `bytes_max`; UnsupportedFormatError if its version is above `version_max`.
    """
    found, version, compression, name_bytes, raw_bytes, stored_bytes = _read_prefix(data, name)
    start = HEADER_BYTES + name_bytes
    if len(data) != start + stored_bytes:
        corrupt(name, f"it should be {start + stored_bytes} bytes long and is {len(data)}")
    view = memoryview(data)
    body = view[start:]
    if _digest(view[: _PREFIX.size], view[HEADER_BYTES:start], body) != data[_PREFIX.size : HEADER_BYTES]:
        corrupt(name, "its checksum is wrong")
    if found != kind:
        corrupt(name, f"it should hold a {_kind_name(kind)} and holds a {_kind_name(found)}")
    label = str(view[HEADER_BYTES:start], "utf-8", "replace")
    if identity is not None and label != identity:
        corrupt(name, f"it should be {identity!r} and is {label!r}")
    if version > version_max:
        raise UnsupportedFormatError(
            f"{name} cannot be read",
            reason=f"it is a {_kind_name(kind)} of format version {version}; this wormdb knows up to {version_max}",
            fix="upgrade wormdb",
            key=name,
        )
    if raw_bytes > bytes_max:
        corrupt(name, f"it would unpack to {raw_bytes} bytes; {bytes_max} are allowed")
    return Frame(version, label, _unpack(body, compression, raw_bytes, name))


def frame_length(data: bytes, *, name: str) -> int:
    """Length of the frame that `data` begins with, so that frames can stand one after another.

    Only the prefix is looked at; `decode_frame` checks the frame. Raises CorruptionError.
    """
    _, _, _, name_bytes, _, stored_bytes = _read_prefix(data, name)
    return HEADER_BYTES + name_bytes + stored_bytes


def _read_prefix(data: bytes, name: str) -> tuple[int, int, int, int, int, int]:
    if len(data) < HEADER_BYTES:
        corrupt(name, f"it is cut off after {len(data)} bytes")
    magic, *rest = _PREFIX.unpack_from(data)
    if magic != _MAGIC:
        corrupt(name, "it does not begin as an object of wormdb does")
    kind, version, compression, name_bytes, raw_bytes, stored_bytes = rest
    return kind, version, compression, name_bytes, raw_bytes, stored_bytes


def _unpack(body: memoryview, compression: int, raw_bytes: int, name: str) -> bytes:
    if compression == _STORED:
        if raw_bytes != len(body):
            corrupt(name, "its two lengths differ")
        return bytes(body)
    if compression != _ZSTD:
        corrupt(name, f"its compression {compression} is unknown")
    try:
        unpacker = _idle.pop()
    except IndexError:
        unpacker = zstandard.ZstdDecompressor()
    try:
        # The library allocates what the compressed data declares, so that is compared first.
        if zstandard.frame_content_size(body) != raw_bytes:
            corrupt(name, "its compressed data declares another length")
        payload = unpacker.decompress(body, max_output_size=raw_bytes, allow_extra_data=False)
    except zstandard.ZstdError as error:
        corrupt(name, f"it cannot be unpacked: {error}")
    _idle.append(unpacker)
    if len(payload) != raw_bytes:
        corrupt(name, "it unpacks to another length")
    return payload


def _digest(prefix: bytes | memoryview, identity: bytes | memoryview, body: bytes | memoryview) -> bytes:
    state = blake2b(prefix, digest_size=_DIGEST_BYTES)
    state.update(identity)
    state.update(body)
    return state.digest()


def _kind_name(number: int) -> str:
    return (
        FrameKind(number).name.lower().replace("_", " ") if number in FrameKind._value2member_map_ else f"kind {number}"
    )


# --- Typed MessagePack messages: what most frames hold.
#
# A message is a frozen Struct written as a map with short names that never change meaning. A reader
# ignores fields it does not know (a newer minor release may add some, with defaults) and refuses
# values of a wrong type or range. Equal messages give equal bytes: fields go in the order of their
# declaration, and messages hold tuples, never dicts.

HASH_BYTES: Final = 32
ZERO_HASH: Final = bytes(HASH_BYTES)
"""What stands for the hash of nothing: before the first entry."""

Count = Annotated[int, Meta(ge=0, le=INT_MAX)]
Digest = Annotated[bytes, Meta(min_length=HASH_BYTES, max_length=HASH_BYTES)]
Id = Annotated[WriteId, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
Name = Annotated[str, Meta(min_length=1, max_length=1024)]

_T = TypeVar("_T")
_ENCODER: Final = msgspec.msgpack.Encoder()


def encode_message(message: msgspec.Struct, *, what: str, bytes_max: int, fix: str) -> bytes:
    """The bytes of `message`; LimitExceededError about `what`, with `fix`, above `bytes_max`. No requests."""
    payload = _ENCODER.encode(message)
    if len(payload) > bytes_max:
        raise LimitExceededError(f"{what} is too large", reason=f"it has {len(payload)} bytes of {bytes_max}", fix=fix)
    return payload


def decode_message(decoder: msgspec.msgpack.Decoder[_T], payload: bytes, *, name: str) -> _T:
    """The message in `payload`; CorruptionError naming object `name` if it is none. No requests."""
    try:
        return decoder.decode(payload)
    # A string that is not UTF-8 and a nest without end come as these two.
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        corrupt(name, f"its message cannot be read: {error}")
