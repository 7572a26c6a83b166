"""A store in virtual time, seen through a network that a seed has made bad.

Objects are kept as `MemoryStore` keeps them. A request is sent, executed and answered at three different moments,
and a fault may take any of them away: so a write may be executed without an answer, hours after its
caller gave up, or twice. `Bucket` also keeps what a real store forgets: every log entry there ever was, and every root.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from zlib import crc32

from tests.simulation.projections import named_by, retired_by
from tests.simulation.replay import Replay
from tests.simulation.scheduler import START_MS
from wormdb.engine.log.paths import EnginePaths
from wormdb.errors import OutcomeUnknownError, UnavailableError, WormError
from wormdb.format.entry import decode_entry
from wormdb.format.event import JobAttached
from wormdb.format.root import Root, decode_root
from wormdb.settings import LOG_RETENTION_MS_MIN, RETIRED_MS
from wormdb.storage.folder.time import PATIENCE_MS, RECORD_MS, Reckoning
from wormdb.storage.memory import MemoryStore
from wormdb.storage.store import OCTETS, ListPage, Probe, PutResult, Store, StoredObject
from wormdb.system.deadline import current
from wormdb.system.types import LogNumber, StoreTime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.simulation.scheduler import Process, ProcessClock, Scheduler, Task
    from wormdb.storage.store import ByteRange, ObjectInfo, Precondition
    from wormdb.system.clock import Chance, Uptime

__all__ = ["CALM", "COLLECTION", "PATHS", "Bucket", "Fate", "SimStore", "TraceLine", "Weather"]

T = TypeVar("T")

COLLECTION = "sim/"
PATHS = EnginePaths.of_collection(COLLECTION)
TIMEOUT_MS = 30_000.0
LATE_MS_MAX = 4 * 3_600_000.0
SECOND_MS = 1000
REFUSALS = ("409 Conflict", "429 Too Many Requests", "503 Slow Down", "no connection")


class Fate(StrEnum):
    """What the network does to one request."""

    SERVED = "served"
    REFUSED = "refused"
    """409, 429, 503 or no connection: UnavailableError, and nothing was done."""
    DROPPED = "dropped"
    """It never arrives. A put raises OutcomeUnknownError, as its caller cannot know; anything else UnavailableError."""
    ANSWER_LOST = "answer lost"
    """Executed; the caller sees what DROPPED shows."""
    LATE = "late"
    """The caller sees what DROPPED shows; executed seconds to hours later."""
    TWICE = "twice"
    """Executed, and again soon or hours later; the caller may get the second answer."""


@dataclass(frozen=True, slots=True)
class Weather:
    """How bad the network is: probabilities of each fate, and how slow it may be."""

    refused: float = 0.0
    dropped: float = 0.0
    answer_lost: float = 0.0
    late: float = 0.0
    twice: float = 0.0
    slow: float = 0.0
    """How many answers take seconds instead of milliseconds."""
    is_silent: bool = False
    """Whether a caller whose request is lost hears nothing at all, and has to give up by itself."""
    shows_time: bool = True
    one_write_a_second: bool = False
    """Whether two writes of one key within a second are refused, as GCS and R2 do."""
    is_torn: bool = False
    """Whether a bulk delete may remove only some of its keys."""
    is_folder: bool = False
    """Whether there is no server: the process that asks tells the time."""

    def fate(self, chance: Chance) -> Fate:
        """One draw."""
        drawn = chance.fraction()
        for fate, probability in (
            (Fate.REFUSED, self.refused),
            (Fate.DROPPED, self.dropped),
            (Fate.ANSWER_LOST, self.answer_lost),
            (Fate.LATE, self.late),
            (Fate.TWICE, self.twice),
        ):
            if drawn < probability:
                return fate
            drawn -= probability
        return Fate.SERVED


CALM = Weather()


@dataclass(frozen=True, slots=True)
class TraceLine:
    """One thing that happened, at a virtual time."""

    time: float
    who: str
    what: str

    def __str__(self) -> str:
        seconds, ms = divmod(int(self.time), SECOND_MS)
        clock = f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}.{ms:03}"
        return f"{clock} {self.who:<12} {self.what}"


class _StoreClock:
    """The store's clock, which shows whole seconds, as an HTTP Date does."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

        self.told: int | None = None
        """What a process says that it is, if there is no server."""

    def now_ms(self) -> int:
        if self.told is not None:
            return self.told
        return (START_MS + int(self._scheduler.now)) // SECOND_MS * SECOND_MS

    def uptime(self) -> Uptime:
        raise AssertionError("no code asks a store for that")

    def monotonic(self) -> float:
        return self._scheduler.now / SECOND_MS

    def sleep(self, seconds: float) -> None:
        raise AssertionError(f"a store does not sleep ({seconds} s)")


