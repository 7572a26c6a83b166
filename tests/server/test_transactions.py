"""Transactions of sessions that meet: conflicts, unknown outcomes, age and size, and sums that hold."""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

import wormdb
from tests.server.conftest import running
from tests.server.wire import Wire
from wormdb.errors import OutcomeUnknownError
from wormdb.server.host import ServerThread
from wormdb.server.parts import ServerOptions
from wormdb.server.service import Service, open_served
from wormdb.settings import Settings
from wormdb.storage.memory import MemoryStore
from wormdb.storage.store import WrappedStore
from wormdb.system.clock import ManualClock, SystemChance, SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wormdb.storage.store import Precondition, Probe, PutResult, Store, StoredObject
    from wormdb.system.clock import Clock

ONE, TWO = "500000000000000000000001", "500000000000000000000002"


def json_session(port: int) -> Wire:
    wire = Wire(port)
    for name, value in (("reply_type", "json"), ("input_type", "json"), ("object_id_format", "hex")):
        assert wire.ask("SESSION.ATTRIBUTE", "SET", name, value) == "+OK"
    return wire


@pytest.fixture
def pair(server: ServerThread) -> Iterator[tuple[Wire, Wire]]:
    with json_session(server.address[1]) as first, json_session(server.address[1]) as second:
        assert first.ask("BUCKET.CREATE", "a") == "+OK"
        assert first.ask("BUCKET.CREATE", "b") == "+OK"
        for bucket, identity in (("a", ONE), ("b", TWO)):
            first.ask("BUCKET.INSERT", bucket, "DOCS", f'{{"_id":"{identity}","n":1}}')
        yield first, second


def test_the_first_to_commit_wins(pair: tuple[Wire, Wire]) -> None:
    for wire in pair:
        assert wire.ask("BEGIN") == "+OK"
        assert wire.ask("BUCKET.UPDATE", "a", "{}", '{"$inc":{"n":1}}') == f'[:1, ["{ONE}"]]'
    assert pair[0].ask("COMMIT") == "+OK"
    assert pair[1].ask("COMMIT").startswith("-NOT_COMMITTED ")
    assert pair[1].ask("COMMIT") == "-TRANSACTION there is no transaction in progress."
    assert pair[1].ask("BUCKET.QUERY", "a", '{"n":2}', "PROJECTION", '{"n":1,"_id":0}') == '[:2, ["{"n":2}"]]'


def test_write_skew_is_refused_and_allowed_by_snapshot_reads(pair: tuple[Wire, Wire]) -> None:
    def cross(wire: Wire, read: str, write: str) -> None:
        assert wire.ask("BEGIN") == "+OK"
        assert wire.ask("BUCKET.QUERY", read, '{"n":{"$gte":1}}').startswith("[")
        assert wire.ask("BUCKET.UPDATE", write, "{}", '{"$inc":{"n":1}}').startswith("[")

    cross(pair[0], "a", "b")
    cross(pair[1], "b", "a")
    assert pair[0].ask("COMMIT") == "+OK"
    assert pair[1].ask("COMMIT").startswith("-NOT_COMMITTED ")
    for wire in pair:
        assert wire.ask("SNAPSHOTREAD", "ON") == "+OK"
    cross(pair[0], "a", "b")
    cross(pair[1], "b", "a")
    assert [wire.ask("COMMIT") for wire in pair] == ["+OK", "+OK"]


def test_others_see_nothing_before_the_commit_and_all_after_it(pair: tuple[Wire, Wire]) -> None:
    writer, reader = pair
    writer.ask("BEGIN")
    for bucket in ("a", "b"):
        writer.ask("BUCKET.UPDATE", bucket, "{}", '{"$set":{"n":5}}')
    for number, bucket in enumerate(("a", "b"), 1):
        assert reader.ask("BUCKET.QUERY", bucket, '{"n":5}') == f"[:{number}, []]"
    assert writer.ask("COMMIT") == "+OK"
    for number, bucket in enumerate(("a", "b"), 3):
        found = reader.ask("BUCKET.QUERY", bucket, '{"n":5}', "PROJECTION", '{"n":1,"_id":0}')
        assert found == f'[:{number}, ["{{"n":5}}"]]'


def test_a_connection_that_ends_gives_up_its_transaction(server: ServerThread, pair: tuple[Wire, Wire]) -> None:
    with json_session(server.address[1]) as wire:
        wire.ask("BEGIN")
        wire.ask("BUCKET.DELETE", "a", "{}")
        assert wire.ask("QUIT") == "+OK"
        assert wire.is_closed()
    assert pair[0].ask("BUCKET.QUERY", "a", "{}", "PROJECTION", '{"n":1,"_id":0}') == '[:1, ["{"n":1}"]]'


def test_a_batch_is_a_part_of_the_transaction_in_which_it_is_asked_for(pair: tuple[Wire, Wire]) -> None:
    first, second = pair
    first.ask("BUCKET.INSERT", "a", "DOCS", f'{{"_id":"{TWO}","n":2}}')
    assert first.ask("BUCKET.UPDATE", "a", "{}", '{"$set":{"z":1}}', "LIMIT", 1) == f'[:1, ["{ONE}"]]'
    first.ask("BEGIN")
    assert first.ask("BUCKET.ADVANCE", "UPDATE", 1) == f'[:1, ["{TWO}"]]'
    assert second.ask("BUCKET.QUERY", "a", '{"z":1,"n":2}') == "[:1, []]"
    first.ask("ROLLBACK")
    assert second.ask("BUCKET.QUERY", "a", '{"z":1,"n":2}') == "[:2, []]"


