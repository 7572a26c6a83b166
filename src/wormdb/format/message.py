"""Typed MessagePack messages: what most frames hold.

A message is a frozen Struct written as a map with short names that never change meaning. A reader
ignores fields it does not know (a newer minor release may add some, with defaults) and refuses
values of a wrong type or range. Equal messages give equal bytes: fields go in the order of their
declaration, and messages hold tuples, never dicts.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

from wormdb.errors import LimitExceededError
from wormdb.format.damage import corrupt
from wormdb.settings import INT_MAX
from wormdb.system.types import WriteId

__all__ = ["HASH_BYTES", "ZERO_HASH", "Count", "Digest", "Id", "Name", "decode_message", "encode_message"]

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
