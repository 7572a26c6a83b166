"""Events of the log: changes of definition, the life of jobs, and of transactions over several collections.

An event is a tagged message, so that later releases can add kinds. A reader that meets a kind that it does not act on
cannot know what the collection is from there on, so it must stop with UnsupportedFormatError: `wormdb.format.entry`
for a kind that it does not know, `check_acted_on` for one that the format has and this release does nothing about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NoReturn

import msgspec

from wormdb.errors import UnsupportedFormatError
from wormdb.format.blocklist import BlockEntry
from wormdb.format.change import LoggedBatch
from wormdb.format.frame import Count, Digest, Id, Name

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "EVENT_KINDS",
    "RENAMED",
    "RESERVED",
    "BlobCondemned",
    "CollectionClosed",
    "DocumentErased",
    "Event",
    "ExpirySet",
    "FilesSwitched",
    "FunctionDropped",
    "FunctionRegistered",
    "IndexBuilding",
    "IndexCreated",
    "IndexDropped",
    "IndexFailed",
    "IndexReady",
    "JobAborted",
    "JobAttached",
    "JobExpired",
    "JobOpened",
    "ListsCreated",
    "ModeChanged",
    "Nothing",
    "Place",
    "SchemaChanged",
    "ShardsChanged",
    "SnapshotTaken",
    "StreamAdvanced",
    "TransactionFinished",
    "TransactionPrepared",
    "check_acted_on",
    "refuse_kinds",
]


RENAMED: Final = "rename"
"""Why a collection ends that goes on under another name."""

Place = Literal["inline", "collection", "root"]
"""Where a system folder lies: with each document, with the collection, or at the root of the bucket."""


class _Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="k"):
    """What all events share: the tag that names their kind."""


class SchemaChanged(_Event, frozen=True, tag="schema"):
    """The model, in whole, as JSON."""

    definition: bytes = msgspec.field(name="d")
    empty: bool = msgspec.field(name="e", default=False)
    """Whether there were no documents, and those of the same batch were checked: new indexes are ready at once."""
    mapping: bytes | None = msgspec.field(name="u", default=None)
    """The update that makes documents of before this entry what they are after it, as JSON; `{}` changes nothing."""


class ModeChanged(_Event, frozen=True, tag="mode"):
    """Which operations are allowed from here on. Reserved."""

    mode: Name = msgspec.field(name="m")


class IndexCreated(_Event, frozen=True, tag="index.create"):
    """An index is wanted, and waits for its first build."""

    name: Name = msgspec.field(name="n")
    definition: bytes = msgspec.field(name="d")
    empty: bool = msgspec.field(name="e", default=False)
    """As for a model: the index is ready at once."""


class ListsCreated(_Event, frozen=True, tag="list.create"):
    """An index of lists is wanted, and waits for its first build: see `IndexCreated`.

    A kind of its own, so that releases stop that would take its lists for a tree. The rest of its life is told as of
    other indexes.
    """

    name: Name = msgspec.field(name="n")
    definition: bytes = msgspec.field(name="d")
    empty: bool = msgspec.field(name="e", default=False)


class IndexBuilding(_Event, frozen=True, tag="index.build"):
    """A build of the index began from the state through log number `through`."""

    name: Name = msgspec.field(name="n")
    through: Count = msgspec.field(name="t")


class IndexReady(_Event, frozen=True, tag="index.ready"):
    """The index answers queries and, if unique, refuses duplicates from here on."""

    name: Name = msgspec.field(name="n")


class IndexFailed(_Event, frozen=True, tag="index.fail"):
    """The index could not be built."""

    name: Name = msgspec.field(name="n")
    reason: str = msgspec.field(name="r")


class IndexDropped(_Event, frozen=True, tag="index.drop"):
    """The index is gone."""

    name: Name = msgspec.field(name="n")


class FunctionRegistered(_Event, frozen=True, tag="function"):
    """A name stands for a filter from here on, in place of what it may have stood for."""

    name: Name = msgspec.field(name="n")
    filter: bytes = msgspec.field(name="f")
    """As canonical JSON; it may name other functions."""


class FunctionDropped(_Event, frozen=True, tag="function.drop"):
    """The name stands for nothing any more."""

    name: Name = msgspec.field(name="n")


class FilesSwitched(_Event, frozen=True, tag="files"):
    """Readable files are kept from here on, and where their system folders lie; or they are kept no longer."""

    enabled: bool = msgspec.field(name="e")
    oplog: Place = msgspec.field(name="o", default="root")
    snapshots: Place = msgspec.field(name="s", default="root")
    trash: Place = msgspec.field(name="t", default="root")
    name: str = msgspec.field(name="n", default="")
    """The collection's folder inside those at the root of the bucket, ending with /."""


