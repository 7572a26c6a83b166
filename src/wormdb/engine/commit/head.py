"""What one process knows of one collection, kept as new as it needs to be.

Knowledge expires. A slot that was deleted looks like one that was never written, so a process that slept
must not believe that an empty slot is the end of the log. Two answers of the store at most 60 s
apart (by the store's own time in them) are safe, because entries stay for at least an hour
after they are applied. Otherwise the root is read *after* the slot: `trimmed` only grows, so if it is
still below the slot now, the slot had not been trimmed when we looked.

Requests are made without the lock; what they bring is taken in under it, in whatever order it comes. An interrupt may
come at any line: a change of what is known first says that nothing is (`opened`), and last that it is whole again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

from wormdb.engine.index.unique import UniqueOwners
from wormdb.engine.log.entries import BEFORE_FIRST, Chase
from wormdb.engine.state.definition import Definition
from wormdb.engine.state.jobs import Jobs
from wormdb.engine.state.prepared import after_events, from_root
from wormdb.engine.state.projection import LogStage
from wormdb.engine.state.view import EmptyBase, Overlay, View, sequence_of
from wormdb.errors import CorruptionError
from wormdb.format.event import JobAttached, SchemaChanged
from wormdb.settings import KNOWLEDGE_MS_MAX, ROOT_MS_MAX, TAIL_PROBES_MAX, TRANSACTION_PENDING_BYTES_MAX
from wormdb.system.deadline import TimedLock
from wormdb.system.types import LogNumber, Misc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wormdb.engine.index.shelf import IndexShelf
    from wormdb.engine.log.clock import MiscClock
    from wormdb.engine.log.entries import Log, LogRecord, TailRound
    from wormdb.engine.log.root import Register, RootState
    from wormdb.engine.state.follower import LogFollower
    from wormdb.engine.state.prepared import Prepared
    from wormdb.engine.state.view import Base
    from wormdb.engine.tree.definition import Index
    from wormdb.errors import SnapshotTooOldError
    from wormdb.format.entry import Entry
    from wormdb.format.root import Root
    from wormdb.storage.store import Probe
    from wormdb.system.types import StoreTime

__all__ = ["Ahead", "BaseLoader", "Head", "Point", "is_recent"]

Ahead = tuple[LogNumber, "Iterator[Probe]"]
"""A log number, and the answer about the slot after it."""

log = logging.getLogger(__name__)

REOPENS_MAX = 8


class BaseLoader(Protocol):
    """Makes bases from what a root or an entry names, without requests until they are used."""

    @property
    def trees(self) -> IndexShelf:
        """The trees of the collection's indexes."""
        ...

    def root(self, state: RootState) -> Base:
        """The documents of a root."""
        ...

    def attached(self, event: JobAttached, number: LogNumber) -> Base:
        """The documents of blocks that entry `number` attaches."""
        ...


def is_recent(before: StoreTime | None, now: StoreTime | None) -> bool:
    """Whether knowledge from `before` may be trusted at `now`; never if a time is missing, or if time went back."""
    return before is not None and now is not None and abs(now - before) <= KNOWLEDGE_MS_MAX


@dataclass(frozen=True, slots=True)
class Point:
    """What is known of one number of the log, beside its documents."""

    number: LogNumber
    hash: bytes
    """Of its entry."""
    definition: Definition
    count: int
    """How many documents there are."""
    sequence: int
    """The greatest id made of digits, deleted or not."""
    jobs: Jobs
    pending: tuple[Prepared, ...] = ()
    """Transactions that are prepared and not finished."""
    bytes: int = 0
    """Of its entry; 0 at the root, which has no entry to be read."""


