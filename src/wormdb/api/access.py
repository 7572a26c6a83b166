"""A collection from inside the API: its states, and commits to it."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from wormdb.api.calls import Author, CallKind, limited
from wormdb.api.document import show_text, show_values
from wormdb.engine.commit.operations import Guard, Guards, Operation, Pending, Purge, ReadVersion, Remove
from wormdb.engine.state.view import FirstLook, StoredVersion, View, id_key
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    SchemaMismatchError,
    SnapshotTooOldError,
    UniqueViolationError,
    WormError,
)
from wormdb.format import json
from wormdb.format.values import normalize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from wormdb.api.write import EncodedDocument, PreparedOperation, Writer
    from wormdb.bql.tree import Filter
    from wormdb.engine.bulk.report import ConflictRule
    from wormdb.engine.history.read import History
    from wormdb.engine.ledger import CommitResult, Ledger
    from wormdb.engine.load import JobSpec
    from wormdb.files.foreign.collection import ForeignCollection
    from wormdb.files.keeper import FilesKeeper
    from wormdb.files.write.tables import TableKey
    from wormdb.format.blob import BlobKey
    from wormdb.format.entry import LoggedChange
    from wormdb.format.event import Event
    from wormdb.maintenance.gc.report import GcResult
    from wormdb.query.planner.cache import PlanCache
    from wormdb.settings import Settings
    from wormdb.storage.meter import Usage
    from wormdb.system.clock import Chance, Clock
    from wormdb.system.deadline import within

__all__ = ["NOW", "Access", "Freshness", "Home", "Session"]


T = TypeVar("T")


class Home(Protocol):
    """The database of a collection, as far as the collection asks it."""

    @property
    def files(self) -> FilesKeeper:
        """The keeper of its readable files."""
        ...

    def publish(self) -> None:
        """Publish the schema that the program declared: asked before the first entry of a new collection."""
        ...

    def usage(self) -> Usage:
        """What its store has counted so far."""
        ...

    def access_of(self, model: str) -> Access[Any]:
        """The collection of a model of the schema, for refs; raises NotFoundError, InvalidRequestError."""
        ...

    def again(self, access: Access[T]) -> Access[T]:
        """A collection in a forked child, on what was opened there. No requests."""
        ...

    def collect(self, folder: str, *, dry_run: bool, unowned: Iterable[BlobKey] = ()) -> GcResult:
        """Remove garbage from the collection in a folder; of `unowned` blobs without an owner at any age."""
        ...

    @property
    def run(self) -> Callable[..., Any]:
        """Runs a function in a transaction, as `Database.run`."""
        ...


class Session(Protocol):
    """One collection in a transaction or a snapshot: a state of its own, and what becomes of reads and writes."""

    def view(self, at_least: int = 0) -> View:
        """The state that it sees, its own writes included. Raises what ends the transaction."""
        ...

    def read(self, identity: bytes) -> tuple[View, StoredVersion | None]:
        """That state, and what is under an id, given as JSON; it is noted as read."""
        ...

    def note(self, tree: Filter | None) -> None:
        """Note that what a filter finds is read; None if all documents are."""
        ...

    def commit(self, pending: Pending) -> CommitResult:
        """Check a batch and keep it for the end of the transaction. Nothing is written."""
        ...


@dataclass(frozen=True, slots=True)
class Freshness:
    """How new the state must be that a read is answered from; the state now, unless it says otherwise."""

    stale_ms: float = 0
    """It was the newest one at most this long before the read began."""
    at_least: int = 0
    """Its log number is this or a later one."""


NOW: Final = Freshness()


@dataclass(frozen=True, slots=True)
class Access(Generic[T]):
    """One collection: what is in it, and the way to change it."""

    ledger: Ledger
    writer: Writer[T]
    plans: PlanCache
    """The cache of plans that all handles of the collection share."""
    home: Home
    settings: Settings
    clock: Clock
    chance: Chance
    author: Author
    """Who makes the changes, unless a call names another."""
    readonly: ForeignCollection | None = None
    """For a model that is only read: perhaps another program keeps its files."""
    freshness: Freshness = NOW
    """Of reads that do not say it."""
    session: Session | None = None
    """The transaction or snapshot that this handle belongs to; None outside of one."""
    guard: Guard | None = None
    """What all batches of this handle are refused by, beside their own; it asks for nothing but events of the log."""

    @property
    def name(self) -> str:
        """The model's name, or the collection's folder."""
        return self.writer.name

    @property
    def files(self) -> ForeignCollection | None:
        """The files of another program, if the collection has no log. For a readonly model 2 GETs at the first call."""
        return self.readonly if self.readonly is not None and self.readonly.is_foreign() else None

    @property
    def log(self) -> Ledger:
        """The ledger; raises InvalidRequestError if another program keeps the collection. Costs as `files`."""
        if self.files is not None:
            raise InvalidRequestError(
                f"{self.name} has no log",
                reason="another program keeps its files, and they are read as they are",
                fix="take it over with worm adopt",
            )
        return self.ledger

    def limited(self, kind: CallKind, timeout: float | None = None) -> within:
        """For a call that begins now. Raises InvalidRequestError."""
        return limited(self.clock, self.settings, kind, timeout)

    # --- states ---

    def find(self, identity: Any, freshness: Freshness | None = None) -> T | None:
        """The document with an id, or None. Costs as `get`; of files 1 GET."""
        files = None if self.readonly is None else self.files
        if files is not None:
            found = files.find(normalize(identity))
            return None if found is None else self.writer.show_past(found)
        if self.session is not None:
            view, held = self.seen(self.writer.encoded_id(identity), freshness)
        else:
            view, held = self.get(self.writer.key_of(identity), freshness or self.freshness)
        return None if held is None or held.document is None else self.writer.show(held, view.number)

    def find_text(self, identity: Any, freshness: Freshness | None = None) -> bytes | None:
        """The document with an id as JSON, or None. Costs as `find`."""
        files = None if self.readonly is None else self.files
        if files is not None:
            found = files.find(normalize(identity))
            return None if found is None else json.encode(show_values(found.document or b""))
        if self.session is not None:
            _, held = self.seen(self.writer.encoded_id(identity), freshness)
        else:
            _, held = self.get(self.writer.key_of(identity), freshness or self.freshness)
        return None if held is None or held.document is None else show_text(held.document)

    def has(self, identity: Any, freshness: Freshness | None = None) -> bool:
        """Whether there is a document with an id. Costs as `get`; of files 1 HEAD."""
        files = self.files
        if files is not None:
            return files.exists(normalize(identity))
        if self.session is not None:
            _, held = self.seen(self.writer.encoded_id(identity), freshness)
        else:
            _, held = self.get(self.writer.key_of(identity), freshness or self.freshness)
        return held is not None and held.document is not None

    def seen(self, identity: bytes, freshness: Freshness | None = None) -> tuple[View, StoredVersion | None]:
        """What is under an id, given as JSON, in the state now, or in that of a transaction, which notes it.

        Costs and raises as `get`.
        """
        if self.session is None:
            return self.get(id_key(identity))
        self._view_of(self.session, freshness)
        view, held = self.session.read(identity)
        return view, held

    def _view_of(self, session: Session, freshness: Freshness | None) -> View:
        _ = self.log  # files of another program are no part of a transaction
        view = session.view(0 if freshness is None else freshness.at_least)
        self.writer.check_definition(view)
        return view

    def get(self, key: bytes, freshness: Freshness = NOW) -> tuple[View, StoredVersion | None]:
        """The state now, or one that is as new as told, and what is under a key in it.

        1 GET for the log and 1 for a page; raises SchemaMismatchError, InvalidRequestError.
        """
        ledger = self.ledger if self.readonly is None else self.log
        view, held = ledger.get(key, staleness_ms=freshness.stale_ms, at_least=freshness.at_least)
        if freshness.stale_ms and not self._fits(view):
            return self.get(key)
        self.writer.check_definition(view)
        return (view, ledger.expiry.living(view, held)) if view.definition.expiries else (view, held)

    def view(self, freshness: Freshness | None = None, first: FirstLook = None) -> View:
        """The state now, or one that is as new as told. 1 GET; raises SchemaMismatchError, InvalidRequestError.

        A process that knows nothing calls `first` as `Ledger.view` does.
        """
        if self.session is not None:
            return self._view_of(self.session, freshness)
        wanted = freshness or self.freshness
        ledger = self.ledger if self.readonly is None else self.log
        view = ledger.view(staleness_ms=wanted.stale_ms, at_least=wanted.at_least, first=first)
        if not wanted.stale_ms:
            self.writer.check_definition(view)
        elif not self._fits(view):
            return self.present()
        # The state may be old, and what is over is over now.
        return ledger.expiry.alive(view) if view.definition.expiries else view

    def trusted(self) -> View | None:
        """The state that this process knows, as `Ledger.trusted` says; None in a transaction. No requests."""
        view = self.ledger.trusted() if self.session is None else None
        return view if view is None or not view.definition.expiries else self.ledger.expiry.alive(view)

    def known(self) -> View:
        """The state as far as this process knows it, or that of a transaction. Costs as `Ledger.known`."""
        return self.ledger.known() if self.session is None else self._view_of(self.session, None)

    def renew(self, view: View, error: SnapshotTooOldError) -> None:
        """Begin with the newest root, because an object of the root below a view is gone; see `Ledger.renew`.

        The state of a transaction is gone for good then: raises `error`.
        """
        if self.session is not None:
            raise error
        self.ledger.renew(view, error)

    def _fits(self, view: View) -> bool:
        """Whether the model fits a state, which may be old: a refusal is of the state now."""
        try:
            self.writer.check_definition(view)
        except SchemaMismatchError:
            return False
        return True

    def present(self) -> View:
        """The state now: a moment of the past can be told only if all entries before it are known. 1 GET."""
        if self.session is not None:
            return self._view_of(self.session, None)
        view = self.log.view()
        self.writer.check_definition(view)
        return self.log.expiry.alive(view) if view.definition.expiries else view

    def write_tables(self, keys: Iterable[TableKey]) -> None:
        """Have the files of a manifest or of indexes as the state says, whatever became of them.

        No requests if no readable files are kept. Costs and raises as `rewrite_tables`.
        """
        if self.readonly is None and self.ledger.known().definition.keeps_files:
            from wormdb.files.table_state import rewrite_tables  # few collections keep files

            rewrite_tables(self.home.files.site(self.ledger), self.home.files, keys)

    def history(self, view: View) -> History:
        """What readers are shown of the past of a state. No requests."""
        return self.ledger.shown_history(view)

    # --- commits ---

    def by(self, actor: str | None, metadata: Mapping[str, Any] | None) -> Author:
        """The author of a change: the database's actor, unless the call names another.

        Raises InvalidRequestError, and PermissionDeniedError if another program is known to keep the collection.
        """
        self._check_own()
        if self.session is not None and (actor is not None or metadata is not None):
            raise InvalidRequestError(
                f"actor or metadata of one change in {self.name}",
                reason="all changes of a transaction have the same",
                fix="give them to db.transaction(actor=…, metadata=…)",
            )
        return self.author.but(actor, metadata)

    def check_mode(self) -> None:
        """Raise PermissionDeniedError if this model is for reading only. No requests.

        For files that only other programs write 2 GETs at the first call.
        """
        self._check_own()
        self.writer.check_mode()

    def _check_own(self) -> None:
        """Name the way to change what is known to be another program's."""
        if self.readonly is None:
            return
        model = self.readonly.folder.model
        if self.readonly.is_known or (model.path.is_of_others and self.readonly.is_foreign()):
            raise PermissionDeniedError(
                f"{self.name} is read-only",
                reason="another program keeps its files",
                fix="take it over with worm adopt, then change the model's mode",
            )

    def write(self, verb: str, document: T | Mapping[str, Any], by: Author, loaded: ReadVersion | None = None) -> T:
        """Insert or save one document; with `loaded`, which was read just now, it is a change of that.

        1 PUT without competing writers. If nothing changed, none: then a document that was read before the call is
        looked up, which costs as `get`, and ConflictError is raised if it is not as it was read.
        """
        shape = self.writer.shape(verb, document, loaded)
        if verb == "save" and shape.is_unchanged:
            if loaded is None:
                self._check_unchanged(shape)
            return self.writer.as_result(document, shape)
        prepared = self.writer.prepared(verb, document, shape)
        committed = self._save([prepared], by)
        (change,) = committed.changes
        return self.writer.typed(self.writer.after(prepared, change, committed.number))

    def modify(self, identity: Any, change: Callable[[T], T | Mapping[str, Any] | None], by: Author) -> T:
        """Load, change and save a document, again from the start if another writer was faster.

        For each try `get` of the state now, so that no document is missed that is there, and 1 PUT if something
        changed. Raises NotFoundError, and ConflictError after many losses.
        """
        key = self.writer.key_of(identity)
        what = f"document {identity!r} in {self.name}"
        attempts = self.settings.modify_attempts
        for _ in range(attempts):
            view, held = self.get(key) if self.session is None else self.seen(self.writer.encoded_id(identity))
            if held is None or held.document is None:
                raise NotFoundError(what, reason="it does not exist")
            document = self.writer.show(held, view.number)
            changed = change(document)
            loaded = ReadVersion(held, view.number, self.writer.origin)
            try:
                return self.write("save", document if changed is None else changed, by, loaded)
            except ConflictError:
                if self.session is not None:
                    raise  # its state does not move
        raise ConflictError(what, reason=f"another writer changed it {attempts} times in a row")

    def loaded_at(self, document: Any, rev: Any) -> ReadVersion:
        """The document that another is to replace, if it is at a revision now. Costs as `get`.

        Raises ConflictError if it is at another one or gone, InvalidRequestError for anything else than a revision.
        """
        if isinstance(rev, bool) or not isinstance(rev, int) or rev < 1:
            raise InvalidRequestError(
                f"if_rev={rev!r:.40}",
                reason="a revision must be a whole number of 1 or more",
                fix="use what rev_of gives",
            )
        identity = self.writer.identity_of(document)
        view, held = self.seen(identity)
        if held is None or held.document is None or held.rev != rev:
            raise make_conflict(identity, self.name, rev)
        return ReadVersion(held, view.number, self.writer.origin)

    def _check_unchanged(self, shape: EncodedDocument) -> None:
        """Raise ConflictError if a document is no longer what it was read as."""
        assert shape.id is not None
        assert shape.loaded is not None
        _, held = self.seen(shape.id)
        known = shape.loaded.held
        if held is None or held.document is None or held.version != known.version:
            raise make_conflict(shape.id, self.name, known.rev)

    def insert_all(self, documents: Iterable[Any], by: Author) -> list[Any]:
        """Insert documents, all or none; returns their ids. 1 PUT without competing writers; none for none."""
        inserts = self.writer.inserts(documents)
        if not inserts.operations:
            return []
        committed = self.commit(inserts.operations, by)
        for place, prepared in inserts.held:
            self.writer.after(prepared, committed.changes[place], committed.number)
        for place, instance in inserts.instances:
            self.writer.inserted(instance, committed.changes[place], committed.number)
        return [
            json.decode(change.id, name="document id") if identity is None else identity
            for identity, change in zip(inserts.ids, committed.changes, strict=True)
        ]

    def commit_all(self, prepared: Sequence[PreparedOperation], by: Author) -> CommitResult:
        """Commit several, and bring the documents they came from up to date. 1 PUT without competing writers."""
        committed = self._save(prepared, by)
        changes = deque(committed.changes)
        left = Counter(change.id for change in changes)
        for each in prepared:
            # Every operation makes one change, but for the delete of what is not there.
            if each.shape is not None:
                change = changes.popleft()
                left[change.id] -= 1
                self.writer.after(each, change, committed.number, is_last=not left[change.id])
            elif isinstance(each.operation, Remove) and _is_removed(each.operation, changes):
                left[changes.popleft().id] -= 1
        return committed

    def _save(self, prepared: Sequence[PreparedOperation], by: Author) -> CommitResult:
        """Commit several; instances that were not read are refused as conflicts where something is there."""
        try:
            return self.commit([each.operation for each in prepared], by)
        except UniqueViolationError:
            raise
        except AlreadyExistsError as error:
            unread = [each for each in prepared if each.is_unread and each.key == error.key]
            if not unread:
                raise
            raise _unread(unread[0].document, error) from error

    def commit(
        self,
        operations: Sequence[Operation],
        by: Author,
        *also: Event,
        guard: Guard | None = None,
    ) -> CommitResult:
        """Commit operations as one batch, `also` with it, while `guard` accepts the state it will follow.

        1 PUT without competing writers. Raises what the batch is refused for.
        """
        self.check_mode()
        known = self.known()
        events = self.writer.first_events(known)
        final = self.writer.final(operations, self.writer.in_force(known), by)
        guards = Guards.of(self.writer.guard(final, events), guard, self.guard)
        return self._commit(final, (*events, *also), by, guards, is_steady=guard is None)

    def commit_event(
        self, event: Event, by: Author, guard: Guard | None = None, *operations: Operation
    ) -> CommitResult:
        """Commit one event, `operations` with it as they are, while `guard` accepts the state it will follow. 1 PUT."""
        self.check_mode()
        # A delete that comes with an event passes the trash by, as a purge does.
        checked = tuple(Purge(each.id) if isinstance(each, Remove) else each for each in operations)
        return self._commit(operations, (event,), by, Guards.of(self.writer.guard(checked, ()), guard))

    def job_spec(self, job: str, kind: str, by: Author, *, on_conflict: ConflictRule, overwrite: bool) -> JobSpec:
        """What a bulk job on this collection is to be, for `wormdb.engine.load`. 1 GET; raises as `commit`."""
        from wormdb.engine.load import JobSpec  # only bulk jobs need it

        self.check_mode()
        known = self.present()
        if known.definition.expiries:
            self.ledger.expiry.remove()  # tasks take what is stored for what is there
        self.writer.check_newest(known)
        if self.writer.model is None and known.definition.model is not None:
            raise InvalidRequestError(
                f"bulk write to {self.name}",
                reason=f"it is the collection of model {known.definition.model.name}",
                fix="name the model, so that documents are checked by it",
            )
        events = self.writer.first_events(known)
        if events:
            self.home.publish()
        (gone,) = self.writer.final([Remove(b"null")], self.writer.in_force(known), by)
        assert isinstance(gone, Remove)
        return JobSpec(
            job=job,
            kind=kind,
            on_conflict=on_conflict,
            overwrite=overwrite,
            tombstone=gone.tombstone,
            events=events,
            guard=self.writer.guard((), events),
            actor=by.actor,
            meta=by.meta,
        )

    def _commit(
        self,
        operations: tuple[Operation, ...],
        events: tuple[Event, ...],
        by: Author,
        guard: Guard,
        *,
        is_steady: bool = False,
    ) -> CommitResult:
        pending = Pending(
            id=self.ledger.batch_id(),
            operations=operations,
            events=events,
            actor=by.actor,
            meta=by.meta,
            guard=guard,
            body=self.writer.definition,
            is_steady=is_steady,
        )
        if self.session is not None:
            return self.session.commit(pending)
        if operations and events:
            self.home.publish()
        return self.ledger.commit(pending, seconds=self.settings.commit_seconds)


def make_conflict(identity: bytes, name: str, rev: int) -> ConflictError:
    """The error for a document that is not as its caller read it."""
    return ConflictError(
        f"document {json.decode(identity, name='document id')!r} in {name}",
        reason=f"it changed since it was read at revision {rev}",
        fix="load it again and retry, or use modify()",
        key=identity.decode(),
    )


def _unread(instance: object, error: AlreadyExistsError) -> WormError:
    """The error for an instance that does not say what it was read as, where something is there."""
    name = type(instance).__name__
    if hasattr(instance, "__dict__"):
        return ConflictError(
            error.what,
            reason=f"it exists, and this {name} was not read: it may be a copy of an older version",
            fix="find it and change that, modify() it, save(…, if_rev=…), or replace_one() what is there",
            key=error.key,
        )
    return InvalidRequestError(
        error.what,
        reason=f"it exists, and a {name} has no __dict__ to remember which version it was read as",
        fix="declare the class without slots, a Struct with dict=True; or modify() it, or save(…, if_rev=…)",
        key=error.key,
    )


def _is_removed(operation: Remove, changes: deque[LoggedChange]) -> bool:
    return bool(changes) and changes[0].id == operation.id and changes[0].after is None
