"""Transactions over several collections that are prepared in one of them and not finished: what each of them holds.

A prepared transaction changes nothing yet. Until it is finished no other writer may change what it read or will
write, nor read for a write what it will write: so its batch stays as right as it was when it was checked, and
the entry that finishes it is a copy. Two that only read the same hold it both.

Whether it committed is not told by this log but by its record; `Decisions` are those that this process knows.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final

from wormdb.engine.state.view import greatest_sequence, id_key
from wormdb.engine.tree.definition import claims_of
from wormdb.errors import CorruptionError
from wormdb.format import json
from wormdb.format.event import (
    RESERVED,
    BlobCondemned,
    CollectionClosed,
    DocumentErased,
    IndexCreated,
    IndexReady,
    JobAttached,
    ListsCreated,
    SchemaChanged,
    TransactionFinished,
    TransactionPrepared,
)
from wormdb.format.root import PendingTransaction
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from wormdb.engine.state.definition import Definition
    from wormdb.engine.state.view import View
    from wormdb.format.change import LoggedBatch, LoggedChange
    from wormdb.format.event import Event
    from wormdb.format.kinds import Document

__all__ = [
    "WAITING",
    "Decisions",
    "Footprint",
    "Prepared",
    "after_events",
    "carried",
    "from_root",
    "values_of",
    "with_committed",
]

WAITING: Final = (
    SchemaChanged,
    IndexCreated,
    ListsCreated,
    IndexReady,
    JobAttached,
    BlobCondemned,
    DocumentErased,
    CollectionClosed,
    *RESERVED,
)
"""Events after which what a transaction has prepared might not be right: they come when none is pending."""
DECISIONS_MAX: Final = 65_536
"""How many decisions a process remembers; a forgotten one is read again."""


@dataclass(frozen=True)
class Prepared:
    """A transaction that entry `number` of this log prepared. A value."""

    number: LogNumber
    event: TransactionPrepared

    @property
    def id(self) -> str:
        """The transaction."""
        return self.event.tx

    @property
    def batch(self) -> LoggedBatch:
        """What it will write here."""
        return self.event.batch

    @cached_property
    def written(self) -> frozenset[bytes]:
        """The keys of the documents that it will write."""
        return frozenset(id_key(change.id) for change in self.event.batch.changes)

    @cached_property
    def held(self) -> frozenset[bytes]:
        """The keys of the documents that must not change."""
        return self.written | {id_key(identity) for identity in self.event.reads}

    @cached_property
    def sequence(self) -> int:
        """The greatest id made of digits that it writes."""
        return greatest_sequence(change.id for change in self.event.batch.changes)

    @cached_property
    def size(self) -> int:
        """About how many it takes in a root."""
        changes = self.event.batch.changes
        images = sum(len(each.before or b"") + len(each.after or b"") + len(each.trash or b"") for each in changes)
        rest = sum(map(len, self.event.reads)) + sum(map(len, self.event.filters))
        return images + rest + 100 * len(changes) + 300

    def values(self, definition: Definition) -> frozenset[tuple[str, bytes]]:
        """The values of unique indexes that it gives up or takes, by the name of the index."""
        return values_of(self.event.batch.changes, definition)

    def stands_before(self, touched: Footprint, definition: Definition) -> bool:
        """Whether what a batch touches is held by it. No requests."""
        if not self.held.isdisjoint(touched.written) or not self.written.isdisjoint(touched.read):
            return True
        if self.written and (touched.reads_all or any(_finds(text, self.batch.changes) for text in touched.filters)):
            return True
        if touched.changes and any(_finds(text, touched.changes) for text in self.event.filters):
            return True
        if not touched.changes or not self.batch.changes or not definition.unique:
            return False
        return not self.values(definition).isdisjoint(values_of(touched.changes, definition))


@dataclass(slots=True)
class Footprint:
    """What a batch reads and writes of one collection, as far as it is known."""

    written: set[bytes] = field(default_factory=set)
    """Keys of documents."""
    read: set[bytes] = field(default_factory=set)
    filters: tuple[str, ...] = ()
    """As canonical JSON."""
    reads_all: bool = False
    """Whether it may have read anything."""
    changes: Sequence[LoggedChange] = ()


def values_of(changes: Iterable[LoggedChange], definition: Definition) -> frozenset[tuple[str, bytes]]:
    """The values of unique indexes that some changes give up or take, by the name of the index."""
    if not definition.unique:
        return frozenset()
    documents = [_decoded(image) for change in changes for image in (change.before, change.after) if image is not None]
    return frozenset(
        (index.name, value) for index in definition.unique for each in documents for value in claims_of(index, each)
    )


def after_events(
    pending: tuple[Prepared, ...], events: Iterable[Event], number: LogNumber, *, collection: str
) -> tuple[Prepared, ...]:
    """What is pending after the events of entry `number`: the same object if they tell nothing of transactions.

    Raises CorruptionError for one that cannot come now.
    """
    for event in events:
        if isinstance(event, TransactionFinished):
            rest = tuple(one for one in pending if one.id != event.tx)
            if len(rest) == len(pending):
                reason = f"it finishes transaction {event.tx}, which is not prepared"
                raise CorruptionError(f"log entry {number} of {collection}", reason=reason)
            pending = rest
    prepared = [event for event in events if isinstance(event, TransactionPrepared)]
    return (*pending, *(Prepared(number, event) for event in prepared)) if prepared else pending


def from_root(found: Iterable[PendingTransaction]) -> tuple[Prepared, ...]:
    """As a root has them."""
    return tuple(Prepared(LogNumber(each.number), each.prepared) for each in found)


def carried(pending: Iterable[Prepared]) -> tuple[PendingTransaction, ...]:
    """As a root has them."""
    return tuple(PendingTransaction(number=each.number, prepared=each.event) for each in pending)


def with_committed(view: View, committed: AbstractSet[str]) -> View:
    """A state with what those of its pending transactions write that have committed. No requests."""
    shown = [one for one in view.pending if one.id in committed]
    if not shown:
        return view
    changes = [change for one in shown for change in one.batch.changes]
    return replace(view.on_top(changes), committed=frozenset(one.id for one in shown))


class Decisions:
    """Which transactions are known to have committed, or not. What is decided never changes. Thread-safe."""

    def __init__(self) -> None:
        """None is known."""
        self.count = 0
        """How many were learned so far."""
        self._known: dict[str, bool] = {}
        self._learned: dict[str, int] = {}
        self._met: dict[str, float] = {}
        self.own: set[str] = set()
        """Those that this process is about to decide: what only waits for them is told by `learn`."""
        self.unsent: set[str] = set()
        """Those of them of which it has not begun to say that they committed: so they certainly have not."""
        self._lock = threading.Lock()

    def __call__(self, transaction: str) -> bool | None:
        """Whether it committed; None if that is not known here."""
        return self._known.get(transaction)

    def learn(self, transaction: str, *, committed: bool) -> None:
        """Know what became of it."""
        with self._lock:
            if transaction not in self._known:
                self._learned[transaction] = self.count
                self.count += 1
            self._known[transaction] = committed
            self._met.pop(transaction, None)
            if len(self._known) > DECISIONS_MAX:
                for old in list(self._known)[: DECISIONS_MAX // 2]:
                    del self._known[old], self._learned[old]

    def known_before(self, transaction: str, count: int) -> bool:
        """Whether a decision was among the first `count` that were learned."""
        return self._learned.get(transaction, self.count) < count

    def met(self, transaction: str, now: float) -> float:
        """When this process first met a transaction that was not decided, on its monotonic clock: `now` if new."""
        with self._lock:
            if len(self._met) > DECISIONS_MAX:
                self._met.clear()
            return self._met.setdefault(transaction, now)


def _finds(text: str, changes: Iterable[LoggedChange]) -> bool:
    """Whether a filter matches a document before or after one of some changes."""
    matches = _matcher(text)
    images = (image for change in changes for image in (change.before, change.after))
    return any(matches(_decoded(image)) for image in images if image is not None)


@lru_cache(maxsize=1_024)
def _matcher(text: str) -> Callable[[Document], bool]:
    from wormdb.bql.match import compile_filter  # only filters that were read need the query language
    from wormdb.bql.parse import parse_filter

    return compile_filter(parse_filter(json.parse(text, operators=True)))


def _decoded(image: bytes) -> Document:
    return json.decode_document(image, name="document")
