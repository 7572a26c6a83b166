"""What the trash keeps beside a deleted document: when, by whom, for how long. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.format import json
from wormdb.format.frame import corrupt
from wormdb.format.wrappers import moment

if TYPE_CHECKING:
    from wormdb.engine.state.view import StoredVersion

__all__ = ["Tombstone", "read_tombstone", "tombstone"]


class _Stored(msgspec.Struct):
    deleted_at: str = msgspec.field(name="deletedAt")
    document: msgspec.Raw
    deleted_by: str | None = msgspec.field(name="deletedBy", default=None)
    ttl: int | None = None


_DECODER: Final = msgspec.json.Decoder(_Stored)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What the trash says of a document; the document as JSON."""

    deleted_at: datetime
    deleted_by: str | None
    expires_at: datetime | None
    document: bytes
    ttl: int | None = None
    """Days that it stays, as the model said when it was deleted; None and 0 keep it for ever."""


def tombstone(now_ms: int, actor: str | None, ttl: int | None) -> bytes:
    """The members of a JSON object that say when and by whom a document is deleted, and for how many days it stays."""
    now = moment(now_ms).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
    members = [b'"deletedAt":' + json.encode(now)]
    if actor is not None:
        members.append(b'"deletedBy":' + json.encode(actor))
    if ttl is not None:
        members.append(b'"ttl":%d' % ttl)
    return b",".join(members)


def read_tombstone(held: StoredVersion) -> Tombstone:
    """What the trash says of a document that is in it. No requests; raises CorruptionError."""
    assert held.trash is not None, "it is not in the trash"
    try:
        found = _DECODER.decode(held.trash)
        deleted_at = datetime.fromisoformat(found.deleted_at)
    except (msgspec.MsgspecError, ValueError) as error:
        corrupt(f"document {held.id.decode()}", f"what the trash has of it cannot be read: {error}")
    return Tombstone(deleted_at, found.deleted_by, _expiry(deleted_at, found.ttl), bytes(found.document), found.ttl)


def _expiry(deleted_at: datetime, ttl: int | None) -> datetime | None:
    if not ttl:
        return None
    try:
        return deleted_at + timedelta(days=ttl)
    except OverflowError:  # after the year 9999
        return None
