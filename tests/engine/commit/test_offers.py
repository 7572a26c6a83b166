"""Offers: writers of many processes share entries, in virtual time; and what becomes of an offer that is not taken."""

from __future__ import annotations

import math
import threading
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from unittest import mock

import pytest

from tests.engine.rig import COLLECTION, PATHS, HookStore, Rig, insert, save
from tests.simulation.scheduler import START_MS, Process, ProcessClock, Scheduler, cooperative_locks
from wormdb.engine.commit import turns
from wormdb.engine.commit.offers import OFFER_SLOTS, Offer, Offers
from wormdb.engine.commit.operations import CommitId, Insert, InsertNext, Pending
from wormdb.engine.commit.resolve import Fate
from wormdb.engine.commit.turns import GATHER_EMPTY_MAX, GATHERS
from wormdb.engine.ledger import Ledger, Runtime
from wormdb.engine.log.clock import MiscClock
from wormdb.errors import PermissionDeniedError, UnavailableError, WormError
from wormdb.format import json
from wormdb.format.entry import Entry, LoggedBatch, LoggedChange, decode_entry, encode_entry
from wormdb.format.event import Nothing
from wormdb.storage.memory import MemoryStore
from wormdb.storage.store import OCTETS, IfAbsent, ListPage, Precondition, PutResult, Store, WrappedStore
from wormdb.system.clock import SeededChance, Uptime
from wormdb.system.types import LogNumber, WriteId
from wormdb.testing.latency_store import Latency, LatencyProfile, LatencyStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")
R = TypeVar("R")

GET_MS, PUT_MS = 25, 100
GET = Latency(GET_MS)
STORE = LatencyProfile(get=GET, head=GET, list=Latency(50), put=Latency(PUT_MS), delete=GET)


class TaskPool:
    """Runs what it is given as tasks of a scheduler, side by side."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        found: dict[int, R] = {}
        process = self._scheduler.current.process
        waiting = []
        for place, item in enumerate(items):
            waiting.append(threading.Event())

            def run(place: int = place, item: T = item) -> None:
                self._scheduler.current.process = process
                found[place] = function(item)
                waiting[place].set()

            self._scheduler.spawn("pool", run)
        for place, event in enumerate(waiting):
            event.wait()
            yield found.pop(place)

    def close(self) -> None:
        pass


class CountingStore(WrappedStore):
    """Counts requests by what they found."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.count: Counter[str] = Counter()

    def list(self, *given: Any, **options: Any) -> Iterator[ListPage]:
        self.count["list"] += 1
        return self._inner.list(*given, **options)

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        kind = "offer" if key.startswith(PATHS.offers) else "entry"
        try:
            result = self._inner.put(key, body, precondition, content_type=content_type)
        except WormError:
            self.count[f"{kind} lost"] += 1
            raise
        self.count[kind] += 1
        return result


