"""Deleted documents that can be restored, as users see them. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wormdb.engine.history.tombstone import Tombstone, read_tombstone, tombstone
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from wormdb.engine.state.view import Held, View
    from wormdb.schema.model import Model

__all__ = ["Tombstone", "Trashed", "check_trash", "read_tombstone", "tombstone", "trashed_in"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Trashed(Generic[T]):
    """A document in the trash."""

    id: Any
    deleted_at: datetime
    deleted_by: str | None
    """The actor of the delete."""
    expires_at: datetime | None
    """From when on `purge_expired` removes it; None if it stays for ever."""
    document: T
    """As it was when it was deleted."""


def trashed_in(view: View) -> Iterator[Held]:
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
