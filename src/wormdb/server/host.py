"""The server: a socket, a loop, threads, and all that its connections share."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import ssl
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wormdb.errors import InvalidRequestError
from wormdb.server.connection import Connection
from wormdb.server.offload import LaneThreads, ProbeGate
from wormdb.server.table import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from wormdb.server.service import Service

__all__ = ["Server", "ServerOptions", "ServerParts", "ServerThread", "new_loop", "read_address"]

log = logging.getLogger(__name__)

THREADS: Final = 64
PROBE_THREADS: Final = 32
GUEST_SECONDS: Final = 10.0
"""In which a client has to say who it is, where that is needed."""
_SWEEP_SECONDS: Final = 1.0
STOP_SECONDS: Final = 5.0
"""For commands that are at work when a server stops."""


def read_address(text: str) -> tuple[str, int]:
    """Host and port of `127.0.0.1:5484`, `[::1]:5484` or `:5484`. Raises InvalidRequestError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65_535:
        raise InvalidRequestError(f"address {text!r:.60}", reason="it must be host:port", fix="write 127.0.0.1:5484")
    return host.strip("[]") or "127.0.0.1", int(port)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Where and how a server listens."""

    host: str = "127.0.0.1"
    port: int = 5484
    """0 is any that is free."""
    certificate: Path | None = None
    key: Path | None = None
    connections: int = 10_000
    idle_seconds: float = 0.0
    """After which a connection that says nothing is closed; 0 for never."""
    threads: int = THREADS

    def check(self, *, has_accounts: bool) -> None:
        """Refuse to be open to the network without passwords. Raises InvalidRequestError."""
        if not has_accounts and not _is_loopback(self.host):
            raise InvalidRequestError(
                f"listening on {self.host}",
                reason="a server without users is only for this machine",
                fix="give --users, or listen on 127.0.0.1",
            )
        if (self.certificate is None) != (self.key is None):
            raise InvalidRequestError("TLS", reason="it needs a certificate and its key", fix="give both files")

    def tls(self) -> ssl.SSLContext | None:
        """What encrypts, from the files. Raises InvalidRequestError."""
        if self.certificate is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            raise InvalidRequestError(f"certificate {self.certificate}", reason=str(error)) from error
        return context


class ServerParts:
    """What connections share beside the service. Used by the loop's thread alone."""

    def __init__(self, service: Service, options: ServerOptions, loop: asyncio.AbstractEventLoop) -> None:
        """Threads are started when there is work for them."""
        self.service = service
        self.options = options
        self.loop = loop
        self.threads = LaneThreads(loop, options.threads, max(1, options.threads // 2), "work")
        self.gate = ProbeGate(loop, LaneThreads(loop, PROBE_THREADS, PROBE_THREADS, "probe"))
        self.slow_shapes: set[Any] = set()
        """Queries that take so long that the loop leaves them to threads."""
        self.connections: dict[int, Connection] = {}
        self._numbers = 0

    def admit(self, connection: Connection) -> bool:
        """Give a new connection its number; False if there are too many."""
        if len(self.connections) >= self.options.connections:
            return False
        self._numbers += 1
        connection.session.id = self._numbers
        self.connections[self._numbers] = connection
        self.service.sessions[self._numbers] = connection.session
        self.service.figures.connections += 1
        return True

    def forget(self, connection: Connection) -> None:
        """It is gone."""
        self.connections.pop(connection.session.id, None)
        self.service.sessions.pop(connection.session.id, None)

    def sweep(self) -> None:
        """Drop connections that are silent for too long."""
        now, idle = self.service.clock.monotonic(), self.options.idle_seconds
        for connection in list(self.connections.values()):
            session = connection.session
            if not session.is_known and now - session.began > GUEST_SECONDS:
                connection.drop("it has not said who it is")
            elif idle and connection.is_idle and now - session.used > idle:
                connection.drop("it was idle")


class Server:
    """Listens in a loop that is given. `start`, and `stop` once."""

    def __init__(self, service: Service, options: ServerOptions) -> None:
        """Raises InvalidRequestError for options that are not safe. No requests."""
        options.check(has_accounts=service.accounts is not None)
        self._tls = options.tls()
        self._service = service
        self._options = options
        self._listener: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self.parts: ServerParts | None = None

    async def start(self) -> tuple[str, int]:
        """Listen; the address. 1 GET, for the published schema. Raises InvalidRequestError if the port is taken."""
        loop = asyncio.get_running_loop()
        service, options = self._service, self._options
        service.commands = COMMANDS
        await loop.run_in_executor(None, service.prepare)
        parts = self.parts = ServerParts(service, options, loop)

        def later(lane: str, call: Callable[[], object]) -> None:
            loop.call_soon_threadsafe(parts.threads.run, lane, call, _tell_failure)

        service.later = later
        try:
            self._listener = await loop.create_server(
                lambda: Connection(parts), options.host, options.port, ssl=self._tls, backlog=1024
            )
        except OSError as error:
            raise InvalidRequestError(
                f"{options.host}:{options.port}", reason=str(error), fix="choose another address"
            ) from error
        host, port = self._listener.sockets[0].getsockname()[:2]
        service.address = f"{host}:{port}"
        self._sweep()
        return host, port

    def _sweep(self) -> None:
        assert self.parts is not None
        self.parts.sweep()
        self._sweeper = self.parts.loop.call_later(_SWEEP_SECONDS, self._sweep)

    async def stop(self) -> None:
        """Take no more commands, let those at work end for a while, and close all connections."""
        parts = self.parts
        if parts is None:
            return
        if self._listener is not None:
            self._listener.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        ends = parts.loop.time() + STOP_SECONDS
        while parts.threads.running and parts.loop.time() < ends:
            await asyncio.sleep(0.01)
        for connection in list(parts.connections.values()):
            connection.close()
        parts.threads.close()
        await asyncio.sleep(0)


def _tell_failure(result: object, error: BaseException | None) -> None:  # noqa: ARG001 - it is told both
    if error is not None:
        log.warning("work in the background failed: %s", error)


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's if it is installed, else Python's own."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


class ServerThread:
    """A server in a thread of its own, while a `with` statement lasts: for tests and for programs that embed one."""

    def __init__(self, service: Service, options: ServerOptions) -> None:
        """Not started. Raises InvalidRequestError."""
        self._server = Server(service, options)
        self._loop = new_loop()
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="wormdb-server", daemon=True)
        self.address = ("", 0)

    @property
    def parts(self) -> ServerParts:
        """What its connections share."""
        assert self._server.parts is not None, "it was started"
        return self._server.parts

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            raise self._error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        try:
            self.address = await self._server.start()
        except BaseException as error:  # noqa: BLE001 - it is raised where the server was started
            self._error = error
            self._ready.set()
            return
        self._ready.set()
        await self._stop.wait()
        await self._server.stop()
