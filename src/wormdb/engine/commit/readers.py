"""Concurrent readers of one process share the requests that tell them the newest state.

A probe of the log serves every reader that arrived before it was sent: the slot after all that is known was empty at a
moment after each of them had arrived, so each sees whatever was acknowledged before, without a clock. The first
readers send a probe each, `PROBES_MAX` at most; those that arrive then wait until one of these has come back, and one
of them sends the next probe for all. So a reader alone waits for no other, and a crowd needs few requests.

A probe that finds an entry serves none of its readers: more may be behind it. Its sender asks for twice as many slots,
and takes along those that have arrived meanwhile. A probe that asked for what is known by now has been in vain; its
readers join the one that asks for what comes after, if there is one.

Writers may add entries as fast as probes find them. So wide probes ask for a slot far ahead too. If that is empty, all
that was acknowledged before the probe was sent is below it: each reader that had arrived by then has this bound of its
own, and goes as soon as so much is known, whichever probe it is served by. Readers that come later get a later bound.

A reader is told the error of a probe only if it could have been its own. The sender's deadline and an interrupt of its
thread are not: another reader sends a probe then. Each reader stops waiting at its own deadline, and none waits for
long for a probe that may never come back.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from wormdb.engine.log.entries import Chase
from wormdb.errors import WormError
from wormdb.system.deadline import attempt_lock, current
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.engine.commit.head import Ahead, Head
    from wormdb.engine.state.view import FirstLook, View
    from wormdb.system.clock import Clock
    from wormdb.system.deadline import Deadline

__all__ = ["GroupRead"]

PROBES_MAX = 4
"""Probes of one collection on their way at once. With fewer a reader waits longer for the next to be sent; with more
of them each serves fewer readers."""


LATE_SECONDS = 1.0
"""A probe that takes longer may never come back; others do not wait for it."""


class _Reader:
    """A thread that wants a view; and the probe that it sends, if it sends one."""

    __slots__ = (
        *("asked", "chase", "deadline", "enough", "enough_sent", "error", "is_away", "is_served", "known", "number"),
        *("order", "readers", "sent", "wake"),
    )

    def __init__(self, *, is_away: bool = False) -> None:
        self.is_away = is_away
        """Whether it does something else meanwhile: then it is served, but sends nothing for others."""
        self.is_served = False
        self.error: WormError | None = None
        self.deadline: Deadline | None = None
        self.wake: threading.Lock | None = None
        """Taken; given back when it is served, or has to send the next probe. None if it did not have to wait yet."""
        self.readers: dict[_Reader, None] = {}
        """Those that its probe serves beside itself."""
        self.order = 0
        """Its probe was the one of this order to be sent; 0 if it was not sent yet."""
        self.number = LogNumber(0)
        """Its probe asks for what comes after."""
        self.chase = Chase()
        """The rounds of its probes."""
        self.enough: LogNumber | None = None
        """It has to see no more than this, as a probe told that was sent after it came; None if none did yet."""
        self.enough_sent = 0.0
        """When that probe was sent."""
        self.asked: Ahead | None = None
        self.known: LogNumber | None = None
        """What was known before its first probe; None if nothing was."""
        self.sent = 0.0


class GroupRead:
    """The readers of one collection. Thread-safe; interrupts may come at any line."""

    def __init__(self, head: Head, clock: Clock) -> None:
        """None yet. Times are on the monotonic clock."""
        self.asked_at: float | None = None
        """When the newest probe was sent of those that found the end of the log; None if another has to."""
        self.quiet = LogNumber(0)
        """The number at which the log was last seen to stand still."""
        self._head = head
        self._clock = clock
        self._lock = threading.Lock()
        self._queue: dict[_Reader, None] = {}
        """Those that no probe serves yet, the oldest first."""
        self._senders: dict[_Reader, None] = {}
        """Those whose probe is on its way, or will be at once."""
        self._sent = 0

    def view(
        self,
        first: FirstLook = None,
        *,
        since: float | None = None,
        beside: Callable[[], object] | None = None,
    ) -> View:
        """The state now, or as it was at `since` or later. At most 1 GET if nothing is new; none if others asked.

        `first` is called with what the root has, if that has to be read, while the log is asked. `beside` is called
        while the log is asked, if the answer can be waited for later. Costs and raises as `Head.look` otherwise;
        UnavailableError when the time of the call is over.
        """
        while True:
            self._read(_Reader(is_away=beside is not None), first, since, beside)
            beside = None
            with self._head.lock:
                if self._head.caught_up:  # else another thread has found that the root is gone, and forgot all
                    return self._head.view()

    def told(self, asked_at: float, number: LogNumber, *, is_quiet: bool) -> None:
        """An entry of this process landed at `number`, in a slot that was empty at `asked_at` or later."""
        self.asked_at = asked_at if self.asked_at is None else max(self.asked_at, asked_at)
        if is_quiet:
            self.quiet = max(self.quiet, number)

    def _read(
        self,
        reader: _Reader,
        first: FirstLook,
        since: float | None,
        beside: Callable[[], object] | None,
    ) -> None:
        try:
            self._enter(reader, since)
            if beside is not None:
                self._do_beside(reader, beside)
            while not reader.is_served:
                if reader in self._senders:
                    self._send(reader, first)
                elif not attempt_lock(self._wake_of(reader), f"state of {self._head.collection}"):
                    self._hurry(reader)
        finally:
            # An interrupt may come at any moment, here too; a sender must never leave without a successor.
            try:
                self._leave(reader)
            except BaseException:
                self._leave(reader)
                raise
        if reader.error is not None:
            raise reader.error

    def _enter(self, reader: _Reader, since: float | None) -> None:
        with self._lock:
            if since is not None:
                for sender in self._senders:
                    if sender.order and sender.sent >= since:
                        reader.deadline = current()
                        self._wake_of(reader)
                        sender.readers[reader] = None
                        return
            if len(self._senders) < PROBES_MAX:
                self._senders[reader] = None
            else:
                reader.deadline = current()
                self._wake_of(reader)
                self._queue[reader] = None

    def _wake_of(self, reader: _Reader) -> threading.Lock:
        if reader.wake is None:
            wake = threading.Lock()
            wake.acquire()
            reader.wake = wake
        return reader.wake

    def _hurry(self, reader: _Reader) -> None:
        """One that has waited for long sends a probe, however many are on their way, unless one was sent meanwhile."""
        with self._lock:
            since = self._clock.monotonic() - LATE_SECONDS
            if not any(sender.sent > since for sender in self._senders):
                self._senders[reader] = None
                self._queue.pop(reader, None)

    def _do_beside(self, reader: _Reader, beside: Callable[[], object]) -> None:
        if reader in self._senders:
            self._begin(reader)  # alone: what it does beside may take long
            reader.asked = self._head.ask()
        beside()
        with self._lock:
            reader.is_away = False
            self._choose()

    def _send(self, reader: _Reader, first: FirstLook) -> None:
        """Send one probe, and serve those that arrived before; or serve none if there is more to be asked for."""
        asked, reader.asked = reader.asked, None
        if asked is None:
            self._begin(reader, takes_all=True)
        is_bounded = reader.chase.enough is not None
        try:
            ended = self._head.look(reader.chase.width, first, asked, reader.chase)
        except WormError as error:
            self._fail(reader, error)
            return
        number = self._head.number
        with self._lock:
            if ended:
                reader.is_served = True
                for sender in self._senders:
                    is_covered = bool(reader.readers) if sender is reader else 0 < sender.order < reader.order
                    if is_covered:
                        self._serve(sender)
                self.asked_at = reader.sent if self.asked_at is None else max(self.asked_at, reader.sent)
                if reader.known is None or reader.known == number:
                    self.quiet = number
                return
            if reader.chase.enough is not None and not is_bounded:
                self._bound(reader, reader.chase.enough)
            reader.chase.go_on()
            self._serve_bounded(reader, number)
            if not reader.is_served:
                self._join(reader, number)

    def _join(self, reader: _Reader, number: LogNumber) -> None:
        """Wait for the probe of another reader, if one was sent later and asks for what comes after all that is known.

        Needs the lock.
        """
        for sender in self._senders:
            if sender.order > reader.order and sender.number >= number:
                self._wake_of(reader)
                sender.chase.width = max(sender.chase.width, reader.chase.width)
                sender.readers.update(reader.readers)
                sender.readers[reader] = None
                reader.readers.clear()
                self._senders.pop(reader)
                self._choose()
                return

    def _begin(self, reader: _Reader, *, takes_all: bool = False) -> None:
        """The probe of a reader is sent now; perhaps for all that wait."""
        with self._lock:
            if takes_all and self._queue:
                reader.readers.update(self._queue)
                self._queue.clear()
            if reader.chase.enough is not None and any(each.enough is None for each in reader.readers):
                reader.chase.enough = None  # they may have come after that was found
            self._sent += 1
            number = self._head.number
            if not reader.order and self._head.caught_up:
                reader.known = number
            reader.order, reader.number = self._sent, number
            reader.sent = self._clock.monotonic()

    def _bound(self, reader: _Reader, enough: LogNumber) -> None:
        """The probe of a reader found no entry after `enough`: all that came before it was sent have to see no more."""
        for sender in self._senders:
            if sender is reader or 0 < sender.order < reader.order:
                for each in (*sender.readers, sender):
                    if each.enough is None or enough < each.enough:
                        each.enough, each.enough_sent = enough, reader.sent

    def _serve_bounded(self, reader: _Reader, number: LogNumber) -> None:
        """Let those go, of a reader and the readers of its probe, that have to see no more than is known."""
        for each in (*reader.readers, reader):
            if each.enough is not None and number >= each.enough and not each.is_served:
                each.is_served = True
                self.asked_at = max(self.asked_at or each.enough_sent, each.enough_sent)
                _rouse(each)

    def _serve(self, sender: _Reader, error: WormError | None = None) -> None:
        """Let the readers of a probe go; with an error those that would not have gone on trying."""
        for each in (*sender.readers, sender):
            if not each.is_served and (error is None or each.deadline is None or not each.deadline.is_patient):
                each.error = error
                each.is_served = True
            if each.is_served and each.wake is not None:
                _rouse(each)

    def _fail(self, reader: _Reader, error: WormError) -> None:
        """A probe failed: tell its sender, unless a later probe served it in time, and those that it is true for."""
        deadline = current()
        with self._lock:
            if deadline is None or deadline.left > 0:
                self._serve(reader, error)
            elif reader.is_served:
                reader.error = error  # the call must not go on after its time, whatever others found out
            if not reader.is_served:
                reader.error, reader.is_served = error, True

    def _leave(self, reader: _Reader) -> None:
        """Be gone: what a sender owes its readers another does. All of this can be done again after an interrupt."""
        with self._lock:
            if reader in self._senders:
                if reader.readers:
                    unserved = {each: None for each in reader.readers if not each.is_served}
                    for each in unserved:
                        each.chase.width = max(each.chase.width, reader.chase.width)
                    for each in reader.readers:
                        if each.is_served:
                            _rouse(each)
                    self._queue = {**unserved, **self._queue}
                    reader.readers.clear()
                self._senders.pop(reader)
            self._queue.pop(reader, None)
            for sender in self._senders:
                sender.readers.pop(reader, None)
            if self._queue:
                self._choose()

    def _choose(self) -> None:
        """Have the oldest reader that waits send the next probe, if one more may be on its way. Needs the lock."""
        for each in self._queue:
            if each.is_away:
                continue
            if each in self._senders or len(self._senders) < PROBES_MAX:
                # In this order: an interrupt leaves it in the queue, from which the next try takes it.
                self._senders[each] = None
                _rouse(each)
                self._queue.pop(each)
            return


def _rouse(reader: _Reader) -> None:
    if reader.wake is not None and reader.wake.locked():
        reader.wake.release()
