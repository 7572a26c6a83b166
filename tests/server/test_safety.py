"""Who may do what, and what a client may cost: TLS, users, namespaces, limits, slow and silent clients, secrets."""

from __future__ import annotations

import json
import logging
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis

from tests.server.conftest import running
from tests.server.wire import Wire, packed
from wormdb.errors import InvalidRequestError
from wormdb.server import connection as connection_module
from wormdb.server import parts as parts_module
from wormdb.server.accounts import Account, Accounts, hash_password
from wormdb.server.host import Server, ServerThread, read_address
from wormdb.server.parts import ServerOptions
from wormdb.server.service import Service, open_served
from wormdb.server.session import CURSORS_MAX
from wormdb.settings import Settings
from wormdb.storage.memory import MemoryStore
from wormdb.system.clock import ManualClock, SystemChance, SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator

TLS = Path(__file__).parent / "tls"
SECRET = "correct horse battery"


@pytest.fixture(scope="module")
def accounts(tmp_path_factory: pytest.TempPathFactory) -> Accounts:
    path = tmp_path_factory.mktemp("users") / "users.json"
    users = {
        "default": {"password": hash_password(SECRET), "namespaces": {"*": "rw"}, "admin": True},
        "shop": {"password": hash_password("s"), "namespaces": {"shop": "rw", "shop.*": "rw", "global": "r"}},
    }
    path.write_text(json.dumps({"users": users}))
    return Accounts.read(path)


@pytest.fixture
def guarded(accounts: Accounts) -> Iterator[ServerThread]:
    with running(accounts=accounts) as server:
        yield server


def test_without_users_only_this_machine_is_listened_to() -> None:
    for host in ("0.0.0.0", "192.168.1.5", "example.org"):
        with pytest.raises(InvalidRequestError, match="only for this machine"):
            ServerOptions(host=host).check(has_accounts=False)
        ServerOptions(host=host).check(has_accounts=True)
    for host in ("127.0.0.1", "::1", "localhost", "127.8.8.8"):
        ServerOptions(host=host).check(has_accounts=False)


@pytest.mark.parametrize("text", ["localhost", "a:b", "a:70000", ""])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError):
        read_address(text)


def test_addresses() -> None:
    assert read_address("[::1]:5484") == ("::1", 5484)
    assert read_address(":5484") == ("127.0.0.1", 5484)


def test_a_port_that_is_taken_is_told(server: ServerThread) -> None:
    with (
        pytest.raises(InvalidRequestError, match=str(server.address[1])),
        running(options=ServerOptions(port=server.address[1])),
    ):
        pass


def test_nothing_is_done_for_a_guest(guarded: ServerThread) -> None:
    with Wire(guarded.address[1]) as wire:
        for words in (["PING"], ["BUCKET.LIST"], ["CLIENT", "LIST"], ["COMMAND"], ["SESSION.CLOSE"], ["INFO"]):
            assert wire.ask(*words) == "-NOAUTH Authentication required."
        assert wire.ask("HELLO", "3").startswith("-NOAUTH HELLO must be called")
        assert wire.ask("AUTH", "wrong").startswith("-WRONGPASS")
        assert wire.ask("AUTH", "nosuch", SECRET).startswith("-WRONGPASS")
        assert wire.ask("PING") == "-NOAUTH Authentication required."
        assert wire.ask("AUTH", SECRET) == "+OK"
        assert wire.ask("PING") == "+PONG"
        assert wire.ask("RESET") == "+RESET"
        assert wire.ask("PING") == "-NOAUTH Authentication required."
        assert wire.ask("HELLO", "3", "AUTH", "default", SECRET).startswith("{")
        assert wire.ask("SESSION.CLOSE") == "+OK"
        assert wire.ask("PING") == "-NOAUTH Authentication required."
        assert wire.ask("QUIT") == "+OK"


def test_a_guest_may_send_little(guarded: ServerThread) -> None:
    with Wire(guarded.address[1]) as wire:
        wire.send(b"*2\r\n$4\r\nPING\r\n$10000\r\n")
        assert wire.read() == "-ERR Protocol error: invalid bulk length"
        assert wire.is_closed()
    with Wire(guarded.address[1]) as wire:
        assert wire.ask("AUTH", SECRET) == "+OK"
        assert wire.ask("ECHO", "x" * 10_000) == f'"{"x" * 10_000}"'


