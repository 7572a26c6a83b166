"""The file of one change of one document: what was done, when, by whom, and what it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from wormdb.files.contents.values import (
    indented,
    iso_text,
    member,
    plain_document,
    plain_value,
    read_object,
    read_values,
)
from wormdb.format.damage import corrupt
from wormdb.format.differing import raw_difference
from wormdb.format.past import misc_ms
from wormdb.format.wrappers import moment
from wormdb.schema.coerce import parse_datetime

if TYPE_CHECKING:
    from datetime import datetime

    from wormdb.format.past import Version
    from wormdb.schema.model import Model

__all__ = ["OplogEntry", "OplogOperation", "oplog_file", "read_oplog"]

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


def oplog_file(version: Version, before: bytes | None, model: Model | None) -> bytes:
    """The file of a version; `before` is the document as the version before it left it. No requests.

    An update of which history does not know what was before is written with the whole document. A purge is a delete
    without a document, with `purge` in its metadata.
    """
    entry: dict[str, Any] = {
        "seq": version.seq,
        "op": "delete" if version.op == "purge" else version.op,
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
        whole = before if version.op == "delete" else version.document
        if whole is not None:
            entry["snapshot"] = plain_document(whole, model)
    metadata = {} if version.meta is None else msgspec.json.decode(version.meta)
    if version.op == "purge":
        metadata["purge"] = True
    if metadata:
        entry["metadata"] = metadata
    return indented({**entry, "log": version.rev})


def read_oplog(body: bytes, *, key: str, model: Model | None = None) -> OplogEntry:
    """What the file of a change says, in the types that a model declares. No requests.

    Raises CorruptionError naming the key.
    """
    values = read_object(body, key=key)
    seq, op, ts = (member(values, name, kind, key=key) for name, kind in (("seq", int), ("op", str), ("ts", str)))
    when = parse_datetime(ts or "")
    if seq is None or seq < 1 or op not in _OPERATIONS or when is None:
        corrupt(key, "it lacks a seq from 1 on, an op or a ts with a time")
    snapshot = member(values, "snapshot", dict, key=key)
    if snapshot is not None and "id" in snapshot:
        snapshot = {"_id": snapshot.pop("id"), **snapshot}
    diff = member(values, "diff", dict, key=key)
    return OplogEntry(
        seq=seq,
        op=op,
        ts=when,
        actor=member(values, "actor", str, key=key),
        snapshot=None if snapshot is None else read_values(snapshot, model),
        diff=None if diff is None else _read_diff(diff, model, key=key),
        metadata=member(values, "metadata", dict, key=key),
        log=member(values, "log", int, key=key),
    )


def _read_diff(diff: dict[str, Any], model: Model | None, *, key: str) -> dict[str, tuple[Any, Any]]:
    pairs = {}
    for name, pair in diff.items():
        if type(pair) is not list or len(pair) != 2:
            corrupt(key, f"its diff of {name} is no pair of values")
        one, two = (read_values({name: value}, model)[name] for value in pair)
        pairs[name] = (one, two)
    return pairs
