"""A loopback HTTP server that answers as it is told, and remembers what it was asked."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Asked", "Drop", "Part", "Raw", "Reply", "ScriptedServer", "Stall", "scripted_server"]

DATE = "Sun, 06 Nov 1994 08:49:37 GMT"
DATE_MS = 784_111_777_000
ENDLESS_BYTES = 1 << 30
"""What is sent of a body without end: more than any client should take."""


@dataclass(frozen=True)
class Reply:
    """Answer with this."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """Answer with the range of `body` that was asked for, without its last `lost` bytes, which the headers promise."""

    body: bytes
    lost: int = 0


@dataclass(frozen=True)
class Raw:
    """Send these bytes, then `again` over and over until the client has gone or ENDLESS_BYTES were sent; then close."""

    data: bytes
    again: bytes = b""


@dataclass(frozen=True)
class Drop:
    """Close the connection without a word, once the request was read (or, `early`, before its body)."""

    early: bool = False


@dataclass(frozen=True)
class Stall:
    """Say nothing until the client gives up."""


Action = Reply | Part | Raw | Drop | Stall


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class ScriptedServer:
    """`actions` are done one after the other; the last one is repeated."""

    def __init__(self) -> None:
        self.actions: list[Action] = [Reply(200)]
        self.asked: list[Asked] = []
        self.connections = 0
        self.sent_bytes = 0
        """Of the last answer without end."""
        self.released = threading.Event()
        self.endpoint = ""

    def answer(self, *actions: Action) -> None:
        self.actions = list(actions)
        self.asked.clear()

    def next_action(self) -> Action:
        return self.actions.pop(0) if len(self.actions) > 1 else self.actions[0]


class _Handler(BaseHTTPRequestHandler):
    script: ClassVar[ScriptedServer]
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        self.script.connections += 1
        super().setup()

    def handle_any(self) -> None:
        action = self.script.next_action()
        if isinstance(action, Drop) and action.early:
            self.reset()
            return
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.script.asked.append(Asked(self.command, self.path, headers, body))
        match action:
            case Drop():
                self.reset()
            case Stall():
                self.script.released.wait(60)
                self.reset()
            case Reply():
                self.reply(action)
            case Part():
                self.reply_part(action)
            case Raw():
                self.send(action)

    def reply_part(self, part: Part) -> None:
        first, last = map(int, self.headers["range"].removeprefix("bytes=").split("-"))
        body = part.body[first : last + 1]
        told = {"Content-Range": f"bytes {first}-{first + len(body) - 1}/{len(part.body)}", "ETag": '"v"'}
        modified = {"Last-Modified": DATE}
        self.reply(Reply(206, body[: len(body) - part.lost], {**told, **modified}))

    def send(self, raw: Raw) -> None:
        self.close_connection = True
        script, script.sent_bytes = self.script, 0
        with contextlib.suppress(OSError):
            self.connection.settimeout(5)
            self.connection.sendall(raw.data)
            while raw.again and script.sent_bytes < ENDLESS_BYTES:
                self.connection.sendall(raw.again)
                script.sent_bytes += len(raw.again)

    def reply(self, reply: Reply) -> None:
        self.send_response_only(reply.status)
        for name, value in {"Date": DATE, "Content-Length": str(len(reply.body)), **reply.headers}.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD" and reply.status != 304:
            self.wfile.write(reply.body)

    def reset(self) -> None:
        # Not a polite end: what the client still sends is answered by a reset.
        with contextlib.suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_CONNECT = handle_any  # noqa: N815 - the library's names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        self.close_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        pass


@contextmanager
def scripted_server() -> Iterator[ScriptedServer]:
    """A server on a free loopback port, stopped at the end."""
    script = ScriptedServer()
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"script": script}))
    script.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield script
    finally:
        script.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