class ExpirySet(_Event, frozen=True, tag="expiry"):
    """Documents end by themselves from here on: `after_ms` behind the date at `path`; without a path none does."""

    path: str | None = msgspec.field(name="f", default=None)
    after_ms: Count = msgspec.field(name="a", default=0)
    since_ms: Count = msgspec.field(name="s", default=0)
    """When this was said, by the store's time as its writer knew it: for states of the past."""


class ShardsChanged(_Event, frozen=True, tag="shards"):
    """How many shards the collection has from here on. Reserved."""

    count: Count = msgspec.field(name="c")


class CollectionClosed(_Event, frozen=True, tag="closed"):
    """The collection ends here: it has no documents from this entry on, and takes none until a root says otherwise.

    `follows` names the collections that go on: none after a removal, one after a rename. Other reasons with one are
    reserved: see `check_acted_on`.
    """

    reason: Name = msgspec.field(name="r")
    follows: tuple[Name, ...] = msgspec.field(name="f", default=())
    source: Name | None = msgspec.field(name="s", default=None)
    """Of the new name of a rename, which is taken by such an entry: the folder that it is the new name of."""
    slot: Count = msgspec.field(name="n", default=0)
    """In the root of a new name: the slot in the log of `source` whose entry decides whether this is the collection."""

    @property
    def is_stage(self) -> bool:
        """Whether a root that says this is a copy of another collection, which waits for the end of that one."""
        return self.source is not None and self.slot > 0

    def told(self, number: int) -> str:
        """What entry `number` did by this, as the reason of an error."""
        if self.source is not None:
            return f"{self.source.rstrip('/')} is being renamed to it, and that is not finished"
        if self.reason == RENAMED:
            return f"entry {number} renamed it to {self.follows[0].rstrip('/')}"
        return f"entry {number} removed it"


class JobOpened(_Event, frozen=True, tag="job.open"):
    """A bulk job began on the state through log number `base`; it may write objects under its name."""

    job: Id = msgspec.field(name="j")
    kind: Name = msgspec.field(name="t")
    base: Count = msgspec.field(name="b")


class JobAttached(_Event, frozen=True, tag="job.attach"):
    """The job's blocks belong to the collection from here on."""

    job: Id = msgspec.field(name="j")
    blocks: tuple[BlockEntry, ...] = msgspec.field(name="b", default=())
    added: int = msgspec.field(name="a", default=0)
    """How many documents more there are; below 0 if it deletes more than it brings."""
    sequence: Count = msgspec.field(name="s", default=0)
    """The greatest id made of digits among them."""
    sample: bytes | None = msgspec.field(name="p", default=None)
    """A sample of them, as `wormdb.format.sample` has it."""
    result: bytes | None = msgspec.field(name="r", default=None)
    history: tuple[BlockEntry, ...] = msgspec.field(name="h", default=())
    """Blocks of history that come with them: all versions of its documents, of before they were here."""


class JobAborted(_Event, frozen=True, tag="job.abort"):
    """The job was given up; its objects may be removed."""

    job: Id = msgspec.field(name="j")
    reason: str = msgspec.field(name="r", default="")


class JobExpired(_Event, frozen=True, tag="job.expire"):
    """The job was silent for too long; its objects may be removed."""

    job: Id = msgspec.field(name="j")


class StreamAdvanced(_Event, frozen=True, tag="stream"):
    """The changes of this entry are micro-batch `batch` of a stream, counted from 0: each is written once."""

    stream: Id = msgspec.field(name="j")
    batch: Count = msgspec.field(name="b")


