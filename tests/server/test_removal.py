"""Removal in two phases by RESP, to its end: the barrier passes, names are free again, and numbers go on."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.server.wire import Wire
from wormdb.jobs.node.node import Node
from wormdb.server.host import ServerThread
from wormdb.server.parts import ServerOptions
from wormdb.server.service import Service, open_served
from wormdb.settings import Settings
from wormdb.storage.memory import MemoryStore
from wormdb.system.clock import ManualClock, SeededChance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.api.database import Database


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
