"""What happened to documents after a log number, in pieces that fit into memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from wormdb.engine.state.view import id_key
from wormdb.errors import UnavailableError
from wormdb.format.event import DocumentErased, FilesSwitched, JobAttached, SchemaChanged, SnapshotTaken
from wormdb.format.past import Operation, Version, operation_of
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.engine.ledger import Ledger
    from wormdb.engine.log.entries import LogRecord
    from wormdb.format.entry import LoggedBatch, LoggedChange

__all__ = ["SeenChange", "Window", "read_windows"]

BEFORE_FIRST: Final = LogNumber(0)
_CHANGES_MAX: Final = 1_000
_BYTES_MAX: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SeenChange:
    """One change: the version that it made, and the document before it."""

    key: bytes
    """The key of the document's id."""
    version: Version
    before: bytes | None
    trash: bytes | None
    """The tombstone, if it put the document into the trash."""


@dataclass(slots=True)
class Window:
    """Some changes in the order of the log."""

    changes: list[SeenChange] = field(default_factory=list)
    taken: dict[bytes, bytes] = field(default_factory=dict)
    """Documents of which a snapshot was taken by hand: the key of each id, and the id."""
    erased: dict[bytes, tuple[bytes, int]] = field(default_factory=dict)
    """Documents that were erased: the key of each id, the id, and the entry."""
    through: LogNumber = BEFORE_FIRST
    """Everything through this number is in this window or an earlier one; if `is_whole`."""
    misc: int = 0
    """The MISC of the last entry."""
    is_whole: bool = True
    """Whether it ends with an entry, and not inside one."""
    is_last: bool = False
    needs_all: bool = False
    """Whether more changed than it tells: files were not kept for a while, or documents came with their history."""
    size: int = 0

    @property
    def is_full(self) -> bool:
        """Whether the next change belongs into another window."""
        return len(self.changes) >= _CHANGES_MAX or self.size >= _BYTES_MAX


def read_windows(ledger: Ledger, after: LogNumber, through: LogNumber) -> Iterator[Window]:
    """The changes of entries after one number through another. There is at least one window.

    Costs as `Feed.poll` and `Feed.changes`. Raises SnapshotTooOldError if some of the entries have been trimmed.
    """
    feed = ledger.feed(after)
    window = Window(through=after, is_last=after >= through)
    if after >= through:
        yield window
        return
    for record in feed.poll():
        window.through, window.misc = record.number, record.entry.misc
        _note_events(window, record)
        for batch, change in feed.changes(record):
            if window.is_full:
                window.is_whole = False
                yield window
                window = Window(through=record.number, misc=record.entry.misc)
            seen = _seen(record, batch, change)
            window.changes.append(seen)
            window.size += len(seen.before or b"") + len(seen.version.document or b"")
        if record.number >= through:
            window.is_last = True
            yield window
            return
        if window.is_full:
            yield window
            window = Window()
    raise UnavailableError(
        f"the log of {ledger.collection}", reason=f"it ends before entry {through}", fix="retry later"
    )


def _note_events(window: Window, record: LogRecord) -> None:
    for event in record.entry.events:
        if isinstance(event, SnapshotTaken):
            window.taken[id_key(event.id)] = event.id
        elif isinstance(event, DocumentErased):
            window.erased[id_key(event.id)] = event.id, record.number
        elif isinstance(event, FilesSwitched):
            window.needs_all |= not event.enabled
        elif isinstance(event, JobAttached):
            window.needs_all |= bool(event.history)
        elif isinstance(event, SchemaChanged):
            # Then documents look different that no entry changed.
            window.needs_all |= event.mapping is not None


def _seen(record: LogRecord, batch: LoggedBatch, change: LoggedChange) -> SeenChange:
    version = Version(
        change.id,
        change.seq,
        record.entry.number,
        _operation(change),
        record.entry.misc,
        batch.actor,
        batch.meta,
        snapshot=change.snapshot,
        document=change.after,
    )
    return SeenChange(id_key(change.id), version, change.before, change.trash)


def _operation(change: LoggedChange) -> Operation:
    # What a job attached does not say what it did.
    return "purge" if change.before is None and change.after is None else operation_of(change)
