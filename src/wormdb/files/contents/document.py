"""The file of one document: its id first, its fields, and the log number of its last change as `_rev`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from wormdb.files.contents.records import folder_values
from wormdb.files.contents.values import (
    STAMPS,
    indent,
    iso_text,
    plain_document,
    plain_fields,
    plain_value,
    read_member,
    read_object,
    read_values,
)
from wormdb.format.frame import corrupt
from wormdb.format.kinds import MISSING, Document
from wormdb.format.packed import unpack
from wormdb.format.past import Version, misc_ms, raw_difference
from wormdb.format.segment import check_id
from wormdb.format.values import equal, normalize
from wormdb.format.wrappers import moment
from wormdb.schema.validate import parse_datetime
from wormdb.settings import FILE_BYTES_MAX

if TYPE_CHECKING:
    from datetime import datetime

    from wormdb.engine.history.tombstone import Tombstone
    from wormdb.schema.model import Model

__all__ = [
    "OplogEntry",
    "OplogOperation",
    "TombstoneFile",
    "entity_file",
    "oplog_file",
    "plain_fields",
    "read_entity",
    "read_line",
    "read_oplog",
    "read_tombstone_file",
    "snapshot_file",
    "tombstone_file",
]


def entity_file(document: bytes, rev: int, model: Model | None) -> bytes:
    """The file of a stored document (extended JSON with `_id`) that entry `rev` of the log wrote. No requests.

    Declared dates are plain ISO text, and all other values that JSON lacks are extended JSON. A field that a user
    calls `_rev` is not shown: the log's number is.
    """
    shown = plain_document(document, model)
    stamps = {name: shown.pop(name) for name in STAMPS if name in shown}
    shown.pop("_rev", None)
    return indent({**shown, "_rev": rev, **stamps})


def read_entity(
    body: bytes, *, key: str, model: Model | None, identity: Any = MISSING, path: str = ""
) -> tuple[Document, int | None]:
    """The normalized document in a file, with `_id` first if it has one, and its `_rev`. No requests.

    With `identity`, the id in the file's key, that is the id; the file may lack one, or write it as text. A `path` of
    folders, or an id that is one, adds the values that they tell and the file lacks. Raises
    CorruptionError naming the key for a file without a document, and for another id.
    """
    # Objects with `Content-Encoding: gzip` are packed, whatever they are called.
    values = read_object(unpack(body, key=key, limit=FILE_BYTES_MAX), key=key)
    if not path and model is not None and model.path.is_deep and isinstance(identity, str):
        path = identity
    values |= {name: value for name, value in folder_values(path, model).items() if name not in values}
    rev = values.get("_rev")
    if type(rev) is int and rev >= 0:
        del values["_rev"]
    else:
        rev = None
    written = [values.pop(name) for name in ("_id", "id") if name in values]
    for one in written:
        wanted = written[0] if identity is MISSING else identity
        if not equal(one, wanted) and (identity is MISSING or str(one) != str(wanted)):
            corrupt(key, f"its id is {one!r}, not {wanted!r}")
    known = written[:1] if identity is MISSING else [identity]
    document = normalize({**({"_id": known[0]} if known else {}), **read_values(values, model)})
    assert type(document) is dict
    return document, rev


def read_line(text: bytes, number: int, *, key: str, model: Model, file: Any) -> tuple[Document, int | None]:
    """The document in one line of a file of many, whose id in its key is `file`, and its `_rev`. No requests.

    It has the id that it says, else that of its file and the number of the line: `part-0#17`. Raises CorruptionError
    naming the key, InvalidRequestError for an id that cannot be one.
    """
    path = str(file) if model.path.is_deep else ""
    document, rev = read_entity(text, key=key, model=model, path=path)
    identity = document.get("_id", f"{file}#{number}")
    check_id(identity)
    return {"_id": identity, **document}, rev


# --- The file of a snapshot: the whole document, just as its own file was, so that a copy can be used at once.


def snapshot_file(version: Version, model: Model | None) -> bytes:
    """The file of a version that is kept as a snapshot; it has a document. No requests."""
    assert version.document is not None, "a deleted version has no snapshot"
    return entity_file(version.document, version.rev, model)


# --- The file of one change of one document: what was done, when, by whom, and what it did.

OplogOperation = Literal["create", "update", "delete", "restore"]
_OPERATIONS: Final = ("create", "update", "delete", "restore")


@dataclass(frozen=True, slots=True)
class OplogEntry:
    """What the file of a change says."""

    seq: int
    op: OplogOperation
    ts: datetime
    actor: str | None
    snapshot: dict[str, Any] | None
    """The whole document: after a create or a restore, before a delete; with `_id` if the file has one."""
    diff: dict[str, tuple[Any, Any]] | None
    """What an update changed: each field with its value before and after, None where it was absent."""
    metadata: dict[str, Any] | None
    log: int | None
    """The number of the change in the log of the collection; None in files of others."""


_ENDS: Final = frozenset({"purge", "expire"})
"""Deletes of a kind of their own, which the seed's operations do not have."""


