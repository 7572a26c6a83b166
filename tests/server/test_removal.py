"""Removal in two phases by RESP, to its end: the barrier passes, names are free again, and numbers go on."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tests.server.wire import Wire
from wormdb.errors import WormError
from wormdb.jobs.node.node import Node
from wormdb.server.commands import find_command
from wormdb.server.faults import fault_of
from wormdb.server.host import ServerThread
from wormdb.server.parts import ServerOptions
from wormdb.server.replies import ErrorReply, Status
from wormdb.server.service import Service, open_served
from wormdb.server.session import ClientSession
from wormdb.server.table import COMMANDS
from wormdb.settings import Settings
from wormdb.storage.memory import MemoryStore
from wormdb.system.clock import ManualClock, SeededChance
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.api.database import Database
    from wormdb.storage.store import Store

pytestmark = pytest.mark.usefixtures("remembered")


class Rig:
    """Servers over one store whose time a test decides."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.clock = ManualClock()
        self.store = MemoryStore(None, clock=self.clock)
        self._seeds = iter(range(100))

    def database(self) -> Database:
        chance = SeededChance(next(self._seeds))
        opened = open_served(self.store, settings=Settings(forward="manual"), clock=self.clock, chance=chance)
        return self._stack.enter_context(opened)

    def serve(self) -> Wire:
        chance = SeededChance(next(self._seeds))
        service = Service(self.database(), clock=self.clock, chance=chance)
        server = self._stack.enter_context(ServerThread(service, ServerOptions(port=0)))
        wire = self._stack.enter_context(Wire(server.address[1]))
        for words in (("input_type", "json"), ("reply_type", "json"), ("object_id_format", "hex")):
            assert wire.ask("SESSION.ATTRIBUTE", "SET", *words) == "+OK"
        return wire

    def keys(self, prefix: str = "") -> list[str]:
        return [info.key for page in self.store.list(prefix) for info in page.objects]


@pytest.fixture
def rig() -> Iterator[Rig]:
    with ExitStack() as stack:
        yield Rig(stack)


def test_a_purged_bucket_is_not_there_and_its_name_is_free(rig: Rig) -> None:
    one, other = rig.serve(), rig.serve()
    assert one.ask("BUCKET.CREATE", "b", "SHARDS", 3) == "+OK"
    assert one.ask("BUCKET.INSERT", "b", "DOCS", '{"_id":"500000000000000000000001"}').startswith("[")
    assert other.ask("BUCKET.QUERY", "b", "{}").startswith("[:1, [")
    assert one.ask("BUCKET.REMOVE", "b") == "+OK"
    assert one.ask("BUCKET.PURGE", "b").startswith("-BARRIERNOTSATISFIED ")
    rig.clock.advance(59)
    assert other.ask("BUCKET.PURGE", "b").startswith("-BARRIERNOTSATISFIED ")
    rig.clock.advance(2)
    assert other.ask("BUCKET.PURGE", "b") == "+OK"
    assert not [key for key in rig.keys("b/") if key.endswith("/shards") or "/data/" in key]
    for wire in (one, other):
        assert wire.ask("BUCKET.LIST") == "[]"
        for words in (
            ("BUCKET.QUERY", "b", "{}"),
            ("BUCKET.INSERT", "b", "DOCS", "{}"),
            ("BUCKET.LOCATE", "b"),
            ("BUCKET.REMOVE", "b"),
            ("BUCKET.PURGE", "b"),
        ):
            assert wire.ask(*words) == "-NOSUCHBUCKET No such bucket: 'b'", words
    assert one.ask("BUCKET.CREATE", "b") == "+OK"
    assert other.ask("BUCKET.CREATE", "b") == "-BUCKETALREADYEXISTS Bucket already exists: b"
    assert other.ask("BUCKET.INSERT", "b", "DOCS", '{"_id":"500000000000000000000002"}').startswith("[")
    assert one.ask("BUCKET.QUERY", "b", "{}") == '[:1, ["{"_id":"500000000000000000000002"}"]]'
    assert one.ask("BUCKET.LIST") == other.ask("BUCKET.LIST") == '["b"]'


def test_a_purge_waits_for_every_live_node(rig: Rig) -> None:
    wire, node = rig.serve(), Node(rig.database(), clock=rig.clock, chance=SeededChance(99))
    assert wire.ask("BUCKET.CREATE", "b") == "+OK"
    node.start()
    node.work()
    assert wire.ask("BUCKET.REMOVE", "b") == "+OK"
    rig.clock.advance(61)
    node.beat()
    shown = wire.ask("BUCKET.PURGE", "b")
    assert shown.startswith("-BARRIERNOTSATISFIED ")
    assert "node 0 has not shown entry 2" in shown
    while wire.ask("BUCKET.PURGE", "b") != "+OK":
        node.work()
        rig.clock.advance(node.beat())
    assert wire.ask("BUCKET.LIST") == "[]"
    node.stop()


