"""Deleted documents that can be restored, as users see them. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from wormdb.errors import InvalidRequestError
from wormdb.format import json
from wormdb.format.damage import corrupt
from wormdb.format.wrappers import moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.engine.state import Held, View
    from wormdb.schema.model import Model

__all__ = ["Tombstone", "Trashed", "check_trash", "read_tombstone", "tombstone", "trashed_in"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Trashed(Generic[T]):
    """A document in the trash."""

    id: Any
    deleted_at: datetime
    deleted_by: str | None
    """The actor of the delete."""
    expires_at: datetime | None
    """From when on `purge_expired` removes it; None if it stays for ever."""
    document: T
    """As it was when it was deleted."""


class _Stored(msgspec.Struct):
    deleted_at: str = msgspec.field(name="deletedAt")
    document: msgspec.Raw
    deleted_by: str | None = msgspec.field(name="deletedBy", default=None)
    ttl: int | None = None


_DECODER = msgspec.json.Decoder(_Stored)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What the trash says of a document; the document as JSON."""

    deleted_at: datetime
    deleted_by: str | None
    expires_at: datetime | None
    document: bytes


def tombstone(now_ms: int, actor: str | None, ttl: int | None) -> bytes:
    """The members of a JSON object that say when and by whom a document is deleted, and for how many days it stays."""
    now = moment(now_ms).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
    members = [b'"deletedAt":' + json.encode(now)]
    if actor is not None:
        members.append(b'"deletedBy":' + json.encode(actor))
    if ttl is not None:
        members.append(b'"ttl":%d' % ttl)
    return b",".join(members)


def read_tombstone(held: Held) -> Tombstone:
    """What the trash says of a document that is in it. No requests; raises CorruptionError."""
    assert held.trash is not None, "it is not in the trash"
    try:
        found = _DECODER.decode(held.trash)
        deleted_at = datetime.fromisoformat(found.deleted_at)
    except (msgspec.MsgspecError, ValueError) as error:
        corrupt(f"document {held.id.decode()}", f"what the trash has of it cannot be read: {error}")
    return Tombstone(deleted_at, found.deleted_by, _expiry(deleted_at, found.ttl), bytes(found.document))


def _expiry(deleted_at: datetime, ttl: int | None) -> datetime | None:
    if not ttl:
        return None
    try:
        return deleted_at + timedelta(days=ttl)
    except OverflowError:  # after the year 9999
        return None


def trashed_in(view: View) -> Iterator[Held]:
    """Everything that is in the trash in a view, in order of id. Costs as `View.scan_trashed`."""
    return (held for _, held in view.scan_trashed())


def check_trash(model: Model | None, name: str) -> None:
    """Raise InvalidRequestError if deleted documents of a collection do not go to a trash. No requests."""
    if model is None:
        raise InvalidRequestError(
            f"Soft delete is not enabled for {name}",
            reason="the collection has no model",
            fix='give it a model with "softDelete": true',
        )
    if not model.soft_delete.enabled:
        raise InvalidRequestError(
            f"Soft delete is not enabled for {name}", fix='set "softDelete": true in the model, and apply the schema'
        )
