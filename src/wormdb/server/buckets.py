"""A bucket: a collection as the protocol calls it, with what a server remembers of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wormdb.format.kinds import ObjectId
from wormdb.server.bucket_options import read_ids
from wormdb.server.faults import no_bucket
from wormdb.server.replies import ErrorReply

if TYPE_CHECKING:
    from wormdb.api.collection import Collection
    from wormdb.server.bucket_options import IdRule
    from wormdb.storage.store import Store

__all__ = ["ServedBucket"]


class ServedBucket:
    """One bucket. Thread-safe: what it remembers only grows."""

    __slots__ = ("_ids", "_is_there", "collection", "has_model", "name", "prefix")

    def __init__(self, name: str, prefix: str, collection: Collection[Any], *, has_model: bool) -> None:
        """There or not: no requests."""
        self.name = name
        self.prefix = prefix
        self.collection = collection
        self.has_model = has_model
        """Whether documents go by a model, which says what ids they have."""
        self._is_there = False
        self._ids: IdRule | None = None

    def takes_any_id(self, store: Store) -> bool:
        """Whether documents may have ids of any type. 1 GET, once. It is there."""
        if self._ids is None:
            self._ids = "any" if self.has_model else read_ids(store, self.prefix)
        return self._ids == "any"

    def probe(self) -> int:
        """The number of the newest state. 1 GET, shared."""
        number = self.collection.refresh()
        if number:
            self._is_there = True
        return number

    def check_there(self) -> None:
        """An ErrorReply if it is not there. 1 GET until it is."""
        if not self._is_there and not self.probe():
            raise no_bucket(self.name)

    def identified(self, document: dict[str, Any], make: Any, store: Store) -> dict[str, Any]:
        """A document to be inserted, with its id: a new ObjectId if it has none. ErrorReply for a wrong one.

        1 GET for the first document that has an id of its own of another type.
        """
        if "_id" not in document and "id" not in document:
            return document if self.has_model else {"_id": make(), **document}
        identity = document.get("_id", document.get("id"))
        if not isinstance(identity, ObjectId) and not self.takes_any_id(store):
            raise ErrorReply("_id field must be of type ObjectId")
        return document
