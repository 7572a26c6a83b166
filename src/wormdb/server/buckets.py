"""A bucket: a collection as the protocol calls it, with what a server remembers of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wormdb.format.kinds import ObjectId
from wormdb.server.faults import no_bucket
from wormdb.server.replies import ErrorReply

if TYPE_CHECKING:
    from wormdb.api.collection import Collection

__all__ = ["ServedBucket"]


class ServedBucket:
    """One bucket. Thread-safe: what it remembers only grows."""

    __slots__ = ("_is_there", "collection", "has_model", "name", "prefix")

    def __init__(self, name: str, prefix: str, collection: Collection[Any], *, has_model: bool) -> None:
        """There or not: no requests."""
        self.name = name
        self.prefix = prefix
        self.collection = collection
        self.has_model = has_model
        """Whether documents go by a model, which says what ids they have."""
        self._is_there = False

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

    def identified(self, document: dict[str, Any], make: Any) -> dict[str, Any]:
        """A document to be inserted, with its id: a new ObjectId if it has none. ErrorReply for a wrong one."""
        if "_id" not in document and "id" not in document:
            return document if self.has_model else {"_id": make(), **document}
        identity = document.get("_id", document.get("id"))
        if not self.has_model and not isinstance(identity, ObjectId):
            raise ErrorReply("_id field must be of type ObjectId")
        return document