@dataclass(slots=True)
class _Answer:
    value: Any = None
    error: WormError | None = None


@dataclass
class Bucket:
    """The objects, and a witness of everything that was ever done to them."""

    scheduler: Scheduler
    chance: Chance
    weather: Weather
    trace: list[TraceLine] = field(default_factory=list)
    entries: dict[int, bytes] = field(default_factory=dict)
    """The first object that was ever created in each slot: the log."""
    zombies: list[int] = field(default_factory=list)
    """Slots that were written again after they had been trimmed."""
    blocks: dict[str, bytes] = field(default_factory=dict)
    """Every block of documents that was ever written, by its key."""
    attached: dict[str, int] = field(default_factory=dict)
    """The keys of those that entries attach, and the newest entry that does."""
    roots: list[Root] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """Promises that the engine broke towards the store."""
    highest: int = 0
    landed: list[float] = field(default_factory=list)
    """When each entry became a part of the log, the first one first."""
    """The last slot without a gap before it."""

    def __post_init__(self) -> None:
        self.clock = _StoreClock(self.scheduler)
        self.objects = MemoryStore(clock=self.clock)
        self.reckoning: Reckoning | None = None
        """What a folder has as its time."""
        self._applied_at: dict[int, float] = {}
        self._written_at: dict[str, float] = {}
        self._retired_at: dict[str, float] = {}

    @property
    def trimmed(self) -> int:
        """Up to which slot the root says that the log was trimmed."""
        return self.roots[-1].trimmed if self.roots else 0

    def replay(self) -> Replay:
        """The model of the log that was really written. Raises Violation."""
        return Replay(self.entries, COLLECTION, lambda name: self.blocks[PATHS.block(name)])

    def holds(self, number: int, batch: str) -> bool:
        """Whether the entry that was first created in a slot has a batch."""
        if number not in self.entries:
            return False
        name = PATHS.entry(LogNumber(number))
        entry = decode_entry(self.entries[number], name=name, number=number, collection=COLLECTION)
        return any(one.id == batch for one in entry.batches)

    def note(self, what: str, who: str | None = None) -> None:
        """Add a line to the trace."""
        self.trace.append(TraceLine(self.scheduler.now, who or self.scheduler.current.name, what))

    def throttles(self, key: str) -> bool:
        """Whether a write of this key now is one too many in a second."""
        if not self.weather.one_write_a_second:
            return False
        last = self._written_at.get(key, -math.inf)
        return self.scheduler.now - last < SECOND_MS

    def written(self, key: str, body: bytes) -> None:
        """Witness an object that was just written."""
        self._written_at[key] = self.scheduler.now
        if key == PATHS.root:
            self._root_written(decode_root(body, name=key, path=COLLECTION))
        elif key.startswith(PATHS.data):
            self.blocks[key] = body
        elif key.startswith(PATHS.entries):
            number = int(key.removeprefix(PATHS.entries))
            if number in self.entries:
                self.zombies.append(number)
                if number > self.trimmed:
                    self.broken.append(f"slot {number} was written twice, and it is not trimmed")
                return
            if number <= self.trimmed:
                self.broken.append(f"slot {number} was first written after it had been trimmed")
            self.entries[number] = body
            events = decode_entry(body, name=key, number=number, collection=COLLECTION).events
            attached = (block for event in events if isinstance(event, JobAttached) for block in event.blocks)
            self.attached.update({PATHS.block(block.name): number for block in attached})
            while self.highest + 1 in self.entries:
                self.highest += 1
                self.landed.append(self.scheduler.now)

    def _root_written(self, root: Root) -> None:
        before = self.roots[-1] if self.roots else None
        if before is not None:
            if root.revision != before.revision + 1:
                self.broken.append(f"root revision {root.revision} follows {before.revision}")
            if root.trimmed < before.trimmed or root.applied < before.applied:
                self.broken.append(f"root {root.revision} goes back")
        if root.applied > self.highest:
            self.broken.append(f"root {root.revision} applies {root.applied}, the log ends at {self.highest}")
        for number in range(before.applied + 1 if before else 1, root.applied + 1):
            self._applied_at[number] = self.scheduler.now
        for key in retired_by(self.objects, PATHS, root):
            self._retired_at.setdefault(key, self.scheduler.now)
        self.roots.append(root)

    def deleted(self, key: str) -> None:
        """Witness an object that is about to be deleted."""
        if not key.startswith(PATHS.entries):
            if key.startswith(PATHS.folder):
                self._object_deleted(key)
            return
        number = int(key.removeprefix(PATHS.entries))
        if number > self.trimmed:
            self.broken.append(f"slot {number} was deleted while trimmed is {self.trimmed}")
        elif self.scheduler.now - self._applied_at.get(number, -math.inf) < LOG_RETENTION_MS_MIN - 2 * SECOND_MS:
            self.broken.append(f"slot {number} was deleted less than an hour after it was applied")

    def _object_deleted(self, key: str) -> None:
        retired = self._retired_at.get(key)
        if retired is not None and self.scheduler.now - retired < RETIRED_MS:
            self.broken.append(f"{key} was deleted while readers of an older root may need it")
        if self.attached.get(key, 0) > self.trimmed:
            self.broken.append(f"{key} was deleted, and entry {self.attached[key]} needs it")
        if retired is None and self.roots and key in named_by(self.objects, PATHS, self.roots[-1]):
            self.broken.append(f"{key} was deleted, and root {self.roots[-1].revision} needs it")


