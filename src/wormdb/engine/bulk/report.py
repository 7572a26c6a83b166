"""What the parts of a bulk job send each other: where a task works, and what it wrote. Values, without I/O."""

from __future__ import annotations

import sys
from array import array
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, Protocol

import msgspec

from wormdb.format.blocklist import BlockEntry
from wormdb.format.frame import Count, Name, decode_message, encode_message
from wormdb.format.root import ObjectRef
from wormdb.settings import BULK_REPORT_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wormdb.engine.blocks.shelf import Shelf
    from wormdb.engine.blocks.write import BlockWriter
    from wormdb.engine.commit.blobs import Blobs
    from wormdb.engine.commit.commit import CommitResult
    from wormdb.engine.commit.operations import Operation, Pending
    from wormdb.engine.commit.pinned import PinnedView
    from wormdb.engine.commit.resolve import Fate
    from wormdb.engine.index.shelf import IndexShelf
    from wormdb.engine.log.objects import ObjectWriter
    from wormdb.engine.state.view import Base, StoredVersion, View
    from wormdb.format.columns import ColumnSpec
    from wormdb.format.entry import Entry
    from wormdb.format.event import JobAttached
    from wormdb.system.clock import Clock
    from wormdb.system.types import LogNumber

__all__ = [
    "CONFLICT_RULES",
    "BulkTarget",
    "ConflictRule",
    "ContestedValue",
    "Digests",
    "DocumentMaker",
    "TaskReport",
    "decode_report",
    "encode_report",
    "pack_hashes",
    "unpack_hashes",
]

ConflictRule = Literal["error", "replace", "ignore"]
CONFLICT_RULES: Final[tuple[ConflictRule, ...]] = ("error", "replace", "ignore")


@dataclass(frozen=True, slots=True)
class BulkTarget:
    """A job that is open, as each of its tasks must know it. A value that can be pickled."""

    job: str
    collection: str
    """Its folder."""
    pinned: PinnedView
    """The state that tasks look at."""
    on_conflict: ConflictRule = "error"
    overwrite: bool = False
    """Whether what the job does not bring is deleted."""
    tombstone: bytes | None = None
    """With it what is deleted goes to the trash."""
    started_ms: int = 0
    """When it was opened: ids that tasks make begin with it."""
    opened: int = 0
    """By which entry: a job of the same name that was opened later is another one."""
    portion_bytes: int | None = None
    """Bytes of documents that a task sorts at once; None: BULK_PORTION_BYTES."""
    block_bytes: int | None = None
    """Bytes of documents at which a block is closed, if the collection does not say less."""

    def block_target(self, ledger: JobLedger) -> int:
        """Where blocks of the job are closed. No requests."""
        return min(ledger.block_target, self.block_bytes or ledger.block_target)


class DocumentMaker(Protocol):
    """How rows become documents of the collection."""

    def inserts(self, documents: Iterable[object]) -> HasOperations:
        """Check and encode documents to be inserted; raises a WormError for one that does not fit."""
        ...

    def replaced(self, document: bytes, held: StoredVersion) -> bytes | None:
        """A new document as it is when it replaces what is there; None if that stays as it is."""
        ...


class HasOperations(Protocol):
    """Documents on their way in."""

    @property
    def operations(self) -> Sequence[Operation]:
        """What inserts each of them."""
        ...


class JobLedger(Protocol):
    """A ledger as jobs use it: they read states, write objects that no root names yet, and commit entries."""

    @property
    def collection(self) -> str:
        """Its folder, ending with /."""
        ...

    @property
    def clock(self) -> Clock:
        """The time of this process."""
        ...

    @property
    def shelf(self) -> Shelf:
        """Its blocks of documents."""
        ...

    @property
    def trees(self) -> IndexShelf:
        """The trees of its indexes."""
        ...

    @property
    def blobs(self) -> Blobs:
        """Its blobs."""
        ...

    @property
    def writer(self) -> ObjectWriter:
        """Writes new objects."""
        ...

    @property
    def block_target(self) -> int:
        """About how many bytes a block has."""
        ...

    def block_writer(self, columns: Sequence[ColumnSpec]) -> BlockWriter:
        """Writes blocks of documents that have these columns."""
        ...

    def view(self) -> View:
        """The newest state."""
        ...

    def settled(self) -> tuple[View, int]:
        """The newest state, with all that was attached in its root, and the greatest id made of digits in it."""
        ...

    def entries(self, after: LogNumber, through: LogNumber) -> Sequence[Entry] | None:
        """The log after one number through another; None if it has been trimmed."""
        ...

    def attached(self, event: JobAttached, number: LogNumber) -> Base:
        """The documents of blocks that entry `number` attaches."""
        ...

    def pin(self, view: View) -> PinnedView:
        """A state as a value that can be sent to another process."""
        ...

    def unpin(self, pinned: PinnedView) -> View:
        """The state that was pinned."""
        ...

    def batch_id(self) -> str:
        """A new id for a batch."""
        ...

    def commit(self, pending: Pending) -> CommitResult:
        """Commit one batch."""
        ...

    def settle(self, commit_id: str) -> Fate:
        """What became of a commit, after which it can no longer land."""
        ...


