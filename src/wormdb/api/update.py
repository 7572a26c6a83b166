"""Changes of the documents that a filter finds: which they are, what becomes of each, and one batch for all.

A call looks at one state. Every operation says what it saw of its document, so that the batch lands only if none of
them has changed since; if one has, the call starts again from the state that is there then.

A call that names one id first tries the state that this process knows, without asking for newer entries. If that
lands, no newer entry has the document. All else is decided by a state that is not older than the call: that nothing
matches, that nothing would change, that something is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from wormdb.api.guard import UpsertGuard
from wormdb.api.pymongo_names import PymongoNames
from wormdb.bql.match import compile_filter
from wormdb.engine.commit.operations import ReadVersion, Remove
from wormdb.engine.state.view import StoredVersion, id_key
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    OutcomeUnknownError,
    UnavailableError,
    UniqueViolationError,
    WormError,
)
from wormdb.format import json
from wormdb.format.key import encode_key
from wormdb.format.kinds import MISSING
from wormdb.format.wrappers import moment
from wormdb.query.execute.answer import run
from wormdb.query.request import QueryRequest
from wormdb.query.sources.engine import EngineSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from wormdb.api.access import Access
    from wormdb.api.calls import Author
    from wormdb.api.write import EncodedDocument
    from wormdb.engine.commit.operations import Operation
    from wormdb.engine.state.view import View
    from wormdb.format.entry import LoggedChange
    from wormdb.format.kinds import Document
    from wormdb.query.change import Edit, Targets
    from wormdb.query.execute.answer import Hit
    from wormdb.system.types import LogNumber

    Look = Callable[[StoredVersion, LogNumber], Any]
    """Makes something of a document as it was found, and of the number of the state."""
    Rows = Iterable[tuple[StoredVersion, Document]]
    Try = Callable[[View, Rows], "ChangeResult"]
    """Changes the documents that are meant in a state."""

__all__ = ["ChangeResult", "DeleteResult", "UpdateResult", "Updater"]

T = TypeVar("T")

_PAUSE_SECONDS_MIN: Final = 0.001
_PAUSE_SECONDS_MAX: Final = 0.1


def _look_away(held: StoredVersion, number: LogNumber) -> None:
    """For a caller that does not ask for the document."""


@dataclass(frozen=True, slots=True)
class UpdateResult(PymongoNames):
    """What an update or a replacement did."""

    matched: int
    """Documents that the filter found."""
    modified: int
    """Those of them that are different now: a document that would stay as it is, is not written."""
    upserted_id: Any
    """The id of the document that an upsert inserted; None if it inserted none."""
    number: int
    """The log number of the batch; of the state that was looked at, if nothing was written."""
    keys: tuple[bytes, ...] = field(default=(), repr=False, compare=False)
    """The ids of the modified documents as they are stored: JSON."""

    @property
    def modified_ids(self) -> list[Any]:
        """The ids of the modified documents, in the order in which they were found."""
        return [json.decode(key, name="document id") for key in self.keys]

    @property
    def acknowledged(self) -> bool:
        """Always: a write that was not done raises."""
        return True

    @property
    def matched_count(self) -> int:
        """`matched`, by pymongo's name."""
        return self.matched

    @property
    def modified_count(self) -> int:
        """`modified`, by pymongo's name."""
        return self.modified


@dataclass(frozen=True, slots=True)
class DeleteResult(PymongoNames):
    """What a delete did."""

    deleted: int
    """Documents that are gone, or in the trash."""
    number: int
    """The log number of the batch; of the state that was looked at, if nothing was written."""
    keys: tuple[bytes, ...] = field(default=(), repr=False, compare=False)
    """The ids of the deleted documents as they are stored: JSON."""

    @property
    def deleted_ids(self) -> list[Any]:
        """The ids of the deleted documents, in the order in which they were found."""
        return [json.decode(key, name="document id") for key in self.keys]

    @property
    def acknowledged(self) -> bool:
        """Always: a write that was not done raises."""
        return True

    @property
    def deleted_count(self) -> int:
        """`deleted`, by pymongo's name."""
        return self.deleted


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """What a call did, with what its caller may want to show."""

    matched: int
    modified: int
    number: LogNumber
    before: Any = None
    """What was made of the first document before it changed; None if there was none."""
    after: StoredVersion | None = None
    """The first document as it is now; None if there is none."""
    upserted_id: Any = None
    keys: tuple[bytes, ...] = ()
    """The ids of what changed, as they are stored."""


