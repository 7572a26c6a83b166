"""A row of history: one version of one document, or the mark of a snapshot taken by hand.

History is kept in blocks (`wormdb.format.block`). A row's id is the embedded document
`{"d": <id>, "s": <seq>}`, so rows sort by document and then by version; a mark has
`{"d": <id>, "s": <seq>, "t": <rev>}` and sorts behind its version. A row holds the whole document as the change
left it, so that no version needs another one to be read. Rows are joined from bytes and cut into bytes:
documents are never decoded on their way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from wormdb.format import json
from wormdb.format.columns import ColumnSpec
from wormdb.format.frame import Count, corrupt
from wormdb.format.key import encode_key, prefix_end
from wormdb.format.kinds import Kind
from wormdb.format.wrappers import moment

if TYPE_CHECKING:
    from wormdb.format.blocklist import BlockEntry
    from wormdb.format.entry import LoggedChange

__all__ = [
    "HISTORY_COLUMNS",
    "STAMPED",
    "Operation",
    "SnapshotMark",
    "Version",
    "decode_past",
    "difference",
    "encode_past",
    "first_ms",
    "misc_ms",
    "misc_of",
    "operation_of",
    "past_from",
    "past_id",
    "past_key",
    "past_range",
    "raw_difference",
]

Operation = Literal["create", "update", "delete", "restore", "purge", "expire"]

HISTORY_COLUMNS: Final = (
    ColumnSpec("op", "string"),
    ColumnSpec("ts", "date"),
    ColumnSpec("actor", "string"),
    ColumnSpec("snapshot", "bool"),
)
"""What blocks of history show to readers of Parquet, beside `_id`, `_rev`, `_seq` and the row in `_doc`."""

_SNAPSHOT: Final = "snapshot"
_DOCUMENT_TAG: Final = bytes((Kind.DOCUMENT,))
_FIELD: Final = b"d\0"
_SEQ: Final = bytes((Kind.NUMBER,)) + b"s\0"
_TAKEN: Final = bytes((Kind.NUMBER,)) + b"t\0"
_ABSENT: Final = msgspec.Raw()
_US_PER_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class Version:
    """What one change left of a document, its actor and its time. Bytes are extended JSON."""

    id: bytes
    seq: int
    rev: int
    """The log number."""
    op: Operation
    misc: int
    actor: str | None = None
    meta: bytes | None = None
    snapshot: bool = False
    """Whether it is kept as a snapshot since it was written."""
    document: bytes | None = None
    """The whole document; None after a delete or a purge."""


@dataclass(frozen=True, slots=True)
class SnapshotMark:
    """Version `seq` was made a snapshot by hand, by log entry `rev`."""

    id: bytes
    seq: int
    rev: int
    misc: int
    actor: str | None = None


# --- keys ---


def past_from(key: bytes) -> bytes:
    """Where the rows of the document with an id's key `key` begin, or would; ascending as keys are.

    Any bytes may be asked for that bound a range of ids; none at all are where all rows begin.
    """
    return _DOCUMENT_TAG + key[:1] + _FIELD + key if key else _DOCUMENT_TAG


def past_range(key: bytes) -> tuple[bytes, bytes | None]:
    """The range of keys, without its end, of all rows of the document with an id's key `key`."""
    first = past_from(key)
    return first, prefix_end(first)


def past_key(key: bytes, seq: int, taken: int | None = None) -> bytes:
    """The key of the row of version `seq` of the document with an id's key `key`, or of the mark by entry `taken`."""
    # The key of an embedded document is its tag, its fields one after another, and an end.
    mark = b"" if taken is None else _TAKEN + encode_key(taken)
    return past_from(key) + _SEQ + encode_key(seq) + mark + b"\0"


# --- rows ---


def past_id(row: Version | SnapshotMark) -> bytes:
    """The row's id as extended JSON."""
    mark = b"" if isinstance(row, Version) else b',"t":%d' % row.rev
    return b'{"d":%b,"s":%d%b}' % (row.id, row.seq, mark)


def encode_past(row: Version | SnapshotMark) -> bytes:
    """The row as it is stored in `_doc`. No requests."""
    op = row.op if isinstance(row, Version) else _SNAPSHOT
    when = _when(misc_ms(row.misc))
    parts = [
        b'{"_id":' + past_id(row),
        b'"op":"%b","rev":%d,"ts":%b,"misc":%d' % (op.encode(), row.rev, when, row.misc),
    ]
    if row.actor is not None:
        parts.append(b'"actor":' + json.encode(row.actor))
    if isinstance(row, Version):
        if row.meta is not None:
            parts.append(b'"meta":' + row.meta)
        if row.snapshot:
            parts.append(b'"snapshot":true')
        if row.document is not None:
            parts.append(b'"doc":' + row.document)
    return b",".join(parts) + b"}"


