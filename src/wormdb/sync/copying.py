"""One log goes on where another ends: what is missing there is copied, in the one order that loses nothing.

First the immutable objects that entries or the root name, which no reader sees; then the entries, one after the other,
each created only if its slot is free; last the root, by compare-and-set. A crash at any request leaves the log of the
other side as a shorter beginning of this one, and doing it again does the rest. An entry of another writer in a slot is
the point where the logs part.

Entries that were trimmed cannot be written again. Then the root comes before the entries behind it, and says that all
before it were trimmed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.errors import (
    ConflictError,
    OutcomeUnknownError,
    UnavailableError,
    UnsupportedFormatError,
)
from wormdb.format.blob import may_refer
from wormdb.format.entry import decode_entry, entry_hash
from wormdb.format.event import JobAttached
from wormdb.format.root import encode_root
from wormdb.storage.copy import copy_object
from wormdb.storage.readback import Landed, Lost, NothingThere, Unknown, put_classified, put_swapped
from wormdb.storage.store import IfAbsent
from wormdb.sync.logs import event_tags
from wormdb.sync.state import LogEnd
from wormdb.system.clock import new_write_id
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wormdb.format.root import Root
    from wormdb.storage.store import ObjectInfo, Store
    from wormdb.sync.logs import ReadLog
    from wormdb.sync.rebase import OwnBatch
    from wormdb.system.clock import Chance

__all__ = ["CopyResult", "LogCopy", "PartedError"]

ROOT_LAG: Final = 64
"""A root is copied if it is this many entries ahead, or the other side has none: else that side forwards by itself."""
_TRIES_MAX: Final = 5


class PartedError(ConflictError):
    """Another writer's entry is where the log was to go on; `number` is the last entry that both have.

    `late` is that entry if the log went on nevertheless: a root came over it.
    """

    def __init__(self, collection: str, number: int, late: bytes | None = None) -> None:
        """`collection` is a folder, ending with /."""
        super().__init__(
            f"the log of {collection.rstrip('/')}",
            reason=f"both sides have entries of their own after number {number}",
            fix="worm push --rebase commits the entries of this side behind those of the bucket",
        )
        self.number = number
        self.late = late


@dataclass(frozen=True, slots=True)
class CopyResult:
    """How far the other side's log goes now, and how many entries and objects went."""

    end: LogEnd
    entries: int
    objects: int
    has_waiting: bool = False
    """Whether entries were left for later, because a transaction over several collections is not finished in them."""


