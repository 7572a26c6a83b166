"""Transactions: several documents of several collections, read and changed at one moment, or not at all."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeVar, overload

from wormdb.api.blob_methods import BlobMethods
from wormdb.api.calls import reads, traced
from wormdb.api.collection import Collection
from wormdb.api.familiar import FamiliarMethods, InsertManyResult
from wormdb.api.find import QueryMethods
from wormdb.api.modify import ModifyMethods
from wormdb.api.session import CollectionSession, collect_moment
from wormdb.engine.commit.draft import without_ends
from wormdb.engine.commit.operations import Guards, Pending
from wormdb.engine.commit.reads import ReadGuard
from wormdb.errors import (
    AlreadyExistsError,
    ClosedError,
    ConflictError,
    InvalidRequestError,
    OutcomeUnknownError,
    TransactionConflictError,
    TransactionTooOldError,
    WormError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import TracebackType
    from typing import Self

    from wormdb.api.access import Access, Home
    from wormdb.api.batch import Batch
    from wormdb.api.calls import Author, CallKind
    from wormdb.api.document import Document
    from wormdb.engine.commit.reads import ReadSet
    from wormdb.engine.state.view import View
    from wormdb.engine.transact.coordinator import Coordinator
    from wormdb.files.keeper import FilesKeeper
    from wormdb.format.blob import BlobKey
    from wormdb.maintenance.gc.report import GcResult
    from wormdb.settings import Settings
    from wormdb.storage.meter import Usage
    from wormdb.storage.pool import Pool
    from wormdb.system.clock import Clock
    from wormdb.system.deadline import within

__all__ = [
    "CollectionCommit",
    "CollectionOpener",
    "Isolation",
    "SessionCalls",
    "SessionHome",
    "Transaction",
    "TransactionCollection",
    "TransactionCommit",
    "as_conflict",
    "note_conflict",
]

log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

Isolation = Literal["serializable", "snapshot"]
TransactionState = Literal["open", "committed", "aborted", "unknown"]

_ISOLATIONS: Final = ("serializable", "snapshot")


@dataclass(frozen=True, slots=True)
class CollectionOpener:
    """How the database of a transaction opens its collections. No requests, but for a published schema."""

    named: Callable[[str], Access[Document]]
    """At a folder."""
    modeled: Callable[[Any, Mapping[str, Any]], Access[Any]]
    """Of a model or a class."""
    of_handle: Callable[[Collection[Any]], Access[Any]]
    """Of a handle; raises InvalidRequestError if it is of another database."""
    pool: Pool
    """Asks several collections side by side."""


@dataclass(frozen=True, slots=True)
class CollectionCommit:
    """What a transaction wrote to one collection."""

    changes: int
    """How many changes of documents."""
    number: int | None
    """The log entry that has them. None if they are prepared: they are there for every reader, and an entry that is
    written later has them; only then is the revision of these documents known."""
    since: int = 0
    """The log number from which on every state has them: that of the entry, or of the one that prepared them."""


@dataclass(frozen=True, slots=True)
class TransactionCommit:
    """A transaction that is committed for good."""

    id: str
    """As `Database.resolve` takes it; empty if nothing was written."""
    collections: Mapping[str, CollectionCommit]
    """By folder, those that it wrote to."""


@dataclass(frozen=True, slots=True)
class SessionHome:
    """A database as collections of a transaction or a snapshot see it: refs lead to collections of the same one."""

    home: Home
    enter: Callable[[Access[Any]], Access[Any]]

    @property
    def files(self) -> FilesKeeper:
        """As `Home`."""
        return self.home.files

    def publish(self) -> None:
        """As `Home`."""
        self.home.publish()

    def usage(self) -> Usage:
        """As `Home`."""
        return self.home.usage()

    def access_of(self, model: str) -> Access[Any]:
        """The collection of a model, in the same transaction or snapshot."""
        return self.enter(self.home.access_of(model))

    def collect(self, folder: str, *, dry_run: bool, unowned: Iterable[BlobKey] = ()) -> GcResult:
        """As `Home`."""
        return self.home.collect(folder, dry_run=dry_run, unowned=unowned)

    def again(self, access: Access[T]) -> Access[T]:
        """A transaction and a snapshot end with their process: a child uses neither."""
        return access

    @property
    def run(self) -> Callable[..., Any]:
        """As the database's, which is refused inside of a transaction."""
        return self.home.run


