"""Remove a collection: first by an entry of the log, then all of its objects but the root.

    remove    one entry, like any other: behind it the collection has no documents, and every commit is refused, in
              every process that reads the log
    purge     the root is swapped for one that says so and names nothing; everything is deleted; the root is swapped
              for one that begins a new life of the name, with the numbers that follow

A purge may stop anywhere, and any process goes on with it. Whatever is deleted was listed before the root was seen
closed once more, so it is of the life that ended; and no name of it is used again, so a deletion may come late. Only
readable files have fixed names: a purge that learns at its end that another one was faster has those of the new life
written again. A root
stays for ever: without it a process that slept would take the slots of the old log for free ones.

The last entries stay for a while though the root calls them trimmed: a process that knew the log a moment ago may ask
for the next one, and an empty slot would be the end of the log to it (`wormdb.engine.state.trim.is_held`).
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from wormdb.engine.commit.operations import Pending
from wormdb.engine.log.paths import EnginePaths
from wormdb.engine.log.peers import Peers
from wormdb.engine.log.root import Register
from wormdb.engine.state.definition import Definition
from wormdb.engine.state.moments import following_dates
from wormdb.engine.state.trim import with_mark
from wormdb.errors import (
    BarrierError,
    ConflictError,
    CorruptionError,
    InvalidRequestError,
    NotFoundError,
    RemovedError,
    WormError,
)
from wormdb.format.event import CollectionClosed, Nothing
from wormdb.format.root import Root
from wormdb.settings import KNOWLEDGE_MS_MAX, REMOVED_MS
from wormdb.system.clock import new_write_id
from wormdb.system.deadline import pause
from wormdb.system.types import LogNumber, Misc, StoreTime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.engine.ledger import Ledger
    from wormdb.engine.log.root import RootState
    from wormdb.engine.state.view import View
    from wormdb.maintenance.collection import StoredCollection
    from wormdb.storage.store import ObjectInfo, Store
    from wormdb.system.clock import Clock

__all__ = [
    "DropResult",
    "check_barrier",
    "finish",
    "is_absent",
    "is_gone",
    "purge",
    "remove",
    "settle",
    "store_time",
    "survey",
]

log = logging.getLogger(__name__)

REASON = "drop"
"""What the entry says: no other collection follows."""


@dataclass(frozen=True, slots=True)
class DropResult:
    """What dropping a collection did, or would do."""

    collection: str
    """Its folder, ending with /."""
    number: int
    """The entry that removed it; 0 if there is none yet."""
    documents: int = 0
    """How many it had; 0 if it was removed before."""
    objects: int = 0
    """Objects of the engine that were deleted."""
    bytes: int = 0
    """Of these."""
    files: int = 0
    """Readable files that were deleted."""
    waiting: int = 0
    """Last entries of its log that stay for 90 seconds: garbage collection deletes them then."""


# --- the entry ---


def is_absent(view: View) -> bool:
    """Whether there is no collection at this state: it was never written to, or not since it was removed."""
    root = None if view.place is None else view.place.root
    return view.number == 0 or (root is not None and root.removed == view.number)


@dataclass(frozen=True, slots=True)
class _PresenceGuard:
    """Refuses to remove what is not there."""

    collection: str

    def check(self, view: View) -> None:
        if is_absent(view):
            raise NotFoundError(
                f"collection {self.collection.rstrip('/')}",
                reason="there is none of this name",
                fix="see db.collections(), or say missing_ok",
            )


def remove(ledger: Ledger, view: View, *, actor: str | None = None, meta: bytes | None = None) -> int:
    """End a collection, which was as in a view of a moment ago; the number of the entry that does. 1 PUT.

    From then on it has no documents, and every commit to it is refused. Raises NotFoundError if there is none,
    RemovedError if it was removed and not purged yet, UnavailableError, OutcomeUnknownError.
    """
    guard = _PresenceGuard(ledger.collection)
    if view.definition.closed is not None:
        raise RemovedError(
            f"collection {ledger.collection.rstrip('/')}", reason=view.definition.closed.told(view.number)
        )
    guard.check(view)
    event = CollectionClosed(reason=REASON)
    number = ledger.commit(Pending(ledger.batch_id(), events=(event,), actor=actor, meta=meta, guard=guard)).number
    log.info("%s: removed by entry %d", ledger.collection, number)
    return number


# --- whether other processes have seen it ---


def check_barrier(site: StoredCollection, view: View, clock: Clock) -> None:
    """Raise BarrierError unless every process has seen that the collection was removed, or asks before it reads.

    That is so when all nodes that live show the entry in their heartbeats, and a minute has passed since it was
    written, by the store's time. 1 GET, 1 HEAD, 1 LIST, and 1 GET for each node. A purge is safe without it: then
    readers of before may meet SnapshotTooOldError. Raises InvalidRequestError if the collection was not removed.
    """
    _check_closed(site, view)
    key = site.paths.entry(view.number)
    record, probe = site.log.read(view.number)
    what = f"purge of {site.collection.rstrip('/')}"
    if record is not None and probe.time is not None:
        age = probe.time - site.store.head(key).modified
        if age < KNOWLEDGE_MS_MAX:
            rest = (KNOWLEDGE_MS_MAX - age) / 1000
            raise BarrierError(what, reason=f"it was removed {age / 1000:.0f} s ago", fix=f"retry in {rest:.0f} s")
    peers = Peers(site.store, clock)
    peers.look()
    for node in peers.live():
        peer = peers.get(node)
        heartbeat = None if peer is None else peer.heartbeat
        shown = () if heartbeat is None else heartbeat.written
        if not any(each.collection == site.collection and each.number >= view.number for each in shown):
            raise BarrierError(what, reason=f"node {node} has not shown entry {view.number} yet", fix="retry later")


# --- what is left of it ---


def survey(site: StoredCollection, view: View) -> DropResult:
    """What dropping a collection would delete of the engine's objects; nothing is written.

    1 LIST for each 1,000 objects. Raises NotFoundError.
    """
    _PresenceGuard(site.collection).check(view)
    objects = size = 0
    for page in site.store.list(site.paths.folder):
        for info in page.objects:
            if info.key != site.paths.root:
                objects, size = objects + 1, size + info.size
    number = 0 if view.definition.closed is None else view.number
    return DropResult(site.collection, number, view.count, objects, size)


def is_gone(store: Store, collection: str, *, is_finished: bool = False) -> bool:
    """Whether a folder with the mark of a removed collection has none. 1 GET, and 1 more if its root is the last one.

    True for one that is being purged, too; with `is_finished` only if nothing is left that has to be deleted.
    """
    paths = EnginePaths.of_collection(collection)
    root = Register(store, paths, collection).read().root
    if root is None or (is_finished and (root.closed is not None or root.removed_at is not None)):
        return False
    if root.closed is not None:
        return True
    return root.removed == root.applied and store.probe(paths.entry(LogNumber(root.applied + 1))).found is None


def purge(site: StoredCollection, view: View, clock: Clock | None = None) -> DropResult:
    """Delete everything of a collection that was removed, but for its root; its name is free then.

    With a `clock` it waits first until no process needs the log, 90 seconds, and then deletes that too; otherwise
    its last entries stay for that time. 2 GETs, 3 PUTs, and for each 1,000 objects 1 LIST, 1 GET and 1 DELETE; where
    readable files were kept, 1 GET more, and as `remove_files`. Another call goes on where one stopped. Raises
    InvalidRequestError if the collection was not removed in `view`, UnavailableError, OutcomeUnknownError.
    """
    _check_closed(site, view)
    site.runtime.before_first_write()
    settle(site, view)
    _abandon(site, view)
    state = _close_root(site, view)
    if clock is not None:
        _await_silence(site, clock)
        state = site.register.read()
    return finish(site, state, is_silent=clock is not None, is_abandoned=True) or DropResult(
        site.collection, view.number
    )


def settle(site: StoredCollection, view: View) -> None:
    """Have the root of the new name count for good, if a collection was renamed: then its own log may go.

    3 GETs, 1 PUT; no requests for one that was removed otherwise.
    """
    closed = view.definition.closed
    if closed is None or closed.source is not None or not closed.follows:
        return
    other = replace(site, collection=closed.follows[0])
    runtime = site.runtime

    def change(current: RootState) -> Root | None:
        root = current.root
        if root is None or root.closed is not None or current.staged is None or current.staged.slot != view.number:
            return None
        runtime.misc.observe(Misc(root.misc))
        return msgspec.structs.replace(
            root, revision=root.revision + 1, write_id=new_write_id(runtime.chance), misc=runtime.misc.next()
        )

    other.register.update(change, what=f"what was {site.collection}")


def _abandon(site: StoredCollection, view: View) -> None:
    """Make sure that no process renames another collection to this one any more. No requests if none had begun to.

    A stage counts if the next slot of the other log ends that: an entry in it that does nothing prevents it. Raises
    ConflictError if the rename came first.
    """
    closed = view.definition.closed
    if closed is None or closed.source is None:
        return
    state = site.register.read()
    stage = state.staged
    if stage is None:
        return
    assert stage.source is not None
    if state.root is not None and state.root.closed is not None:
        ledger = site.runtime.open(stage.source)
        if ledger.view().number < stage.slot:
            with suppress(RemovedError):
                ledger.commit(Pending(ledger.batch_id(), events=(Nothing(),)))
        state = site.register.read()
    if state.root is None or state.root.closed is None:
        raise ConflictError(
            f"purge of {site.collection.rstrip('/')}",
            reason=f"{stage.source.rstrip('/')} was renamed to it meanwhile",
            fix="look at what is there, and drop it if that is what you want",
        )


def finish(
    site: StoredCollection, state: RootState, *, is_silent: bool = False, is_abandoned: bool = False
) -> DropResult | None:
    """Go on with a purge whose root was read, to its end; None if another process came to it first. Costs as `purge`.

    `is_silent` says that no process needs the last entries any more. The stage of a rename is left alone, unless it
    `is_abandoned`: see `_abandon`.
    """
    root = state.root
    if root is None or root.closed is None or (state.staged is not None and not is_abandoned):
        return None
    through = LogNumber(root.applied) if is_silent else _unneeded(root, state.time)
    work = _Purge(site, state, root)
    try:
        result = work.run(through)
        site.store.put(site.paths.removed_mark, _mark(root), content_type="application/json")
        work.bury(None if through == root.applied else store_time(site, state))
    except ConflictError:
        log.info("%s: another process has purged it", site.collection)
        if work.has_deleted_files:
            _mend(site)
        return None
    log.info("%s: purged, %d objects deleted", site.collection, result.objects)
    return result


def _mend(site: StoredCollection) -> None:
    """Have readable files written again: a new collection may have had some of the names that were deleted late.

    Costs as `sync_files` if there is one that keeps files, else what a read costs.
    """
    try:
        site.runtime.mend_files(site.collection)
    except WormError as error:
        # The collection is purged all the same, by another process.
        log.warning("%s: readable files may be missing, worm files sync writes them: %s", site.collection, error)


def _check_closed(site: StoredCollection, view: View) -> None:
    """Raise InvalidRequestError if a collection was not removed."""
    if view.definition.closed is None:
        raise InvalidRequestError(
            f"purge of {site.collection.rstrip('/')}", reason="the collection was not removed", fix="remove it first"
        )


def _close_root(site: StoredCollection, view: View) -> RootState:
    """Have the root say that the collection was removed, and name nothing. 2 GETs, 1 PUT."""
    record, _ = site.log.read(view.number)  # before the root: where it is gone, that says so

    def change(current: RootState) -> Root | None:
        root = current.root
        if root is not None and (root.closed is not None or root.applied >= view.number):
            return None
        if record is None:
            raise CorruptionError(
                f"log entry {view.number} of {site.collection}",
                reason="it removed the collection, and is missing",
                key=site.paths.entry(view.number),
            )
        misc = site.runtime.misc
        for known in (record.entry.misc, 0 if root is None else root.misc):
            misc.observe(Misc(known))
        made = misc.next()
        definition = view.definition
        return Root(
            path=site.collection,
            collection=new_write_id(site.runtime.chance) if root is None else root.collection,
            revision=1 if root is None else root.revision + 1,
            write_id=new_write_id(site.runtime.chance),
            misc=made,
            applied=view.number,
            hash_applied=record.hash,
            trimmed=view.number,
            hash_trimmed=record.hash,
            marks=with_mark(root, current.time),
            dated=following_dates(root, (record.entry,), view.number, made),
            entered=record.entry.misc,
            # Until the end: they say which readable files are its own.
            definition=definition.body,
            files=definition.files,
            history_from=view.number,
            # Keys of blobs have the number of an entry that condemned one: none of before is written again.
            blob_newest=view.number,
            blob_floor=view.number,
            closed=definition.closed,
            removed=view.number,
        )

    return site.register.update(change, what="the end of the collection", is_purge=True)


def _await_silence(site: StoredCollection, clock: Clock) -> None:
    """Wait until every process asks for the root before it trusts the log. 1 HEAD and 1 GET, again until then.

    1 PUT and 1 HEAD more where answers show no time.
    """
    while True:
        written = site.store.head(site.paths.root).modified
        state = site.register.read()
        if state.root is None or state.root.closed is None:
            return
        rest = REMOVED_MS - (store_time(site, state) - written)
        if rest <= 0:
            return
        pause(clock, min(rest / 1000, _LOOK_SECONDS))


_LOOK_SECONDS = 10.0


def store_time(site: StoredCollection, state: RootState) -> StoreTime:
    """The store's time, not before a root was read. No requests; 1 PUT and 1 HEAD if the answer did not show it."""
    if state.time is not None:
        return state.time
    key = site.paths.gc_probe
    time = site.store.put(key, site.runtime.chance.token(16)).time
    return site.store.head(key).modified if time is None else time


