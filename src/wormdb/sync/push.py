"""Folder to bucket: what changed here since it was last synced, and did not change there.

In this order: a note of what is to be done, files, the parts that list them, the manifest, deletions of objects, and
last what this folder knows. A crash in between leaves files that are not listed yet, or objects that are not listed any
more; the next push of this folder finds the rest to do, because its state is still the old one, and the note tells
which of the bucket's files are its own.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final

from wormdb.errors import ConflictError, OutcomeUnknownError, WormError
from wormdb.storage.readback import Landed, Lost, NothingThere, put_classified
from wormdb.storage.store import IfAbsent, IfMatch
from wormdb.sync.index import FileEntry, iso_time
from wormdb.sync.paths import part_of
from wormdb.sync.remote import PIECE_BYTES, HeldPart, with_notes
from wormdb.sync.report import FileTrouble
from wormdb.sync.state import Intent, KnownFile
from wormdb.sync.survey import PreparedPush, UploadedFile
from wormdb.system.types import Version

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from wormdb.storage.readback import Outcome
    from wormdb.sync.folder import WorkFolder
    from wormdb.sync.paths import SyncScope
    from wormdb.sync.remote import RemoteIndex
    from wormdb.sync.report import SyncReport, SyncRules
    from wormdb.sync.state import LocalState
    from wormdb.sync.survey import LocalChange

__all__ = ["Push"]

PUT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Larger files are uploaded in pieces: then only a look before tells whether another client writes the same file."""
DELETE_MS: Final = 60_000
"""A delete is sent at most this long after its tombstone was written; until then no other client writes the file."""
PORTION_FILES: Final = 10_000
"""About how many files are uploaded before they are listed."""
_TRIES_MAX: Final = 5


