"""One collection as one process has it: views of it, commits to it, its change feed.

Everything a ledger needs comes in by argument, so that a simulation runs several of them, with
their own clocks and stores, in one process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wormdb.engine.blocks.runs import AttachedBase, RunBase
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.bulk.report import Tools
from wormdb.engine.bulk.stage import Stager
from wormdb.engine.commit.blobs import Blobs
from wormdb.engine.commit.commit import CommitId, Committed, Committer
from wormdb.engine.commit.head import Head
from wormdb.engine.commit.operations import Pending
from wormdb.engine.commit.pinned import Pinned, pin, unpin
from wormdb.engine.commit.resolve import Resolver
from wormdb.engine.commit.turns import GroupCommit
from wormdb.engine.feed import Feed, FeedParts
from wormdb.engine.forward.build import Builder
from wormdb.engine.forward.forward import DEFAULT_SIZES, Forwarder, Shelves, Sizes
from wormdb.engine.forward.keeper import DEFAULT_LIMITS, Keeper, TailLimits
from wormdb.engine.forward.rewrite import Rewriter
from wormdb.engine.history.read import History
from wormdb.engine.index.read import read_index
from wormdb.engine.index.shelf import IndexShelf
from wormdb.engine.log.entries import Log
from wormdb.engine.log.paths import EnginePaths
from wormdb.engine.log.root import Place, Register
from wormdb.engine.state.trim import Trimmer
from wormdb.engine.state.view import EmptyBase
from wormdb.errors import SnapshotTooOldError, WormError
from wormdb.settings import COMMIT_SECONDS, KNOWLEDGE_MS_MAX, STAGE_BYTES
from wormdb.system.deadline import Deadline, current, within
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wormdb.engine.blocks.cache import ColumnCache
    from wormdb.engine.commit.head import Ahead
    from wormdb.engine.commit.operations import Guard
    from wormdb.engine.commit.resolve import Fate
    from wormdb.engine.forward.keeper import Background
    from wormdb.engine.index.read import IndexReader
    from wormdb.engine.log.clock import MiscClock
    from wormdb.engine.log.peers import Services
    from wormdb.engine.log.root import RootState
    from wormdb.engine.state.view import Base, Held, View
    from wormdb.engine.tree.definition import Index
    from wormdb.format.entry import Entry
    from wormdb.format.event import Event, JobAttached
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store
    from wormdb.system.clock import Chance, Clock

__all__ = ["Ledger", "Surroundings", "TailLimits"]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a ledger lives in."""

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
    """Those to whom forwarding in the background is left while they live."""
    columns: ColumnCache | None = None
    """Of all collections together; without it no column stays decoded."""
    after_forward: Callable[[Ledger, LogNumber], object] | None = None
    """Brings readable files to a root that has applied the log through a number; without it none are written."""
    trim_floor: Callable[[str], LogNumber | None] = lambda _: None
    """Through which number of a collection's log everybody is who reads it, beside the root; None if nobody is."""
    is_distant: bool = False
    """Whether an answer of the store takes so long that two are better asked for at once."""


