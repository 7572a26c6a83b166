"""What a caller wants done, before it is known whether it can be: operations, batches, and what guards a batch."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

import msgspec

from wormdb.engine.state.view import StoredVersion
from wormdb.errors import ConflictError, InvalidRequestError
from wormdb.format import json
from wormdb.format.blob import may_refer
from wormdb.format.event import CollectionClosed, DocumentErased, JobAttached, SchemaChanged
from wormdb.system.types import LogNumber, WriteId

if TYPE_CHECKING:
    from wormdb.engine.commit.reads import ReadSet
    from wormdb.engine.state.prepared import Prepared
    from wormdb.engine.state.upgrade import Upgrades
    from wormdb.engine.state.view import View
    from wormdb.format.event import Event

__all__ = [
    "ApartError",
    "CommitId",
    "Expire",
    "Guard",
    "Guards",
    "IdentifiedOperation",
    "Insert",
    "InsertNext",
    "LockedError",
    "Operation",
    "OvertakenError",
    "Pending",
    "Prepare",
    "Purge",
    "ReadVersion",
    "Remove",
    "Restore",
    "Save",
    "loaded_by",
    "looks_up",
    "mapped_operation",
    "show",
    "trashed",
]

CREATED = "createdAt"


class ReadVersion(msgspec.Struct, frozen=True):
    """A document as its caller read it: what was there, the log number it was read at, and in which log."""

    held: StoredVersion
    number: LogNumber
    origin: str = ""


class Insert(msgspec.Struct, frozen=True, gc=False):
    """A document that must not exist yet. `fresh`: its id was made from randomness, so no other document has it."""

    id: bytes
    document: bytes
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Save:
    """A document, new or not. With `loaded` it must be unchanged since it was read, with `rev` have that revision."""

    id: bytes
    document: bytes
    loaded: ReadVersion | None = None
    rev: int | None = None
    must_exist: bool = False
    is_anew: bool = False
    """Whether the document was not made from the one that was read: then it is of the writer's version of the model."""
    is_stamped: bool = False
    """Whether its `createdAt` was not given: it is of this moment if the document is new."""

    def written(self, before: bytes | None) -> bytes:
        """The document in the place of `before`, which goes on to say when it was created, or that it is not known."""
        if before is None or not self.is_stamped:
            return self.document
        created = json.decode_document(before, name="document").get(CREATED)
        values = json.decode_document(self.document, name="document")
        if isinstance(created, datetime):
            return json.encode_document(values | {CREATED: created})
        return json.encode_document({name: value for name, value in values.items() if name != CREATED})


@dataclass(frozen=True, slots=True)
class Remove:
    """A document that goes. With `loaded` it must be unchanged since it was read; without, it may be gone already.

    With a `tombstone` it goes to the trash: the members of a JSON object that say when, by whom and for how long.
    """

    id: bytes
    loaded: ReadVersion | None = None
    rev: int | None = None
    must_exist: bool = False
    tombstone: bytes | None = None


@dataclass(frozen=True, slots=True)
class Expire(Remove):
    """A document that goes because its time is over; nothing happens if it is not, or if the document is gone."""


@dataclass(frozen=True, slots=True)
class Restore:
    """A document that comes back: from the trash, or with `document` as it once was, over what is there now."""

    id: bytes
    document: bytes | None = None
    number: LogNumber | None = None
    """The state by whose version of the model `document` was made."""


@dataclass(frozen=True, slots=True)
class Purge:
    """A document that leaves the trash for good. With `loaded` it must lie there as it was read."""

    id: bytes
    loaded: ReadVersion | None = None


class InsertNext(msgspec.Struct, frozen=True, gc=False):
    """A document without an id: the commit gives it the next number of the collection."""

    document: bytes


IdentifiedOperation = Insert | Save | Remove | Restore | Purge
Operation = IdentifiedOperation | InsertNext


