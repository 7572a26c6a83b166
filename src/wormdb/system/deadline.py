"""How long a call may take: a deadline that goes with the call, through every layer and into the threads of the pool.

Code that makes a request or waits for a lock asks `current()` how much time is left. There are three kinds:

* a *strict* deadline never moves: the caller named a time, or the call is one step;
* a deadline by *steps* begins anew with each batch of rows that a query reads, so that a long scan may go on;
* a deadline for *work* (forwarding, garbage collection, uploads) begins anew with every answer of the store: it ends
  work that waits for a store which does not answer, however much there is to do.

After `at` nothing is tried again; what is on its way then is cut off GRACE_SECONDS later.
"""

from __future__ import annotations

import _thread
import math
import os
import threading
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeVar

from wormdb.errors import UnavailableError
from wormdb.settings import GRACE_SECONDS
from wormdb.system.waiting import check_waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.system.clock import Clock

__all__ = [
    "CancelScope",
    "Deadline",
    "TimedLock",
    "attempt_lock",
    "await_lock",
    "begin",
    "beside",
    "current",
    "end",
    "is_over",
    "module_lock",
    "pause",
    "stepwise",
    "within",
]

T = TypeVar("T")

Kind = Literal["strict", "steps", "work"]


class Deadline:
    """When a call ends. Threads of the call share it; times are on the monotonic clock."""

    __slots__ = ("_clock", "_is_hastened", "_kind", "_outer", "_seconds", "_steps", "at", "is_patient", "name")

    def __init__(
        self, clock: Clock, seconds: float, name: str, kind: Kind = "strict", *, is_patient: bool = False
    ) -> None:
        """From now. `name` is what a user can change, for messages.

        With `is_patient` reads that fail are tried again until then, however many tries that takes: a commit has
        promised so.
        """
        self._clock = clock
        self._seconds = seconds
        self._kind = kind
        self._steps = 0
        self._is_hastened = False
        self._outer = _current.get()
        self.name = name
        self.is_patient = is_patient
        self.at = clock.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds in which something may be tried again; never under 0."""
        own = self.at - self._clock.monotonic()
        outer = self._outer
        if outer is not None and outer.is_firm:
            own = min(own, outer.left)
        return max(0.0, own)

    @property
    def rest(self) -> float:
        """Seconds until what is on its way is cut off; never under 0."""
        own = self.at + GRACE_SECONDS - self._clock.monotonic()
        outer = self._outer
        if outer is not None and outer.is_firm:
            own = min(own, outer.rest)
        return max(0.0, own)

    @property
    def is_firm(self) -> bool:
        """Whether it also ends calls inside of it. Work does not: that a store is silent, they notice themselves."""
        return self._kind != "work" or self._is_hastened or (self._outer is not None and self._outer.is_firm)

    def wait(self, seconds: float) -> None:
        """Sleep, but not beyond it."""
        self._clock.sleep(min(seconds, self.left))

    def answered(self) -> None:
        """The store answered: work goes on."""
        if self._kind == "work":
            self.at = max(self.at, self._clock.monotonic() + self._seconds)
        if self._outer is not None:
            self._outer.answered()

    def step(self) -> None:
        """A batch of rows is there, and the next one is wanted. The first belongs to what was before it."""
        self._steps += 1
        if self._kind != "strict" and self._steps > 1:
            self.at = max(self.at, self._clock.monotonic() + self._seconds)
        if self._outer is not None:
            self._outer.step()

    def loosened(self, seconds: float) -> Deadline:
        """As this one, but with every answer of the store `seconds` more; itself if the caller named a time."""
        if self.is_strict:
            return self
        other = Deadline(self._clock, self.left, self.name, "work")
        other._outer, other._seconds = None, seconds
        return other

    @property
    def is_strict(self) -> bool:
        """Whether the caller named a time, of this call or of one around it."""
        return self._kind == "strict" or (self._outer is not None and self._outer.is_strict)

    def become_work(self) -> None:
        """What is to be done takes long: go on while the store answers, unless the caller named a time."""
        if self._kind == "steps":
            self._kind = "work"
        if self._outer is not None:
            self._outer.become_work()

    def hasten(self, seconds: float) -> None:
        """Wait no longer than `seconds` for an answer from now on."""
        self._is_hastened = True
        self._seconds = min(self._seconds, seconds)
        self.at = min(self.at, self._clock.monotonic() + self._seconds)

    def check(self, what: str) -> None:
        """Raise UnavailableError if it is over: nothing more may be begun."""
        if self.rest <= 0:
            raise self.passed(what)

    def passed(self, what: str) -> UnavailableError:
        """The error of a call that did not end in time, and did nothing."""
        return UnavailableError(
            what, reason=f"the time of the call is over ({self.name})", fix="retry, or give it more time"
        )


_current: ContextVar[Deadline | None] = ContextVar("wormdb_deadline", default=None)


current: Callable[[], Deadline | None] = _current.get
"""The deadline of the call that this thread works for; None outside of calls."""


def is_over() -> bool:
    """Whether the call of this thread has ended: every request would be refused, and no pause takes any time."""
    deadline = current()
    return deadline is not None and deadline.rest <= 0


class within:  # noqa: N801 - used as a statement: with within(deadline)
    """What is done inside is done for a call with this deadline. Must not be left open across a `yield`."""

    __slots__ = ("_token", "deadline")

    def __init__(self, deadline: Deadline | None) -> None:
        """None: for no call."""
        self.deadline = deadline
        self._token: Token[Deadline | None] | None = None

    def __enter__(self) -> Deadline | None:
        self._token = _current.set(self.deadline)
        return self.deadline

    def __exit__(self, *_: object) -> None:
        assert self._token is not None
        _current.reset(self._token)


begin = _current.set
"""As entering `within`, for what every call does: it returns what `end` takes."""
end = _current.reset


def beside(clock: Clock, seconds: float) -> within:
    """For work that a call does beside its own, such as bringing the log forward after a commit.

    It has the time of the call, and more while the store answers within `seconds`, unless the caller named a time.
    """
    ambient = current()
    if ambient is None:
        return within(Deadline(clock, seconds, "read_seconds", "work"))
    return within(ambient.loosened(seconds))


def pause(clock: Clock, seconds: float) -> None:
    """Sleep, but not beyond the deadline of the call."""
    deadline = current()
    clock.sleep(seconds if deadline is None else min(seconds, deadline.left))


def stepwise(items: Iterator[T], begin: Callable[[], within]) -> Iterator[T]:
    """The items, each of them fetched within a deadline of its own: the caller may pause in between."""
    while True:
        with begin():
            try:
                item = next(items)
            except StopIteration:
                return
        yield item


# --- A lock for which a call waits no longer than it may take.

LOOK_SECONDS = 1.0
"""How often it is looked whether the deadline of the call was moved."""


MOMENT = 0.001


class Waitable(Protocol):
    """A lock, as far as it is waited for."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take it; whether it could be taken in time."""
        ...


