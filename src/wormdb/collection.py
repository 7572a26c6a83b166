"""A collection as users hold it: documents in, documents out.

Thin on purpose: what is true is decided by `wormdb.engine`, what fits a model by `wormdb.schema`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wormdb.batch import Batch
from wormdb.engine.operations import Loaded, Pending, Remove
from wormdb.errors import ConflictError, InvalidRequestError, NotFoundError, OutcomeUnknownError
from wormdb.feed import Change, changes_of, parse_resume
from wormdb.format import json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wormdb.engine.commit import Committed
    from wormdb.engine.ledger import Ledger
    from wormdb.engine.resolve import Fate
    from wormdb.engine.state import View
    from wormdb.format.entry import Change as EntryChange
    from wormdb.settings import Settings
    from wormdb.types import LogNumber
    from wormdb.writing import Prepared, Writer

__all__ = ["Change", "Collection"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Context:
    """What a collection needs of its database."""

    settings: Settings
    sleep: Callable[[float], None]
    actor: str | None
    new_batch_id: Callable[[], str]
    creating: Callable[[], None]
    """Told before the first entry of a new collection is committed."""


class Collection(Generic[T]):
    """One collection. Reads return documents of type `T`: `Document`, or the class the model was made from."""

    def __init__(self, ledger: Ledger, writer: Writer[T], context: Context) -> None:
        """Made by `Database.model` and `Database[...]`."""
        self._ledger = ledger
        self._writer = writer
        self._context = context

    @property
    def name(self) -> str:
        """The model's name, or the collection's folder."""
        return self._writer.name

    @property
    def mode(self) -> str:
        """Who may write: readonly, readwrite or append."""
        return self._writer.mode

    @property
    def prefix(self) -> str:
        """The folder of the collection in the bucket."""
        return self._ledger.collection

    def __repr__(self) -> str:
        return f"Collection({self._writer.origin!r})"

    # --- reading ---

    def find_by_id(self, identity: Any) -> T | None:
        """The document with this id, or None. 1 GET in a warm process."""
        key = self._writer.key_of(identity)
        view = self._view()
        held = view.get(key)
        return None if held is None or held.document is None else self._writer.show(held, view.number)

    def exists(self, identity: Any) -> bool:
        """Whether there is a document with this id. 1 GET in a warm process."""
        key = self._writer.key_of(identity)
        held = self._view().get(key)
        return held is not None and held.document is not None

    def count(self) -> int:
        """How many documents there are now. 1 GET in a warm process."""
        return self._view().count

    def __contains__(self, identity: Any) -> bool:
        """Whether there is a document with this id, as `exists`. 1 GET in a warm process."""
        return self.exists(identity)

    def __iter__(self) -> Iterator[T]:
        """Every document of one state, in order of id; writes meanwhile are not seen."""
        view = self._view()
        for _, held in view.scan():
            if held.document is not None:
                yield self._writer.show(held, view.number)

    # --- writing ---

    def create(self, data: T | Mapping[str, Any] | None = None, /, **values: Any) -> T:
        """A new document, not yet saved: defaults applied, id made, validated. No requests; raises ValidationError."""
        return self._writer.create(data, values)

    def insert(self, document: T | Mapping[str, Any]) -> T:
        """Save a document that must not exist yet. 1 PUT when nobody else writes.

        Raises AlreadyExistsError, UniqueViolationError, ValidationError, UnavailableError, OutcomeUnknownError.
        """
        return self._write("insert", document)

    def insert_many(self, documents: Iterable[T | Mapping[str, Any]]) -> list[Any]:
        """Insert documents, all or none; their ids. 1 PUT when nobody else writes."""
        if not isinstance(documents, Iterable):
            raise InvalidRequestError(
                f"insert_many of {type(documents).__name__}", reason="it is no iterable", fix="give a list of documents"
            )
        prepared = [self._writer.prepare("insert", document) for document in documents]
        if not prepared:
            return []
        committed = self._commit_all(prepared)
        return [json.decode(change.id, name="document id") for change in committed.changes]

    def save(self, document: T | Mapping[str, Any]) -> T:
        """Save a document, new or not. 1 PUT when nobody else writes; none if nothing changed.

        A document that was read must be unchanged since (ConflictError); any other replaces what is there.
        """
        return self._write("save", document)

    def delete(self, document: Any) -> bool:
        """Remove a document, given itself or its id; whether it was there. 1 PUT when nobody else writes."""
        return bool(self._commit([self._writer.prepare("delete", document)]).changes)

    def modify(self, identity: Any, change: Callable[[T], T | Mapping[str, Any] | None]) -> T:
        """Load, change and save a document; again from the start if somebody else was faster.

        `change` may edit the document in place or return another; it may run several times.
        Raises NotFoundError, and ConflictError after many losses.
        """
        key = self._writer.key_of(identity)
        if not callable(change):
            raise InvalidRequestError(
                f"modify of document {identity!r} in {self.name}",
                reason=f"the change is {type(change).__name__}, and no function",
                fix="give a function that takes the document",
            )
        for _ in range(self._context.settings.modify_attempts):
            view = self._view()
            held = view.get(key)
            if held is None or held.document is None:
                raise NotFoundError(f"document {identity!r} in {self.name}", reason="it does not exist")
            document = self._writer.show(held, view.number)
            changed = change(document)
            loaded = Loaded(held, view.number, self._writer.origin)
            try:
                return self._write("save", document if changed is None else changed, loaded)
            except ConflictError:
                continue
        raise ConflictError(
            f"document {identity!r} in {self.name}",
            reason=f"somebody else changed it {self._context.settings.modify_attempts} times in a row",
        )

    def batch(self) -> Batch[T]:
        """Several changes that happen together or not at all."""
        return Batch(self._writer.prepare, self._commit_all)

    # --- the log ---

    def watch(self, after: int | str = 0, *, follow: bool = False, poll_seconds: float = 1.0) -> Iterator[Change]:
        """Changes after a log number or a change's `resume`, oldest first; with `follow` for ever.

        1 GET an entry, and 1 GET a poll. Raises SnapshotTooOldError if the log was trimmed beyond it.
        """
        number, skip = parse_resume(after)
        if not poll_seconds >= 0:
            raise InvalidRequestError(f"watch(poll_seconds={poll_seconds!r})", reason="it must be 0 or more")
        return self._changes(number, skip, poll_seconds if follow else None)

    def _changes(self, number: LogNumber, skip: int, poll_seconds: float | None) -> Iterator[Change]:
        feed = self._ledger.feed(number)
        while True:
            for record in feed.poll():
                yield from list(changes_of(record))[skip:]
                skip = 0
            if poll_seconds is None:
                return
            self._context.sleep(poll_seconds)

    def resolve(self, commit_id: str | OutcomeUnknownError, *, settle: bool = False) -> Fate:
        """What became of a commit whose outcome was unknown: committed, not committed, or unknown.

        With `settle` an empty slot is filled, after which the write can no longer land. 2 to 5 requests.
        """
        text = commit_id.commit_id if isinstance(commit_id, OutcomeUnknownError) else commit_id
        if text is None:
            raise InvalidRequestError("resolve", reason="the error carries no commit id")
        return self._ledger.resolve(text, settle=settle)

    def forward(self) -> int:
        """Bring the log so far into blocks, indexes and history; through which log number.

        Reads are cheaper after it: nothing has to be read from the log. 2 GETs if nothing is new; otherwise 1 PUT for
        the root, 2 for each new block and 1 for each changed index node.
        """
        return self._ledger.forward()

    # --- inside ---

    def _view(self) -> View:
        view = self._ledger.view(staleness_ms=self._context.settings.staleness_ms)
        self._writer.check_definition(view)
        return view

    def _write(self, verb: str, document: T | Mapping[str, Any], loaded: Loaded | None = None) -> T:
        shape = self._writer.shape(verb, document, loaded)
        if verb == "save" and shape.is_unchanged:
            return self._writer.as_result(document, shape)
        prepared = self._writer.prepared(verb, document, shape)
        committed = self._commit([prepared])
        (change,) = committed.changes
        return self._writer.typed(self._writer.after(prepared, change, committed.number))

    def _commit(self, prepared: Sequence[Prepared]) -> Committed:
        self._writer.check_mode()
        events = self._writer.first_events(self._ledger.known())
        operations = tuple(each.operation for each in prepared)
        pending = Pending(
            id=self._context.new_batch_id(),
            operations=operations,
            events=events,
            actor=self._context.actor,
            guard=self._writer.guard(operations, events),
        )
        if pending.events:
            self._context.creating()
        return self._ledger.commit(pending, seconds=self._context.settings.commit_seconds)

    def _commit_all(self, prepared: Sequence[Prepared]) -> Committed:
        """Commit several, and bring the documents they came from up to date."""
        committed = self._commit(prepared)
        changes = list(committed.changes)
        for each in prepared:
            # Every operation makes one change, but for the delete of what is not there.
            if each.shape is not None:
                self._writer.after(each, changes.pop(0), committed.number)
            elif isinstance(each.operation, Remove) and _is_removed(each.operation, changes):
                changes.pop(0)
        return committed


def _is_removed(operation: Remove, changes: list[EntryChange]) -> bool:
    return bool(changes) and changes[0].id == operation.id and changes[0].after is None