class SnapshotTaken(_Event, frozen=True, tag="snapshot"):
    """Version `seq` of a document, its newest then, is kept as a snapshot."""

    id: bytes = msgspec.field(name="i")
    """The document's id as extended JSON."""
    seq: Count = msgspec.field(name="s")


class DocumentErased(_Event, frozen=True, tag="erase"):
    """Nothing of a document stays that is of this entry or an earlier one: no version, no mark, not its place."""

    id: bytes = msgspec.field(name="i")
    """The document's id as extended JSON. It goes with the entry, which is trimmed early."""


class BlobCondemned(_Event, frozen=True, tag="blob.condemn"):
    """The blob's key is never written again: next time the same content has the number of this entry as its suffix."""

    sha256: Digest = msgspec.field(name="h")
    suffix: Count = msgspec.field(name="s", default=0)


class TransactionPrepared(_Event, frozen=True, tag="tx.prepare"):
    """A transaction over several collections holds what it read and will write here, until it is finished.

    No document changes yet. Whether it commits is told by its record, of which there is one for all collections.
    """

    tx: Id = msgspec.field(name="x")
    """The transaction."""
    participants: tuple[Name, ...] = msgspec.field(name="p")
    """The folders of all collections that it prepares, in order."""
    batch: LoggedBatch = msgspec.field(name="b")
    """What it changes here, as the finishing entry will hold it; without changes if it only read."""
    reads: tuple[bytes, ...] = msgspec.field(name="r", default=())
    """The ids, as extended JSON, of documents that must stay as they are until then, there or not."""
    filters: tuple[str, ...] = msgspec.field(name="f", default=())
    """Filters as canonical JSON: no document that one of them matches may come, change or go until then."""


class TransactionFinished(_Event, frozen=True, tag="tx.finish"):
    """A transaction that was prepared here holds nothing any more. If it committed, this entry has its batch."""

    tx: Id = msgspec.field(name="x")
    committed: bool = msgspec.field(name="c", default=False)


class Nothing(_Event, frozen=True, tag="nothing"):
    """Fills a slot so that `write_id`, which may have aimed at it, can no longer land there."""

    write_id: Id | None = msgspec.field(name="w", default=None)


Event = (
    SchemaChanged
    | ModeChanged
    | IndexCreated
    | ListsCreated
    | IndexBuilding
    | IndexReady
    | IndexFailed
    | IndexDropped
    | FunctionRegistered
    | FunctionDropped
    | FilesSwitched
    | ExpirySet
    | ShardsChanged
    | CollectionClosed
    | JobOpened
    | JobAttached
    | JobAborted
    | JobExpired
    | StreamAdvanced
    | SnapshotTaken
    | BlobCondemned
    | DocumentErased
    | TransactionPrepared
    | TransactionFinished
    | Nothing
)
"""Every kind of event that this release knows."""

EVENT_KINDS: frozenset[str] = frozenset(
    str(kind.__struct_config__.tag) for kind in _Event.__subclasses__() if kind.__struct_config__.tag is not None
)
"""Their stored names."""

RESERVED: Final = (ModeChanged, ShardsChanged)
"""Kinds that the format has for later releases. This one writes none of them and acts on none."""


def check_acted_on(events: Iterable[Event], *, name: str) -> None:
    """Raise UnsupportedFormatError if object `name` has an event that this release does not act on. No requests."""
    found = {str(type(event).__struct_config__.tag) for event in events if _is_reserved(event)}
    if found:
        refuse_kinds(found, name=name)


def _is_reserved(event: Event) -> bool:
    """Whether a later release may write it; a log that goes on in others is one of these, if not by a rename."""
    if isinstance(event, CollectionClosed):
        return len(event.follows) > (event.reason == RENAMED)
    return isinstance(event, RESERVED)


def refuse_kinds(kinds: Iterable[str], *, name: str) -> NoReturn:
    """Raise UnsupportedFormatError for kinds of events in object `name`. No requests."""
    raise UnsupportedFormatError(
        f"{name} cannot be read",
        reason=f"it holds events that this version does not act on: {', '.join(sorted(kinds))}",
        fix="upgrade wormdb",
        key=name,
    )
