"""A bucket: a collection as the protocol calls it, with what a server remembers of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from wormdb.format.kinds import ObjectId
from wormdb.maintenance.removal import is_absent
from wormdb.server.bucket_options import read_ids
from wormdb.server.faults import being_removed, no_bucket
from wormdb.server.replies import ErrorReply

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.api.collection import Collection
    from wormdb.engine.state.view import View
    from wormdb.server.bucket_options import IdRule
    from wormdb.storage.store import Store

__all__ = ["ServedBucket"]

SEEN_SECONDS: Final = 30.0
"""For which a bucket that was seen is believed to be there: a purge waits longer than that for those that have not seen
its removal."""


class ServedBucket:
    """One bucket. Thread-safe: what it remembers are single values."""

    __slots__ = ("_ids", "_monotonic", "_seen", "collection", "has_model", "name", "prefix")

    def __init__(
        self,
        name: str,
        prefix: str,
        collection: Collection[Any],
        *,
        has_model: bool,
        monotonic: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """There or not: no requests."""
        self._monotonic = monotonic
        self.name = name
        self.prefix = prefix
        self.collection = collection
        self.has_model = has_model
        """Whether documents go by a model, which says what ids they have."""
        self._seen = -math.inf
        self._ids: tuple[IdRule, float] | None = None
        """The rule and when it was read: the bucket may be made anew by another server, with another rule."""

    def takes_any_id(self, store: Store) -> bool:
        """Whether documents may have ids of any type. 1 GET every SEEN_SECONDS. It is there."""
        if self.has_model:
            return True
        now = self._monotonic()
        if self._ids is None or now - self._ids[1] >= SEEN_SECONDS:
            self._ids = read_ids(store, self.prefix), now
        return self._ids[0] == "any"

    @property
    def number(self) -> int:
        """The number of the newest state that this process knows. No requests once it was used."""
        return self.view.number

    @property
    def view(self) -> View:
        """The newest state that this process knows. No requests once it was used."""
        return self.collection._access.ledger.known()  # noqa: SLF001 - this package is a part of the database

    def probe(self) -> int:
        """The number of the newest state; 0 if it is not there. 1 GET, shared. An ErrorReply if it is being removed."""
        now = self._monotonic()
        number = self.collection.refresh()
        view = self.view
        if view.definition.closed is not None:
            self._seen = -math.inf
            raise being_removed(self.name)
        if is_absent(view):
            self._seen = -math.inf
            return 0
        self._seen = now
        return number

    def check_there(self) -> None:
        """An ErrorReply if it is not there, or is being removed. 1 GET every SEEN_SECONDS."""
        if self._monotonic() - self._seen >= SEEN_SECONDS and not self.probe():
            raise no_bucket(self.name)

    def forget(self) -> None:
        """Ask the store whether it is there, and which ids it takes, the next time."""
        self._seen, self._ids = -math.inf, None

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
