"""A bucket of several collections in virtual time, and machines that use it: for transactions.

`WideBucket` witnesses when each call took effect. Every document that a call writes names the call; a batch takes
effect when its entry is created, a transaction when its record is.
"""

from __future__ import annotations

import io
import json
import math
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.simulation.draws import Draws
from tests.simulation.replay import Replay, Violation
from tests.simulation.scheduler import Process, ProcessClock, ProcessCrash
from tests.simulation.serial import Deed
from tests.simulation.store import Bucket, SimStore
from wormdb.api.database import Database
from wormdb.engine.log.paths import EnginePaths
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    OutcomeUnknownError,
    SnapshotTooOldError,
    UnavailableError,
    WormError,
)
from wormdb.format.entry import decode_entry
from wormdb.format.event import CollectionClosed, JobAttached, TransactionFinished, TransactionPrepared
from wormdb.format.root import decode_root
from wormdb.format.transaction import decode_floor, decode_record
from wormdb.settings import KNOWLEDGE_MS_MAX, LOG_RETENTION_MS_MIN
from wormdb.storage.meter import MeteredStore
from wormdb.storage.pool import SerialPool
from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.simulation.scheduler import Scheduler
    from wormdb.format.change import LoggedBatch
    from wormdb.format.entry import Entry
    from wormdb.settings import Settings
    from wormdb.system.clock import Chance

__all__ = ["COLLECTIONS", "TOKEN", "Machine", "WideBucket", "WideWorld"]

COLLECTIONS = ("a", "b", "c")
TOKEN = "by"
"""The field in which a document names the call that wrote it."""
RECORDS = ".worm.tx/"
FLOOR = f"{RECORDS}floor"
SECOND_MS = 1000


