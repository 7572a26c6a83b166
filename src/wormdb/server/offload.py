"""Where a command runs: in the loop if it needs nothing but what this process knows, otherwise in a thread.

The loop never waits. A read is tried there with waiting refused; if it would need the store, it is repeated by a
thread. Whether anything is newer is asked once for all reads of a collection that arrived before (`Freshness probes`),
also by a thread. Threads are shared by lanes, one for each collection: one lane never has more than half of them, so
that a collection whose objects are far away does not hold up the others.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from wormdb.errors import ClosedError
from wormdb.storage.store import WrappedStore
from wormdb.system.waiting import check_waiting

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Iterator, Sequence
    from typing import Literal

    from wormdb.storage.store import (
        ByteRange,
        ListPage,
        ObjectInfo,
        Precondition,
        Probe,
        PutResult,
        StoredObject,
        UploadSource,
    )

    Told = Callable[[Any, BaseException | None], None]
    """Takes a result, or the error that came instead."""

__all__ = ["AwaitedStore", "LaneThreads", "ProbeGate"]

log = logging.getLogger(__name__)

PROBES_MAX: Final = 4
"""Probes of one collection on their way at once, as the engine's group reads have them."""
_OCTETS: Final = "application/octet-stream"


class AwaitedStore(WrappedStore):
    """A store that threads which must not wait cannot ask: every verb raises WouldWaitError there."""

    def get(self, key: str) -> StoredObject:
        """As the store inside."""
        check_waiting(key)
        return self._inner.get(key)

    def get_range(self, key: str, span: ByteRange) -> bytes:
        """As the store inside."""
        check_waiting(key)
        return self._inner.get_range(key, span)

    def get_ranges(self, key: str, spans: Sequence[ByteRange]) -> tuple[bytes, ...]:
        """As the store inside."""
        check_waiting(key)
        return self._inner.get_ranges(key, spans)

    def probe(self, key: str) -> Probe:
        """As the store inside."""
        check_waiting(key)
        return self._inner.probe(key)

    def head(self, key: str) -> ObjectInfo:
        """As the store inside."""
        check_waiting(key)
        return self._inner.head(key)

    def list(
        self, prefix: str = "", *, after: str | None = None, delimiter: Literal["/"] | None = None
    ) -> Iterator[ListPage]:
        """As the store inside."""
        check_waiting(prefix)
        return self._inner.list(prefix, after=after, delimiter=delimiter)

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = _OCTETS
    ) -> PutResult:
        """As the store inside."""
        check_waiting(key)
        return self._inner.put(key, body, precondition, content_type=content_type)

    def upload(self, key: str, source: UploadSource, *, content_type: str = _OCTETS) -> None:
        """As the store inside."""
        check_waiting(key)
        self._inner.upload(key, source, content_type=content_type)

    def delete(self, key: str) -> None:
        """As the store inside."""
        check_waiting(key)
        self._inner.delete(key)

    def delete_many(self, keys: Sequence[str]) -> None:
        """As the store inside."""
        check_waiting("delete")
        self._inner.delete_many(keys)


