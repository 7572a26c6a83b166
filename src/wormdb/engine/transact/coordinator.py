"""Commit one transaction to several collections: prepare it in each log side by side, then decide.

1. Each collection gets an entry that prepares it, checked against the state that it follows: k PUTs, one round.
2. When all of them are known to be in their logs, the record says that it committed: 1 PUT, the commit point.
3. The entries that finish it come later, with the next entry of any writer: whatever reads or writes meanwhile looks
   at the record.

If a collection refuses it, or an answer stays away, it is aborted by its record, so that what it prepared elsewhere
holds up no other writer for long. Only the coordinator may say that it committed: if that was not sent, it never will.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from wormdb.engine.commit.operations import Guards, Pending, Prepare
from wormdb.engine.commit.reads import ReadGuard
from wormdb.engine.transact.records import commit_id_of, is_timely
from wormdb.errors import OutcomeUnknownError, TransactionConflictError, UnavailableError, WormError
from wormdb.format.transaction import new_transaction_id
from wormdb.settings import COMMIT_SECONDS
from wormdb.system.deadline import Deadline, within

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from wormdb.engine.commit.attempt import CommitResult
    from wormdb.engine.commit.reads import ReadSet
    from wormdb.engine.state.prepared import Decisions
    from wormdb.engine.transact.records import TransactionRecords
    from wormdb.format.change import LoggedChange
    from wormdb.storage.pool import Pool
    from wormdb.system.clock import Chance, Clock
    from wormdb.system.types import LogNumber, StoreTime

__all__ = ["Coordinator", "Participant", "ParticipantLedger", "TransactionResult"]

log = logging.getLogger(__name__)

ABORT_SECONDS: Final = 1.0
"""How long a coordinator tries to say that its transaction is aborted, before it leaves that to others."""


class ParticipantLedger(Protocol):
    """What a coordinator needs of a collection."""

    @property
    def collection(self) -> str:
        """Its folder."""
        ...

    @property
    def time(self) -> StoreTime | None:
        """The store's time as this process last heard it here; None if the store shows none."""
        ...

    def batch_id(self) -> str:
        """A new id for a batch."""
        ...

    def commit(self, pending: Pending, *, seconds: float = ...) -> CommitResult:
        """Commit a batch to this collection alone."""
        ...

    def prepare(self, pending: Pending, *, seconds: float = ...) -> CommitResult:
        """Have a batch prepared. Raises what it is refused for."""
        ...


@dataclass(frozen=True, slots=True)
class Participant:
    """One collection of a transaction: what is to be written there, None if nothing, and what was read of it."""

    ledger: ParticipantLedger
    pending: Pending | None
    reads: ReadSet | None = None

    def guarded(self) -> Pending:
        """The batch, which what was read guards too."""
        pending = self.pending or Pending(self.ledger.batch_id())
        if self.reads is None:
            return pending
        guard = ReadGuard(self.ledger.collection.rstrip("/"), self.reads)
        return replace(pending, guard=Guards.of(pending.guard, guard), reads=self.reads)


@dataclass(frozen=True, slots=True)
class TransactionResult:
    """A transaction that committed."""

    id: str
    """Of the transaction; empty if it had one collection, and was a batch there."""
    numbers: dict[str, LogNumber]
    """By folder the entry that prepared it; of a single collection the entry that has it."""
    changes: dict[str, tuple[LoggedChange, ...]]
    """By folder what it changed."""
    commit_id: str = ""
    """As `resolve` takes it; empty if nothing had to be written."""


