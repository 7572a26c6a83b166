"""Send and receive over a socket with an end in sight: neither silence nor a drip of bytes holds a caller up.

A socket's own timeout is for one call to the kernel, and a server that sends a byte now and then never meets it.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from wormdb.settings import KIB, REQUEST_BYTES_A_SECOND, REQUEST_SECONDS_FACTOR
from wormdb.system.deadline import current

if TYPE_CHECKING:
    import socket

    from _typeshed import WriteableBuffer

    from wormdb.system.clock import Clock

__all__ = ["Patience", "TimedReader", "send_all"]

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


class TimedReader(io.RawIOBase):
    """What a socket receives, as a raw stream to be buffered. Closing it leaves the socket open."""

    def __init__(self, connection: socket.socket, patience: Patience) -> None:
        """Reads raise TimeoutError when `patience` is at its end."""
        super().__init__()
        self._connection = connection
        self._patience = patience

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """As many bytes as there are, at least one but at the end."""
        while True:
            self._connection.settimeout(self._patience.wait_seconds())
            try:
                count = self._connection.recv_into(buffer)
            except TimeoutError:
                continue
            self._patience.moved(count)
            return count


def send_all(connection: socket.socket, data: bytes, patience: Patience) -> None:
    """Send all of `data`; raises OSError, and TimeoutError when `patience` is at its end."""
    view, sent = memoryview(data), 0
    while sent < len(view):
        connection.settimeout(patience.wait_seconds())
        try:
            count = connection.send(view[sent : sent + SEND_BYTES])
        except TimeoutError:
            continue  # nothing of this piece was taken; over TLS the same bytes have to be offered again
        sent += count
        patience.moved(count)
