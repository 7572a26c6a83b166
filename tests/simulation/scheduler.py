"""One baton, many threads, no real time: the task that holds the baton runs, and a seed decides which is next.

Tasks are threads, because the code they run is the real, blocking one. Exactly one runs at any moment: it goes on
until it waits (for an answer, a sleep, a lock), then hands the baton to the task with the earliest next event. Time is
a number that jumps to that event. So a run of many virtual hours takes milliseconds, and the same seed gives
the same run.
"""

from __future__ import annotations

import heapq
import math
import sys
import threading
from contextlib import ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING
from unittest import mock

from wormdb.system.clock import Uptime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Self

    from wormdb.system.clock import Chance

__all__ = [
    "BatonLock",
    "Process",
    "ProcessClock",
    "ProcessCrash",
    "RunEnd",
    "RunawayError",
    "Scheduler",
    "Task",
    "cooperative_locks",
]

START_MS = 1_700_000_000_000
LOCKING_MODULES = ("wormdb.engine.commit.head", "wormdb.engine.commit.turns", "wormdb.engine.blocks.runs")
"""Modules whose locks may be held while a request is on its way."""


SLEEP_SECONDS_MIN = 1e-6


class ProcessCrash(BaseException):
    """The process that this task was in died. Not an Exception: no handler runs that a crash would not run."""


class RunEnd(BaseException):
    """The run is over; the task unwinds."""


class RunawayError(AssertionError):
    """The run did not come to an end: too many events, or tasks that nothing will wake."""


class Process:
    """One life of a node: it can be paused, and it can die, once."""

    def __init__(self, name: str) -> None:
        """Alive and running."""
        self.name = name
        self.dead = False
        self.paused_until = 0.0
        self.suspended_ms = 0.0
        self.pause_at_request = (0, 0.0)
        """Before which request from now on it stops, and for how many ms; 0 for none."""

    def check(self) -> None:
        """Raise ProcessCrash if it is dead."""
        if self.dead:
            raise ProcessCrash(self.name)


class Task:
    """One thread of control. `process` is where it is at the moment, None outside."""

    def __init__(self, name: str) -> None:
        """Not started."""
        self.name = name
        self.process: Process | None = None
        self.gate = threading.Lock()
        self.gate.acquire()
        self.ticket = 0
        self.finished = False