class Head:
    """The newest known state. Thread-safe; a caller that needs two facts of one state holds `lock`."""

    def __init__(
        self,
        log: Log,
        register: Register,
        misc: MiscClock,
        load: BaseLoader,
        on_news: Sequence[Callable[[Entry], object]],
    ) -> None:
        """Knows nothing yet; `load` makes bases, without requests until they are used.

        Each of `on_news` is told each entry as it becomes known, in order; with `lock` held.
        """
        self.lock = TimedLock(f"state of {log.collection}", is_reentrant=True)
        self._log = log
        self._register = register
        self._misc = misc
        self._load = load
        self._openings = 0
        self._highest = LogNumber(0)
        self._on_news = on_news
        self._followers: WeakSet[LogFollower] | None = None
        self.forget()

    def forget(self) -> None:
        """Know nothing, as after a start. No requests."""
        with self.lock:
            self._highest = self.seen if self._openings else LogNumber(0)
            self.opened = False
            self.caught_up = False
            """Whether all is known that was acknowledged when the collection was opened, and more."""
            self._enough: LogNumber | None = None
            """No entry after this one was there at a moment after the collection was opened, if that is known."""
            self.time: StoreTime | None = None
            """When no root had yet applied an entry after `number`: all of them stay for an hour from then."""
            self.applied = LogNumber(0)
            self.revision = 0
            """Of the root that is known; 0 without one."""
            self._rooted: StoreTime | None = None
            """When it was read."""
            self._incarnation: str | None = None
            """Which collection it is the root of."""
            self.others = LogNumber(0)
            """The newest entry that was found and not written by this process, as far as it can tell."""
            self._openings += 1
            start = Point(LogNumber(0), BEFORE_FIRST, Definition.none(), 0, 0, Jobs())
            self._points: dict[LogNumber, Point] = {start.number: start}
            self._last = start
            self._complete: Definition | None = None
            """The last one of which the root that is known has all indexes that are in one."""
            self._known: tuple[Point, View] | None = None
            """The last point of which a view was asked for, and that view: most reads find nothing new."""
            self._base: Base = EmptyBase()
            self._overlay = Overlay()
            self._unique: dict[str, UniqueOwners] = {}
            self._tail_bytes = 0

    @property
    def collection(self) -> str:
        """Its folder, for messages."""
        return self._log.collection

    @property
    def number(self) -> LogNumber:
        """The newest log number that is known."""
        return self._last.number

    @property
    def seen(self) -> LogNumber:
        """The highest log number that was ever known, whatever was forgotten since."""
        return max(self._highest, self._last.number)

    @property
    def hash(self) -> bytes:
        """Of the entry there."""
        return self._last.hash

    @property
    def register(self) -> Register:
        """The root of the collection."""
        return self._register

    def hash_at(self, number: LogNumber) -> bytes | None:
        """Of the entry at a number, if every entry after it is in the tail that is known; None otherwise."""
        with self.lock:
            point = self._points.get(number)
            return None if point is None else point.hash

    def view(self) -> View:
        """The state known now, as a value that does not move. No requests."""
        with self.lock:
            last, known = self._last, self._known
            if known is None or known[0] is not last or known[1].overlay is not self._overlay:
                known = self._known = last, self._view(last)
            return known[1]

    @property
    def tail_bytes(self) -> int:
        """Bytes of the entries that the known root has not applied."""
        with self.lock:
            return self._tail_bytes

    @property
    def has_attached(self) -> bool:
        """Whether the tail attaches blocks that no known root has."""
        with self.lock:
            return bool(self._overlay.attached(self.number))

    @property
    def reach(self) -> LogNumber:
        """Through which number a root may go now: the last at which it need not carry too much that is pending."""
        with self.lock:
            number = self.number
            while number > self.applied and not _is_carried(self._points[number].pending):
                number = LogNumber(number - 1)
            return number

    def stages(self, applied: LogNumber) -> list[LogStage] | None:
        """The way from a root that has applied the log through `applied` to here; None if out of reach. No requests.

        What a job attached is a stage of its own: its blocks hide what came before them, and are hidden by what
        came after. So is a mapping: within a stage all documents are of one version of the model.
        """
        with self.lock:
            reach = self.reach
            if not self.caught_up or self.is_closed or not self.applied <= applied <= self.number:
                return None
            entries = self._overlay.entries(reach)
            alone = [LogNumber(entry.number) for entry in entries if entry.number > applied and _is_alone(entry)]
            cuts = sorted({reach, *alone, *(LogNumber(number - 1) for number in alone)})
            stages, reached = [], applied
            for number in cuts:
                if number > reached:
                    point = self._points[number]
                    own = tuple(entry for entry in entries if reached < entry.number <= number)
                    stages.append(LogStage(self._view(point), point.hash, point.jobs, own))
                    reached = number
            return stages

    def step_back(self, state: RootState) -> None:
        """Forget what is known, because the root is older than the one it stands on: it was set back. 1 GET.

        Raises CorruptionError if the log no longer has what that root lacks: then nothing can be made of it.
        """
        record, _ = self._log.read(LogNumber(state.applied + 1))
        if record is None:
            raise CorruptionError(
                f"the root {self._log.paths.root}",
                reason=f"it is gone or older than entry {self.applied}, and the log does not reach back so far",
                fix="put the newest root back",
                key=self._log.paths.root,
            )
        self.forget()

    def unique(self, index: Index) -> UniqueOwners:
        """The owners of values in a unique index, at the head. Needs `lock`.

        No requests if the root has a tree of it; otherwise one scan on first use.
        """
        owners = self._unique.get(index.name)
        if owners is None:
            owners = self._unique[index.name] = UniqueOwners.of(index, self.view(), self._load.trees)
        return owners

    def sequence(self) -> int:
        """The greatest id made of digits, deleted or not. No requests."""
        return self._last.sequence

    def ask(self) -> Ahead:
        """Ask the log for what comes next in another thread, for a `look` a moment later. 1 GET."""
        number = self.number
        return number, self._log.ask(number)

    def follow(self, number: LogNumber) -> LogFollower:
        """Keep the entries after `number`, for as long as what this returns is held. No requests."""
        from wormdb.engine.state.follower import LogFollower  # only transactions follow

        with self.lock:
            follower = LogFollower(number, is_whole=self.opened and self.applied <= number <= self.number)
            for entry in self._overlay.entries(self.number):
                follower.told(entry)
            if self._followers is None:
                self._followers = WeakSet()
                self._on_news = (*self._on_news, self._tell_followers)
            self._followers.add(follower)
        return follower

    def _tell_followers(self, entry: Entry) -> None:
        for follower in self._followers or ():
            follower.told(entry)

    def refresh(self) -> None:
        """Learn every entry there is now, by looks of 1, 2, 4, … entries. 1 GET if nothing is new. Raises as `look`.

        If others write as fast as it learns, entries that came after the call are left to the next.
        """
        chase = Chase()
        while not self.look(chase.width, chase=chase) and not chase.is_over(self.number):
            chase.go_on()

    def look(
        self,
        width: int = 1,
        first: Callable[[View], object] | None = None,
        asked: Ahead | None = None,
        chase: Chase | None = None,
    ) -> bool:
        """Learn what is there of the next `width` entries; whether that is all there is. `width` GETs at once.

        None if `asked` is the answer about the next one. The root is read too, if nothing is known or knowledge is
        not recent; a first look also calls `first` with what the root has, while the log is asked. A `chase` that
        wants a slot far ahead asked for costs 1 GET more, and is told what is enough.
        Raises CorruptionError if the log does not chain.
        """
        just_opened = False
        for _ in range(REOPENS_MAX):
            with self.lock:
                opened, opening, number, known = self.opened, self._openings, self._last.number, self.time
            if not opened:
                state = self._register.read()
                with self.lock:
                    if self._openings == opening:
                        self._open(state)
                        just_opened = True
                continue
            ahead = asked[1] if asked is not None and asked[0] == number else None
            if just_opened and first is not None:
                ahead = self._log.ask(number)
                first(self.view())
            just_opened, asked = False, None
            mark = chase.mark(number) if chase is not None and chase.distance and ahead is None else None
            tail = self._log.round(number, width if ahead is None else 1, ahead, mark)
            reached = self._follow(number, known, tail)
            with self.lock:
                if reached is not None and self.opened and self._last.number >= reached:
                    if chase is not None and tail.enough is not None:
                        chase.enough = tail.enough
                    if self._openings == opening:  # else it was asked before what is known now was opened
                        self._enough = self._enough or tail.enough
                        is_enough = self._enough is not None and self._last.number >= self._enough
                        self.caught_up |= tail.ended or is_enough
                    return tail.ended
                if reached is None and self._openings == opening:
                    log.info("%s: what was known at entry %d is too old, opening again", self._log.collection, number)
                    self.forget()
        raise CorruptionError(
            f"the log of {self._log.collection}",
            reason="its tail does not fit its root, however often both are read",
            key=self._log.paths.root,
        )

    def absorb(self, record: LogRecord, created: StoreTime | None = None) -> None:
        """Take in an entry, which may be known already or not yet be in reach. No requests.

        `created` is when it was created, if that is known: nothing after it is older.
        Raises CorruptionError if it contradicts what is known.
        """
        with self.lock:
            if not self.opened or record.number > self.number + 1 or (self.is_closed and record.number > self.number):
                return  # behind the end of a removed collection another life begins, with a root of its own
            if record.number <= self.number:
                known = self._points.get(record.number)
                if known is not None and known.hash != record.hash:
                    self._contradiction(record, "another entry was found there before")
                return
            if record.entry.previous != self.hash:
                self._contradiction(record, f"it does not follow entry {self.number} by its hash")
            self._extend(record)
            if created is None:
                self.others = record.number
            else:
                self.time = created if self.time is None else max(self.time, created)

    def rebase(self, state: RootState) -> None:
        """Stand on a newer root, if it has applied no more than the head knows. No requests.

        Views made before keep the old base and overlay, and stay as they are.
        """
        root = state.root
        with self.lock:
            if root is None or not self.applied <= root.applied <= self.number:
                return
            self._rooted = state.time
            if root.applied == self.applied and root.revision <= self.revision:
                return
            whole = self._taken_apart()
            self.revision, self._incarnation = root.revision, root.collection
            self.applied = LogNumber(root.applied)
            self._base = self._load.root(state)
            self._complete = None
            self._overlay = self._overlay.since(self.applied)
            kept = {number: point for number, point in self._points.items() if number >= root.applied}
            kept[self.applied] = replace(kept[self.applied], bytes=0)
            self._unique = {}
            self._points, self._last = kept, kept[self.number]
            self._tail_bytes = sum(point.bytes for point in kept.values())
            self.opened, self.caught_up = whole

    def renew(self, revision: int, error: SnapshotTooOldError) -> None:
        """Know nothing, because an object is gone that the root of a revision names: a newer one does without. 1 GET.

        Raises CorruptionError if that is the newest root: then the object is lost. Raises `error` if no object is.
        """
        if error.key is None:
            raise error
        state = self._register.read()
        newest = 0 if state.root is None else state.root.revision
        if newest == revision:
            raise CorruptionError(
                error.what,
                reason="the newest root needs it, and it is missing",
                fix="run worm verify, and worm verify --repair",
                key=error.key,
            ) from error
        with self.lock:
            if self.revision != newest:
                log.info("%s: %s is gone, the newest root is read", self._log.collection, error.key)
                self.forget()

    @property
    def is_closed(self) -> bool:
        """Whether the collection was removed, as far as is known. No requests."""
        return self._last.definition.closed is not None

    def _view(self, point: Point) -> View:
        if point.definition.closed is not None:
            return View(point.number, point.definition, EmptyBase(), point.number, Overlay(), 0, Jobs())
        return View(
            point.number,
            point.definition,
            self._base,
            self.applied,
            self._overlay,
            point.count,
            point.jobs,
            point.pending,
        )

    def _taken_apart(self) -> tuple[bool, bool]:
        """Believe nothing until `opened` and `caught_up` are again what this returns; an interrupt leaves it so."""
        whole = self.opened, self.caught_up
        self.opened = self.caught_up = False
        return whole

    def _extend(self, record: LogRecord) -> None:
        whole = self._taken_apart()
        entry, last = record.entry, self._last
        definition, jobs, pending = last.definition, last.jobs, last.pending
        if entry.events:
            definition, jobs = definition.after(entry.events, record.number), jobs.after(entry)
            pending = after_events(pending, entry.events, record.number, collection=self.collection)
        if definition is not last.definition and definition.unique != last.definition.unique:
            self._unique = {}
        for keys in self._unique.values():
            keys.apply(entry)
        count, sequence, attached = last.count, last.sequence, None
        for batch in entry.batches:
            for change in batch.changes:
                count += (change.after is not None) - (change.before is not None)
                sequence = max(sequence, sequence_of(change.id))
        if pending is not last.pending:
            sequence = max([sequence, *(one.sequence for one in pending)])
        for event in entry.events:
            if isinstance(event, JobAttached):
                count, sequence = count + event.added, max(sequence, event.sequence)
                attached = self._load.attached(event, record.number)
                self._unique = {}
        self._overlay.apply(entry, attached)
        self._misc.observe(Misc(entry.misc))
        self._last = Point(record.number, record.hash, definition, count, sequence, jobs, pending, record.bytes)
        self._points[record.number] = self._last
        self._tail_bytes += record.bytes
        self.opened, self.caught_up = whole
        for tell in self._on_news:
            tell(entry)

    def _follow(self, number: LogNumber, known: StoreTime | None, tail: TailRound) -> LogNumber | None:
        """Take in what comes after `number`, known at `known`; how far it goes, or None if the view was too old."""
        self._misc.tell(tail.last, is_served=self._log.store.is_served)
        # Found or not, an answer about a slot that was trimmed means nothing: even an entry
        # there may be a late write of a process that slept.
        state = None
        if not is_recent(known, tail.last) or self._is_root_old(tail.last) or self.is_closed:
            state = self._register.read()
            if not self._is_current(state, LogNumber(number + 1)):
                return None
        for record in tail.records:
            if self.is_closed and record.number > self.number:
                return None  # the collection was made anew since
            self.absorb(record)
            number = record.number
        is_known = self._last.definition is self._complete  # as by nearly all looks
        is_last = tail.ended or len(tail.records) >= TAIL_PROBES_MAX  # a read that others outrun never sees the end
        if is_last and not is_known and self._lacks_index() and not self._find_index(number):
            return None
        # That an entry was there proves nothing about the next one: it may be old too, and be trimmed in
        # a moment. Only what no root has applied yet stays for an hour.
        if tail.ended:
            known = tail.first
        elif state is not None:
            known = state.time if state.applied <= number else None
        if state is not None:
            self.rebase(state)  # it may have applied what was not known before
        with self.lock:
            if self._last.number == number and known is not None:
                self.time = known if self.time is None else max(self.time, known)
        return number

    def _lacks_index(self) -> bool:
        """Whether an index is ready that the root known here does not have."""
        with self.lock:
            definition, place = self._last.definition, self._base.place
            if not definition.indexes.are_in(None if place is None else place.root):
                return True
            self._complete = definition
            return False

    def _find_index(self, number: LogNumber) -> bool:
        """Stand on the root with what another process built; whether what is known through `number` is current. 1 GET.

        The builder puts it into a root before the log says that it is ready.
        """
        newest = self._register.read()
        if not self._is_current(newest, LogNumber(number + 1)):
            return False
        if newest.applied <= number:  # otherwise entries that it has applied must be known before
            self._complete = self._last.definition
        return True

    def _is_root_old(self, now: StoreTime | None) -> bool:
        """Whether objects that only older roots name may be removed soon: they stay for an hour."""
        rooted = self._rooted
        return now is not None and rooted is not None and now - rooted > ROOT_MS_MAX

    def _is_current(self, state: RootState, slot: LogNumber) -> bool:
        """Whether `slot` had not been trimmed when it was looked at, before this root, and the root is of our log."""
        if state.root is None:
            return True
        with self.lock:
            ours, incarnation = self._points.get(LogNumber(state.root.applied)), self._incarnation
        if incarnation is not None and state.root.collection != incarnation:
            return False  # it was removed, and made anew
        if self.is_closed and state.root.closed is None and state.root.applied >= slot - 1:
            return False  # the same, where no root was known before
        if state.root.trimmed >= slot or (ours is not None and ours.hash != state.root.hash_applied):
            return False
        self.rebase(state)
        return True

    def _open(self, state: RootState) -> None:
        self.forget()
        self.time = state.time
        self._misc.tell(state.time, is_served=self._log.store.is_served)
        if state.root is not None:
            self._stand_on(state, state.root)
        self.opened = True

    def _stand_on(self, state: RootState, root: Root) -> None:
        self.revision, self._rooted, self._incarnation = root.revision, state.time, root.collection
        self.applied = LogNumber(root.applied)
        self._base = self._load.root(state)
        self._last = Point(
            self.applied,
            root.hash_applied,
            Definition.of_root(root),
            root.rows,
            root.sequence,
            Jobs.of(root.jobs),
            from_root(root.pending),
        )
        self._points = {self.applied: self._last}
        self._misc.observe(Misc(root.misc))

    def _contradiction(self, record: LogRecord, reason: str) -> None:
        raise CorruptionError(
            f"log entry {record.number} of {self._log.collection}",
            reason=reason,
            key=self._log.paths.entry(record.number),
        )


def _is_carried(pending: Sequence[Prepared]) -> bool:
    """Whether a root has room for what is pending."""
    return not pending or sum(one.size for one in pending) <= TRANSACTION_PENDING_BYTES_MAX


def _is_alone(entry: Entry) -> bool:
    """Whether an entry is a stage of its own."""
    return any(
        isinstance(event, JobAttached) or (isinstance(event, SchemaChanged) and event.mapping is not None)
        for event in entry.events
    )
