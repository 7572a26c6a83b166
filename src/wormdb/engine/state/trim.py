"""Delete the beginning of the log, in the one order that loses nothing.

An entry may go when it was applied long enough ago, by the store's time. First the root's `trimmed` is
raised over it by compare-and-set; only then is it deleted. So a reader that finds a slot empty and reads the
root afterwards knows whether the slot had ever been used.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from wormdb.engine.state.moments import following_dates
from wormdb.errors import ConflictError, CorruptionError
from wormdb.format.root import AppliedMark
from wormdb.settings import LOG_RETENTION_MS_MIN, MARKS_MAX, REMOVED_MS
from wormdb.system.clock import new_write_id
from wormdb.system.types import LogNumber, Misc

if TYPE_CHECKING:
    from wormdb.engine.log.clock import MiscClock
    from wormdb.engine.log.entries import Log
    from wormdb.engine.log.root import Register, RootState
    from wormdb.format.root import Root
    from wormdb.system.clock import Chance
    from wormdb.system.types import StoreTime

__all__ = ["Trimmer", "is_held", "with_mark"]


log = logging.getLogger(__name__)


def with_mark(root: Root | None, time: StoreTime | None) -> tuple[AppliedMark, ...]:
    """The marks of the root that follows one read at `time`: what it had applied was applied by then."""
    if root is None:
        return ()
    marks = root.marks
    if time is not None and root.applied > (marks[-1].number if marks else 0):
        marks = (*marks, AppliedMark(root.applied, time))
    if len(marks) > MARKS_MAX:
        # Thin out the older half: a mark that is missing only delays a deletion.
        half = len(marks) // 2
        marks = marks[:half:2] + marks[half:]
    return marks


def is_held(root: Root, now: StoreTime | None) -> bool:
    """Whether entries of a removed collection must stay though they are trimmed. No requests.

    A process that knew the log a moment before may still take an empty slot for its end: see `is_recent`. An answer
    without a time of the store tells nothing.
    """
    if root.closed is not None:
        return True
    return root.removed_at is not None and (now is None or now - root.removed_at < REMOVED_MS)


@dataclass(frozen=True, slots=True)
class Trimmer:
    """Trims the log of one collection."""

    log: Log
    register: Register
    misc: MiscClock
    chance: Chance

    def run(self, retention_ms: int, floor: LogNumber | None = None) -> int:
        """Trim what may go; how many entries were deleted. A store that shows no time is never trimmed.

        Entries after `floor` stay while files are kept: they are not in them yet.
        """
        state = self.register.read()
        if state.root is None or state.time is None or is_held(state.root, state.time):
            return 0
        through = self.through(state.root, state.time, retention_ms, floor)
        try:
            state = self._raise(state, through)
        except ConflictError:
            return 0
        assert state.root is not None
        deleted = self._delete(LogNumber(state.root.trimmed))
        log.info("%s: trimmed through entry %d, %d deleted", self.log.collection, state.root.trimmed, deleted)
        return deleted

    def through(self, root: Root, now: StoreTime, retention_ms: int, floor: LogNumber | None = None) -> LogNumber:
        """Through which entry the log may go, of a root that was read when the store's clock said `now`. No requests.

        What came after the opening of a job that is still open stays: the job is checked against it when it is
        attached, and the time of that entry tells how long the job has been open. So does what came after a transaction
        was prepared that is not finished.
        What comes before an erasure goes after an hour, whatever `retention_ms` says.
        """
        through = self._applied_by(root, now, max(retention_ms, LOG_RETENTION_MS_MIN))
        # Entries up to one that erased a document hold it: they go as soon as no process may need them.
        through = max(through, LogNumber(min(self._applied_by(root, now, LOG_RETENTION_MS_MIN), root.erased_through)))
        floors = [outcome.number - 1 for outcome in root.jobs if outcome.state == "open"]
        floors += [one.number - 1 for one in root.pending]
        if floor is not None and root.files is not None and root.files.enabled:
            floors.append(floor)
        return LogNumber(max(min([through, *floors]), root.trimmed))

    def _applied_by(self, root: Root, now: StoreTime, retention_ms: int) -> LogNumber:
        old = [mark.number for mark in root.marks if now - mark.time >= retention_ms]
        return LogNumber(max([root.trimmed, *(number for number in old if number <= root.applied)]))

    def _raise(self, state: RootState, through: LogNumber) -> RootState:
        """Raise `trimmed`, and note the time of what is applied; the root as it then is."""
        raised = self.raised(state, through)
        if raised == state.root:
            return state
        return self.register.swap(state, self.followed(raised))

    def raised(self, state: RootState, through: LogNumber) -> Root:
        """The root that was read with `trimmed` raised, and with the time of what is applied.

        The same if nothing is new. 1 GET if it is raised. Raises CorruptionError, and ConflictError if another did so
        meanwhile.
        """
        root = state.root
        assert root is not None
        marks = tuple(mark for mark in with_mark(root, state.time) if mark.number >= through)
        digest = self._hash(state, root, through)
        removed_at = root.removed_at if is_held(root, state.time) else None
        return msgspec.structs.replace(root, trimmed=through, hash_trimmed=digest, marks=marks, removed_at=removed_at)

    def followed(self, root: Root) -> Root:
        """A root as the one after that of its revision: with a revision and a write id of its own. No requests."""
        self.misc.observe(Misc(root.misc))
        misc = self.misc.next()
        return msgspec.structs.replace(
            root,
            revision=root.revision + 1,
            write_id=new_write_id(self.chance),
            misc=misc,
            dated=following_dates(root, (), root.applied, misc),
        )

    def _hash(self, state: RootState, root: Root, through: LogNumber) -> bytes:
        if through == root.trimmed:
            return root.hash_trimmed
        if through == root.applied:
            return root.hash_applied
        record, _ = self.log.read(through)
        if record is None:
            if self.register.read().version != state.version:
                raise ConflictError(f"the root of {self.log.collection}", reason="another trimmed the log meanwhile")
            raise CorruptionError(
                f"log entry {through} of {self.log.collection}",
                reason="it is applied but was deleted before it was trimmed",
                key=self.log.paths.entry(through),
            )
        return record.hash

    def _delete(self, through: LogNumber) -> int:
        """Everything up to `through`, also what an earlier run left behind."""
        last = self.log.paths.entry(through)
        deleted = 0
        for page in self.log.store.list(self.log.paths.entries):
            keys = [found.key for found in page.objects if found.key <= last]
            if keys:
                self.log.store.delete_many(keys)
                deleted += len(keys)
            if len(keys) < len(page.objects):
                break
        return deleted
