"""When a collection is brought forward: by the caller, by a thread in the background, or in another process.

Each commit looks whether the tail is long enough. Authority is for efficiency only: any number of processes may
do this at once, and the root's compare-and-set lets one of them win.
"""

from __future__ import annotations

import atexit
import logging
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from wormdb.errors import ClosedError, SnapshotTooOldError, UnavailableError, WormError
from wormdb.settings import (
    CLOSE_SECONDS,
    FILES_INTERVAL_MS,
    FORWARD_INTERVAL_MS,
    NODE_WINDOW_MS,
    READ_SECONDS,
    TAIL_BYTES_MAX,
    TAIL_ENTRIES_MAX,
)
from wormdb.system.clock import SystemClock
from wormdb.system.deadline import Deadline, TimedLock, beside, is_over, pause, within
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.engine.commit.head import Head
    from wormdb.engine.forward.build import Builder
    from wormdb.engine.forward.forward import Forwarder
    from wormdb.engine.forward.renew import ListRenewal
    from wormdb.engine.forward.rewrite import Rewriter
    from wormdb.engine.log.peers import Services
    from wormdb.engine.log.root import Register
    from wormdb.system.clock import Chance, Clock

__all__ = ["DEFAULT_LIMITS", "Advance", "Background", "ForwardMode", "Keeper", "TailLimits"]

log = logging.getLogger(__name__)

ForwardMode = Literal["inline", "background", "manual"]

ATTEMPTS_MAX = 16
"""How often forwarding starts again because another's root came first."""
BESIDE_SECONDS = 1.0
"""A commit that brings the log forward goes on after its deadline while the store answers within this time."""
SWAPS_AT_ONCE = 4
"""Swaps of the root that need not wait for one another after a rest: an index that is built takes two."""
LEFT_SECONDS = 2 * NODE_WINDOW_MS / 1000
"""For how long a tail that should be brought forward is left to services."""


@dataclass(frozen=True, slots=True)
class TailLimits:
    """When the tail is brought forward, and when commits wait for that."""

    entries_max: int = TAIL_ENTRIES_MAX
    bytes_max: int = TAIL_BYTES_MAX
    forward_entries: int = TAIL_ENTRIES_MAX // 10
    forward_bytes: int = TAIL_BYTES_MAX // 4
    interval_ms: float = FORWARD_INTERVAL_MS
    """A process swaps the root once in this time, but for `SWAPS_AT_ONCE` after a rest."""
    files_interval_ms: float = FILES_INTERVAL_MS
    """With readable files, a commit brings the log forward if one before it has waited this long."""
    mode: ForwardMode = "inline"


DEFAULT_LIMITS = TailLimits()


class Advance:
    """Brings the root to the newest entry, in one thread at a time. Thread-safe."""

    def __init__(
        self, head: Head, register: Register, forwarder: Callable[[], Forwarder], *, interval_ms: float, clock: Clock
    ) -> None:
        """Nothing is read or written yet; a swap of the root each `interval_ms` is what it keeps to.

        `forwarder` is made, and imported, when there is something to bring forward.
        """
        self._head = head
        self._register = register
        self._forwarder = forwarder
        self._interval_ms = interval_ms
        self._clock = clock
        self._turn = TimedLock(f"forwarding of {head.collection}")
        self._rests_until = float("-inf")
        """When the swaps so far would have been done, one in each interval."""

    def run(self) -> LogNumber:
        """Bring the whole log into the projections; through which number. Costs as `Keeper.forward`."""
        from wormdb.engine.history.fold import is_full

        with self._turn:
            for _ in range(ATTEMPTS_MAX):
                self._head.refresh()
                if self._head.is_closed:
                    return self._head.number  # what is left of it is removed, not brought forward
                current = self._register.read()
                with self._head.lock:
                    number, stages = self._head.reach, self._head.stages(LogNumber(current.applied))
                if stages is None:
                    # Either entries came between the two answers, or the head is being opened again, or the root is
                    # older than one that was seen before: it was thrown away.
                    if current.applied < self._head.applied:
                        self._look_again()
                    continue
                if not stages:
                    if current.root is not None and is_full(current.root):
                        current = self._forwarder().shrink(current, self._head.view())
                    self._head.rebase(current)
                    return number
                self._await_interval()
                try:
                    state = self._forwarder().run(current, stages)
                except SnapshotTooOldError as error:
                    self._head.renew(0 if current.root is None else current.root.revision, error)
                    continue
                self._rests_until = max(self._rests_until, self._clock.monotonic()) + self._interval_ms / 1000
                self._head.rebase(state)
                if state.applied >= number:
                    return number
        raise UnavailableError(
            f"forwarding of {self._head.collection}", reason="others were faster every time", fix="retry later"
        )

    @property
    def rests(self) -> bool:
        """Whether the root was swapped less than the interval ago, or several times not long before."""
        return self._clock.monotonic() < self._rests_until

    def is_free(self) -> bool:
        """Whether no other thread does it now."""
        depth = self._turn.depth
        try:
            return self._turn.attempt()
        finally:
            self._turn.release_to(depth)

    def _look_again(self) -> None:
        """Make sure that the root is older, and not only the answer."""
        known = self._head.applied
        state = self._register.read()
        if state.applied < known:
            self._head.step_back(state)

    def _await_interval(self) -> None:
        ahead = (SWAPS_AT_ONCE - 1) * self._interval_ms / 1000
        rest = self._rests_until - ahead - self._clock.monotonic()
        if rest > 0:
            pause(self._clock, rest)


