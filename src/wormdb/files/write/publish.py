"""Write the files of documents: entities, oplog, snapshots, trash.

What is written follows from the state alone. Files are written first, side by side, and only then others are deleted;
so what moves (into the trash, to another place) is never in neither place.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.history.snapshots import VisibleSnapshot, taken_at
from wormdb.engine.state.view import StoredVersion, View
from wormdb.errors import InvalidRequestError
from wormdb.files.contents.document import oplog_file, snapshot_file
from wormdb.files.contents.expected import kept_snapshots, present_files_of, recorded_until
from wormdb.files.contents.names import FileNames, id_text, short_snapshot_name, snapshot_name
from wormdb.files.write.guard import FileDraft, put_all
from wormdb.format import json
from wormdb.settings import DELETE_MANY_KEYS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from wormdb.engine.history.read import DocumentHistory, History, SnapshotVersion
    from wormdb.files.write.changes import SeenChange, Window
    from wormdb.format.past import Version
    from wormdb.schema.model import Model
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store
    from wormdb.system.types import LogNumber

__all__ = ["DocumentFiles", "FileWork", "identity_of", "name_document"]

log = logging.getLogger(__name__)
_NEVER: Final = -1


@dataclass(slots=True)
class FileWork:
    """Files to write, and files to delete after that."""

    drafts: list[FileDraft] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    emptied: list[str] = field(default_factory=list)
    """Folders of which nothing stays but what is written now."""

    def do(self, store: Store, pool: Pool, check: Callable[[], None]) -> None:
        """Write and delete the files. 1 or 2 requests a file; `check` is called before any is deleted, and may raise.

        1 LIST for each folder that is emptied. Raises UnavailableError, and what `check` raises.
        """
        put_all(store, pool, self.drafts)
        for folder in self.emptied:
            self.deleted += [found.key for page in store.list(folder) for found in page.objects]
        if self.deleted:
            check()
            keys = sorted(set(self.deleted) - {draft.key for draft in self.drafts})
            for start in range(0, len(keys), DELETE_MANY_KEYS):
                store.delete_many(keys[start : start + DELETE_MANY_KEYS])


@dataclass(frozen=True, slots=True)
class DocumentFiles:
    """The files of a collection's documents, at the places that `names` says."""

    model: Model
    names: FileNames

    # --- what entries of the log changed ---

    def changed(self, window: Window, after: LogNumber, view: View, history: History) -> FileWork:
        """What the changes of a window ask for; `after` is the number through which files were written before.

        Nothing is read for documents alone; for one with snapshots as `History.versions` costs.
        """
        work = self.erased(window)
        touched: dict[bytes, list[SeenChange]] = {key: [] for key in window.taken}
        for seen in window.changes:
            if seen.key not in window.erased or seen.version.rev > window.erased[seen.key][1]:
                touched.setdefault(seen.key, []).append(seen)
        newest = self._newest(window, touched, view)
        for key, changes in touched.items():
            encoded = changes[0].version.id if changes else window.taken[key]
            identity = identity_of(encoded)
            if identity is None:
                continue
            if self.model.oplog:
                work.drafts += [self._oplog(identity, seen.version, seen.before, is_new=True) for seen in changes]
            held = newest.get(key)
            # What a later window changes again is left to that one.
            if held is not None and held.rev <= window.through:
                if changes:
                    self._present(work, identity, held, changes)
                if self._may_change_snapshots(changes, is_taken=key in window.taken):
                    self._snapshots(work, identity, history.recorded(key), after)
        return work

    def erased(self, window: Window) -> FileWork:
        """What goes with the documents that were erased: every file that each of them ever had here. No requests."""
        work = FileWork()
        for encoded, _ in window.erased.values():
            identity = identity_of(encoded)
            if identity is not None:
                names = self.names
                work.deleted.append(names.entity(identity))
                work.emptied += [names.oplog_folder(identity), names.snapshot_folder(identity)]
                work.emptied.append(names.trash_folder(identity))
        return work

    def _newest(self, window: Window, touched: dict[bytes, list[SeenChange]], view: View) -> dict[bytes, StoredVersion]:
        """What the view has of each document."""
        if not window.is_last or not window.is_whole:
            return view.get_many(sorted(touched))
        last = {key: changes[-1] for key, changes in touched.items() if changes}
        newest = {
            key: StoredVersion(seen.version.id, seen.version.rev, seen.version.seq, seen.version.document, seen.trash)
            for key, seen in last.items()
        }
        others = [key for key in touched if key not in newest]
        return {**newest, **view.get_many(others)} if others else newest

    def _present(self, work: FileWork, identity: Any, held: StoredVersion, changes: Sequence[SeenChange]) -> None:
        is_new = changes[0].before is None
        work.drafts += self._now(identity, held, is_new=is_new)
        if held.document is None:
            work.deleted.append(self.names.entity(identity))
        was_trashed = any(seen.before is None and seen.version.seq > 1 for seen in changes)
        if was_trashed and held.trash is None:
            work.deleted += [self.names.tombstone(identity), self.names.trashed(identity)]

    def _may_change_snapshots(self, changes: Sequence[SeenChange], *, is_taken: bool) -> bool:
        limits = self.model.snapshots
        if not limits.enabled:
            return False
        is_marked = any(seen.version.snapshot or seen.version.op == "purge" for seen in changes)
        return is_taken or is_marked or limits.max_age is not None

    def _snapshots(self, work: FileWork, identity: Any, found: DocumentHistory, after: LogNumber) -> None:
        """Write the snapshots that came after a number, and remove those that are not kept any more."""
        shown = kept_snapshots(found.snapshots, found.versions, self.model)
        earlier = recorded_until(found, after)
        before = {each.snapshot.ts for each in kept_snapshots(earlier.snapshots, earlier.versions, self.model)}
        work.drafts += [self._snapshot(identity, each) for each in shown if each.snapshot.ts not in before]
        gone = (before | set(_moments(found.snapshots, after))) - {each.snapshot.ts for each in shown}
        work.deleted += [self.names.snapshot(identity, ts) for ts in sorted(gone)]

    # --- everything ---

    def whole(
        self, held: StoredVersion, found: DocumentHistory | None, former: Sequence[FileNames], *, is_new: bool
    ) -> FileWork:
        """All files of one document; `former` are old places where files of it may lie.

        `is_new` says that no files of this collection were ever written, as far as is known.
        """
        work = FileWork()
        identity = identity_of(held.id)
        if identity is None:
            return work
        work.drafts = self._now(identity, held, is_new=is_new)
        versions = [] if found is None else found.versions
        if self.model.oplog:
            for before, version in pairwise([None, *versions]):
                assert version is not None, "only the first has nothing before it"
                earlier = None if before is None else before.document
                work.drafts.append(self._oplog(identity, version, earlier, is_new=is_new or bool(former)))
        kept = [] if found is None else found.snapshots
        work.drafts += [self._snapshot(identity, each) for each in kept_snapshots(kept, versions, self.model)]
        if is_new and held.seq == 1 and not kept:
            return work  # nothing of it was ever written, and it has only what it has now
        for names in (self.names, *former):
            work.deleted += _all_keys(names, identity, held.seq, _moments(kept, _NEVER))
        return work

    # --- drafts ---

    def _now(self, identity: Any, held: StoredVersion, *, is_new: bool) -> list[FileDraft]:
        tombstone = self.names.tombstone(identity)
        files = present_files_of(identity, held, self.model, self.names)
        return [
            FileDraft(key, body, held.rev, is_entity=key != tombstone, is_new=is_new or held.document is None)
            for key, body in files.items()
        ]

    def _oplog(self, identity: Any, version: Version, before: bytes | None, *, is_new: bool) -> FileDraft:
        key = self.names.oplog(identity, version.seq)
        return FileDraft(key, oplog_file(version, before, self.model), version.rev, is_new=is_new)

    def _snapshot(self, identity: Any, shown: VisibleSnapshot) -> FileDraft:
        key = self.names.snapshot(identity, shown.snapshot.ts)
        body = snapshot_file(shown.version, self.model)
        return FileDraft(key, body, shown.version.rev, is_entity=True, is_new=True)


