"""Give a collection another name, though no bucket moves anything: all of it is copied, and one entry decides.

    claim     the first entry of the new log says that the name is taken, by a rename of the old one; it is a removed
              collection to every process
    stage     the old log is brought forward to its end, number n; every object that its root needs is copied; the root
              is written under the new name, and says that it counts from entry n + 1 of the old log on
    end       that entry ends the old collection, if nothing else was written to it since: one conditional PUT, at which
              the one name stops to be the collection and the other begins
    settle    the new root says that it counts for good; then the old collection is purged as a dropped one

An entry of another writer at n + 1 ends the stage, and the next one goes a little further. A process that stops
anywhere leaves the old collection whole before that entry, and the new one behind it; the same call goes on. What reads
a stage is `wormdb.engine.log.root.Register.read`.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.engine.commit.operations import Pending
from wormdb.engine.state.moments import following_dates
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    CorruptionError,
    InvalidRequestError,
    NotFoundError,
    RemovedError,
    SnapshotTooOldError,
    UnavailableError,
)
from wormdb.format.blob import BlobKey
from wormdb.format.event import RENAMED, CollectionClosed
from wormdb.maintenance.gc.retired import root_names
from wormdb.maintenance.removal import is_absent, store_time
from wormdb.storage.copy import copy_object
from wormdb.system.clock import new_write_id
from wormdb.system.types import LogNumber, Misc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.engine.ledger import Ledger
    from wormdb.engine.log.root import RootState
    from wormdb.engine.state.view import View
    from wormdb.format.root import Root
    from wormdb.maintenance.collection import StoredCollection
    from wormdb.storage.store import ObjectInfo

__all__ = ["RenameResult", "Renaming", "check_rename"]

log = logging.getLogger(__name__)

ROUNDS_MAX: Final = 16
"""How often a stage is made again because others wrote to the old name meanwhile."""


@dataclass(frozen=True, slots=True)
class RenameResult:
    """What renaming a collection did."""

    old: str
    """Its folder before, ending with /."""
    new: str
    """Its folder now."""
    number: int = 0
    """The entry that ended the old name."""
    documents: int = 0
    objects: int = 0
    """Objects that this call copied."""
    bytes: int = 0
    """Of these."""


# --- before anything is written ---


def check_rename(source: View, target: View, old: str, new: str) -> None:
    """Raise what keeps a collection from having another name, by states of a moment ago. No requests.

    Raises NotFoundError, RemovedError, AlreadyExistsError, InvalidRequestError. A rename that broke off is none of
    these.
    """
    what = f"rename {old.rstrip('/')} to {new.rstrip('/')}"
    if old == new:
        raise InvalidRequestError(what, reason="it has that name", fix="choose another name")
    if _has_ended(source, new):
        return
    _check_source(source, what, old)
    closed = target.definition.closed
    if closed is not None and closed.source == old:
        return
    if closed is not None:
        raise RemovedError(f"collection {new.rstrip('/')}", reason=closed.told(target.number))
    if not is_absent(target):
        raise AlreadyExistsError(
            f"collection {new.rstrip('/')}", reason="the name is taken", fix="choose another name, or drop it"
        )
    if target.number:
        raise InvalidRequestError(
            what,
            reason=f"{new.rstrip('/')} was the name of another collection: revisions and objects of that one could be "
            "taken for those of this one",
            fix="choose a name that was never used",
        )


def _has_ended(source: View, new: str) -> bool:
    """Whether a collection goes on under a name, and has not been purged yet."""
    closed = source.definition.closed
    return closed is not None and closed.source is None and closed.follows == (new,)


def _check_source(source: View, what: str, old: str) -> None:
    closed = source.definition.closed
    if closed is not None:
        raise RemovedError(f"collection {old.rstrip('/')}", reason=closed.told(source.number))
    if is_absent(source):
        raise NotFoundError(
            f"collection {old.rstrip('/')}", reason="there is none of this name", fix="see db.collections()"
        )
    model = source.definition.model
    if model is not None:
        raise InvalidRequestError(
            what,
            reason=f"it is the collection of model {model.name}, whose path in the schema says where it lies",
            fix="add a model with the new path, import the documents into it, then drop the old one",
        )
    opened = [job for job, outcome in source.jobs.known.items() if outcome.state == "open"]
    if opened:
        raise InvalidRequestError(
            what,
            reason=f"bulk job {opened[0]} is open: what it has written is of the old name",
            fix="finish it or abort it first; one that is left alone expires",
        )


# --- the steps ---


@dataclass(frozen=True, slots=True)
class _UnusedGuard:
    """Refuses a name that was ever used."""

    source: str
    collection: str

    def check(self, view: View) -> None:
        if view.number:
            raise AlreadyExistsError(
                f"collection {self.collection.rstrip('/')}", reason="another process took the name meanwhile"
            )


@dataclass(frozen=True, slots=True)
class _UnmovedGuard:
    """Refuses to end a log that went on behind what was copied."""

    number: LogNumber
    collection: str

    def check(self, view: View) -> None:
        if view.number != self.number:
            raise ConflictError(
                f"rename of {self.collection.rstrip('/')}",
                reason=f"it was copied through entry {self.number}, and has {view.number} by now",
            )


@dataclass(slots=True)
class Renaming:
    """One collection on its way to another name."""

    old: StoredCollection
    new: StoredCollection
    source: Ledger
    target: Ledger
    actor: str | None = None
    meta: bytes | None = None
    result: RenameResult = field(init=False)
    _copied: set[str] = field(default_factory=set)
    """Keys under the new name that are there."""

    def __post_init__(self) -> None:
        self.result = RenameResult(self.old.collection, self.new.collection)

    def run(self) -> View:
        """Take the new name; the state of the old one, which has ended. What is left is to purge that.

        See `wormdb.api.database.Database.rename` for costs and errors.
        """
        source, target = self.source.view(), self.target.view()
        check_rename(source, target, self.old.collection, self.new.collection)
        if source.definition.closed is None:
            if not target.number:
                self._claim()
            source = self._move()
        self.target.forget()
        self.result = replace(self.result, number=source.number, documents=self.target.view().count)
        return source

    def _claim(self) -> None:
        """Take the new name by the first entry of its log. 1 PUT; raises AlreadyExistsError."""
        event = CollectionClosed(reason=RENAMED, follows=(self.new.collection,), source=self.old.collection)
        guard = _UnusedGuard(self.old.collection, self.new.collection)
        try:
            self.target.commit(self._pending(event, guard))
        except AlreadyExistsError:
            closed = self.target.view().definition.closed
            if closed is None or closed.source != self.old.collection:
                raise  # else another call renames the same two

    def _move(self) -> View:
        """Copy, stage and end, until nothing comes between; the state of the old collection that has ended."""
        for _ in range(ROUNDS_MAX):
            self.source.forward()
            state = self.old.register.read()
            root = state.root
            if root is not None and not root.pending:
                self._check_jobs(root)
                try:
                    self._copy(state, root)
                    self._stage(root)
                except ConflictError as error:
                    log.info("%s: the rename begins again: %s", self.old.collection, error)
                else:
                    with suppress(ConflictError, RemovedError):  # others wrote to it, or ended it
                        self._end(LogNumber(root.applied))
            view = self.source.view()
            if _has_ended(view, self.new.collection):
                return view
            check_rename(view, self.target.view(), self.old.collection, self.new.collection)
        raise UnavailableError(
            f"rename of {self.old.collection.rstrip('/')}",
            reason=f"others wrote to it {ROUNDS_MAX} times before its end could be written",
            fix="stop its writers for a moment, and call it again: what was copied is kept",
        )

    def _check_jobs(self, root: Root) -> None:
        opened = [outcome.job for outcome in root.jobs if outcome.state == "open"]
        if opened:
            raise UnavailableError(
                f"rename of {self.old.collection.rstrip('/')}",
                reason=f"bulk job {opened[0]} was opened meanwhile",
                fix="call it again when the job is finished",
            )

    def _pending(self, event: CollectionClosed, guard: _UnusedGuard | _UnmovedGuard) -> Pending:
        return Pending(self.source.batch_id(), events=(event,), actor=self.actor, meta=self.meta, guard=guard)

    def _end(self, number: LogNumber) -> None:
        """End the old collection behind entry `number`. 1 PUT; raises ConflictError if it has a later one."""
        event = CollectionClosed(reason=RENAMED, follows=(self.new.collection,))
        self.source.commit(self._pending(event, _UnmovedGuard(number, self.old.collection)))
        log.info("%s: renamed to %s by entry %d", self.old.collection, self.new.collection, number + 1)

    # --- objects ---

    def _copy(self, state: RootState, root: Root) -> None:
        """Have all that a root of the old collection needs under the new name.

        1 LIST for each 1,000 objects of both, 1 GET for each inner node and page of a list, and 1 GET and 1 PUT for
        each object that is not there. Raises ConflictError if the root was replaced and objects are gone.
        """
        if not self._copied:
            self._copied = {info.key for page in self.new.store.list(self.new.paths.folder) for info in page.objects}
        try:
            needed = set(root_names(self.old.place(root)))
            listed = {info.key: info for info in self._listed() if info.key in needed}
            whole = len(listed) == len(needed) and self._copy_all([*listed.values(), *self._blobs(root)])
        except SnapshotTooOldError:
            whole = False
        if not whole:
            if self.old.register.read().version != state.version:
                raise ConflictError(f"objects of {self.old.collection}", reason="they were replaced meanwhile")
            raise CorruptionError(
                f"objects of {self.old.collection}",
                reason="the newest root needs some that are missing",
                fix="run worm verify, and worm verify --repair",
                key=self.old.paths.root,
            )

    def _listed(self) -> Iterator[ObjectInfo]:
        paths = self.old.paths
        for folder in (paths.data, paths.history, paths.indexes):
            for page in self.old.store.list(folder):
                yield from page.objects

    def _blobs(self, root: Root) -> Iterator[ObjectInfo]:
        """Blobs that documents may refer to: they were written before the entries that do."""
        paths = self.old.paths
        condemned = {paths.blob(BlobKey(each.sha256.hex(), each.suffix).name) for each in root.condemned}
        for page in self.old.store.list(paths.blobs):
            yield from (info for info in page.objects if info.key not in condemned)

    def _copy_all(self, infos: list[ObjectInfo]) -> bool:
        """Whether all of them are there then."""
        missing = [info for info in infos if self._moved(info.key) not in self._copied]
        done = list(self.old.pool.map(self._copy_one, missing))
        copied = [info for info, is_there in zip(missing, done, strict=True) if is_there]
        self._copied.update(self._moved(info.key) for info in copied)
        self.result = replace(
            self.result,
            objects=self.result.objects + len(copied),
            bytes=self.result.bytes + sum(info.size for info in copied),
        )
        return all(done)

    def _copy_one(self, info: ObjectInfo) -> bool:
        return copy_object(self.old.store, info, self.new.store, self._moved(info.key))

    def _moved(self, key: str) -> str:
        return self.new.paths.folder + key.removeprefix(self.old.paths.folder)

    # --- the new root ---

    def _stage(self, root: Root) -> None:
        """Put a root under the new name that counts when the next slot of the old log ends that. 1 GET, 1 PUT.

        Raises ConflictError if another call has one of a later state, RemovedError if the new name is dropped.
        """
        register, runtime = self.new.register, self.new.runtime
        slot = root.applied + 1
        current = register.read()
        staged = current.staged
        if staged is not None and staged.slot == slot and staged.source == self.old.collection:
            return
        if current.root is not None and staged is None and current.root.closed is not None:
            raise RemovedError(f"collection {self.new.collection.rstrip('/')}", reason="another process drops it")
        if current.root is not None and (staged is None or staged.slot > slot or current.root.closed is None):
            raise ConflictError(f"the name {self.new.collection}", reason="another process has changed it meanwhile")
        runtime.misc.observe(Misc(root.misc))
        made = runtime.misc.next()
        number = LogNumber(max(root.applied, _CLAIM + 1))  # behind the entry that took the name
        following = msgspec.structs.replace(
            root,
            path=self.new.collection,
            revision=1 if current.root is None else current.root.revision + 1,
            write_id=new_write_id(runtime.chance),
            misc=made,
            applied=number,
            trimmed=number,
            hash_trimmed=root.hash_applied,
            marks=(),
            dated=following_dates(root, (), number, made),
            retired=(),
            retired_older=None,
            closed=CollectionClosed(
                reason=RENAMED, follows=(self.new.collection,), source=self.old.collection, slot=slot
            ),
            removed=_CLAIM,
            removed_at=store_time(self.new, current),
        )
        register.swap(current, following, is_purge=True)


_CLAIM: Final = 1
"""The entry that takes the new name: a name that was never used."""
