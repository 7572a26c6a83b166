"""Which snapshots of a document are shown, and when they were taken. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from wormdb.format.wrappers import milliseconds
from wormdb.schema.model import SnapshotDefinition, duration_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wormdb.engine.history.read import SnapshotVersion
    from wormdb.format.past import Version

__all__ = ["Snapshot", "VisibleSnapshot", "taken_at", "visible"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A version of a document that is kept to go back to."""

    ts: datetime
    """When it was taken, in UTC; different for every snapshot of a document."""
    seq: int
    """Which version: the document's change with this number."""
    size: int
    """Bytes of the document as JSON."""
    manual: bool
    """Whether `snapshot` took it; otherwise the model's `every` did."""


@dataclass(frozen=True, slots=True)
class VisibleSnapshot:
    """A snapshot, and the version that it keeps."""

    snapshot: Snapshot
    version: Version


def visible(
    kept: Iterable[SnapshotVersion], versions: Sequence[Version], limits: SnapshotDefinition | None, now_ms: int
) -> list[VisibleSnapshot]:
    """The snapshots of a document that are shown, oldest first: after its last purge, and within age and number.

    Of several versions that one batch wrote, the last is the one that anybody could ever read. No requests.
    """
    purged = max((version.seq for version in versions if version.op == "purge"), default=0)
    # Those of one batch share their moment; what was adopted came by one entry, each version with a moment of its own.
    last = {(version.rev, version.misc): version.seq for version in versions}
    newest = (each for each in kept if last[each.version.rev, each.version.misc] == each.version.seq)
    found = sorted((_visible(each) for each in newest if each.version.seq > purged), key=lambda each: each.snapshot.ts)
    if limits is None or not found:
        return found
    shown, latest = found[:-1], found[-1:]
    if limits.max_age is not None:
        seconds = duration_seconds(limits.max_age)
        assert seconds is not None, "the schema was checked when it was loaded"
        shown = [each for each in shown if milliseconds(each.snapshot.ts) >= now_ms - 1000 * seconds]
    if limits.max_count is not None:
        shown = shown[max(len(shown) + 1 - limits.max_count, 0) :]
    return shown + latest


def _visible(kept: SnapshotVersion) -> VisibleSnapshot:
    version, taken = kept.version, kept.taken
    misc = version.misc if taken is None else taken.misc
    size = len(version.document or b"")
    return VisibleSnapshot(Snapshot(taken_at(misc), version.seq, size, manual=taken is not None), version)


def taken_at(misc: int) -> datetime:
    """The moment in a MISC, to the microsecond: no two entries of a log share one."""
    return _EPOCH + timedelta(microseconds=misc >> 8)
