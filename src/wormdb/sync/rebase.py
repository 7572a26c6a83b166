"""Own entries of a log behind those of the bucket: each batch is committed there once more, through all checks.

A batch that finds a document other than it left it, a unique value that is taken, or a model that it does not fit is a
conflict: it is not committed, and kept in a file beside the state. Batches keep their ids, so that a rebase that broke
off finds what it committed. The local log stays as it was until all of them are decided; only then the bucket's takes
its place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from wormdb.engine.commit.define import IndexGuard
from wormdb.engine.commit.operations import Expire, Insert, Pending, Purge, Remove, Restore, Save
from wormdb.engine.state.view import id_key
from wormdb.engine.tree.definition import OWNERS, encode_index
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
    UnsupportedFormatError,
    ValidationError,
    WormError,
)
from wormdb.format import json
from wormdb.format.entry import decode_entry
from wormdb.format.event import (
    BlobCondemned,
    DocumentErased,
    IndexBuilding,
    IndexCreated,
    IndexFailed,
    IndexReady,
    JobAborted,
    JobAttached,
    JobExpired,
    JobOpened,
    Nothing,
    SchemaChanged,
)
from wormdb.schema.validate import validate
from wormdb.sync.report import BatchConflict
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.engine.commit.operations import Operation
    from wormdb.engine.ledger import Ledger
    from wormdb.engine.state.view import View
    from wormdb.format.entry import Entry, LoggedBatch, LoggedChange
    from wormdb.sync.logs import ReadLog

__all__ = ["OwnBatch", "commit_own", "keep_owners", "own_batches"]

_PASSED_OVER: Final = (
    Nothing,
    IndexBuilding,
    IndexReady,
    IndexFailed,
    JobOpened,
    JobAborted,
    JobExpired,
    BlobCondemned,
)
"""Events that say nothing which the other log needs: it builds its own indexes, and has its own jobs."""
_ERASE_ATTEMPTS: Final = 16
_REFUSALS: Final = (
    ConflictError,
    AlreadyExistsError,
    NotFoundError,
    ValidationError,
    PermissionDeniedError,
    InvalidRequestError,
)


@dataclass(frozen=True, slots=True)
class OwnBatch:
    """A batch of the local log, and the number of its entry."""

    number: int
    batch: LoggedBatch
    erased: bytes | None = None
    """The id of the document that it erases; then it changes nothing else."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The documents that it is about."""
        erased = () if self.erased is None else (self.erased.decode(),)
        return (*erased, *dict.fromkeys(change.id.decode() for change in self.batch.changes))

    def to_json(self, reason: str) -> dict[str, Any]:
        """As the file of conflicts has it."""
        erased = {} if self.erased is None else {"erases": _value(self.erased)}
        return {
            "entry": self.number,
            "batch": self.batch.id,
            "reason": reason,
            **erased,
            "changes": [
                {"id": _value(change.id), "before": _value(change.before), "after": _value(change.after)}
                for change in self.batch.changes
            ],
        }


def own_batches(here: ReadLog, common: int, definition: bytes) -> list[OwnBatch]:
    """The batches of a log after the last number that both sides have, in order. 1 GET an entry.

    Of a document that was erased here, nothing that came before it is among them. `definition` is the model in the
    bucket. Raises UnsupportedFormatError for an event that cannot be committed again, before anything is written, and
    for one that this release does not know.
    """
    found = []
    erased: dict[bytes, int] = {}
    for number, body in here.after(common):
        entry = decode_entry(
            body, name=here.log.paths.entry(LogNumber(number)), number=number, collection=here.log.collection
        )
        _check_events(entry, here.log.collection, definition)
        ended = next((event.id for event in entry.events if isinstance(event, DocumentErased)), None)
        if ended is not None:
            erased[ended] = number
            found += [OwnBatch(number, msgspec.structs.replace(entry.batches[0], changes=()), ended)]
        else:
            found += [OwnBatch(number, batch) for batch in entry.batches]
    left = (_without(each, erased) for each in found)
    return [each for each in left if each.ids]


def _without(own: OwnBatch, erased: dict[bytes, int]) -> OwnBatch:
    """A batch without what a later entry erases: the bucket is not to get it. No requests."""
    if own.erased is not None and erased[own.erased] > own.number:
        return replace(own, erased=None)
    changes = tuple(change for change in own.batch.changes if own.number > erased.get(change.id, 0))
    return replace(own, batch=msgspec.structs.replace(own.batch, changes=changes))


def keep_owners(ledger: Ledger) -> None:
    """Have the index of the owners of blobs, before documents with blobs are committed. 1 PUT if it is not there."""
    if ledger.view().definition.indexes.owners is not None:
        return
    created = IndexCreated(name=OWNERS.name, definition=encode_index(OWNERS))
    try:
        ledger.commit(Pending(ledger.batch_id(), events=(created,), guard=IndexGuard(created)))
    except ConflictError:
        if ledger.view().definition.indexes.owners is None:
            raise


