"""The file beside a deleted document that says when and by whom it was deleted, and where it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wormdb.files.contents.values import indented, iso_text, member, read_object
from wormdb.format.damage import corrupt
from wormdb.schema.coerce import parse_datetime

if TYPE_CHECKING:
    from datetime import datetime

    from wormdb.engine.history.tombstone import Tombstone

__all__ = ["TombstoneFile", "read_tombstone_file", "tombstone_file"]


@dataclass(frozen=True, slots=True)
class TombstoneFile:
    """What the file says."""

    deleted_at: datetime
    deleted_by: str | None
    restore_path: str
    """The key of the document's file while it was alive."""
    ttl: int | None
    """Days until it may be removed; None and 0 keep it for ever."""
    log: int | None
    """The number of the delete in the log; None in files of others."""


def tombstone_file(found: Tombstone, restore_path: str, rev: int) -> bytes:
    """The file of a tombstone; `rev` is the log number of the delete. No requests."""
    written: dict[str, Any] = {"deletedAt": iso_text(found.deleted_at)}
    if found.deleted_by is not None:
        written["deletedBy"] = found.deleted_by
    written["restorePath"] = restore_path
    if found.ttl is not None:
        written["ttl"] = found.ttl
    return indented({**written, "log": rev})


def read_tombstone_file(body: bytes, *, key: str) -> TombstoneFile:
    """What the file says; raises CorruptionError naming the key. No requests."""
    values = read_object(body, key=key)
    deleted_at = parse_datetime(member(values, "deletedAt", str, key=key) or "")
    restore_path = member(values, "restorePath", str, key=key)
    if deleted_at is None or restore_path is None:
        corrupt(key, "it lacks a deletedAt with a time, or a restorePath")
    ttl, log = (member(values, name, int, key=key) for name in ("ttl", "log"))
    return TombstoneFile(deleted_at, member(values, "deletedBy", str, key=key), restore_path, ttl, log)
