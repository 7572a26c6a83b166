"""A TCP proxy in front of an HTTP store that loses requests and answers, by a seeded plan.

    with S3Server() as server, FaultProxy(server.endpoint, chance=SeededChance(7), rates=ROUGH) as proxy:
        db = wormdb.connect(server.url("some/prefix", endpoint=proxy.endpoint))

It listens on a free port of the loopback device. Requests pass as they are, byte for byte and `Host` included, so a
request that was signed for the proxy's endpoint stays valid. What the proxy never does is send a request
twice. One draw of `chance` decides the fate of each request, in the order they come in; so a seed fixes the
sequence of faults, though not which of several clients meets which.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
import threading
from collections import Counter
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from urllib.parse import urlsplit

from wormdb.errors import InvalidRequestError
from wormdb.settings import MIB

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from types import TracebackType

    from wormdb.system.clock import Chance

__all__ = ["ROUGH", "FaultProxy", "WireFault"]

T = TypeVar("T")

HOST = "127.0.0.1"
HEAD_BYTES_MAX = MIB
PIECE_BYTES = 64 * 1024
CALL_SECONDS_MAX = 60.0
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+) *\r\n", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)
_PAGE = b"HTTP/1.1 404 Not Found\r\nContent-Length: 19\r\nConnection: close\r\n\r\n404 page not found\n"
_LENGTH_REQUIRED = b"HTTP/1.1 411 Length Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class WireFault(StrEnum):
    """What can happen to one request on its way."""

    ANSWER_LOST = "answer lost"
    """The server gets the request; when it answers, the client's connection is reset."""
    ANSWER_CUT = "answer cut"
    """As above, but half of the answer's first piece comes through, and then an end of file: a half-close."""
    REQUEST_LOST = "request lost"
    """The client's connection is reset when it has sent everything; the server hears nothing."""
    REQUEST_LATE = "request late"
    """The same, but after a delay, when the client has long given up, the server gets the request."""
    REQUEST_DELAYED = "request delayed"
    """The request waits before it goes on; nothing is lost."""
    FRONT_DOOR = "front door"
    """Something before the server says 404 with a page of its own; the server hears nothing."""
    ANSWER_REPLACED = "answer replaced"
    """The server gets the request, and the client such a page in place of the answer."""


ROUGH: Final[Mapping[WireFault, float]] = {
    WireFault.ANSWER_LOST: 0.03,
    WireFault.ANSWER_CUT: 0.01,
    WireFault.REQUEST_LOST: 0.02,
    WireFault.REQUEST_LATE: 0.02,
    WireFault.REQUEST_DELAYED: 0.02,
    WireFault.FRONT_DOOR: 0.01,
    WireFault.ANSWER_REPLACED: 0.01,
}
"""One request in eight meets a fault."""