@dataclass(frozen=True, slots=True)
class LogCopy:
    """Brings what one side of a collection has to the other, whose log is a beginning of it."""

    source: ReadLog
    target: ReadLog
    chance: Chance

    def run(self, *, may_bridge: bool) -> CopyResult:
        """Copy. 1 PUT an entry, one after the other; 1 GET and 1 PUT an object, side by side, and the LISTs of both.

        With `may_bridge` trimmed entries are bridged by the root; else they are refused, unless the target has nothing.
        Raises PartedError, InvalidRequestError, UnavailableError, OutcomeUnknownError.
        """
        source, target = self.source, self.target
        if source.trimmed > target.end.number:
            return self._bridge(may_bridge=may_bridge)
        waiting = list(source.after(target.end.number))
        entries = _finished(waiting, source)
        has_waiting = len(entries) < len(waiting)
        root = source.root.root if self._wants_root() and not has_waiting else None
        needed = _needed(entries, source, with_root=root is not None)
        objects = self._copy_objects(needed) if needed else 0
        end = target.end
        for number, body in entries:
            self._put_entry(number, body)
            end = LogEnd(number, entry_hash(body))
        if root is not None:
            self._put_root(root)
        return CopyResult(end, len(entries), objects, has_waiting)

    def _wants_root(self) -> bool:
        root = self.source.root.root
        if root is None or root.pending:
            return False  # what is prepared in it would have to be decided again on the other side
        behind = root.applied - self.target.root.applied
        return behind >= ROOT_LAG or (self.target.root.root is None and behind > 0)

    def _bridge(self, *, may_bridge: bool) -> CopyResult:
        """Root first: what it has applied counts as trimmed on the other side, where those entries never were."""
        source, target = self.source, self.target
        root = source.root.root
        assert root is not None
        name = source.log.collection.rstrip("/")
        if not may_bridge and not target.is_empty:
            # An erasure has the log trimmed an hour later, whatever was pushed: it comes first.
            is_erased = root.erased_through > target.end.number
            also = "erase it in the bucket too, and push within an hour" if is_erased else "push before worm gc"
            raise UnavailableError(
                f"the log of {name}",
                reason=f"entries through {source.trimmed} were trimmed here before they were pushed; the bucket's log "
                f"ends at {target.end.number}",
                fix=f"export the documents and import them there; {also} next time",
            )
        if root.pending:
            raise UnavailableError(
                f"the log of {name}",
                reason="its root holds transactions that are not finished",
                fix="run worm forward where it is, then retry",
            )
        objects = self._copy_objects(_FOLDERS)
        bare = msgspec.structs.replace(
            root, trimmed=root.applied, hash_trimmed=root.hash_applied, marks=(), write_id=new_write_id(self.chance)
        )
        if not self._put_root(bare):
            raise UnavailableError(f"the root of {name}", reason="another process forwarded meanwhile", fix="retry")
        late = target.log.store.probe(target.log.paths.entry(LogNumber(target.end.number + 1))).found
        if late is not None and target.end.number < root.applied:
            raise PartedError(source.log.collection, target.end.number, late.body)
        end = LogEnd(root.applied, root.hash_applied)
        entries = _finished(list(source.after(root.applied)), source)
        for number, body in entries:
            self._put_entry(number, body)
            end = LogEnd(number, entry_hash(body))
        return CopyResult(end, len(entries), objects, end.number < source.end.number)

    def copy_blobs(self, own: Iterable[OwnBatch]) -> bool:
        """Copy blobs that some batches may refer to; whether one does. No requests if none does."""
        documents = (change.after for each in own for change in each.batch.changes)
        refers = any(each is not None and may_refer(each) for each in documents)
        if refers:
            self._copy_objects(_BLOBS)
        return refers

    def _put_entry(self, number: int, body: bytes) -> None:
        """Fill one slot, if it is free. 1 PUT; raises PartedError if another entry is in it."""
        log = self.target.log
        key = log.paths.entry(LogNumber(number))
        for _ in range(_TRIES_MAX):
            outcome = put_classified(log.store, key, body, IfAbsent())
            match outcome:
                case Landed():
                    return
                case Lost(found=found):
                    if found is not None and found.body == body:
                        return  # of a try before this one, or of another copy
                    raise PartedError(log.collection, number - 1)
                case NothingThere():
                    continue
                case Unknown(cause=cause):
                    raise OutcomeUnknownError(f"entry {key}", reason=cause.reason, fix="do it again", key=key)
        raise UnavailableError(f"entry {key}", reason="the store does not take it", fix="do it again", key=key)

    def _put_root(self, root: Root) -> bool:
        """Swap the root of the target, unless its own is as far by now. 1 GET, 1 PUT; False if another came first."""
        register = self.target.log.register
        current = register.read()
        if current.applied >= root.applied and current.root is not None:
            return True
        before = 0 if current.root is None else current.root.revision
        following = msgspec.structs.replace(
            root, revision=max(root.revision, before) + 1, write_id=new_write_id(self.chance), marks=()
        )
        try:
            put_swapped(register.store, register.paths.root, encode_root(following), current.version, what="root")
        except ConflictError:
            return False
        return True

    def _copy_objects(self, folders: tuple[str, ...]) -> int:
        """Copy immutable objects that the target does not have; how many."""
        source, target = self.source.log, self.target.log
        there = {info.key for info in _listed(target.store, target.paths.folder, folders)}
        missing = [info for info in _listed(source.store, source.paths.folder, folders) if info.key not in there]
        copied = list(source.pool.map(self._copy_object, missing))
        if not all(copied) and source.register.read().version != self.source.root.version:
            raise UnavailableError(
                f"objects of {source.collection}", reason="they were removed while they were copied", fix="do it again"
            )
        return sum(copied)

    def _copy_object(self, info: ObjectInfo) -> bool:
        return copy_object(self.source.log.store, info, self.target.log.store, info.key)


_FOLDERS: Final = ("data/", "history/", "blobs/", "indexes/")
_JOBS: Final = ("data/", "history/")
_BLOBS: Final = ("blobs/",)


def _listed(store: Store, folder: str, folders: tuple[str, ...]) -> Iterator[ObjectInfo]:
    for each in folders:
        for page in store.list(folder + each):
            yield from page.objects


def _finished(entries: list[tuple[int, bytes]], source: ReadLog) -> list[tuple[int, bytes]]:
    """Entries up to the first that prepares a transaction which none of them finishes.

    A transaction over several collections is decided by a record beside them, which is not part of a log: a copy of
    what it only prepared might be decided otherwise there. What finished it says itself whether it committed.
    """
    begun: dict[bytes, int] = {}
    for number, body in entries:
        for tag in event_tags(body, source.log.paths.entry(LogNumber(number))):
            if tag.kind == "tx.prepare":
                begun.setdefault(bytes(tag.tx), number)
            elif tag.kind == "tx.finish":
                begun.pop(bytes(tag.tx), None)
    first = min(begun.values(), default=None)
    return entries if first is None else [each for each in entries if each[0] < first]


def _needed(entries: list[tuple[int, bytes]], source: ReadLog, *, with_root: bool) -> tuple[str, ...]:
    """The folders of the objects that entries name; all of them if an entry cannot be understood."""
    if with_root:
        return _FOLDERS
    found: set[str] = set()
    for number, body in entries:
        try:
            entry = decode_entry(
                body, name=source.log.paths.entry(LogNumber(number)), number=number, collection=source.log.collection
            )
        except UnsupportedFormatError:
            return _FOLDERS
        if any(isinstance(event, JobAttached) for event in entry.events):
            found.update(_JOBS)
        documents = (change.after for batch in entry.batches for change in batch.changes)
        if any(each is not None and may_refer(each) for each in documents):
            found.update(_BLOBS)
    return tuple(sorted(found))