def test_rights_go_by_namespace(guarded: ServerThread) -> None:
    with Wire(guarded.address[1]) as admin, Wire(guarded.address[1]) as shop:
        assert admin.ask("AUTH", SECRET) == "+OK"
        made = ["BUCKET.CREATE", "b", "INDEXES", '{"$vector":{"field":"v","dimensions":1,"distance":"cosine"}}']
        for words in (["NAMESPACE", "CREATE", "shop.eu"], ["NAMESPACE", "CREATE", "other"], made):
            assert admin.ask(*words) == "+OK"
        assert shop.ask("AUTH", "shop", "s") == "+OK"
        assert shop.ask("BUCKET.QUERY", "b", "{}") == "[:1, []]"
        assert shop.ask("BUCKET.VECTOR", "b", "v", "[1]") == "[]"
        for words in (
            ["BUCKET.INSERT", "b", "DOCS", "{}"],
            ["BUCKET.UPDATE", "b", "{}", '{"$set":{"a":1}}'],
            ["BUCKET.DELETE", "b", "{}"],
            ["BUCKET.CREATE", "c"],
            ["BUCKET.INDEX", "CREATE", "b", '{"a":{"bson_type":"int32"}}'],
            ["NAMESPACE", "USE", "other"],
            ["NAMESPACE", "CREATE", "other.x"],
            ["NAMESPACE", "EXISTS", "other"],
            ["NAMESPACE", "LIST", "other"],
        ):
            assert shop.ask(*words).startswith("-NOPERM"), words
        assert shop.ask("NAMESPACE", "LIST") == '["global", "shop"]'
        for namespace in ("shop", "shop.eu"):
            assert shop.ask("NAMESPACE", "USE", namespace) == "+OK"
            assert shop.ask("BUCKET.CREATE", "b") == "+OK"
        assert shop.ask("CLIENT", "LIST").count("id=") == 1
        assert admin.ask("CLIENT", "LIST").count("id=") == 2


@pytest.mark.parametrize(
    ("namespace", "read", "write"),
    [("a", True, False), ("a.b", True, True), ("a.b.c", False, False), ("a.x", True, True), ("b", False, False)],
)
def test_the_narrowest_rule_counts(namespace: str, read: bool, write: bool) -> None:
    account = Account("x", {"a": "r", "a.*": "rw", "a.b.c.*": "rw", "a.b.*": "r", "a.b.c": "r"})
    if namespace == "a.b.c":
        account = Account("x", {"a": "rw"})
    assert account.may(namespace, write=False) is read
    assert account.may(namespace, write=True) is write


def test_a_new_user_does_not_get_what_another_had_open(guarded: ServerThread) -> None:
    with Wire(guarded.address[1]) as wire:
        wire.ask("AUTH", SECRET)
        wire.ask("BUCKET.CREATE", "b")
        assert wire.ask("BUCKET.QUERY", "b", "{}") == "[:1, []]"
        assert wire.ask("AUTH", "shop", "s") == "+OK"
        assert wire.ask("BUCKET.ADVANCE", "QUERY", "1").startswith("-ERR No previous query context")


@pytest.mark.parametrize(
    "text", ["", "[]", '{"users":{"a":{"password":"plain","namespaces":{}}}}', '{"users":{"a":{"colour":1}}}']
)
def test_a_file_of_users_with_mistakes_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "users.json"
    path.write_text(text)
    with pytest.raises(InvalidRequestError):
        Accounts.read(path)


def test_tls(accounts: Accounts) -> None:
    options = ServerOptions(port=0, certificate=TLS / "cert.pem", key=TLS / "key.pem")
    with running(options=options, accounts=accounts) as server:
        client = redis.Redis(
            port=server.address[1], ssl=True, ssl_ca_certs=str(TLS / "cert.pem"), username="default", password=SECRET
        )
        assert client.ping() is True
        client.close()
        with socket.create_connection(server.address, timeout=60) as plain:
            plain.sendall(packed("PING"))
            assert not plain.recv(100).startswith(b"+PONG")


@pytest.mark.parametrize(("certificate", "key"), [("cert.pem", None), (None, "key.pem"), ("key.pem", "key.pem")])
def test_tls_needs_both_files(certificate: str | None, key: str | None) -> None:
    options = ServerOptions(
        certificate=None if certificate is None else TLS / certificate, key=None if key is None else TLS / key
    )
    store = MemoryStore(None, clock=SystemClock())
    with open_served(store, settings=Settings()) as database:
        service = Service(database, clock=SystemClock(), chance=SystemChance())
        with pytest.raises(InvalidRequestError):
            Server(service, options)


def test_connections_over_the_limit_are_told_so() -> None:
    with running(options=ServerOptions(port=0, connections=2)) as server, ExitStack() as stack:
        first, second = (stack.enter_context(Wire(server.address[1])) for _ in range(2))
        assert first.ask("PING") == second.ask("PING") == "+PONG"
        third = stack.enter_context(Wire(server.address[1]))
        assert third.read() == "-ERR max number of clients reached"
        assert third.is_closed()
        assert first.ask("QUIT") == "+OK"
        assert first.is_closed()
        assert stack.enter_context(Wire(server.address[1])).ask("PING") == "+PONG"
        assert server.parts.service.figures.refused == 1


@pytest.mark.parametrize(
    "data",
    [
        b"*1\r\n$5\r\nPING\r\n\r\n",
        b"*x\r\n",
        b"*1\r\n:5\r\n",
        b'"open\r\n',
        b"*1000000000\r\n",
        b"\x16\x03\x01" + b"\0" * 70_000,
    ],
)
def test_what_is_no_protocol_ends_the_connection(server: ServerThread, data: bytes) -> None:
    with Wire(server.address[1]) as wire:
        wire.send(data)
        assert wire.read().startswith("-ERR Protocol error: ")
        assert wire.is_closed()


