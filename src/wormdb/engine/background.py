"""One thread that does what need not be waited for."""

from __future__ import annotations

import atexit
import logging
import threading
from typing import TYPE_CHECKING

from wormdb.errors import WormError
from wormdb.settings import CLOSE_SECONDS, READ_SECONDS
from wormdb.system.clock import SystemClock
from wormdb.system.deadline import Deadline, within

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.system.clock import Clock

__all__ = ["Background"]

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5


class Background:
    """Runs work one after the other in a thread of its own; the same work is never waiting twice.

    What fails is logged and forgotten: whoever asked for it asks again, and meanwhile everything is as before.
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
