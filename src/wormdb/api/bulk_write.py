"""Several writes of one collection as pymongo describes them, carried out in order, all of them or none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from wormdb.api.pymongo_names import PymongoNames
from wormdb.errors import InvalidRequestError, WormError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wormdb.api.update import DeleteResult, UpdateResult

__all__ = ["BulkWriteResult", "WritableCollection", "read_requests", "write_all"]


@dataclass(slots=True)
class BulkWriteResult(PymongoNames):
    """What several writes did together."""

    inserted_count: int = 0
    matched_count: int = 0
    modified_count: int = 0
    deleted_count: int = 0
    upserted_ids: dict[int, Any] = field(default_factory=dict)
    """By the place of a request the id of the document that it inserted."""
    acknowledged: bool = True
    """Always: a write that was not done raises."""

    @property
    def upserted_count(self) -> int:
        """How many documents upserts inserted."""
        return len(self.upserted_ids)

    def _add_update(self, place: int, done: UpdateResult) -> None:
        self.matched_count += done.matched
        self.modified_count += done.modified
        if done.upserted_id is not None:
            self.upserted_ids[place] = done.upserted_id


class WritableCollection(Protocol):
    """The calls that requests are made of."""

    def insert(self, document: Any) -> Any: ...  # noqa: D102 - as in a collection
    def update_one(self, filter: Any, update: Any, **options: Any) -> UpdateResult: ...  # noqa: A002, D102 - as there
    def update_many(self, filter: Any, update: Any, **options: Any) -> UpdateResult: ...  # noqa: A002, D102 - as there
    def replace_one(self, filter: Any, replacement: Any, **options: Any) -> UpdateResult: ...  # noqa: A002, D102 - as there
    def delete_one(self, filter: Any, **options: Any) -> DeleteResult: ...  # noqa: A002, D102 - as there
    def delete_many(self, filter: Any, **options: Any) -> DeleteResult: ...  # noqa: A002, D102 - as there


def read_requests(requests: Iterable[Any]) -> list[tuple[str, Any]]:
    """The requests, each with its kind: `InsertOne`, `UpdateOne` and the others of pymongo. No requests to the store.

    Raises InvalidRequestError for none at all, and for what is none of them.
    """
    found = [(type(each).__name__, each) for each in requests]
    for place, (kind, _) in enumerate(found):
        if kind not in _KINDS:
            raise InvalidRequestError(
                f"bulk_write: request {place} is a {kind}", reason="it must be one of pymongo's", fix=", ".join(_KINDS)
            )
    if not found:
        raise InvalidRequestError("bulk_write", reason="it has no requests", fix="give at least one")
    return found


def write_all(collection: WritableCollection, requests: Iterable[tuple[str, Any]]) -> BulkWriteResult:
    """Carry out requests in order; each sees what those before it did. Raises with the place of the one that fails."""
    result = BulkWriteResult()
    for place, (kind, request) in enumerate(requests):
        try:
            _KINDS[kind](collection, request, place, result)
        except WormError as error:
            error.add_note(f"bulk_write: request {place}, {kind}; nothing of it was written")
            raise
    return result


def _insert(collection: WritableCollection, request: Any, _: int, result: BulkWriteResult) -> None:
    collection.insert(request._doc)  # noqa: SLF001 - pymongo's requests have no public fields
    result.inserted_count += 1


def _update(name: str) -> Callable[[WritableCollection, Any, int, BulkWriteResult], None]:
    def act(collection: WritableCollection, request: Any, place: int, result: BulkWriteResult) -> None:
        options = {"upsert": bool(request._upsert), **_sorted(request)}  # noqa: SLF001 - as above
        if (filters := getattr(request, "_array_filters", None)) is not None:
            options["array_filters"] = filters
        done = getattr(collection, name)(request._filter, request._doc, **options)  # noqa: SLF001 - as above
        result._add_update(place, done)  # noqa: SLF001 - one of us

    return act


def _delete(name: str) -> Callable[[WritableCollection, Any, int, BulkWriteResult], None]:
    def act(collection: WritableCollection, request: Any, _: int, result: BulkWriteResult) -> None:
        result.deleted_count += getattr(collection, name)(request._filter).deleted  # noqa: SLF001 - as above

    return act


def _sorted(request: Any) -> dict[str, Any]:
    sort = getattr(request, "_sort", None)
    return {} if sort is None else {"sort": sort}


_KINDS: dict[str, Callable[[WritableCollection, Any, int, BulkWriteResult], None]] = {
    "InsertOne": _insert,
    "UpdateOne": _update("update_one"),
    "UpdateMany": _update("update_many"),
    "ReplaceOne": _update("replace_one"),
    "DeleteOne": _delete("delete_one"),
    "DeleteMany": _delete("delete_many"),
}
