"""What the tests of the engine share: a ledger on a store in memory, with a clock that moves only when told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wormdb.engine.commit.operations import Insert, Pending, Remove, Save
from wormdb.engine.forward.forward import DEFAULT_SIZES, Sizes
from wormdb.engine.ledger import Ledger, Runtime, TailLimits
from wormdb.engine.log.clock import MiscClock
from wormdb.engine.log.entries import Log
from wormdb.engine.log.paths import EnginePaths
from wormdb.engine.log.root import Register
from wormdb.engine.state.definition import Definition
from wormdb.format import json
from wormdb.format.entry import Entry, LoggedBatch, LoggedChange, encode_entry
from wormdb.format.event import SchemaChanged
from wormdb.settings import STAGE_BYTES
from wormdb.storage.memory import MemoryStore
from wormdb.storage.pool import SerialPool
from wormdb.storage.store import OCTETS, IfAbsent, Precondition, Probe, PutResult, Store, StoredObject, WrappedStore
from wormdb.system.clock import ManualClock, SeededChance
from wormdb.system.types import LogNumber, StoreTime, WriteId
from wormdb.testing.fault_store import FaultStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.engine.commit.operations import Operation
    from wormdb.engine.forward.keeper import Background
    from wormdb.engine.state.view import View

__all__ = [
    "COLLECTION",
    "PATHS",
    "Asking",
    "HookStore",
    "Rig",
    "TimedStore",
    "contents",
    "definition_at",
    "doc",
    "entry_at",
    "ident",
    "insert",
    "remove",
    "save",
]

COLLECTION = "things/"
PATHS = EnginePaths.of_collection(COLLECTION)


def ident(identity: Any) -> bytes:
    """An id as the engine has it."""
    return json.encode(identity)


def doc(identity: Any, **values: Any) -> bytes:
    """A document as the engine has it."""
    return json.encode_document({"_id": identity, **values})


def insert(identity: Any, **values: Any) -> Insert:
    """An insert of a document made of `values`."""
    return Insert(ident(identity), doc(identity, **values))


def save(identity: Any, **values: Any) -> Save:
    """A blind save of a document made of `values`."""
    return Save(ident(identity), doc(identity, **values))


def remove(identity: Any) -> Remove:
    """A blind delete."""
    return Remove(ident(identity))


def definition_at(body: bytes, number: int = 1) -> Definition:
    """The definition that entry `number` of an empty collection brought; none if there is no body."""
    if not body:
        return Definition.none()
    return Definition.none().after((SchemaChanged(definition=body, empty=True),), LogNumber(number))


def contents(view: View) -> dict[Any, tuple[int, int, dict[str, Any] | None]]:
    """Every id ever used in a view, with (rev, seq, values without the id; None if deleted)."""
    found = {}
    for _, held in view.scan():
        values = None if held.document is None else json.decode_document(held.document, name="document")
        if values is not None:
            del values["_id"]
        found[json.decode(held.id, name="id")] = (held.rev, held.seq, values)
    return found


def entry_at(number: int, previous: bytes, *changes: LoggedChange, write_id: str | None = None) -> bytes:
    """The bytes of an entry with one batch: without `changes` the next state of document x."""
    name = WriteId(write_id or f"{number:032x}")
    before = doc("x", n=number - 1) if number > 1 else None
    change = LoggedChange(id=ident("x"), seq=number, before=before, after=doc("x", n=number))
    entry = Entry(
        number=number,
        write_id=name,
        misc=number << 8,
        node=0,
        previous=previous,
        batches=(LoggedBatch(id=name, changes=changes or (change,)),),
    )
    return encode_entry(entry, collection=COLLECTION)


class TimedStore(WrappedStore):
    """A store whose answers carry the time that `now` gives; None stands for a store that shows none."""

    def __init__(self, inner: Store, now: Callable[[], int | None]) -> None:
        super().__init__(inner)
        self._now = now

    def _time(self) -> StoreTime | None:
        now = self._now()
        return None if now is None else StoreTime(now)

    def probe(self, key: str) -> Probe:
        probe = self._inner.probe(key)
        time, found = self._time(), probe.found
        return Probe(None if found is None else StoredObject(key, found.body, found.version, time), time)

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        return PutResult(self._inner.put(key, body, precondition, content_type=content_type).version, self._time())


class HookStore(WrappedStore):
    """Calls `before` and `after` around each put and probe, with the verb and the key; both may raise."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.before: Callable[[str, str], None] | None = None
        self.after: Callable[[str, str], None] | None = None

    def _call(self, hook: Callable[[str, str], None] | None, verb: str, key: str) -> None:
        if hook is not None:
            hook(verb, key)

    def probe(self, key: str) -> Probe:
        self._call(self.before, "probe", key)
        probe = self._inner.probe(key)
        self._call(self.after, "probe", key)
        return probe

    def get(self, key: str) -> StoredObject:
        self._call(self.before, "get", key)
        return self._inner.get(key)

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        self._call(self.before, "put", key)
        result = self._inner.put(key, body, precondition, content_type=content_type)
        self._call(self.after, "put", key)
        return result


@dataclass(frozen=True)
class Asking:
    """A guard that asks a function."""

    ask: Callable[[View], object]

    def check(self, view: View) -> None:
        self.ask(view)


@dataclass
class Rig:
    """One bucket and one clock; every `ledger` is a process of its own."""

    clock: ManualClock = field(default_factory=ManualClock)
    seed: int = 1

    def __post_init__(self) -> None:
        self.store = MemoryStore(clock=self.clock)
        self.chance = SeededChance(self.seed)
        self.log = Log(self.store, PATHS, COLLECTION, SerialPool())
        self.register = Register(self.store, PATHS, COLLECTION)

    def ledger(
        self,
        store: Store | None = None,
        limits: TailLimits | None = None,
        sizes: Sizes = DEFAULT_SIZES,
        *,
        stage_bytes: int = STAGE_BYTES,
        background: Background | None = None,
        **more: Any,
    ) -> Ledger:
        """A process that knows nothing yet; `more` is what else it lives in."""
        runtime = Runtime(
            store=store or self.store,
            pool=SerialPool(),
            clock=self.clock,
            chance=self.chance,
            misc=MiscClock(self.clock),
            before_first_write=lambda: None,
            limits=limits or TailLimits(),
            sizes=sizes,
            stage_bytes=stage_bytes,
            background=background,
            **more,
        )
        return Ledger(COLLECTION, runtime)

    def counted(self) -> FaultStore:
        """The store, with a trace of its requests."""
        return FaultStore(self.store)

    def batch(self, *operations: Operation, **more: Any) -> Pending:
        """A batch with an id of its own."""
        return Pending(self.chance.token(16).hex(), operations, **more)

    def fill(self, count: int, *, start: int = 1, previous: bytes = bytes(32)) -> bytes:
        """Write entries by hand, one document each; the hash of the last."""
        from wormdb.format.entry import entry_hash

        for number in range(start, start + count):
            body = entry_at(number, previous)
            self.store.put(PATHS.entry(LogNumber(number)), body, IfAbsent())
            previous = entry_hash(body)
        return previous

    def slots(self) -> list[int]:
        """The log numbers that are there."""
        keys = [info.key for page in self.store.list(PATHS.entries) for info in page.objects]
        return [int(key.rpartition("/")[2]) for key in keys]
