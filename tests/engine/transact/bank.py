"""What the tests of transactions share: processes on one bucket that move money between accounts of collections."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tests.engine.rig import doc, ident
from wormdb.engine.commit.operations import Insert, Pending, Prepare, ReadVersion, Save
from wormdb.engine.commit.reads import ReadSet
from wormdb.engine.ledger import Ledger, Runtime, TailLimits
from wormdb.engine.log.clock import MiscClock
from wormdb.engine.state.view import id_key
from wormdb.engine.transact.coordinator import Participant
from wormdb.format import json
from wormdb.format.transaction import new_transaction_id
from wormdb.storage.memory import MemoryStore
from wormdb.storage.pool import SerialPool
from wormdb.system.clock import ManualClock, SeededChance
from wormdb.testing.fault_store import FaultStore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wormdb.engine.commit.operations import Operation
    from wormdb.engine.state.view import View
    from wormdb.engine.transact.coordinator import TransactionResult
    from wormdb.format.event import Event
    from wormdb.storage.store import Store

__all__ = ["FIRST", "NAMES", "Bank", "Process", "balance", "balances"]

NAMES = ("east/", "west/")
FIRST = 100
"""What each account has at first."""


def balance(view: View, name: str = "x") -> int | None:
    """What a state has of an account; None if there is none."""
    held = view.get(id_key(ident(name)))
    if held is None or held.document is None:
        return None
    value = json.decode_document(held.document, name="document")["n"]
    assert isinstance(value, int)
    return value


@dataclass
class Process:
    """One process: its own knowledge, perhaps its own store, in front of the same bucket."""

    runtime: Runtime
    ledgers: dict[str, Ledger] = field(default_factory=dict)

    def __getitem__(self, collection: str) -> Ledger:
        if collection not in self.ledgers:
            self.ledgers[collection] = self.runtime.open(collection)
        return self.ledgers[collection]

    def view(self, collection: str) -> View:
        """What a reader of it sees now."""
        return self[collection].view()

    def batch(self, *operations: Operation, **more: Any) -> Pending:
        """A batch with an id of its own."""
        return Pending(self.runtime.batch_id(), operations, **more)

    def put(self, collection: str, name: str, n: int) -> int:
        """Write an account without looking; the entry."""
        return self[collection].commit(self.batch(Save(ident(name), doc(name, n=n)))).number

    def tell(self, collection: str, *events: Event, **more: Any) -> int:
        """Commit events; the entry."""
        return self[collection].commit(self.batch(events=events, **more)).number

    def adds(self, collection: str, amounts: Mapping[str, int], filters: Sequence[Any] = ()) -> Participant:
        """What it takes to add to accounts of a collection, as they are now; 0 only reads."""
        ledger = self[collection]
        seen = ledger.view()
        operations: list[Operation] = []
        ids: dict[bytes, int] = {}
        for name, amount in amounts.items():
            held = seen.get(id_key(ident(name)))
            ids[ident(name)] = 0 if held is None else held.seq
            if held is None or held.document is None:
                operations += [Insert(ident(name), doc(name, n=amount))] if amount else []
            elif amount:
                n = json.decode_document(held.document, name="document")["n"] + amount
                operations.append(Save(ident(name), doc(name, n=n), ReadVersion(held, seen.number)))
        pending = self.batch(*operations) if operations else None
        return Participant(ledger, pending, ReadSet(seen, ids, tuple(filters)))

    def move(
        self, amount: int = 1, source: str = NAMES[0], target: str = NAMES[1], name: str = "x"
    ) -> TransactionResult:
        """Move money from an account to the one of the same name in another collection."""
        return self.commit(self.adds(source, {name: -amount}), self.adds(target, {name: amount}))

    def prepare(self, *participants: Participant) -> str:
        """Prepare a transaction in all its collections, and leave it there; its id."""
        folders = tuple(sorted(each.ledger.collection for each in participants))
        began = min(each.ledger.time or 0 for each in participants)
        transaction = new_transaction_id(began, self.runtime.chance)
        for each in participants:
            each.ledger.prepare(replace(each.guarded(), prepare=Prepare(transaction, folders)))
        return transaction

    def abandon(self, amount: int = 1) -> str:
        """As `move`, but it is not decided; its id."""
        return self.prepare(self.adds(NAMES[0], {"x": -amount}), self.adds(NAMES[1], {"x": amount}))

    def commit(self, *participants: Participant, seconds: float = 30.0) -> TransactionResult:
        """Commit a transaction."""
        return self.runtime.coordinator.commit(participants, seconds=seconds)


@dataclass
class Bank:
    """One bucket and one clock."""

    clock: ManualClock = field(default_factory=ManualClock)
    seed: int = 1

    def __post_init__(self) -> None:
        self.store = MemoryStore(clock=self.clock)
        self.chance = SeededChance(self.seed)

    def process(self, store: Store | None = None, limits: TailLimits | None = None) -> Process:
        """One that knows nothing yet."""
        runtime = Runtime(
            store=store or self.store,
            pool=SerialPool(),
            clock=self.clock,
            chance=self.chance,
            misc=MiscClock(self.clock),
            before_first_write=lambda: None,
            limits=limits or TailLimits(mode="manual"),
        )
        return Process(runtime)

    def counted(self) -> FaultStore:
        """The bucket, with a trace of its requests."""
        return FaultStore(self.store)

    def open(self, *names: str) -> Bank:
        """With an account x in each of some collections."""
        process = self.process()
        for name in names or NAMES:
            process.put(name, "x", FIRST)
        return self

    def keys(self, folder: str) -> list[str]:
        """What lies below a folder."""
        return [info.key for page in self.store.list(folder) for info in page.objects]


def balances(process: Process, names: Sequence[str] = NAMES, account: str = "x") -> list[int | None]:
    """An account of each of some collections, as a reader of a process sees it now."""
    return [balance(process.view(name), account) for name in names]