class FaultProxy:
    """The proxy; it runs in a thread of its own while the `with` statement does."""

    def __init__(
        self, target: str, *, chance: Chance, rates: Mapping[WireFault, float] = ROUGH, delay_seconds_max: float = 0.3
    ) -> None:
        """`target` is the server's endpoint (`http://host:port`); nothing listens yet.

        `rates` says how many of all requests meet each fault. Raises InvalidRequestError if they make no sense.
        """
        parts = urlsplit(target)
        if parts.scheme != "http" or parts.hostname is None or parts.port is None:
            raise InvalidRequestError(f"target {target!r}", reason="it is not of the form http://host:port")
        if min(rates.values(), default=0) < 0 or sum(rates.values()) > 1:
            raise InvalidRequestError("rates of faults", reason="each must be 0 or more, and their sum at most 1")
        self._host, self._port = parts.hostname, parts.port
        self._chance = chance
        self._rates = dict(rates)
        self._delay_seconds_max = delay_seconds_max
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._late: set[asyncio.Task[None]] = set()
        self._own_port = 0
        self.requests = 0
        """How many requests came in."""
        self.faults: Counter[WireFault] = Counter()
        """How many of them met which fault."""

    @property
    def endpoint(self) -> str:
        """Where it listens, such as `http://127.0.0.1:40001`."""
        return f"http://{HOST}:{self._own_port}"

    def heal(self) -> None:
        """From now on every request passes; what is late still arrives late."""
        self.change({})

    def change(self, rates: Mapping[WireFault, float]) -> None:
        """From now on each fault meets as many requests as this says."""
        self._rates = dict(rates)

    def __enter__(self) -> Self:
        """Listen on a free port."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)
        self._thread.start()
        self._server = self._call(asyncio.start_server(self._accept, HOST, 0, limit=HEAD_BYTES_MAX))
        self._own_port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Deliver what is late, cut every connection, end the thread."""
        assert self._loop is not None
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_SECONDS_MAX)

    async def _end(self) -> None:
        assert self._server is not None
        self._server.close()
        await asyncio.gather(*self._late)
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        connection = _Connection(reader, writer)
        # A peer that goes away is what this proxy is for, and the end of the proxy is one of its own.
        with suppress(OSError, EOFError, asyncio.CancelledError):
            await self._serve(connection)
        connection.close()

    async def _serve(self, connection: _Connection) -> None:
        while (request := await _read_request(connection.reader)) is not None:
            if _CHUNKED.search(request):
                connection.writer.write(_LENGTH_REQUIRED)
                return
            fault = self._draw()
            match fault:
                case WireFault.REQUEST_LOST:
                    connection.reset()
                    return
                case WireFault.REQUEST_LATE:
                    task = asyncio.create_task(self._deliver(request))
                    self._late.add(task)
                    task.add_done_callback(self._late.discard)
                    connection.reset()
                    return
                case WireFault.FRONT_DOOR:
                    connection.show_page()
                    return
                case WireFault.REQUEST_DELAYED:
                    await self._pause()
                case WireFault.ANSWER_LOST | WireFault.ANSWER_CUT | WireFault.ANSWER_REPLACED | None:
                    pass
            if connection.server is None:
                connection.attach(*await asyncio.open_connection(self._host, self._port))
            await connection.forward(request, fault)

    async def _deliver(self, request: bytes) -> None:
        await self._pause()
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(self._host, self._port)
            writer.write(request)
            # The first byte of the answer says that the server is done with it.
            await reader.read(1)
            writer.close()

    async def _pause(self) -> None:
        # Mostly short: a late request shall also come while its sender is still asking about it.
        await asyncio.sleep(self._chance.fraction() ** 3 * self._delay_seconds_max)

    def _draw(self) -> WireFault | None:
        self.requests += 1
        left = self._chance.fraction()
        for fault, rate in self._rates.items():
            left -= rate
            if left < 0:
                self.faults[fault] += 1
                return fault
        return None


class _Connection:
    """One client's connection and, from its first request on, one to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.server: asyncio.StreamWriter | None = None
        self._fault: WireFault | None = None
        self._answers: asyncio.Task[None] | None = None

    def attach(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.server = writer
        self._answers = asyncio.create_task(self._pass_answers(reader))

    async def forward(self, request: bytes, fault: WireFault | None) -> None:
        assert self.server is not None
        # A client sends its next request after the last answer, so this is for the pieces that come now.
        self._fault = fault
        self.server.write(request)
        await self.server.drain()

    def reset(self) -> None:
        """Cut the client off so that it notices, whatever it is waiting for."""
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        self.writer.transport.abort()

    def show_page(self) -> None:
        """Answer the client as something would that knows nothing of the server, and then no more."""
        self.writer.write(_PAGE)
        self.writer.write_eof()

    def close(self) -> None:
        if self._answers is not None:
            self._answers.cancel()
        for writer in (self.writer, self.server):
            if writer is not None:
                writer.close()

    async def _pass_answers(self, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while piece := await reader.read(PIECE_BYTES):
                if self._fault is WireFault.ANSWER_LOST:
                    self.reset()
                    return
                if self._fault is WireFault.ANSWER_REPLACED:
                    self.show_page()
                    return
                if self._fault is WireFault.ANSWER_CUT:
                    self.writer.write(piece[: len(piece) // 2])
                    self.writer.write_eof()
                    return
                self.writer.write(piece)
                await self.writer.drain()
            self.writer.close()


async def _read_request(reader: asyncio.StreamReader) -> bytes | None:
    """One whole request, or None at the end; raises EOFError if it breaks off."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    length = _LENGTH.search(head)
    return head + await reader.readexactly(int(length[1])) if length else head
