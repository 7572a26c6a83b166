"""Remove what no process needs any more, in an order that no crash, no rival and no clock of ours can turn into a loss.

    retired objects    deleted an hour after a root was seen without them; then their names leave the root
    objects never      chosen by the root, the whole tail and open jobs; then the root is swapped, so that a process
    named              that read an older one cannot publish; then they are deleted
    open jobs          ended by an entry of the log; only then what they wrote is like any other object
    blobs              condemned by an entry of the log, deleted an hour later: see `blobs`
    the log            `trimmed` is raised with the same swap; then entries up to it are deleted

A victim was listed before the swap, and no name is used twice: so however late a deletion comes, it hits nothing else.
All times are the store's.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.engine.history.fold import is_full
from wormdb.engine.state.trim import Trimmer, is_held
from wormdb.engine.tree.definition import OWNERS
from wormdb.errors import ConflictError, CorruptionError, RemovedError, SnapshotTooOldError, UnavailableError
from wormdb.format.event import JobAttached
from wormdb.maintenance.gc.blobs import collect_blobs
from wormdb.maintenance.gc.jobs import OpenJobs, read_after, read_tail
from wormdb.maintenance.gc.report import GcReport, GcResult, Victim, VictimKind
from wormdb.maintenance.gc.retired import NameSet, RetiredObjects, attached_names, read_retired, root_names
from wormdb.maintenance.removal import finish
from wormdb.settings import GC_VICTIMS_MAX, ORPHAN_MS
from wormdb.system.types import LogNumber, Misc, StoreTime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wormdb.engine.log.root import RootState
    from wormdb.format.blob import BlobKey
    from wormdb.format.entry import Entry
    from wormdb.format.root import Root
    from wormdb.maintenance.collection import StoredCollection
    from wormdb.storage.store import ObjectInfo

__all__ = ["RetentionRules", "collect"]

log = logging.getLogger(__name__)

CONFLICTS_MAX: Final = 8
"""How often it begins anew because the root or the log changed meanwhile."""
DELETES_AT_ONCE: Final = 1_000

_RETIRED: Final = "no root has named it for an hour"
_ORPHAN: Final = "nothing has named it since it was written, a day ago or more"
_APPLIED: Final = "it was brought forward longer ago than the log is kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRules:
    """How long entries and open jobs are kept."""

    log_retention_ms: int
    job_expiry_ms: int


def collect(
    site: StoredCollection,
    rules: RetentionRules,
    *,
    dry_run: bool = False,
    told: Callable[[str], None] | None = None,
    unowned: frozenset[BlobKey] = frozenset(),
) -> GcResult:
    """Remove from a collection what is not needed any more, or with `dry_run` only say what that is.

    Blobs that no document refers to stay for a day, but for those of `unowned`.

    2 GETs, and 1 LIST for each 1,000 objects. If objects are older than a day 1 GET for each page of a block list, each
    node above the leaves, each part of a filter and each list of retired objects, and a few for the end of the log. If
    something goes or is to be noted: 1 PUT for the time, 1 for the root, 1 DELETE for each 1,000. For each open job 1
    HEAD. In memory 8 bytes for each object that has a name (40 for a moment), about 250 for each that is retired, and
    up to 50,000 victims.

    Raises CorruptionError, before anything is deleted, if the root or what it names cannot be read to the end;
    UnavailableError if others swapped the root every time; OutcomeUnknownError, after which another run goes on.
    """
    if not dry_run:
        site.runtime.check()
    gathered = GcReport(site.collection, dry_run)
    conflicts, after = 0, ""
    while True:
        state = site.register.read()
        if state.root is None:
            return gathered.collected()
        if state.root.closed is not None and (dry_run or conflicts):
            return gathered.collected()
        if not dry_run and not conflicts and _is_prepared(site, state, state.root):
            conflicts += 1
            continue
        try:
            reached = _CollectionRound(site, rules, state, state.root, gathered, told).run(after)
        except RemovedError:
            break  # before a job could be given up
        except (ConflictError, SnapshotTooOldError) as error:
            conflicts += 1
            _check_again(site, state, error, conflicts)
            continue
        if reached is None:
            break
        after = reached
    if state.root.index(OWNERS.name) is not None:
        # A collection that was removed takes no entries: its blobs go with all the rest.
        with suppress(RemovedError):
            collect_blobs(site, gathered, unowned)
    return gathered.collected()


def _is_prepared(site: StoredCollection, state: RootState, root: Root) -> bool:
    """Do what must come first; whether there was something of it, so that the root is another one."""
    if root.closed is not None:
        finish(site, state)  # a purge that broke off
        return True
    if is_full(root):
        # As older releases left it: to swap it, there must be room.
        site.ledger().forward()
        return True
    return False


def _check_again(
    site: StoredCollection, state: RootState, error: ConflictError | SnapshotTooOldError, conflicts: int
) -> None:
    """Raise unless another round makes sense: UnavailableError, or CorruptionError if an object is missing. 1 GET."""
    if isinstance(error, SnapshotTooOldError) and site.register.read().version == state.version:
        raise CorruptionError(
            error.what, reason="the newest root needs it, and it is missing", fix="run worm verify", key=error.key
        ) from error
    if conflicts >= CONFLICTS_MAX:
        raise UnavailableError(
            f"garbage collection of {site.collection}",
            reason=f"it came too late every time: {error}",
            fix="retry later",
        ) from error
    log.info("%s: garbage is looked for again: %s", site.collection, error)


@dataclass(frozen=True, slots=True)
class _Criteria:
    """What victims are chosen by."""

    now: StoreTime
    tail: Sequence[Entry]
    jobs: OpenJobs
    due: set[str]
    """Keys of objects that were retired long enough ago."""
    kept: set[str]
    """Keys of all that are retired."""
    through: LogNumber
    """Through which entry the log may go."""


@dataclass(slots=True)
class _Listing:
    """What one listing showed."""

    sizes: dict[str, int] = field(default_factory=dict)
    """The sizes of objects that are due, by key."""
    orphans: list[Victim] = field(default_factory=list)
    entries: list[Victim] = field(default_factory=list)
    reached: str | None = None
    """Where it stopped because there were too many; None if it came to the end."""


@dataclass(slots=True)
class _CollectionRound:
    """One root, from its reading to its swap."""

    site: StoredCollection
    rules: RetentionRules
    state: RootState
    root: Root
    gathered: GcReport
    told: Callable[[str], None] | None
    _names: NameSet | None = None
    _spared: tuple[StoreTime | None] | None = None

    def run(self, after: str) -> str | None:
        """Collect what comes after a key; where to go on, None at the end. Raises ConflictError to be run again."""
        site, is_dry = self.site, self.gathered.is_dry
        now = self.state.time
        if now is None:
            if is_dry:
                return None  # a store that shows no time is asked by writing to it
            now = self._probed()
            if self.root.erased_through > self.root.trimmed:
                # Otherwise a log without times is never trimmed. The root was read before that moment, so what it has
                # applied was applied by then.
                self.state = replace(self.state, time=now)
        tail = read_tail(site, self.root)
        jobs = OpenJobs.after(site, self.root, tail)
        stale = jobs.stale(now, self.rules.job_expiry_ms)
        if stale and not is_dry:
            site.runtime.before_first_write()
            expired = jobs.expire(stale)
            self.gathered.expired += expired
            raise ConflictError(
                f"garbage of {site.collection}", reason=f"{len(expired)} jobs were given up: the log is read again"
            )
        self.gathered.expired = stale or self.gathered.expired
        retired = read_retired(site, self.root, now, jobs.read_since())
        known = _Criteria(now, tail, jobs, retired.due(), retired.keys(), self._through(now))
        found = self._survey(after, known)
        due = {key for key in known.due if key not in self._named(tail)} if known.due else set()
        if after or found.reached is not None:
            due &= found.sizes.keys()  # what was not listed may still be there
        self.gathered.waiting = len(known.kept) - len(due)
        gone = [_victim(site, key, _RETIRED, found.sizes[key]) for key in sorted(due) if key in found.sizes]
        if is_dry:
            self.gathered.add([*gone, *found.entries, *found.orphans])
            return found.reached
        # First, and with nothing written before it: on a full disk this makes the room for the rest.
        self._delete(gone)
        self._swap(retired, due, known, has_orphans=bool(found.orphans))
        self._delete(found.entries)
        self._delete(found.orphans)
        return found.reached

    def _through(self, now: StoreTime) -> LogNumber:
        floor = self.site.runtime.trim_floor(self.site.collection)
        return self._trimmer.through(self.root, now, self.rules.log_retention_ms, floor)

    @property
    def _trimmer(self) -> Trimmer:
        runtime = self.site.runtime
        return Trimmer(self.site.log, self.site.register, runtime.misc, runtime.chance)

    def _probed(self) -> StoreTime:
        """The store's time, now that the root has been read. 1 PUT, and 1 HEAD if its answer has no time."""
        store, key = self.site.store, self.site.paths.gc_probe
        self.site.runtime.before_first_write()
        time = store.put(key, self.site.runtime.chance.token(16)).time
        return store.head(key).modified if time is None else time

    # --- looking ---

    def _survey(self, after: str, known: _Criteria) -> _Listing:
        found = _Listing()
        entries, last = self.site.paths.entries, self.site.paths.entry(known.through)
        if is_held(self.root, known.now):
            last = self.site.paths.entry(LogNumber(0))
        for info in self._listed(after, last):
            if info.key.startswith(entries):
                found.entries.append(_victim(self.site, info.key, _APPLIED, info.size))
            elif info.key in known.due:
                found.sizes[info.key] = info.size
            elif self._is_orphan(info, known):
                found.orphans.append(_victim(self.site, info.key, _ORPHAN, info.size))
            if len(found.orphans) + len(found.entries) >= GC_VICTIMS_MAX:
                found.reached = info.key
                break
        return found

    def _is_orphan(self, info: ObjectInfo, known: _Criteria) -> bool:
        paths = self.site.paths
        if info.key.startswith(paths.offers) and info.key < paths.offer(LogNumber(known.through + 1), ""):
            return True  # for a slot that is trimmed; and an offer may go at any time
        if known.now - info.modified < ORPHAN_MS or info.key in known.kept or info.key in self._named(known.tail):
            return False
        if self._spared is None:
            self._spared = (known.jobs.spared_from(),)
            self._check_unattached(known.tail)
        (since,) = self._spared
        # Jobs write no nodes of indexes, and make no offers.
        return since is None or info.modified < since or info.key.startswith((paths.indexes, paths.offers))

    def _check_unattached(self, tail: Sequence[Entry]) -> None:
        """Raise ConflictError if an entry attached something after the tail was read. A GET or a few.

        It may be an adoption, whose record went with that: then neither the tail nor the record spares its blocks.
        """
        later = read_after(self.site, LogNumber(self.root.applied + len(tail)))
        if any(isinstance(event, JobAttached) for entry in later for event in entry.events):
            raise ConflictError(f"garbage of {self.site.collection}", reason="blocks were attached meanwhile")

    def _listed(self, after: str, last: str) -> Iterator[ObjectInfo]:
        """The objects that may go, and entries of the log up to `last`. 1 LIST a page, none for later entries."""
        paths = self.site.paths
        folders = (paths.data, paths.history, paths.indexes, paths.offers)
        beyond = paths.entries.removesuffix("/") + "0"  # the first name that sorts after all entries
        while True:
            for page in self.site.store.list(paths.folder, after=after or None):
                if self.told is not None and page.objects:
                    self.told(page.objects[-1].key)
                for info in page.objects:
                    if info.key.startswith(folders) or (info.key.startswith(paths.entries) and info.key <= last):
                        yield info
                if page.objects and last < page.objects[-1].key < beyond:
                    after = beyond
                    break
            else:
                return

    def _named(self, tail: Sequence[Entry]) -> NameSet:
        if self._names is None:
            place = self.site.place(self.root)
            self._names = NameSet(key for keys in (root_names(place), attached_names(place, tail)) for key in keys)
        return self._names

    # --- acting ---

    def _swap(self, retired: RetiredObjects, gone: set[str], known: _Criteria, *, has_orphans: bool) -> None:
        """Put what is known now into the root. After it no process that read an older one can publish."""
        trimmer, now = self._trimmer, known.now
        raised = trimmer.raised(self.state, known.through)
        at = self._probed() if retired.has_undated(raised) else StoreTime(0)
        following = retired.following(raised, at, gone)
        if not is_held(self.root, now):
            following = msgspec.structs.replace(following, removed_at=None)
        if has_orphans or following != self.root:
            self.site.runtime.before_first_write()
            self.site.runtime.misc.observe(Misc(self.root.misc))
            self.site.register.swap(self.state, trimmer.followed(following))

    def _delete(self, victims: Sequence[Victim]) -> None:
        for start in range(0, len(victims), DELETES_AT_ONCE):
            some = victims[start : start + DELETES_AT_ONCE]
            self.site.store.delete_many([victim.key for victim in some])
            self.gathered.add(some)
        if victims:
            log.info("%s: removed %d objects: %s", self.site.collection, len(victims), victims[0].reason)


def _victim(site: StoredCollection, key: str, reason: str, size: int) -> Victim:
    return Victim(key, _kind(site, key), reason, size)


def _kind(site: StoredCollection, key: str) -> VictimKind:
    paths = site.paths
    if key.startswith(paths.entries):
        return "entry"
    if key.startswith(paths.indexes):
        return "node"
    if key.startswith(paths.offers):
        return "other"
    if not key.endswith((".parquet", ".map")):
        return "list"
    return "history" if key.startswith(paths.history) else "block"