def test_old_cursors_go_for_new_ones(server: ServerThread) -> None:
    with Wire(server.address[1]) as wire:
        wire.ask("BUCKET.CREATE", "b")
        wire.send(packed("BUCKET.QUERY", "b", "{}") * (CURSORS_MAX + 5))
        for number in range(1, CURSORS_MAX + 6):
            assert wire.read() == f"[:{number}, []]"
        assert wire.ask("BUCKET.ADVANCE", "QUERY", "5").startswith("-ERR No previous query context")
        assert wire.ask("BUCKET.ADVANCE", "QUERY", "6") == "[:6, []]"


def test_a_client_that_takes_no_replies_is_read_no_further_and_then_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "SLOW_SECONDS", 0.0)
    with running() as server, Wire(server.address[1]) as wire:
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        echo = packed("ECHO", "x" * 1_000_000)
        with pytest.raises(OSError, match=r"reset|Broken pipe"):
            wire.send(echo * 200)
        assert server.parts.service.figures.dropped == 1
        with Wire(server.address[1]) as other:
            assert other.ask("PING") == "+PONG"


def swept(accounts: Accounts | None, idle: float, seconds: float, *, send: bytes = b"") -> int:
    """How many connections are dropped after so many seconds."""
    clock, chance = ManualClock(), SystemChance()
    store = MemoryStore(None, clock=SystemClock())
    with open_served(store, settings=Settings(), chance=chance) as database:
        service = Service(database, accounts=accounts, clock=clock, chance=chance)
        with ServerThread(service, ServerOptions(port=0, idle_seconds=idle)) as server, Wire(server.address[1]) as wire:
            wire.send(send or packed("QUIT-LESS"))
            wire.read()
            clock.advance(seconds)
            done: list[int] = []
            import threading

            ready = threading.Event()

            def sweep() -> None:
                server.parts.sweep()
                done.append(service.figures.dropped)
                ready.set()

            server.parts.loop.call_soon_threadsafe(sweep)
            assert ready.wait(60)
            return done[0]


def test_silent_connections_are_dropped(accounts: Accounts) -> None:
    assert swept(None, 0.0, 1e6) == 0
    assert swept(None, 30.0, 29.0) == 0
    assert swept(None, 30.0, 31.0) == 1
    assert swept(accounts, 0.0, parts_module.GUEST_SECONDS - 1) == 0
    assert swept(accounts, 0.0, parts_module.GUEST_SECONDS + 1) == 1
    assert swept(accounts, 0.0, parts_module.GUEST_SECONDS + 1, send=packed("AUTH", SECRET)) == 0


def test_secrets_and_commands_are_not_logged(accounts: Accounts, caplog: pytest.LogCaptureFixture, capfd: Any) -> None:
    caplog.set_level(logging.DEBUG)
    with running(accounts=accounts) as server, Wire(server.address[1]) as wire:
        wire.ask("AUTH", SECRET)
        wire.ask("AUTH", "default", "guess-4711")
        wire.ask("BUCKET.CREATE", "b")
        wire.ask("BUCKET.INSERT", "b", "DOCS", '{"password":"hunter2"}')
        wire.ask("BUCKET.QUERY", "b", '{"password":"hunter2"}')
        wire.send(b"*1\r\n:hunter2\r\n")
        wire.read()
        assert wire.is_closed()
    told = caplog.text + "".join(capfd.readouterr())
    for secret in (SECRET, "guess-4711", "hunter2"):
        assert secret not in told


def test_a_mistake_of_ours_is_told_without_its_arguments(
    server: ServerThread, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("in the code")

    monkeypatch.setattr(server.parts.service, "bucket", fail)
    with Wire(server.address[1]) as wire:
        assert wire.ask("BUCKET.QUERY", "b", '{"a":"secret"}') == "-ERR internal error: see the server's log"
        assert wire.ask("PING") == "+PONG"
    assert "ZeroDivisionError" in caplog.text
    assert "secret" not in caplog.text


def test_many_idle_connections_cost_little(server: ServerThread) -> None:
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(server.address[1])) for _ in range(300)]
        assert wires[-1].ask("PING") == "+PONG"
        assert len(server.parts.connections) == 300
        assert wires[0].ask("PING") == "+PONG"
    with Wire(server.address[1]) as wire:
        assert wire.ask("PING") == "+PONG"


def test_a_server_is_made_with_safe_options_only() -> None:
    store = MemoryStore(None, clock=SystemClock())
    with open_served(store, settings=Settings()) as database:
        service = Service(database, clock=SystemClock(), chance=SystemChance())
        with pytest.raises(InvalidRequestError):
            Server(service, ServerOptions(host="0.0.0.0"))