def show(identity: bytes) -> str:
    """An id for a message: as a Python literal, the way it was given."""
    return repr(json.decode(identity, name="document id"))


def trashed(identity: bytes, tombstone: bytes, document: bytes) -> bytes:
    """What the trash has of a document: the id, the tombstone, and last the document as it was."""
    return b'{"_id":' + identity + b"," + tombstone + b',"document":' + document + b"}"


def looks_up(operation: Operation) -> bool:
    """Whether what is there now must be read to check an operation."""
    match operation:
        case Insert():
            return not operation.fresh
        case Save() | Remove():
            return operation.loaded is None
        case _:
            return True


def loaded_by(operation: Operation) -> StoredVersion | None:
    """What a document was read as that an operation changes; None if it does not say."""
    return operation.loaded.held if isinstance(operation, Save | Remove) and operation.loaded is not None else None


def mapped_operation(operation: IdentifiedOperation, upgrades: Upgrades, begun: int) -> IdentifiedOperation:
    """An operation with its document as it is now: it is as it was at entry `begun`, or when it was loaded.

    Raises InvalidRequestError, LimitExceededError for a document that cannot be mapped.
    """
    if not upgrades.steps or isinstance(operation, Remove | Purge) or operation.document is None:
        return operation
    if isinstance(operation, Save) and operation.loaded is not None and not operation.is_anew:
        begun = operation.loaded.number
    elif isinstance(operation, Restore) and operation.number is not None:
        begun = operation.number
    if begun >= upgrades.newest:
        return operation
    document = upgrades.check(operation.document, begun)
    if isinstance(operation, Insert):
        return Insert(operation.id, document, operation.fresh)
    return replace(operation, document=document)


class OvertakenError(ConflictError):
    """Raised by a guard: what was prepared against an older state must be checked again."""


class ApartError(ConflictError):
    """A batch cannot share an entry with those before it in the group: it comes after them."""


class LockedError(ConflictError):
    """A batch touches what transactions hold that are prepared and not finished: it can be tried again after them."""

    def __init__(self, what: str, by: tuple[Prepared, ...]) -> None:
        """`by` are those in its way."""
        names = ", ".join(one.id for one in by)
        super().__init__(what, reason=f"transaction {names} holds what it touches", fix="retry")
        self.by = by


@dataclass(frozen=True, slots=True)
class Prepare:
    """What a batch is a part of, if it is not to be written yet: a transaction over several collections."""

    tx: WriteId
    participants: tuple[str, ...]
    """The folders of its collections, in order."""


class Guard(Protocol):
    """What the engine calls back during a commit: a condition on the state that a batch will follow.

    Layers above implement it for what only they know: the model that a writer has, a document that must still be
    missing, an index that must still be where it was seen.
    """

    def check(self, view: View) -> None:
        """Raise a WormError to refuse the batch, if it cannot follow the state of `view`.

        The engine asks at every try, after every entry that this process knows was taken in: for entry n + 1, `view`
        is the state at n, with the batches that come before this one in the same entry. Its error reaches the caller
        of the commit, after the engine has asked again with a state that is not older than the call; an error that is
        no WormError ends the whole entry. The head is locked meanwhile. So `check` may be called any number of times,
        must change nothing and must not call the ledger; it may read documents through the view, which costs requests.
        """
        ...


@dataclass(frozen=True, slots=True)
class Guards:
    """Several guards as one, asked in order."""

    guards: tuple[Guard, ...]

    @classmethod
    def of(cls, *guards: Guard | None) -> Guards:
        """Those that there are."""
        return cls(tuple(guard for guard in guards if guard is not None))

    def check(self, view: View) -> None:
        """Raise what the first of them raises that refuses the batch."""
        for guard in self.guards:
            guard.check(view)


