"""A proxy on loopback in front of a server, which can stop answering in several ways, and come back."""

from __future__ import annotations

import contextlib
import socket
import threading
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["Mood", "Tarpit"]

CHUNK = 64 * 1024
FIRST_BYTES = 40


class Mood(Enum):
    """What becomes of requests and answers."""

    OPEN = auto()
    HOLE = auto()
    """Connections are accepted, and nothing that is sent is read by anybody."""
    SILENT = auto()
    """Requests are carried out, and no answer comes back."""
    STALL = auto()
    """Answers begin, and stop in their headers."""
    DRIP = auto()
    """Answers come a byte at a time."""


class Tarpit:
    """The proxy; it runs while the `with` statement does."""

    def __init__(self, upstream: str) -> None:
        """`upstream` is the endpoint of the server, http://host:port."""
        host, _, port = upstream.rpartition("//")[2].partition(":")
        self._upstream = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self._lock = threading.Lock()
        self._mood = Mood.OPEN
        self._answers_left: int | None = None
        self._next_mood = Mood.OPEN
        self._closed = threading.Event()
        self._sockets: set[socket.socket] = set()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        self._listener.close()
        self.become(Mood.OPEN)

    def become(self, mood: Mood, after_answers: int | None = None) -> None:
        """Be so from now on, or after some more answers; whoever comes back cuts all connections first."""
        with self._lock:
            if after_answers is None:
                self._mood, self._answers_left = mood, None
            else:
                self._next_mood, self._answers_left = mood, after_answers
            cut = list(self._sockets) if mood is Mood.OPEN else []
        for each in cut:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._upstream)
            except OSError:
                client.close()
                continue
            with self._lock:
                self._sockets |= {client, server}
            threading.Thread(target=self._carry, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._carry, args=(server, client, False), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, is_request: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                if is_request:
                    if self._mood is not Mood.HOLE:
                        target.sendall(data)
                else:
                    self._answer(target, data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        with self._lock:
            self._sockets -= {source, target}

    def _answer(self, client: socket.socket, data: bytes) -> None:
        mood = self._mood_of_answer(data)
        if mood is Mood.OPEN:
            client.sendall(data)
        elif mood is Mood.STALL:
            client.sendall(data[:FIRST_BYTES])
        elif mood is Mood.DRIP:
            for place in range(len(data)):
                client.sendall(data[place : place + 1])
                if self._closed.wait(0.2) or self._mood is Mood.OPEN:
                    return

    def _mood_of_answer(self, data: bytes) -> Mood:
        with self._lock:
            if self._answers_left is not None and data.startswith(b"HTTP/1.1"):
                if self._answers_left == 0:
                    self._mood, self._answers_left = self._next_mood, None
                else:
                    self._answers_left -= 1
            return self._mood
