"""Remove blobs that no document refers to: first an entry of the log condemns them, an hour later they are deleted.

    owned        by a document that is alive (the index of owners tells), or that lies in the trash: it stays
    not owned    for a day after it was written: a writer may be about to refer to it
    condemned    by an entry that is checked against the state it follows: no document owns the blob there, and
                 from there on none can begin to
    deleted      an hour after that entry, however late and however often: nothing is written under that key any more

All times are the store's. While a job is open nothing is condemned: it may hold references that no entry shows yet.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from wormdb.engine.commit.operations import Pending
from wormdb.engine.index.read import read_index
from wormdb.engine.index.shelf import IndexShelf
from wormdb.engine.state.view import View
from wormdb.engine.tree.definition import OWNERS
from wormdb.engine.tree.entries import value_key_of
from wormdb.errors import ConflictError, NotFoundError
from wormdb.format.blob import BlobKey, blob_keys_in
from wormdb.format.event import BlobCondemned
from wormdb.maintenance.gc.report import Victim
from wormdb.settings import BLOB_CONDEMNED_AT_ONCE, BLOB_CONDEMNED_MAX, BLOB_CONDEMNED_MS, BLOB_UNOWNED_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wormdb.engine.index.read import IndexReader
    from wormdb.engine.ledger import Ledger
    from wormdb.format.entry import LoggedBatch
    from wormdb.maintenance.collection import StoredCollection
    from wormdb.maintenance.gc.report import GcReport
    from wormdb.storage.store import ObjectInfo
    from wormdb.system.types import LogNumber, StoreTime

__all__ = ["BlobPlan", "collect_blobs", "condemn", "plan_blobs"]

log = logging.getLogger(__name__)

TRIES_MAX: Final = 4
"""How often blobs are listed again because the collection changed meanwhile."""
_DELETES_AT_ONCE: Final = 1_000
_CONDEMNED: Final = "no document refers to it, and none has been able to for an hour"


class _OwnedMeanwhileError(ConflictError):
    """A document may own one of the blobs by now: look again."""


@dataclass(slots=True)
class BlobPlan:
    """What becomes of the blobs of a collection at one state."""

    view: View
    due: list[Victim] = field(default_factory=list)
    """Condemned long enough ago: they can be deleted whatever happened since."""
    unowned: list[BlobKey] = field(default_factory=list)
    """Those that can be condemned, if no document refers to them until then."""
    waiting: int = 0
    """Those that are condemned and stay for a while."""


def collect_blobs(site: StoredCollection, gathered: GcReport, unowned: frozenset[BlobKey] = frozenset()) -> None:
    """Condemn the blobs that no document owns, and delete those that were condemned an hour ago; report both.

    A dry run only tells what would be deleted now. 3 GETs, and 1 PUT if answers have no time; where there were ever
    blobs, 1 LIST for each 1,000 of them and 1 GET for each node of the index of owners; if some have no owner, what
    reading the trash costs; 1 HEAD for each entry that condemned some; 1 PUT for each 1,000 that are condemned, and
    1 DELETE for each 1,000 that go. Of `unowned`, those of erased documents, no age is asked for: they were referred to
    once. Raises CorruptionError, UnavailableError, OutcomeUnknownError; another run goes on.
    """
    now = _store_time(site, may_write=not gathered.is_dry)
    if now is None:
        return
    ledger = site.ledger()
    for _ in range(TRIES_MAX):
        plan = plan_blobs(site, ledger.view(), now, unowned)
        if plan is None:
            return
        if gathered.is_dry:
            gathered.add(plan.due)
            gathered.waiting += plan.waiting + len(plan.unowned)
            return
        for start in range(0, len(plan.due), _DELETES_AT_ONCE):
            some = plan.due[start : start + _DELETES_AT_ONCE]
            site.store.delete_many([victim.key for victim in some])
            gathered.add(some)
        # No more than a root remembers until they are deleted: the others are for the next run.
        doomed = plan.unowned[: max(BLOB_CONDEMNED_MAX - plan.waiting, 0)]
        try:
            for start in range(0, len(doomed), BLOB_CONDEMNED_AT_ONCE):
                condemn(site, ledger, plan.view, doomed[start : start + BLOB_CONDEMNED_AT_ONCE])
        except _OwnedMeanwhileError as error:
            log.info("%s: blobs are looked at again: %s", site.collection, error.reason)
            continue
        gathered.waiting += plan.waiting + len(plan.unowned)
        return


def _store_time(site: StoredCollection, *, may_write: bool) -> StoreTime | None:
    """The store's time; None if only a write tells, and `may_write` is false. 1 GET; 1 PUT and 1 HEAD without times."""
    known = site.store.probe(site.paths.root).time
    if known is not None or not may_write:
        return known
    site.store.put(site.paths.gc_probe, site.runtime.chance.token(16))
    return site.store.head(site.paths.gc_probe).modified


