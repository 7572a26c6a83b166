"""Whether a transaction committed: one object, created if absent, and never changed.

Who may create it: its coordinator says "committed" when it knows that all collections have it prepared; any process
may say "aborted" at any time before. Of two that create it one wins, and what is there is true.

Records do not stay for ever, and a process may sleep for as long as it likes before it creates one. So a record that
says "committed" counts only if it was written within a lease from the beginning of the transaction, which is in its id,
both by the store's time. After the lease what is missing is aborted for good, and records can be removed.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, assert_never

from wormdb.engine.log.paths import TRANSACTION_FLOOR, transaction_key
from wormdb.errors import NotFoundError, OutcomeUnknownError, UnavailableError
from wormdb.format.transaction import (
    TransactionRecord,
    decode_floor,
    decode_record,
    encode_record,
    transaction_began,
)
from wormdb.settings import TRANSACTION_LEASE_MS
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

__all__ = ["RecordAnswer", "TransactionRecords", "commit_id_of"]

log = logging.getLogger(__name__)

TIMELY_MS: Final = TRANSACTION_LEASE_MS // 2
"""An answer that came so soon is about a record within its lease, whatever the clocks of a store's machines say."""
DEAD_MS: Final = TRANSACTION_LEASE_MS * 3 // 2
"""A record that was not there so late will never count, for the same reason."""
PAUSE_SECONDS: Final = 0.2
CONTENT_TYPE: Final = "application/octet-stream"


def commit_id_of(transaction: str) -> str:
    """What a transaction is called by a caller who asks for it later."""
    return f"tx-{transaction}"


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
        """Whether a transaction committed. 1 GET, and 1 HEAD if it began long ago.

        It must be known to be pending somewhere at about the time of the answer: of one that is finished everywhere
        the record may be gone. Raises CorruptionError.
        """
        key = transaction_key(transaction)
        probe = self.store.probe(key)
        if probe.found is None:
            is_dead = probe.time is not None and probe.time - transaction_began(transaction) > DEAD_MS
            return RecordAnswer(False if is_dead else None, probe.time)
        record = decode_record(probe.found.body, name=key, transaction=transaction)
        return RecordAnswer(self._counts(record, probe.time), probe.time)

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
                    log.debug("transaction %s is %s", transaction, "committed" if committed else "aborted")
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
        """What became of a transaction, pending or not; None if that is not known. 2 GETs, and 1 HEAD if it is old.

        With `settle` one that is not decided is aborted, as `decide` does. What was decided so long ago that its record
        may be gone is not known.
        """
        committed = self.read(transaction).committed
        if committed is None and settle:
            committed = self.decide(transaction, (), committed=False, deadline=deadline)
        # After it: what the floor does not cover now was not removed when it was looked at.
        if not committed and transaction < self.floor():
            return None
        return committed

    def _counts(self, record: TransactionRecord, time: StoreTime | None) -> bool:
        """Whether a record that was there at `time` makes its transaction commit."""
        if not record.committed:
            return False
        began = transaction_began(record.tx)
        if time is None or time - began <= TIMELY_MS:
            return True  # a store that shows no time keeps its records
        try:
            written = self.store.head(transaction_key(record.tx)).modified
        except NotFoundError as error:
            raise self._unknown(record.tx, "its record was there, and is gone") from error
        return written - began <= TRANSACTION_LEASE_MS

    @staticmethod
    def _unknown(transaction: str, reason: str) -> OutcomeUnknownError:
        return OutcomeUnknownError(
            f"transaction {transaction}",
            reason=reason,
            fix="call resolve(commit_id, settle=True) before retrying: it may have committed",
            key=transaction_key(transaction),
            commit_id=commit_id_of(transaction),
        )