class Scheduler:
    """The baton, the time and the queue of events."""

    def __init__(self, chance: Chance, *, events_max: int = 200_000) -> None:
        """Time begins at 0 ms; `chance` decides between events of the same moment."""
        self.now = 0.0
        self.failure: BaseException | None = None
        self._chance = chance
        self._events_max = events_max
        self._count = 0
        self._heap: list[tuple[float, float, int, Callable[[], Task | None]]] = []
        self._main = Task("main")
        self._current = self._main
        self._tasks: list[Task] = []
        self._over = False
        self._threads: set[int] = set()
        self._lives: list[threading.Thread] = []
        self._is_starting = False

    @property
    def current(self) -> Task:
        """The task that runs now."""
        return self._current

    @property
    def events(self) -> int:
        """How many events were queued so far."""
        return self._count

    def owns_thread(self) -> bool:
        """Whether the calling thread is one of the tasks, and not busy with starting another."""
        return threading.get_ident() in self._threads and not self._is_starting

    def after(self, delay_ms: float, action: Callable[[], Task | None]) -> None:
        """Call `action` later, in whatever thread has the baton; if it returns a task, that one runs next."""
        self._count += 1
        heapq.heappush(self._heap, (self.now + max(0.0, delay_ms), self._chance.fraction(), self._count, action))

    def spawn(self, name: str, body: Callable[[], None]) -> Task:
        """A task that begins now, after whatever else is due."""
        task = Task(name)
        self._tasks.append(task)
        self._is_starting = True
        thread = threading.Thread(target=self._live, args=(task, body), name=f"sim-{name}", daemon=True)
        self._lives.append(thread)
        thread.start()
        self._is_starting = False
        self.after(0, lambda: task)
        return task

    def run(self) -> None:
        """Let every task and every event come to its end; raises what a task raised."""
        self._hand_over(self._main, self._next())
        waiting = [task.name for task in self._tasks if not task.finished]
        if waiting and self.failure is None:
            self.failure = RunawayError(f"nothing will ever wake {', '.join(waiting)}")
        self._over = True
        for task in self._tasks:
            if not task.finished:
                self._hand_over(self._main, task)
        # A thread that is still ending when the interpreter is torn down may abort the whole process.
        for thread in self._lives:
            thread.join()
        if self.failure is not None:
            raise self.failure

    def sleep(self, delay_ms: float) -> None:
        """The current task goes on after this time, or later if its process is paused by then."""
        task, ticket = self._current, self._current.ticket
        self.after(delay_ms, partial(self.awake, task, ticket))
        self.park()

    def park(self) -> None:
        """Wait until `awake` gives the baton back. Raises ProcessCrash, RunEnd."""
        if self._over:
            raise RunEnd
        task = self._current
        following = self._next()
        if following is not task:
            self._hand_over(task, following)
        task.ticket += 1
        if self._over:
            raise RunEnd
        if task.process is not None:
            task.process.check()

    def awake(self, task: Task, ticket: int) -> Task | None:
        """The task if it still waits with this ticket and its process is not paused; else try again after the pause."""
        if task.ticket != ticket or task.finished:
            return None
        process = task.process
        if process is not None and not process.dead and process.paused_until > self.now:
            self.after(process.paused_until - self.now, partial(self.awake, task, ticket))
            return None
        return task

    def kill(self, process: Process) -> None:
        """The process dies: its tasks raise ProcessCrash from where they wait; requests on the wire go on."""
        process.dead = True
        for task in self._tasks:
            if task.process is process and task is not self._current:
                self.after(0, partial(self.awake, task, task.ticket))

    def pause(self, process: Process, pause_ms: float, *, suspended: bool) -> None:
        """Stop a process for a time; if `suspended`, its monotonic clock stops too."""
        until = max(process.paused_until, self.now + pause_ms)
        if suspended:
            process.suspended_ms += until - max(process.paused_until, self.now)
        process.paused_until = until

    @contextmanager
    def inside(self, process: Process) -> Iterator[None]:
        """The current task is in `process`; waits while it is paused."""
        task = self._current
        process.check()
        task.process = process
        try:
            if process.paused_until > self.now:
                self.sleep(process.paused_until - self.now)
            yield
        finally:
            task.process = None

    def _next(self) -> Task:
        while self._heap and self.failure is None:
            time, _, _, action = heapq.heappop(self._heap)
            self.now = max(self.now, time)
            if self._count > self._events_max:
                self.failure = RunawayError(f"more than {self._events_max} events")
                break
            task = action()
            if task is not None:
                return task
        return self._main

    def _hand_over(self, giver: Task, taker: Task) -> None:
        if taker is giver:
            return
        self._current = taker
        taker.gate.release()
        giver.gate.acquire()

    def _live(self, task: Task, body: Callable[[], None]) -> None:
        task.gate.acquire()
        self._threads.add(threading.get_ident())
        try:
            if not self._over:
                body()
        except RunEnd:
            pass
        except BaseException as error:  # noqa: BLE001 - a thread must hand on the baton, whatever happened
            if self.failure is None:
                self.failure = error
        task.finished = True
        following = self._main if self._over else self._next()
        self._current = following
        following.gate.release()


class ProcessClock:
    """A node's clocks: the wall clock is skewed, drifts and jumps; the monotonic one may stop in a suspension."""

    def __init__(self, scheduler: Scheduler, process: Process, *, skew_ms: float = 0.0, drift: float = 1.0) -> None:
        """`drift` is how many of its seconds pass in one true second."""
        self._scheduler = scheduler
        self._process = process
        self._drift = drift
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        """Wall time as this node believes it."""
        return int(START_MS + self._scheduler.now * self._drift + self.skew_ms)

    def monotonic(self) -> float:
        """Seconds of this node since the run began."""
        return (self._scheduler.now - self._process.suspended_ms) * self._drift / 1000

    def uptime(self) -> Uptime:
        """Of the one machine that all nodes are on, if the store is a folder."""
        return Uptime("simulated", 86_400_000 + int(self._scheduler.now))

    def sleep(self, seconds: float) -> None:
        """Wait in virtual time."""
        self._process.check()
        # Real clocks move on during the shortest sleep; a float of virtual milliseconds may not.
        self._scheduler.sleep(max(seconds, SLEEP_SECONDS_MIN if seconds > 0 else 0) * 1000 / self._drift)