def _unneeded(root: Root, now: StoreTime | None) -> LogNumber:
    """Through which entry a root had applied the log so long ago that no process asks for one of them."""
    old = [mark.number for mark in root.marks if now is not None and now - mark.time >= REMOVED_MS]
    return LogNumber(max(old, default=0))


def _mark(root: Root) -> bytes:
    return msgspec.json.encode({"collection": root.path, "removed": root.applied}) + b"\n"


@dataclass(slots=True)
class _Purge:
    """The deletion of all that a closed root leaves."""

    site: StoredCollection
    state: RootState
    root: Root
    has_deleted_files: bool = False
    """Whether readable files may have been deleted: their names come again, unlike all others."""

    def run(self, through: LogNumber) -> DropResult:
        """Delete everything but the root and entries after `through`. Raises ConflictError if the root changed."""
        site, root = self.site, self.root
        result = DropResult(site.collection, root.applied)
        for some in self._pages():
            doomed = [info for info in some if self._goes(info.key, through)]
            if doomed:
                self._check()
                site.store.delete_many([info.key for info in doomed])
            result = replace(
                result,
                objects=result.objects + len(doomed),
                bytes=result.bytes + sum(info.size for info in doomed),
                waiting=result.waiting + sum(self._waits(info.key, through) for info in some),
            )
        self.has_deleted_files = root.files is not None and root.files.enabled
        files = site.runtime.remove_files(site.collection, Definition.of_root(root), self._check)
        return replace(result, files=files)

    def _pages(self) -> Iterator[list[ObjectInfo]]:
        for page in self.site.store.list(self.site.paths.folder):
            yield list(page.objects)

    def _goes(self, key: str, through: LogNumber) -> bool:
        return key != self.site.paths.root and not self._waits(key, through)

    def _waits(self, key: str, through: LogNumber) -> bool:
        paths = self.site.paths
        return paths.entry(through) < key <= paths.entry(LogNumber(self.root.applied))

    def _check(self) -> None:
        """Raise ConflictError if the root is another one by now: what was listed may be of a new life. 1 GET."""
        if self.site.register.read().version != self.state.version:
            raise ConflictError(f"the root of {self.site.collection}", reason="another process has purged it")

    def bury(self, since: StoreTime | None) -> None:
        """Begin a new life of the name, behind the last entry; others stay since a time. 1 PUT.

        Raises ConflictError if another process did.
        """
        runtime, root = self.site.runtime, self.root
        runtime.misc.observe(Misc(root.misc))
        following = msgspec.structs.replace(
            root,
            collection=new_write_id(runtime.chance),
            revision=root.revision + 1,
            write_id=new_write_id(runtime.chance),
            misc=runtime.misc.next(),
            marks=(),
            definition=b"",
            files=None,
            closed=None,
            removed_at=since,
        )
        self.site.register.swap(self.state, following, is_purge=True)