def await_lock(lock: Waitable, what: str) -> None:
    """Take a lock that another thread gives back. Raises UnavailableError when the time of the call is over."""
    while not attempt_lock(lock, what):
        pass


def attempt_lock(lock: Waitable, what: str) -> bool:
    """As `await_lock`, but for LOOK_SECONDS at most; whether it was taken."""
    check_waiting(what)
    deadline = current()
    if deadline is None:
        return lock.acquire(timeout=LOOK_SECONDS)
    if lock.acquire(timeout=max(min(deadline.rest, LOOK_SECONDS), MOMENT)):
        return True
    deadline.check(what)
    return False


_RLock: Any = _thread.RLock  # the stubs do not know all that it has


class TimedLock(_RLock):  # type: ignore[misc]  # of a type that the stubs do not know
    """A lock that may be held while a request is on its way.

    An interrupt may come at any line, also between taking it and knowing so. `with` is safe: it is left by the
    interpreter's own function, in which no signal is handled. A caller of `attempt` notes the `depth` before, and
    goes back to it whatever happens.
    """

    def __new__(cls, what: str, *, is_reentrant: bool = False) -> Self:
        """Free. `what` it guards, for messages. A reentrant one can be taken several times by the same thread."""
        lock: Self = super().__new__(cls)
        lock._what, lock._is_reentrant = what, is_reentrant
        return lock

    _what: str
    _is_reentrant: bool

    @property
    def depth(self) -> int:
        """How often this thread has taken it."""
        count: int = self._recursion_count()
        return count

    def attempt(self) -> bool:
        """Take it if it is free; whether it was."""
        if self.depth and not self._is_reentrant:
            return False
        taken: bool = self.acquire(blocking=False)
        return taken

    def release_to(self, depth: int) -> None:
        """Give it back until this thread has it so often."""
        while self.depth > depth:
            self.release()

    def __enter__(self) -> Self:
        """Take it. Raises UnavailableError when the time of the call is over."""
        depth = self._recursion_count()  # not `depth` and `attempt`: every read comes here several times
        try:
            if (depth and not self._is_reentrant) or not self.acquire(blocking=False):
                assert not depth, f"{self._what}: a thread waits for itself"
                await_lock(self, self._what)
            return self  # noqa: TRY300 - an interrupt here must give it back
        except BaseException:
            self.release_to(depth)
            raise


# --- Locks of a module, which are held for a moment and never while something is asked.


def module_lock() -> threading.Lock:
    """A lock that is free in a forked child, whichever thread of the parent held it. No requests."""
    lock = threading.Lock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lock._at_fork_reinit)  # type: ignore[attr-defined] # noqa: SLF001 - as the standard library does it
    return lock


# --- A call that can be ended from outside, whatever it does.


class CancelScope(Deadline):
    """Around a call, without an end of its own: `cancel` ends the call, and all that it does, as if its time was over.

    A write that is on its way then lands or does not, as after any deadline; nothing else is begun.
    """

    __slots__ = ("_is_cancelled",)

    def __init__(self, clock: Clock) -> None:
        """Not cancelled."""
        super().__init__(clock, math.inf, "cancelled", "work")
        self._is_cancelled = False

    @property
    def is_firm(self) -> bool:
        """Whether it also ends calls inside of it."""
        return self._is_cancelled or (self._outer is not None and self._outer.is_firm)

    def answered(self) -> None:
        """That the store answers moves nothing: there is no end, or it is past."""

    def step(self) -> None:
        """As `answered`."""

    def become_work(self) -> None:
        """As `answered`."""

    def cancel(self) -> None:
        """End the call. From any thread."""
        self._is_cancelled = True
        self.at = -math.inf
