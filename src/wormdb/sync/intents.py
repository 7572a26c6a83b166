"""What a push that broke off may have done: noted here before its first upload, found out by the next push or pull.

Without a note a folder does not know that it was sending a file. If its user deletes or changes the file then, what
was sent would look like another client's, and come back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wormdb.errors import NotFoundError
from wormdb.sync.index import FileEntry, iso_time
from wormdb.sync.paths import part_of
from wormdb.sync.remote import with_notes
from wormdb.sync.state import KnownFile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wormdb.sync.index import HeldManifest
    from wormdb.sync.remote import HeldPart, RemoteIndex
    from wormdb.sync.state import Intent, LocalState

__all__ = ["settle"]


def settle(index: RemoteIndex, state: LocalState, held: HeldManifest, client: str) -> HeldManifest:
    """Find out what became of a push that broke off, and know it. No requests if none did.

    Every part that it may have changed is written once more: what is still on its way to it lands no more. A file
    that was uploaded and is not listed gets a tombstone, so that no scan takes its object for another program's.
    1 GET and 1 PUT a part, and 1 PUT for the manifest.
    """
    intents = state.intents()
    if not intents:
        return held
    manifest = held.manifest
    by_part: dict[str, dict[str, Intent]] = {}
    for path, intent in intents.items():
        by_part.setdefault(part_of(path, manifest.depths), {})[path] = intent
    works = [_Settlement(name, own, client, index) for name, own in sorted(by_part.items())]

    def run(work: _Settlement) -> HeldPart:
        note = manifest.partitions.get(work.name)
        empty = index.part_for(work.name, manifest)
        key = empty.key if note is None else note.key
        return index.update_part(index.read_part(work.name, key) or empty, work.change)

    parts = list(index.pool.map(run, works))
    notes = {part.part.partition: part.note() for part in parts}
    held = index.update_manifest(held, lambda found: with_notes(found, notes))
    with state.changing():
        for work, part in zip(works, parts, strict=True):
            state.hold_files({path: (work.name, known) for path, known in work.sent.items()})
            state.drop_files(work.gone)
            if part.version is not None:
                state.hold_part(part.part, part.key, part.version, is_applied=False)
        if held.version is not None:
            state.hold_manifest(held.manifest, held.version)
        # What was not found may still land as an object: then it is ours to replace.
        known = {path for work in works for path in (*work.sent, *work.gone)}
        state.clear_intents(known)
        state.settle_intents()
    return held


@dataclass(slots=True)
class _Settlement:
    """What a push meant to do to one part."""

    name: str
    intents: Mapping[str, Intent]
    client: str
    index: RemoteIndex
    sent: dict[str, KnownFile]
    gone: list[str]

    def __init__(self, name: str, intents: Mapping[str, Intent], client: str, index: RemoteIndex) -> None:
        self.name, self.intents, self.client, self.index = name, intents, client, index
        self.sent, self.gone = {}, []

    def change(self, found: Mapping[str, FileEntry]) -> Mapping[str, FileEntry]:
        """The part as it is, with tombstones of what was not listed; always to be written."""
        entries = dict(found)
        self.sent, self.gone = {}, []
        for path, intent in self.intents.items():
            there = found.get(path)
            if intent.sha256 is None:
                if there is None or (not there.is_there and there.by == self.client):
                    self.gone.append(path)
            elif there is None:
                now = self.index.now_ms()
                entries[path] = FileEntry(key=path, size=0, last_modified=iso_time(now), deleted=now, by=self.client)
            elif there.is_there and self._is_content(there, intent):
                self.sent[path] = KnownFile(intent.size, 0, intent.sha256, there.identity)
            elif there.is_there and (landed := self._landed(path, intent)) is not None:
                entries[path] = landed
                self.sent[path] = KnownFile(intent.size, 0, intent.sha256, landed.identity)
        return entries

    def _landed(self, path: str, intent: Intent) -> FileEntry | None:
        """What was sent, if it is the object although it was not listed; 1 HEAD, and 1 GET if it may be."""
        assert intent.sha256 is not None
        try:
            info = self.index.store.head(path)
        except NotFoundError as error:
            if error.key != path:
                raise
            return None
        entry = FileEntry(
            key=path,
            size=intent.size,
            last_modified=iso_time(info.modified),
            sha256=intent.sha256.hex(),
            version=info.version,
        )
        is_ours = info.size == intent.size and self.index.digest(entry) == intent.sha256
        return entry if is_ours else None

    def _is_content(self, there: FileEntry, intent: Intent) -> bool:
        """Whether an entry is of what was sent; 1 GET if it was listed by a scan, which does not know contents."""
        assert intent.sha256 is not None
        if there.sha256 is not None:
            return there.sha256 == intent.sha256.hex()
        return there.size == intent.size and self.index.digest(there) == intent.sha256
