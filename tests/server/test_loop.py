"""The loop never waits for the store: what needs it is done by threads, and one collection does not hold up another."""

from __future__ import annotations

import asyncio
import select
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.server.conftest import running
from tests.server.wire import Wire, packed
from wormdb.server.connection import Connection
from wormdb.server.parts import ServerOptions, ServerParts
from wormdb.server.service import Service, open_served
from wormdb.server.table import COMMANDS
from wormdb.settings import Settings
from wormdb.storage.memory import MemoryStore
from wormdb.storage.store import WrappedStore
from wormdb.system.clock import ManualClock, SystemChance, SystemClock
from wormdb.system.waiting import WouldWaitError, check_waiting, refuse_waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.storage.store import ByteRange, Precondition, Probe, PutResult, Store, StoredObject
    from wormdb.system.clock import Clock

COLD = 100


class GatedStore(WrappedStore):
    """Holds requests for some keys until they are released; remembers which threads asked for anything."""

    def __init__(self, inner: Store, is_held: Callable[[str], bool]) -> None:
        super().__init__(inner)
        self.is_held = is_held
        self.gate = threading.Event()
        self.gate.set()
        self.arrived = threading.Semaphore(0)
        self.threads: set[str] = set()
        self.probes = 0

    def _pass(self, key: str) -> None:
        self.threads.add(threading.current_thread().name)
        if not self.gate.is_set() and self.is_held(key):
            self.arrived.release()
            self.gate.wait()

    def get(self, key: str) -> StoredObject:
        self._pass(key)
        return super().get(key)

    def get_range(self, key: str, span: ByteRange) -> bytes:
        self._pass(key)
        return super().get_range(key, span)

    def probe(self, key: str) -> Probe:
        self._pass(key)
        self.probes += 1
        return super().probe(key)

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = "x/y"
    ) -> PutResult:
        self._pass(key)
        return super().put(key, body, precondition, content_type=content_type)


def filled(name: str, clock: Clock | None = None) -> None:
    """Two collections of the same documents, in blocks."""
    with wormdb.connect(f"memory://{name}", clock=clock) as database:
        for each in ("cold", "warm"):
            database[each].insert_many([{"n": number, "text": "x" * 50} for number in range(200)])
            database[each].forward()


def query(bucket: str, n: int) -> bytes:
    return packed("BUCKET.QUERY", bucket, f'{{"n":{n}}}', "PROJECTION", '{"_id":0,"n":1}')


@pytest.mark.parametrize("held", ["log", "data"])
def test_a_hundred_connections_on_a_cold_collection_do_not_hold_up_a_warm_one(held: str) -> None:
    name, clock = f"cold-{held}", ManualClock()  # it stands still: no deadline ends what is held, however long it takes
    filled(name, clock)
    part = "/committed/" if held == "log" else "/data/"
    store = GatedStore(MemoryStore(name, clock=clock), lambda key: key.startswith("cold/") and part in key)
    with running(store, clock=clock) as server, ExitStack() as stack:
        warm = stack.enter_context(Wire(server.address[1]))
        assert warm.ask("SESSION.ATTRIBUTE", "SET", "reply_type", "json") == "+OK"
        assert warm.ask("SESSION.ATTRIBUTE", "SET", "input_type", "json") == "+OK"
        warm.send(query("warm", 7))
        assert warm.read() == '[:1, ["{"n":7}"]]'
        store.gate.clear()
        cold = [stack.enter_context(Wire(server.address[1])) for _ in range(COLD)]
        for number, wire in enumerate(cold):
            wire.send(packed("SESSION.ATTRIBUTE", "SET", "reply_type", "json") + query("cold", number))
            assert wire.read() == "+OK"
        store.arrived.acquire()  # until a thread waits for the store
        for number in range(20):
            warm.send(query("warm", number))
            assert warm.read() == f'[:{number + 2}, ["{{"n":{number}}}"]]'
        assert warm.ask("BUCKET.INSERT", "warm", "DOCS", '{"n":1000}').startswith("[")
        warm.send(query("warm", 1000))
        assert warm.read() == '[:22, ["{"n":1000}"]]'
        assert select.select([wire.socket for wire in cold], [], [], 0)[0] == [], "the cold ones still wait"
        store.gate.set()
        for number, wire in enumerate(cold):
            assert wire.read() == f'[:1, ["{{"n":{number}}}"]]'


def test_no_request_is_made_by_the_thread_of_the_loop() -> None:
    filled("threads")
    store = GatedStore(MemoryStore("threads", clock=SystemClock()), lambda _: False)
    with running(store) as server, Wire(server.address[1]) as wire:
        wire.ask("SESSION.ATTRIBUTE", "SET", "input_type", "json")
        for bucket in ("cold", "warm", "new"):
            wire.ask("BUCKET.CREATE", bucket, "IF-NOT-EXISTS")
            wire.ask("BUCKET.QUERY", bucket, '{"n":{"$gt":5}}', "SORTBY", "text", "ASC", "LIMIT", "3")
            wire.ask("BUCKET.ADVANCE", "QUERY", "1")
            wire.ask("BUCKET.INSERT", bucket, "DOCS", '{"n":5}')
            wire.ask("BUCKET.UPDATE", bucket, '{"n":5}', '{"$set":{"m":1}}')
            wire.ask("BUCKET.DELETE", bucket, '{"n":5}')
            wire.ask("BUCKET.EXPLAIN", bucket, "{}")
            wire.ask("BUCKET.INDEX", "CREATE", bucket, '{"n":{"bson_type":"int32"}}')
        vectors = '{"$vector":{"field":"v","dimensions":2,"distance":"cosine"}}'
        wire.ask("BUCKET.CREATE", "vectors", "INDEXES", vectors)
        wire.ask("BUCKET.INSERT", "vectors", "DOCS", '{"v":[1,0]}')
        in_loop = server.parts.service.figures.in_loop
        for _ in range(2):
            assert wire.ask("BUCKET.VECTOR", "vectors", "v", "[1,0]").startswith('[["1", ')
        assert server.parts.service.figures.in_loop == in_loop, "the loop compares no vectors"
        for command in (("BUCKET.LIST",), ("NAMESPACE", "CREATE", "a"), ("NAMESPACE", "LIST"), ("TICK", "FRESH")):
            wire.ask(*command)
        figures = server.parts.service.figures
        assert figures.in_loop > 0
        assert figures.faults == {}
        assert server.parts.gate.probes > 0
    assert store.threads
    assert not any(name.startswith("wormdb-server") for name in store.threads)


