"""The server: a socket, a loop, threads, and all that its connections share."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from wormdb.errors import InvalidRequestError
from wormdb.server.connection import Connection
from wormdb.server.parts import ServerParts
from wormdb.server.table import COMMANDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from wormdb.server.parts import ServerOptions
    from wormdb.server.service import Service

__all__ = ["Server", "ServerThread", "new_loop", "read_address"]

log = logging.getLogger(__name__)

_SWEEP_SECONDS: Final = 1.0
STOP_SECONDS: Final = 5.0
"""For commands that are at work when a server stops."""


def read_address(text: str) -> tuple[str, int]:
    """Host and port of `127.0.0.1:5484`, `[::1]:5484` or `:5484`. Raises InvalidRequestError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65_535:
        raise InvalidRequestError(f"address {text!r:.60}", reason="it must be host:port", fix="write 127.0.0.1:5484")
    return host.strip("[]") or "127.0.0.1", int(port)


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

    @property
    def is_encrypted(self) -> bool:
        """Whether clients need TLS."""
        return self._tls is not None

    async def start(self) -> tuple[str, int]:
        """Listen; the address. 1 GET, for the published schema. Raises InvalidRequestError if the port is taken."""
        loop = asyncio.get_running_loop()
        service, options = self._service, self._options
        service.commands = COMMANDS
        await loop.run_in_executor(None, service.prepare)
        parts = self.parts = ServerParts(service, options, loop)

        def later(lane: str, call: Callable[[], object]) -> None:
            loop.call_soon_threadsafe(parts.threads.run, lane, call, _tell_failure)

        service.later = service.router.later = later
        try:
            self._listener = await loop.create_server(
                lambda: Connection(parts), options.host, options.port, ssl=self._tls, backlog=1024
            )
        except OSError as error:
            raise InvalidRequestError(
                f"{options.host}:{options.port}", reason=str(error), fix="choose another address"
            ) from error
        host, port = self._listener.sockets[0].getsockname()[:2]
        service.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
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
        # Those at work end; of those that wait for a thread, none was begun.
        parts.handed.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                for threads in (parts.threads, parts.handed):
                    rested = asyncio.Event()
                    threads.when_idle(rested.set)
                    await rested.wait()
        for connection in list(parts.connections.values()):
            connection.close()
        parts.threads.close()
        parts.service.router.close()
        await asyncio.sleep(0)


def _tell_failure(result: object, error: BaseException | None) -> None:  # noqa: ARG001 - it is told both
    if error is not None:
        log.warning("work in the background failed: %s", error)


def new_loop() -> asyncio.AbstractEventLoop:
    """Uvloop's if it is installed, else Python's own."""
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
