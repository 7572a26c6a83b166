"""Block 0: the small root that names every object of a collection, swapped as one.

A root is a value. A new state is a new root built with `msgspec.structs.replace`, with the next
`revision` and a `write_id` of its own, so that no two roots ever have equal bytes.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from wormdb.format.blocklist import BlockEntry, BlockPageRef
from wormdb.format.event import CollectionClosed, ExpirySet, FilesSwitched, HistoryRetained, TransactionPrepared
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
from wormdb.format.list_run import ListGeneration, ListHead
from wormdb.settings import ROOT_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "AppliedMark",
    "CondemnedBlob",
    "DateCorrection",
    "ErasedMark",
    "ExpiryEntry",
    "IndexRoot",
    "IndexState",
    "JobOutcome",
    "ObjectRef",
    "PendingTransaction",
    "RetiredList",
    "RetiredObject",
    "Root",
    "SchemaVersion",
    "decode_retired",
    "decode_root",
    "encode_retired",
    "encode_root",
    "root_size",
]

_VERSION: Final = 1
_VERSION_FUNCTIONS: Final = 2
"""Of a root with functions: a release that does not know them would write the next root without them."""
_VERSION_TRANSACTIONS: Final = 3
"""Of a root with pending transactions: a release that does not know them would write over what they hold."""
_VERSION_REMOVED: Final = 4
"""Of a root with `removed_at`: a release that does not know it would delete entries that others still need."""
_VERSION_ENDS: Final = 5
"""Of a root with an index of lists, an erasure, an expiry, or history that is not all kept: a release that does not
know them would take lists for a tree, name blocks again that were made before, show documents whose time is over, or
miss versions."""

IndexState = Literal["waiting", "building", "ready", "failed", "dropped"]


class ObjectRef(msgspec.Struct, frozen=True, kw_only=True):
    """An immutable object by name, with what its bytes must be."""

    name: Name = msgspec.field(name="n")
    sha256: Digest = msgspec.field(name="h")
    length: Count = msgspec.field(name="b")

    @classmethod
    def of(cls, name: str, body: bytes) -> ObjectRef:
        """The reference to an object of these bytes."""
        return cls(name=name, sha256=sha256(body).digest(), length=len(body))


class IndexRoot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One index: its definition, its life, and the top of its tree. `applied` is when its life began."""

    name: Name = msgspec.field(name="n")
    definition: bytes = msgspec.field(name="d")
    state: IndexState = msgspec.field(name="s")
    applied: Count = msgspec.field(name="a", default=0)
    node: ObjectRef | None = msgspec.field(name="r", default=None)
    height: Count = msgspec.field(name="t", default=0)
    entries: Count = msgspec.field(name="e", default=0)
    membership: ObjectRef | None = msgspec.field(name="f", default=None)
    statistics: bytes | None = msgspec.field(name="q", default=None)
    reason: str | None = msgspec.field(name="w", default=None)
    cursor: bytes | None = msgspec.field(name="c", default=None)
    """While it is built: the tree has the documents whose id's key is not above this."""
    lists: ListHead | None = msgspec.field(name="l", default=None)
    """Of an index that is lists: it has no tree, filter or statistics. None of every other."""
    successor: ListGeneration | None = msgspec.field(name="x", default=None)
    """Of such an index, while it is ready: the lists that will stand for these."""

    @property
    def list_names(self) -> list[str]:
        """The names of all objects of its lists."""
        heads = [self.lists, None if self.successor is None else self.successor.head]
        return [name for head in heads if head is not None for name in head.names]


class JobOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a bulk job, and by which entry; or how far a stream is that others run, which is its `job`."""

    job: Id = msgspec.field(name="j")
    state: Literal["open", "attached", "aborted", "expired", "streamed"] = msgspec.field(name="s")
    number: Count = msgspec.field(name="n")
    misc: Count = msgspec.field(name="t", default=0)
    """Of that entry: when."""
    actor: str | None = msgspec.field(name="a", default=None)
    meta: bytes | None = msgspec.field(name="m", default=None)
    batch: Count = msgspec.field(name="b", default=0)
    """The newest micro-batch of a stream."""
    kind: str = msgspec.field(name="k", default="")
    """As `JobOpened` says; empty where an older release wrote it."""


class RetiredObject(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An object no longer named since root `revision`; `at` is store time, set by a later root."""

    name: Name = msgspec.field(name="n")
    revision: Count = msgspec.field(name="r")
    at: Count | None = msgspec.field(name="a", default=None)
    log: Count = msgspec.field(name="l", default=0)
    """The entry that needs it: it gets no time before that is trimmed."""


class CondemnedBlob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A blob whose key is never written again, and the entry that says so."""

    sha256: Digest = msgspec.field(name="h")
    suffix: Count = msgspec.field(name="s")
    number: Count = msgspec.field(name="n", default=0)


class SchemaVersion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A version of the model: which entry brought it, what the model was before, and what became of documents."""

    number: Count = msgspec.field(name="n")
    version: Count = msgspec.field(name="v")
    before: Digest = msgspec.field(name="h")
    """Of the definition that it followed."""
    mapping: bytes | None = msgspec.field(name="u", default=None)
    """As `SchemaChanged` has it; None if documents were not mapped."""


class FunctionEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A name that stands for a filter, and the entry that says so."""

    name: Name = msgspec.field(name="n")
    filter: bytes = msgspec.field(name="f")
    number: Count = msgspec.field(name="a")


class PendingTransaction(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A transaction that was prepared by entry `number`, and that no entry has finished yet."""

    number: Count = msgspec.field(name="a")
    prepared: TransactionPrepared = msgspec.field(name="e")


class ExpiryEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When documents end by themselves, since entry `number`."""

    number: Count = msgspec.field(name="n")
    rule: ExpirySet = msgspec.field(name="e")


class AppliedMark(msgspec.Struct, frozen=True, array_like=True):
    """Entries through `number` had been applied when the store's clock said `time`."""

    number: Count
    time: Count


class DateCorrection(msgspec.Struct, frozen=True, array_like=True):
    """Entries through `number` had been made by `time`, in ms since 1970, though some say that it was later."""

    number: Count
    time: Count


class ErasedMark(msgspec.Struct, frozen=True, array_like=True):
    """Something was erased by entry `number`, at `time` in ms since 1970: the salted hash of an id, and no more."""

    digest: bytes
    number: Count
    time: Count


