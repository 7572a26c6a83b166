"""Plain HTTP to one origin over pooled connections, with nothing done behind the caller's back.

No retries, no redirects, no logging. What counts is how sure we are of what the server saw,
so an exchange ends in one of four ways: an answer, a request that was certainly not received
whole, an object too long to take, or silence. Python's own HTTP client makes the connections; the few lines of a
request and its answer are written and read here, which takes a fraction of the processor time.
"""

from __future__ import annotations

import base64
import math
import select
import ssl
import weakref
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from wormdb.errors import InvalidRequestError, UnavailableError
from wormdb.settings import (
    ANSWER_BYTES_MAX,
    CONNECT_TIMEOUT_SECONDS,
    KIB,
    MIB,
    POOL_THREADS,
    REQUEST_BYTES_A_SECOND,
    REQUEST_SECONDS,
    REQUEST_SECONDS_FACTOR,
)
from wormdb.storage.cloud.answer import Answer, AnswerStream, TooLongError, read_answer
from wormdb.storage.cloud.unanswered import AbandonedCallError, give_up_in_time
from wormdb.system.deadline import current

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from wormdb.system.clock import Clock

__all__ = ["Exchange", "NoAnswer", "NotSent", "Patience", "TooLong", "Wire", "extended", "receive", "send_all"]


# --- Send and receive over a socket with an end in sight: neither silence nor a drip of bytes holds a caller up.
#
# A socket's own timeout is for one call to the kernel, and a server that sends a byte now and then never meets it.

LOOK_SECONDS = 1.0
"""How often it is looked whether the deadline of the call was moved."""
SEND_BYTES = 256 * KIB


class Patience:
    """How long one exchange may take: until nothing moved for a while, or it is too slow, or the call is over."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        """`seconds` is how long nothing may move."""
        self._clock = clock
        self._seconds = seconds
        self._deadline = current()
        self._moved = clock.monotonic()
        self._ends = self._moved + REQUEST_SECONDS_FACTOR * seconds

    def wait_seconds(self) -> float:
        """How long to wait for the socket before asking again. Raises TimeoutError if there is no time left."""
        rest = min(self._moved + self._seconds, self._ends) - self._clock.monotonic()
        if self._deadline is not None:
            rest = min(rest, self._deadline.rest)
        if rest <= 0:
            raise TimeoutError
        return min(rest, LOOK_SECONDS)

    def moved(self, count: int) -> None:
        """Some bytes went or came."""
        self._moved = self._clock.monotonic()
        self._ends += count / REQUEST_BYTES_A_SECOND


def receive(connection: socket.socket, patience: Patience, count: int) -> bytes:
    """At most `count` bytes, at least one but at the end; raises OSError, TimeoutError when `patience` ends."""
    while True:
        if connection.gettimeout() != (seconds := patience.wait_seconds()):
            connection.settimeout(seconds)
        try:
            data = connection.recv(count)
        except TimeoutError:
            continue
        patience.moved(len(data))
        return data


def send_all(connection: socket.socket, data: bytes, patience: Patience) -> None:
    """Send all of `data`; raises OSError, and TimeoutError when `patience` is at its end."""
    view, sent = memoryview(data), 0
    while sent < len(view):
        if connection.gettimeout() != (seconds := patience.wait_seconds()):
            connection.settimeout(seconds)
        try:
            count = connection.send(view[sent : sent + SEND_BYTES])
        except TimeoutError:
            continue  # nothing of this piece was taken; over TLS the same bytes have to be offered again
        sent += count
        patience.moved(count)


# Servers close idle connections after 20 s or more; one that a middlebox dropped in
# silence would turn the next write into an unknown outcome.
IDLE_SECONDS_MAX = 15.0


@dataclass(frozen=True, slots=True)
class NotSent:
    """The server did not get the whole request, so it did nothing."""

    reason: str


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The request was sent and no whole answer came: anything may have happened."""

    reason: str