class LaneThreads:
    """At most `threads` at once, at most `share` of them for one lane. Used by the loop's thread alone."""

    def __init__(self, loop: AbstractEventLoop, threads: int, share: int, name: str) -> None:
        """Threads are started when there is work for them."""
        self._loop = loop
        self._threads_max = threads
        self._share = share
        self._name = name
        self._work: queue.SimpleQueue[tuple[str, Callable[[], Any], Told] | None] = queue.SimpleQueue()
        self._started: list[threading.Thread] = []
        self._tell_idle: Callable[[], None] | None = None
        self._running: dict[str, int] = {}
        self._waiting: dict[str, deque[tuple[Callable[[], Any], Told]]] = {}
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        """Whether it takes no more calls."""
        return self._is_closed

    @property
    def waiting(self) -> int:
        """Calls that wait for a thread."""
        return sum(map(len, self._waiting.values()))

    @property
    def running(self) -> int:
        """Calls that threads work on, or are about to."""
        return sum(self._running.values())

    def when_idle(self, tell: Callable[[], None]) -> None:
        """Call `tell` as soon as no call is at work."""
        if self._running:
            self._tell_idle = tell
        else:
            tell()

    def run(self, lane: str, call: Callable[[], Any], told: Told) -> None:
        """Have a thread make a call; `told` hears of the result in the loop's thread."""
        if self._is_closed:
            told(None, ClosedError("the server", reason="it is stopping"))
        elif self._running.get(lane, 0) >= self._share:
            self._waiting.setdefault(lane, deque()).append((call, told))
        else:
            self._begin(lane, call, told)

    def _begin(self, lane: str, call: Callable[[], Any], told: Told) -> None:
        self._running[lane] = self._running.get(lane, 0) + 1
        busy = self.running
        if busy > len(self._started) and len(self._started) < self._threads_max:
            thread = threading.Thread(target=self._serve, name=f"wormdb-{self._name}-{len(self._started)}", daemon=True)
            self._started.append(thread)
            thread.start()
        self._work.put((lane, call, told))

    def _serve(self) -> None:
        while (job := self._work.get()) is not None:
            lane, call, told = job
            result, error = None, None
            try:
                result = call()
            except BaseException as raised:  # noqa: BLE001 - it is told to the caller
                error = raised
            del call, job
            try:
                self._loop.call_soon_threadsafe(self._ended, lane, told, result, error)
            except RuntimeError:  # the loop is closed: the result is of no use to anything
                return
            del told, result, error

    def _ended(self, lane: str, told: Told, result: Any, error: BaseException | None) -> None:
        self._running[lane] -= 1
        if not self._running[lane]:
            del self._running[lane]
        waiting = self._waiting.get(lane)
        if waiting:
            self._begin(lane, *waiting.popleft())
            if not waiting:
                del self._waiting[lane]
        told(result, error)
        if not self._running and self._tell_idle is not None:
            self._tell_idle()

    def close(self) -> None:
        """Take no more calls; threads end after what they are doing."""
        self._is_closed = True
        waiting, self._waiting = self._waiting, {}
        for lane in waiting.values():
            for _, told in lane:
                told(None, ClosedError("the server", reason="it is stopping"))
        for _ in self._started:
            self._work.put(None)


class ProbeGate:
    """Asks for each collection whether anything is newer, once for all that wait. Used by the loop's thread alone.

    A probe serves those that asked before it was sent. The requests of one turn of the loop are sent together.
    """

    def __init__(self, loop: AbstractEventLoop, threads: LaneThreads) -> None:
        """`threads` make the probes, and nothing else."""
        self._loop = loop
        self._threads = threads
        self._waiting: dict[str, list[Told]] = {}
        self._probes: dict[str, Callable[[], int]] = {}
        self._sent: dict[str, int] = {}
        self.probes = 0
        """How many were made."""

    def ask(self, lane: str, probe: Callable[[], int], told: Told) -> None:
        """Tell the log number of a state that is not older than this call."""
        waiting = self._waiting.get(lane)
        if waiting is None:
            self._waiting[lane] = [told]
            self._probes[lane] = probe
            if self._sent.get(lane, 0) < PROBES_MAX:
                self._loop.call_soon(self._send, lane)
        else:
            waiting.append(told)

    def _send(self, lane: str) -> None:
        waiting = self._waiting.pop(lane, None)
        if waiting is None:
            return
        self._sent[lane] = self._sent.get(lane, 0) + 1
        self.probes += 1

        def done(number: Any, error: BaseException | None) -> None:
            self._sent[lane] -= 1
            if lane in self._waiting:
                self._send(lane)
            elif not self._sent[lane]:
                del self._sent[lane], self._probes[lane]
            for told in waiting:
                told(number, error)

        self._threads.run(lane, self._probes[lane], done)
