"""Bucket to folder: what changed there since it was last synced, and did not change here.

A file is written beside its place, checked by its digest, and renamed. What this folder knows is written last, part by
part: a crash leaves files that are as the bucket has them and not known to be; the next pull finds them equal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Literal

from wormdb.errors import NotFoundError, WormError
from wormdb.sync.paths import check_path, is_lazy, part_of
from wormdb.sync.remote import PIECE_BYTES, with_notes
from wormdb.sync.report import FileTrouble, SyncReport
from wormdb.sync.state import KnownFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wormdb.sync.folder import LocalFile, WorkFolder
    from wormdb.sync.index import FileEntry, HeldManifest
    from wormdb.sync.paths import SyncScope
    from wormdb.sync.remote import HeldPart, RemoteIndex
    from wormdb.sync.report import SyncRules
    from wormdb.sync.state import LocalState

__all__ = ["Pull"]

_TRIES_MAX: Final = 3
Verb = Literal["fetch", "remove", "equal", "leave"]


@dataclass(frozen=True, slots=True)
class _FileStep:
    """What becomes of one file here."""

    path: str
    verb: Verb
    entry: FileEntry | None
    seen: LocalFile | None
    conflict: str | None = None
    known: KnownFile | None = None
    """What is known already of a file that stays as it is."""


@dataclass(slots=True)
class _PartResult:
    rows: dict[str, KnownFile] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Files that the index names and the bucket does not have."""
    is_whole: bool = True

    def add(self, other: _PartResult) -> None:
        self.rows |= other.rows
        self.gone += other.gone
        self.is_whole &= other.is_whole