def oplog_file(version: Version, before: bytes | None, model: Model | None) -> bytes:
    """The file of a version; `before` is the document as the version before it left it. No requests.

    An update of which history does not know what was before is written with the whole document. A purge is a delete
    without a document, with `purge` in its metadata; the end of a document
    whose time was over is a delete with `expire` there.
    """
    entry: dict[str, Any] = {
        "seq": version.seq,
        "op": "delete" if version.op in _ENDS else version.op,
        "ts": iso_text(moment(misc_ms(version.misc))),
    }
    if version.actor is not None:
        entry["actor"] = version.actor
    if version.op == "update" and before is not None:
        found = raw_difference(before, version.document, stamped=model is not None)
        entry["diff"] = {
            name: [plain_value(name, one, model), plain_value(name, two, model)] for name, (one, two) in found.items()
        }
    elif version.op != "purge":
        whole = before if version.op in {"delete", "expire"} else version.document
        if whole is not None:
            entry["snapshot"] = plain_document(whole, model)
    metadata = {} if version.meta is None else msgspec.json.decode(version.meta)
    if version.op in _ENDS:
        metadata[version.op] = True
    if metadata:
        entry["metadata"] = metadata
    return indent({**entry, "log": version.rev})


def read_oplog(body: bytes, *, key: str, model: Model | None = None) -> OplogEntry:
    """What the file of a change says, in the types that a model declares. No requests.

    Raises CorruptionError naming the key.
    """
    values = read_object(body, key=key)
    seq, op, ts = (read_member(values, name, kind, key=key) for name, kind in (("seq", int), ("op", str), ("ts", str)))
    when = parse_datetime(ts or "")
    if seq is None or seq < 1 or op not in _OPERATIONS or when is None:
        corrupt(key, "it lacks a seq from 1 on, an op or a ts with a time")
    snapshot = read_member(values, "snapshot", dict, key=key)
    if snapshot is not None and "id" in snapshot:
        snapshot = {"_id": snapshot.pop("id"), **snapshot}
    diff = read_member(values, "diff", dict, key=key)
    return OplogEntry(
        seq=seq,
        op=op,
        ts=when,
        actor=read_member(values, "actor", str, key=key),
        snapshot=None if snapshot is None else read_values(snapshot, model),
        diff=None if diff is None else _read_diff(diff, model, key=key),
        metadata=read_member(values, "metadata", dict, key=key),
        log=read_member(values, "log", int, key=key),
    )


def _read_diff(diff: dict[str, Any], model: Model | None, *, key: str) -> dict[str, tuple[Any, Any]]:
    pairs = {}
    for name, pair in diff.items():
        if type(pair) is not list or len(pair) != 2:
            corrupt(key, f"its diff of {name} must be a pair of values")
        one, two = (read_values({name: value}, model)[name] for value in pair)
        pairs[name] = (one, two)
    return pairs


# --- The file beside a deleted document that says when and by whom it was deleted, and where it was.


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
    return indent({**written, "log": rev})


def read_tombstone_file(body: bytes, *, key: str) -> TombstoneFile:
    """What the file says; raises CorruptionError naming the key. No requests."""
    values = read_object(body, key=key)
    deleted_at = parse_datetime(read_member(values, "deletedAt", str, key=key) or "")
    restore_path = read_member(values, "restorePath", str, key=key)
    if deleted_at is None or restore_path is None:
        corrupt(key, "it lacks a deletedAt with a time, or a restorePath")
    ttl, log = (read_member(values, name, int, key=key) for name in ("ttl", "log"))
    return TombstoneFile(deleted_at, read_member(values, "deletedBy", str, key=key), restore_path, ttl, log)