class Updater(Generic[T]):
    """Carries out changes of what filters find in one collection."""

    def __init__(self, access: Access[T]) -> None:
        """No requests."""
        self._access = access

    def change(
        self, targets: Targets, edit: Edit, by: Author, *, upsert: bool, look: Look = _look_away
    ) -> ChangeResult:
        """Change documents; with `upsert` insert one if there is none. One batch, or none if nothing changes.

        `look` is shown the first document before anything is written. Memory is needed for the changed documents, as
        they were and as they will be. Raises what a commit raises, and ConflictError after many losses.
        """
        seen: list[UniqueViolationError] = []

        def once(view: View, rows: Rows) -> ChangeResult:
            try:
                absent = UpsertGuard(targets.filter, view) if upsert else None
                return self._change(view, rows, edit, by, absent=absent, look=look)
            except UniqueViolationError as error:
                if not upsert or seen:
                    raise
                # Another writer may have inserted a matching document just now: then the next try finds it.
                seen.append(error)
                raise ConflictError(error.what) from error

        return self._settle(edit.verb, targets, once)

    def remove(self, targets: Targets, by: Author, *, look: Look = _look_away) -> ChangeResult:
        """Delete documents, all in one batch. Otherwise as `change`."""
        return self._settle("delete", targets, lambda view, rows: self._remove(view, rows, by, look))

    def _settle(self, verb: str, targets: Targets, once: Try) -> ChangeResult:
        """Try until no other writer was faster."""
        access = self._access
        access.check_mode()
        done = self._at_once(targets, once)
        if done is not None:
            return done
        attempts = access.settings.modify_attempts
        last: ConflictError | None = None
        for losses in range(attempts):
            if losses:
                # Anywhere between nothing and a bound that doubles, so that those who lost do not meet again.
                bound = min(_PAUSE_SECONDS_MAX, _PAUSE_SECONDS_MIN * 2 ** min(losses, 20))
                access.clock.sleep(access.chance.fraction() * bound)
            try:
                return once(*self._find(targets))
            except ConflictError as error:
                if access.session is not None:
                    raise  # its state does not move
                last = error
        raise ConflictError(
            f"{verb} in {access.name}",
            reason=f"another writer changed the same documents {attempts} times in a row",
            fix="retry later, or change fewer documents at once",
        ) from last

    def _at_once(self, targets: Targets, once: Try) -> ChangeResult | None:
        """Change one document by its id as this process knows it; None if that has to be decided by a newer state."""
        view = None if targets.identity is MISSING else self._access.trusted()
        if view is None:
            return None
        try:
            found = _matching(view.get(encode_key(targets.identity)), compile_filter(targets.filter))
            done = once(view, found) if found else None
        except (OutcomeUnknownError, UnavailableError):
            raise
        except WormError:
            return None  # nothing was written; whether that is so now, is not known
        return done if done is not None and done.modified else None

    # --- one try ---

    def _change(
        self, view: View, rows: Rows, edit: Edit, by: Author, *, absent: UpsertGuard | None, look: Look
    ) -> ChangeResult:
        access = self._access
        now = moment(access.clock.now_ms())
        operations: list[Operation] = []
        matched, first, before = 0, None, None
        for held, document in rows:
            if not matched:
                first, before = held, look(held, view.number)
            matched += 1
            shape = self._shape(edit, document, now, ReadVersion(held, view.number, access.writer.origin))
            if shape is not None:
                operations.append(access.writer.prepared("update", document, shape).operation)
        if not matched and absent is not None:
            return self._insert(edit.start(now), absent, by)
        if not operations:
            return ChangeResult(matched, 0, view.number, before, first)
        committed = access.commit(operations, by)
        after = _held(committed.changes[0], committed.number)
        keys = tuple([change.id for change in committed.changes])
        return ChangeResult(matched, len(operations), committed.number, before, after, keys=keys)

    def _remove(self, view: View, rows: Rows, by: Author, look: Look) -> ChangeResult:
        access = self._access
        operations: list[Operation] = []
        before = None
        for held, _ in rows:
            if not operations:
                before = look(held, view.number)
            operations.append(Remove(held.id, ReadVersion(held, view.number, access.writer.origin)))
        if not operations:
            return ChangeResult(0, 0, view.number)
        committed = access.commit(operations, by)
        keys = tuple([change.id for change in committed.changes])
        return ChangeResult(len(operations), len(operations), committed.number, before, keys=keys)

    def _insert(self, values: Document, absent: UpsertGuard, by: Author) -> ChangeResult:
        """Insert what an upsert makes where nothing matched, if that is so when it is committed."""
        access = self._access
        shape = access.writer.shape("insert", values)
        known = None if shape.id is None or shape.fresh else absent.seen.get(id_key(shape.id))
        if absent.seen.definition.expiries:  # a state that a document was looked up in still has what is over
            known = access.ledger.expiry.living(absent.seen, known)
        if shape.id is not None and _is_alive(known):
            raise AlreadyExistsError(
                f"document {shape.values['_id']!r} in {access.name}",
                reason="it exists, and the filter does not match it, so the upsert cannot insert it",
                fix="filter by the id alone, or by what the document has",
                key=shape.id.decode(),
            )
        operation = access.writer.prepared("insert", values, shape).operation
        try:
            committed = access.commit([operation], by, guard=absent)
        except UniqueViolationError:
            raise
        except AlreadyExistsError as error:  # since the state that was looked at
            raise ConflictError(error.what, reason=error.reason) from error
        (change,) = committed.changes
        identity = json.decode(change.id, name="document id")
        return ChangeResult(0, 0, committed.number, None, _held(change, committed.number), identity)

    def _find(self, targets: Targets) -> tuple[View, Rows]:
        """The state now, and what is meant in it; an id in the filter is looked up as in `find_by_id`."""
        access = self._access
        if targets.identity is MISSING:
            view = access.present()
            if access.session is not None:
                access.session.note(targets.filter)
            request = QueryRequest(targets.filter, sort=targets.sort, limit=targets.limit)
            source = EngineSource(view, access.ledger)
            return view, _rows(run(request, source, cache=access.plans, clock=access.clock))
        if access.session is not None:
            view, held = access.seen(json.encode(targets.identity))
        else:
            view, held = access.get(encode_key(targets.identity))
        return view, _matching(held, compile_filter(targets.filter))

    def _shape(self, edit: Edit, document: Document, now: datetime, loaded: ReadVersion) -> EncodedDocument | None:
        """A document as it will be, checked; None if it stays as it is. Raises InvalidRequestError that names it."""
        access = self._access
        after = edit.apply(document, now)
        try:
            # Equal documents may differ in what is stored of them, such as 1 and 1.0; others always do.
            if after == document and json.encode_document(after) == loaded.held.document:
                return None
            shape = access.writer.shape(edit.verb, after, loaded)
        except InvalidRequestError as error:
            raise type(error)(
                f"document {document['_id']!r} in {access.name} cannot be changed: {error.what}",
                reason=error.reason,
                fix=error.fix,
                problems=error.problems,
            ) from error
        return None if shape.is_unchanged else shape


def _rows(hits: Iterator[Hit]) -> Iterator[tuple[StoredVersion, Document]]:
    for hit in hits:
        assert hit.held is not None, "whole documents were asked for"
        yield hit.held, hit.document


def _matching(held: StoredVersion | None, matches: Callable[[Document], bool]) -> list[tuple[StoredVersion, Document]]:
    if held is None or held.document is None:
        return []
    document = json.decode_document(held.document, name=f"document {held.id.decode()}")
    return [(held, document)] if matches(document) else []


def _held(change: LoggedChange, number: LogNumber) -> StoredVersion:
    return StoredVersion(change.id, number, change.seq, change.after)


def _is_alive(held: StoredVersion | None) -> bool:
    return held is not None and held.document is not None