class Pull:
    """One pull."""

    def __init__(self, index: RemoteIndex, folder: WorkFolder, state: LocalState, rules: SyncRules) -> None:
        """Nothing is read yet."""
        self._index = index
        self._folder = folder
        self._state = state
        self._policy = rules.policy
        self._is_lazy = rules.is_lazy
        self._mark = rules.mark
        self._told = rules.told
        self._folds_case: bool | None = None

    def run(self, manifest: HeldManifest, scope: SyncScope, *, mirror: bool, is_dry: bool) -> SyncReport:
        """Take over what changed. 1 GET for each part that did, and 1 for each file.

        With `mirror` what only the folder has is deleted here; then every part of the scope is compared.
        """
        report = SyncReport(is_dry=is_dry)
        depths, listed = manifest.manifest.depths, manifest.manifest.partitions
        applied = {} if mirror else self._state.applied()
        wanted = {
            name: note
            for name, note in listed.items()
            if scope.touches(name, depths) and applied.get(name) != note.nonce
        }
        parts = self._index.read_parts(wanted)
        if not is_dry:
            manifest = self._list(parts, manifest)
        for name, part in parts.items():
            self._apply(name, part, scope, report, manifest)
        for name in self._state.part_names():
            if name not in listed and scope.touches(name, depths):
                self._apply(name, None, scope, report, manifest)
        if mirror:
            self._mirror(scope, {path for part in parts.values() for path in part.files}, report)
        if not is_dry and manifest.version is not None:
            with self._state.changing():
                self._state.hold_manifest(manifest.manifest, manifest.version)
        return report

    def _list(self, parts: Mapping[str, HeldPart], manifest: HeldManifest) -> HeldManifest:
        """Tell the manifest of parts that are newer than it says: the client that wrote one did not come to that.

        Without this a client that has the part as the manifest names it would never look, and this one would read the
        part at every pull. 1 PUT if there is one.
        """
        listed = manifest.manifest.partitions
        notes = {name: part.note() for name, part in parts.items() if part.part.seq > listed[name].seq}
        return self._index.update_manifest(manifest, lambda found: with_notes(found, notes)) if notes else manifest

    def apply_entries(
        self, entries: Mapping[str, FileEntry], scope: SyncScope, depths: Mapping[str, int]
    ) -> SyncReport:
        """Take over files of an index without parts, which is read and not changed."""
        report = SyncReport()
        rows: dict[str, tuple[str, KnownFile]] = {}
        known = self._state.files(scope.prefixes)
        chosen = {path: entry for path, entry in entries.items() if scope.holds(path)}
        result = self._carry_out(self._plan(chosen, known), report)
        rows |= {path: (part_of(path, depths), row) for path, row in result.rows.items()}
        with self._state.changing():
            self._state.hold_files(rows)
            self._state.drop_files(result.gone)
        return report

    def _apply(
        self, name: str, part: HeldPart | None, scope: SyncScope, report: SyncReport, manifest: HeldManifest
    ) -> None:
        """Compare one part with the folder, and make the folder's files those of the part."""
        files = {} if part is None else part.files
        known = self._state.files_of_part(name)
        steps = self._plan(
            {path: entry for path, entry in files.items() if scope.holds(path)},
            {path: each for path, each in known.items() if scope.holds(path)},
        )
        if report.is_dry:
            for step in steps:
                self._tell(step, report)
            return
        result = self._carry_out(steps, report)
        if result.missing and part is not None:
            _, part = self._index.drop(manifest, part, result.missing)
            rest = self._plan({}, {path: known[path] for path in result.missing if path in known})
            result.add(self._carry_out(rest, report))
        is_whole = result.is_whole and scope.covers(name, manifest.manifest.depths)
        with self._state.changing():
            self._state.hold_files({path: (name, row) for path, row in result.rows.items()})
            self._state.drop_files(result.gone)
            if part is not None and part.version is not None:
                self._state.hold_part(part.part, part.key, part.version, is_applied=is_whole)
            elif part is None and is_whole:
                self._state.drop_part(name)

    def _plan(self, files: Mapping[str, FileEntry], known: Mapping[str, KnownFile]) -> list[_FileStep]:
        """What to do with each path of either side. No requests; files that may have changed here are hashed."""
        steps = []
        for path in sorted({*files, *known}):
            entry, before = files.get(path), known.get(path)
            if entry is not None and before is not None and entry.identity == before.synced:
                continue
            steps.append(self._step(path, entry, before))
        return steps

    def _step(self, path: str, entry: FileEntry | None, before: KnownFile | None) -> _FileStep:
        seen = self._folder.look(path)
        if seen is None:
            if entry is None:
                return _FileStep(path, "remove", None, None)
            if before is None:
                return _FileStep(path, "fetch", entry, None)
            kept = self._policy == "keep-local"
            return _FileStep(
                path, "leave" if kept else "fetch", entry, None, "it was deleted here, and changed in the bucket"
            )
        if before is not None and seen.is_as(before):
            return _FileStep(path, "remove" if entry is None else "fetch", entry, seen)
        settled, digest = self._folder.hash(path, seen)
        row = KnownFile(settled.size, settled.mtime, digest, "" if entry is None else entry.identity)
        if before is not None and digest == before.sha256:
            return _FileStep(path, "remove" if entry is None else "fetch", entry, seen)
        if entry is not None and entry.sha256 == digest.hex():
            return _FileStep(path, "equal", entry, seen, known=row)
        if entry is None:
            return _FileStep(path, "leave" if self._policy == "keep-local" else "remove", None, seen, _CHANGED_DELETED)
        reason = "it is new here and in the bucket" if before is None else "it was changed here and in the bucket"
        return _FileStep(path, "leave" if self._policy == "keep-local" else "fetch", entry, seen, reason, row)

    def _carry_out(self, steps: list[_FileStep], report: SyncReport) -> _PartResult:
        result = _PartResult()
        steps = self._without_clashes(steps, report, result)
        for step, outcome in zip(steps, self._index.pool.map(self._do, steps), strict=True):
            if isinstance(outcome, FileTrouble):
                result.is_whole = False
                report.failed.append(outcome)
                continue
            row, copy = outcome
            if step.verb == "fetch" and row is None:
                if self._is_lazy and is_lazy(step.path):
                    result.is_whole = False
                else:
                    result.missing.append(step.path)
                continue
            if row is not None:
                result.rows[step.path] = row
            elif step.verb in ("remove", "leave"):
                result.gone.append(step.path)
            if row is not step.known or row is None:
                self._tell(step, report, copy)
        return result

    def _tell(self, step: _FileStep, report: SyncReport, copy: str | None = None) -> None:
        if step.verb == "fetch" and step.entry is not None:
            report.pulled.append(step.path)
            report.bytes_down += step.entry.size
        elif step.verb == "remove" and step.seen is not None:
            report.deleted_here.append(step.path)
        if step.conflict is not None:
            report.conflicts.append(FileTrouble(step.path, step.conflict, copy))

    def _without_clashes(self, steps: list[_FileStep], report: SyncReport, result: _PartResult) -> list[_FileStep]:
        """Without files whose name another one has here, on a file system that folds case."""
        if self._folds_case is None:
            self._folds_case = self._folder.folds_case()
        if not self._folds_case:
            return steps
        taken: dict[str, str] = {}
        kept = []
        for step in steps:
            other = taken.setdefault(step.path.casefold(), step.path)
            if other == step.path:
                kept.append(step)
                continue
            result.is_whole = False
            report.failed.append(FileTrouble(step.path, f"{other} has the same name but for its case"))
        return kept

    def _do(self, step: _FileStep) -> tuple[KnownFile | None, str | None] | FileTrouble:
        """Carry out one step: what is known of the file then, None if it is gone or not here, and where a copy is."""
        try:
            check_path(step.path)
            if step.verb == "equal" or self._turns_out_equal(step):
                return step.known, None
            if step.verb == "leave":
                return self._left(step), None
            if step.verb == "fetch" and self._is_lazy and is_lazy(step.path) and step.seen is None:
                self._folder.make_folder(step.path)
                return None, None
            return self._change(step)
        except (WormError, OSError) as error:
            reason = error.reason if isinstance(error, WormError) else error.strerror or str(error)
            return FileTrouble(step.path, reason or str(error))

    def _turns_out_equal(self, step: _FileStep) -> bool:
        """Whether a file that seems to have changed on both sides is equal: an entry without a digest does not tell."""
        if step.known is None or step.entry is None or step.entry.sha256 is not None:
            return False
        return step.known.size == step.entry.size and self._index.digest(step.entry) == step.known.sha256

    def _left(self, step: _FileStep) -> KnownFile | None:
        """The bucket's file counts as synced, so that the next push replaces it by the one here."""
        if step.entry is None:
            return None
        return KnownFile(step.entry.size, 0, bytes.fromhex(step.entry.sha256 or ""), step.entry.identity)

    def _change(self, step: _FileStep) -> tuple[KnownFile | None, str | None] | FileTrouble:
        if self._folder.is_taken(step.path):
            return FileTrouble(step.path, "a folder or a link is in its place")
        seen, copy = step.seen, None
        if step.conflict is not None and seen is not None and self._policy == "keep-both":
            copy = self._folder.set_aside(step.path, self._mark)
            seen = None
        if step.verb == "remove":
            if not self._folder.remove(step.path, seen):
                return FileTrouble(step.path, "it changed while it was compared; pull again")
            return None, copy
        assert step.entry is not None
        row = self._fetch(step.path, step.entry, seen)
        return row if isinstance(row, FileTrouble) else (row, copy)

    def _fetch(self, path: str, entry: FileEntry, seen: LocalFile | None) -> KnownFile | FileTrouble | None:
        """Download one file. 1 GET, or 1 for each piece; None if the bucket does not have it.

        If its content is not what the index says, a client is writing it: then it is read again, and at last taken as
        it is.
        """
        for attempt in range(1, _TRIES_MAX + 1):
            body = _CheckedBody(self._index.pieces(entry), entry.sha256, is_last=attempt == _TRIES_MAX)
            try:
                written = self._folder.write(path, body.pieces(), self._index.nonce(), seen)
            except _NotYetError:
                continue
            except NotFoundError as error:
                if error.key != entry.key:
                    raise
                return None
            if written is None:
                return FileTrouble(path, "it changed while it was fetched; pull again")
            settled = self._folder.settled(written)
            self._told(path, body.size)
            return KnownFile(body.size, settled.mtime, body.digest.digest(), entry.identity)
        return FileTrouble(path, "its content is not what the index says; a client may be writing it: pull again")

    def hydrate(self, path: str, entry: FileEntry) -> KnownFile | FileTrouble | None:
        """Fetch one file that a lazy pull left out. 1 GET."""
        seen = self._folder.look(path)
        return self._fetch(path, entry, seen)

    def _mirror(self, scope: SyncScope, there: set[str], report: SyncReport) -> None:
        """Delete files here that the bucket does not have."""
        for path, seen in list(self._folder.walk(scope, lambda *_: None)):
            if path not in there and (report.is_dry or self._folder.remove(path, seen)):
                report.deleted_here.append(path)


class _CheckedBody:
    """Bytes on their way to a file: at their end they are what the index says, or none of them is kept."""

    def __init__(self, source: Iterator[bytes], expected: str | None, *, is_last: bool) -> None:
        self._source = source
        self._expected = expected
        self._is_last = is_last
        self.digest = sha256()
        self.size = 0

    def pieces(self) -> Iterator[bytes]:
        for some in self._source:
            self.digest.update(some)
            self.size += len(some)
            yield some
        if self._expected not in (None, self.digest.hexdigest()) and (not self._is_last or self.size > PIECE_BYTES):
            raise _NotYetError


class _NotYetError(Exception):
    """The content of an object is not what the index says."""


_CHANGED_DELETED: Final = "it was changed here, and deleted in the bucket"