class Ledger:
    """One collection. Thread-safe."""

    def __init__(self, collection: str, around: Surroundings) -> None:
        """`collection` is its folder, ending with /. Nothing is read yet."""
        self.collection = collection
        self._around = around
        paths = EnginePaths.of_collection(collection)
        self._log = Log(around.store, paths, collection, around.pool)
        self._register = Register(around.store, paths, collection)
        self._trees = IndexShelf(around.store, paths, around.pool)
        self._shelf = Shelf(around.store, around.pool, paths.data, columns=around.columns)
        self._past = Shelf(around.store, around.pool, paths.history)
        self._load = _Loader(around, paths, self._trees, self._shelf)
        self._head = Head(self._log, self._register, around.misc, self._load)
        self._forwarder = Forwarder(
            self._register,
            around.pool,
            around.misc,
            around.chance,
            around.sizes,
            Shelves(self._shelf, self._trees, self._past),
        )
        self._keeper = Keeper(
            self._head,
            self._register,
            self._forwarder,
            limits=around.limits,
            clock=around.clock,
            chance=around.chance,
        )
        self._keeper.background = around.background
        self._keeper.services = around.services
        self._committer = Committer(
            self._log,
            head=self._head,
            register=self._register,
            misc=around.misc,
            clock=around.clock,
            chance=around.chance,
        )
        self._committer.settle_attached = self._keeper.advance
        self._group = GroupCommit(
            self._committer.commit, around.clock, self._committer.fate_of, self._committer.withdraw
        )
        self._keeper.build = Builder(
            self._register,
            self._forwarder.writer,
            around.pool,
            commit=self._commit_events,
            view=self.view,
            forward=self._keeper.advance,
            shelf=self._trees,
        ).run
        writer, target = self._forwarder.writer, around.sizes.block_target
        self._keeper.rewrite = Rewriter(self._register, writer, self._shelf, target).run
        if around.after_forward is not None:
            after_forward = around.after_forward
            self._keeper.publish = lambda number: after_forward(self, number)
        self.blobs = Blobs(collection, around.store, paths, around.pool, self._trees, self.view)
        """Its blobs, and the check that documents refer to no other."""
        self._trimmer = Trimmer(self._log, self._register, around.misc, around.chance)
        self._resolver = Resolver(self._log, self._register, around.misc, around.chance)
        self._refreshed: float | None = None
        self._undisturbed = LogNumber(0)
        """The number at which this process last saw that nobody else writes."""

    def view(self, *, staleness_ms: float = 0, keys: Sequence[bytes] = ()) -> View:
        """The state now, as a value that does not move. 1 GET if nothing is new; the first call 2.

        A first call also reads what look-ups of `keys` will need, beside the second of these.

        With `staleness_ms` the store is not asked if it was within that time. A process's own
        writes are always in it.
        """
        self._around.check()
        if not self._is_recent(staleness_ms) or not self._head.caught_up:
            self._refresh(self._around.clock.monotonic(), keys)
        return self._head.view()

    def _refresh(self, now: float, keys: Sequence[bytes] = (), asked: Ahead | None = None) -> None:
        known = self._head.number if self._head.caught_up else None
        self._head.refresh(keys, asked)
        self._refreshed = now
        if known is None or known == self._head.number:
            self._undisturbed = self._head.number

    def trusted(self) -> View | None:
        """The state that this process knows, if it is likely to be the newest; None if it had better ask. No requests.

        That is, if it is younger than a minute, and nobody else wrote when this process last asked or committed. Likely
        is enough for who commits on top of it: an entry of somebody else is met there.
        """
        self._around.check()
        with self._head.lock:
            is_likely = self._head.caught_up and self._head.others <= self._undisturbed
            return self._head.view() if is_likely and self._is_recent(KNOWLEDGE_MS_MAX) else None

    def get(self, key: bytes, *, staleness_ms: float = 0) -> tuple[View, Held | None]:
        """The state now and what is under an id's key in it. 1 GET for the log, and 1 for the page of a block.

        From a distant store the two are asked for at once: the page may be needed for nothing, if a newer entry
        has the document. The first call costs what `view` with `keys` does before the page.
        """
        self._around.check()
        known = self._head.view()
        is_known = not self._around.is_distant or known.overlay.get(key, known.number) is not None
        is_known = is_known or (isinstance(known.base, RunBase) and known.base.runs.keeps(key))
        if is_known or self._is_recent(staleness_ms) or not self._head.caught_up:
            return self._get(key, staleness_ms)
        now = self._around.clock.monotonic()
        asked = self._head.ask()
        found, is_gone = None, False
        try:
            found = known.base.get(key)
        except SnapshotTooOldError:
            is_gone = True  # its root was replaced long ago; what is read below finds the new one
        self._refresh(now, asked=asked)
        view = self._head.view()
        if is_gone or view.base is not known.base or view.is_ahead or view.overlay.attached(view.number):
            return self._get(key, staleness_ms, view)
        return view, view.overlay.get(key, view.number) or found

    def _get(self, key: bytes, staleness_ms: float, view: View | None = None) -> tuple[View, Held | None]:
        """What is under a key in a view, or in a newer one if objects of its root are gone."""
        while True:
            try:
                view = view or self.view(staleness_ms=staleness_ms, keys=(key,))
                return view, view.get(key)
            except SnapshotTooOldError as error:
                self.renew(view or self._head.view(), error)
                view = None

    def renew(self, view: View, error: SnapshotTooOldError) -> None:
        """Begin with the newest root, because an object of the root below a view is gone. 1 GET.

        Raises CorruptionError if that is the newest root, and `error` if it is not about an object.
        """
        self._head.renew(0 if view.place is None else view.place.root.revision, error)
        self._refreshed = None

    def _is_recent(self, staleness_ms: float) -> bool:
        now = self._around.clock.monotonic()
        return self._refreshed is not None and (now - self._refreshed) * 1000 < staleness_ms

    def forget(self) -> None:
        """Know nothing, as after a start: the next read begins with the newest root. No requests."""
        self._head.forget()
        self._refreshed = None

    def pin(self, view: View) -> Pinned:
        """The state of a view of this collection as a value that can be sent to another process. No requests."""
        return pin(view, self.collection)

    def unpin(self, pinned: Pinned) -> View:
        """The view that was pinned, here or elsewhere, whatever was committed since. Costs as `unpin`."""
        return unpin(pinned, self._load, self._log, self._register)

    def history(self, view: View) -> History:
        """What a view of this ledger knows of the past; what is read of blocks of history is kept. No requests."""
        return History(view, past=self._past, data=self._shelf)

    def index(self, view: View, index: Index) -> IndexReader | None:
        """An index at the state of a view of this ledger; None if it cannot answer. Costs as `read_index`."""
        return read_index(view, index, self._trees)

    def known(self) -> View:
        """The state as far as this process knows it, its own writes included; opens the collection once."""
        self._around.check()
        if not self._head.caught_up:
            return self.view()
        return self._head.view()

    @property
    def lag_bytes(self) -> int:
        """Bytes of the log entries that the known root has not applied. No requests."""
        return self._head.tail_bytes

    def commit(self, pending: Pending, *, seconds: float = COMMIT_SECONDS) -> Committed:
        """Commit one batch, perhaps together with others that wait. 1 PUT without competing writers.

        Raises what the batch was refused for, ConflictError only if somebody changed the same documents,
        UnavailableError if it was not written by the deadline, OutcomeUnknownError if that cannot be told.
        """
        self._around.check()
        deadline = current()
        if deadline is None or not deadline.is_patient:  # else the caller has said how long it tries
            deadline = Deadline(self._around.clock, seconds, "commit_seconds", "steps", is_patient=True)
        with within(deadline):
            self._around.before_first_write()
            pending = self.blobs.guarded(pending)
            if pending.is_plain and pending.bytes_about >= 2 * self._around.stage_bytes:
                deadline.become_work()
                return self._stager(seconds).run(pending)
            return self._commit(pending, self._around.clock.monotonic() + deadline.left)

    def _commit(self, pending: Pending, deadline: float) -> Committed:
        start, others = self._around.clock.monotonic(), self._head.others
        self._keeper.make_room(deadline)
        outcome = self._group.submit(pending, deadline)
        if isinstance(outcome, WormError):
            raise outcome
        # Its slot was empty when it was tried, after the start: no entry before it is missing.
        self._refreshed = start if self._refreshed is None else max(self._refreshed, start)
        if self._head.others in (others, outcome.number):
            self._undisturbed = max(self._undisturbed, outcome.number)
        self._keeper.after_commit()
        return outcome

    def _stager(self, seconds: float) -> Stager:
        around = self._around
        return Stager(
            self.collection,
            self._shelf,
            self._forwarder.writer,
            self._trees,
            around.chance,
            known=self._known_sequence,
            entries=self._entries,
            commit=lambda pending: self.commit(pending, seconds=seconds),
            block_target=around.sizes.block_target,
        )

    def bulk_tools(self) -> Tools:
        """What bulk jobs need of this collection: see `wormdb.engine.load`. No requests."""
        self._around.check()
        around = self._around
        return Tools(
            collection=self.collection,
            shelf=self._shelf,
            writer=self._forwarder.writer,
            trees=self._trees,
            clock=around.clock,
            block_target=around.sizes.block_target,
            known=self._known_sequence,
            view=self.view,
            entries=self._entries,
            attached=self._load.attached,
            commit=self.commit,
            settle=lambda commit_id: self.resolve(commit_id, settle=True),
            pin=self.pin,
            unpin=self.unpin,
            blobs=self.blobs,
        )

    def _entries(self, after: LogNumber, through: LogNumber) -> list[Entry] | None:
        """The log after one number through another; None if it was trimmed. Costs as `Log.between`."""
        found = self._log.between(after, through, self._register)
        return None if found is None else [record.entry for record in found]

    def _known_sequence(self) -> tuple[View, int]:
        self.view()
        return self._committer.settled()

    def _commit_events(self, events: tuple[Event, ...], guard: Guard) -> Committed:
        return self.commit(Pending(self._around.chance.token(16).hex(), events=events, guard=guard))

    def resolve(self, commit_id: str, *, settle: bool = False) -> Fate:
        """What became of a commit whose outcome was unknown. 2 GETs; see `wormdb.engine.commit.resolve`."""
        self._around.check()
        commit = CommitId.parse(commit_id)
        if settle:
            self._around.before_first_write()
        return self._resolver.resolve(commit, settle=settle)

    def feed(self, after: LogNumber, digest: bytes = b"") -> Feed:
        """The log after the entry of a number, whose hash begins with `digest`, entry by entry. No requests yet."""
        past = _FeedPast(self._load, lambda: self.history(self.view()))
        return Feed(self._log, self._register, after, past, digest)

    def feed_parts(self) -> FeedParts:
        """The log by numbers and places, for who shares it among processes. No requests yet."""
        return FeedParts(self._log, self._register, self._shelf, lambda: self.history(self.view()))

    def trim(self, retention_ms: int) -> int:
        """Delete entries that were applied at least `retention_ms` ago, by the store's time; how many.

        2 GETs, 1 LIST, up to 1 PUT and 1 DELETE for each 1,000.
        """
        self._around.check()
        self._around.before_first_write()
        return self._trimmer.run(retention_ms, self._around.trim_floor(self.collection))

    def finish(self) -> None:
        """Write the readable files of what was committed here; for who is about to close. Costs as `forward`."""
        self._keeper.finish()

    def forward(self) -> LogNumber:
        """Bring the whole log into blocks, indexes and history, and build the indexes that wait; through which number.

        See `Keeper.forward` for what it costs.
        """
        self._around.check()
        self._around.before_first_write()
        return self._keeper.forward()


@dataclass(frozen=True, slots=True)
class _FeedPast:
    """What a feed asks for."""

    load: _Loader
    history: Callable[[], History]

    def attached(self, event: JobAttached, number: LogNumber) -> Base:
        return self.load.attached(event, number)

    def version(self, key: bytes, seq: int) -> bytes | None:
        found = self.history().version(key, seq)
        return None if found is None else found.document


@dataclass(frozen=True, slots=True)
class _Loader:
    """Makes the bases of a ledger's views."""

    around: Surroundings
    paths: EnginePaths
    trees: IndexShelf
    shelf: Shelf

    def root(self, state: RootState) -> Base:
        if state.root is None:
            return EmptyBase()
        return RunBase(Place(self.around.store, self.around.pool, self.paths, state.root), self.shelf)

    def attached(self, event: JobAttached, number: LogNumber) -> Base:
        return AttachedBase(self.around.store, self.around.pool, self.paths, event.blocks, number, self.shelf)