@lru_cache(maxsize=16)
def _when(ms: int) -> bytes:
    """A time as extended JSON; the changes of an entry share theirs."""
    return json.encode(moment(ms))


class _Identity(msgspec.Struct, frozen=True):
    document: msgspec.Raw = msgspec.field(name="d")
    seq: Count = msgspec.field(name="s")
    taken: Count | None = msgspec.field(name="t", default=None)


class _Head(msgspec.Struct, frozen=True):
    misc: Count


class _Row(msgspec.Struct, frozen=True):
    id: _Identity = msgspec.field(name="_id")
    op: Literal["create", "update", "delete", "restore", "purge", "expire", "snapshot"]
    rev: Count
    misc: Count
    actor: str | None = None
    meta: msgspec.Raw = _ABSENT
    snapshot: bool = False
    document: msgspec.Raw = msgspec.field(name="doc", default=_ABSENT)


_ROW: Final = msgspec.json.Decoder(_Row)
_HEAD: Final = msgspec.json.Decoder(_Head)


def decode_past(data: bytes, *, name: str, rev: int = 0) -> Version | SnapshotMark:
    """The row in `data`, its documents left as bytes. No requests; CorruptionError naming object `name`.

    A job writes rows before its log number is known, with 0 in its place: those get `rev`.
    """
    try:
        row = _ROW.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        corrupt(name, f"a row of history cannot be read: {error}")
    identity = bytes(row.id.document)
    if row.op == _SNAPSHOT:
        if row.id.taken != row.rev:
            corrupt(name, "the mark of a snapshot does not say which entry took it")
        return SnapshotMark(identity, row.id.seq, row.rev or rev, row.misc, row.actor)
    if row.id.taken is not None:
        corrupt(name, f"a version by {row.op} has the id of a snapshot")
    document = bytes(row.document) or None
    if (document is None) != (row.op in ("delete", "purge", "expire")):
        corrupt(name, f"a version by {row.op} {'lacks' if document is None else 'has'} a document")
    return Version(
        identity,
        row.id.seq,
        row.rev or rev,
        row.op,
        row.misc,
        row.actor,
        bytes(row.meta) or None,
        snapshot=row.snapshot,
        document=document,
    )


def misc_of(data: bytes, *, name: str) -> int:
    """When a row was written, and nothing else of it. No requests; CorruptionError naming object `name`."""
    try:
        return _HEAD.decode(data).misc
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        corrupt(name, f"a row of history cannot be read: {error}")


def misc_ms(misc: int) -> int:
    """The milliseconds since 1970 in a MISC, rounded down."""
    return (misc >> 8) // _US_PER_MS


def operation_of(change: LoggedChange) -> Operation:
    """What a change of the log did."""
    if change.op is not None:
        return change.op
    return "delete" if change.after is None else "create" if change.before is None else "update"


def first_ms(block: BlockEntry) -> int | None:
    """When the first of a block's rows was written, in milliseconds since 1970; None if the block does not tell."""
    low = next((column.low for column in block.columns if column.path == "ts"), None)
    if low is None or low[:1] != bytes((Kind.DATE,)):
        return None
    # A key of a date is its milliseconds as eight bytes, moved so that they compare as bytes do.
    return int.from_bytes(low[1:9], "big") - 2**63


# --- in which fields two versions differ: those that are equal as bytes are never decoded ---

STAMPED: Final = "updatedAt"
"""Changes at every save of a model's document, so it says nothing about what was changed."""
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def difference(before: bytes | None, after: bytes | None, *, stamped: bool) -> dict[str, tuple[Any, Any]]:
    """The fields in which two documents differ, with both values; None stands for no document. No requests.

    The id is not among them, nor `updatedAt` if a model keeps it.
    """
    found = raw_difference(before, after, stamped=stamped)
    return {name: (_value(one), _value(two)) for name, (one, two) in found.items()}


def raw_difference(
    before: bytes | None, after: bytes | None, *, stamped: bool
) -> dict[str, tuple[bytes | None, bytes | None]]:
    """`difference` with values as JSON, None where a field is absent. No requests."""
    one, two = _fields(before), _fields(after)
    skipped = {"_id", STAMPED} if stamped else {"_id"}
    names = [name for name in {**one, **two} if name not in skipped and one.get(name) != two.get(name)]
    return {name: (one.get(name), two.get(name)) for name in names}


def _fields(document: bytes | None) -> dict[str, bytes]:
    return {} if document is None else {name: bytes(raw) for name, raw in _FIELDS.decode(document).items()}


def _value(field: bytes | None) -> Any:
    return None if field is None else json.decode(field, name="document")