class Digests(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Hashes of keys, ascending: in the report itself, or in an object if they are many."""

    name: str = msgspec.field(name="n", default="")
    """Of the index whose keys they are."""
    packed: bytes = msgspec.field(name="p", default=b"")
    stored: ObjectRef | None = msgspec.field(name="o", default=None)


class ContestedValue(msgspec.Struct, frozen=True, array_like=True):
    """A unique value that another document had: right only if the job replaces that one too."""

    index: Name
    value: bytes
    """Its key in the index."""
    claimant: bytes
    """The id of the new document, as JSON."""


class TaskReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one task wrote. Nothing of it counts before the job is attached."""

    job: str = msgspec.field(name="j")
    task: Count = msgspec.field(name="t")
    blocks: tuple[BlockEntry, ...] = msgspec.field(name="b", default=())
    """Runs, one after another: each in order of key, and without overlap."""
    cuts: tuple[Count, ...] = msgspec.field(name="e", default=())
    """Where in `blocks` each run but the first begins; of an id that several have, the last row is the latest."""
    read: Count = msgspec.field(name="r", default=0)
    """Rows that were given to it."""
    rejected: Count = msgspec.field(name="x", default=0)
    """Rows that were set aside."""
    replaced: Count = msgspec.field(name="o", default=0)
    """Documents of before that its documents replace."""
    passed: Count = msgspec.field(name="q", default=0)
    """Rows that change nothing: by the rule `ignore`, or because the document is the same."""
    sequence: Count = msgspec.field(name="s", default=0)
    """The greatest id made of digits."""
    sample: bytes | None = msgspec.field(name="p", default=None)
    claims: tuple[Digests, ...] = msgspec.field(name="c", default=())
    """What its documents take in each unique index."""
    contested: tuple[ContestedValue, ...] = msgspec.field(name="d", default=())
    kept_ids: Digests | None = msgspec.field(name="i", default=None)
    """Of the documents that it replaces or leaves as they are, where all others are deleted."""
    passed_ids: Digests | None = msgspec.field(name="k", default=None)
    """Of the documents that it looked at and left as they are."""
    blobs: tuple[str, ...] = msgspec.field(name="l", default=())
    """The keys of the blobs that its documents refer to."""
    ids: Digests | None = msgspec.field(name="a", default=None)
    """Of all its documents; None if it made their ids, or has more runs than are attached as they are."""

    @property
    def runs(self) -> list[tuple[BlockEntry, ...]]:
        """The blocks, run by run."""
        return [self.blocks[start:stop] for start, stop in pairwise((0, *self.cuts, len(self.blocks)))]


_DECODER: Final = msgspec.msgpack.Decoder(TaskReport)
_LITTLE: Final = sys.byteorder == "little"


def encode_report(report: TaskReport) -> bytes:
    """A report as bytes to be sent. No requests; raises LimitExceededError."""
    return encode_message(
        report, what="the report of a task", bytes_max=BULK_REPORT_BYTES_MAX, fix="divide the data into more tasks"
    )


def decode_report(data: bytes) -> TaskReport:
    """A report as it was sent; raises CorruptionError. No requests."""
    return decode_message(_DECODER, data, name="the report of a task")


def pack_hashes(hashes: array[int]) -> bytes:
    """Hashes as bytes, ascending. No requests."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not hashes:
        return b""
    numbers = pa.Array.from_buffers(pa.uint64(), len(hashes), [None, pa.py_buffer(hashes)])
    ordered: bytes = numbers.take(pc.sort_indices(numbers)).buffers()[1].slice(0, 8 * len(hashes)).to_pybytes()
    if _LITTLE:
        return ordered
    packed = array("Q", ordered)
    packed.byteswap()
    return packed.tobytes()


def unpack_hashes(data: bytes) -> array[int]:
    """Hashes out of bytes. No requests."""
    hashes = array("Q", data)
    if not _LITTLE:
        hashes.byteswap()
    return hashes
