"""What a push or a pull did, and what it could not do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "BatchConflict",
    "CollectionVerb",
    "ConflictPolicy",
    "FileDifference",
    "FileTrouble",
    "SyncReport",
    "SyncRules",
    "SyncedCollection",
]

ConflictPolicy = Literal["keep-both", "keep-remote", "keep-local"]
"""What becomes of a file that changed on both sides: the bucket's in its place and the local one beside it, or one."""


@dataclass(frozen=True, slots=True)
class SyncRules:
    """How one push or pull decides, and who hears of it."""

    client: str
    """What this folder calls itself in tombstones."""
    policy: ConflictPolicy
    mark: str
    """In the names of files that are set aside."""
    told: Callable[[str, int], None]
    """Hears each file as it is done, with its bytes."""
    is_lazy: bool = False
    """Whether bodies of data stay in the bucket."""


@dataclass(frozen=True, slots=True)
class FileTrouble:
    """A file that was not synced as it is, and why; `copy` is where the local content is now."""

    path: str
    reason: str
    copy: str | None = None


@dataclass(frozen=True, slots=True)
class FileDifference:
    """A file that is not the same on both sides: its size and digest on each, None where it is not."""

    path: str
    size_here: int | None
    size_there: int | None
    sha256_here: str | None
    sha256_there: str | None
    """None too where the index does not know it: another program wrote the file."""


CollectionVerb = Literal["pushed", "pulled", "rebased", "behind", "parted", "failed"]
"""What became of a collection: behind has to pull first, parted went on by itself on both sides."""


@dataclass(frozen=True, slots=True)
class BatchConflict:
    """A batch of this folder that could not be committed behind the bucket's entries, and why."""

    entry: int
    """Its number in the log that it was in."""
    batch: str
    reason: str
    ids: tuple[str, ...]
    """Of the documents that it changes, as JSON."""


@dataclass(frozen=True, slots=True)
class SyncedCollection:
    """What became of a collection; `number` is that of the last entry that both sides have."""

    name: str
    verb: CollectionVerb
    entries: int = 0
    number: int = 0
    reason: str | None = None
    conflicts: list[BatchConflict] = field(default_factory=list)

    @property
    def is_settled(self) -> bool:
        """Whether both sides are one log now, and no batch was left out."""
        return self.verb in ("pushed", "pulled", "rebased") and not self.conflicts


@dataclass(slots=True)
class SyncReport:
    """What was done, in files; with `is_dry` what would be."""

    is_dry: bool = False
    pulled: list[str] = field(default_factory=list)
    pushed: list[str] = field(default_factory=list)
    deleted_here: list[str] = field(default_factory=list)
    deleted_there: list[str] = field(default_factory=list)
    conflicts: list[FileTrouble] = field(default_factory=list)
    skipped: list[FileTrouble] = field(default_factory=list)
    """Links, devices and names that no store holds."""
    failed: list[FileTrouble] = field(default_factory=list)
    collections: list[SyncedCollection] = field(default_factory=list)
    """Collections that were not equal on both sides."""
    bytes_up: int = 0
    bytes_down: int = 0
    requests: int = 0

    @property
    def count(self) -> int:
        """How many files changed, on either side, and entries of collections."""
        files = len(self.pulled) + len(self.pushed) + len(self.deleted_here) + len(self.deleted_there)
        return files + sum(each.entries for each in self.collections)

    def join(self, other: SyncReport) -> SyncReport:
        """Both of them as one."""
        return SyncReport(
            is_dry=self.is_dry,
            pulled=self.pulled + other.pulled,
            pushed=self.pushed + other.pushed,
            deleted_here=self.deleted_here + other.deleted_here,
            deleted_there=self.deleted_there + other.deleted_there,
            conflicts=self.conflicts + other.conflicts,
            skipped=self.skipped + [each for each in other.skipped if each not in self.skipped],
            failed=self.failed + other.failed,
            collections=self.collections + other.collections,
            bytes_up=self.bytes_up + other.bytes_up,
            bytes_down=self.bytes_down + other.bytes_down,
            requests=self.requests + other.requests,
        )
