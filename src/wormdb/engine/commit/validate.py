"""Check a batch against a state, and turn what is wanted into what changes. Pure but for the base's reads.

Batches of one group are checked in order, each against the state that the ones before it leave; a refused
one leaves nothing. No two of them change the same document: a revision is the number of an entry, and a
document that a commit gave out is known again by it. Unique values are checked at the end of a batch, so two
documents may trade them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol, assert_never

from wormdb.engine.commit.operations import (
    ApartError,
    Expire,
    Insert,
    InsertNext,
    LockedError,
    Purge,
    Remove,
    Restore,
    Save,
    loaded_by,
    looks_up,
    mapped_operation,
    show,
    trashed,
)
from wormdb.engine.index.unique import UniqueOwners
from wormdb.engine.state.counted import check_counted
from wormdb.engine.state.definition import settled
from wormdb.engine.state.prepared import WAITING, Footprint, Prepared
from wormdb.engine.state.upgrade import document_of
from wormdb.engine.state.view import Overlay, StoredVersion, id_key, sequence_of
from wormdb.engine.tree.definition import claims_of
from wormdb.errors import AlreadyExistsError, ConflictError, NotFoundError, RemovedError, UniqueViolationError
from wormdb.format import json
from wormdb.format.change import LoggedBatch, LoggedChange
from wormdb.format.event import ExpirySet, TransactionFinished, TransactionPrepared
from wormdb.schema.identity import format_sequence
from wormdb.settings import ENTRY_BYTES_MAX
from wormdb.system.types import LogNumber, WriteId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from wormdb.engine.commit.operations import IdentifiedOperation, Operation, Pending, Prepare, ReadVersion
    from wormdb.engine.state.definition import Definition
    from wormdb.engine.state.indexes import IndexStates
    from wormdb.engine.state.upgrade import Upgrades
    from wormdb.engine.state.view import View
    from wormdb.engine.tree.definition import Index
    from wormdb.format.event import Event
    from wormdb.format.kinds import Document
    from wormdb.schema.model import Model

__all__ = ["Group", "HeadState"]


class HeadState(Protocol):
    """What validation needs of the head."""

    def view(self) -> View:
        """The state the batch is checked against."""
        ...

    def unique(self, index: Index) -> UniqueOwners:
        """The owners in a unique index at that state."""
        ...

    def sequence(self) -> int:
        """The greatest id made of digits at that state."""
        ...


class Group:
    """Batches that will share one entry. `add` accepts or refuses each on its own."""

    def __init__(
        self,
        head: HeadState,
        collection: str,
        decided: Callable[[str], bool | None] | None = None,
        now_ms: int | None = None,
    ) -> None:
        """Nothing accepted yet, but for what finishes transactions: those of which `decided` tells what became of them.

        What the others hold, batches of the group must not touch. Without `decided` transactions count for nothing.
        Documents that are over at `now_ms`, the store's time, count as removed; without it none is.
        """
        self._head = head
        self._view = head.view()
        self._definition = self._view.definition
        self._jobs = self._view.jobs
        self._collection = collection
        self._accepted = self._is_alone = False
        self._count = self._view.count
        self._changed: set[bytes] = set()
        self._overlay = Overlay()
        self.claims: dict[tuple[Index, bytes], bytes | None] = {}
        """What the accepted batches took in unique indexes: the owner now, None where it was given up."""
        self._brought: dict[Index, UniqueOwners] = {}
        self._numbered = 0
        self._fetched: dict[bytes, StoredVersion | None] = {}
        self.events: dict[str, tuple[Event, ...]] = {}
        """Of each accepted batch, by its id, as they are written."""
        self.prepared: dict[str, TransactionPrepared] = {}
        """The same of those that are not to be written yet."""
        self.finished: list[TransactionFinished] = []
        """What the entry begins with: the ends of transactions, and the batches of those that committed."""
        self.finishing: list[LoggedBatch] = []
        self.is_crowded = False
        """Whether some of them have to wait for the next entry."""
        self._over: dict[bytes, StoredVersion] = {}
        """What these batches leave."""
        self._pending: tuple[Prepared, ...] = ()
        """What may not be touched."""
        self._now_ms = now_ms
        if decided is not None and self._view.pending:
            self._finish(decided)

    def add(self, pending: Pending) -> tuple[LoggedChange, ...]:
        """The changes of a batch, which later batches of the group then see; or raise why it is refused."""
        self._check_open()
        if self._is_alone or (self._accepted and pending.is_alone) or (self.prepared and pending.events):
            raise ApartError(f"entry {self.number} of {self._collection}", reason="another batch has it for itself")
        keyed = [
            (operation, None if isinstance(operation, InsertNext) else id_key(operation.id))
            for operation in pending.operations
        ]
        footprint = self._footprint(pending, keyed) if self._pending else None
        if footprint is not None:
            # Before its guard: what that would refuse may be otherwise after them.
            self._check_free(footprint, pending.events)
        if self._now_ms is not None:  # before its guard, which may ask whether a document is there
            self._end_touched(keyed)
        if pending.guard is not None:
            pending.guard.check(self._seen())
        if pending.events:
            self._jobs.check(pending.events)
        batch = _BatchCheck(self, self._begun_at(pending), pending.events)
        self._check_apart([key for _, key in keyed if key is not None], prepares=pending.prepare is not None)
        self._fetch([key for operation, key in keyed if key is not None and looks_up(operation)])
        changes = tuple(change for operation, key in keyed for change in batch.apply(operation, key))
        if footprint is not None:
            footprint.changes = changes
            self._check_free(footprint)
        if pending.prepare is not None:
            return self._hold(pending, pending.prepare, batch, changes)
        if not changes and (pending.operations or not pending.events):
            return ()
        events: tuple[Event, ...] = ()
        definition, jobs = self._definition, self._jobs
        if pending.events:
            # A definition counts for the batch that brings it: the first batch of a collection does.
            events = settled(pending.events, is_empty=self._count == 0)
            definition, jobs = definition.after(events, LogNumber(self.number)), jobs.told(events, self.number)
        claims = batch.claims(definition.indexes)
        self._definition, self._jobs = definition, jobs
        self.events[pending.id] = events
        self._is_alone = pending.is_alone
        self._accept(batch, claims, changes, pending.actor)
        return changes

    def _finish(self, decided: Callable[[str], bool | None]) -> None:
        """Let the entry finish the transactions of which it is known what became of them."""
        rest, room = [], ENTRY_BYTES_MAX // 4
        for one in self._view.pending:
            committed = decided(one.id)
            self.is_crowded |= committed is not None and bool(self.finished) and room < one.size
            if committed is None or self.is_crowded:
                rest.append(one)
                continue
            room -= one.size
            self.finished.append(TransactionFinished(tx=WriteId(one.id), committed=committed))
            if committed and one.batch.changes:
                batch = _BatchCheck(self, self._definition.number)
                for change in one.batch.changes:
                    batch.note(id_key(change.id), change)
                self._accept(batch, batch.transfers(self._definition.indexes), one.batch.changes, one.batch.actor)
                self.finishing.append(one.batch)
                self._over |= batch.changed
        self._pending = tuple(rest)

    def is_over(self, held: StoredVersion | None, brought: Sequence[Event] = ()) -> bool:
        """Whether what is there counts as removed, because its time is over: by the rule of a batch that brings one."""
        definition = self._view.definition
        if any(isinstance(event, ExpirySet) for event in brought):
            definition = definition.after(brought, LogNumber(self.number))
        rule = None if self._now_ms is None else definition.expiry
        return bool(rule and held and held.document and rule.is_over(held.document, self._now_ms or 0))

    def _end_touched(self, keyed: Sequence[tuple[Operation, bytes | None]]) -> None:
        """See that no operation meets a document that is over; raises as `end`."""
        named = {key: each for each, key in keyed if key and key not in self._changed and not isinstance(each, Expire)}
        wanted = [key for key, each in named.items() if looks_up(each) or self.is_over(loaded_by(each))]
        self._fetch(wanted)
        self.end(map(self.held, wanted))

    def end(self, found: Iterable[StoredVersion | None]) -> None:
        """Have the entry remove those documents that are over. Nothing if there are none.

        Raises ApartError: the batch that met them comes after that entry; LockedError if transactions hold them.
        """
        if self._now_ms is None:
            return
        over = {id_key(held.id): held for held in found if held is not None and self.is_over(held)}
        if not over:
            return
        from wormdb.engine.state.expiry import end_of, ending_id

        changes = tuple(end_of(over[key]) for key in sorted(over))
        self._check_free(Footprint(written=set(over), changes=changes))
        batch = _BatchCheck(self, self._definition.number)
        for change in changes:
            batch.note(id_key(change.id), change)
        self._accept(batch, batch.transfers(self._definition.indexes), changes, None)
        self.finishing.append(LoggedBatch(id=ending_id(self._collection, self.number, over), changes=changes))
        self._over |= batch.changed
        raise ApartError(f"entry {self.number} of {self._collection}", reason="it removes documents that are over")

    def _hold(
        self, pending: Pending, prepare: Prepare, batch: _BatchCheck, changes: tuple[LoggedChange, ...]
    ) -> tuple[LoggedChange, ...]:
        """Accept a batch that is not to be written yet: from now on no other may touch what it reads and writes."""
        if any(self.events.values()):
            raise ApartError(f"entry {self.number} of {self._collection}", reason="another batch changes more there")
        batch.claims(self._definition.indexes)
        reads = () if pending.reads is None else pending.reads.ids
        written = {change.id for change in changes}
        named = (each.id for each in pending.operations if not isinstance(each, InsertNext))
        event = TransactionPrepared(
            tx=prepare.tx,
            participants=prepare.participants,
            batch=LoggedBatch(id=WriteId(pending.id), actor=pending.actor, meta=pending.meta, changes=changes),
            reads=tuple(sorted({*reads, *named} - written)),
            filters=() if pending.reads is None else pending.reads.filter_texts(),
        )
        self._accepted = True
        self._numbered = max(self._numbered, batch.numbered)
        self._pending += (Prepared(LogNumber(self.number), event),)
        self.prepared[pending.id] = event
        return changes

    def _footprint(self, pending: Pending, keyed: Sequence[tuple[Operation, bytes | None]]) -> Footprint:
        """What a batch touches, as far as it is known before it is checked."""
        footprint = Footprint(written={key for _, key in keyed if key is not None})
        if pending.reads is not None:
            footprint.read = {id_key(identity) for identity in pending.reads.ids}
            footprint.filters = pending.reads.filter_texts()
        elif pending.guard is not None and not pending.is_steady:
            footprint.reads_all = True
        return footprint

    def _check_free(self, footprint: Footprint, events: Sequence[Event] = ()) -> None:
        """Raise LockedError if transactions hold what a batch touches; some events wait for all of them."""
        waits = any(isinstance(event, WAITING) for event in events)
        by = tuple(one for one in self._pending if waits or one.stands_before(footprint, self._definition))
        if by:
            raise LockedError(f"commit to {self._collection}", by)

    def add_checked(self, logged: LoggedBatch, number: LogNumber) -> None:
        """Accept a batch that another writer checked against the state at `number`, if that is as good as this one.

        It is if none of its documents changed since, and its unique values are free. There must have been no events
        since. Raises ConflictError, UniqueViolationError; costs looking up unique values.
        """
        self._check_open()
        keys = [id_key(change.id) for change in logged.changes]
        self._check_apart(keys)
        newer = (self._view.overlay.get(key, self._view.number) for key in keys)
        if self._is_alone or any(held is not None and held.rev > number for held in newer):
            raise ConflictError(f"entry {self.number} of {self._collection}", reason="a document changed meanwhile")
        batch = _BatchCheck(self, self._definition.number)
        for key, change in zip(keys, logged.changes, strict=True):
            batch.note(key, change)
        self._accept(batch, batch.claims(self._definition.indexes), logged.changes, logged.actor)

    def _check_open(self) -> None:
        """Raise RemovedError if the collection was removed."""
        closed = self._view.definition.closed
        if closed is not None:
            raise RemovedError(f"commit to {self._collection}", reason=closed.told(self._view.number))

    def _accept(
        self,
        batch: _BatchCheck,
        claims: dict[tuple[Index, bytes], bytes | None],
        changes: tuple[LoggedChange, ...],
        actor: str | None,
    ) -> None:
        self._accepted = True
        self._count += sum((change.after is not None) - (change.before is not None) for change in changes)
        self._changed.update(batch.changed)
        self._overlay.hold(batch.changed, changes, actor)
        self.claims.update(claims)
        self._numbered = max(self._numbered, batch.numbered)

    def _begun_at(self, pending: Pending) -> int:
        """From which entry on the documents of a batch have to be mapped."""
        if not pending.body or self._definition.model is None:
            return self._definition.number
        begun = self._definition.begun_at(pending.body)
        # Without a mapping the guard refuses it, or the batch brings the definition itself.
        return self._definition.number if begun is None else begun

    @property
    def definition(self) -> Definition:
        """The one after the batches accepted so far."""
        return self._definition

    @property
    def upgrades(self) -> Upgrades:
        """The mappings that there are."""
        return self._definition.upgrades

    def _seen(self) -> View:
        """The state that the next batch of the group is judged in; it moves as more are accepted."""
        if not self._accepted:
            return self._view
        return replace(
            self._view,
            number=LogNumber(self.number),
            definition=self._definition,
            base=self._view,
            base_number=self._view.number,
            overlay=self._overlay,
            count=self._count,
            jobs=self._jobs,
        )

    def _check_apart(self, keys: Sequence[bytes], *, prepares: bool = False) -> None:
        """Raise ApartError if a batch of the group changes one of these documents: the next entry is for that.

        What only prepares changes may follow what is finished: it writes by a later entry.
        """
        if not self._changed.isdisjoint(key for key in keys if not (prepares and key in self._over)):
            raise ApartError(
                f"entry {self.number} of {self._collection}", reason="another batch of it changes the same document"
            )

    def held(self, key: bytes) -> StoredVersion | None:
        """What is under a key that no batch accepted so far has changed, but for what finishes transactions."""
        if key in self._over:
            return self._over[key]
        return self._fetched[key] if key in self._fetched else self._view.get(key)

    def _fetch(self, keys: Sequence[bytes]) -> None:
        """Read what a batch will look up, side by side instead of one after the other."""
        wanted = [key for key in keys if key not in self._fetched]
        if len(wanted) > 1:
            self._fetched |= dict.fromkeys(wanted) | self._view.get_many(wanted)

    def unchanged(self, key: bytes, loaded: ReadVersion) -> bool:
        """Whether the document is still as it was loaded; asks the base only if that is older than it."""
        view = self._view
        held = self._over.get(key) or view.overlay.get(key, view.number)
        if view.overlay.has_attached and key not in self._over:
            # Before a commit what jobs attached is brought forward; but a transaction reads and writes on top of it.
            held = view.get(key)
        if held is None and view.base_number <= loaded.number:
            return True
        held = held or view.base.get(key)
        if held is None:
            return False
        # What a transaction wrote that was not finished had no revision yet; but what follows it has another `seq`.
        is_early = loaded.held.rev > loaded.number and not view.is_removed_since(loaded.number)
        return held.seq == loaded.held.seq if is_early else held.version == loaded.held.version

    def owners(self, index: Index, keys: Iterable[bytes]) -> dict[bytes, bytes | None]:
        """The owner of each of some unique values after the batches accepted so far, by id as JSON."""
        found = {key: self.claims[index, key] for key in keys if (index, key) in self.claims}
        return self._stored(index).owners(key for key in keys if key not in found) | found

    def _stored(self, index: Index) -> UniqueOwners:
        if index in self._view.definition.unique:
            return self._head.unique(index)
        if index not in self._brought:
            self._brought[index] = UniqueOwners.build(index, (held for _, held in self._seen().scan()))
        return self._brought[index]

    def takes_snapshot(self, seq: int) -> bool:
        """Whether the version that is a document's change number `seq` is kept as a snapshot, by the model."""
        model = self._definition.model
        every = None if model is None or not model.snapshots.enabled else model.snapshots.every
        return every is not None and seq % every == 0

    def numbered(self) -> int:
        """The greatest id made of digits after the batches accepted so far."""
        return max(self._numbered, self._head.sequence())

    @property
    def model(self) -> Model | None:
        """The one in force."""
        return self._definition.model

    @property
    def collection(self) -> str:
        """For messages."""
        return self._collection

    @property
    def number(self) -> int:
        """The log number the group will have."""
        return self._view.number + 1