def plan_blobs(
    site: StoredCollection, view: View, now: StoreTime, unowned: frozenset[BlobKey] = frozenset()
) -> BlobPlan | None:
    """What becomes of the blobs at the state of a view; None if it cannot be told yet, or if there never were any.

    Costs as `collect_blobs` says, but for PUTs and DELETEs. Nothing is written.
    """
    status = view.definition.indexes.owners
    reader = None if status is None else read_index(view, OWNERS, IndexShelf(site.store, site.paths, site.pool))
    if reader is None:
        return None
    plan = BlobPlan(view)
    ages = _Ages(site, view, now)
    owned = _OwnedBlobs(reader)
    candidates: list[BlobKey] = []
    for key, info in _listed(site):
        number = view.definition.blobs.condemned.get(key)
        if number is not None and ages.is_due(number):
            plan.due.append(Victim(info.key, "blob", _CONDEMNED, info.size))
        elif number is not None:
            plan.waiting += 1
        elif not owned.has(key) and (key in unowned or now - info.modified >= BLOB_UNOWNED_MS):
            candidates.append(key)
    if candidates and not _has_open_job(view):
        trashed = {key for _, held in view.scan_trashed() for key in blob_keys_in(held.trash)}
        plan.unowned = [key for key in candidates if key not in trashed]
    return plan


def condemn(site: StoredCollection, ledger: Ledger, seen: View, keys: Sequence[BlobKey]) -> None:
    """Commit that no document may refer to these blobs any more, which none owned at the state `seen`. 1 PUT.

    Raises ConflictError if a document may own one of them by now; nothing is written then.
    """
    guard = _CondemnGuard(seen, frozenset(keys))
    events = tuple(BlobCondemned(sha256=bytes.fromhex(key.sha256), suffix=key.suffix) for key in keys)
    ledger.commit(Pending(site.runtime.batch_id(), events=events, guard=guard))
    log.info("%s: condemned %d blobs that no document refers to", site.collection, len(keys))


@dataclass(frozen=True, slots=True)
class _CondemnGuard:
    """Refuses to condemn blobs to which a document may refer that came after the state `seen`."""

    seen: View
    keys: frozenset[BlobKey]

    def check(self, view: View) -> None:
        # So it is after a job attached something, too: a commit has that brought into the root first.
        if isinstance(view.base, View) or view.base_number > self.seen.number:
            _overtaken("the log was brought forward meanwhile")
        if _has_open_job(view):
            _overtaken("a job is at work")
        for entry in view.overlay.entries(view.number):
            if entry.number > self.seen.number and not self.keys.isdisjoint(_owned_after(entry.batches)):
                _overtaken(f"entry {entry.number} refers to one of them")


def _owned_after(batches: Iterable[LoggedBatch]) -> Iterator[BlobKey]:
    for batch in batches:
        for change in batch.changes:
            yield from blob_keys_in(change.after)
            yield from blob_keys_in(change.trash)


def _has_open_job(view: View) -> bool:
    return any(outcome.state == "open" for outcome in view.jobs.known.values())


def _listed(site: StoredCollection) -> Iterator[tuple[BlobKey, ObjectInfo]]:
    """The blobs that are there, in order of their keys."""
    folder = site.paths.blobs
    for page in site.store.list(folder):
        for info in page.objects:
            key = BlobKey.parse(f"sha256:{info.key.removeprefix(folder)}")
            if key is not None:
                yield key, info


class _OwnedBlobs:
    """The blobs that documents refer to, asked for in order: one pass through the index of owners."""

    def __init__(self, reader: IndexReader) -> None:
        # The key of a text is the text between a tag and an end, so both orders are the same.
        self._entries = (value_key_of(entry)[1:-1] for entry in reader.scan())
        self._next = next(self._entries, None)

    def has(self, key: BlobKey) -> bool:
        """Whether a document refers to it; keys must come in order."""
        text = str(key).encode()
        while self._next is not None and self._next < text:
            self._next = next(self._entries, None)
        return self._next == text


class _Ages:
    """How long ago entries of the log were written, by the store's time."""

    def __init__(self, site: StoredCollection, view: View, now: StoreTime) -> None:
        self._site = site
        self._now = now
        self._trimmed = 0 if view.place is None else view.place.root.trimmed
        self._due: dict[int, bool] = {}

    def is_due(self, number: LogNumber) -> bool:
        """Whether the entry is older than condemned blobs stay. 1 HEAD for each entry."""
        if number <= self._trimmed:
            return True  # entries stay longer than that
        if number not in self._due:
            key = self._site.paths.entry(number)
            try:
                self._due[number] = self._now - self._site.store.head(key).modified >= BLOB_CONDEMNED_MS
            except NotFoundError as error:
                if error.key != key:
                    raise  # the bucket is missing, not this object
                self._due[number] = False  # trimmed since the root was read: the next run knows
        return self._due[number]


def _overtaken(reason: str) -> None:
    raise _OwnedMeanwhileError("blobs without owners", reason=reason, fix="look again")