@dataclass(frozen=True, slots=True)
class Coordinator:
    """Commits transactions, each in the thread of its caller. Thread-safe."""

    records: TransactionRecords
    decisions: Decisions
    pool: Pool
    """Runs the commits to several collections side by side. Its threads wait for those of the requests' pool."""
    clock: Clock
    chance: Chance

    def commit(self, participants: Sequence[Participant], *, seconds: float = COMMIT_SECONDS) -> TransactionResult:
        """Commit what is to be written to all participants, or nothing, while what was read of all is as it was.

        k + 1 PUTs in two rounds for k collections without competing writers, and k later; 1 PUT for one. Raises
        TransactionConflictError, what a batch may be refused for, UnavailableError if it did not commit by the
        deadline, and OutcomeUnknownError if that cannot be told: its commit id begins with `tx-`.
        """
        ordered = sorted(participants, key=lambda each: each.ledger.collection)
        assert len({each.ledger.collection for each in ordered}) == len(ordered) > 0, "each collection once"
        if len(ordered) == 1:
            return self._commit_alone(ordered[0], seconds)
        times = [time for each in ordered if (time := each.ledger.time) is not None]
        transaction = new_transaction_id(min(times, default=self.clock.now_ms()), self.chance)
        prepare = Prepare(transaction, tuple(each.ledger.collection for each in ordered))
        self.decisions.unsent.add(transaction)
        self.decisions.own.add(transaction)
        try:
            results, committed = self._decide(ordered, prepare, seconds)
        finally:
            self.decisions.unsent.discard(transaction)
            self.decisions.own.discard(transaction)
        if not committed:
            raise TransactionConflictError(
                f"transaction {transaction}", reason="another writer aborted it, because it took too long"
            )
        return TransactionResult(
            transaction,
            {each.ledger.collection: one.number for each, one in zip(ordered, results, strict=True)},
            {each.ledger.collection: one.changes for each, one in zip(ordered, results, strict=True)},
            commit_id_of(transaction),
        )

    def _decide(
        self, participants: Sequence[Participant], prepare: Prepare, seconds: float
    ) -> tuple[list[CommitResult], bool]:
        """Have all participants prepared, and create the record; what became of them, and whether it committed."""
        with within(Deadline(self.clock, seconds, "commit_seconds", "steps", is_patient=True)) as deadline:
            assert deadline is not None
            outcomes = self._prepare_all(participants, prepare, seconds)
            results = [each for each in outcomes if not isinstance(each, WormError)]
            errors = [each for each in outcomes if isinstance(each, WormError)]
            if errors:
                is_prepared = results or any(isinstance(each, OutcomeUnknownError) for each in errors)
                self._give_up(prepare, errors, is_prepared=bool(is_prepared))
            if not all(is_timely(prepare.tx, each.time) for each in results):
                late = UnavailableError(f"transaction {prepare.tx}", reason="its collections answered too late")
                self._give_up(prepare, [late], is_prepared=True)
            until = self.clock.monotonic() + deadline.left
            self.decisions.unsent.discard(prepare.tx)  # from now on other processes may know more
            committed = self.records.decide(prepare.tx, prepare.participants, committed=True, deadline=until)
        self.decisions.learn(prepare.tx, committed=committed)
        return results, committed

    def _commit_alone(self, one: Participant, seconds: float) -> TransactionResult:
        """One collection needs no record: a batch is all or nothing."""
        result = one.ledger.commit(one.guarded(), seconds=seconds)
        folder = one.ledger.collection
        return TransactionResult("", {folder: result.number}, {folder: result.changes}, result.id)

    def _prepare_all(
        self, participants: Sequence[Participant], prepare: Prepare, seconds: float
    ) -> list[CommitResult | WormError]:
        """What became of each participant; an error if that is not told in time, of all of them together."""
        try:
            return list(self.pool.map(lambda each: self._prepare(each, prepare, seconds), participants))
        except UnavailableError as error:
            # Threads may still be at it: what they prepare is of a transaction that is aborted.
            return [OutcomeUnknownError(error.what, reason=error.reason, key=error.key)]

    def _prepare(self, one: Participant, prepare: Prepare, seconds: float) -> CommitResult | WormError:
        """Have a participant prepared; what it brings of a definition is committed before, whatever comes of it."""
        pending = one.guarded()
        try:
            if pending.events:
                first = Pending(one.ledger.batch_id(), events=pending.events, guard=pending.guard, body=pending.body)
                one.ledger.commit(first, seconds=seconds)
            return one.ledger.prepare(replace(pending, events=(), prepare=prepare), seconds=seconds)
        except WormError as error:
            return error

    def _give_up(self, prepare: Prepare, errors: Sequence[WormError], *, is_prepared: bool) -> NoReturn:
        """Abort what is prepared, and raise the error that tells most."""
        if is_prepared:
            until = self.clock.monotonic() + ABORT_SECONDS
            try:
                committed = self.records.decide(prepare.tx, prepare.participants, committed=False, deadline=until)
                self.decisions.learn(prepare.tx, committed=committed)
            except WormError as error:
                # It will not commit: only this process could say so. Those in its way abort it.
                log.info("transaction %s is left to others to abort: %s", prepare.tx, error)
        plain = [each for each in errors if not isinstance(each, OutcomeUnknownError)]
        told = next((each for each in plain if not isinstance(each, UnavailableError)), (plain or errors)[0])
        if isinstance(told, OutcomeUnknownError):
            # Unknown is whether it was prepared, and not whether it committed.
            raise UnavailableError(
                f"transaction {prepare.tx}", reason=f"it did not commit: {told.reason}", fix="retry", key=told.key
            ) from told
        raise told
