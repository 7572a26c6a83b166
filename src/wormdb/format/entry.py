"""The log entry: one object, one commit.

An entry holds whole batches of changes, each change with the document before and after it, and
events. It names the log (`collection`, an incarnation) and the slot (`number`) it belongs to, and
the hash of the entry before it, so that no entry can be moved, edited or left out unnoticed.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from wormdb.errors import CorruptionError
from wormdb.format.change import LoggedBatch, LoggedChange
from wormdb.format.event import EVENT_KINDS, Event, TransactionPrepared, refuse_kinds
from wormdb.format.frame import (
    Count,
    Digest,
    FrameKind,
    Id,
    corrupt,
    decode_frame,
    decode_message,
    encode_frame,
    encode_message,
)
from wormdb.settings import ENTRY_BYTES_MAX

__all__ = ["Entry", "LoggedBatch", "LoggedChange", "decode_entry", "encode_entry", "entry_hash"]

_VERSION: Final = 1


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One slot of a collection's log."""

    number: Annotated[int, Meta(ge=1, le=2**63 - 1)] = msgspec.field(name="n")
    write_id: Id = msgspec.field(name="w")
    misc: Count = msgspec.field(name="t")
    node: Annotated[int, Meta(ge=0, le=255)] = msgspec.field(name="o")
    previous: Digest = msgspec.field(name="p")
    """`entry_hash` of slot number - 1; zeros for the first."""
    batches: tuple[LoggedBatch, ...] = msgspec.field(name="b", default=())
    events: tuple[Event, ...] = msgspec.field(name="e", default=())


class _Tagged(msgspec.Struct):
    kind: str = msgspec.field(name="k", default="")


class _Tags(msgspec.Struct):
    events: tuple[_Tagged, ...] = msgspec.field(name="e", default=())


_DECODER: Final = msgspec.msgpack.Decoder(Entry)
_TAGS_DECODER: Final = msgspec.msgpack.Decoder(_Tags)


def encode_entry(entry: Entry, *, collection: str) -> bytes:
    """The bytes of slot `entry.number` of log `collection`; equal entries give equal bytes.

    Raises LimitExceededError above ENTRY_BYTES_MAX. No requests.
    """
    assert entry.number > 0, entry.number
    assert entry.batches or entry.events, "an entry that settles a slot holds the event Nothing"
    assert all(_is_sound(change) for change in _changes(entry)), "an empty change"
    assert not entry.events or _is_readable(entry.events), "an event that no version can read"
    payload = encode_message(entry, what=f"log entry {entry.number}", bytes_max=ENTRY_BYTES_MAX, fix="split the batch")
    return encode_frame(
        FrameKind.ENTRY, version=_VERSION, identity=_identity(collection, entry.number), payload=payload
    )


def decode_entry(data: bytes, *, name: str, number: int, collection: str) -> Entry:
    """The entry stored as object `name`, which must be slot `number` of log `collection`. No requests.

    Raises CorruptionError, and UnsupportedFormatError for a newer version or an unknown kind of event.
    """
    frame = decode_frame(
        data,
        FrameKind.ENTRY,
        name=name,
        identity=_identity(collection, number),
        version_max=_VERSION,
        bytes_max=ENTRY_BYTES_MAX,
    )
    try:
        entry = decode_message(_DECODER, frame.payload, name=name)
    except CorruptionError:
        _refuse_unknown_events(frame.payload, name)
        raise
    if entry.number != number:
        corrupt(name, f"it should be slot {number} and says {entry.number}")
    if not entry.batches and not entry.events:
        corrupt(name, "it holds neither a batch nor an event")
    if not all(_is_sound(change) for change in _changes(entry)):
        corrupt(name, "a change has neither a before nor an after")
    return entry


def entry_hash(data: bytes) -> bytes:
    """What the next entry carries as `previous`: the SHA-256 of this entry's stored bytes."""
    return sha256(data).digest()


def _changes(entry: Entry) -> list[LoggedChange]:
    """Those of its batches, and those that it prepares."""
    prepared = (event.batch for event in entry.events if isinstance(event, TransactionPrepared))
    return [change for batch in (*entry.batches, *prepared) for change in batch.changes]


def _is_sound(change: LoggedChange) -> bool:
    return change.before is not None or change.after is not None or change.op == "purge"


def _is_readable(events: tuple[Event, ...]) -> bool:
    """Whether events can be read again: one with a value of another type would end the collection."""
    try:
        return msgspec.convert(msgspec.to_builtins(events, builtin_types=(bytes,)), type=tuple[Event, ...]) == events
    except msgspec.ValidationError:
        return False


def _identity(collection: str, number: int) -> str:
    return f"{collection}/{number}"


def _refuse_unknown_events(payload: bytes, name: str) -> None:
    tags = decode_message(_TAGS_DECODER, payload, name=name)
    unknown = {tag.kind for tag in tags.events} - EVENT_KINDS - {""}
    if unknown:
        refuse_kinds(unknown, name=name)