class Push:
    """One push."""

    def __init__(self, index: RemoteIndex, folder: WorkFolder, state: LocalState, rules: SyncRules) -> None:
        """Nothing is read yet."""
        self._index = index
        self._folder = folder
        self._state = state
        self.client = rules.client
        self._policy = rules.policy
        self._told = rules.told

    def mirror(self, push: PreparedPush, scope: SyncScope, present: Collection[str]) -> None:
        """Have deleted in the bucket what is not `present` here: all parts of the scope are read. 1 GET each."""
        manifest = push.manifest.manifest
        wanted = {name: note for name, note in manifest.partitions.items() if scope.touches(name, manifest.depths)}
        push.parts |= self._index.read_parts(wanted)
        for part in push.parts.values():
            push.deleted |= {
                path: self._state.known_file(path) for path in part.files if scope.holds(path) and path not in present
            }

    def portions(self, push: PreparedPush) -> Iterator[PreparedPush]:
        """A push in portions of whole parts, so that memory does not grow with the number of files; mostly one.

        Each is to be uploaded and committed before the next. What was found besides the changes comes with the last.
        """
        depths = push.manifest.manifest.depths
        if len(push.changes) <= PORTION_FILES or push.parts:
            yield push
            return
        by_part: dict[str, list[str]] = {}
        for path in (*push.changes, *push.deleted):
            by_part.setdefault(part_of(path, depths), []).append(path)
        paths: list[str] = []
        for name in sorted(by_part):
            if len(paths) + len(by_part[name]) > PORTION_FILES and paths:
                yield from self._portion(push, paths)
                paths = []
            paths += by_part.pop(name)
        push.changes = {path: push.changes[path] for path in paths if path in push.changes}
        yield push

    @staticmethod
    def _portion(push: PreparedPush, paths: list[str]) -> Iterator[PreparedPush]:
        changes = {path: push.changes.pop(path) for path in paths if path in push.changes}
        deleted = {path: push.deleted.pop(path) for path in paths if path in push.deleted}
        one = PreparedPush(push.manifest, {}, changes=changes, deleted=deleted, report=push.report)
        yield one
        push.manifest = one.manifest

    def upload(self, push: PreparedPush) -> PreparedPush:
        """Upload what changed, and is not other in the bucket. 1 PUT a file, 1 GET for each part that is not known."""
        self._hold_parts(push, [*push.changes, *push.deleted])
        wanted = [change for change in push.changes.values() if self._is_wanted(change, push)]
        push.changes = {}
        if push.report.is_dry:
            push.report.pushed += [change.path for change in wanted]
            return push
        self.note(push, wanted)
        for change, result in zip(
            wanted, self._index.pool.map(lambda one: self._upload(one, push), wanted), strict=True
        ):
            self._take(change, result, push)
        return push

    def note(self, push: PreparedPush, wanted: Iterable[LocalChange] = ()) -> None:
        """Remember what is about to be sent and deleted, before anything is. No requests."""
        push.intents |= {change.path: Intent(change.seen.size, change.sha256) for change in wanted}
        push.intents |= {path: Intent(0, None) for path in push.deleted}
        if push.intents:
            self._state.intend(push.intents)

    def _hold_parts(self, push: PreparedPush, paths: list[str]) -> None:
        """Have every part that is about to change: as it is known here, or read."""
        depths = push.manifest.manifest.depths
        wanted = {part_of(path, depths) for path in paths} - push.parts.keys()
        known = {name: part for name in wanted if (part := self._state.part(name)) is not None}
        push.parts |= {name: HeldPart(part.part, part.key, part.version) for name, part in known.items()}
        others = wanted - known.keys()
        if not others <= push.manifest.manifest.partitions.keys() and push.manifest.version is not None:
            # A part that begins must know whether there was one of its name.
            push.manifest = self._index.read_manifest() or push.manifest
        manifest = push.manifest.manifest
        push.parts |= {name: self._index.part_for(name, manifest) for name in others - manifest.partitions.keys()}
        push.parts |= self._index.read_parts(
            {name: manifest.partitions[name] for name in others if name in manifest.partitions}
        )

    def _entry(self, path: str, push: PreparedPush) -> FileEntry | None:
        part = push.parts[part_of(path, push.manifest.manifest.depths)]
        return part.part.entries.get(path)

    def _is_wanted(self, change: LocalChange, push: PreparedPush) -> bool:
        """Whether a change goes up, by what is known of the bucket; else it is told why not."""
        entry = self._entry(change.path, push)
        there = entry if entry is not None and entry.is_there else None
        if there is not None and self._is_equal(change, there):
            push.settled[change.path] = _known(change, there)
            return False
        if entry is not None and self._is_young(entry):
            push.report.conflicts.append(FileTrouble(change.path, "another client deleted it a moment ago; push again"))
            return False
        synced = None if change.before is None else change.before.synced
        if synced == (None if there is None else there.identity) or self._policy == "keep-local":
            return True
        push.report.conflicts.append(FileTrouble(change.path, _reason(is_new=synced is None, is_gone=there is None)))
        return False

    def _is_equal(self, change: LocalChange, there: FileEntry) -> bool:
        """Whether the bucket has the same content; 1 GET if the index does not tell and the sizes are equal."""
        if there.sha256 is not None:
            return there.sha256 == change.sha256.hex()
        return there.size == change.seen.size and self._index.digest(there) == change.sha256

    def now_ms(self) -> int:
        """The store's time."""
        return self._index.now_ms()

    def refusal(self, upload: UploadedFile, there: FileEntry | None) -> str | None:
        """Why an uploaded file is not listed after all, by what the index says of it now; None if it is."""
        if there is not None and self._is_young(there):
            return "another client deleted it a moment ago; push again"
        is_gone = there is None or not there.is_there
        if is_gone and not upload.is_new and self._policy != "keep-local":
            return _reason(is_new=False, is_gone=True)
        return None

    def _is_young(self, entry: FileEntry) -> bool:
        """Whether the delete of another client may still be on its way."""
        if entry.deleted is None or entry.by == self.client:
            return False
        return abs(self._index.now_ms() - entry.deleted) < DELETE_MS

    def _upload(self, change: LocalChange, push: PreparedPush) -> FileEntry | FileTrouble:
        """Write one object, if it is still the one that is known. 1 PUT, and 1 HEAD if its version is not known."""
        entry = self._entry(change.path, push)
        try:
            if change.seen.size > PUT_BYTES_MAX:
                return self._upload_pieces(change, entry)
            return self._put(change, entry, push)
        except FileNotFoundError:
            return FileTrouble(change.path, "it was deleted while it was uploaded")
        except ConflictError as error:
            return FileTrouble(change.path, error.reason)
        except (WormError, OSError) as error:
            reason = error.reason if isinstance(error, WormError) else error.strerror or str(error)
            return FileTrouble(change.path, f"failed: {reason}")

    def _put(self, change: LocalChange, entry: FileEntry | None, push: PreparedPush) -> FileEntry | FileTrouble:
        body = self._folder.read(change.path)
        if not _is_content(body, change.sha256):
            return FileTrouble(change.path, "it changed while it was read; push again")
        condition: IfAbsent | IfMatch = IfAbsent()
        if entry is not None and entry.is_there:
            condition = IfMatch(self._version_of(entry))
        outcome: Outcome | None = None
        for _ in range(_TRIES_MAX):
            outcome = put_classified(self._index.store, change.path, body, condition)
            match outcome:
                case Landed(version=version):
                    return self._listed(change, version)
                case Lost(found=None):
                    if change.before is not None and self._policy != "keep-local":
                        return FileTrouble(change.path, _reason(is_new=False, is_gone=True))
                    condition = IfAbsent()
                case Lost(found=found) if found is not None:
                    if not self._may_replace(found.body, change, entry) and not self._is_remainder(change.path, push):
                        push.found[change.path] = FileEntry(
                            key=change.path,
                            size=len(found.body),
                            last_modified=iso_time(self._index.now_ms()),
                            sha256=_digest(found.body),
                            version=found.version,
                        )
                        return FileTrouble(change.path, "another client wrote it meanwhile")
                    condition = IfMatch(found.version)
                case NothingThere():
                    continue
                case _:
                    raise _unknown(change.path, outcome)
        raise _unknown(change.path, outcome)

    def _is_remainder(self, path: str, push: PreparedPush) -> bool:
        """Whether an object is what is left of a file that was deleted, by the part as it is now. 1 GET.

        A part without files is in no manifest, and so its tombstones are not known here.
        """
        held = push.parts[part_of(path, push.manifest.manifest.depths)]
        part = self._index.read_part(held.part.partition, held.key)
        entry = None if part is None else part.part.entries.get(path)
        return entry is not None and not entry.is_there and not self._is_young(entry)

    def _may_replace(self, found: bytes, change: LocalChange, entry: FileEntry | None) -> bool:
        """Whether an object of another version is what was synced, or what a deletion left."""
        if self._policy == "keep-local" or (entry is not None and not entry.is_there):
            return True
        if self._state.was_sent(change.path, sha256(found).digest()):
            return True
        return change.before is not None and _is_content(found, change.before.sha256)

    def _version_of(self, entry: FileEntry) -> Version:
        if entry.version is not None:
            return Version(entry.version)
        version = self._index.store.head(entry.key).version
        if version is None:
            raise ConflictError(entry.key, reason="the store does not tell its version")
        return version

    def _upload_pieces(self, change: LocalChange, entry: FileEntry | None) -> FileEntry | FileTrouble:
        if entry is not None and entry.is_there:
            version = self._index.store.head(entry.key).version
            if version is not None and entry.version is not None and version != entry.version:
                return FileTrouble(change.path, "another client wrote it meanwhile")
        self._index.store.upload(change.path, _FilePieces(self._folder, change))
        after = self._folder.look(change.path)
        if after is None or self._folder.hash(change.path, after)[1] != change.sha256:
            return FileTrouble(change.path, "it changed while it was uploaded; push again")
        return self._listed(change, self._index.store.head(change.path).version)

    def _listed(self, change: LocalChange, version: Version | None) -> FileEntry:
        self._told(change.path, change.seen.size)
        return FileEntry(
            key=change.path,
            size=change.seen.size,
            last_modified=iso_time(self._index.now_ms()),
            sha256=change.sha256.hex(),
            version=version,
        )

    def _take(self, change: LocalChange, result: FileEntry | FileTrouble, push: PreparedPush) -> None:
        if isinstance(result, FileEntry):
            push.uploaded[change.path] = UploadedFile(result, _known(change, result), change.before is None)
            push.report.bytes_up += change.seen.size
        elif result.reason.startswith("failed: "):
            push.report.failed.append(FileTrouble(result.path, result.reason.removeprefix("failed: ")))
        else:
            push.report.conflicts.append(result)

    def commit(self, push: PreparedPush) -> SyncReport:
        """List what was uploaded, delete what is gone, and know it here. 1 PUT a part, 1 for the manifest.

        For deletions 1 GET before, for the time of the store, and 1 DELETE for each 1,000.
        """
        report = push.report
        if not (push.uploaded or push.found or push.deleted):
            self._remember(push, [])
            return report
        if push.deleted:
            push.manifest = self._index.read_manifest() or push.manifest
        self._hold_parts(push, [*push.uploaded, *push.found, *push.deleted])
        works = self._works(push)
        for work, part in zip(works, self._index.pool.map(lambda one: one.run(self._index), works), strict=True):
            work.part = part
        notes = {work.name: work.part.note() for work in works}
        push.manifest = self._index.update_manifest(push.manifest, lambda found: with_notes(found, notes))
        removed = [path for work in works for path in work.removed]
        for work in works:
            report.conflicts += work.conflicts
        self._index.store.delete_many(removed)
        report.pushed += [path for work in works for path in work.listed]
        report.deleted_there += removed
        self._remember(push, works)
        return report

    def _works(self, push: PreparedPush) -> list[_PartWork]:
        """The changes, part by part."""
        depths = push.manifest.manifest.depths
        works: dict[str, _PartWork] = {}

        def work_of(path: str) -> _PartWork:
            name = part_of(path, depths)
            if name not in works:
                works[name] = _PartWork(name, push.parts[name], self)
            return works[name]

        for path, upload in push.uploaded.items():
            work_of(path).uploaded[path] = upload
        for path, entry in push.found.items():
            work_of(path).found[path] = entry
        for path, before in push.deleted.items():
            work_of(path).deleted[path] = before
        return [works[name] for name in sorted(works)]

    def _remember(self, push: PreparedPush, works: list[_PartWork]) -> None:
        manifest = push.manifest
        depths = manifest.manifest.depths
        rows = {path: (part_of(path, depths), known) for path, known in push.settled.items()}
        for work in works:
            rows |= {path: (work.name, push.uploaded[path].known) for path in work.listed}
        with self._state.changing():
            if manifest.version is not None:
                self._state.hold_manifest(manifest.manifest, manifest.version)
            for work in works:
                if work.part.version is not None:
                    self._state.hold_part(
                        work.part.part, work.part.key, work.part.version, is_applied=work.is_applied(self._state)
                    )
            self._state.hold_files(rows)
            self._state.drop_files(path for work in works for path in work.gone)
            self._state.clear_marks(push.marks)
            self._state.clear_intents(push.intents.keys() - {each.path for each in push.report.failed})