class SimStore(Store):
    """The bucket as one process sees it. Every verb hands on the baton."""

    def __init__(self, bucket: Bucket, process: Process, clock: ProcessClock, distance: float = 1.0) -> None:
        """`distance` is how many times longer than usual every request takes."""
        self._bucket = bucket
        self._process = process
        self._clock = clock
        self._distance = distance
        self._chance = bucket.chance
        self._scheduler = bucket.scheduler

    @property
    def _weather(self) -> Weather:
        return self._bucket.weather

    @property
    def name(self) -> str:
        """A made-up URL."""
        return "memory://simulation"

    @property
    def is_served(self) -> bool:
        """Whether it is a service, not a folder."""
        return not self._weather.is_folder

    def get(self, key: str) -> StoredObject:
        """The whole object."""
        return self._request("get", key, lambda: self._timeless(self._bucket.objects.get(key)))

    def get_range(self, key: str, span: ByteRange) -> bytes:
        """A range."""
        return self._request("get", key, lambda: self._bucket.objects.get_range(key, span))

    def get_ranges(self, key: str, spans: Sequence[ByteRange]) -> tuple[bytes, ...]:
        """Several ranges."""
        return self._request("get", key, lambda: self._bucket.objects.get_ranges(key, spans))

    def probe(self, key: str) -> Probe:
        """The object or None."""

        def look() -> Probe:
            probe = self._bucket.objects.probe(key)
            if self._bucket.weather.shows_time:
                return probe
            return Probe(None if probe.found is None else self._timeless(probe.found), None)

        return self._request("probe", key, look)

    def head(self, key: str) -> ObjectInfo:
        """Size, time and version."""
        return self._request("head", key, lambda: self._bucket.objects.head(key))

    def list(
        self, prefix: str = "", *, after: str | None = None, delimiter: Literal["/"] | None = None
    ) -> Iterator[ListPage]:
        """One page is enough for what a run writes."""
        pages = self._request(
            "list", prefix, lambda: list(self._bucket.objects.list(prefix, after=after, delimiter=delimiter))
        )
        return iter(pages)

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        """Write if the precondition holds."""
        told = self._recorded() if self._weather.is_folder else None

        def write() -> PutResult:
            self._bucket.clock.told = told
            result = self._bucket.objects.put(key, body, precondition, content_type=content_type)
            self._bucket.written(key, body)
            return result if self._bucket.weather.shows_time else PutResult(result.version, None)

        return self._request("put", key, write, mark=f" #{crc32(body):08x}")

    def delete(self, key: str) -> None:
        """Remove the object."""
        self.delete_many((key,))

    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove objects; in bad weather perhaps only some of them."""
        kept = len(keys)
        if self._weather.is_torn and self._chance.fraction() < 0.3:
            kept = int(self._chance.fraction() * (len(keys) + 1))

        def remove() -> None:
            for key in keys[:kept]:
                self._bucket.deleted(key)
            self._bucket.objects.delete_many(keys[:kept])
            if kept < len(keys):
                raise UnavailableError("bulk delete", reason=f"{len(keys) - kept} keys were left")

        self._request("delete", keys[0], remove, mark=f" … {len(keys)} keys")

    def close(self) -> None:
        """Nothing to give back."""

    def _timeless(self, found: StoredObject) -> StoredObject:
        return found if self._bucket.weather.shows_time else replace(found, time=None)

    def _request(self, verb: str, key: str, call: Callable[[], T], mark: str = "") -> T:
        self._process.check()
        self._stall()
        fate = self._weather.fate(self._chance)
        if verb == "put" and fate is Fate.SERVED and self._bucket.throttles(key):
            fate = Fate.REFUSED
        shown = f"{verb} {key.removeprefix(PATHS.folder).removeprefix('committed/').lstrip('0') or '0'}{mark}"
        self._bucket.note(shown if fate is Fate.SERVED else f"{shown} [{fate}]")
        answer, began = _Answer(), self._clock.uptime()
        self._send(fate, shown, call, answer)
        if self._weather.is_silent:
            self._await(answer, fate, shown)
        else:
            self._scheduler.park()
        if answer.error is not None:
            raise answer.error
        value: T = answer.value
        return self._timed(value, began) if self._weather.is_folder else value

    def _recorded(self) -> StoreTime:
        """The time of a folder, as `FolderTime.for_write` tells it."""
        known, wall_ms, uptime = self._bucket.reckoning, self._clock.now_ms(), self._clock.uptime()
        time = StoreTime(wall_ms) if known is None else known.at(wall_ms, uptime)
        if known is None or time - known.time >= RECORD_MS:
            self._bucket.reckoning = Reckoning(time, uptime)
        return time

    def _timed(self, value: T, began: Uptime) -> T:
        """An answer of a folder: the process looks at the time when it has the answer, as `FolderTime.after` does."""
        known, uptime = self._bucket.reckoning, self._clock.uptime()
        time = None
        if known is not None and uptime.ms - began.ms <= PATIENCE_MS:
            time = known.at(self._clock.now_ms(), uptime)
        match value:
            case Probe(found=found):
                return Probe(None if found is None else replace(found, time=time), time)  # type: ignore[return-value]  # T is Probe here
            case StoredObject() | PutResult():
                return replace(value, time=time)
        return value

    def _await(self, answer: _Answer, fate: Fate, shown: str) -> None:
        """Wait for an answer, but no longer than the call may take: nothing else ends it."""
        deadline = current()
        if deadline is None:
            self._bucket.broken.append(f"{shown} was sent outside of any call")
            raise UnavailableError(shown, reason="no deadline says how long to wait")
        began, limit_ms = self._scheduler.now, deadline.rest * SECOND_MS
        task = self._scheduler.current
        self._scheduler.after(limit_ms, partial(self._scheduler.awake, task, task.ticket))
        self._scheduler.park()
        if fate not in (Fate.SERVED, Fate.TWICE, Fate.REFUSED) or self._scheduler.now >= began + limit_ms:
            # What comes from now on answers no call.
            answer.error = answer.error or self._error(Fate.DROPPED, shown)

    def _stall(self) -> None:
        """A pause that was to begin between two requests."""
        requests, pause_ms = self._process.pause_at_request
        self._process.pause_at_request = (max(0, requests - 1), pause_ms)
        if requests == 1:
            self._bucket.note(f"stops for {pause_ms / SECOND_MS:.0f} s before a request")
            self._scheduler.pause(self._process, pause_ms, suspended=self._chance.fraction() < 0.5)
            self._scheduler.sleep(pause_ms)

    def _send(self, fate: Fate, shown: str, call: Callable[[], object], answer: _Answer) -> None:
        """Queue the execution, if there is one, and the answer."""
        task, who = self._scheduler.current, self._scheduler.current.name
        ticket = task.ticket
        there, back = self._latency(), self._latency()

        def arrive() -> Task | None:
            return self._scheduler.awake(task, ticket)

        if fate is Fate.SERVED:
            self._execute_after(there, shown, who, call, answer)
            self._scheduler.after(there + back, arrive)
        elif fate is Fate.TWICE:
            again = there + (self._latency() if self._chance.fraction() < 0.5 else self._late())
            second = again < TIMEOUT_MS and self._chance.fraction() < 0.7
            self._execute_after(there, shown, who, call, _Answer() if second else answer)
            self._execute_after(again, shown, who, call, answer if second else _Answer())
            self._scheduler.after((again if second else there) + back, arrive)
        else:
            answer.error = self._error(fate, shown)
            gives_up = there + back if fate is Fate.REFUSED or self._chance.fraction() < 0.7 else TIMEOUT_MS
            if self._weather.is_silent and fate is not Fate.REFUSED:
                gives_up = math.inf
            if fate is Fate.ANSWER_LOST:
                self._execute_after(there, shown, who, call, _Answer())
            elif fate is Fate.LATE:
                self._execute_after(self._late(), shown, who, call, _Answer())
            if gives_up < math.inf:
                self._scheduler.after(gives_up, arrive)

    def _execute_after(
        self, delay_ms: float, shown: str, who: str, call: Callable[[], object], answer: _Answer
    ) -> None:
        def execute() -> None:
            try:
                answer.value = call()
            except WormError as error:
                answer.error = error
                self._bucket.note(f"  {shown} → {type(error).__name__}", who)
            else:
                self._bucket.note(f"  {shown} → {_summary(answer.value)}", who)

        self._scheduler.after(delay_ms, execute)

    def _error(self, fate: Fate, shown: str) -> WormError:
        if fate is Fate.REFUSED:
            reason = REFUSALS[int(self._chance.fraction() * len(REFUSALS))]
            return UnavailableError(shown, reason=reason)
        if shown.startswith("put"):
            return OutcomeUnknownError(shown, reason=f"simulated: {fate}")
        return UnavailableError(shown, reason=f"simulated: {fate}")

    def _latency(self) -> float:
        """One way, in ms: mostly short, sometimes seconds."""
        if self._chance.fraction() < self._weather.slow:
            return 10 ** (2 + 2.4 * self._chance.fraction())
        return self._distance * (2 + 60 * self._chance.fraction() ** 2)

    def _late(self) -> float:
        """From a tenth of a second to hours: every order of magnitude alike, or every minute."""
        if self._chance.fraction() < 0.5:
            return LATE_MS_MAX * self._chance.fraction()
        return float(100 * (LATE_MS_MAX / 100) ** self._chance.fraction())


def _summary(value: object) -> str:
    match value:
        case Probe(found=found):
            return "nothing" if found is None else f"#{crc32(found.body):08x}"
        case StoredObject(body=body):
            return f"#{crc32(body):08x}"
        case [*pages]:
            return f"{sum(len(page.objects) for page in pages if isinstance(page, ListPage))} keys"
        case _:
            return "done"
