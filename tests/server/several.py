"""Several servers of one database: in threads with fixed addresses, or as processes that find each other."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import redis

from tests.server.conftest import running
from wormdb.jobs.node.shards import order_of, shard_of
from wormdb.server.peers import PeerAccess, PeerWires
from wormdb.server.routing import WriteRouter
from wormdb.system.clock import SystemChance, SystemClock

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator

    from wormdb.server.accounts import Accounts
    from wormdb.server.host import ServerThread
    from wormdb.server.routing import RoutingMode
    from wormdb.storage.store import Store

__all__ = ["CutProxy", "FixedServers", "ServedProcess", "bucket_of", "joined", "kept_rows", "two_servers"]


@dataclass
class FixedServers:
    """Which servers there are, as a test says."""

    id: int
    addresses: dict[int, str]
    removed: list[tuple[str, int]] = field(default_factory=list)

    def servers(self) -> dict[int, str]:
        return dict(self.addresses)

    def tell_removed(self, collection: str, number: int) -> None:
        self.removed.append((collection, number))


def bucket_of(node: int, nodes: list[int]) -> str:
    """The name of a bucket whose writers meet at one of these nodes."""
    names = (f"bucket{number}" for number in range(1_000))
    return next(name for name in names if order_of(shard_of(f"{name}/"), nodes)[0] == node)


class CutProxy:
    """Stands before a server, and cuts what servers hand to it, as a test says."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.mode: Literal["pass", "before", "after", "hang"] = "pass"
        """`before`: a request is read and never arrives. `after`: it arrives, and its reply does not. `hang`: nothing
        is answered, and requests arrive when they are released."""
        self.cut = 0
        self._held: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with near, socket.create_connection(("127.0.0.1", self._target)) as far:
            while data := near.recv(1 << 20):
                if self.mode == "hang":
                    self._held.append(data)
                    continue
                if self.mode == "before":
                    self.cut += 1
                    return
                far.sendall(data)
                reply = far.recv(1 << 20)
                if self.mode == "after":
                    self.cut += 1
                    return
                near.sendall(reply)

    def held(self) -> bytes:
        """What has arrived while it hung."""
        return b"".join(self._held)

    def release(self) -> bytes:
        """Let what was held arrive, as at a process that slept; the replies, which no client gets."""
        self.mode = "pass"
        replies = b""
        for data in self._held:
            with socket.create_connection(("127.0.0.1", self._target)) as far:
                far.sendall(data)
                replies += far.recv(1 << 20)
        return replies

    def close(self) -> None:
        self._listener.close()


def joined(
    stack: ExitStack,
    place: str | Store,
    node: int,
    addresses: dict[int, str],
    *,
    mode: RoutingMode = "prefer",
    accounts: Accounts | None = None,
    access: PeerAccess | None = None,
) -> ServerThread:
    """A server in a thread, which knows the servers of `addresses`; its own is added."""
    server = stack.enter_context(running(place, accounts=accounts))
    addresses.setdefault(node, f"resp://127.0.0.1:{server.address[1]}")
    wires = PeerWires(access or PeerAccess())
    stack.callback(wires.close)
    live = FixedServers(node, addresses)
    service = server.parts.service
    service.router = WriteRouter(mode, live, wires, clock=SystemClock(), chance=SystemChance())
    service.router.later = service.later
    return server


@contextmanager
def two_servers(place: str) -> Iterator[tuple[Any, Any, CutProxy, ServerThread]]:
    """Clients of node 1 and node 2; node 1 reaches node 2 through a proxy. And the server of node 1."""
    with ExitStack() as stack:
        second = stack.enter_context(running(place))
        proxy = CutProxy(second.address[1])
        stack.callback(proxy.close)
        first = joined(stack, place, 1, {2: f"resp://127.0.0.1:{proxy.port}"})
        clients: list[Any] = [redis.Redis(port=each.address[1]) for each in (first, second)]
        for client in clients:
            stack.callback(client.close)
        yield clients[0], clients[1], proxy, first


def kept_rows(client: Any, bucket: str) -> list[dict[str, Any]]:
    """All documents of a bucket."""
    import bson

    rows = []
    reply = client.execute_command("BUCKET.QUERY", bucket, "{}", "LIMIT", 9999)
    while found := (reply[b"entries"] if isinstance(reply, dict) else reply[1]):
        rows += [bson.decode(row) for row in found]
        cursor = reply[b"cursor_id"] if isinstance(reply, dict) else reply[0]
        reply = client.execute_command("BUCKET.ADVANCE", "QUERY", cursor)
    return rows


class ServedProcess:
    """One `worm serve` of its own process."""

    def __init__(self, url: str, *options: str, interval: int = 1_000) -> None:
        command = [sys.executable, "-m", "wormdb.cli", "serve", url, "--resp", "127.0.0.1:0"]
        self.process = subprocess.Popen(
            [*command, "--interval", str(interval), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        assert self.process.stdout is not None
        found = re.search(r"(?: as node ([0-9]+))? on 127\.0\.0\.1:([0-9]+)$", self.process.stdout.readline().strip())
        assert found is not None, "it listens"
        self.node = None if found[1] is None else int(found[1])
        self.port = int(found[2])
        made: Any = redis.Redis(port=self.port, socket_timeout=60)
        self.client = made

    def wait_for(self, servers: int, bucket: str) -> list[str]:
        """The servers of a bucket, the primary first, as soon as this one knows as many."""
        while True:
            _, primary, standbys = self.client.execute_command("BUCKET.LOCATE", bucket)
            if 1 + len(standbys) == min(servers, 3):
                return [each.decode() for each in (primary, *standbys)]

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """At once, as a machine dies."""
        self.client.close()
        self.process.kill()
        self.process.communicate()

    def stop(self) -> int:
        """As an operator stops it; its exit code."""
        self.client.close()
        self.process.terminate()
        self.process.wait()
        return self.process.returncode