class BatonLock:
    """A lock whose waiters hand on the baton instead of blocking their thread."""

    def __init__(self, scheduler: Scheduler, *, reentrant: bool = False) -> None:
        """Free."""
        self._scheduler = scheduler
        self._reentrant = reentrant
        self._owner: Task | None = None
        self._depth = 0
        self._waiting: list[tuple[Task, int]] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Wait until it is free, for `timeout` seconds at most, and take it; or do not wait. Whether it was taken."""
        task = self._scheduler.current
        ends = math.inf if timeout < 0 else self._scheduler.now + timeout * 1000
        while self._owner is not None and not (self._reentrant and self._owner is task):
            if not blocking or self._scheduler.now >= ends:
                return False
            self._waiting.append((task, task.ticket))
            if ends < math.inf:
                self._scheduler.after(ends - self._scheduler.now, partial(self._scheduler.awake, task, task.ticket))
            self._scheduler.park()
        self._owner = task
        self._depth += 1
        return True

    def locked(self) -> bool:
        """Whether a task has it."""
        return self._owner is not None

    @property
    def depth(self) -> int:
        """How often the current task has taken it."""
        return self._depth if self._owner is self._scheduler.current else 0

    def attempt(self) -> bool:
        """Take it if it is free; whether it was."""
        return self.acquire(blocking=False)

    def release_to(self, depth: int) -> None:
        """Give it back until the current task has it so often."""
        while self.depth > depth:
            self.release()

    def release(self) -> None:
        """Give it back; all that wait try again, in an order that the seed decides."""
        self._depth -= 1
        if self._depth:
            return
        self._owner = None
        waiting, self._waiting = self._waiting, []
        for task, ticket in waiting:
            self._scheduler.after(0, partial(self._scheduler.awake, task, ticket))

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class _BatonEvents:
    """What `threading.Event` does in a task: it waits by handing on the baton."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._wait = threading.Event.wait
        self._set = threading.Event.set
        self._waiting: dict[threading.Event, list[tuple[Task, int]]] = {}

    def wait(self, event: threading.Event, timeout: float | None = None) -> bool:
        if not self._scheduler.owns_thread():
            return self._wait(event, timeout)
        task = self._scheduler.current
        ends = math.inf if timeout is None else self._scheduler.now + timeout * 1000
        while not event.is_set() and self._scheduler.now < ends:
            self._waiting.setdefault(event, []).append((task, task.ticket))
            if ends < math.inf:
                self._scheduler.after(ends - self._scheduler.now, partial(self._scheduler.awake, task, task.ticket))
            self._scheduler.park()
        return event.is_set()

    def set(self, event: threading.Event) -> None:
        self._set(event)
        for task, ticket in self._waiting.pop(event, ()):
            self._scheduler.after(0, partial(self._scheduler.awake, task, ticket))


def _method(function: Callable[..., object]) -> Callable[..., object]:
    """A plain function, which becomes a method of the class it is put in; a bound method would not."""

    def method(event: threading.Event, *given: object) -> object:
        return function(event, *given)

    return method


@contextmanager
def cooperative_locks(scheduler: Scheduler) -> Iterator[None]:
    """Ledgers made inside get locks that hand on the baton: a thread that blocked for real would stop the run."""
    events = _BatonEvents(scheduler)
    namespace = SimpleNamespace(
        Lock=lambda: BatonLock(scheduler),
        RLock=lambda: BatonLock(scheduler, reentrant=True),
        Event=threading.Event,
    )

    def timed(what: str, *, is_reentrant: bool = False) -> BatonLock:
        return BatonLock(scheduler, reentrant=is_reentrant)

    with ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if name.startswith("wormdb.engine.") and hasattr(module, "threading"):
                stack.enter_context(mock.patch.object(module, "threading", namespace))
            if name.startswith("wormdb.") and hasattr(module, "TimedLock"):
                stack.enter_context(mock.patch.object(module, "TimedLock", timed))
        # A class that was made before holds on to threading.Event itself.
        stack.enter_context(mock.patch.object(threading.Event, "wait", _method(events.wait)))
        stack.enter_context(mock.patch.object(threading.Event, "set", _method(events.set)))
        yield