class SessionCalls(QueryMethods[T]):
    """What collections of transactions and of snapshots share: calls of `Collection` that they lack are refused."""

    @property
    def name(self) -> str:
        """The model's name, or the collection's folder."""
        return self._access.name

    def _limited(self, kind: CallKind, timeout: float | None) -> within:
        return self._access.limited(kind, timeout)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(Collection, name):
            self._refuse(name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _refuse(self, name: str) -> NoReturn:
        raise NotImplementedError(name)

    def cursor(self, *_: Any, **__: Any) -> NoReturn:
        """Not in a transaction, and not of a snapshot, whose rows do not move: raises InvalidRequestError."""
        self._refuse("cursor")

    def resume(self, *_: Any, **__: Any) -> NoReturn:
        """Not in a transaction, and not of a snapshot: raises InvalidRequestError."""
        self._refuse("resume")

    def __contains__(self, identity: Any) -> bool:
        """Whether there is a document with this id."""
        return self.exists(identity)


class TransactionCollection(SessionCalls[T], FamiliarMethods[T], ModifyMethods[T], BlobMethods[T]):
    """One collection in a transaction. Its calls are those of `Collection`; they see what the transaction wrote.

    Nothing is written before the transaction commits, but for the bodies of blobs, which no document refers to until
    then; so the `number` of a result means nothing. What a call refuses is refused at once, and the transaction goes on
    without it. `as_of` reads the past as
    everywhere. What changes a definition, and cursors, are not part of transactions: InvalidRequestError.
    """

    def __init__(self, access: Access[T]) -> None:
        """Made by `Transaction`."""
        super().__init__(access)
        self._plain = Collection(access)

    def __repr__(self) -> str:
        return f"TransactionCollection({str(self._access.writer.origin)!r})"

    def _refuse(self, name: str) -> NoReturn:
        raise InvalidRequestError(
            f"{name} in a transaction",
            reason="a transaction reads and changes documents and nothing else",
            fix=f"call {name} of the collection itself, before or after the transaction",
        )

    # --- reading ---

    @reads
    def scan(self, start: Any = None, stop: Any = None) -> Iterator[T]:
        """Documents in order of id, as `Collection.scan`; all documents of the collection count as read."""
        return self._plain.scan(start, stop)

    def __iter__(self) -> Iterator[T]:
        """Every document, in order of id."""
        return self.scan()

    # --- writing ---

    def create(self, data: T | Mapping[str, Any] | None = None, /, **values: Any) -> T:
        """A new document, not saved, as `Collection.create`."""
        return self._plain.create(data, **values)

    def insert(self, document: T | Mapping[str, Any]) -> T:
        """Save a new document, whose id must be free, when the transaction commits; as `Collection.insert`."""
        return self._plain.insert(document)

    def insert_many(self, documents: Iterable[T | Mapping[str, Any]]) -> InsertManyResult:
        """Insert documents when the transaction commits; returns their ids."""
        return self._plain.insert_many(documents)

    def save(self, document: T | Mapping[str, Any], *, if_rev: int | None = None) -> T:
        """Save a document, new or not, when the transaction commits; as `Collection.save`."""
        return self._plain.save(document, if_rev=if_rev)

    def delete(self, document: Any, *, if_rev: int | None = None) -> bool:
        """Remove a document, given itself or its id, when the transaction commits; whether it is there."""
        return self._plain.delete(document, if_rev=if_rev)

    def modify(self, identity: Any, change: Callable[[T], T | Mapping[str, Any] | None]) -> T:
        """Load, change and save a document when the transaction commits; as `Collection.modify`."""
        return self._plain.modify(identity, change)

    def batch(self) -> Batch[T]:
        """Several changes that are checked together when it is flushed."""
        return self._plain.batch()


class Transaction:
    """Reads and writes of any collections of one database, at one moment or not at all. A context manager.

    It commits at the end of the block, and writes nothing if the block raises. For the thread that opened it. All that
    it reads is of one moment, before it commits already. `isolation="serializable"` validates all that was read when it
    commits; `"snapshot"` validates only what it writes.
    """

    def __init__(  # noqa: PLR0913 - everything comes in by argument
        self,
        opener: CollectionOpener,
        coordinator: Callable[[], Coordinator],
        *,
        settings: Settings,
        clock: Clock,
        author: Author,
        isolation: Isolation = "serializable",
        seconds: float | None = None,
        is_bound: bool = True,
    ) -> None:
        """Made by `Database.transaction`. No requests."""
        if isolation not in _ISOLATIONS:
            raise InvalidRequestError(
                f"isolation={isolation!r}", reason="there is no such level", fix='give "serializable" or "snapshot"'
            )
        self.isolation: Isolation = isolation
        self.state: TransactionState = "open"
        """open, committed, aborted, or unknown if an answer of the store was lost."""
        self.result: TransactionCommit | None = None
        """What was committed; None before."""
        self._opener = opener
        self._coordinator = coordinator
        self._settings = settings
        self._clock = clock
        self._author = author
        self._seconds = settings.transaction_seconds if seconds is None else seconds
        self._begun = clock.monotonic()
        self._thread = threading.get_ident() if is_bound else None
        """Which may use it; None for any, one at a time."""
        self._sessions: dict[str, CollectionSession] = {}
        self._accesses: dict[str, Access[Any]] = {}
        """By folder one that has a model, if any has."""

    @property
    def id(self) -> str:
        """Of the commit; empty before."""
        return "" if self.result is None else self.result.id

    def __repr__(self) -> str:
        return f"Transaction({', '.join(sorted(self._sessions))}, {self.state})"

    # --- collections ---

    def __getitem__(self, name: str | Collection[Any]) -> TransactionCollection[Document]:
        """A collection without a schema, at folder `name`; or the one of a handle of the same database."""
        self.check()
        if isinstance(name, Collection):
            return TransactionCollection(self._enter(self._opener.of_handle(name)))
        return TransactionCollection(self._enter(self._opener.named(name)))

    @overload
    def model(self, model: str, /, **outer: Any) -> TransactionCollection[Document]: ...
    @overload
    def model(self, model: type[T], /, **outer: Any) -> TransactionCollection[T]: ...
    def model(self, model: str | type[T], /, **outer: Any) -> TransactionCollection[Any]:
        """The collection of a model of the schema, or of a class, as `Database.model`."""
        self.check()
        return TransactionCollection(self._enter(self._opener.modeled(model, outer)))

    def _enter(self, access: Access[T]) -> Access[T]:
        folder = access.ledger.collection
        session = self._sessions.get(folder)
        if session is None:
            origin = str(access.writer.origin)
            session = self._sessions[folder] = CollectionSession(self, access.ledger, access.name, origin)
        entered = replace(
            access,
            writer=access.writer.at(access.clock, access.chance, session.origin),
            home=SessionHome(access.home, self._enter),
            author=self._author,
            session=session,
        )
        known = self._accesses.get(folder)
        if known is None or known.writer.model is None:
            self._accesses[folder] = entered
        return entered

    # --- what sessions ask ---

    def check(self) -> None:
        """Raise ClosedError after the end, TransactionTooOldError, InvalidRequestError in another thread."""
        self._check_usable()
        if self.is_over:
            raise TransactionTooOldError("transaction", reason=f"it is open for more than {self._seconds:g} seconds")

    def _check_usable(self) -> None:
        if self.state != "open":
            raise ClosedError("transaction", reason=f"it is {self.state}", fix="begin another one")
        if self._thread is not None and threading.get_ident() != self._thread:
            raise InvalidRequestError(
                "transaction", reason="another thread began it", fix="use it in the thread that began it"
            )

    @property
    def is_over(self) -> bool:
        """Whether it is open for too long to commit."""
        return self._clock.monotonic() - self._begun > self._seconds

    def open(self, session: CollectionSession) -> View:
        """The state of a collection at its first access, of one moment with the others. As `collect_moment`."""
        others = [each for each in self._sessions.values() if each.draft is not None]
        try:
            with self._accesses[session.ledger.collection].limited("read"):
                return collect_moment(session, others, self._opener.pool)
        except WormError:
            if others:
                self.state = "aborted"  # some of them may have moved on without the rest
            raise

    def room(self) -> int:
        """How many bytes may still be written."""
        return self._settings.transaction_bytes - self.size

    @property
    def size(self) -> int:
        """How many bytes it will write, about. No requests."""
        return sum(each.draft.size for each in self._sessions.values() if each.draft is not None)

    @property
    def numbers(self) -> dict[str, int]:
        """By folder the log number of the state that it reads, of the collections read so far. No requests."""
        opened = {folder: each.draft for folder, each in sorted(self._sessions.items())}
        return {folder: int(draft.seen.number) for folder, draft in opened.items() if draft is not None}

    # --- the end ---

    def commit(self, *, timeout: float | None = None) -> TransactionCommit:
        """Commit now; nothing can be read or written afterwards. At the end of the block it happens by itself.

        No requests if nothing was written; 1 PUT for one collection. Several collections, those counted whose reads are
        validated: 1 PUT for each, side by side, and 1 more; later 1 for each, mostly inside another commit. Raises
        TransactionConflictError, TransactionTooOldError, UnavailableError with nothing written, and
        OutcomeUnknownError whose `commit_id` is for `Database.resolve`.
        """
        self._check_usable()
        try:
            self.check()
            result = traced("commit", self, lambda: self._commit(timeout))
        except OutcomeUnknownError:
            self.state = "unknown"
            raise
        except Exception:
            self.state = "aborted"
            raise
        except BaseException:
            self.state = "unknown"  # it was interrupted at any request
            raise
        self.state, self.result = "committed", result
        return result

    def rollback(self) -> None:
        """Forget everything; nothing was written. No requests; nothing happens after the end."""
        if self.state == "open":
            self.state = "aborted"

    def _commit(self, timeout: float | None) -> TransactionCommit:
        is_serializable = self.isolation == "serializable"
        writing = {folder: each for folder, each in sorted(self._sessions.items()) if each.is_writing}
        if not writing:
            return TransactionCommit("", {})
        reading = {
            folder: each
            for folder, each in sorted(self._sessions.items())
            if is_serializable and each.draft is not None and each.is_reading and folder not in writing
        }
        access = self._accesses[next(iter(writing))]
        with access.limited("commit", timeout) as deadline:
            seconds = access.settings.commit_seconds if deadline is None else deadline.left
            try:
                if len(writing) == 1 and not reading:
                    return self._commit_one(*writing.popitem(), seconds)
                return self._commit_several(writing, reading, seconds)
            except (TransactionConflictError, OutcomeUnknownError):
                raise
            except (ConflictError, AlreadyExistsError) as error:
                # What was free and unchanged in the transaction's state is not any more.
                raise as_conflict(error, access.ledger.collection.rstrip("/")) from error

    def _commit_one(self, folder: str, session: CollectionSession, seconds: float) -> TransactionCommit:
        """One collection needs no more than its log: a batch is all or nothing."""
        access = self._accesses[folder]
        pending = self._pending(session, access)
        if pending.events:
            access.home.publish()
        reads = self._reads(session)
        guard = Guards.of(pending.guard, ReadGuard(session.folder, reads))
        done = access.ledger.commit(replace(pending, guard=guard, reads=reads), seconds=seconds)
        session.landed = int(done.number)
        return TransactionCommit(done.id, {folder: CollectionCommit(len(done.changes), session.landed, session.landed)})

    def _commit_several(
        self, writing: dict[str, CollectionSession], reading: dict[str, CollectionSession], seconds: float
    ) -> TransactionCommit:
        from wormdb.engine.transact.coordinator import Participant  # transactions of one collection do without

        participants = [Participant(each.ledger, None, each.reads()) for each in reading.values()]
        for folder, session in writing.items():
            pending = self._defined(self._pending(session, self._accesses[folder]), self._accesses[folder])
            participants.append(Participant(session.ledger, pending, self._reads(session)))
        done = self._coordinator().commit(participants, seconds=seconds)
        written = {
            folder: CollectionCommit(len(done.changes[folder]), None, int(done.numbers[folder])) for folder in writing
        }
        return TransactionCommit(done.commit_id, written)

    def _defined(self, pending: Pending, access: Access[Any]) -> Pending:
        """A batch without the definition that it brings: that goes before, by an entry of its own. 1 PUT."""
        if not pending.events:
            return pending
        access.home.publish()
        first = Pending(
            id=access.ledger.batch_id(),
            events=pending.events,
            actor=pending.actor,
            meta=pending.meta,
            guard=access.writer.guard((), pending.events),
            body=pending.body,
        )
        access.ledger.commit(first, seconds=access.settings.commit_seconds)
        return replace(pending, events=(), guard=access.writer.guard(without_ends(pending.operations), ()))

    def _reads(self, session: CollectionSession) -> ReadSet:
        return session.reads(is_serializable=self.isolation == "serializable")

    def _pending(self, session: CollectionSession, access: Access[Any]) -> Pending:
        """Everything that is to be written to one collection, as one batch."""
        draft = session.draft
        assert draft is not None, "it is writing"
        operations = draft.operations()
        return Pending(
            id=access.ledger.batch_id(),
            operations=operations,
            events=draft.events,
            actor=self._author.actor,
            meta=self._author.meta,
            guard=access.writer.guard(without_ends(operations), draft.events),
            body=draft.view.definition.body or access.writer.definition,
        )

    def __enter__(self) -> Self:
        self.check()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.rollback()
        elif self.state == "open":
            self.commit()


def note_conflict(error: ConflictError, losses: int) -> None:
    """Say in the log that a transaction is repeated."""
    log.debug("transaction refused %d times: %s", losses, error)


def as_conflict(error: WormError, collection: str) -> TransactionConflictError:
    """The conflict that a refusal is whose reason was not there when the transaction read."""
    return TransactionConflictError(
        f"transaction: {error.what}", reason=error.reason, collection=collection, key=error.key
    )
