"""One collection as one process has it: views of it, commits to it, its change feed.

Everything a ledger needs comes in by argument, so that a simulation runs several of them, with
their own clocks and stores, in one process.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wormdb.engine.commit import CommitId, Committed, Committer
from wormdb.engine.feed import Feed
from wormdb.engine.forward import DEFAULT_SIZES, Forwarder, Sizes
from wormdb.engine.group import GroupCommit
from wormdb.engine.head import Head
from wormdb.engine.log import Log
from wormdb.engine.paths import EnginePaths
from wormdb.engine.register import Register
from wormdb.engine.resolve import Resolver
from wormdb.engine.runs import RunBase
from wormdb.engine.state import EmptyBase
from wormdb.engine.trim import Trimmer
from wormdb.errors import UnavailableError, WormError
from wormdb.limits import COMMIT_SECONDS, TAIL_BYTES_MAX, TAIL_ENTRIES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.clock import Chance, Clock
    from wormdb.engine.misc_clock import MiscClock
    from wormdb.engine.operations import Pending
    from wormdb.engine.register import RootState
    from wormdb.engine.resolve import Fate
    from wormdb.engine.state import Base, View
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store
    from wormdb.types import LogNumber

__all__ = ["Ledger", "Surroundings", "TailLimits"]


@dataclass(frozen=True, slots=True)
class TailLimits:
    """When the tail is brought into a checkpoint, and when commits wait for that."""

    entries_max: int = TAIL_ENTRIES_MAX
    bytes_max: int = TAIL_BYTES_MAX
    checkpoint_entries: int = TAIL_ENTRIES_MAX // 4
    checkpoint_bytes: int = TAIL_BYTES_MAX // 4


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
    limits: TailLimits = TailLimits()
    sizes: Sizes = DEFAULT_SIZES


class Ledger:
    """One collection. Thread-safe."""

    def __init__(self, collection: str, around: Surroundings) -> None:
        """`collection` is its folder, ending with /. Nothing is read yet."""
        self.collection = collection
        self._around = around
        paths = EnginePaths.of_collection(collection)
        self._log = Log(around.store, paths, collection, around.pool)
        self._register = Register(around.store, paths, collection)
        self._head = Head(self._log, self._register, around.misc, self._load)
        self._committer = Committer(
            self._log,
            head=self._head,
            register=self._register,
            misc=around.misc,
            clock=around.clock,
            chance=around.chance,
        )
        self._group = GroupCommit(self._committer.commit, around.clock, self._committer.commit_id_of)
        self._forwarder = Forwarder(self._register, around.misc, around.chance, around.sizes)
        self._trimmer = Trimmer(self._log, self._register, around.misc, around.chance)
        self._resolver = Resolver(self._log, self._register, around.misc, around.chance)
        self._forwarding = threading.Lock()
        self._refreshed: float | None = None

    def view(self, *, staleness_ms: float = 0) -> View:
        """The state now, as a value that does not move. 1 GET if nothing is new; the first call 2.

        With `staleness_ms` the store is not asked if it was within that time. A process's own
        writes are always in it.
        """
        self._around.check()
        now = self._around.clock.monotonic()
        if self._refreshed is None or (now - self._refreshed) * 1000 >= staleness_ms or not self._head.caught_up:
            self._head.refresh()
            self._refreshed = now
        return self._head.view()

    def known(self) -> View:
        """The state as far as this process knows it, its own writes included; opens the collection once."""
        self._around.check()
        if not self._head.caught_up:
            return self.view()
        return self._head.view()

    def commit(self, pending: Pending, *, seconds: float = COMMIT_SECONDS) -> Committed:
        """Commit one batch, perhaps together with others that wait. 1 PUT when nobody else writes.

        Raises what the batch was refused for, ConflictError only if somebody changed the same documents,
        UnavailableError if it was not written by the deadline, OutcomeUnknownError if that cannot be told.
        """
        self._around.check()
        self._around.before_first_write()
        deadline = self._around.clock.monotonic() + seconds
        self._make_room(deadline)
        outcome = self._group.submit(pending, deadline)
        if isinstance(outcome, WormError):
            raise outcome
        self._checkpoint_if_due()
        return outcome

    def resolve(self, commit_id: str, *, settle: bool = False) -> Fate:
        """What became of a commit whose outcome was unknown. 2 GETs; see `wormdb.engine.resolve`."""
        self._around.check()
        commit = CommitId.parse(commit_id)
        if settle:
            self._around.before_first_write()
        return self._resolver.resolve(commit, settle=settle)

    def feed(self, after: LogNumber) -> Feed:
        """The log after a number, entry by entry. No requests yet."""
        return Feed(self._log, self._register, after)

    def trim(self, retention_ms: int) -> int:
        """Delete entries that were applied at least `retention_ms` ago, by the store's time; how many.

        2 GETs, 1 LIST, up to 1 PUT and 1 DELETE for each 1,000.
        """
        self._around.check()
        self._around.before_first_write()
        return self._trimmer.run(retention_ms)

    def checkpoint(self) -> LogNumber:
        """Bring the whole log into one block and name it in the root; through which number. About 4 requests."""
        self._around.check()
        self._around.before_first_write()
        self.view()
        with self._head.lock:
            view = self._head.view()
            digest = self._head.digest_at(view.number)
        self._head.rebase(self._forwarder.run(view, digest))
        return view.number

    def _checkpoint_if_due(self) -> None:
        limits = self._around.limits
        if self._is_over(limits.checkpoint_entries, limits.checkpoint_bytes):
            # A failure here is not the commit's: that is in the log, and the caller must hear so. The next
            # one tries again, and at the tail's limit `_make_room` says why it cannot go on.
            self._bring_forward()

    def _make_room(self, deadline: float) -> None:
        """Wait until the tail is within its limits: somebody must bring it forward first."""
        limits = self._around.limits
        while self._head.opened and self._is_over(limits.entries_max, limits.bytes_max):
            failure = self._bring_forward()
            if not self._is_over(limits.entries_max, limits.bytes_max):
                return
            if self._around.clock.monotonic() >= deadline:
                waiting = self._head.number - self._head.applied
                raise UnavailableError(
                    f"commit to {self.collection}",
                    reason=f"{waiting} log entries wait to be brought forward" + (f": {failure}" if failure else ""),
                    fix="retry later",
                ) from failure
            self._around.clock.sleep(self._around.chance.fraction())

    def _is_over(self, entries: int, size: int) -> bool:
        with self._head.lock:
            return self._head.number - self._head.applied >= entries or self._head.tail_bytes >= size

    def _bring_forward(self) -> WormError | None:
        """Checkpoint, unless another thread does; what went wrong, if anything did."""
        if not self._forwarding.acquire(blocking=False):
            return None
        try:
            self.checkpoint()
        except WormError as error:
            return error
        finally:
            self._forwarding.release()
        return None

    def _load(self, state: RootState) -> Base:
        if state.root is None or not state.root.blocks:
            return EmptyBase()
        return RunBase(self._around.store, EnginePaths.of_collection(self.collection), state.root.blocks)
