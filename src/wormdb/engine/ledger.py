"""One collection as one process has it: views of it, commits to it, its change feed.

Everything a ledger needs comes in by argument, clocks and stores too, so that a simulation runs several in one process.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from wormdb.engine.blocks.runs import RunBase
from wormdb.engine.blocks.shelf import ColumnCache, Shelf
from wormdb.engine.commit.commit import CommitResult, Committer
from wormdb.engine.commit.head import Head
from wormdb.engine.commit.offers import Offers
from wormdb.engine.commit.operations import CommitId, Guard, LockedError, Pending
from wormdb.engine.commit.readers import GroupRead
from wormdb.engine.commit.turns import GroupCommit, WriterTurns
from wormdb.engine.forward.keeper import DEFAULT_LIMITS, Advance, Background, ForwardMode, Keeper, TailLimits
from wormdb.engine.index.bases import BaseShelf
from wormdb.engine.index.read import IndexReader, read_index
from wormdb.engine.index.shelf import IndexShelf
from wormdb.engine.log.clock import MiscClock
from wormdb.engine.log.entries import Log
from wormdb.engine.log.objects import ObjectWriter
from wormdb.engine.log.paths import EnginePaths
from wormdb.engine.log.peers import Services
from wormdb.engine.log.root import Register
from wormdb.engine.state.prepared import Decisions
from wormdb.engine.state.projection import DEFAULT_SIZES, Sizes
from wormdb.engine.states import LedgerStates
from wormdb.errors import InvalidRequestError, SnapshotTooOldError, WormError
from wormdb.settings import COMMIT_SECONDS, KNOWLEDGE_MS_MAX, STAGE_BYTES
from wormdb.storage.pool import Pool, SerialPool
from wormdb.system.deadline import Deadline, current, within

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wormdb.engine.blocks.write import BlockWriter
    from wormdb.engine.commit.attempt import Outcome
    from wormdb.engine.commit.blobs import Blobs
    from wormdb.engine.commit.resolve import Fate
    from wormdb.engine.expiry import CollectionExpiry
    from wormdb.engine.forward.build import Builder
    from wormdb.engine.forward.forward import Forwarder
    from wormdb.engine.forward.rewrite import Rewriter
    from wormdb.engine.state.follower import LogFollower
    from wormdb.engine.state.view import Base, FirstLook, StoredVersion, View
    from wormdb.engine.transact.arbiter import Arbiter
    from wormdb.engine.transact.coordinator import Coordinator
    from wormdb.engine.transact.records import TransactionRecords
    from wormdb.engine.transact.shown import ShownStates
    from wormdb.engine.tree.definition import Index
    from wormdb.format.columns import ColumnSpec
    from wormdb.format.entry import Entry
    from wormdb.format.event import Event, JobAttached
    from wormdb.storage.store import Store
    from wormdb.system.clock import Chance, Clock
    from wormdb.system.types import LogNumber, StoreTime

__all__ = [
    "Background",
    "ColumnCache",
    "CommitResult",
    "ForwardMode",
    "Ledger",
    "MiscClock",
    "Runtime",
    "Services",
    "Sizes",
    "TailLimits",
]


@dataclass(frozen=True, slots=True)
class Runtime:
    """What all ledgers of a process share, and the way to open one."""

    store: Store
    pool: Pool
    clock: Clock
    chance: Chance
    misc: MiscClock
    before_first_write: Callable[[], None]
    """Asked before this process's first write: raises UnsupportedStoreError."""
    check: Callable[[], None] = lambda: None
    """Asked before a lock is taken: raises ClosedError where its holder may be gone, as in a forked child."""
    limits: TailLimits = DEFAULT_LIMITS
    sizes: Sizes = DEFAULT_SIZES
    stage_bytes: int = STAGE_BYTES
    """From how many bytes on a batch is staged as blocks."""
    background: Background | None = None
    services: Services | None = None
    """Forwarding in the background is left to them while they live."""
    columns: ColumnCache | None = None
    """Of all collections together; without it no column stays decoded."""
    after_forward: Callable[[Ledger, LogNumber], object] | None = None
    """Brings readable files to a root that has applied the log through a number; without it none are written."""
    trim_floor: Callable[[str], LogNumber | None] = lambda _: None
    """The lowest number of a collection's log that all readers beside the root have applied; None if there are none."""
    remove_files: Callable[..., int] = lambda *_: 0
    """Deletes the readable files of a collection, by its folder, definition, and a check before each step; how many."""
    mend_files: Callable[[str], object] = lambda _: None
    """Writes readable files of a collection again that a deletion of older ones, which came late, may have hit."""
    is_distant: bool = False
    """Whether an answer of the store takes so long that two are better asked for at once."""
    decisions: Decisions = field(default_factory=Decisions)
    """Which transactions over several collections are known to have committed, or not."""
    writers: Pool = field(default_factory=SerialPool)
    """Runs commits to several collections; its threads wait for those of `pool`."""

    def open(self, collection: str) -> Ledger:
        """A ledger of its own of a collection, which begins with the newest root. No requests."""
        return Ledger(collection, self)

    def on(self, store: Store) -> Runtime:
        """The same over another store."""
        return replace(self, store=store)

    @property
    def writer(self) -> ObjectWriter:
        """Writes new objects."""
        return ObjectWriter(self.store, self.pool, self.misc, self.chance)

    def batch_id(self) -> str:
        """A new id for a batch."""
        return self.chance.token(16).hex()

    @property
    def records(self) -> TransactionRecords:
        """Whether transactions over several collections committed."""
        from wormdb.engine.transact.records import TransactionRecords

        return TransactionRecords(self.store, self.misc, self.clock, self.chance)

    @property
    def arbiter(self) -> Arbiter:
        """Finds out what became of transactions."""
        from wormdb.engine.transact.arbiter import Arbiter

        return Arbiter(self.records, self.decisions, self.pool, self.clock, self.chance)

    @property
    def coordinator(self) -> Coordinator:
        """Commits transactions over several collections."""
        from wormdb.engine.transact.coordinator import Coordinator

        return Coordinator(self.records, self.decisions, self.writers, self.clock, self.chance)