class Keeper:
    """Keeps the tail of one collection short. Thread-safe."""

    def __init__(  # noqa: PLR0913 - everything comes in by argument, for tests and simulations
        self,
        head: Head,
        register: Register,
        advance: Advance,
        builder: Callable[[], Builder],
        rewriter: Callable[[], Rewriter],
        *,
        limits: TailLimits,
        clock: Clock,
        chance: Chance,
        publish: Callable[[LogNumber], object] | None = None,
        background: Background | None = None,
        services: Services | None = None,
        unblock: Callable[[], object] = lambda: None,
        expire: Callable[[], int] = lambda: 0,
    ) -> None:
        """Nothing is read or written yet.

        `unblock` finishes transactions before which a root has to stop. `expire` removes documents that are over; how
        many.
        `publish` brings readable files to the state of a root, which has applied the log through a number. Work in the
        background is left to `services` while they live.
        """
        self._head = head
        self._register = register
        self._advance = advance
        self._builder = builder
        self._rewriter = rewriter
        self._publish = publish
        self._background = background
        self._services = services
        self._unblock = unblock
        self._expire = expire
        self._is_expiring = False
        self._limits = limits
        self._clock = clock
        self._chance = chance
        self._building = TimedLock(f"work on {head.collection}")
        self._unpublished_since: float | None = None
        """When this process committed first what it has not brought forward yet; None if there is nothing."""
        self._left_since: float | None = None

    def forward(self) -> LogNumber:
        """Bring the whole log into the projections, build the indexes that wait, write files; through which number.

        Some blocks of older versions of the model are written again, and the others at the next calls.

        2 GETs if nothing is new. Otherwise 1 PUT for the root, 2 for each new block (documents and history), 1 for
        each changed node of an index, and the GETs of what is merged. A
        process that swaps the root often waits until the next second.
        """
        since, self._unpublished_since = self._unpublished_since, None
        try:
            return self._forward()
        except BaseException:
            self._unpublished_since = since
            raise

    def _forward(self) -> LogNumber:
        if (
            self._head.opened
            and not self._head.is_closed
            and not self._is_over(self._limits.entries_max, self._limits.bytes_max)
        ):
            # The root that follows knows of the build then. A full log takes no entry before it.
            self._builder().begin(self._head.view())
        number = self._advance.run()
        if self._head.is_closed:
            return number
        if self._head.view().definition.expiries and self._remove_expired():
            number = self._advance.run()
        if self._wants_work:
            # Not under the lock of `_advance`: a build commits, and a commit may have to wait for that lock.
            self._work()
        if self._publish is not None and self._keeps_files:
            # Nor this: what waits for a root need not wait for files.
            self._publish(LogNumber(self._head.applied))
        return number

    def _remove_expired(self) -> int:
        """How many documents were removed that are over; none if this thread, or another, is at it."""
        if self._is_expiring:
            return 0
        self._is_expiring = True
        try:
            return self._expire()
        finally:
            self._is_expiring = False

    def _work(self) -> None:
        """Build indexes and write blocks again, unless another thread does."""
        depth = self._building.depth
        try:
            if not self._building.attempt():
                return
            if self._wants_build:
                self._builder().run()
            if self._wants_rewrite:
                self._head.rebase(self._rewriter().run())
        finally:
            self._building.release_to(depth)

    def tend(self, work: Callable[[ListRenewal], object]) -> None:
        """Do some work on lists that are ready, when no other thread works; then 1 GET for the root that it left."""
        from wormdb.engine.forward.renew import ListRenewal

        with self._building:
            work(ListRenewal.of(self._builder()))
            self._head.rebase(self._register.read())

    def after_commit(self) -> None:
        """Bring the tail forward if it is long enough, as the mode says."""
        limits = self._limits
        if self._unpublished_since is None:
            self._unpublished_since = self._clock.monotonic()
        if limits.mode == "manual" or self._head.is_closed or not (self._is_due() or self._waits_for_files):
            return
        if limits.mode == "background" and self._background is not None:
            self._background.submit(self._head.collection, self._forward_when_due)
        else:
            # A failure here is not the commit's: that is in the log, and the caller must hear so. The next
            # one tries again, and at the tail's limit `make_room` says why it cannot go on.
            self._try_forward()

    def finish(self) -> None:
        """Write the readable files of what this process committed, before it goes; what fails is left to others."""
        is_asked = self._unpublished_since is not None and self._limits.mode != "manual"
        if is_asked and self._publish is not None and self._keeps_files and not self._has_services:
            failure = self._try_forward()
            if failure is not None:
                log.warning("%s: readable files wait for the next writer: %s", self._head.collection, failure)

    def make_room(self, deadline: float) -> None:
        """Wait until the tail is within its limits: it must be brought forward first.

        Raises UnavailableError at the deadline, on the monotonic clock.
        """
        limits = self._limits
        while self._head.opened and not self._head.is_closed and self._is_over(limits.entries_max, limits.bytes_max):
            if self._head.reach < self._head.number:
                with suppress(WormError):
                    self._unblock()
            failure = self._try_forward()
            if not self._is_over(limits.entries_max, limits.bytes_max):
                return
            if self._clock.monotonic() >= deadline or is_over():
                waiting = self._head.number - self._head.applied
                raise UnavailableError(
                    f"commit to {self._head.collection}",
                    reason=f"{waiting} log entries wait to be brought forward" + (f": {failure}" if failure else ""),
                    fix="retry later",
                ) from failure
            pause(self._clock, self._chance.fraction())

    @property
    def _wants_work(self) -> bool:
        return self._wants_build or self._wants_rewrite

    @property
    def _wants_build(self) -> bool:
        return bool(self._head.view().definition.unbuilt)

    @property
    def _wants_rewrite(self) -> bool:
        """Whether the root that is known has blocks of older versions."""
        place = self._head.view().place
        if place is None or not place.root.versions:
            return False
        from wormdb.engine.forward.rewrite import has_old

        return has_old(place.root)

    @property
    def _keeps_files(self) -> bool:
        return self._head.view().definition.keeps_files

    @property
    def _waits_for_files(self) -> bool:
        """Whether a thread in the background comes back when it is time to write files."""
        is_asked = self._unpublished_since is not None and self._limits.mode == "background"
        return is_asked and self._publish is not None and self._keeps_files

    def _is_due(self) -> bool:
        if self._head.has_attached or self._wants_work:
            return True
        limits = self._limits
        if self._publish is not None and self._keeps_files and self._files_rest <= 0:
            return True
        if self._advance.rests:
            return False
        return self._is_over(limits.forward_entries, limits.forward_bytes)

    @property
    def _files_rest(self) -> float:
        """For how many seconds more what was committed here may wait for its files."""
        since = self._unpublished_since
        interval = self._limits.files_interval_ms / 1000
        return interval if since is None else interval - (self._clock.monotonic() - since)

    def _is_over(self, entries: int, size: int) -> bool:
        with self._head.lock:
            return self._head.number - self._head.applied >= entries or self._head.tail_bytes >= size

    def _forward_when_due(self) -> None:
        if self._waits_for_files:
            self._let_files_wait()
        if self._is_due() and not self._is_left():
            self.forward()

    def _let_files_wait(self) -> None:
        """Let the time pass for which files may wait, in steps: closing a database waits for this thread."""
        ends = self._clock.monotonic() + self._files_rest
        while (rest := ends - self._clock.monotonic()) > 0:
            if self._background is None or self._background.is_closed:
                return
            self._clock.sleep(min(rest, _REST_SECONDS))

    @property
    def _has_services(self) -> bool:
        return self._limits.mode == "background" and self._services is not None and self._services.are_live()

    def _is_left(self) -> bool:
        """Whether services live that look after the tail. If it is due for two windows, it is looked at. 1 GET then."""
        now, since = self._clock.monotonic(), self._left_since
        if not self._has_services:
            self._left_since = None
            return False
        if since is None or now - since < LEFT_SECONDS:
            self._left_since = now if since is None else since
            return True
        self._left_since = None
        self._head.rebase(self._register.read())
        with self._head.lock:
            if self._head.applied >= self._head.number:
                self._unpublished_since = None  # files are written after the root, by the same service
        return not self._is_due()

    def _try_forward(self) -> WormError | None:
        """Forward, unless another thread does; what went wrong, if anything did."""
        if not self._advance.is_free():
            return None
        try:
            with beside(self._clock, BESIDE_SECONDS):
                self.forward()
        except WormError as error:
            return error
        return None