@dataclass(frozen=True, slots=True)
class TooLong:
    """A GET was answered by an object with more bytes than the caller takes: as many as were said, or seen so far."""

    size: int

    @property
    def reason(self) -> str:
        """For messages."""
        return f"an object of {self.size} bytes or more"


_IdleConnection = tuple["socket.socket", "select.poll", float]
"""A connection, what tells whether there is something to read on it, and since when it is idle."""

Exchange = Answer | NotSent | NoAnswer | TooLong


class Wire:
    """Connections to one origin (`https://host:port`), at most POOL_THREADS at once."""

    def __init__(self, origin: str, *, clock: Clock, request_seconds: float = REQUEST_SECONDS) -> None:
        """Nothing is connected before the first exchange. Honours http_proxy, https_proxy and no_proxy.

        An exchange ends when nothing moved for `request_seconds`, and when the time of the call is over.
        """
        parts = urlsplit(origin)
        assert parts.hostname is not None
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port or (443 if self._secure else 80)
        self._proxy = _proxy_for(parts.scheme, self._host)
        self._absolute, self._always = "", {"Host": parts.netloc, "Accept-Encoding": "identity"}
        if self._proxy is not None and not self._secure:
            self._absolute = origin
            self._always |= self._proxy[2]
        self._clock = clock
        self._request_seconds = request_seconds
        self._idle: deque[_IdleConnection] = deque()
        # Idle connections are a cache: dropping a store without closing it should give no ResourceWarning later.
        weakref.finalize(self, _close_all, self._idle).atexit = False
        self._permits: SimpleQueue[None] = SimpleQueue()
        """One for each request that may be on its way. A queue, because Python's semaphore takes ten times as long."""
        for _ in range(POOL_THREADS):
            self._permits.put(None)
        self._context: ssl.SSLContext | None = None

    def head(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None = None) -> bytes:
        """What is sent before the body of a request for `target` (path and query). No requests.

        `target` and `headers` must hold no control characters.
        """
        length = {} if body is None else {"Content-Length": str(len(body))}
        start = f"{method} {self._absolute}{target} HTTP/1.1"
        assert start.isprintable()
        return extended(f"{start}\r\n\r\n".encode("ascii"), {**self._always, **headers, **length})

    def exchange(
        self, method: str, head: bytes, body: bytes | None = None, *, object_max: int = ANSWER_BYTES_MAX
    ) -> Exchange:
        """Send one request, whose `head` was made here, and read the answer. 1 request, never 2.

        An object that is asked for has at most `object_max` bytes.
        """
        if not self._admitted():
            return NotSent(f"{POOL_THREADS} requests before it are not answered yet")
        try:
            connection, poll = self._take()
            if isinstance(connection, NotSent):
                return connection
            try:
                patience = Patience(self._clock, self._request_seconds)
                ended = _converse(connection, method, (head, body or b""), patience, object_max)
            except BaseException:
                connection.close()
                raise
            if isinstance(ended, Answer) and ended.may_continue:
                self._idle.append((connection, poll, self._clock.monotonic()))
            else:
                connection.close()
            return ended
        finally:
            self._permits.put(None)

    def _admitted(self) -> bool:
        try:
            self._permits.get_nowait()
        except Empty:
            with suppress(Empty):
                self._permits.get(timeout=self._rest(self._request_seconds))
                return True
            return False
        return True

    @staticmethod
    def _rest(most: float) -> float:
        deadline = current()
        return most if deadline is None else min(most, deadline.rest)

    def close(self) -> None:
        """Close idle connections; those in use are closed by their users."""
        _close_all(self._idle)

    def _take(self) -> tuple[socket.socket | NotSent, select.poll]:
        """An open connection, and what tells whether there is something to read on it."""
        while self._idle:
            try:
                connection, poll, since = self._idle.pop()
            except IndexError:
                break  # another thread took the last one
            # One that is readable was closed, or holds an answer to no request.
            if self._clock.monotonic() - since <= IDLE_SECONDS_MAX and not poll.poll(0):
                return connection, poll
            connection.close()
        made, poll = self._connect(), select.poll()
        if not isinstance(made, NotSent):
            poll.register(made, select.POLLIN)
        return made, poll

    def _connect(self) -> socket.socket | NotSent:
        seconds = min(CONNECT_TIMEOUT_SECONDS, self._request_seconds)
        if (rest := self._rest(seconds)) <= 0:
            return NotSent("the time of the call is over")
        maker = self._make(rest)
        try:
            # Looking up a name may take long, and each of its addresses has the whole time.
            give_up_in_time(maker.connect, longest=math.inf, what="connection", late=lambda _: maker.close())
        except AbandonedCallError:
            return NotSent("no connection in time")
        except UnavailableError as error:
            return NotSent(error.reason)
        except (OSError, HTTPException) as error:
            maker.close()
            return NotSent(_describe(error))
        return maker.sock

    def _make(self, seconds: float) -> HTTPConnection:
        host, port, authorization = self._proxy or (self._host, self._port, {})
        if not self._secure:
            return HTTPConnection(host, port, timeout=seconds)
        if self._context is None:
            self._context = ssl.create_default_context()
        connection = HTTPSConnection(host, port, timeout=seconds, context=self._context)
        if self._proxy is not None:
            connection.set_tunnel(self._host, self._port, authorization)
        return connection


