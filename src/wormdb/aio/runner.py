"""Calls of the API in threads, for programs with an event loop: bounded, and freed when they are cancelled."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

from wormdb.api.feed import NOW, begin_of, parse_resume, poll_changes
from wormdb.api.pymongo_names import PymongoNames
from wormdb.errors import ClosedError, InvalidRequestError
from wormdb.system.deadline import CancelScope, Deadline, begin, end

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
    from concurrent.futures import Future

    from wormdb.api.feed import Change, Resume
    from wormdb.settings import Settings
    from wormdb.system.clock import Clock

__all__ = ["CALLS_AT_ONCE", "AsyncChangeStream", "AsyncHandle", "AsyncRunner", "TurnRunner"]

T = TypeVar("T")
H = TypeVar("H")

CALLS_AT_ONCE: Final = 32
"""Calls of one database that are under way at once, unless `aio.connect` says another number; others wait."""
_ROWS_AT_ONCE: Final = 256
"""Rows that are fetched together at most. The first comes alone, then twice as many each time."""


class AsyncRunner:
    """The threads of one database. Threads are started when they are needed, and anew in a forked child."""

    def __init__(self, clock: Clock, settings: Settings, concurrency: int) -> None:
        """No threads yet. Raises InvalidRequestError."""
        given: object = concurrency
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise InvalidRequestError(
                f"concurrency={concurrency!r:.40}", reason="it must be a whole number of 1 or more", fix="leave it out"
            )
        self._clock = clock
        self._seconds = settings.read_seconds
        self._concurrency = concurrency
        self._executor: ThreadPoolExecutor | None = None
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        """Whether it takes no more calls."""
        return self._is_closed

    async def call(self, function: Callable[..., T], *given: Any, **named: Any) -> T:
        """What a function of the API returns or raises, in a thread.

        A call that is cancelled before a thread took it has not begun. One that runs is ended as by a deadline, which
        takes about a second at most, and only then CancelledError goes on: nothing of it is under way afterwards.
        """
        scope = CancelScope(self._clock)
        context = copy_context()
        running: Future[T] = self._started().submit(context.run, self._work, scope, function, given, named)
        try:
            return await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            scope.cancel()
            if not running.cancel():
                await _settled(running)
            raise

    def _work(self, scope: CancelScope, function: Callable[..., T], given: Any, named: Any) -> T:
        outer = begin(scope)
        # What has no deadline of its own ends when the store has not answered for a while.
        inner = begin(Deadline(self._clock, self._seconds, "read_seconds", "work"))
        try:
            return function(*given, **named)
        finally:
            end(inner)
            end(outer)

    async def stream(self, make: Callable[[], Iterator[T]]) -> AsyncIterator[T]:
        """What an iterator of the API gives: a thread is held while it fetches, not while the caller looks at rows."""
        rows = await self.call(lambda: iter(make()))
        count = 1
        try:
            while True:
                some, error = await self.call(_take, rows, count)
                for row in some:
                    yield row
                if error is not None:
                    raise error
                if len(some) < count:
                    return
                count = min(2 * count, _ROWS_AT_ONCE)
        finally:
            close = getattr(rows, "close", None)
            if close is not None:
                close()

    def watch(
        self, collection: Any, after: int | str, *, resume_after: int | str | None, follow: bool, poll_seconds: float
    ) -> AsyncChangeStream:
        """As `Collection.watch`; between two polls no thread is held."""
        if not poll_seconds >= 0:
            raise InvalidRequestError(f"watch(poll_seconds={poll_seconds!r})", reason="it must be 0 or more")
        begin = after if resume_after is None else resume_after
        return AsyncChangeStream(self, collection._access, begin, poll_seconds if follow else None)  # noqa: SLF001 - of the same package's API

    def close(self) -> None:
        """Take no more calls; threads end after what they do."""
        with self._lock:
            self._is_closed = True
            if self._executor is not None and self._process == os.getpid():
                self._executor.shutdown(wait=False)

    def _started(self) -> ThreadPoolExecutor:
        if self._process != os.getpid():  # its threads and lock are those of the parent
            self._process, self._lock, self._executor = os.getpid(), threading.Lock(), None
        with self._lock:
            if self._is_closed:
                raise ClosedError("database", reason="it was closed")
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._concurrency, thread_name_prefix="wormdb-aio")
            return self._executor


class TurnRunner(AsyncRunner):
    """Calls of one transaction or snapshot, one after the other: tasks that share it wait for their turn."""

    def __init__(self, runner: AsyncRunner) -> None:
        """In the threads of a database."""
        self._runner = runner
        self._turn = asyncio.Lock()

    @property
    def is_closed(self) -> bool:
        """Whether the database takes no more calls."""
        return self._runner.is_closed

    async def call(self, function: Callable[..., T], *given: Any, **named: Any) -> T:
        """As `AsyncRunner.call`, when the calls before it have ended; those that were cancelled too."""
        async with self._turn:
            return await self._runner.call(function, *given, **named)


async def _settled(running: Future[Any]) -> None:
    """Return when a call that was cancelled has ended, however often the caller is cancelled meanwhile."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    running.add_done_callback(lambda _: loop.call_soon_threadsafe(done.set))
    while not done.is_set():
        try:
            await done.wait()
        except asyncio.CancelledError:
            continue


