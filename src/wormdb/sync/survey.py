"""What changed in a folder since it was last synced: the first half of a push, which needs no bucket.

Most pushes find nothing, and end here: so this imports nothing that is about buckets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wormdb.errors import InvalidRequestError
from wormdb.sync.paths import STATE_FOLDER
from wormdb.sync.report import FileTrouble, SyncReport
from wormdb.sync.state import KnownFile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wormdb.sync.folder import LocalFile, Stamps, WorkFolder
    from wormdb.sync.index import FileEntry, HeldManifest
    from wormdb.sync.paths import SyncScope
    from wormdb.sync.remote import HeldPart
    from wormdb.sync.state import Intent, LocalState

__all__ = ["LocalChange", "PreparedPush", "UploadedFile", "survey"]


@dataclass(frozen=True, slots=True)
class LocalChange:
    """A file that is other than it was when it was last synced; `before` is what was synced, if anything was."""

    path: str
    seen: LocalFile
    sha256: bytes
    before: KnownFile | None


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file whose object is written: what the index will say of it, and what this folder will know."""

    entry: FileEntry
    known: KnownFile
    is_new: bool
    """Whether it was never synced before."""


@dataclass(slots=True)
class PreparedPush:
    """Files that are uploaded and not listed yet. `commit` lists them."""

    manifest: HeldManifest
    parts: dict[str, HeldPart]
    changes: dict[str, LocalChange] = field(default_factory=dict)
    """Files that are not uploaded yet."""
    uploaded: dict[str, UploadedFile] = field(default_factory=dict)
    found: dict[str, FileEntry] = field(default_factory=dict)
    """Objects that are not as the index says: what they really are."""
    settled: dict[str, KnownFile] = field(default_factory=dict)
    """Files that are equal on both sides."""
    deleted: dict[str, KnownFile | None] = field(default_factory=dict)
    """Files to delete in the bucket, with what was synced; None: whatever is there."""
    marks: Mapping[str, int] = field(default_factory=dict)
    intents: dict[str, Intent] = field(default_factory=dict)
    """What was noted before the first upload."""
    report: SyncReport = field(default_factory=SyncReport)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to send, to delete or to know."""
        return not (self.changes or self.deleted or self.settled or self.marks)


def survey(
    folder: WorkFolder, state: LocalState, scope: SyncScope, push: PreparedPush, *, mirror: bool = False
) -> set[str]:
    """Look for changes and deletions; the paths that are there, without `mirror` only those that are not as they were.

    Raises InvalidRequestError for an empty folder that was not, unless with `mirror`.
    """
    stamps = state.stamps(scope.prefixes)
    count, known = len(stamps), frozenset(stamps if mirror else ())
    folder.collections.clear()
    seen = _look(folder, state, scope, stamps, push)
    gone = [path for path in stamps if not folder.belongs(path)]
    if gone and not seen and len(stamps) == count and scope.is_whole and not mirror:
        raise InvalidRequestError(
            f"folder {folder.root}",
            reason=f"it is empty, although {len(gone):,} files of it were synced",
            fix=f"push with delete if they are to go there too; to fetch them again remove {STATE_FOLDER} and pull",
        )
    push.deleted |= {path: state.known_file(path) for path in gone}
    return seen | (known - stamps.keys())


def _look(folder: WorkFolder, state: LocalState, scope: SyncScope, stamps: Stamps, push: PreparedPush) -> set[str]:
    """Find the files that are other than they were; the paths that are there and not as `stamps` says.

    What is left in `stamps` is not there any more.
    """
    seen: set[str] = set()

    def skip(path: str, reason: str) -> None:
        push.report.skipped.append(FileTrouble(path, reason))
        seen.add(path)
        stamps.pop(path, None)

    for path, found in folder.walk(scope, skip, stamps):
        before = state.known_file(path)
        try:
            settled, digest = folder.hash(path, found)
        except FileNotFoundError:
            if before is not None:
                stamps[path] = before.size, before.mtime
            continue
        except OSError as error:
            push.report.failed.append(FileTrouble(path, error.strerror or str(error)))
            seen.add(path)
            continue
        seen.add(path)
        if before is not None and digest == before.sha256:
            push.settled[path] = KnownFile(settled.size, settled.mtime, digest, before.synced)
        else:
            push.changes[path] = LocalChange(path, settled, digest, before)
    return seen