class WideBucket(Bucket):
    """The objects of several collections, and a witness of what was done to them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.tick: Callable[[], float] = lambda: 0.0
        self.logs: dict[str, dict[int, bytes]] = {name: {} for name in COLLECTIONS}
        self.effects: dict[str, float] = {}
        """When each call took effect."""
        self.calls_of: dict[str, set[str]] = defaultdict(set)
        """The calls whose documents a transaction writes: one, or none if it writes nothing."""
        self.participants: dict[str, tuple[str, ...]] = {}
        self.decided: dict[str, bool] = {}
        """What the first record of each transaction said."""
        self.second_records: list[str] = []
        """Transactions of which a record was written that counts for nothing."""
        self.floor = ""
        """Below which records count for nothing."""
        self.finished: dict[str, dict[str, bool]] = defaultdict(dict)
        self.roots_of: dict[str, list[Any]] = {name: [] for name in COLLECTIONS}
        self._paths = {name: EnginePaths.of_collection(f"{name}/") for name in COLLECTIONS}
        self._blocks: dict[str, bytes] = {}
        self._root_at: dict[tuple[str, int], float] = {}

    def replay_of(self, name: str) -> Replay:
        """The model of one log. Raises Violation."""
        paths = self._paths[name]
        return Replay(self.logs[name], f"{name}/", lambda block: self._blocks[paths.block(block)])

    def written(self, key: str, body: bytes) -> None:
        """Witness an object that was just written."""
        self._written_at[key] = self.scheduler.now
        if key.startswith(RECORDS):
            if key == FLOOR:
                self.floor = decode_floor(body, name=key).floor
            else:
                self._record_written(key, body)
            return
        name = key.partition("/")[0]
        paths = self._paths.get(name)
        if paths is None:
            return
        if key == paths.root:
            root = decode_root(body, name=key, path=f"{name}/")
            for number in range(self.roots_of[name][-1].applied + 1 if self.roots_of[name] else 1, root.applied + 1):
                self._root_at[name, number] = self.scheduler.now
            self.roots_of[name].append(root)
        elif key.startswith(paths.data):
            self._blocks[key] = body
        elif key.startswith(paths.entries):
            self._entry_written(name, int(key.removeprefix(paths.entries)), body)

    def _record_written(self, key: str, body: bytes) -> None:
        transaction = key.removeprefix(RECORDS)
        record = decode_record(body, name=key, transaction=transaction)
        if transaction in self.decided:
            self.second_records.append(transaction)
            self.note(f"a second record of {transaction}: {record.committed}")
            return
        if record.committed and transaction < self.floor:
            self.note(f"  {transaction} is below the floor: too late to be committed")
            self.second_records.append(transaction)
            return
        self.decided[transaction] = record.committed
        if record.committed:
            for call in self.calls_of[transaction]:
                self._takes_effect(call)
        self.note(f"  {transaction} is {'committed' if record.committed else 'aborted'}: {self.calls_of[transaction]}")

    def _entry_written(self, name: str, number: int, body: bytes) -> None:
        log = self.logs[name]
        if number in log:
            self.zombies.append(number)
            if number > self.trimmed_of(name):
                self.broken.append(f"slot {number} of {name} was written twice, and it is not trimmed")
            return
        log[number] = body
        entry = decode_entry(body, name=f"{name} {number}", number=number, collection=f"{name}/")
        carried: set[str] = set()
        calls: set[str] = set()
        for event in entry.events:
            if isinstance(event, TransactionPrepared):
                self.calls_of[event.tx] |= _calls(event.batch)
                self.participants[event.tx] = tuple(event.participants)
                self.note(f"  {name} {number} prepares {event.tx} for {_calls(event.batch)}")
            elif isinstance(event, TransactionFinished):
                self._finished(name, number, event)
                carried |= self.calls_of[event.tx]
            elif isinstance(event, JobAttached):
                keys = [self._paths[name].block(block.name) for block in event.blocks]
                calls = calls.union(*(_calls_in(self._blocks[key]) for key in keys))
            elif isinstance(event, CollectionClosed):
                calls |= _drops(entry)
                self.note(f"  {name} {number} removes the collection")
        calls |= {call for batch in entry.batches for call in _calls(batch)} - carried
        for call in sorted(calls):
            self._takes_effect(call)

    def _finished(self, name: str, number: int, event: TransactionFinished) -> None:
        if name in self.finished[event.tx]:
            self.broken.append(f"{event.tx} was finished twice in {name}")
        self.finished[event.tx][name] = event.committed
        if bool(self.decided.get(event.tx)) != event.committed:
            told = f"entry {number} of {name} says that {event.tx} is committed={event.committed}"
            self.broken.append(f"{told}, its record said {self.decided.get(event.tx)}")

    def _takes_effect(self, call: str) -> None:
        if call in self.effects:
            self.broken.append(f"{call} took effect twice")
        self.effects.setdefault(call, self.tick())

    def trimmed_of(self, name: str) -> int:
        """Up to which slot a log was trimmed."""
        return self.roots_of[name][-1].trimmed if self.roots_of[name] else 0

    def deleted(self, key: str) -> None:
        """Witness an object that is about to be deleted."""
        if key.startswith(RECORDS):
            self._record_deleted(key.removeprefix(RECORDS))
            return
        name = key.partition("/")[0]
        paths = self._paths.get(name)
        if paths is None or not key.startswith(paths.entries):
            return
        number = int(key.removeprefix(paths.entries))
        age = self.scheduler.now - self._root_at.get((name, number), -math.inf)
        if number > self.trimmed_of(name):
            self.broken.append(f"slot {number} of {name} was deleted while trimmed is {self.trimmed_of(name)}")
        elif age < self._kept_ms(name, number) - 2 * SECOND_MS:
            self.broken.append(f"slot {number} of {name} was deleted {age:.0f} ms after it was applied")

    def _kept_ms(self, name: str, number: int) -> int:
        """How long an entry stays after it was applied: of a removed collection as long as a process may trust it."""
        is_removed = number <= self.roots_of[name][-1].removed
        return KNOWLEDGE_MS_MAX if is_removed else LOG_RETENTION_MS_MIN

    def _record_deleted(self, transaction: str) -> None:
        if not self.decided.get(transaction) or transaction in self.second_records:
            return
        names = {folder.strip("/") for folder in self.participants.get(transaction, ())}
        left = names - set(self.finished[transaction])
        if left:
            self.broken.append(f"the record of {transaction} was deleted before it was finished in {sorted(left)}")


def _calls(batch: LoggedBatch) -> set[str]:
    images = (json.loads(change.after) for change in batch.changes if change.after is not None)
    return {image[TOKEN] for image in images if TOKEN in image}


def _drops(entry: Entry) -> set[str]:
    """The call that removed a collection: no document names it, so its actor does."""
    return {batch.actor for batch in entry.batches if batch.actor is not None}


def _calls_in(parquet: bytes) -> set[str]:
    import pyarrow.parquet as pq

    rows = pq.read_table(io.BytesIO(parquet), columns=["_doc"]).to_pylist()
    return {json.loads(row["_doc"])[TOKEN] for row in rows}


@dataclass
class WideWorld(Draws):
    """Everything that the tasks of one run share."""

    seed: int
    scheduler: Scheduler
    bucket: WideBucket
    chance: Chance
    settings: Settings
    deeds: list[Deed] = field(default_factory=list)
    machines: list[Machine] = field(default_factory=list)
    unknown: dict[str, Deed] = field(default_factory=dict)
    """Calls whose outcome is not known, by their ids."""
    workers: int = 0
    refusals: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def __post_init__(self) -> None:
        self._moment = 0
        self.bucket.tick = self.tick

    def tick(self) -> float:
        """The next moment: every call, effect and return has its own."""
        self._moment += 1
        return float(self._moment)

    def machine(self, name: str, distance: float = 1.0, *, is_right: bool = False) -> Machine:
        """A new machine, so far away; perhaps with a clock that is right."""
        machine = Machine(self, name, distance, is_right=is_right)
        self.machines.append(machine)
        return machine

    @contextmanager
    def deed(self, verb: str, **options: Any) -> Iterator[Deed]:
        """Run a call inside; what it raises becomes its outcome. Errors that no client expects go on."""
        deed = Deed(f"{verb}-{len(self.deeds)}", self.tick(), **options)
        self.deeds.append(deed)
        error: WormError | None = None
        self.bucket.note(f"{deed.name} begins")
        try:
            yield deed
            deed.outcome = "ok"
        except OutcomeUnknownError as found:
            error, deed.outcome = found, "unknown"
            if found.commit_id is None:
                raise Violation(f"{deed.label}: unknown without a commit id: {found}") from found
            self.unknown[found.commit_id] = deed
        except (UnavailableError, ConflictError, AlreadyExistsError, NotFoundError, SnapshotTooOldError) as found:
            error, deed.outcome = found, "no"
            self.refusals[type(found).__name__] += 1
        except ProcessCrash:
            deed.outcome = "unknown"
            raise
        finally:
            deed.returned = math.inf if deed.outcome in ("unknown", "open") else self.tick()
            self.bucket.note(f"{deed.name} → {deed.outcome} {error or ''}")


class Machine:
    """One machine: a process at a time, restarted after a crash with the same clocks and nothing remembered."""

    def __init__(self, world: WideWorld, name: str, distance: float, *, is_right: bool = False) -> None:
        """Starts at once."""
        self.name = name
        self._world = world
        self._distance = distance
        self._lives = 0
        self._skew_ms = world.between(-600_000, 600_000) if world.likely(0.5) and not is_right else 0.0
        self._drift = 1.0 if is_right else world.between(0.98, 1.02)
        self.start()

    def start(self) -> None:
        """Begin a life: a new process, a database that knows nothing."""
        world = self._world
        self._lives += 1
        self.process = Process(f"{self.name}.{self._lives}")
        self.clock = ProcessClock(world.scheduler, self.process, skew_ms=self._skew_ms, drift=self._drift)
        chance = SeededChance(int.from_bytes(world.chance.token(8), "big"))
        store = SimStore(world.bucket, self.process, self.clock, self._distance)
        self.db = Database(
            MeteredStore(store, clock=self.clock),
            SerialPool(),
            settings=world.settings,
            schema=None,
            actor=None,
            clock=self.clock,
            chance=chance,
        )

    def jump(self, jump_ms: float) -> None:
        """Set the wall clock wrong, as an operator or NTP would."""
        self._skew_ms = jump_ms
        self.clock.skew_ms = jump_ms

    def set_right(self) -> None:
        """The wall clock is set to the true time."""
        self.jump(self._world.scheduler.now * (1 - self._drift))