@contextmanager
def served(settings: Settings, clock: Clock, store: Store | None = None) -> Iterator[Wire]:
    chance = SystemChance()
    where = store or MemoryStore(None, clock=SystemClock())
    with open_served(where, settings=settings, clock=clock, chance=chance) as database:
        service = Service(database, clock=SystemClock(), chance=chance)
        with ServerThread(service, ServerOptions(port=0)) as server, json_session(server.address[1]) as wire:
            assert wire.ask("BUCKET.CREATE", "a") == "+OK"
            assert wire.ask("BUCKET.CREATE", "b") == "+OK"
            yield wire


def test_a_transaction_that_is_too_old_is_refused() -> None:
    clock = ManualClock()
    with served(Settings(), clock) as wire:
        wire.ask("BEGIN")
        assert wire.ask("BUCKET.INSERT", "a", "DOCS", '{"n":1}').startswith("[")
        clock.advance(6)
        assert wire.ask("BUCKET.QUERY", "a", "{}").startswith("-TRANSACTION_TOO_OLD ")
        assert wire.ask("COMMIT").startswith("-TRANSACTION_TOO_OLD ")
        assert wire.ask("BUCKET.QUERY", "a", "{}") == "[:1, []]"


def test_a_transaction_that_is_too_large_is_refused() -> None:
    with served(Settings(transaction_bytes=1_000), SystemClock()) as wire:
        wire.ask("BEGIN")
        assert wire.ask("BUCKET.INSERT", "a", "DOCS", '{"n":1}').startswith("[")
        size = int(wire.ask("GETAPPROXIMATESIZE")[1:])
        assert 0 < size < 1_000
        large = json.dumps({"text": "x" * 2_000})
        assert wire.ask("BUCKET.INSERT", "a", "DOCS", large).startswith("-TRANSACTION_TOO_LARGE ")
        assert wire.ask("GETAPPROXIMATESIZE") == f":{size}"
        assert wire.ask("COMMIT") == "+OK"
        assert wire.ask("BUCKET.QUERY", "a", "{}", "PROJECTION", '{"n":1,"_id":0}') == '[:1, ["{"n":1}"]]'


class MuteStore(WrappedStore):
    """Does what it is asked, and from a PUT of a record of a transaction on answers nothing about it."""

    is_mute = False

    def get(self, key: str) -> StoredObject:
        self._refuse(key)
        return super().get(key)

    def probe(self, key: str) -> Probe:
        self._refuse(key)
        return super().probe(key)

    def _refuse(self, key: str) -> None:
        if self.is_mute and ".worm.tx/" in key:
            raise wormdb.UnavailableError("the store", reason="it answers nothing", key=key)

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = "x/y"
    ) -> PutResult:
        done = super().put(key, body, precondition, content_type=content_type)
        if self.is_mute and ".worm.tx/" in key:
            raise OutcomeUnknownError("the store", reason="its answer was lost", key=key)
        return done


def test_an_unknown_outcome_is_told_with_its_id() -> None:
    store = MuteStore(MemoryStore(None, clock=SystemClock()))
    with served(Settings(commit_seconds=1.0), SystemClock(), store) as wire:
        wire.ask("BEGIN")
        for bucket in ("a", "b"):
            assert wire.ask("BUCKET.INSERT", bucket, "DOCS", '{"n":1}').startswith("[")
        store.is_mute = True
        reply = wire.ask("COMMIT")
        store.is_mute = False
        assert reply.startswith("-COMMIT_UNKNOWN_RESULT "), reply
        assert "tx-" in reply
        assert wire.ask("COMMIT") == "-TRANSACTION there is no transaction in progress."


def test_transfers_through_two_servers_keep_the_sum(tmp_path: Path) -> None:
    place, accounts = str(tmp_path), 6
    with running(place) as one, running(place) as other, ExitStack() as stack:
        admin = stack.enter_context(json_session(one.address[1]))
        for bucket in ("left", "right"):
            admin.ask("BUCKET.CREATE", bucket)
            documents = [f'{{"k":{number},"balance":100}}' for number in range(accounts)]
            admin.ask("BUCKET.INSERT", bucket, "DOCS", *documents)
        done: list[str] = []

        def transfer(port: int, seed: int) -> None:
            with json_session(port) as wire:
                for step in range(12):
                    source, target = ("left", "right") if (seed + step) % 2 else ("right", "left")
                    wire.ask("BEGIN")
                    key = json.dumps({"k": (seed + step) % accounts})
                    moves = (
                        (source, f'{{"$inc":{{"balance":-{seed + 1}}}}}'),
                        (target, f'{{"$inc":{{"balance":{seed + 1}}}}}'),
                    )
                    # What was read may have changed when the second bucket is opened: that is a conflict too.
                    moved = [wire.ask("BUCKET.UPDATE", bucket, key, update).split()[0] for bucket, update in moves]
                    is_moved = all(each.startswith("[") for each in moved)
                    done.append(wire.ask("COMMIT").split()[0] if is_moved else moved[-1])
                    if not is_moved:
                        assert wire.ask("ROLLBACK") == "+OK"

        ports = [one.address[1], other.address[1]] * 2
        threads = [threading.Thread(target=transfer, args=(port, seed)) for seed, port in enumerate(ports)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(done) == 48
    assert set(done) <= {"+OK", "-NOT_COMMITTED"}
    assert done.count("+OK") > 0
    with wormdb.connect(place) as database, database.snapshot(["left", "right"]) as moment:
        total = sum(row["balance"] for name in ("left", "right") for row in moment[name].find())
    assert total == 2 * accounts * 100