class _BatchCheck:
    """One batch in the making, on top of its group."""

    def __init__(self, group: Group, begun: int, brought: Sequence[Event] = ()) -> None:
        self._group = group
        self._begun = begun
        self._brought = brought
        self.changed: dict[bytes, StoredVersion] = {}
        self._first: dict[bytes, bytes | None] = {}
        self.numbered = 0

    def apply(self, wanted: Operation, known: bytes | None) -> list[LoggedChange]:
        """What an operation changes, one change or none; `known` is the key of its id, if it has one."""
        operation = self._number(wanted) if isinstance(wanted, InsertNext) else wanted
        operation = mapped_operation(operation, self._group.upgrades, self._begun)
        key = known or id_key(operation.id)
        before = self._before(operation, key)
        change = self._end(before) if isinstance(operation, Expire) else self._change(operation, before)
        if change is None:
            return []
        if before is None:
            check_counted(operation.id, self._group.model)
        self.note(key, change)
        return [change]

    def note(self, key: bytes, change: LoggedChange) -> None:
        """Have a change, which is right."""
        self._first.setdefault(key, change.before)
        self.numbered = max(self.numbered, sequence_of(change.id))
        self.changed[key] = StoredVersion(change.id, self._group.number, change.seq, change.after, change.trash)

    def _change(self, operation: IdentifiedOperation, before: StoredVersion | None) -> LoggedChange | None:
        """What an operation does to what is there; None if nothing."""
        image = None if before is None else before.document
        op: Literal["restore", "purge"] | None = None
        trash: bytes | None = None
        after: bytes | None = None
        match operation:
            case Insert():
                if image is not None:
                    self._exists(operation, "save it instead of inserting it, or choose another id")
                after = operation.document
            case Save():
                if operation.must_exist and image is None:
                    self._missing(operation)
                after = operation.written(image)
            case Remove():
                if image is None:
                    if operation.must_exist:
                        self._missing(operation)
                    return None
                trash = None if operation.tombstone is None else trashed(operation.id, operation.tombstone, image)
            case Restore():
                op, after = "restore", operation.document or self._from_trash(operation, before)
            case Purge():
                op = "purge"
                self._from_trash(operation, before)
            case _:
                assert_never(operation)
        seq = 1 if before is None else before.seq + 1
        snapshot = after is not None and self._group.takes_snapshot(seq)
        return LoggedChange(id=operation.id, seq=seq, before=image, after=after, op=op, trash=trash, snapshot=snapshot)

    def _end(self, before: StoredVersion | None) -> LoggedChange | None:
        """The end of a document that is over; None if it is not."""
        from wormdb.engine.state.expiry import end_of

        return end_of(before) if before is not None and self._group.is_over(before, self._brought) else None

    def _from_trash(self, operation: Restore | Purge, before: StoredVersion | None) -> bytes:
        """The document in the trash; raises AlreadyExistsError, NotFoundError."""
        if before is not None and before.document is not None:
            if isinstance(operation, Restore):
                self._exists(operation, "delete or rename the one that is there first")
            self._missing(operation, "it is not in the trash: it is alive")
        if before is None or before.trash is None:
            self._missing(operation, "it is not in the trash")
        return document_of(before.trash)

    def _number(self, operation: InsertNext) -> Insert:
        identity = json.encode(format_sequence(max(self.numbered, self._group.numbered()) + 1))
        rest = operation.document[1:]
        return Insert(identity, b'{"_id":' + identity + (b"" if rest == b"}" else b",") + rest, fresh=True)

    def _before(self, operation: IdentifiedOperation, key: bytes) -> StoredVersion | None:
        """What an operation follows; what it was read as must be there when the batch begins, or it is refused."""
        changed = self.changed.get(key)
        if isinstance(operation, Insert | Restore):
            is_new = isinstance(operation, Insert) and operation.fresh
            return changed or (None if is_new else self._group.held(key))
        loaded = operation.loaded
        if loaded is not None:
            if not self._group.unchanged(key, loaded):
                self._conflict(operation, loaded.held.rev)
            if changed is not None or not self._group.upgrades.steps:
                return changed or loaded.held
            return self._group.upgrades.held(loaded.held, max(loaded.number, loaded.held.rev))
        rev = None if isinstance(operation, Purge) else operation.rev
        if changed is not None and rev is None:
            return changed
        held = self._group.held(key)
        if rev is not None and (held is None or held.document is None or held.rev != rev):
            self._conflict(operation, rev)
        return changed or held

    def _missing(self, operation: IdentifiedOperation, reason: str = "it does not exist") -> NoReturn:
        raise NotFoundError(
            f"document {show(operation.id)} in {self._group.collection}", reason=reason, key=operation.id.decode()
        )

    def _exists(self, operation: IdentifiedOperation, fix: str) -> NoReturn:
        raise AlreadyExistsError(
            f"document {show(operation.id)} in {self._group.collection}",
            reason="it exists already",
            fix=fix,
            key=operation.id.decode(),
        )

    def _conflict(self, operation: IdentifiedOperation, rev: int) -> NoReturn:
        raise ConflictError(
            f"document {show(operation.id)} in {self._group.collection}",
            reason=f"it changed since it was read at revision {rev}",
            fix="load it again and retry, or use modify()",
            key=operation.id.decode(),
        )

    def transfers(self, indexes: IndexStates) -> dict[tuple[Index, bytes], bytes | None]:
        """What this batch gives up and takes in the unique indexes, if it is known that it may."""
        claims: dict[tuple[Index, bytes], bytes | None] = {}
        for index in (each for each in indexes.ready if each.unique):
            for document in self._first.values():
                claims |= {(index, value): None for value in claims_of(index, _decoded(document))}
            for held in self.changed.values():
                claims |= {(index, value): held.id for value in claims_of(index, _decoded(held.document))}
        return claims

    def claims(self, indexes: IndexStates) -> dict[tuple[Index, bytes], bytes | None]:
        """What this batch gives up and takes in the unique indexes.

        Raises UniqueViolationError, and what `claims_of` does for a document that an index cannot take.
        """
        ready, lists = indexes.ready, indexes.lists
        if not self.changed or not (ready or lists):
            return {}
        has_unique = any(index.unique for index in ready)
        before = {key: _decoded(document) for key, document in self._first.items()} if has_unique else {}
        after = {key: _decoded(held.document) for key, held in self.changed.items()}
        if lists:
            from wormdb.engine.lists.definition import check_lists  # most collections have none

            check_lists(lists, after.values())
        claims: dict[tuple[Index, bytes], bytes | None] = {}
        for index in ready:
            wanted = {key: claims_of(index, document) for key, document in after.items()}
            if index.unique:
                given_up = {key: claims_of(index, document) for key, document in before.items()}
                claims |= self._claimed(index, given_up, wanted)
        return claims

    def _claimed(
        self, index: Index, given_up: Mapping[bytes, Iterable[bytes]], wanted: Mapping[bytes, Mapping[bytes, Any]]
    ) -> dict[tuple[Index, bytes], bytes | None]:
        """What changes hands in one index: first everything given up, then everything claimed."""
        values = dict.fromkeys(value for found in (*given_up.values(), *wanted.values()) for value in found)
        owners = self._group.owners(index, values)
        claims: dict[bytes, bytes | None] = {}
        for key, gone in given_up.items():
            for value in gone:
                owner = owners[value]
                if owner is not None and id_key(owner) == key:
                    claims[value] = None
        for key, taken in wanted.items():
            for value, shown in taken.items():
                owner = claims[value] if value in claims else owners[value]
                if owner is not None and id_key(owner) != key:
                    self._group.end(map(self._group.held, [id_key(owner)]))
                    raise UniqueViolationError(
                        index=index.name,
                        field=index.label,
                        value=shown,
                        owner=json.decode(owner, name="document id"),
                    )
                claims[value] = self.changed[key].id
        return {(index, value): owner for value, owner in claims.items()}


def _decoded(document: bytes | None) -> Document | None:
    return None if document is None else json.decode_document(document, name="document")