class FakeTransport(asyncio.Transport):
    """Takes what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is buffered."""

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False


async def replies_to(
    store: Store, pieces: list[bytes], replies: int, mark: bytes = b"entries"
) -> tuple[bytes, ServerParts]:
    """What a connection answers to pieces that each arrive on a connection of their own at the same moment."""
    clock, chance = SystemClock(), SystemChance()
    with open_served(store, settings=Settings(), clock=clock, chance=chance) as database:
        service = Service(database, clock=clock, chance=chance)
        service.commands = COMMANDS
        parts = ServerParts(service, ServerOptions(), asyncio.get_running_loop())
        transports = []
        for data in pieces:
            connection, transport = Connection(parts), FakeTransport()
            connection.connection_made(transport)
            connection.data_received(data)
            transports.append(transport)
        async with asyncio.timeout(60):
            while sum(transport.written.count(mark) for transport in transports) < replies:  # noqa: ASYNC110 - no event tells of what a transport is given
                await asyncio.sleep(0)
        return b"".join(bytes(transport.written) for transport in transports), parts


HELLO = packed("HELLO", "3") + packed("SESSION.ATTRIBUTE", "SET", "reply_type", "json")


def test_reads_that_have_arrived_share_one_probe() -> None:
    filled("pipeline")
    store = GatedStore(MemoryStore("pipeline", clock=SystemClock()), lambda _: False)
    pipeline = HELLO + b"".join(query("warm", number) for number in range(50))
    written, parts = asyncio.run(replies_to(store, [pipeline], 50))
    assert [written.count(f'{{"n":{number}}}'.encode()) for number in range(50)] == [1] * 50
    assert parts.gate.probes == 1
    assert written.index(b'{"n":0}') < written.index(b'{"n":10}') < written.index(b'{"n":49}')


def test_searches_for_vectors_share_one_probe() -> None:
    with wormdb.connect("memory://nearest") as database:
        database["warm"].create_vector_index("v", dimensions=2)
        database["warm"].insert_many([{"n": number, "v": [1, number]} for number in range(20)])
    store = GatedStore(MemoryStore("nearest", clock=SystemClock()), lambda _: False)
    asked = [packed("BUCKET.VECTOR", "warm", "v", f"[1,{number}]", "TOP", 1) for number in range(20)]
    written, parts = asyncio.run(replies_to(store, [HELLO + b"".join(asked)], 20, b"score"))
    places = [written.index(f'"n":{number},'.encode()) for number in range(20)]
    assert places == sorted(places)
    assert parts.gate.probes == 1


def test_connections_that_ask_in_one_turn_of_the_loop_share_one_probe() -> None:
    filled("turn")
    store = GatedStore(MemoryStore("turn", clock=SystemClock()), lambda _: False)
    written, parts = asyncio.run(replies_to(store, [HELLO + query("warm", number) for number in range(64)], 64))
    assert [written.count(f'{{"n":{number}}}'.encode()) for number in range(64)] == [1] * 64
    assert parts.gate.probes == 1


def test_a_read_sees_what_was_acknowledged_before_it_was_sent(tmp_path: Any) -> None:
    place = str(tmp_path)
    with wormdb.connect(place) as database, running(place) as server, Wire(server.address[1]) as wire:
        database["c"].insert({"n": 0})
        wire.ask("SESSION.ATTRIBUTE", "SET", "input_type", "json")
        wire.ask("SESSION.ATTRIBUTE", "SET", "reply_type", "json")
        for number in range(1, 40):
            database["c"].insert({"n": number})
            wire.send(query("c", number))
            assert wire.read() == f'[:{number}, ["{{"n":{number}}}"]]'
            assert wire.ask("BUCKET.INSERT", "c", "DOCS", f'{{"m":{number}}}').startswith("[")
            assert database["c"].count({"m": number}) == 1


def test_waiting_is_refused_only_inside() -> None:
    check_waiting("anything")
    with refuse_waiting(), pytest.raises(WouldWaitError):
        check_waiting("anything")
    check_waiting("anything")
    assert not issubclass(WouldWaitError, Exception)


def test_a_thread_of_the_pool_is_not_waited_for_where_waiting_is_refused() -> None:
    from wormdb.storage.pool import ThreadPool
    from wormdb.system.deadline import TimedLock

    pool, lock = ThreadPool(2), TimedLock("a thing")
    with refuse_waiting(), pytest.raises(WouldWaitError):
        list(pool.map(str, [1]))
    holder = threading.Thread(target=lock.acquire)
    holder.start()
    holder.join()
    with refuse_waiting(), pytest.raises(WouldWaitError), lock:
        pass
    pool.close()
