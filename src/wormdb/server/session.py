"""What a connection has beside its socket: who it is, a namespace, attributes, cursors, at most one transaction."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from wormdb.server.accounts import EVERYTHING_ALLOWED
from wormdb.server.faults import no_bucket
from wormdb.server.replies import ErrorReply

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wormdb.api.collection import Collection
    from wormdb.api.transaction import Transaction, TransactionCollection
    from wormdb.server.accounts import Account
    from wormdb.server.buckets import ServedBucket
    from wormdb.server.routing import CommitHere, HandedWrite
    from wormdb.server.service import Service

    ServedCollection = Collection[Any] | TransactionCollection[Any]

__all__ = [
    "CURSORS_MAX",
    "GLOBAL",
    "Attributes",
    "BatchSource",
    "ClientSession",
    "CursorKind",
    "SessionCursor",
    "SessionTransaction",
]

GLOBAL: Final = "global"
"""The namespace in which sessions begin: the root of the database."""

CURSORS_MAX: Final = 1_000
"""Of one session. The oldest is given up for a new one: many clients never close what they have read to its end."""

CursorKind = Literal["QUERY", "UPDATE", "DELETE"]


@dataclass(slots=True)
class Attributes:
    """How a session wants its documents."""

    reply_type: Literal["bson", "json"] = "bson"
    input_type: Literal["bson", "json"] = "bson"
    limit: int = 100
    object_id_format: Literal["bytes", "hex"] = "bytes"


class BatchSource(Protocol):
    """What a cursor goes on with."""

    @property
    def is_over(self) -> bool:
        """Whether it is known that nothing follows the last batch."""
        ...

    def next_batch(self) -> list[Any]:
        """The next rows of the reply; none exactly at the end."""
        ...

    def close(self) -> None:
        """Give up what it holds."""
        ...


@dataclass(slots=True)
class SessionCursor:
    """One cursor of a session."""

    kind: CursorKind
    filter: Callable[[], bytes]
    """Gives it as JSON."""
    bucket: ServedBucket
    source: BatchSource | None
    """None once its end was reached."""

    def close(self) -> None:
        """Give up what it holds."""
        if self.source is not None:
            self.source.close()
            self.source = None


@dataclass(slots=True)
class SessionTransaction:
    """The transaction of a session."""

    open: Transaction
    cursors: list[int] = field(default_factory=list)
    """Ids of those that it reads: they end with it."""


@dataclass(slots=True)
class ClientSession:
    """One connection, as commands see it. One command at a time works with it."""

    service: Service
    id: int
    address: str
    version: int = 2
    """Of the protocol."""
    account: Account = EVERYTHING_ALLOWED
    is_known: bool = True
    """Whether it may do anything; False until it has said who it is, where that is needed."""
    name: str = ""
    library: dict[str, str] = field(default_factory=dict)
    namespace: str = GLOBAL
    attributes: Attributes = field(default_factory=Attributes)
    cursors: OrderedDict[int, SessionCursor] = field(default_factory=OrderedDict)
    transaction: SessionTransaction | None = None
    is_snapshot_read: bool = False
    """Whether what transactions only read is left out of the check for conflicts."""
    fresh: dict[str, int] = field(default_factory=dict)
    """By folder a log number that is not older than the commands at hand."""
    made: int = 0
    """Cursors that were made so far."""
    is_ending: bool = False
    """Whether the connection is closed after the reply at hand."""
    began: float = 0.0
    used: float = 0.0
    command: str = ""
    """The name of the last command."""
    bounds_changed: Callable[[], None] | None = None
    peers: Mapping[int, ClientSession] = field(default_factory=dict)
    """All sessions of the server."""
    _named: tuple[bytes, str, ServedBucket] | None = None
    """The bucket that was asked for last: a command asks twice, and the next one mostly for the same."""

    def bucket(self, name: bytes) -> ServedBucket:
        """A bucket of its namespace, there or not. No requests. An ErrorReply for a name that none can have."""
        last = self._named
        if last is not None and last[0] == name and last[1] == self.namespace:
            return last[2]
        found = self.service.bucket(self.namespace, name)
        self._named = name, self.namespace, found
        return found

    def collection(self, bucket: ServedBucket) -> ServedCollection:
        """The collection of a bucket as this session sees it: in its transaction, if it has one."""
        return bucket.collection if self.transaction is None else self.transaction.open[bucket.collection]

    def write(self, bucket: ServedBucket, handed: HandedWrite, here: CommitHere) -> list[Any]:
        """Commit a write, by the server where writers of its bucket meet; the ids of what it wrote.

        In a transaction it is written `here`: that commits where it began. Costs and raises as `WriteRouter.write`.
        """
        if self.transaction is not None:
            return here(None)
        return self.service.route(bucket, handed, here)

    def fresh_number(self, bucket: ServedBucket) -> int:
        """The number of a state that is not older than the command at hand. An ErrorReply if the bucket is not there.

        No requests if the loop has asked; else 1 GET.
        """
        number = self.fresh.get(bucket.prefix)
        if number is None:
            number = self.fresh[bucket.prefix] = bucket.probe()
        if not number:
            raise no_bucket(bucket.name)
        return number

    def begin(self) -> None:
        """Be who sessions are at first, with the attributes that the server gives them."""
        self.attributes = Attributes("json", "json", object_id_format="hex") if self.service.is_json else Attributes()
        self.account, self.is_known = EVERYTHING_ALLOWED, self.service.is_open
        if self.bounds_changed is not None:
            self.bounds_changed()

    def admit(self, account: Account) -> None:
        """Go on as an account; what another one had open is given up."""
        if self.account != account:
            self.close_all()
        self.account, self.is_known = account, True
        if self.bounds_changed is not None:
            self.bounds_changed()

    def keep(self, cursor: SessionCursor) -> int:
        """Give a cursor its id; the oldest one goes if there are too many."""
        self.made += 1
        self.cursors[self.made] = cursor
        if self.transaction is not None:
            self.transaction.cursors.append(self.made)
        if len(self.cursors) > CURSORS_MAX:
            _, oldest = self.cursors.popitem(last=False)
            oldest.close()
        return self.made

    def cursor(self, kind: CursorKind, number: int) -> SessionCursor:
        """A cursor by its id; an ErrorReply if there is none of this kind."""
        found = self.cursors.get(number)
        if found is None or found.kind != kind:
            raise ErrorReply(f"No previous query context found for '{kind.lower()}' operation with the given cursor id")
        return found

    def close_all(self) -> None:
        """Give up cursors and the transaction."""
        for cursor in self.cursors.values():
            cursor.close()
        self.cursors.clear()
        self.end_transaction()

    def end_transaction(self) -> None:
        """Give up the transaction, if it has not committed, and the cursors that it read."""
        transaction, self.transaction = self.transaction, None
        if transaction is not None:
            transaction.open.rollback()
            for number in transaction.cursors:
                cursor = self.cursors.pop(number, None)
                if cursor is not None:
                    cursor.close()

    def reset(self) -> None:
        """Be as new, but for the version of the protocol."""
        self.close_all()
        self.made = 0
        self.is_snapshot_read = False
        self.namespace = GLOBAL
        self.fresh.clear()
        self.begin()
