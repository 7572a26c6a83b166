"""Tell what became of a commit whose outcome was unknown.

The slot is read first and the root last. `trimmed` only grows, so a slot that was found empty, or with
another's entry, and that the root read afterwards does not call trimmed, was really in that state.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from wormdb.engine.commit.commit import CommitResult
from wormdb.engine.commit.operations import CommitId
from wormdb.engine.log.entries import BEFORE_FIRST
from wormdb.errors import OutcomeUnknownError, UnavailableError, WormError
from wormdb.format.entry import Entry, encode_entry
from wormdb.format.event import CollectionClosed, Nothing
from wormdb.storage.readback import Landed, Lost, put_classified
from wormdb.storage.store import IfAbsent
from wormdb.system.clock import new_write_id
from wormdb.system.types import LogNumber, Misc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.engine.commit.operations import Pending
    from wormdb.engine.log.clock import MiscClock
    from wormdb.engine.log.entries import Log, LogRecord
    from wormdb.engine.log.root import Register
    from wormdb.system.clock import Chance
    from wormdb.system.types import WriteId

__all__ = ["Fate", "Resolver", "commit_for_sure", "landed", "opening"]


class Fate(StrEnum):
    """What became of a commit."""

    COMMITTED = "committed"
    NOT_COMMITTED = "not committed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Resolver:
    """Answers for one collection."""

    log: Log
    register: Register
    misc: MiscClock
    chance: Chance

    def resolve(self, commit: CommitId, *, settle: bool = False) -> Fate:
        """What became of `commit`. 2 GETs; with `settle` up to 4 more and 1 PUT.

        One that was offered to other writers may be in several slots, which costs 1 GET more for each.
        An empty slot stays UNKNOWN, because the write may still land there, until it is settled: an
        empty entry is committed there, after which it cannot. A slot that was trimmed is UNKNOWN for good.
        """
        record: LogRecord | None = None
        has_landed = has_ended = False
        slots = range(commit.slot, commit.slot + commit.more + 1)
        for slot in map(LogNumber, slots):
            record, _ = self.log.read(slot)
            if record is None and settle:
                record = self._settle(slot, commit.write_id)
            if record is None:
                break
            has_landed = any(batch.id == commit.batch for batch in record.entry.batches)
            # What was offered ends with an event.
            has_ended = has_landed or slot == slots[-1] or bool(record.entry.events)
            if has_ended:
                break
        state = self.register.read()
        if not has_ended or (state.root is not None and state.root.trimmed >= commit.slot):
            return Fate.UNKNOWN
        return Fate.COMMITTED if has_landed else Fate.NOT_COMMITTED

    def _settle(self, slot: LogNumber, write_id: WriteId) -> LogRecord | None:
        """Fill a slot with nothing, or find what fills it; None if it must stay open."""
        previous = self._hash_before(slot)
        if previous is None:
            return None
        entry = Entry(
            number=slot,
            write_id=new_write_id(self.chance),
            misc=self.misc.next(),
            node=self.misc.node,
            previous=previous,
            events=(Nothing(write_id=write_id),),
        )
        body = encode_entry(entry, collection=self.log.collection)
        key = self.log.paths.entry(slot)
        outcome = put_classified(self.log.store, key, body, IfAbsent(), content_type="application/zstd")
        if isinstance(outcome, Landed | Lost):
            record, _ = self.log.read(slot)
            return record
        raise UnavailableError(f"log slot {slot} of {self.log.collection}", reason=str(outcome.cause), key=key)

    def _hash_before(self, slot: LogNumber) -> bytes | None:
        """The hash of the entry before `slot`; None if it was trimmed and the root does not know it either."""
        digest = BEFORE_FIRST if slot == 1 else None
        before: LogRecord | None = None
        if slot > 1:
            before, _ = self.log.read(LogNumber(slot - 1))
            if before is not None:
                digest = before.hash
                self.misc.observe(Misc(before.entry.misc))
        # Read after it: what lies in a slot that was trimmed may be a late write of a process that slept.
        root = self.register.read().root
        if before is not None and any(isinstance(event, CollectionClosed) for event in before.entry.events):
            is_anew = root is not None and root.closed is None and root.applied >= before.number
            digest = digest if is_anew else None  # no entry follows the end of a removed collection
        if root is None or root.trimmed < slot - 1:
            return digest
        if root.trimmed >= slot or root.closed is not None:
            return None
        return root.hash_trimmed


# --- What became of an entry, for work that goes on after it: told for sure, and not forgotten when the rest fails.
#
# A job ends in one entry. If the answer to it is lost the job settles the slot, so that it knows, or says that it does
# not know. And where more is to be done after the entry, a failure of that must not say that nothing was written.


@contextmanager
def opening(what: str) -> Iterator[None]:
    """The entry that opens a job: if it cannot be told whether it is there, `what` did not happen all the same.

    Nothing of the job is written yet, so the id of that commit would mislead: raises UnavailableError instead.
    """
    try:
        yield
    except OutcomeUnknownError as error:
        raise UnavailableError(
            what,
            reason=f"its job could not be opened for sure: {error.reason}",
            fix="retry: nothing of it was written",
            key=error.key,
        ) from error


def commit_for_sure(
    commit: Callable[[Pending], CommitResult], settle: Callable[[str], Fate], pending: Pending
) -> CommitResult | None:
    """Commit a batch, and find out what became of it; None if it is not in the log, and can no longer get there.

    Costs as `commit`; 4 GETs and 1 PUT more if its outcome is unknown. Raises what `commit` does: an
    OutcomeUnknownError only if `settle` cannot tell either.
    """
    try:
        return commit(pending)
    except OutcomeUnknownError as error:
        if error.commit_id is None:
            raise
        try:
            fate = settle(error.commit_id)
        except WormError as failure:
            raise error from failure
        if fate is Fate.UNKNOWN:
            raise
        known = CommitId.parse(error.commit_id)
        return None if fate is Fate.NOT_COMMITTED else CommitResult(known.slot, Misc(0), (), error.commit_id)


@contextmanager
def landed(what: str, committed: CommitResult | None, *, rest: str) -> Iterator[None]:
    """Run what follows an entry; `rest` says how it is done if it fails. Without an entry errors are what they are.

    UnavailableError would say that nothing was written: an OutcomeUnknownError with the commit id of the entry is
    raised instead of it, and instead of one about something else.
    """
    try:
        yield
    except (UnavailableError, OutcomeUnknownError) as error:
        if committed is None or not committed.id:
            raise
        raise OutcomeUnknownError(
            what,
            reason=f"entry {committed.number} is in the log, but what follows it failed: {error}",
            fix=f"do not repeat it: {rest}",
            key=error.key,
            commit_id=committed.id,
        ) from error