def _take(rows: Iterator[T], count: int) -> tuple[list[T], Exception | None]:
    """Some rows; and what went wrong behind them, which is raised when they were seen."""
    some: list[T] = []
    try:
        for row in islice(rows, count):
            some.append(row)  # noqa: PERF402 - those before an error count
    except Exception as error:  # noqa: BLE001 - it is the caller's, raised there
        return some, error
    return some, None


def _take_round(changes: Iterator[Change | None]) -> tuple[list[Change | None], Exception | None]:
    """Some changes up to the end of a poll, whose mark comes with them."""
    some: list[Change | None] = []
    while len(some) < _ROWS_AT_ONCE:
        found, error = _take(changes, 1)
        some += found
        if error is not None or not found or found[0] is None:
            return some, error
    return some, None


class AsyncChangeStream:
    """Changes of a collection, to be gone through by `async for`; as a block it is closed at the end."""

    def __init__(self, runner: AsyncRunner, access: Any, after: int | str, poll_seconds: float | None) -> None:
        """`after` is where they begin; without `poll_seconds` they end. Raises InvalidRequestError."""
        if after != NOW:
            parse_resume(after)
        self._runner, self._access, self._poll_seconds = runner, access, poll_seconds
        self._resume = after
        self._changes: AsyncGenerator[Change, None] | None = None

    @property
    def resume(self) -> int | str:
        """Where to go on behind the last change that was taken: give it to `watch`."""
        return self._resume

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        change = await anext(await self._begun())
        self._resume = change.resume
        return change

    async def __aenter__(self) -> Self:
        await self._begun()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Give no more changes. May be called twice."""
        if self._changes is not None:
            await self._changes.aclose()

    async def _begun(self) -> AsyncGenerator[Change, None]:
        if self._changes is None:
            begin = await self._runner.call(begin_of, self._access, self._resume)
            self._resume = begin.number if self._resume == NOW else self._resume
            self._changes = self._follow(begin)
        return self._changes

    async def _follow(self, begin: Resume) -> AsyncGenerator[Change, None]:
        changes = poll_changes(self._access, begin)
        while True:
            some, error = await self._runner.call(_take_round, changes)
            for change in some:
                if change is not None:
                    yield change
            if error is not None:
                raise error
            if some and some[-1] is None:
                if self._poll_seconds is None:
                    return
                await asyncio.sleep(self._poll_seconds)


class AsyncHandle(PymongoNames, Generic[H]):
    """Something of the API whose calls are awaited: `H` is what it stands for."""

    def __init__(self, runner: AsyncRunner, inner: H) -> None:
        """Made by `wormdb.aio.connect` and what it gives."""
        self._runner = runner
        self._inner: Any = inner

    @staticmethod
    def _plain(given: Iterable[Any]) -> list[Any]:
        """Arguments as the API takes them."""
        return [each._inner if isinstance(each, AsyncHandle) else each for each in given]  # noqa: SLF001 - one of us

    def __repr__(self) -> str:
        return f"Async{type(self._inner).__name__}({getattr(self._inner, 'name', None) or self._inner!r})"
