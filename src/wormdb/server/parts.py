"""What the connections of a server share: options, threads, and who is connected."""

from __future__ import annotations

import ipaddress
import ssl
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from wormdb.errors import InvalidRequestError
from wormdb.server.offload import LaneThreads, ProbeGate

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from pathlib import Path

    from wormdb.server.service import Service
    from wormdb.server.session import ClientSession

__all__ = ["ConnectedClient", "LoopPace", "ServerOptions", "ServerParts"]

THREADS: Final = 256
"""Most of them wait for the store. One bucket has half of them, and writers that wait at once share an entry."""
PROBE_THREADS: Final = 32
GUEST_SECONDS: Final = 10.0
"""In which a client has to say who it is, where that is needed."""
LOOP_SECONDS: Final = 0.002
"""Of a processor, that a query may take in the loop."""
SLOW_TIMES: Final = 3
"""A query that took longer so often in a row goes to a thread."""
SHAPES_MAX: Final = 1_000
WATCHED_EVERY: Final = 16
"""Measuring takes a system call or two, so few queries are measured while none is slow."""


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class ConnectedClient(Protocol):
    """A connection, as far as the server asks it."""

    session: ClientSession

    @property
    def is_idle(self) -> bool:
        """Whether no command is at work."""
        ...

    def drop(self, reason: str) -> None:
        """End it at once."""
        ...

    def close(self) -> None:
        """End it after what was sent."""
        ...


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


class LoopPace:
    """Which queries take so long that the loop leaves them to threads. Used by the loop's thread alone."""

    def __init__(self, processor: Callable[[], float] = time.thread_time) -> None:
        """None does yet. `processor` tells the seconds that a processor has worked for the calling thread.

        So a busy machine does not make a query seem slow.
        """
        self.processor = processor
        self._slow: dict[Any, int] = {}
        """By shape how often in a row it took too long."""
        self._asked = 0

    @property
    def is_watched(self) -> bool:
        """Whether the next query is measured: one of several while all are quick, else each."""
        self._asked += 1
        return bool(self._slow) or not self._asked % WATCHED_EVERY

    def is_slow(self, shape: Any) -> bool:
        """Whether a query of this shape goes to a thread."""
        return self._slow.get(shape, 0) >= SLOW_TIMES

    def tell(self, shape: Any, seconds: float) -> None:
        """A query of this shape took this much of a processor."""
        if seconds <= LOOP_SECONDS:
            self._slow.pop(shape, None)
            return
        if len(self._slow) >= SHAPES_MAX:
            self._slow.clear()
        self._slow[shape] = self._slow.get(shape, 0) + 1


class ServerParts:
    """What connections share beside the service. Used by the loop's thread alone."""

    def __init__(self, service: Service, options: ServerOptions, loop: asyncio.AbstractEventLoop) -> None:
        """Threads are started when there is work for them."""
        self.service = service
        self.options = options
        self.loop = loop
        self.threads = LaneThreads(loop, options.threads, max(1, options.threads // 2), "work")
        # Two servers that hand writes to each other must not wait for each other's threads.
        self.handed = LaneThreads(loop, options.threads, max(1, options.threads // 2), "handed")
        self.gate = ProbeGate(loop, LaneThreads(loop, PROBE_THREADS, PROBE_THREADS, "probe"))
        self.pace = LoopPace()
        self.connections: dict[int, ConnectedClient] = {}
        self.sessions: dict[int, ClientSession] = {}
        self._numbers = 0

    def admit(self, connection: ConnectedClient) -> bool:
        """Give a new connection its number; False if there are too many."""
        if len(self.connections) >= self.options.connections:
            return False
        self._numbers += 1
        connection.session.id = self._numbers
        self.connections[self._numbers] = connection
        self.sessions[self._numbers] = connection.session
        connection.session.peers = self.sessions
        self.service.figures.connections += 1
        return True

    def forget(self, connection: ConnectedClient) -> None:
        """It is gone."""
        self.connections.pop(connection.session.id, None)
        self.sessions.pop(connection.session.id, None)

    def sweep(self) -> None:
        """Drop connections that are silent for too long."""
        now, idle = self.service.clock.monotonic(), self.options.idle_seconds
        for connection in list(self.connections.values()):
            session = connection.session
            if not session.is_known and now - session.began > GUEST_SECONDS:
                connection.drop("it has not said who it is")
            elif idle and connection.is_idle and now - session.used > idle:
                connection.drop("it was idle")
