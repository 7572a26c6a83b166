"""What one process knows of one collection, kept as new as it needs to be.

Knowledge expires. A slot that was deleted looks like one that was never written, so a process that slept
must not believe that an empty slot is the end of the log. Two answers of the store at most 60 s
apart (by the store's own time in them) are safe, because entries stay for at least an hour
after they are applied. Otherwise the root is read *after* the slot: `trimmed` only grows, so if it is
still below the slot now, the slot had not been trimmed when we looked.

Requests are made without the lock; what they bring is taken in under it, in whatever order it comes.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from wormdb.engine.definition import Definition
from wormdb.engine.state import EmptyBase, Overlay, View
from wormdb.engine.unique import UniqueKeys
from wormdb.errors import CorruptionError
from wormdb.limits import KNOWLEDGE_MS_MAX
from wormdb.types import LogNumber, Misc

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.engine.log import Log, Record
    from wormdb.engine.misc_clock import MiscClock
    from wormdb.engine.register import Register, RootState
    from wormdb.engine.state import Base
    from wormdb.types import StoreTime

__all__ = ["BEFORE_FIRST", "Head", "is_recent", "sequence_of"]

BEFORE_FIRST = bytes(32)
"""What the first entry carries as the hash of the one before it."""

log = logging.getLogger(__name__)

REOPENS_MAX = 8
SEQUENCE_DIGITS_MAX = 18


def is_recent(before: StoreTime | None, now: StoreTime | None) -> bool:
    """Whether knowledge from `before` may be trusted at `now`; never if a time is missing."""
    return before is not None and now is not None and now - before <= KNOWLEDGE_MS_MAX


def sequence_of(identity: bytes) -> int:
    """The number in an id of digits, given as extended JSON; 0 for any other id."""
    digits = identity[1:-1]
    return int(digits) if identity[:1] == b'"' and digits.isdigit() and len(digits) <= SEQUENCE_DIGITS_MAX else 0


class Head:
    """The newest known state. Thread-safe; whoever needs two facts to fit together holds `lock`."""

    def __init__(self, log: Log, register: Register, misc: MiscClock, load: Callable[[RootState], Base]) -> None:
        """Knows nothing yet; `load` makes the base of a root, without requests until it is used."""
        self.lock = threading.RLock()
        self._log = log
        self._register = register
        self._misc = misc
        self._load = load
        self._openings = 0
        self.forget()

    def forget(self) -> None:
        """Know nothing, as after a start. No requests."""
        with self.lock:
            self.opened = False
            self.caught_up = False
            self.number = LogNumber(0)
            self.hash = BEFORE_FIRST
            self.time: StoreTime | None = None
            """When no root had yet applied an entry after `number`: all of them stay for an hour from then."""
            self.applied = LogNumber(0)
            self._openings += 1
            self._hashes: dict[int, bytes] = {0: BEFORE_FIRST}
            self._sizes: dict[int, int] = {}
            self._base: Base = EmptyBase()
            self._overlay = Overlay()
            self._count = 0
            self._definition = Definition.none()
            self._unique: dict[str, UniqueKeys] = {}
            self._sequence: int | None = None

    def view(self) -> View:
        """The state known now, as a value that does not move. No requests."""
        with self.lock:
            return View(self.number, self._definition, self._base, self.applied, self._overlay, self._count)

    def digest_at(self, number: LogNumber) -> bytes:
        """The hash of the entry at a number that is not below the known root. No requests."""
        with self.lock:
            return self._hashes[number]

    @property
    def tail_bytes(self) -> int:
        """Bytes of the entries that the known root has not applied."""
        with self.lock:
            return sum(self._sizes.values())

    def unique(self, name: str) -> UniqueKeys:
        """Who owns which value of a unique index, at the head; built on first use by one scan. Needs `lock`."""
        keys = self._unique.get(name)
        if keys is None:
            index = next(index for index in self._definition.unique if index.name == name)
            keys = self._unique[name] = UniqueKeys.build(index, (held for _, held in self.view().scan()))
        return keys

    def sequence(self) -> int:
        """The greatest id made of digits, deleted or not; found by one scan on first use. Needs `lock`."""
        if self._sequence is None:
            self._sequence = max((sequence_of(held.id) for _, held in self.view().scan()), default=0)
        return self._sequence

    def refresh(self) -> None:
        """Learn every entry there is now. 1 GET if nothing is new and knowledge is recent.

        A first call also reads the root. Raises CorruptionError if the log does not chain.
        """
        for _ in range(REOPENS_MAX):
            with self.lock:
                opened, opening, number, known = self.opened, self._openings, self.number, self.time
            if not opened:
                state = self._register.read()
                with self.lock:
                    if self._openings == opening:
                        self._open(state)
                continue
            reached = self._follow(number, known)
            with self.lock:
                if reached is not None and self.opened and self.number >= reached:
                    self.caught_up = True
                    return
                if reached is None and self._openings == opening:
                    log.info("%s: what was known at entry %d is too old, opening again", self._log.collection, number)
                    self.forget()
        raise CorruptionError(
            f"the log of {self._log.collection}",
            reason="its tail does not fit its root, however often both are read",
            key=self._log.paths.root,
        )

    def absorb(self, record: Record, created: StoreTime | None = None) -> None:
        """Take in an entry, which may be known already or not yet be in reach. No requests.

        `created` is when it was created, if that is known: nothing after it is older.
        Raises CorruptionError if it contradicts what is known.
        """
        with self.lock:
            if not self.opened or record.number > self.number + 1:
                return
            if record.number <= self.number:
                if self._hashes.get(record.number, record.hash) != record.hash:
                    self._contradiction(record, "another entry was found there before")
                return
            if record.entry.previous != self.hash:
                self._contradiction(record, f"it does not follow entry {self.number} by its hash")
            self._extend(record)
            if created is not None:
                self.time = created if self.time is None else max(self.time, created)

    def rebase(self, state: RootState) -> None:
        """Stand on a newer root, if it has applied no more than the head knows. No requests.

        Views made before keep the old base and overlay, and stay as they are.
        """
        root = state.root
        with self.lock:
            if root is None or not self.applied < root.applied <= self.number:
                return
            self.applied = LogNumber(root.applied)
            self._base = self._load(state)
            self._overlay = self._overlay.since(self.applied)
            self._hashes = {number: digest for number, digest in self._hashes.items() if number >= root.applied}
            self._sizes = {number: size for number, size in self._sizes.items() if number > root.applied}

    def _extend(self, record: Record) -> None:
        entry = record.entry
        definition = self._definition.after(entry.events, record.number)
        if definition is not self._definition:
            self._definition, self._unique = definition, {}
        for keys in self._unique.values():
            keys.apply(entry)
        self._overlay.apply(entry)
        for batch in entry.batches:
            for change in batch.changes:
                self._count += (change.after is not None) - (change.before is not None)
                if self._sequence is not None:
                    self._sequence = max(self._sequence, sequence_of(change.id))
        self._misc.observe(Misc(entry.misc))
        self.number, self.hash = record.number, record.hash
        self._hashes[record.number] = record.hash
        self._sizes[record.number] = record.bytes

    def _follow(self, number: LogNumber, known: StoreTime | None) -> LogNumber | None:
        """Read the tail after `number`, known at `known`; how far it goes, or None if the view was too old."""
        for tail in self._log.rounds(number):
            # Found or not, an answer about a slot that was trimmed means nothing: even an entry
            # there may be a late write of somebody who slept.
            state = None
            if not is_recent(known, tail.last):
                state = self._register.read()
                if not self._is_current(state, LogNumber(number + 1)):
                    return None
            for record in tail.records:
                self.absorb(record)
                number = record.number
            # That an entry was there proves nothing about the next one: it may be old too, and be trimmed in
            # a moment. Only what no root has applied yet stays for an hour.
            if tail.ended:
                known = tail.first
            elif state is not None:
                known = state.time if state.applied <= number else None
        with self.lock:
            if self.number == number and known is not None:
                self.time = known if self.time is None else max(self.time, known)
        return number

    def _is_current(self, state: RootState, slot: LogNumber) -> bool:
        """Whether `slot` had not been trimmed when it was looked at, before this root, and the root is of our log."""
        if state.root is None:
            return True
        with self.lock:
            ours = self._hashes.get(state.root.applied)
        if state.root.trimmed >= slot or (ours is not None and ours != state.root.hash_applied):
            return False
        self.rebase(state)
        return True

    def _open(self, state: RootState) -> None:
        self.forget()
        self.opened = True
        self.time = state.time
        root = state.root
        if root is None:
            return
        self.number = self.applied = LogNumber(root.applied)
        self.hash = root.hash_applied
        self._hashes = {root.applied: root.hash_applied}
        self._base = self._load(state)
        self._count = root.rows
        self._definition = Definition.decode(root.definition, LogNumber(root.applied))
        self._misc.observe(Misc(root.misc))

    def _contradiction(self, record: Record, reason: str) -> None:
        raise CorruptionError(
            f"log entry {record.number} of {self._log.collection}",
            reason=reason,
            key=self._log.paths.entry(record.number),
        )
