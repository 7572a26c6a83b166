"""The trash of one collection: what lies in it, and the two ways out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wormdb.engine.commit.operations import Purge, ReadVersion, Restore
from wormdb.engine.history.tombstone import read_tombstone
from wormdb.engine.state.view import StoredVersion, View, id_key
from wormdb.errors import AlreadyExistsError, ConflictError, InvalidRequestError, NotFoundError, UniqueViolationError
from wormdb.format import json
from wormdb.format.wrappers import moment
from wormdb.settings import PURGE_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from wormdb.api.access import Access
    from wormdb.api.calls import Author
    from wormdb.schema.model import Model

__all__ = ["Trashcan", "TrashedDocument", "check_trash", "scan_trash"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TrashedDocument(Generic[T]):
    """A document in the trash."""

    id: Any
    deleted_at: datetime
    deleted_by: str | None
    """The actor of the delete."""
    expires_at: datetime | None
    """From when on `purge_expired` removes it; None if it stays for ever."""
    document: T
    """As it was when it was deleted."""


def scan_trash(view: View) -> Iterator[StoredVersion]:
    """Everything that is in the trash in a view, in order of id. Costs as `View.scan_trashed`."""
    return (held for _, held in view.scan_trashed())


def check_trash(model: Model | None, name: str) -> None:
    """Raise InvalidRequestError if deleted documents of a collection do not go to a trash. No requests."""
    if model is None:
        raise InvalidRequestError(
            f"Soft delete is not enabled for {name}",
            reason="the collection has no model",
            fix='give it a model with "softDelete": true',
        )
    if not model.soft_delete.enabled:
        raise InvalidRequestError(
            f"Soft delete is not enabled for {name}", fix='set "softDelete": true in the model, and apply the schema'
        )


@dataclass(frozen=True, slots=True)
class Trashcan(Generic[T]):
    """Where deleted documents of a model with softDelete go."""

    access: Access[T]

    def contents(self) -> list[TrashedDocument[T]]:
        """Everything in it, in order of id."""
        return [self._shown(held) for held in scan_trash(self._view())]

    def restore(self, identity: Any, by: Author) -> T:
        """Bring a document back as it was when it was deleted."""
        access = self.access
        encoded = access.writer.encoded_id(identity)
        self._check_enabled()
        what = f"Cannot restore {identity!r}"
        self._check_shown(encoded)
        try:
            committed = access.commit([Restore(encoded)], by)
        except UniqueViolationError:
            raise
        except AlreadyExistsError as error:
            raise AlreadyExistsError(
                what, reason="an entity with this ID already exists", fix="delete that one first", key=error.key
            ) from error
        except NotFoundError as error:
            raise NotFoundError(what, reason=error.reason, fix="see list_trashed", key=error.key) from error
        (change,) = committed.changes
        return access.writer.show(
            StoredVersion(change.id, committed.number, change.seq, change.after), committed.number
        )

    def _check_shown(self, encoded: bytes) -> None:
        """Refuse what a class cannot show before it is restored. What the commit looks up too, and only for a class."""
        if self.access.writer.is_typed:
            held = self.access.ledger.known().get(id_key(encoded))
            if held is not None and held.trash is not None:
                self.access.writer.check_shown(read_tombstone(held).document)

    def purge(self, identity: Any, by: Author) -> None:
        """Take a document out for good."""
        encoded = self.access.writer.encoded_id(identity)
        self._check_enabled()
        try:
            self.access.commit([Purge(encoded)], by)
        except NotFoundError as error:
            raise NotFoundError(
                f"Cannot purge {identity!r}", reason=error.reason, fix="see list_trashed", key=error.key
            ) from error

    def purge_expired(self, by: Author) -> list[Any]:
        """Take out everything whose time is over; returns the ids."""
        now = moment(self.access.clock.now_ms())

        def is_over(held: StoredVersion) -> bool:
            expires_at = read_tombstone(held).expires_at
            return expires_at is not None and expires_at <= now

        return self._purge_all(is_over, by)

    def empty(self, by: Author) -> list[Any]:
        """Take out everything; returns the ids."""
        return self._purge_all(lambda _: True, by)

    def _purge_all(self, wanted: Callable[[StoredVersion], bool], by: Author) -> list[Any]:
        purged: list[Any] = []
        for _ in range(self.access.settings.modify_attempts):
            view = self._view()
            found = [held for held in scan_trash(view) if wanted(held)]
            try:
                for start in range(0, len(found), PURGE_MAX):
                    group = found[start : start + PURGE_MAX]
                    self.access.commit([Purge(held.id, ReadVersion(held, view.number)) for held in group], by)
                    purged += [json.decode(held.id, name="document id") for held in group]
            except ConflictError:
                continue  # another writer took one of them out, or deleted it anew: look again
            return purged
        raise ConflictError(f"the trash of {self.access.name}", reason="others took documents out all the time")

    def _shown(self, held: StoredVersion) -> TrashedDocument[T]:
        found = read_tombstone(held)
        return TrashedDocument(
            id=json.decode(held.id, name="document id"),
            deleted_at=found.deleted_at,
            deleted_by=found.deleted_by,
            expires_at=found.expires_at,
            document=self.access.writer.show_past(StoredVersion(held.id, held.rev, held.seq, found.document)),
        )

    def _view(self) -> View:
        view = self.access.present()
        self._check(view)
        return view

    def _check_enabled(self) -> None:
        """No requests if soft delete is known to be enabled, else 1 GET."""
        model = self.access.writer.in_force(self.access.ledger.known())
        if model is None or not model.soft_delete.enabled:
            self._view()

    def _check(self, view: View) -> None:
        check_trash(self.access.writer.in_force(view), self.access.name)
