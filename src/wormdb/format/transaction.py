"""The record of a transaction over several collections, and the floor below which records may be gone.

A record is created once, if absent, and says whether the transaction committed. There is none before that is decided.
A transaction's id begins with the store's time when it began, in milliseconds: so ids sort by age, and how old one is
can be compared with the times of the store's own answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.format.frame import (
    Count,
    FrameKind,
    Id,
    Name,
    corrupt,
    decode_frame,
    decode_message,
    encode_frame,
    encode_message,
)
from wormdb.settings import TRANSACTION_BYTES_MAX
from wormdb.system.types import StoreTime, WriteId

if TYPE_CHECKING:
    from wormdb.system.clock import Chance

__all__ = [
    "TransactionFloor",
    "TransactionRecord",
    "decode_floor",
    "decode_record",
    "encode_floor",
    "encode_record",
    "floor_at",
    "new_transaction_id",
    "transaction_began",
]

_VERSION: Final = 1
_TIME_DIGITS: Final = 12
_FLOOR: Final = "floor"


class TransactionRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a transaction. No two records have equal bytes, because of the `write_id`."""

    tx: Id = msgspec.field(name="x")
    write_id: Id = msgspec.field(name="w")
    misc: Count = msgspec.field(name="t")
    committed: bool = msgspec.field(name="c", default=False)
    participants: tuple[Name, ...] = msgspec.field(name="p", default=())
    """The folders of the collections that it was to change or had read."""


class TransactionFloor(msgspec.Struct, frozen=True, kw_only=True):
    """Records of transactions whose ids sort before `floor` may be gone. It only rises, by compare-and-set."""

    floor: Id = msgspec.field(name="f")
    following: Id = msgspec.field(name="n")
    """The next floor: when this object was written all transactions before it had been finished everywhere."""
    write_id: Id = msgspec.field(name="w")


_RECORD_DECODER: Final = msgspec.msgpack.Decoder(TransactionRecord)
_FLOOR_DECODER: Final = msgspec.msgpack.Decoder(TransactionFloor)


def new_transaction_id(began: int, chance: Chance) -> WriteId:
    """An id that never repeats, of a transaction that began at a time of the store, in milliseconds."""
    digits = f"{began:0{_TIME_DIGITS}x}"[-_TIME_DIGITS:]
    return WriteId(digits + chance.token(16).hex()[_TIME_DIGITS:])


def floor_at(time: int) -> WriteId:
    """The lowest id of a transaction that began at a time of the store, in milliseconds, or later."""
    return WriteId(f"{max(time, 0):0{_TIME_DIGITS}x}".ljust(32, "0"))


def transaction_began(transaction: str) -> StoreTime:
    """The store's time when a transaction began, in milliseconds."""
    return StoreTime(int(transaction[:_TIME_DIGITS], 16))


def encode_record(record: TransactionRecord) -> bytes:
    """The bytes of a record; equal records give equal bytes. No requests; raises LimitExceededError."""
    payload = encode_message(
        record,
        what=f"the record of transaction {record.tx}",
        bytes_max=TRANSACTION_BYTES_MAX // 2,
        fix="use fewer collections in one transaction",
    )
    return encode_frame(FrameKind.TRANSACTION, version=_VERSION, identity=record.tx, payload=payload)


def decode_record(data: bytes, *, name: str, transaction: str) -> TransactionRecord:
    """The record stored as object `name`. No requests; raises CorruptionError, UnsupportedFormatError."""
    frame = decode_frame(
        data,
        FrameKind.TRANSACTION,
        name=name,
        identity=transaction,
        version_max=_VERSION,
        bytes_max=TRANSACTION_BYTES_MAX,
    )
    record = decode_message(_RECORD_DECODER, frame.payload, name=name)
    if record.tx != transaction:
        corrupt(name, f"it should be of transaction {transaction} and says {record.tx}")
    return record


def encode_floor(floor: TransactionFloor) -> bytes:
    """The bytes of the floor. No requests."""
    payload = encode_message(
        floor, what="the floor of transactions", bytes_max=TRANSACTION_BYTES_MAX // 2, fix="report it"
    )
    return encode_frame(FrameKind.FLOOR, version=_VERSION, identity=_FLOOR, payload=payload)


def decode_floor(data: bytes, *, name: str) -> TransactionFloor:
    """The floor stored as object `name`. No requests; raises CorruptionError, UnsupportedFormatError."""
    frame = decode_frame(
        data, FrameKind.FLOOR, name=name, identity=_FLOOR, version_max=_VERSION, bytes_max=TRANSACTION_BYTES_MAX
    )
    return decode_message(_FLOOR_DECODER, frame.payload, name=name)
