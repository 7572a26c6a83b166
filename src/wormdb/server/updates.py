"""Updates and deletes by batches: which documents is decided by one state, and each batch is one commit at most.

The ids that a filter finds are read from one state, as the batches of a query are. A batch changes those of them that
still match when it is committed, so that no document is changed twice, whatever order was asked for and whatever the
update does to it. Where a whole batch has nothing to change, the next one is taken: an empty reply is the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

from wormdb.errors import WormError
from wormdb.format import json
from wormdb.format.kinds import MISSING
from wormdb.query.change import Operators, Targets
from wormdb.server.documents import read_filter, show_ids
from wormdb.server.replies import ErrorReply
from wormdb.server.routing import HandedWrite

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wormdb.api.update import UpdateResult
    from wormdb.server.buckets import ServedBucket
    from wormdb.server.options import QueryOptions
    from wormdb.server.session import ClientSession, ServedCollection

__all__ = ["ChangeBatches", "RowBatches", "RowParts", "WireUpdate", "read_update", "upserted"]

_ARRAY_FILTERS: Final = "array_filters"
_UPSERT: Final = "upsert"


@dataclass(frozen=True, slots=True)
class WireUpdate:
    """An update as a client sent it, checked."""

    operators: Mapping[str, Any]
    array_filters: list[Mapping[str, Any]] | None
    upsert: bool
    is_identified: bool
    """Whether the filter asks for one id, which an upsert gives its document."""


def read_update(data: bytes, tree: Mapping[str, Any]) -> WireUpdate:
    """The update of a command whose filter is `tree`. An ErrorReply for one that cannot be."""
    if not data:
        raise ErrorReply("update parameter cannot be empty")
    operators: dict[str, Any] = {}
    array_filters, upsert = None, False
    for name, value in read_filter(data).items():
        match name.lower():
            case "array_filters":
                array_filters = _array_filters(value)
            case "upsert":
                if not isinstance(value, bool):
                    raise ErrorReply("upsert must be a boolean")
                upsert = value
            case lower:
                operators[lower if lower in ("$set", "$unset") else name] = value
    _settle(operators)
    targets = Targets.of(tree)
    try:
        Operators.of(operators, targets.filter, array_filters)
    except WormError as error:
        raise ErrorReply(str(error)) from error
    return WireUpdate(operators, array_filters, upsert, targets.identity is not MISSING)


def _array_filters(value: Any) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise ErrorReply("array_filters element must be a document")
    if any(len(each) != 1 for each in value):
        raise ErrorReply("Array filter document must have exactly one key (the identifier)")
    return value


def _settle(operators: dict[str, Any]) -> None:
    """Bring $set and $unset into the forms of MongoDB; what is unset is not set."""
    unset = operators.get("$unset")
    if isinstance(unset, list):
        for name in unset:
            if not isinstance(name, str):
                raise ErrorReply(f"unset key must be a string, got: {name!r:.60}")
        operators["$unset"] = unset = dict.fromkeys(unset, "")
    changed = operators.get("$set")
    if isinstance(changed, dict) and "_id" in changed:
        raise ErrorReply("_id field is immutable and cannot be modified with $set")
    if isinstance(unset, dict) and "_id" in unset:
        raise ErrorReply("_id field is immutable and cannot be modified with $unset")
    if isinstance(changed, dict) and isinstance(unset, dict):
        operators["$set"] = {name: value for name, value in changed.items() if name not in unset}
    for name in ("$set", "$unset"):
        if operators.get(name) == {}:
            del operators[name]


def upserted(done: UpdateResult) -> list[Any]:
    """The ids of what an update changed, or of what it inserted."""
    return done.modified_ids if done.upserted_id is None else [done.upserted_id]


class RowBatches(Protocol):
    """Rows, some at a time; fewer than `batch_size` at the end."""

    @property
    def batch_size(self) -> int:
        """How many there are at a time."""
        ...

    def next_batch(self) -> list[Any]:
        """The next rows."""
        ...

    def close(self) -> None:
        """Give up what it holds."""
        ...


class RowParts:
    """The rows of a transaction, which has no cursors, some at a time: of its state when they were asked for."""

    def __init__(self, rows: Iterator[Any], batch_size: int) -> None:
        """Rows are read when they are wanted."""
        self._rows = rows
        self.batch_size = batch_size

    def next_batch(self) -> list[Any]:
        """The next rows."""
        return list(islice(self._rows, self.batch_size))

    def close(self) -> None:
        """Read no more."""
        self._rows = iter(())


class ChangeBatches:
    """The batches of an update, or of a delete if there is no update. For one thread at a time."""

    def __init__(
        self,
        bucket: ServedBucket,
        tree: Mapping[str, Any],
        update: WireUpdate | None,
        options: QueryOptions,
        session: ClientSession,
        words: Sequence[bytes],
    ) -> None:
        """`words` are those of the command, for another server. No requests."""
        self._words = [words[2], b"" if update is None else words[3]]
        self._bucket = bucket
        self._session = session
        self._tree = tree
        self._update = update
        self._options = options
        self._make = None if bucket.has_model else session.service.object_id
        self._found: RowBatches | None = None
        self.is_over = False
        """Whether it is known that nothing follows the last batch."""

    @property
    def _collection(self) -> ServedCollection:
        """As the session sees it now: a batch is a part of the transaction in which it is asked for."""
        return self._session.collection(self._bucket)

    def next_batch(self) -> list[Any]:
        """The ids of what the next batch changed; none at the end. What finding them costs, and 1 PUT at most."""
        is_first = self._found is None
        if self._found is None:
            limit, sort = self._options.limit, self._options.sort
            if self._session.transaction is None:
                plain = self._bucket.collection
                self._found = plain.cursor(self._tree, sort=sort, select=["_id"], batch_size=limit)
            else:
                # All of them before the first is changed: in a transaction changes are seen at once.
                found = self._collection.find(self._tree, sort=sort, select=["_id"]).to_list()
                self._found = RowParts(iter(found), limit)
        while rows := self._found.next_batch():
            is_first = False
            changed = self._change([row["id"] for row in rows])
            if changed:
                return show_ids(changed, self._session.attributes.object_id_format)
        if is_first and self._update is not None and self._update.upsert:
            return show_ids(self._upsert(self._update), self._session.attributes.object_id_format)
        return []

    def _change(self, ids: list[Any]) -> list[Any]:
        tree = {"$and": [self._tree, {"_id": {"$in": ids}}]}
        update, sort = self._update, self._options.sort

        def here(metadata: Mapping[str, Any] | None) -> list[Any]:
            more: Any = {} if metadata is None else {"metadata": metadata}
            if update is None:
                return self._collection.delete_many(tree, **more).deleted_ids
            return self._collection.update_many(
                tree, update.operators, array_filters=update.array_filters, sort=sort, **more
            ).modified_ids

        kind = b"DELETE" if update is None else b"UPDATE"
        handed = HandedWrite(lambda: [kind, *self._words, json.encode(sort), json.encode(ids)])
        return self._session.write(self._bucket, handed, here)

    def _upsert(self, update: WireUpdate) -> list[Any]:
        operators = update.operators
        inserted = operators.get("$setOnInsert", {})
        if self._make is not None and not update.is_identified and isinstance(inserted, dict):
            operators = {**operators, "$setOnInsert": {"_id": self._make(), **inserted}}

        def here(metadata: Mapping[str, Any] | None) -> list[Any]:
            more: Any = {} if metadata is None else {"metadata": metadata}
            return upserted(
                self._collection.update_many(
                    self._tree,
                    operators,
                    array_filters=update.array_filters,
                    upsert=True,
                    limit=self._options.limit,
                    **more,
                )
            )

        made = operators.get("$setOnInsert", {}).get("_id") if self._make is not None else None
        limit = b"%d" % self._options.limit
        handed = HandedWrite(lambda: [b"UPSERT", *self._words, limit, json.encode(made)])
        return self._session.write(self._bucket, handed, here)

    def close(self) -> None:
        """Give up what it holds."""
        if self._found is not None:
            self._found.close()
