"""Documents that are over, through a server: no command shows one, and a cursor keeps the moment of its first batch."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import wormdb
from tests.server.wire import Wire
from wormdb.format.wrappers import moment
from wormdb.server.host import ServerThread
from wormdb.server.parts import ServerOptions
from wormdb.server.service import Service, open_served
from wormdb.settings import Settings
from wormdb.storage.memory import MemoryStore
from wormdb.system.clock import SystemChance, SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.api.database import Database
    from wormdb.system.clock import Uptime

SECONDS = 100
IDS = ("old0", "old1", "new0", "new1")


class MovedClock:
    """The clocks of this machine, ahead by what tests say."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self._below = SystemClock()

    def now_ms(self) -> int:
        return self._below.now_ms() + int(self.ahead * 1000)

    def monotonic(self) -> float:
        return self._below.monotonic() + self.ahead

    def uptime(self) -> Uptime:
        return self._below.uptime()

    def sleep(self, seconds: float) -> None:
        self._below.sleep(seconds)


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def store(clock: MovedClock) -> MemoryStore:
    return MemoryStore(None, clock=clock)


@pytest.fixture
def python(clock: MovedClock, store: MemoryStore) -> Iterator[Database]:
    """Another process, which does not forward: what is over stays stored until a writer meets it."""
    with wormdb.connect(store, clock=clock, settings=Settings(forward="manual")) as database:
        things = database["things"]
        things.create_index("email", unique=True)
        things.create_vector_index("vector", dimensions=2)
        things.expire("at")
        now = moment(clock.now_ms())
        for number, identity in enumerate(IDS):
            ends = now + timedelta(seconds=SECONDS if identity.startswith("old") else 10 * SECONDS)
            vector = [1.0, float(number)]
            things.insert({"_id": identity, "at": ends, "email": f"{identity}@example.org", "vector": vector})
            if number == 2:
                things.forward()
        yield database


@pytest.fixture
def wire(clock: MovedClock, store: MemoryStore, python: Database) -> Iterator[Wire]:
    assert python["things"].count() == len(IDS)
    settings, chance = Settings(forward="manual"), SystemChance()
    with open_served(store, settings=settings, clock=clock, chance=chance) as database:
        service = Service(database, clock=clock, chance=chance)
        with ServerThread(service, ServerOptions(port=0)) as server, Wire(server.address[1]) as opened:
            for name in ("reply_type", "input_type"):
                opened.ask("SESSION.ATTRIBUTE", "SET", name, "json")
            yield opened


def shown(reply: str) -> list[str]:
    assert not reply.startswith("-"), reply
    return [identity for identity in IDS if f'"{identity}"' in reply]


def test_no_command_shows_what_is_over(clock: MovedClock, wire: Wire) -> None:
    commands = [
        ("BUCKET.QUERY", "things", "{}"),
        ("BUCKET.QUERY", "things", '{"email":{"$gte":"a"}}'),
        ("BUCKET.QUERY", "things", "{}", "SORTBY", "email", "DESC"),
        ("BUCKET.VECTOR", "things", "vector", "[1.0,0.0]", "TOP", "10"),
    ]
    assert [shown(wire.ask(*words)) for words in commands] == [list(IDS)] * 4
    clock.ahead = SECONDS
    assert [shown(wire.ask(*words)) for words in commands] == [["new0", "new1"]] * 4
    assert wire.ask("BEGIN") == "+OK"
    assert shown(wire.ask("BUCKET.QUERY", "things", "{}")) == ["new0", "new1"]
    assert wire.ask("ROLLBACK") == "+OK"
    assert shown(wire.ask("BUCKET.QUERY", "things", '{"_id":"old0"}')) == []


def test_a_cursor_keeps_the_moment_of_its_first_batch(clock: MovedClock, wire: Wire) -> None:
    first = wire.ask("BUCKET.QUERY", "things", "{}", "LIMIT", "1")
    number = first.partition("[:")[2].partition(",")[0]
    clock.ahead = SECONDS
    rest = [shown(wire.ask("BUCKET.ADVANCE", "QUERY", number)) for _ in range(4)]
    assert [*shown(first), *(one for batch in rest for one in batch)] == sorted(IDS)
    assert shown(wire.ask("BUCKET.QUERY", "things", "{}")) == ["new0", "new1"]


def test_writes_meet_nothing_that_is_over(clock: MovedClock, wire: Wire, python: Database) -> None:
    document = '{"email":"old0@example.org"}'
    assert wire.ask("BUCKET.INSERT", "things", "DOCS", document).startswith("-")
    clock.ahead = SECONDS
    assert wire.ask("BUCKET.UPDATE", "things", '{"_id":"old1"}', '{"$set":{"n":1}}') == "[:1, []]"
    assert wire.ask("BUCKET.DELETE", "things", '{"_id":"old1"}') == "[:2, []]"
    assert wire.ask("BUCKET.INSERT", "things", "DOCS", document).startswith("[")
    told = [(one.op, one.id) for one in python["things"].watch()]
    assert told[4] == ("expire", "old0")
    assert [op for op, _ in told] == ["create"] * 4 + ["expire", "create"]
