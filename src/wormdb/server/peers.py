"""Connections to other servers, for writes that are handed to them: RESP, one request at a time on each.

What matters is what is known when one fails. Until a whole request was given to the network, the other server cannot
have begun it: UnreachableServerError. After that it may have, whatever happens then: LostReplyError.
"""

from __future__ import annotations

import select
import socket
import ssl
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from wormdb.errors import InvalidRequestError
from wormdb.server.replies import ErrorReply

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

__all__ = ["LostReplyError", "PeerAccess", "PeerWires", "UnreachableServerError", "read_server_address"]

CONNECT_SECONDS: Final = 1.0
LOG_IN_SECONDS: Final = 2.0
SEND_SECONDS: Final = 2.0
"""For a request to be taken by the network; one that was not is not begun."""
PATIENCE_SECONDS: Final = 0.5
"""After which a server that has not replied is asked whether it lives, …"""
LIFE_SECONDS: Final = 0.5
"""… and in which it has to say so: its loop waits for nothing."""
IDLE_MAX: Final = 64
"""Connections to one server that are kept for the next request."""
_REPLY_BYTES_MAX: Final = 64 << 20
_LINE_BYTES_MAX: Final = 65_536


class UnreachableServerError(Exception):
    """Nothing was begun: there is no connection, or none that this process may use. Inside this package."""


class LostReplyError(Exception):
    """A request was sent, and what became of it is not known. Inside this package."""


def read_server_address(address: str) -> tuple[str, int, bool]:
    """Host, port, and whether TLS is used, of `resp://host:port` or `resps://…`. Raises InvalidRequestError."""
    scheme, _, place = address.partition("://")
    host, colon, port = place.rpartition(":")
    if scheme not in ("resp", "resps") or not colon or not port.isdigit() or not host:
        raise InvalidRequestError(f"address {address!r:.80}", reason="it must be resp://host:port")
    return host.strip("[]"), int(port), scheme == "resps"


@dataclass(frozen=True, slots=True)
class PeerAccess:
    """Who this server is to others, and whose certificates it trusts."""

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    authority: Path | None = None
    """A file of certificates; without one those of the system are trusted."""


class _PeerWire:
    """One connection."""

    def __init__(self, address: str, access: PeerAccess) -> None:
        """Connect, and say who this is. Raises UnreachableServerError."""
        try:
            host, port, is_encrypted = read_server_address(address)
            plain = socket.create_connection((host, port), timeout=CONNECT_SECONDS)
            try:
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.socket: socket.socket = plain
                if is_encrypted:
                    context = ssl.create_default_context(cafile=access.authority)
                    self.socket = context.wrap_socket(plain, server_hostname=host)
            except BaseException:
                plain.close()
                raise
        except (OSError, InvalidRequestError) as error:
            raise UnreachableServerError(f"{address}: {error}") from error
        self._file = self.socket.makefile("rb")
        if access.password is not None:
            self._log_in(address, access)

    def _log_in(self, address: str, access: PeerAccess) -> None:
        try:
            reply = self.ask(
                [b"AUTH", (access.user or "default").encode(), (access.password or "").encode()], LOG_IN_SECONDS
            )
        except (LostReplyError, UnreachableServerError) as error:
            self.close()
            raise UnreachableServerError(f"{address}: {error}") from error
        if isinstance(reply, ErrorReply):
            self.close()
            raise UnreachableServerError(f"{address}: {reply.prefix}")

    @property
    def is_usable(self) -> bool:
        """Whether nothing has arrived: between requests only its end can."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return not poll.poll(0)

    def ask(self, words: Sequence[bytes], seconds: float, lives: Callable[[], bool] | None = None) -> Any:
        """The reply to a request: bytes, text, an int, a list of those, or an ErrorReply, which is not raised.

        While it does not come, `lives` is asked whether to wait on.
        """
        try:
            self.socket.settimeout(min(seconds, SEND_SECONDS))
            # A request that is not whole is never begun.
            self.socket.sendall(_packed(words))
        except OSError as error:
            raise UnreachableServerError(str(error)) from error
        try:
            if lives is not None:
                self._await_reply(seconds, lives)
            self.socket.settimeout(seconds)
            return self._read()
        except (OSError, ValueError) as error:
            raise LostReplyError(str(error) or type(error).__name__) from error

    def _await_reply(self, seconds: float, lives: Callable[[], bool]) -> None:
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        for _ in range(max(1, int(seconds / PATIENCE_SECONDS))):
            if poll.poll(PATIENCE_SECONDS * 1000):
                return
            if not lives():
                raise TimeoutError("it hangs: it answers nothing")
        raise TimeoutError("it did not answer in time")

    def _read(self) -> Any:
        line = self._file.readline(_LINE_BYTES_MAX)
        if not line.endswith(b"\r\n"):
            raise ValueError("the connection ended")
        kind, rest = line[:1], line[1:-2]
        match kind:
            case b"+":
                return rest.decode()
            case b"-":
                prefix, _, message = rest.decode("utf-8", "replace").partition(" ")
                return ErrorReply(message, prefix)
            case b":":
                return int(rest)
            case b"$" if 0 <= int(rest) <= _REPLY_BYTES_MAX:
                data = self._file.read(int(rest) + 2)
                if len(data) != int(rest) + 2:
                    raise ValueError("the connection ended")
                return data[:-2]
            case _:
                raise ValueError("not a reply of a server of wormdb")

    def close(self) -> None:
        self._file.close()
        self.socket.close()


def _packed(words: Sequence[bytes]) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


class PeerWires:
    """Connections to other servers, kept for the next request. Thread-safe."""

    def __init__(self, access: PeerAccess) -> None:
        """None is open yet."""
        self._access = access
        self._lock = threading.Lock()
        self._idle: dict[str, list[_PeerWire]] = {}

    def ask(self, address: str, words: Sequence[bytes], seconds: float) -> Any:
        """The reply to a request, an ErrorReply as a value. Raises UnreachableServerError, LostReplyError.

        A server that hangs is waited for PATIENCE_SECONDS and LIFE_SECONDS; one that lives, all `seconds`.
        """
        wire = self._take(address) or _PeerWire(address, self._access)
        try:
            reply = wire.ask(words, seconds, lambda: self.answers(address))
        except BaseException:
            wire.close()
            raise
        self._give(address, wire)
        return reply

    def answers(self, address: str) -> bool:
        """Whether a server answers a PING, if only that it does not know who asks. 1 connection."""
        try:
            wire = _PeerWire(address, PeerAccess(authority=self._access.authority))
        except UnreachableServerError:
            return False
        try:
            wire.ask([b"PING"], LIFE_SECONDS)
        except (UnreachableServerError, LostReplyError):
            return False
        finally:
            wire.close()
        return True

    def _take(self, address: str) -> _PeerWire | None:
        while True:
            with self._lock:
                idle = self._idle.get(address)
                if not idle:
                    return None
                wire = idle.pop()
            if wire.is_usable:
                return wire
            wire.close()

    def _give(self, address: str, wire: _PeerWire) -> None:
        with self._lock:
            idle = self._idle.setdefault(address, [])
            if len(idle) < IDLE_MAX:
                idle.append(wire)
                return
        wire.close()

    def keep(self, addresses: Sequence[str]) -> None:
        """Close connections to other servers than these."""
        with self._lock:
            gone = [wire for address, idle in self._idle.items() if address not in addresses for wire in idle]
            self._idle = {address: idle for address, idle in self._idle.items() if address in addresses}
        for wire in gone:
            wire.close()

    def close(self) -> None:
        """Close all that are not in use."""
        self.keep(())