class _PartWork:
    """The changes of one push to one part of the index."""

    def __init__(self, name: str, part: HeldPart, owner: Push) -> None:
        self.name = name
        self.part = part
        self._is_first = part.version is None
        self._owner = owner
        self.uploaded: dict[str, UploadedFile] = {}
        self.found: dict[str, FileEntry] = {}
        self.deleted: dict[str, KnownFile | None] = {}
        self.listed: list[str] = []
        self.removed: list[str] = []
        self.gone: list[str] = []
        self.conflicts: list[FileTrouble] = []

    def run(self, index: RemoteIndex) -> HeldPart:
        """Swap the part. Costs as `RemoteIndex.update_part`."""
        return index.update_part(self.part, self.change)

    def change(self, found: Mapping[str, FileEntry]) -> Mapping[str, FileEntry] | None:
        """The part with our changes; None if it has them."""
        entries = dict(found)
        self.listed, self.removed, self.gone, self.conflicts = [], [], [], []
        for path, upload in self.uploaded.items():
            if (reason := self._owner.refusal(upload, found.get(path))) is not None:
                self.conflicts.append(FileTrouble(path, reason))
                continue
            entries[path] = upload.entry
            self.listed.append(path)
        entries |= {
            path: entry
            for path, entry in self.found.items()
            if path not in found or (found[path].is_there and found[path].identity != entry.identity)
        }  # beside a tombstone an object is what is left of a file, and no news
        for path, before in self.deleted.items():
            self._delete(path, before, found.get(path), entries)
        return entries if entries != found else None

    def _delete(
        self, path: str, before: KnownFile | None, there: FileEntry | None, entries: dict[str, FileEntry]
    ) -> None:
        if there is None or (not there.is_there and there.by != self._owner.client):
            self.gone.append(path)
            return
        if not there.is_there:  # ours, of a push that did not come to its end
            self.removed.append(path)
            self.gone.append(path)
            return
        if before is not None and there.identity != before.synced:
            self.conflicts.append(
                FileTrouble(path, "it was deleted here, and changed in the bucket: pull brings it back")
            )
            return
        now = self._owner.now_ms()
        entries[path] = FileEntry(
            key=path, size=0, last_modified=iso_time(now), version=there.version, deleted=now, by=self._owner.client
        )
        self.removed.append(path)
        self.gone.append(path)

    def is_applied(self, state: LocalState) -> bool:
        """Whether this folder has all files of the part: it had, and only it changed the part since."""
        known, own = state.part(self.name), {*self.listed, *self.gone}
        if known is None:
            return self._is_first and own >= self.part.files.keys()
        before = HeldPart(known.part, known.key, known.version).files
        return known.is_applied and {path: each for path, each in before.items() if path not in own} == {
            path: each for path, each in self.part.files.items() if path not in own
        }


class _FilePieces:
    """A large file as parts of an upload."""

    def __init__(self, folder: WorkFolder, change: LocalChange) -> None:
        self._file = folder.root / change.path
        self.size = change.seen.size

    def parts(self) -> Iterator[bytes]:
        with self._file.open("rb") as file:
            while some := file.read(PIECE_BYTES):
                yield some


def _known(change: LocalChange, entry: FileEntry) -> KnownFile:
    return KnownFile(change.seen.size, change.seen.mtime, change.sha256, entry.identity)


def _digest(body: bytes) -> str:
    return sha256(body).hexdigest()


def _is_content(body: bytes, digest: bytes) -> bool:
    return sha256(body).digest() == digest


def _unknown(path: str, outcome: Outcome | None) -> OutcomeUnknownError:
    return OutcomeUnknownError(f"upload of {path}", reason=str(getattr(outcome, "cause", outcome)), key=path)


def _reason(*, is_new: bool, is_gone: bool) -> str:
    if is_new:
        return "it is new here and in the bucket, with another content"
    return "it was changed here, and deleted in the bucket" if is_gone else "it was changed here and in the bucket"