class StoreClock:
    """The store's."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def now_ms(self) -> int:
        return int(START_MS + self._scheduler.now)

    def monotonic(self) -> float:
        return self._scheduler.now / 1000

    def uptime(self) -> Uptime:
        raise AssertionError("no code asks a store for that")

    def sleep(self, seconds: float) -> None:
        raise AssertionError(f"a store does not sleep ({seconds} s)")


@dataclass
class Crowd:
    """Processes with the real code of a ledger each, on one store that takes its time; which is virtual."""

    scheduler: Scheduler = field(default_factory=lambda: Scheduler(SeededChance(1), events_max=10_000_000))
    latencies: dict[int, list[float]] = field(default_factory=dict)
    """Of the inserts of each process, in ms, after the first seconds and before `ends`."""
    ends: float = math.inf
    failed: int = 0
    inserted: int = 0

    def __post_init__(self) -> None:
        self.objects = MemoryStore(clock=StoreClock(self.scheduler))
        self.store = CountingStore(self.objects)

    def process(
        self, number: int, threads: int, until_ms: float, *, pause_ms: float = 0.0, since_ms: float = 0.0, **more: Any
    ) -> None:
        """A process whose threads insert one document after the other, until a moment."""
        process = Process(f"process{number}")
        clock, chance = ProcessClock(self.scheduler, process), SeededChance(1000 + number)
        runtime = Runtime(
            store=LatencyStore(self.store, clock=clock, chance=chance, profile=STORE),
            pool=TaskPool(self.scheduler),
            clock=clock,
            chance=chance,
            misc=MiscClock(clock),
            before_first_write=lambda: None,
        )
        ledger = Ledger(COLLECTION, runtime)
        self.latencies[number] = []

        def body(thread: int) -> None:
            with self.scheduler.inside(process):
                clock.sleep((since_ms + thread + 4 * number) / 1000)
                place = 0
                while self.scheduler.now < until_ms:
                    place += 1
                    self._insert(ledger, number, f"{number}-{thread}-{place}", chance.token(16).hex(), **more)
                    if pause_ms:
                        clock.sleep(pause_ms / 1000)

        for thread in range(threads):
            self.scheduler.spawn(f"{number}-{thread}", partial(body, thread))

    def _insert(self, ledger: Ledger, number: int, name: str, batch: str, *, is_numbered: bool = False) -> None:
        start = self.scheduler.now
        document = json.encode_document({"value": name})
        made = Insert(json.encode(name), json.encode_document({"_id": name}))
        try:
            ledger.commit(Pending(batch, (InsertNext(document) if is_numbered else made,)))
        except UnavailableError:
            self.failed += 1
            return
        self.inserted += 1
        if 2_000 < start < self.ends:
            self.latencies[number].append(self.scheduler.now - start)

    def batches(self) -> list[str]:
        """The batches of the log."""
        found: list[str] = []
        for page in self.objects.list(PATHS.entries):
            for info in page.objects:
                slot, body = int(info.key[-20:]), self.objects.get(info.key).body
                entry = decode_entry(body, name=info.key, number=slot, collection=COLLECTION)
                found += [batch.id for batch in entry.batches]
        return found


def crowd(processes: int, *, seconds: float = 8.0, threads: int = 4) -> Crowd:
    found = Crowd(ends=seconds * 1000 - 1_500)
    with cooperative_locks(found.scheduler):
        for number in range(processes):
            found.process(number, threads, seconds * 1000)
        found.scheduler.run()
    return found


@pytest.mark.parametrize(("processes", "least"), [(4, 420), (16, 1_700)])
def test_processes_that_write_without_a_break_share_entries_and_none_waits_long(processes: int, least: int) -> None:
    found = crowd(processes)
    latencies = sorted(latency for own in found.latencies.values() for latency in own)
    assert found.failed == 0
    assert len(found.batches()) == len(set(found.batches())) == found.inserted
    assert found.inserted >= least
    assert found.store.count["entry lost"] <= found.inserted / 20
    assert latencies[len(latencies) * 99 // 100] <= 4 * latencies[len(latencies) // 2]
    shares = [len(own) for own in found.latencies.values()]
    assert min(shares) >= max(shares) / 2


def test_it_is_five_times_what_turns_alone_give() -> None:
    with mock.patch.object(turns, "GATHER_EMPTY_MAX", 0):
        alone = crowd(16)
    assert alone.store.count["offer"] == 0
    assert crowd(16).inserted >= 5 * alone.inserted


def test_a_process_alone_writes_each_entry_by_one_request() -> None:
    found = crowd(1, threads=1)
    assert found.store.count == Counter({"entry": found.inserted})


def test_one_that_wrote_once_costs_another_a_few_looks_and_no_more() -> None:
    found = Crowd()
    with cooperative_locks(found.scheduler):
        found.process(0, 1, 8_000)
        found.process(1, 1, 2_000, since_ms=1_900, pause_ms=2_000)
        found.scheduler.run()
    assert found.store.count["list"] <= 2 * GATHER_EMPTY_MAX
    assert sorted(found.latencies[0])[len(found.latencies[0]) // 2] == PUT_MS


def test_when_the_one_that_gathers_ends_the_others_go_on_together() -> None:
    found = Crowd()
    with cooperative_locks(found.scheduler):
        for number in range(8):
            found.process(number, 2, 4_000 + 500 * number)
        found.scheduler.run()
    assert found.failed == 0
    assert max(latency for own in found.latencies.values() for latency in own) <= 2_500


def test_a_batch_that_cannot_be_offered_gets_its_turn() -> None:
    found = Crowd()
    with cooperative_locks(found.scheduler):
        for number in range(4):
            found.process(number, 2, 12_000)
        found.process(4, 1, 12_000, is_numbered=True)
        found.scheduler.run()
    assert found.failed == 0
    assert len(found.latencies[4]) >= 3
    assert max(found.latencies[4]) <= 8_000


# --- One offer.


def entry_of(number: int, *batches: str, is_event: bool = False) -> Entry:
    change = LoggedChange(id=b'"x"', seq=1, after=b'{"_id":"x"}')
    return Entry(
        number=number,
        write_id=WriteId(f"{number:032x}"),
        misc=number << 8,
        node=0,
        previous=bytes(32),
        batches=tuple(LoggedBatch(id=WriteId(batch), changes=(change,)) for batch in batches),
        events=(Nothing(),) if is_event else (),
    )


A, B, C = ("a" * 32, "b" * 32, "c" * 32)


def test_an_offer_is_open_for_its_slots_and_until_an_event() -> None:
    offer = Offer(entry_of(3, A, B))
    assert offer.open == {A, B}
    offer.told(entry_of(3, C))
    offer.told(entry_of(4, B))
    assert offer.open == {A}
    assert offer.taken[B].number == 4
    for number in range(5, 3 + OFFER_SLOTS):
        assert offer.open == {A}
        offer.told(entry_of(number, C))
    assert not offer.open
    ended = Offer(entry_of(3, A))
    ended.told(entry_of(3, C, is_event=True))
    ended.told(entry_of(4, A))
    assert not ended.open
    assert not ended.taken


def test_an_offer_believes_in_no_entry_before_it_knows_those_before() -> None:
    offer = Offer(entry_of(3, A))
    offer.told(entry_of(5, C))
    assert offer.seen == 2


def test_entries_that_a_head_passed_over_are_read() -> None:
    rig = Rig()
    writer = rig.ledger()
    names = [rig.batch(insert(number)) for number in range(6)]
    for batch in names:
        writer.commit(batch)
    writer.forward()
    begun_anew = rig.ledger()
    begun_anew.view()
    offers = Offers(rig.log)
    offers.own = Offer(entry_of(3, names[4].id, C))
    assert not offers.is_settled(LogNumber(6), [C])
    offers.follow(begun_anew._head)
    assert offers.own.taken.keys() == {names[4].id}
    assert offers.is_settled(LogNumber(6), [C])
    assert not offers.is_settled(LogNumber(6), [names[4].id])
    offers.own = Offer(entry_of(3, C))
    rig.store.delete(PATHS.entry(LogNumber(5)))
    with pytest.raises(UnavailableError, match="entry 3 is gone"):
        offers.follow(begun_anew._head)


class Unlisted(WrappedStore):
    """A store that may not be listed."""

    def list(self, *_: Any, **__: Any) -> Iterator[ListPage]:
        raise PermissionDeniedError("list")


def test_offers_that_cannot_be_read_are_left_alone() -> None:
    rig = Rig()
    rig.ledger().commit(rig.batch(insert("a")))
    rig.store.put(PATHS.offer(LogNumber(2), "1" * 32), b"no entry")
    rig.store.put(f"{PATHS.offers}00000000000000000002x", b"no name")
    offers, ledger = Offers(rig.log), rig.ledger()
    ledger.view()
    assert offers.gather(LogNumber(1), "ffffffff") == 2
    with ledger._head.lock:
        assert offers.take(mock.Mock(), [], ledger._head) == []
    assert Offers(rig.log).gather(LogNumber(1), "11111111") == 1, "its own are not read"
    assert Offers(rig.log).gather(LogNumber(2 + OFFER_SLOTS), "ffffffff") == 0, "nor those that have ended"
    log = mock.Mock(wraps=rig.log, store=Unlisted(rig.store), paths=PATHS, collection=COLLECTION)
    assert Offers(log).gather(LogNumber(1), "ffffffff") == 0


# --- An outcome that is told later.


def commit_id(slot: int, batch: str = C) -> str:
    return str(CommitId(LogNumber(slot), WriteId("0" * 32), batch, OFFER_SLOTS - 1))


def test_the_name_of_an_offered_batch_says_in_how_many_slots_it_may_be() -> None:
    assert CommitId.parse(commit_id(12)) == CommitId(LogNumber(12), WriteId("0" * 32), C, OFFER_SLOTS - 1)
    assert CommitId.parse(f"12-{'0' * 32}-{C}").more == 0


def test_an_offered_batch_is_looked_for_in_all_of_its_slots() -> None:
    rig = Rig()
    ledger = rig.ledger()
    batches = [rig.batch(save("x", n=number)) for number in range(5)]
    for batch in batches:
        ledger.commit(batch)
    assert ledger.resolve(commit_id(2, batches[4].id)) is Fate.COMMITTED
    assert ledger.resolve(commit_id(2)) is Fate.UNKNOWN
    store = HookStore(rig.store)
    seen: list[str] = []
    store.before = lambda verb, _: seen.append(verb)
    assert rig.ledger(store).resolve(commit_id(2), settle=True) is Fate.NOT_COMMITTED
    assert seen.count("put") == 1, "an event ends what was offered before it"
    assert ledger.resolve(commit_id(2)) is Fate.NOT_COMMITTED


def test_an_offer_that_was_ended_by_an_event_is_not_taken_and_another_is() -> None:
    rig = Rig()
    first = rig.ledger()
    first.commit(rig.batch(insert("a")))
    digest = first._head.hash
    offered = Entry(
        number=2,
        write_id=WriteId("1" * 32),
        misc=1 << 8,
        node=0,
        previous=digest,
        batches=(LoggedBatch(id=WriteId(C), changes=(LoggedChange(id=b'"o"', seq=1, after=b'{"_id":"o"}'),)),),
    )
    rig.store.put(PATHS.offer(LogNumber(2), offered.write_id), encode_entry(offered, collection=COLLECTION), IfAbsent())
    with mock.patch.object(turns.WriterTurns, "gathers", True):
        first.commit(rig.batch(insert("b")))
        assert first.resolve(commit_id(2)) is Fate.COMMITTED
        first.commit(rig.batch(insert("c")))
    assert [batch for batch in Crowd.batches(mock.Mock(objects=rig.store)) if batch == C] == [C], "once"
    other = Rig()
    ledger = other.ledger()
    ledger.commit(other.batch(insert("a")))
    assert ledger.resolve(commit_id(2), settle=True) is Fate.NOT_COMMITTED
    with mock.patch.object(turns.WriterTurns, "gathers", True):
        made = encode_entry(
            Entry(
                number=2,
                write_id=WriteId("1" * 32),
                misc=1 << 8,
                node=0,
                previous=ledger._head.hash_at(LogNumber(1)) or b"",
                batches=offered.batches,
            ),
            collection=COLLECTION,
        )
        other.store.put(PATHS.offer(LogNumber(2), "1" * 32), made)
        ledger.commit(other.batch(insert("b")))
    assert C not in Crowd.batches(mock.Mock(objects=other.store))


def test_what_is_taken_from_others_is_never_offered_on() -> None:
    """Its writer knows in which slots to look for it, and those of another offer are others."""
    rig = Rig()
    ledger = rig.ledger()
    ledger.commit(rig.batch(insert("a")))
    theirs, own = rig.batch(insert("theirs")), rig.batch(insert("own"))
    change = LoggedChange(id=b'"theirs"', seq=1, after=b'{"_id":"theirs"}')
    offered = Entry(
        number=2,
        write_id=WriteId("1" * 32),
        misc=1 << 8,
        node=0,
        previous=ledger._head.hash,
        batches=(LoggedBatch(id=WriteId(theirs.id), changes=(change,)),),
    )
    rig.store.put(PATHS.offer(LogNumber(2), offered.write_id), encode_entry(offered, collection=COLLECTION))
    ledger._committer._offers.gather(LogNumber(1), "ffffffff")
    with (
        mock.patch.object(turns.WriterTurns, "gathers", True),
        mock.patch.object(turns.WriterTurns, "is_gathered", True),
        mock.patch.object(turns.WriterTurns, "next_offer_look", return_value=None),
    ):
        ledger.commit(own)
    offers = [info.key for page in rig.store.list(PATHS.offers) for info in page.objects if "1" * 32 not in info.key]
    (made,) = (decode_entry(rig.store.get(key).body, name=key, number=2, collection=COLLECTION) for key in offers)
    assert [batch.id for batch in made.batches] == [own.id]
    assert Crowd.batches(mock.Mock(objects=rig.store))[1:] == [own.id, theirs.id], "both are in the entry"


def test_only_a_writer_that_is_back_at_once_among_others_says_that_it_gathers() -> None:
    assert GATHERS > turns.TURN_COMMITS, "writers of before take it for no turn"