@dataclass(frozen=True, slots=True)
class Pending:
    """A batch on its way: all of it or nothing, and only while its guard accepts the state that it will follow."""

    id: str
    operations: tuple[Operation, ...] = ()
    events: tuple[Event, ...] = ()
    actor: str | None = None
    meta: bytes | None = None
    guard: Guard | None = field(default=None, compare=False)
    body: bytes = b""
    """The model that its documents were made for, as JSON: if that was mapped since, they are. Empty: the newest."""
    is_steady: bool = False
    """Whether its guard asks for nothing but the definition, and documents that the batch itself changes."""
    reads: ReadSet | None = field(default=None, compare=False)
    """What its guard asks for beside that; None if it may ask for anything, unless it is steady."""
    prepare: Prepare | None = None
    """Set if it only holds what it reads and writes, until its transaction is finished."""

    @property
    def is_offerable(self) -> bool:
        """Whether it stays as good as it is while no event comes, and no other batch changes its documents.

        The next number of a collection is not: each batch that has one changes it.
        """
        is_free = self.guard is None or self.is_steady
        is_made = not any(isinstance(each, InsertNext) for each in self.operations)
        return is_free and is_made and bool(self.operations) and not self.events and self.prepare is None

    @property
    def is_empty(self) -> bool:
        """Whether it is for nothing but to finish transactions that are decided."""
        return not self.operations and not self.events and self.prepare is None and self.reads is None

    @property
    def is_plain(self) -> bool:
        """Whether documents before and after tell all that it does: a block cannot say that one was restored."""
        return bool(self.operations) and not any(isinstance(each, Restore | Purge | Expire) for each in self.operations)

    @property
    def is_alone(self) -> bool:
        """Whether it needs an entry for itself: what a job attaches, and a mapping, lies between before and after."""
        return any(
            isinstance(event, JobAttached | CollectionClosed | DocumentErased)
            or (isinstance(event, SchemaChanged) and event.mapping is not None)
            for event in self.events
        )

    @property
    def may_refer_to_blobs(self) -> bool:
        """Whether a document of it may refer to blobs; False is certain."""
        return any(may_refer(each.document) for each in self.operations if not isinstance(each, Remove | Purge))

    @property
    def bytes_about(self) -> int:
        """About how many bytes it adds to an entry: each document may need its before image too."""
        inserts = [len(each.document) for each in self.operations if type(each) is Insert]
        others = () if len(inserts) == len(self.operations) else self.operations
        more = sum(_bytes_about(each) for each in others if type(each) is not Insert)
        return 200 + 200 * len(inserts) + 2 * sum(inserts) + more


def _bytes_about(operation: Operation) -> int:
    if not isinstance(operation, Remove | Purge):
        return 200 + 2 * len(operation.document or b"")
    loaded = operation.loaded
    # What goes to the trash is there twice: as it was, and as it lies there.
    return 0 if loaded is None else 200 + 2 * len(loaded.held.document or b"")


# --- What a batch on its way is called by those that ask for it later.

_COMMIT_ID = re.compile(r"([1-9][0-9]{0,18})(?:\+([1-9][0-9]?))?-([0-9a-f]{32})-([0-9a-f]{32})")


@dataclass(frozen=True, slots=True)
class CommitId:
    """Names one try to commit one batch: the slot aimed at, the entry's write id, the batch's own."""

    slot: LogNumber
    write_id: WriteId
    batch: str
    more: int = 0
    """In how many slots behind the first the batch may be too, because it was offered to other writers."""

    def __str__(self) -> str:
        more = f"+{self.more}" if self.more else ""
        return f"{self.slot}{more}-{self.write_id}-{self.batch}"

    @classmethod
    def parse(cls, text: str) -> CommitId:
        """From its text; raises InvalidRequestError."""
        parts = _COMMIT_ID.fullmatch(str(text))
        if parts is None:
            raise InvalidRequestError(
                f"commit id {text!r}", reason="it is not of the form slot-writeid-batch", fix="take it from the error"
            )
        return cls(LogNumber(int(parts[1])), WriteId(parts[3]), parts[4], int(parts[2] or 0))