# --- One thread that does what need not be waited for.


_LOOK_SECONDS = 0.5
_REST_SECONDS = 0.05


class Background:
    """Runs work one after the other in a thread of its own; the same work is never waiting twice.

    What fails is logged and forgotten: the caller asks again, and meanwhile everything is as before.
    """

    def __init__(self, clock: Clock | None = None, seconds: float = READ_SECONDS) -> None:
        """The thread is started with the first work, which is given up if the store has not answered for `seconds`."""
        self._clock = clock or SystemClock()
        self._seconds = seconds
        self._deadline: Deadline | None = None
        self._waiting: dict[str, Callable[[], object]] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, name: str, work: Callable[[], object]) -> None:
        """Do `work` soon, unless work of that name waits already; nothing after `close`."""
        with self._changed:
            if self._closed:
                return
            self._waiting.setdefault(name, work)
            if self._thread is None:
                # A daemon: a program that forgot to close its database still ends. But not in the middle of a step:
                # the interpreter may abort when a thread comes back from native code while it is torn down.
                self._thread = threading.Thread(target=self._run, name="wormdb-forward", daemon=True)
                self._thread.start()
                atexit.register(self.close)
            self._changed.notify()

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called, which waits for the work that runs."""
        return self._closed

    def close(self) -> None:
        """Finish what runs, but wait no longer than CLOSE_SECONDS for an answer of the store; drop what waits."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify()
            thread, deadline = self._thread, self._deadline
        if thread is None or thread is threading.current_thread():
            return
        if deadline is not None:
            deadline.hasten(CLOSE_SECONDS)
        while thread.is_alive() and (deadline is None or deadline.rest > 0):
            thread.join(_LOOK_SECONDS)
        thread.join(_LOOK_SECONDS)

    def _run(self) -> None:
        try:
            while (taken := self._take()) is not None:
                name, work = taken
                try:
                    with within(self._deadline):
                        work()
                except ClosedError as error:
                    log.debug("%s: %s", name, error)  # the database is closed, or the program ends: not a failure
                except WormError as error:
                    log.warning("%s: %s", name, error)
        finally:
            # If something else went wrong, it is shown as of any thread, and the next work gets a new one.
            with self._changed:
                self._thread = None
            atexit.unregister(self.close)

    def _take(self) -> tuple[str, Callable[[], object]] | None:
        """The work that waits longest, when there is some; None at the end."""
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            if self._closed:
                return None
            name = next(iter(self._waiting))
            self._deadline = Deadline(self._clock, self._seconds, "read_seconds", "work")
            return name, self._waiting.pop(name)