def test_a_purged_namespace_is_not_there_and_its_name_is_free(rig: Rig) -> None:
    one, other = rig.serve(), rig.serve()
    for namespace in ("shop.eu", "shop.us"):
        assert one.ask("NAMESPACE", "CREATE", namespace) == "+OK"
        assert one.ask("NAMESPACE", "USE", namespace) == "+OK"
        for bucket in ("orders", "lines"):
            assert one.ask("BUCKET.CREATE", bucket) == "+OK"
            assert one.ask("BUCKET.INSERT", bucket, "DOCS", "{}").startswith("[")
    assert one.ask("NAMESPACE", "CREATE", "shops") == "+OK"
    assert other.ask("NAMESPACE", "REMOVE", "shop") == "+OK"
    assert one.ask("BUCKET.INSERT", "orders", "DOCS", "{}").startswith("-BUCKETBEINGREMOVED ")
    assert one.ask("NAMESPACE", "PURGE", "shop").startswith("-BARRIERNOTSATISFIED ")
    rig.clock.advance(61)
    assert one.ask("NAMESPACE", "PURGE", "shop") == "+OK"
    assert other.ask("NAMESPACE", "EXISTS", "shop") == other.ask("NAMESPACE", "EXISTS", "shop.eu") == ":0"
    assert other.ask("NAMESPACE", "LIST") == '["global", "shops"]'
    assert one.ask("NAMESPACE", "CREATE", "shop.eu") == "+OK"
    assert one.ask("BUCKET.LIST") == "[]"
    assert one.ask("NAMESPACE", "USE", "shop.eu") == "+OK"
    assert one.ask("BUCKET.CREATE", "orders") == "+OK"
    assert one.ask("BUCKET.QUERY", "orders", "{}") == "[:1, []]"


def test_a_bucket_that_was_made_while_its_namespace_was_removed_goes_with_it(rig: Rig) -> None:
    wire, database = rig.serve(), rig.database()
    assert wire.ask("NAMESPACE", "CREATE", "shop") == "+OK"
    assert wire.ask("NAMESPACE", "REMOVE", "shop") == "+OK"
    database["shop/late"].insert({"n": 1})
    assert wire.ask("NAMESPACE", "PURGE", "shop").startswith("-BARRIERNOTSATISFIED ")
    rig.clock.advance(61)
    assert wire.ask("NAMESPACE", "PURGE", "shop") == "+OK"
    assert database.collections() == []
    assert wire.ask("NAMESPACE", "EXISTS", "shop") == ":0"


def test_a_removal_that_broke_off_is_finished_by_the_purge(rig: Rig) -> None:
    """Only the marker says that the namespace was removed: the server died before it came to its buckets."""
    from wormdb.server.namespaces import mark_removed

    wire = rig.serve()
    assert wire.ask("NAMESPACE", "CREATE", "shop") == "+OK"
    assert wire.ask("NAMESPACE", "USE", "shop") == "+OK"
    assert wire.ask("BUCKET.CREATE", "orders") == "+OK"
    mark_removed(rig.store, "shop", SeededChance(7))
    assert wire.ask("NAMESPACE", "PURGE", "shop").startswith("-BARRIERNOTSATISFIED ")
    assert wire.ask("BUCKET.INSERT", "orders", "DOCS", "{}").startswith("-BUCKETBEINGREMOVED ")
    rig.clock.advance(61)
    assert wire.ask("NAMESPACE", "PURGE", "shop") == "+OK"
    assert wire.ask("BUCKET.LIST") == "[]"


# --- a crash, and a lost answer, at every request ---


def called(service: Service, text: str, namespace: str = "global") -> str:
    """What a command answers, without a socket: OK, a number, or an error."""
    words = [word.encode() for word in text.split()]
    session = ClientSession(service, 1, "", namespace=namespace)
    try:
        reply = find_command(COMMANDS, words).run(session, words)
    except ErrorReply as error:
        return error.line
    except WormError as error:
        return fault_of(error).line
    return reply.text if isinstance(reply, Status) else str(reply)


def finished(clock: ManualClock, service: Service) -> None:
    """Do what an operator does who finds a removal that broke off."""
    for _ in range(6):
        told = called(service, "NAMESPACE PURGE shop")
        if told == "OK" or told.startswith("NOSUCHNAMESPACE"):
            return
        if told.startswith("BARRIERNOTSATISFIED"):
            clock.advance(61)
        else:
            assert called(service, "NAMESPACE REMOVE shop") == "OK", told
    pytest.fail("it does not come to an end")


@pytest.mark.parametrize("step", ["REMOVE", "PURGE"])
@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.ANSWER_LOST, Fault.UNAVAILABLE_503])
def test_a_namespace_goes_wholly_whatever_request_its_removal_broke_off_at(step: str, fault: Fault) -> None:
    number, has_fired = 0, True
    while has_fired:
        number += 1
        with ExitStack() as stack:
            clock, seeds = ManualClock(), iter(range(100))
            store = MemoryStore(None, clock=clock)

            def service(on: Store, stack: ExitStack = stack, clock: ManualClock = clock, seeds: Any = seeds) -> Service:
                settings, chance = Settings(forward="manual"), SeededChance(next(seeds))
                opened = stack.enter_context(open_served(on, settings=settings, clock=clock, chance=chance))
                return Service(opened, clock=clock, chance=chance)

            first = service(store)
            for text in ("NAMESPACE CREATE shop.eu", "NAMESPACE CREATE shops"):
                assert called(first, text) == "OK"
            for namespace in ("shop", "shop.eu", "shops"):
                assert called(first, "BUCKET.CREATE orders", namespace) == "OK"
            if step == "PURGE":
                assert called(first, "NAMESPACE REMOVE shop") == "OK"
                clock.advance(61)
            faulty = FaultStore(store, {number: fault})
            try:
                broken = called(service(faulty), f"NAMESPACE {step} shop")
            except SimulatedCrash:
                broken = "crash"
            has_fired = bool(faulty.fired)
            assert has_fired or broken == "OK"
            second = service(store)
            finished(clock, second)
            assert called(second, "NAMESPACE EXISTS shop") == called(second, "NAMESPACE EXISTS shop.eu") == "0"
            assert called(second, "NAMESPACE LIST") == "['global', 'shops']"
            assert called(second, "BUCKET.LIST", "shops") == "['orders']"
            assert called(second, "NAMESPACE CREATE shop") == "OK"
            assert called(second, "BUCKET.LIST", "shop") == "[]"
            assert called(second, "BUCKET.CREATE orders", "shop") == "OK"
    assert number > 8
