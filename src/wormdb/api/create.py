"""An empty collection, with its indexes, by one entry of the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from wormdb.engine.commit.define import create_index
from wormdb.engine.commit.operations import Guards, Pending
from wormdb.errors import AlreadyExistsError, InvalidRequestError, RemovedError
from wormdb.format.event import IndexCreated, ListsCreated, Nothing
from wormdb.maintenance.removal import is_absent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.api.collection import Collection
    from wormdb.engine.state.view import View
    from wormdb.engine.tree.definition import Index

__all__ = ["create_collection", "create_indexes"]

T = TypeVar("T")


def create_collection(collection: Collection[Any], indexes: Sequence[Index] = ()) -> int:
    """Make a collection that is not there yet; its indexes are ready at once. Returns its first log number.

    A collection of a model gets the model's definition. 1 GET and 1 PUT. Raises AlreadyExistsError if it is there, also
    if another process was faster; RemovedError if it was removed and not purged yet; InvalidRequestError for an index
    that cannot be. Nothing is written then.
    """
    access = collection._access  # noqa: SLF001 - this package is the collection's
    access.check_mode()
    seen = access.present()
    absent = _Absent(collection.prefix.rstrip("/"))
    absent.check(seen)
    events = [
        type(event)(name=event.name, definition=event.definition, empty=True)
        for index in _distinct(indexes)
        for event in create_index("", index, seen=seen).events
        if isinstance(event, IndexCreated | ListsCreated)
    ]
    first = access.writer.first_events(seen)
    guard = Guards.of(absent, access.writer.guard((), first))
    pending = Pending(
        access.ledger.batch_id(),
        # An entry has something in it: a collection that is only there has nothing else.
        events=(*first, *events) or (Nothing(),),
        actor=access.author.actor,
        guard=guard,
        body=access.writer.definition,
    )
    if first:
        access.home.publish()
    return access.ledger.commit(pending, seconds=access.settings.commit_seconds).number


def create_indexes(collection: Collection[Any], indexes: Sequence[Index]) -> None:
    """Make indexes, which wait to be built, by one entry: all or none. 1 GET and 1 PUT; a scan for unique ones.

    Raises AlreadyExistsError, InvalidRequestError, as `Collection.create_index`. Nothing is written then.
    """
    access = collection._access  # noqa: SLF001 - this package is the collection's
    access.check_mode()
    seen = access.present()
    made = [create_index("", index, seen=seen) for index in _distinct(indexes)]
    pending = Pending(
        access.ledger.batch_id(),
        events=tuple(event for each in made for event in each.events),
        actor=access.author.actor,
        guard=Guards.of(*(each.guard for each in made)),
    )
    access.ledger.commit(pending, seconds=access.settings.commit_seconds)


def _distinct(indexes: Sequence[Index]) -> Sequence[Index]:
    names = [index.name for index in indexes]
    for name in names:
        if names.count(name) > 1:
            raise InvalidRequestError(f"index {name}", reason="two indexes have this name", fix="name each once")
    return indexes


@dataclass(frozen=True, slots=True)
class _Absent:
    """Refuses a collection that is there."""

    name: str

    def check(self, view: View) -> None:
        if view.definition.closed is not None:
            raise RemovedError(f"collection {self.name}", reason="it is being removed", fix="purge it first")
        if not is_absent(view):
            raise AlreadyExistsError(f"collection {self.name}", reason=f"it is there, at log number {view.number}")
