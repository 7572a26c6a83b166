"""What a node does for one collection: look at its log, bring it forward, keep its trash and its garbage small."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from wormdb.api.trash import scan_trash
from wormdb.engine.forward.rewrite import has_old
from wormdb.engine.history.tombstone import read_tombstone
from wormdb.engine.log.paths import EnginePaths
from wormdb.engine.log.root import Register
from wormdb.engine.state.definition import Definition
from wormdb.errors import UnavailableError
from wormdb.format.wrappers import milliseconds
from wormdb.jobs.node.pace import LEAF_ENTRIES, StoreClock
from wormdb.settings import TRANSACTION_RECORD_MS
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.api.database import Database
    from wormdb.engine.ledger import Ledger
    from wormdb.engine.state.view import View
    from wormdb.settings import Settings

__all__ = ["Caretaker", "ForwardResult", "UpkeepResult"]

_SKEW_MS_MAX = 60_000
"""With a clock further away from the store's than this, nothing is purged: what expires is judged by it."""


@dataclass(frozen=True, slots=True)
class ForwardResult:
    """What became of one collection's log."""

    through: int
    entries: int
    """Entries that were brought forward since the root that this process knew."""
    wrote: bool
    """Whether anything had to be written."""
    files_seconds: float | None
    """How long tables of readable files may wait for more changes; None if no files are kept."""
    changes: int = 0
    """Documents that these entries changed."""
    leaves: float = 0.0
    """Of all indexes, about; 0 where nothing may wait for them: files are kept, or there is more work to do."""
    entry_bytes: float = 1.0
    """Bytes of an entry, about."""
    is_removed: bool = False
    """Whether the last entry removed the collection."""


@dataclass(frozen=True, slots=True)
class UpkeepResult:
    """What was removed from one collection."""

    purged: int
    """Documents whose time in the trash was over."""
    collected: int
    """Objects that nothing needs."""
    expires_ms: float
    """When something in the trash expires next, or a document is over, by the store's time."""
    waiting: int
    """Objects that go when their time is over."""
    renewed: tuple[str, ...] = ()
    """Indexes whose lists were made anew."""


