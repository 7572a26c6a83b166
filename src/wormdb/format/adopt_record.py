"""How far the adoption of a collection has come: one small object, swapped by compare-and-set, gone when it is done.

It names the blocks that are written already and that no log entry names yet. A job that goes on begins behind them;
garbage collection, which removes objects without a name, must leave these.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import msgspec

from wormdb.format.blocklist import BlockEntry
from wormdb.format.frame import (
    Count,
    Digest,
    FrameKind,
    Id,
    Name,
    corrupt,
    decode_frame,
    decode_message,
    encode_frame,
    encode_message,
)
from wormdb.settings import ROOT_BYTES_MAX

__all__ = ["AdoptRecord", "AdoptedObject", "StagedPart", "decode_adopt_record", "encode_adopt_record"]

_VERSION: Final = 1


class StagedPart(msgspec.Struct, frozen=True, kw_only=True):
    """Documents up to and with the one whose id's key is `through`, after those of the part before."""

    through: bytes = msgspec.field(name="t")
    blocks: tuple[BlockEntry, ...] = msgspec.field(name="b")
    history: tuple[BlockEntry, ...] = msgspec.field(name="h")


class AdoptedObject(msgspec.Struct, frozen=True, kw_only=True):
    """A file of another program whose documents were adopted."""

    key: Name = msgspec.field(name="k")
    version: str = msgspec.field(name="v")
    """Of the store, when it was read."""
    digest: Digest = msgspec.field(name="d")
    """SHA-256 of its bytes: in another store a version means nothing."""


class AdoptRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One job. A new record has a `write_id` of its own, so that no two have equal bytes."""

    path: Name = msgspec.field(name="p")
    """Where the collection lies in the database."""
    job: Id = msgspec.field(name="j")
    write_id: Id = msgspec.field(name="w")
    limit: Count = msgspec.field(name="l")
    """The MISC when it began: nothing that it adopts is later."""
    plan: Digest = msgspec.field(name="d")
    """Of the files that there were, the model, and how it was to be done: another job goes another way."""
    parts: tuple[StagedPart, ...] = msgspec.field(name="b", default=())
    objects: tuple[AdoptedObject, ...] = msgspec.field(name="o", default=())
    """Of an adoption that is done: the files, where they stay those of another program."""


_DECODER: Final = msgspec.msgpack.Decoder(AdoptRecord)


def encode_adopt_record(record: AdoptRecord) -> bytes:
    """The bytes of a record; equal records give equal bytes. No requests; raises LimitExceededError."""
    payload = encode_message(
        record, what=f"the adoption of {record.path}", bytes_max=ROOT_BYTES_MAX, fix="use larger blocks"
    )
    return encode_frame(FrameKind.ADOPTION, version=_VERSION, identity=record.path, payload=payload)


def decode_adopt_record(data: bytes, *, name: str, path: str) -> AdoptRecord:
    """The record stored as object `name`, of the collection at `path`. No requests.

    Raises CorruptionError, UnsupportedFormatError.
    """
    frame = decode_frame(
        data, FrameKind.ADOPTION, name=name, identity=path, version_max=_VERSION, bytes_max=ROOT_BYTES_MAX
    )
    record = decode_message(_DECODER, frame.payload, name=name)
    if any(one.through >= two.through for one, two in pairwise(record.parts)):
        corrupt(name, "its parts are out of order")
    return record
