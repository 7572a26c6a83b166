"""The files that are not the same on both sides, whichever of them changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.sync.report import FileDifference

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wormdb.sync.folder import WorkFolder
    from wormdb.sync.index import FileEntry
    from wormdb.sync.paths import SyncScope
    from wormdb.sync.state import LocalState

__all__ = ["differences"]


def differences(
    folder: WorkFolder, state: LocalState, there: Mapping[str, FileEntry], scope: SyncScope
) -> list[FileDifference]:
    """Compare a folder with what the index says, in order of path. No requests; what may have changed is hashed."""
    found = []
    known = state.files(scope.prefixes)
    seen: set[str] = set()
    for path, file in folder.walk(scope, lambda *_: None):
        seen.add(path)
        before, entry = known.get(path), there.get(path)
        if entry is not None and entry.sha256 is None and entry.size == file.size:
            continue
        is_known = before is not None and file.is_as(before)
        digest = (before.sha256 if is_known and before is not None else folder.hash(path, file)[1]).hex()
        if entry is None:
            found.append(FileDifference(path, file.size, None, digest, None))
        elif digest != entry.sha256:
            found.append(FileDifference(path, file.size, entry.size, digest, entry.sha256))
    for path, entry in there.items():
        if path not in seen and scope.holds(path):
            found.append(FileDifference(path, None, entry.size, None, entry.sha256))
    return sorted(found, key=lambda each: each.path)