def identity_of(encoded: bytes) -> Any:
    """The id of a document; None if no key can hold it, so that it has no files."""
    return name_document(encoded)[0]


def name_document(encoded: bytes) -> tuple[Any, str]:
    """The id of a document, given as stored, and its text in keys; None and nothing if no key can hold it."""
    if encoded[:1] == b'"' and b"\\" not in encoded:
        identity: Any = encoded[1:-1].decode()
    else:
        identity = json.decode(encoded, name="document id")
    try:
        return identity, id_text(identity)
    except InvalidRequestError as error:
        log.warning("document %s has no readable files: %s", encoded.decode(), error)
        return None, ""


def _moments(kept: Sequence[SnapshotVersion], after: int) -> list[datetime]:
    """When snapshots were taken by entries after a number, as files are named; both times of one taken twice."""
    found = [each.version.misc for each in kept if each.version.snapshot and each.version.rev > after]
    found += [each.taken.misc for each in kept if each.taken is not None and each.taken.rev > after]
    return [taken_at(misc) for misc in found]


def _all_keys(names: FileNames, identity: Any, seq: int, moments: Iterable[datetime]) -> list[str]:
    """Every key that a file of a document may have at some places."""
    keys = [names.entity(identity), names.tombstone(identity), names.trashed(identity)]
    keys += [names.oplog(identity, number) for number in range(1, seq + 1)]
    folder = names.snapshot_folder(identity)
    return keys + [folder + name(ts) for ts in moments for name in (snapshot_name, short_snapshot_name)]