def _check_events(entry: Entry, collection: str, definition: bytes) -> None:
    for event in entry.events:
        is_known = isinstance(event, SchemaChanged) and event.definition == definition
        is_owners = isinstance(event, IndexCreated) and event.name == OWNERS.name
        if is_known or is_owners or isinstance(event, (DocumentErased, *_PASSED_OVER)):
            continue
        kind = str(type(event).__struct_config__.tag)
        fix = (
            "export the documents and import them"
            if isinstance(event, JobAttached)
            else "make that change in the bucket"
        )
        raise UnsupportedFormatError(
            f"rebase of {collection.rstrip('/')}",
            reason=f"entry {entry.number} of this side holds {kind!r}, which cannot be committed behind other entries",
            fix=f"{fix}, then pull into a new folder",
        )


def commit_own(own: list[OwnBatch], ledger: Ledger, landed: set[str]) -> Iterator[BatchConflict | None]:
    """Commit batches one after the other, but for those that landed before; what became of each.

    1 PUT a batch without competing writers. Raises UnavailableError, OutcomeUnknownError: then it can be done again.
    """
    for each in own:
        if each.batch.id in landed:
            yield None
            continue
        try:
            if each.erased is None:
                ledger.commit(_pending(each.batch))
            else:
                _erase(each, each.erased, ledger)
        except UnavailableError:
            raise
        except _REFUSALS as error:
            yield BatchConflict(each.number, each.batch.id, _told(error), each.ids)
        else:
            yield None


def _erase(own: OwnBatch, identity: bytes, ledger: Ledger) -> None:
    """Erase a document in the bucket too, whatever others made of it. 1 PUT, none if it never was there.

    Raises PermissionDeniedError where the model allows no erasure, UnavailableError.
    """
    key = id_key(identity)
    for _ in range(_ERASE_ATTEMPTS):
        view = ledger.view()
        model = view.definition.model
        if model is not None and model.mode != "readwrite":
            raise PermissionDeniedError(f"{model.name} is {model.mode}")
        held = view.get(key)
        if held is None or not held.seq:
            return
        gone = () if held.document is None else (Remove(identity),)
        batch = own.batch
        guard = _SeenGuard(key, held.version)
        events = (DocumentErased(id=identity),)
        try:
            ledger.commit(Pending(batch.id, gone, events, actor=batch.actor, meta=batch.meta, guard=guard))
        except ConflictError:
            continue
        return
    raise UnavailableError(
        f"erasure of {identity.decode()}", reason="others changed it in the bucket every time", fix="push again"
    )


@dataclass(frozen=True, slots=True)
class _SeenGuard:
    """Refuses to erase a document that is no longer at the version that was seen."""

    key: bytes
    version: object

    def check(self, view: View) -> None:
        """See `Guard`; raises ConflictError. Costs a look-up."""
        held = view.get(self.key)
        if held is None or held.version != self.version:
            raise ConflictError("the document", reason="it changed before it was erased")


def _pending(batch: LoggedBatch) -> Pending:
    return Pending(
        batch.id,
        tuple(_operation(change) for change in batch.changes),
        actor=batch.actor,
        meta=batch.meta,
        guard=_UnchangedGuard(batch.changes),
    )


def _operation(change: LoggedChange) -> Operation:
    if change.op == "purge":
        return Purge(change.id)
    if change.op == "expire":
        return Expire(change.id)
    if change.after is None:
        return Remove(change.id, must_exist=True, tombstone=_tombstone(change))
    if change.op == "restore":
        return Restore(change.id, change.after)
    return Insert(change.id, change.after) if change.before is None else Save(change.id, change.after, must_exist=True)


def _tombstone(change: LoggedChange) -> bytes | None:
    """The members of what a soft delete left, without the id before them and the document behind."""
    if change.trash is None or change.before is None:
        return None
    return change.trash[len(b'{"_id":') + len(change.id) + 1 : -len(b',"document":') - len(change.before) - 1]


@dataclass(frozen=True, slots=True)
class _UnchangedGuard:
    """Refuses a batch if a document that it changes is other than it was, or the model in force does not fit."""

    changes: tuple[LoggedChange, ...]

    def check(self, view: View) -> None:
        """See `Guard`; raises ConflictError, ValidationError, PermissionDeniedError. Costs a look-up a document."""
        seen: set[bytes] = set()
        model = view.definition.model
        if model is not None and model.mode == "readonly":
            raise PermissionDeniedError(f"{model.name} is read-only")
        for change in self.changes:
            key = id_key(change.id)
            if key not in seen:
                seen.add(key)
                held = view.get(key)
                now = None if held is None else held.document
                if now != change.before:
                    raise ConflictError(f"document {change.id.decode()}", reason=_difference(change.before, now))
            if model is not None and change.after is not None:
                values = json.decode_document(change.after, name="document")
                if validate(model, values) != values:
                    raise ValidationError(f"document {change.id.decode()}: it does not fit the model {model.name}")


def _difference(before: bytes | None, now: bytes | None) -> str:
    if before is None:
        return "both sides made it"
    return "it was changed here, and deleted in the bucket" if now is None else "both sides changed it"


def _told(error: WormError) -> str:
    return f"{error.what}: {error.reason}" if error.reason else error.what


def _value(body: bytes | None) -> Any:
    """JSON as it is stored, for a file of JSON."""
    from msgspec.json import decode

    return None if body is None else decode(body)
