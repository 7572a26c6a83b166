"""A list of objects that no root names any more, when the root would grow too large with it."""

from __future__ import annotations

from typing import Final

import msgspec

from wormdb.format.frame import FrameKind, decode_frame, encode_frame
from wormdb.format.message import decode_message, encode_message
from wormdb.format.root import ObjectRef, Retired
from wormdb.settings import ROOT_BYTES_MAX

__all__ = ["RetiredList", "decode_retired", "encode_retired"]

_VERSION: Final = 1


class RetiredList(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Some of the retired objects; `older` names the list before it."""

    retired: tuple[Retired, ...] = msgspec.field(name="x")
    older: ObjectRef | None = msgspec.field(name="o", default=None)


_DECODER: Final = msgspec.msgpack.Decoder(RetiredList)


def encode_retired(retired: RetiredList, *, identity: str) -> bytes:
    """The bytes of a list. No requests; raises LimitExceededError."""
    payload = encode_message(
        retired, what="a list of retired objects", bytes_max=ROOT_BYTES_MAX, fix="write shorter lists"
    )
    return encode_frame(FrameKind.RETIRED, version=_VERSION, identity=identity, payload=payload)


def decode_retired(data: bytes, *, name: str, identity: str) -> RetiredList:
    """The list stored as object `name`. No requests; raises CorruptionError, UnsupportedFormatError."""
    frame = decode_frame(
        data, FrameKind.RETIRED, name=name, identity=identity, version_max=_VERSION, bytes_max=ROOT_BYTES_MAX
    )
    return decode_message(_DECODER, frame.payload, name=name)
