"""The files that a state should have, from the state alone: what sync writes and verify compares with. No I/O."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.history.read import Recorded
from wormdb.engine.history.read import Snapshot as Kept
from wormdb.engine.history.snapshots import visible
from wormdb.engine.history.tombstone import read_tombstone
from wormdb.files.contents.document import entity_file
from wormdb.files.oplog_file import oplog_file
from wormdb.files.snapshot_file import snapshot_file
from wormdb.files.trash_file import tombstone_file
from wormdb.format.past import misc_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.engine.history.snapshots import Visible
    from wormdb.engine.state.view import Held
    from wormdb.files.contents.names import FileNames
    from wormdb.format.past import Version
    from wormdb.schema.model import Model

__all__ = ["EDITED", "EXTRA", "MISSING", "files_of", "kept_snapshots", "present_files_of", "until"]


# How a file differs from what is expected.
MISSING: Final = "it is missing"
EDITED: Final = "it is not what was written"
EXTRA: Final = "it should not be there"


def files_of(
    identity: Any,
    held: Held | None,
    versions: Sequence[Version],
    kept: Sequence[Kept],
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


def present_files_of(identity: Any, held: Held | None, model: Model, names: FileNames) -> dict[str, bytes]:
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


def kept_snapshots(kept: Sequence[Kept], versions: Sequence[Version], model: Model) -> list[Visible]:
    """The snapshots of a document that have files, oldest first. No requests.

    They are pruned when the document changes, so their age is counted until its last change: a file does not come or
    go by time alone, and every writer writes the same ones.
    """
    if not model.snapshots.enabled or not kept:
        return []
    moments = [version.misc for version in versions]
    moments += [each.taken.misc for each in kept if each.taken is not None]
    return visible(kept, versions, model.snapshots, misc_ms(max(moments)))


def until(found: Recorded, number: int) -> Recorded:
    """What was known of a document at a log number. No requests."""
    versions = [version for version in found.versions if version.rev <= number]
    kept = [
        Kept(each.version, each.taken if each.taken is not None and each.taken.rev <= number else None)
        for each in found.snapshots
        if each.version.rev <= number
    ]
    return Recorded(found.key, versions, [each for each in kept if each.taken is not None or each.version.snapshot])
