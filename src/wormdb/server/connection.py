"""One connection: bytes in, commands one after the other, replies out in their order. All of it in the loop's thread.

A command that has to wait leaves the connection busy; the next one begins when it is answered, and what arrives
meanwhile stays in the parser. Nothing here waits, and nothing is kept beyond bounds: a client that sends without
reading is read no further, and one that does not take its replies is dropped.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from wormdb.errors import WormError
from wormdb.server.accounts import EVERYTHING_ALLOWED
from wormdb.server.commands import find_command
from wormdb.server.faults import fault_of
from wormdb.server.replies import ErrorReply, encode_reply
from wormdb.server.requests import GUEST_BOUNDS, USER_BOUNDS, ProtocolError, RequestParser
from wormdb.server.routing import NOT_BEGUN
from wormdb.server.session import ClientSession
from wormdb.system.waiting import WouldWaitError, refuse_waiting

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.server.buckets import ServedBucket
    from wormdb.server.commands import Command
    from wormdb.server.parts import ServerParts

__all__ = ["Connection"]

log = logging.getLogger(__name__)

INPUT_BYTES_MAX: Final = 1 << 20
"""That are read ahead of the command at hand."""
OUTPUT_BYTES_HIGH: Final = 1 << 20
"""Replies that the client has not taken: from then on no command begins."""
OUTPUT_BYTES_MAX: Final = 256 << 20
"""Replies that the client has not taken: then it is dropped."""
SLOW_SECONDS: Final = 60.0
"""How long a client may leave replies untaken."""

_VALUES: Final = re.compile(rb'"[^"\\]*"(?=\s*[,}\]])|-?[0-9][0-9.eE+-]*')
_BUCKET_GROUPS: Final = frozenset({"bucket", "index"})


class Connection(asyncio.Protocol):
    """Talks to one client."""

    def __init__(self, parts: ServerParts) -> None:
        """Not connected yet."""
        self._parts = parts
        self._service = parts.service
        self._transport: asyncio.Transport | None = None
        self._parser = RequestParser()
        self._received = 0
        self._is_busy = self._is_paused = self._is_read_paused = self._is_pumping = False
        self._slow: asyncio.TimerHandle | None = None
        self._out: list[bytes] = []
        self._probed: dict[str, int] = {}
        """By folder how many bytes had arrived when its freshness was asked for."""
        self.session = ClientSession(parts.service, 0, "")

    # --- what asyncio tells ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there; over the limit it is told so and sent away."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=OUTPUT_BYTES_HIGH)
        if not self._parts.admit(self):
            self._service.figures.refused += 1
            self._transport.write(encode_reply(ErrorReply("max number of clients reached"), 2))
            self._transport.close()
            self._transport = None
            return
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = transport.get_extra_info("peername")
        session = self.session
        session.address = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else "local"
        session.began = session.used = self._service.clock.monotonic()
        session.bounds_changed = self._set_bounds
        session.begin()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """The client is gone: what it had is given up, by a thread if a transaction has to be."""
        if self._transport is None:
            return
        self._transport = None
        if self._slow is not None:
            self._slow.cancel()
        self._parts.forget(self)
        if not self._is_busy:
            self._give_up()

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        self._received += len(data)
        self._service.figures.bytes_in += len(data)
        self._parser.feed(data)
        self._pump()

    def pause_writing(self) -> None:
        """The client does not take its replies: no command begins until it does."""
        self._is_paused = True
        self._slow = self._parts.loop.call_later(SLOW_SECONDS, self.drop, "it did not take its replies")

    def resume_writing(self) -> None:
        """It took them."""
        self._is_paused = False
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None
        self._pump()

    # --- the way of a command ---

    def _set_bounds(self) -> None:
        self._parser.bounds = USER_BOUNDS if self.session.is_known else GUEST_BOUNDS

    def drop(self, reason: str) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._service.figures.dropped += 1
            log.info("connection %d is dropped: %s", self.session.id, reason)
            self._transport.abort()

    def close(self) -> None:
        """End the connection after what was sent."""
        if self._transport is not None:
            self._transport.close()

    @property
    def is_idle(self) -> bool:
        """Whether no command is at work."""
        return not self._is_busy

    def _give_up(self) -> None:
        if self.session.transaction is not None:
            self._parts.threads.run("", self.session.close_all, lambda *_: None)
        else:
            self.session.close_all()

    def _pump(self) -> None:
        """Begin the commands that have arrived, until one has to wait."""
        if self._is_pumping:
            return
        self._is_pumping = True
        try:
            while not self._is_busy and not self._is_paused and self._transport is not None:
                words = self._parser.next()
                if words is None:
                    break
                self._begin(words)
        except ProtocolError as error:
            self._reply(ErrorReply(f"Protocol error: {error}"))
            self.session.is_ending = True
        finally:
            self._is_pumping = False
            self._flush()
        self._set_reading()

    def _set_reading(self) -> None:
        """Read no further while enough has arrived that cannot begin."""
        if self._transport is None or self._transport.is_closing():
            return
        is_full = (self._is_busy or self._is_paused) and self._parser.left > INPUT_BYTES_MAX
        if is_full != self._is_read_paused:
            self._is_read_paused = is_full
            if is_full:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _flush(self) -> None:
        if self._transport is None:
            self._out.clear()
            return
        if self._out:
            data = b"".join(self._out)
            self._out.clear()
            self._service.figures.bytes_out += len(data)
            self._transport.write(data)
            if self._transport.get_write_buffer_size() > OUTPUT_BYTES_MAX:
                self.drop("its replies are too many")
                return
        if self.session.is_ending:
            self._transport.close()
            self._transport, transport = None, self._transport
            self._parts.forget(self)
            self._give_up()
            del transport

    def _reply(self, value: Any) -> None:
        if isinstance(value, ErrorReply):
            faults = self._service.figures.faults
            faults[value.prefix] = faults.get(value.prefix, 0) + 1
        self._out.append(encode_reply(value, self.session.version))

    def _begin(self, words: list[bytes]) -> None:
        session, service = self.session, self._service
        service.figures.commands += 1
        session.used = service.clock.monotonic()
        try:
            command = find_command(service.commands, words)
            session.command = command.name
            self._check_allowed(command)
            if command.place == "loop":
                self._reply(command.run(session, words))
                return
            bucket = None if command.bucket_at is None else session.bucket(words[command.bucket_at])
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
            self._reply(self._fault(error))
            return
        if command.place == "try":
            self._try(command, words, "")
        elif command.place in ("read", "fresh") and bucket is not None and session.transaction is None:
            self._read(command, words, bucket)
        else:
            self._to_thread(command, words, self._lane(command, words, bucket))

    def _lane(self, command: Command, words: list[bytes], bucket: ServedBucket | None) -> str:
        """Commands of one lane share threads: those of one bucket."""
        if bucket is not None:
            return bucket.prefix
        if command.place == "handed":
            return words[4].decode("utf-8", "replace")
        if command.name == "BUCKET.ADVANCE" and words[2].isdigit():
            cursor = self.session.cursors.get(int(words[2][:18]))
            return "" if cursor is None else cursor.bucket.prefix
        return ""

    def _check_allowed(self, command: Command) -> None:
        session = self.session
        if not session.is_known and not command.is_open:
            raise ErrorReply("Authentication required.", "NOAUTH")
        account = session.account
        if account is EVERYTHING_ALLOWED or command.group not in _BUCKET_GROUPS:
            return
        if not account.may(session.namespace, write=command.is_write):
            raise ErrorReply(f"this user has no permissions to run '{command.name.lower()}' here", "NOPERM")

    def _read(self, command: Command, words: list[bytes], bucket: ServedBucket) -> None:
        """A read begins when it is known how new its bucket is: by a probe that was sent after it arrived."""
        arrived = self._received - self._parser.left
        if self._probed.get(bucket.prefix, -1) >= arrived:
            self._try(command, words, bucket.prefix)
            return
        self._is_busy = True
        self.session.fresh.pop(bucket.prefix, None)
        # Whatever has arrived by now is served by the same probe.
        told = partial(self._told_fresh, command, words, bucket, self._received)
        self._parts.gate.ask(bucket.prefix, bucket.probe, told)

    def _told_fresh(
        self, command: Command, words: list[bytes], bucket: ServedBucket, received: int, number: Any, error: Any
    ) -> None:
        self._is_busy = False
        if self._transport is None:
            self._give_up()
            return
        if error is not None:
            self._reply(self._fault(error))
        else:
            self.session.fresh[bucket.prefix] = number
            self._probed[bucket.prefix] = received
            self._try(command, words, bucket.prefix)
        if not self._is_busy:
            self._pump()

    def _try(self, command: Command, words: list[bytes], lane: str) -> None:
        """Carry a command out here, or in a thread if it needs more than is known, or takes long."""
        if command.place == "fresh":
            self._to_thread(command, words, lane)
            return
        shape, start, pace = None, 0.0, self._parts.pace
        if lane and pace.is_watched:
            shape = (lane, _VALUES.sub(b"", words[2]), *words[3:])
            if pace.is_slow(shape):
                self._to_thread(command, words, lane, shape)
                return
            start = pace.processor()
        try:
            with refuse_waiting():
                reply = command.run(self.session, words)
        except WouldWaitError:
            self._to_thread(command, words, lane, shape)
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told
            reply = self._fault(error)
        self._service.figures.in_loop += 1
        if shape is not None:
            pace.tell(shape, pace.processor() - start)
        self._reply(reply)

    def _to_thread(self, command: Command, words: list[bytes], lane: str, shape: Any = None) -> None:
        self._is_busy = True
        self._service.figures.in_threads += 1
        run = partial(command.run, self.session, words)
        if command.place == "handed":
            if self._parts.handed.is_closed:
                self._told_result(None, ErrorReply("the server is stopping", NOT_BEGUN))
            else:
                self._parts.handed.run(lane, run, self._told_result)
        elif shape is None:
            self._parts.threads.run(lane, run, self._told_result)
        else:
            told = partial(self._told_time, shape)
            self._parts.threads.run(lane, partial(_timed, run, self._parts.pace.processor), told)

    def _told_time(self, shape: Any, result: Any, error: BaseException | None) -> None:
        if error is None:
            result, seconds = result
            self._parts.pace.tell(shape, seconds)
        self._told_result(result, error)

    def _told_result(self, result: Any, error: BaseException | None) -> None:
        self._is_busy = False
        if self._transport is None:
            self._give_up()
            return
        self._reply(result if error is None else self._fault(error))
        self._pump()

    def _fault(self, error: BaseException) -> ErrorReply:
        if isinstance(error, ErrorReply):
            return error
        if isinstance(error, WormError):
            return fault_of(error)
        # Arguments are not logged: they may be secrets.
        log.error("%s failed: %s", self.session.command, type(error).__name__, exc_info=error)
        return ErrorReply("internal error: see the server's log")


def _timed(run: Callable[[], Any], processor: Callable[[], float]) -> tuple[Any, float]:
    """What a call gives, and how much of this thread's processor it took."""
    start = processor()
    result = run()
    return result, processor() - start
