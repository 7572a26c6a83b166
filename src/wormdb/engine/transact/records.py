"""Whether a transaction committed: one object, created if absent, and never changed.

Who may create it: its coordinator says "committed" when it knows that all collections have it prepared; any process
may say "aborted" at any time before. Of two that create it one wins, and what is there is true.

Records do not stay for ever, and a process may sleep for as long as it likes before it creates one. So garbage
collection raises a floor over a transaction before it removes its record: below it records mean nothing, and what is
still pending there never committed. It does so an hour after the transaction began, by the store's time, which is in
its id; so the floor need be read only for one that is old. And a coordinator says "committed" only if all its
collections answered soon after it began: so what garbage collection finds pending is all that can still commit.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, assert_never

from wormdb.engine.log.paths import TRANSACTION_FLOOR, transaction_key
from wormdb.errors import OutcomeUnknownError, UnavailableError, WormError
from wormdb.format.transaction import (
    TransactionRecord,
    decode_floor,
    decode_record,
    encode_record,
    transaction_began,
)
from wormdb.settings import TRANSACTION_LEASE_MS, TRANSACTION_RECORD_MS
from wormdb.storage.readback import Landed, Lost, NothingThere, Unknown, put_classified
from wormdb.storage.store import IfAbsent
from wormdb.system.clock import new_write_id
from wormdb.system.deadline import pause
from wormdb.system.types import WriteId

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.engine.log.clock import MiscClock
    from wormdb.storage.store import Store
    from wormdb.system.clock import Chance, Clock
    from wormdb.system.types import StoreTime

__all__ = ["RecordAnswer", "TransactionRecords", "commit_id_of", "is_timely", "is_young"]

log = logging.getLogger(__name__)

YOUNG_MS: Final = TRANSACTION_RECORD_MS // 2
"""The floor is not above a transaction that began so little before an answer of the store."""
PAUSE_SECONDS: Final = 0.2
CONTENT_TYPE: Final = "application/octet-stream"


def commit_id_of(transaction: str) -> str:
    """What a transaction is called by a caller who asks for it later."""
    return f"tx-{transaction}"


def is_young(transaction: str, time: StoreTime | None) -> bool:
    """Whether a transaction began so little before an answer of the store that its record cannot be removed yet."""
    return time is not None and time - transaction_began(transaction) <= YOUNG_MS


def is_timely(transaction: str, time: StoreTime | None) -> bool:
    """Whether an answer came so soon that the transaction may commit. A store that shows no time keeps its records."""
    return time is None or time - transaction_began(transaction) <= TRANSACTION_LEASE_MS


@dataclass(frozen=True, slots=True)
class RecordAnswer:
    """What the store said of a record: None if it is not decided; and when it said so."""

    committed: bool | None
    time: StoreTime | None


@dataclass(frozen=True, slots=True)
class TransactionRecords:
    """The records of a database."""

    store: Store
    misc: MiscClock
    clock: Clock
    chance: Chance

    def read(self, transaction: str) -> RecordAnswer:
        """Whether a transaction committed that is pending in a state just read. 1 GET, and 1 if it began long ago.

        Raises CorruptionError.
        """
        key = transaction_key(transaction)
        probe = self.store.probe(key)
        committed: bool | None = None
        if probe.found is not None:
            committed = decode_record(probe.found.body, name=key, transaction=transaction).committed
        if committed is not False and not self.is_above(transaction, probe.time):
            committed = False
        return RecordAnswer(committed, probe.time)

    def is_above(self, transaction: str, time: StoreTime | None) -> bool:
        """Whether what the store said at `time` of a transaction's record counts. 1 GET if that began long before.

        The floor is read after it: what is not below it now was not below it then.
        """
        if is_young(transaction, time):
            return True
        return transaction >= self.floor()

    def decide(self, transaction: str, participants: Sequence[str], *, committed: bool, deadline: float) -> bool:
        """Create the record if there is none; whether the transaction committed, as the one that is there says.

        1 PUT; 1 GET more if another created it, and for each lost answer. Raises UnavailableError if it was certainly
        not created by the deadline, which is on the monotonic clock, OutcomeUnknownError if that cannot be told.
        """
        key = transaction_key(transaction)
        record = TransactionRecord(
            tx=WriteId(transaction),
            write_id=new_write_id(self.chance),
            misc=self.misc.next(),
            committed=committed,
            participants=tuple(participants),
        )
        body = encode_record(record)
        refused_only = True
        while True:
            outcome = put_classified(self.store, key, body, IfAbsent(), content_type=CONTENT_TYPE)
            match outcome:
                case Landed(time=time):
                    return self._counts(record, time)
                case Lost(found=None):
                    raise self._unknown(transaction, "its record was there, and is gone")
                case Lost(found=found):
                    assert found is not None
                    return self._counts(decode_record(found.body, name=key, transaction=transaction), found.time)
                case NothingThere(cause=cause) | Unknown(cause=cause):
                    refused_only &= isinstance(outcome, NothingThere) and isinstance(cause, UnavailableError)
                    if self.clock.monotonic() >= deadline:
                        if refused_only:
                            raise cause
                        raise self._unknown(transaction, str(cause)) from cause
                    pause(self.clock, self.chance.fraction() * PAUSE_SECONDS)
                case _:
                    assert_never(outcome)

    def floor(self) -> str:
        """Below which id records may be gone; empty if none are. 1 GET; raises CorruptionError."""
        found = self.store.probe(TRANSACTION_FLOOR).found
        return "" if found is None else decode_floor(found.body, name=TRANSACTION_FLOOR).floor

    def fate(self, transaction: str, *, settle: bool, deadline: float) -> bool | None:
        """What became of a transaction, pending or not; None if that is not known. 2 GETs.

        With `settle` one that is not decided is aborted, as `decide` does. What was decided so long ago that its record
        may be gone is not known. Raises UnavailableError, also if it is not known whether it was settled.
        """
        found = self.store.probe(key := transaction_key(transaction)).found
        committed: bool | None = None
        if found is not None:
            committed = decode_record(found.body, name=key, transaction=transaction).committed
        elif settle:
            try:
                committed = self.decide(transaction, (), committed=False, deadline=deadline)
            except OutcomeUnknownError as error:
                # Unknown is whether the question was settled: it can be asked again.
                raise UnavailableError(error.what, reason=error.reason, fix="retry", key=error.key) from error
        # After it: what is not below the floor now was not removed when it was looked at.
        return None if transaction < self.floor() else committed

    def _counts(self, record: TransactionRecord, time: StoreTime | None) -> bool:
        """Whether its transaction committed, by a record that was there at `time`. Raises OutcomeUnknownError."""
        if record.committed:
            try:
                is_above = self.is_above(record.tx, time)
            except WormError as error:
                raise self._unknown(record.tx, f"its record is there, but may be a late one: {error}") from error
            if not is_above:
                # It landed where another may have been, which was removed since: by now only the logs tell.
                raise self._unknown(record.tx, "the answer came so late that its record may have been removed")
        log.debug("transaction %s is %s", record.tx, "committed" if record.committed else "aborted")
        return record.committed

    @staticmethod
    def _unknown(transaction: str, reason: str) -> OutcomeUnknownError:
        return OutcomeUnknownError(
            f"transaction {transaction}",
            reason=reason,
            fix="call resolve(commit_id, settle=True) before retrying: it may have committed",
            key=transaction_key(transaction),
            commit_id=commit_id_of(transaction),
        )
