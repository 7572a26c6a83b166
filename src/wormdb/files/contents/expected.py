"""The files that a state should have, from the state alone: what sync writes and verify compares with. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.history.read import DocumentHistory, History, SnapshotVersion
from wormdb.engine.history.snapshots import VisibleSnapshot, visible
from wormdb.engine.history.tombstone import read_tombstone
from wormdb.files.contents.document import entity_file, oplog_file, snapshot_file, tombstone_file
from wormdb.format.past import Version, misc_ms

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb.engine.state.view import StoredVersion, View
    from wormdb.files.contents.names import FileKey, FileNames
    from wormdb.schema.model import Model

__all__ = [
    "EDITED",
    "EXTRA",
    "MISSING",
    "ExpectedFile",
    "FiledDocument",
    "expected_files",
    "filed_documents",
    "files_of",
    "has_past",
    "kept_snapshots",
    "may_be_there",
    "present_files_of",
    "recorded_until",
]

# How a file differs from what is expected.
MISSING: Final = "it is missing"
EDITED: Final = "it is not what was written"
EXTRA: Final = "it should not be there"


def files_of(
    identity: Any,
    held: StoredVersion | None,
    versions: Sequence[Version],
    kept: Sequence[SnapshotVersion],
    model: Model,
    names: FileNames,
) -> dict[str, bytes]:
    """Every file of one document, by key: entity or trash, oplog, snapshots. No requests.

    `held`, `versions` and `kept` are what one view has of it. Of changes before history begins there is nothing to say.
    Raises CorruptionError for a tombstone that cannot be read, InvalidRequestError for an id that no key can hold.
    """
    files = present_files_of(identity, held, model, names)
    if model.oplog:
        for before, version in pairwise([None, *versions]):
            assert version is not None, "only the first has nothing before it"
            earlier = None if before is None else before.document
            files[names.oplog(identity, version.seq)] = oplog_file(version, earlier, model)
    for each in kept_snapshots(kept, versions, model):
        files[names.snapshot(identity, each.snapshot.ts)] = snapshot_file(each.version, model)
    return files


def present_files_of(identity: Any, held: StoredVersion | None, model: Model, names: FileNames) -> dict[str, bytes]:
    """The files of one document as it is now: its own, or two in the trash. Raises as `files_of`. No requests."""
    if held is None:
        return {}
    key = names.entity(identity)
    if held.document is not None:
        return {key: entity_file(held.document, held.rev, model)}
    if held.trash is None:
        return {}
    found = read_tombstone(held)
    return {
        names.trashed(identity): entity_file(found.document, held.rev, model),
        names.tombstone(identity): tombstone_file(found, key, held.rev),
    }


def kept_snapshots(kept: Sequence[SnapshotVersion], versions: Sequence[Version], model: Model) -> list[VisibleSnapshot]:
    """The snapshots of a document that have files, oldest first. No requests.

    They are pruned when the document changes, so their age is counted until its last change: a file does not come or
    go by time alone, and every writer writes the same ones.
    """
    if not model.snapshots.enabled or not kept:
        return []
    moments = [version.misc for version in versions]
    moments += [each.taken.misc for each in kept if each.taken is not None]
    return visible(kept, versions, model.snapshots, misc_ms(max(moments)))


def recorded_until(found: DocumentHistory, number: int) -> DocumentHistory:
    """What was known of a document at a log number. No requests."""
    versions = [version for version in found.versions if version.rev <= number]
    kept = [
        SnapshotVersion(each.version, each.taken if each.taken is not None and each.taken.rev <= number else None)
        for each in found.snapshots
        if each.version.rev <= number
    ]
    return DocumentHistory(
        found.key, versions, [each for each in kept if each.taken is not None or each.version.snapshot]
    )


# --- Which files a document should have while its collection goes on: lag is not damage. No I/O.
#
# Files are complete through one log number, and the state may be at a later one. What did not change in between is
# exactly known; of what did, a file may be as it was then or as it became since, and may be there or not.


@dataclass(frozen=True, slots=True)
class FiledDocument:
    """What one view has of a document that may have files."""

    key: bytes
    """The key of its id."""
    identity: Any
    held: StoredVersion
    recorded: DocumentHistory | None = None
    """None if its past was not asked for."""


@dataclass(frozen=True, slots=True)
class ExpectedFile:
    """A file that should be there: as one of some bodies."""

    bodies: tuple[bytes, ...]
    may_lack: bool = False
    """Whether it may be missing."""


def has_past(names: FileNames) -> bool:
    """Whether files show the past of documents."""
    return names.model.oplog or names.model.snapshots.enabled


def filed_documents(
    view: View, history: History | None
) -> Iterator[tuple[bytes, StoredVersion, DocumentHistory | None]]:
    """Every id that a view ever used, in order of key, with its past if there is `history`. Costs a scan of both."""
    if history is None:
        yield from ((key, held, None) for key, held in view.scan())
        return
    past = history.documents()
    found = next(past, None)
    for key, held in view.scan():
        while found is not None and found.key < key:
            found = next(past, None)
        yield key, held, found if found is not None and found.key == key else None


def expected_files(document: FiledDocument, names: FileNames, through: int) -> dict[str, ExpectedFile]:
    """The files of a document of a collection whose files are complete through a number. No requests.

    Its past must be known if files show it, and if it changed after the number.
    """
    held, found = document.held, document.recorded
    versions = [] if found is None else found.versions
    kept = [] if found is None else found.snapshots
    if held.rev <= through and all(each.taken is None or each.taken.rev <= through for each in kept):
        files = files_of(document.identity, held, versions, kept, names.model, names)
        return {key: ExpectedFile((body,)) for key, body in files.items()}
    return _moving(document, names, through)


def _moving(document: FiledDocument, names: FileNames, through: int) -> dict[str, ExpectedFile]:
    model, identity, found = names.model, document.identity, document.recorded
    assert found is not None, "a document that changed since has a past"
    now = present_files_of(identity, document.held, model, names)
    wanted = {key: ExpectedFile((body,), may_lack=True) for key, body in now.items()}
    wanted |= _entity(document, found, names, through)
    if model.oplog:
        for before, version in pairwise([None, *found.versions]):
            assert version is not None, "only the first has nothing before it"
            body = oplog_file(version, None if before is None else before.document, model)
            wanted[names.oplog(identity, version.seq)] = ExpectedFile((body,), may_lack=version.rev > through)
    then = _snapshots(recorded_until(found, through), identity, names)
    since = _snapshots(found, identity, names)
    for key, body in {**then, **since}.items():
        wanted[key] = ExpectedFile((body,), may_lack=key not in then or key not in since)
    return wanted


def _entity(document: FiledDocument, found: DocumentHistory, names: FileNames, through: int) -> dict[str, ExpectedFile]:
    """The document's own file: as it was at the number, or as any later change left it."""
    known = [version for version in found.versions if version.rev <= through]
    possible = known[-1:] + [version for version in found.versions if version.rev > through]
    bodies = [entity_file(one.document, one.rev, names.model) for one in possible if one.document is not None]
    if not bodies:
        return {}
    may_lack = not known or any(version.document is None for version in possible)
    return {names.entity(document.identity): ExpectedFile(tuple(bodies), may_lack)}


def _snapshots(found: DocumentHistory, identity: Any, names: FileNames) -> dict[str, bytes]:
    shown = kept_snapshots(found.snapshots, found.versions, names.model)
    return {names.snapshot(identity, each.snapshot.ts): snapshot_file(each.version, names.model) for each in shown}


def may_be_there(found: FileKey, held: StoredVersion | None, names: FileNames, through: int) -> bool | None:
    """Whether a file of a document may be there; None if only the document's past tells. No requests."""
    if held is None:
        return False
    match found.kind:
        case "entity":
            return held.document is not None or held.rev > through
        case "trashed" | "tombstone":
            return held.trash is not None or held.rev > through
        case "oplog":
            # Files of changes before history begins are the only ones that tell of them.
            return names.model.oplog and found.seq is not None and found.seq <= held.seq
        case _:
            return None if names.model.snapshots.enabled else False