@dataclass(frozen=True, slots=True)
class Caretaker:
    """Looks after the collections of one database."""

    database: Database
    time: StoreClock
    own_puts: Callable[[], int]
    """How many PUTs this process made that are no work of a round."""
    _collected: list[float] = field(default_factory=list)
    """When records of transactions were last collected, by the store's time; at first when this node began."""

    def has_entry(self, prefix: str, number: int) -> bool:
        """Whether the log has an entry of this number now. 1 GET, whatever was known before."""
        key = EnginePaths.of_collection(prefix).entry(LogNumber(number))
        probe = self.database.store.probe(key)
        self.time.observe(probe.time)
        return probe.found is not None

    def settled_at(self, prefix: str) -> int | None:
        """The log number through which a collection is brought forward, if that is all there is to do; else None.

        2 GETs, and nothing of it is kept: for a first look at many.
        """
        paths = EnginePaths.of_collection(prefix)
        state = Register(self.database.store, paths, prefix).read()
        self.time.observe(state.time)
        if state.root is None:
            return None
        definition = Definition.of_root(state.root)
        has_work = definition.unbuilt or definition.keeps_files or (state.root.versions and has_old(state.root))
        has_work = has_work or bool(state.root.pending or definition.expiry) or state.root.closed is not None
        return None if has_work or self.has_entry(prefix, state.applied + 1) else state.applied

    def forward(self, prefix: str) -> ForwardResult:
        """Bring a collection forward: blocks, indexes, history, readable files. Costs as `Collection.forward`.

        The first time 2 GETs more.
        """
        before = self.database.cost().puts - self.own_puts()
        ledger = self._ledger(prefix)
        known = ledger.known()
        through = ledger.forward()
        wrote = self.database.cost().puts - self.own_puts() > before
        after = ledger.known()
        files_seconds = self._settings.files_seconds if after.definition.keeps_files else None
        done = ForwardResult(through, max(through - known.base_number, 0), wrote, files_seconds)
        return _forwarded(known, after, replace(done, is_removed=after.definition.closed is not None))

    def keep_up(self, prefix: str) -> UpkeepResult:
        """Collect garbage, the log past its retention included; remove what is over, and what expired in the trash.

        Lists of indexes are measured if they changed much, and made anew if they are outgrown. As `Database.gc`, 1 GET,
        and what the trash costs to be read; once an hour what `_collect_records` does; 1 GET and what
        `ListRenewal.tend` costs where there is something to do. Raises UnavailableError if the trash cannot be judged,
        because this machine's clock is wrong.
        """
        (collected,) = self.database.gc([prefix.rstrip("/")])
        self._collect_records()
        # By the store's time: a wrong clock, which the trash refuses, is no reason to wait.
        due_ms = self._expire(prefix)
        purged, expires_ms = self._purge(prefix)
        renewed = self._renew(prefix)
        return UpkeepResult(purged, collected.objects, min(expires_ms, due_ms), collected.waiting, renewed)

    def _renew(self, prefix: str) -> tuple[str, ...]:
        """Measure lists and make them anew, where that is due; the names of the indexes that were made anew."""
        ledger = self._ledger(prefix)
        view = ledger.known()
        if view.place is None or view.definition.closed is not None or not view.definition.indexes.lists:
            return ()
        from wormdb.engine.forward.renew import wants_care  # few collections have lists

        if not wants_care(view.place.root, view.place.paths.root):
            return ()
        done: list[str] = []
        ledger.tend_lists(lambda lists: done.extend(lists.tend()))
        return tuple(done)

    def _expire(self, prefix: str) -> float:
        """Remove documents that are over, and bring that forward; when more of them are, by the store's time."""
        ledger = self._ledger(prefix)
        if ledger.known().definition.expiry is None:
            return math.inf
        if ledger.expiry.remove():
            ledger.forward()
        return ledger.expiry.due_ms()

    def _collect_records(self) -> None:
        """Collect records of transactions once an hour. 1 LIST if there are none; else as `collect_records`."""
        now = self.time.now_ms()
        if self._collected and now - self._collected[-1] < TRANSACTION_RECORD_MS:
            return
        if self._collected:
            ledgers = self.database._ledgers  # noqa: SLF001 - this package is a part of the database
            ledgers.collect_records(self.database.collections)
        self._collected[:] = [now]

    def _purge(self, prefix: str) -> tuple[int, float]:
        """How many documents were taken out of the trash, and when the next ones are to be."""
        purged = 0
        expires_ms = self._expires_ms(prefix)
        if expires_ms <= self.time.now_ms():
            if abs(self.time.offset_ms) > _SKEW_MS_MAX:
                raise UnavailableError(
                    f"the trash of {prefix}",
                    reason=f"the clock of this machine is {self.time.offset_ms / 1000:.0f} s off the store's",
                    fix="set the clock; until then nothing is purged",
                )
            purged = len(self.database[prefix.rstrip("/")].purge_expired())
            expires_ms = self._expires_ms(prefix)
        return purged, expires_ms

    def _expires_ms(self, prefix: str) -> float:
        view = self._ledger(prefix).view()
        model = view.definition.model
        if model is None or not model.soft_delete.enabled:
            return math.inf
        moments = (read_tombstone(held).expires_at for held in scan_trash(view))
        return min((milliseconds(moment) for moment in moments if moment is not None), default=math.inf)

    @property
    def _settings(self) -> Settings:
        return self.database._settings  # noqa: SLF001 - this package is a part of the database

    def _ledger(self, prefix: str) -> Ledger:
        return self.database._ledgers.of(prefix)  # noqa: SLF001 - this package is a part of the database


def _forwarded(before: View, after: View, done: ForwardResult) -> ForwardResult:
    """What a round did, with what indexes have to do with it. No requests."""
    if after.place is None or done.files_seconds is not None or after.definition.unbuilt:
        return done
    root = after.place.root
    # A collection that was removed and made anew begins to count again.
    changes = max(root.changes - (0 if before.place is None else before.place.root.changes), 0)
    stored = sum(block.length for block in root.blocks) + sum(page.size for page in root.block_pages)
    return replace(
        done,
        changes=changes,
        leaves=sum(index.entries / LEAF_ENTRIES for index in root.indexes if index.lists is None),
        # A change has a document before and after it.
        entry_bytes=max(2 * stored / max(root.rows, 1) * changes / max(done.entries, 1), 1.0),
    )