class Ledger(LedgerStates):
    """One collection. Thread-safe.

    What reads and plain commits do without (forwarding, bulk jobs, blobs, history) is made by the call that needs it,
    and imported then: most processes never wait for it.
    """

    def __init__(self, collection: str, runtime: Runtime) -> None:
        """`collection` is its folder, ending with /. Nothing is read yet."""
        self.collection = collection
        self._runtime = runtime
        store, pool, clock, chance = runtime.store, runtime.pool, runtime.clock, runtime.chance
        paths = EnginePaths.of_collection(collection)
        self._log = Log(store, paths, collection, pool)
        self._register = Register(store, paths, collection)
        self.trees = IndexShelf(store, paths, pool, pages=runtime.columns)
        """The trees of its indexes."""
        self.shelf = Shelf(store, pool, paths.data, columns=runtime.columns)
        """Its blocks of documents."""
        self._past = Shelf(store, pool, paths.history)
        self._writer = runtime.writer
        self._load = BaseShelf(store, pool, paths, self.trees, self.shelf)
        pace, offers = WriterTurns(clock, chance), Offers(self._log)
        self._head = Head(self._log, self._register, runtime.misc, self._load, (pace.told, offers.told))
        self._readers = GroupRead(self._head, clock)
        self._advance = Advance(
            self._head, self._register, self._forwarder, interval_ms=runtime.limits.interval_ms, clock=clock
        )
        self._shown_states: ShownStates | None = None
        self._committer = Committer(
            self._log,
            head=self._head,
            register=self._register,
            misc=runtime.misc,
            clock=clock,
            chance=chance,
            pace=pace,
            offers=offers,
            settle_attached=self._advance.run,
            decided=runtime.decisions,
        )
        self._group = GroupCommit(self._committer.commit, clock, self._committer.fate_of, self._committer.withdraw)
        after = runtime.after_forward
        self._keeper = Keeper(
            self._head,
            self._register,
            self._advance,
            self._builder,
            self._rewriter,
            limits=runtime.limits,
            clock=clock,
            chance=chance,
            publish=None if after is None else partial(after, self),
            background=runtime.background,
            services=runtime.services,
            unblock=self.finish_transactions,
            expire=self._remove_expired,
        )
        self._blobs: Blobs | None = None
        self._expiry: CollectionExpiry | None = None
        self._is_tried = False
        """Whether the store was tried before a write of this ledger."""

    def _forwarder(self) -> Forwarder:
        from wormdb.engine.forward.forward import Forwarder

        return Forwarder(self._register, self._writer, self._runtime.sizes, self.shelf, self.trees, self._past)

    def _builder(self) -> Builder:
        from wormdb.engine.forward.build import Builder

        return Builder(
            self._register,
            self._writer,
            self._runtime.pool,
            commit=self._commit_events,
            view=lambda: self.view().bare,
            forward=self._advance.run,
            shelf=self.trees,
            data=self.shelf,
            sizes=self._runtime.sizes,
        )

    def _rewriter(self) -> Rewriter:
        from wormdb.engine.forward.rewrite import Rewriter

        return Rewriter(self._register, self._writer, self.shelf, self._runtime.sizes.block_target)

    @property
    def _shown(self) -> ShownStates:
        """What is made of states with pending transactions."""
        if self._shown_states is None:
            from wormdb.engine.transact.shown import ShownStates

            self._shown_states = ShownStates(self._head, self._readers, self._runtime.arbiter)
        return self._shown_states

    @property
    def blobs(self) -> Blobs:
        """Its blobs, and the check that documents refer to no other."""
        if self._blobs is None:
            from wormdb.engine.commit.blobs import Blobs

            # Two threads may each make one: what one of them then does not know of, it looks at again.
            store, paths, pool = self._log.store, self._log.paths, self._runtime.pool
            self._blobs = Blobs(self.collection, store, paths, pool, self.trees, self.view)
        return self._blobs

    def view(self, *, staleness_ms: float = 0, at_least: int = 0, first: FirstLook = None) -> View:
        """The state now, as a value that does not move. 1 GET if nothing is new, shared by threads; the first call 2.

        A first call also calls `first` with what the root has, beside the second of these: to read what it needs.

        With `staleness_ms` the store is not asked if it was within that time, and the state that is known is `at_least`
        of a log number. A process's own writes are always in it. Raises InvalidRequestError if the log ends before.
        """
        self._runtime.check()
        asked = 0 if staleness_ms else self._runtime.decisions.count
        view = self._known_within(staleness_ms, at_least) if staleness_ms else None
        if view is None:
            is_asked = staleness_ms or at_least
            view = self._ask(staleness_ms, at_least, first) if is_asked else self._readers.view(first)
        return self._shown.newest(view, asked) if view.pending else view

    @property
    def expiry(self) -> CollectionExpiry:
        """Which of its documents are over; only collections that have an expiry need it."""
        if self._expiry is None:
            from wormdb.engine.expiry import CollectionExpiry

            submit, runtime = self._submit, self._runtime
            self._expiry = CollectionExpiry(self.view, submit, self.batch_id, runtime.misc, runtime.clock)
        return self._expiry

    def store_ms(self) -> int:
        """The store's time now. No requests."""
        return self._runtime.misc.store_ms()

    def _remove_expired(self) -> int:
        return self.expiry.remove()

    def _submit(self, pending: Pending, deadline: float) -> Outcome:
        """Commit a batch however long the tail is; its outcome."""
        self._before_write()
        return self._group.submit(pending, deadline)

    def _ask(
        self, staleness_ms: float, at_least: int, first: FirstLook = None, beside: Callable[[], None] | None = None
    ) -> View:
        # A probe that is on its way may have been sent before entry `at_least` was written.
        since = None if at_least or not staleness_ms else self._runtime.clock.monotonic() - staleness_ms / 1000
        view = self._readers.view(first, since=since, beside=beside)
        if view.number < at_least:
            raise InvalidRequestError(
                f"a state of {self.collection.rstrip('/')} that is at least of log number {at_least}",
                reason=f"its log ends at {view.number}",
                fix="give the number or token of a write to this collection of this database",
            )
        return view

    def _known_within(self, staleness_ms: float, at_least: int = 0) -> View | None:
        """The state that this process knows, if it found the end of the log within a time. No requests."""
        since = self._runtime.clock.monotonic() - staleness_ms / 1000
        with self._head.lock:
            asked_at = self._readers.asked_at
            is_known = asked_at is not None and asked_at > since and self._head.number >= at_least
            return self._head.view() if is_known and self._head.caught_up else None

    @property
    def seen(self) -> LogNumber:
        """The highest log number that this process has read or written. No requests."""
        return self._head.seen

    def follow(self, view: View) -> tuple[LogFollower, int]:
        """What the log says after a state, kept while it is held; and the greatest known id of digits. No requests."""
        return self._head.follow(view.number), self._head.sequence()

    def trusted(self) -> View | None:
        """The state that this process knows, if it is likely to be the newest; None if it had better ask. No requests.

        That is, if it is younger than a minute, and no other writer was seen at the last look or commit. Likely
        is enough for a commit on top of it: an entry of another writer is met there.
        """
        self._runtime.check()
        if self._head.others > self._readers.quiet:
            return None
        view = self._known_within(KNOWLEDGE_MS_MAX)
        if view is None or not view.pending:
            return view
        return self._shown.known(view) if self._shown.is_decided(view) else None

    def get(self, key: bytes, *, staleness_ms: float = 0, at_least: int = 0) -> tuple[View, StoredVersion | None]:
        """The state as `view` gives it, and what is under an id's key in it. 1 GET as there, and 1 for a block's page.

        From a distant store the two are asked for at once: the page may be needed for nothing, if a newer entry
        has the document. The first call reads what its block needs before the page, beside the log.
        """
        self._runtime.check()
        if not self._runtime.is_distant:
            return self._get(key, staleness_ms, at_least)
        known = self._head.view()
        is_known = known.overlay.get(key, known.number) is not None
        is_known = is_known or (isinstance(known.base, RunBase) and known.base.runs.keeps(key))
        is_known = is_known or (staleness_ms > 0 and self._known_within(staleness_ms, at_least) is not None)
        if is_known or not self._head.caught_up:
            return self._get(key, staleness_ms, at_least)
        found, is_gone = None, False

        def look_up() -> None:
            nonlocal found, is_gone
            try:
                found = known.base.get(key)
            except SnapshotTooOldError:
                is_gone = True  # its root was replaced long ago; what is read below finds the new one

        asked = 0 if staleness_ms else self._runtime.decisions.count
        view = self._ask(staleness_ms, at_least, beside=look_up)
        view = self._shown.newest(view, asked) if view.pending else view
        is_other = view.base is not known.base or view.is_ahead or view.pending
        if is_gone or is_other or view.overlay.attached(view.number):
            return self._get(key, view=view)
        return view, view.overlay.get(key, view.number) or found

    def _get(
        self, key: bytes, staleness_ms: float = 0, at_least: int = 0, view: View | None = None
    ) -> tuple[View, StoredVersion | None]:
        """What is under a key in a view, or in a newer one if objects of its root are gone."""
        while True:
            try:
                first: FirstLook = lambda view: view.base.prepare((key,))  # noqa: E731 - no frame for each call
                view = view or self.view(staleness_ms=staleness_ms, at_least=at_least, first=first)
                return view, view.get(key)
            except SnapshotTooOldError as error:
                self.renew(view or self._head.view(), error)
                view = None

    def renew(self, view: View, error: SnapshotTooOldError) -> None:
        """Begin with the newest root, because an object of the root below a view is gone. 1 GET.

        Raises CorruptionError if that is the newest root, and `error` if it is not about an object.
        """
        self._head.renew(0 if view.place is None else view.place.root.revision, error)
        self._readers.asked_at = None

    def forget(self) -> None:
        """Know nothing, as after a start: the next read begins with the newest root. No requests."""
        self._head.forget()
        self._readers.asked_at = None

    def index(self, view: View, index: Index) -> IndexReader | None:
        """An index at the state of a view of this ledger; None if it cannot answer. Costs as `read_index`."""
        return read_index(view, index, self.trees)

    def known(self) -> View:
        """The state as far as this process knows it, its own writes included; opens the collection once."""
        self._runtime.check()
        if not self._head.caught_up:
            return self.view()
        view = self._head.view()
        return self._shown.known(view) if view.pending else view

    @property
    def time(self) -> StoreTime | None:
        """The store's time as this process last heard it of this collection; None if it shows none. No requests."""
        return self._head.time

    @property
    def is_distant(self) -> bool:
        """Whether its store is reached over a network. No requests."""
        return self._runtime.is_distant

    @property
    def lag_bytes(self) -> int:
        """Bytes of the log entries that the known root has not applied. No requests."""
        return self._head.tail_bytes

    def commit(self, pending: Pending, *, seconds: float = COMMIT_SECONDS) -> CommitResult:
        """Commit one batch, perhaps together with others that wait. 1 PUT without competing writers.

        Raises what the batch was refused for, ConflictError only if another writer changed the same documents,
        UnavailableError if it was not written by the deadline, OutcomeUnknownError if that cannot be told.
        """
        self._runtime.check()
        deadline = current()
        if deadline is None or not deadline.is_patient:  # else the caller has said how long it tries
            deadline = Deadline(self._runtime.clock, seconds, "commit_seconds", "steps", is_patient=True)
        with within(deadline):
            self._before_write()
            if pending.may_refer_to_blobs:
                pending = self.blobs.guarded(pending)
            if pending.is_plain and pending.bytes_about >= 2 * self._runtime.stage_bytes:
                if self._head.view().definition.expiries:
                    self.expiry.remove()  # tasks take what is stored for what is there
                from wormdb.engine.bulk.stage import Stager

                deadline.become_work()
                return Stager(self, partial(self.commit, seconds=seconds)).run(pending)
            return self._commit(pending, self._runtime.clock.monotonic() + deadline.left)

    def prepare(self, pending: Pending, *, seconds: float = COMMIT_SECONDS) -> CommitResult:
        """Have a batch of a transaction hold what it reads and writes, until that is finished. Costs as `commit`.

        Raises as `commit`; TransactionConflictError if an older transaction that is not decided is in its way.
        """
        assert pending.prepare is not None
        self._runtime.check()
        with within(Deadline(self._runtime.clock, seconds, "commit_seconds", "steps", is_patient=True)) as deadline:
            assert deadline is not None
            self._before_write()
            if pending.may_refer_to_blobs:
                pending = self.blobs.guarded(pending)
            return self._commit(pending, self._runtime.clock.monotonic() + deadline.left)

    def finish_transactions(self, before: str = "") -> int:
        """Finish the pending transactions that are decided, and abort the abandoned; how many are left.

        With `before` those with lower ids are taken for abandoned, and only they count. As `Arbiter.judge` for those
        that this process knows of, and 1 PUT if some can be finished, however long the tail is.
        """
        self._before_write()
        if self._runtime.arbiter.judge(self._head.view().pending, before=before):
            seconds = min(COMMIT_SECONDS, call.left if (call := current()) is not None else COMMIT_SECONDS)
            self._submit(Pending(self.batch_id()), self._runtime.clock.monotonic() + seconds)
        return sum(not before or one.id < before for one in self._head.view().pending)

    def _before_write(self) -> None:
        """Have the store tried before the first write; raises UnsupportedStoreError."""
        if not self._is_tried:
            self._runtime.before_first_write()
            self._is_tried = True

    def _commit(self, pending: Pending, deadline: float) -> CommitResult:
        start, others = self._runtime.clock.monotonic(), self._head.others
        self._keeper.make_room(deadline)
        outcome = self._group.submit(pending, deadline)
        while isinstance(outcome, LockedError):
            # Not as a member of a group: other batches do not wait for it.
            self._shown.await_free(pending, outcome, deadline)
            outcome = self._group.submit(pending, deadline)
        if isinstance(outcome, WormError):
            raise outcome
        # Its slot was empty when it was tried, after the start: no entry before it is missing.
        self._readers.told(start, outcome.number, is_quiet=self._head.others in (others, outcome.number))
        self._keeper.after_commit()
        return outcome

    # --- what jobs need, as `wormdb.engine.bulk.report.JobLedger` ---

    @property
    def clock(self) -> Clock:
        """The time of this process."""
        return self._runtime.clock

    @property
    def writer(self) -> ObjectWriter:
        """Writes new objects. Raises ClosedError."""
        self._runtime.check()
        return self._writer

    @property
    def block_target(self) -> int:
        """About how many bytes a block has."""
        return self._runtime.sizes.block_target

    def block_writer(self, columns: Sequence[ColumnSpec]) -> BlockWriter:
        """Writes blocks of documents that have these columns. Raises ClosedError."""
        from wormdb.engine.blocks.write import BlockWriter

        return BlockWriter(self.shelf, self.writer, self.block_target, columns)

    def entries(self, after: LogNumber, through: LogNumber) -> list[Entry] | None:
        """The log after one number through another; None if it was trimmed. Costs as `Log.between`."""
        found = self._log.between(after, through, self._register)
        return None if found is None else [record.entry for record in found]

    def attached(self, event: JobAttached, number: LogNumber) -> Base:
        """The documents of blocks that entry `number` attaches. No requests."""
        return self._load.attached(event, number)

    def settled(self) -> tuple[View, int]:
        """The newest state, with all that was attached in its root, and the greatest id made of digits in it.

        Costs as `view`, and as `forward` if a job attached something since the root.
        """
        self.view()
        return self._committer.settled()

    def batch_id(self) -> str:
        """A new id for a batch."""
        return self._runtime.batch_id()

    def settle(self, commit_id: str) -> Fate:
        """What became of a commit, after which it can no longer land. Costs as `resolve`."""
        return self.resolve(commit_id, settle=True)

    def _commit_events(self, events: tuple[Event, ...], guard: Guard) -> CommitResult:
        return self.commit(Pending(self.batch_id(), events=events, guard=guard))

    def resolve(self, commit_id: str, *, settle: bool = False) -> Fate:
        """What became of a commit whose outcome was unknown. 2 GETs; see `wormdb.engine.commit.resolve`."""
        from wormdb.engine.commit.resolve import Resolver

        self._runtime.check()
        commit = CommitId.parse(commit_id)
        if settle:
            self._before_write()
        resolver = Resolver(self._log, self._register, self._runtime.misc, self._runtime.chance)
        return resolver.resolve(commit, settle=settle)

    def trim(self, retention_ms: int) -> int:
        """Delete entries that were applied at least `retention_ms` ago, by the store's time; how many.

        2 GETs, 1 LIST, up to 1 PUT and 1 DELETE for each 1,000.
        """
        from wormdb.engine.state.trim import Trimmer

        self._runtime.check()
        self._before_write()
        trimmer = Trimmer(self._log, self._register, self._runtime.misc, self._runtime.chance)
        return trimmer.run(retention_ms, self._runtime.trim_floor(self.collection))

    def finish(self) -> None:
        """Write the readable files of what was committed here; before this process closes. Costs as `forward`.

        1 PUT more if transactions are pending that are known to be decided: then others need not look at their records.
        """
        if any(self._runtime.decisions(one.id) is not None for one in self._head.view().pending):
            with suppress(WormError):  # others finish them
                self.finish_transactions()
        self._keeper.finish()

    def forward(self) -> LogNumber:
        """Bring the whole log into blocks, indexes and history, and build the indexes that wait; through which number.

        See `Keeper.forward` for what it costs. Pending transactions are finished, as `finish_transactions` says.
        """
        self._runtime.check()
        self._before_write()
        number = self._keeper.forward()
        pending = self._head.view().pending
        is_rest = bool(pending) and self.finish_transactions() < len(pending)
        return self._keeper.forward() if is_rest else number

    def tend_lists(self, work: Callable[..., object]) -> None:
        """Do some work by a `ListRenewal`, when no other thread of this process does. 1 GET beside it."""
        self._before_write()
        self._keeper.tend(work)
