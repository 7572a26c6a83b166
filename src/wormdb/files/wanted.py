"""Which files a document should have while its collection goes on: lag is not damage. No I/O.

Files are complete through one log number, and the state may be at a later one. What did not change in between is
exactly known; of what did, a file may be as it was then or as it became since, and may be there or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from wormdb.files.contents.document import entity_file
from wormdb.files.contents.expected import files_of, kept_snapshots, present_files_of, until
from wormdb.files.oplog_file import oplog_file
from wormdb.files.snapshot_file import snapshot_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.engine.history.read import History, Recorded
    from wormdb.engine.state.view import Held, View
    from wormdb.files.contents.names import FileKey, FileNames

__all__ = ["Filed", "Wanted", "filed_documents", "has_past", "may_be_there", "wanted_files"]


@dataclass(frozen=True, slots=True)
class Filed:
    """What one view has of a document that may have files."""

    key: bytes
    """Of its id."""
    identity: Any
    held: Held
    recorded: Recorded | None = None
    """None if nobody asked for its past."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file that should be there: as one of some bodies."""

    bodies: tuple[bytes, ...]
    may_lack: bool = False
    """Whether it may be missing."""


def has_past(names: FileNames) -> bool:
    """Whether files show the past of documents."""
    return names.model.oplog or names.model.snapshots.enabled


def filed_documents(view: View, history: History | None) -> Iterator[tuple[bytes, Held, Recorded | None]]:
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


def wanted_files(document: Filed, names: FileNames, through: int) -> dict[str, Wanted]:
    """The files of a document of a collection whose files are complete through a number. No requests.

    Its past must be known if files show it, and if it changed after the number.
    """
    held, found = document.held, document.recorded
    versions = [] if found is None else found.versions
    kept = [] if found is None else found.snapshots
    if held.rev <= through and all(each.taken is None or each.taken.rev <= through for each in kept):
        files = files_of(document.identity, held, versions, kept, names.model, names)
        return {key: Wanted((body,)) for key, body in files.items()}
    return _moving(document, names, through)


def _moving(document: Filed, names: FileNames, through: int) -> dict[str, Wanted]:
    model, identity, found = names.model, document.identity, document.recorded
    assert found is not None, "a document that changed since has a past"
    now = present_files_of(identity, document.held, model, names)
    wanted = {key: Wanted((body,), may_lack=True) for key, body in now.items()}
    wanted |= _entity(document, found, names, through)
    if model.oplog:
        for before, version in pairwise([None, *found.versions]):
            assert version is not None, "only the first has nothing before it"
            body = oplog_file(version, None if before is None else before.document, model)
            wanted[names.oplog(identity, version.seq)] = Wanted((body,), may_lack=version.rev > through)
    then = _snapshots(until(found, through), identity, names)
    since = _snapshots(found, identity, names)
    for key, body in {**then, **since}.items():
        wanted[key] = Wanted((body,), may_lack=key not in then or key not in since)
    return wanted


def _entity(document: Filed, found: Recorded, names: FileNames, through: int) -> dict[str, Wanted]:
    """The document's own file: as it was at the number, or as any later change left it."""
    known = [version for version in found.versions if version.rev <= through]
    possible = known[-1:] + [version for version in found.versions if version.rev > through]
    bodies = [entity_file(one.document, one.rev, names.model) for one in possible if one.document is not None]
    if not bodies:
        return {}
    may_lack = not known or any(version.document is None for version in possible)
    return {names.entity(document.identity): Wanted(tuple(bodies), may_lack)}


def _snapshots(found: Recorded, identity: Any, names: FileNames) -> dict[str, bytes]:
    shown = kept_snapshots(found.snapshots, found.versions, names.model)
    return {names.snapshot(identity, each.snapshot.ts): snapshot_file(each.version, names.model) for each in shown}


def may_be_there(found: FileKey, held: Held | None, names: FileNames, through: int) -> bool | None:
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
