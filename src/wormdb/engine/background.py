"""One thread that does what need not be waited for."""

from __future__ import annotations

import atexit
import logging
import threading
from typing import TYPE_CHECKING

from wormdb.errors import WormError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Background"]

log = logging.getLogger(__name__)


class Background:
    """Runs work one after the other in a thread of its own; the same work is never waiting twice.

    What fails is logged and forgotten: whoever asked for it asks again, and meanwhile everything is as before.
    """

    def __init__(self) -> None:
        """The thread is started with the first work."""
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
        """Finish what runs, drop what waits."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        try:
            while (taken := self._take()) is not None:
                name, work = taken
                try:
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
            return name, self._waiting.pop(name)