def extended(head: bytes, headers: Mapping[str, str]) -> bytes:
    """The head of a request with more headers, which must hold no control characters. No requests."""
    lines = [f"{name}: {value}" for name, value in headers.items()]
    assert all(map(str.isprintable, lines))
    return head[:-2] + "\r\n".join([*lines, "", ""]).encode("ascii")


def _close_all(connections: deque[_IdleConnection]) -> None:
    while connections:
        connections.pop()[0].close()


def _converse(
    connection: socket.socket, method: str, request: tuple[bytes, bytes], patience: Patience, object_max: int
) -> Exchange:
    broken: OSError | None = None
    try:
        _send(connection, *request, patience)
    except OSError as error:
        # Not all bytes were taken, so the server cannot have the whole request. It may
        # have refused early and said why.
        broken = error
    try:
        stream = AnswerStream(partial(receive, connection, patience))
        answer = read_answer(stream, method, object_max=object_max)
    except TooLongError as error:
        return TooLong(error.size) if broken is None else NotSent(_describe(broken))
    except (OSError, HTTPException) as error:
        return NoAnswer(_describe(error)) if broken is None else NotSent(_describe(broken))
    if broken is None:
        return answer
    return NotSent(_describe(broken)) if answer.status < 300 else replace(answer, may_continue=False)


def _send(connection: socket.socket, head: bytes, body: bytes, patience: Patience) -> None:
    if len(body) <= MIB:
        send_all(connection, head + body, patience)
        return
    send_all(connection, head, patience)
    send_all(connection, body, patience)


def _describe(error: Exception) -> str:
    """The kind of failure in a few words; never the request, whose target is signed."""
    if isinstance(error, TimeoutError):
        return "it timed out"
    detail = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
    return str(detail)


def _proxy_for(scheme: str, host: str) -> tuple[str, int, dict[str, str]] | None:
    """Host, port and own headers of the proxy that the environment names for this origin."""
    proxies = getproxies()
    text = proxies.get(scheme) or proxies.get("all")
    if not text or proxy_bypass(host):
        return None
    parts = urlsplit(text if "://" in text else f"http://{text}")
    if parts.scheme != "http" or not parts.hostname:
        raise InvalidRequestError(
            f"proxy of the environment for {scheme}", reason="it is not an http:// proxy", fix="name an http:// proxy"
        )
    if not parts.username:
        return parts.hostname, parts.port or 80, {}
    user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    authorization = {"Proxy-Authorization": "Basic " + base64.b64encode(user.encode()).decode()}
    return parts.hostname, parts.port or 80, authorization