class Root(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The whole state of one log's projection through log number `applied`."""

    path: Name = msgspec.field(name="p")
    """Where the collection lies in the database: a root copied elsewhere is noticed."""
    collection: Id = msgspec.field(name="c")
    """The incarnation: a re-created collection has another."""
    revision: Count = msgspec.field(name="v")
    write_id: Id = msgspec.field(name="w")
    misc: Count = msgspec.field(name="t")
    applied: Count = msgspec.field(name="a", default=0)
    hash_applied: Digest = msgspec.field(name="ah")
    trimmed: Count = msgspec.field(name="z", default=0)
    hash_trimmed: Digest = msgspec.field(name="zh")
    marks: tuple[AppliedMark, ...] = msgspec.field(name="m", default=())
    """When entries were applied, by the store's time: they stay for a while after it."""
    dated: tuple[DateCorrection, ...] = msgspec.field(name="md", default=())
    """Where times went back, because a clock had been ahead; in order of number and of time."""
    entered: Count = msgspec.field(name="me", default=0)
    """The MISC of the last entry that is applied; 0 where an older version made the root."""
    definition: bytes = msgspec.field(name="d")
    rows: Count = msgspec.field(name="r", default=0)
    blocks: tuple[BlockEntry, ...] = msgspec.field(name="b", default=())
    block_pages: tuple[BlockPageRef, ...] = msgspec.field(name="bp", default=())
    indexes: tuple[IndexRoot, ...] = msgspec.field(name="i", default=())
    history: tuple[BlockEntry, ...] = msgspec.field(name="h", default=())
    """Every change, in blocks as documents are: sorted by id, then by change."""
    history_pages: tuple[BlockPageRef, ...] = msgspec.field(name="hp", default=())
    attached: tuple[BlockEntry, ...] = msgspec.field(name="ha", default=())
    """Blocks that jobs attached, as they were: they are the history of the documents in them. `run` is the entry."""
    attached_pages: tuple[BlockPageRef, ...] = msgspec.field(name="hq", default=())
    brought: tuple[BlockEntry, ...] = msgspec.field(name="hb", default=())
    """Blocks of history that jobs brought with their documents, as they were: what is attached is not history then."""
    brought_pages: tuple[BlockPageRef, ...] = msgspec.field(name="hc", default=())
    history_from: Count = msgspec.field(name="hf", default=0)
    """History has every change after this log number."""
    dropped_through: Count = msgspec.field(name="hd", default=0)
    """Of versions that were followed by others up to this log number, some are gone: the model keeps no more."""
    retained: HistoryRetained | None = msgspec.field(name="hr", default=None)
    """How much of history is kept where the model does not say; None if it was never said, or all is kept again."""
    jobs: tuple[JobOutcome, ...] = msgspec.field(name="j", default=())
    retired: tuple[RetiredObject, ...] = msgspec.field(name="x", default=())
    retired_older: ObjectRef | None = msgspec.field(name="xo", default=None)
    """A list of more of them, which may name another list."""
    sequence: Count = msgspec.field(name="sq", default=0)
    """The greatest id made of digits."""
    condemned: tuple[CondemnedBlob, ...] = msgspec.field(name="k", default=())
    blob_newest: Count = msgspec.field(name="kn", default=0)
    """The newest entry that condemned a blob: the suffix of new keys."""
    blob_floor: Count = msgspec.field(name="kf", default=0)
    """Above the suffixes of all keys that were condemned and are no longer in `condemned`."""
    sample: bytes | None = msgspec.field(name="s", default=None)
    statistics: bytes | None = msgspec.field(name="q", default=None)
    """What was once found out about the values of fields: see `wormdb.format.field_statistics`."""
    changes: Count = msgspec.field(name="g", default=0)
    """How many changed documents were ever forwarded, about: it tells how old statistics are."""
    closed: CollectionClosed | None = msgspec.field(name="y", default=None)
    """While a removed collection is purged: it has no documents, and no process writes to it."""
    removed: Count = msgspec.field(name="rn", default=0)
    """The entry that ended the collection that had this name before: numbers up to it are of an earlier life."""
    removed_at: Count | None = msgspec.field(name="rt", default=None)
    """A store time since that root: entries through `removed` stay for a while after it, though they are trimmed."""
    files: FilesSwitched | None = msgspec.field(name="f", default=None)
    """Whether readable files are kept, and where; None if it was never set."""
    versions: tuple[SchemaVersion, ...] = msgspec.field(name="vs", default=())
    """The versions of the model after the first, in the order of their entries."""
    functions: tuple[FunctionEntry, ...] = msgspec.field(name="fn", default=())
    """In order of their names."""
    pending: tuple[PendingTransaction, ...] = msgspec.field(name="tx", default=())
    """In the order of their entries."""
    expiries: tuple[ExpiryEntry, ...] = msgspec.field(name="ex", default=())
    """What was said about the end of documents, in the order of the entries; the last is in force."""

    erased_through: Count = msgspec.field(name="et", default=0)
    """The newest entry that erased a document: entries up to it are trimmed as soon as no reader needs them."""
    erased_salt: bytes = msgspec.field(name="es", default=b"")
    """What the ids of erased documents are hashed with."""
    erased: tuple[ErasedMark, ...] = msgspec.field(name="er", default=())
    """The newest of them, in order of their entries."""

    def index(self, name: str) -> IndexRoot | None:
        """The index of that name, or None."""
        return next((index for index in self.indexes if index.name == name), None)


_DECODER: Final = msgspec.msgpack.Decoder(Root)


def root_size(root: Root) -> int:
    """The bytes of a root as `ROOT_BYTES_MAX` counts them. No requests."""
    return len(msgspec.msgpack.encode(root))


def encode_root(root: Root) -> bytes:
    """The bytes of block 0; equal roots give equal bytes. No requests; raises LimitExceededError."""
    fault = _fault(root)
    assert fault is None, fault
    payload = encode_message(
        root, what=f"the root of {root.path}", bytes_max=ROOT_BYTES_MAX, fix="drop indexes, or split it"
    )
    return encode_frame(FrameKind.ROOT, version=_version(root), identity=root.path, payload=payload)


def decode_root(data: bytes, *, name: str, path: str, collection: str | None = None) -> Root:
    """The root stored as object `name`, which must belong to the collection at `path`. No requests.

    With `collection` it must also be that incarnation. Raises CorruptionError, UnsupportedFormatError.
    """
    frame = decode_frame(
        data, FrameKind.ROOT, name=name, identity=path, version_max=_VERSION_ENDS, bytes_max=ROOT_BYTES_MAX
    )
    root = decode_message(_DECODER, frame.payload, name=name)
    if collection is not None and root.collection != collection:
        corrupt(name, f"it belongs to incarnation {root.collection}, not {collection}")
    if root.path != path:
        corrupt(name, f"it should be the root of {path!r} and says {root.path!r}")
    if fault := _fault(root):
        corrupt(name, fault)
    return root


def _version(root: Root) -> int:
    """The oldest version that does not misread it: one that passes over a pending transaction would."""
    if (
        root.expiries
        or root.erased_through
        or root.dropped_through
        or root.retained is not None
        or any(index.lists is not None for index in root.indexes)
    ):
        return _VERSION_ENDS
    if root.removed_at is not None:
        return _VERSION_REMOVED
    if root.pending:
        return _VERSION_TRANSACTIONS
    return _VERSION_FUNCTIONS if root.functions else _VERSION


def _fault(root: Root) -> str | None:
    if root.trimmed > root.applied:
        return f"entries are trimmed to {root.trimmed} but applied only to {root.applied}"
    if any(block.key_first > block.key_last for block in root.blocks):
        return "a block ends before it begins"
    if not _ascending([index.name for index in root.indexes]):
        return "its indexes are not in order of their names"
    if root.erased_through > root.applied:
        return f"entry {root.erased_through} erased a document but is not applied"
    if root.removed > root.trimmed:
        return f"it was removed by entry {root.removed} but is trimmed only to {root.trimmed}"
    if not _ascending([each.name for each in root.functions]):
        return "its functions are not in order of their names"
    return None


def _ascending(names: Sequence[str]) -> bool:
    return all(one < next_one for one, next_one in pairwise(names))


# --- A list of objects that no root names any more, when the root would grow too large with it.

_RETIRED_VERSION: Final = 1


class RetiredList(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Some of the retired objects; `older` names the list before it."""

    retired: tuple[RetiredObject, ...] = msgspec.field(name="x")
    older: ObjectRef | None = msgspec.field(name="o", default=None)


_RETIRED_DECODER: Final = msgspec.msgpack.Decoder(RetiredList)


def encode_retired(retired: RetiredList, *, identity: str) -> bytes:
    """The bytes of a list. No requests; raises LimitExceededError."""
    payload = encode_message(
        retired, what="a list of retired objects", bytes_max=ROOT_BYTES_MAX, fix="write shorter lists"
    )
    return encode_frame(FrameKind.RETIRED, version=_RETIRED_VERSION, identity=identity, payload=payload)


def decode_retired(data: bytes, *, name: str, identity: str) -> RetiredList:
    """The list stored as object `name`. No requests; raises CorruptionError, UnsupportedFormatError."""
    frame = decode_frame(
        data, FrameKind.RETIRED, name=name, identity=identity, version_max=_RETIRED_VERSION, bytes_max=ROOT_BYTES_MAX
    )
    return decode_message(_RETIRED_DECODER, frame.payload, name=name)
