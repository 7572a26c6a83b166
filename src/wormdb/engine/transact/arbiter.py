"""What to do about transactions that are pending: look at their records, wait for them, give up on the abandoned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wormdb.errors import OutcomeUnknownError, UnavailableError
from wormdb.format.transaction import transaction_began
from wormdb.settings import TRANSACTION_ABANDONED_SECONDS
from wormdb.system.deadline import pause

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from wormdb.engine.state.prepared import Decisions, Prepared
    from wormdb.engine.transact.records import RecordAnswer, TransactionRecords
    from wormdb.storage.pool import Pool
    from wormdb.system.clock import Chance, Clock
    from wormdb.system.types import StoreTime

__all__ = ["Arbiter"]

WAIT_SECONDS_FIRST: Final = 0.002
WAIT_SECONDS_MAX: Final = 0.1
OLD_MS: Final = 60_000
"""A transaction that began so long ago and is not decided was abandoned."""


@dataclass(frozen=True, slots=True)
class Arbiter:
    """Finds out what became of transactions. Thread-safe."""

    records: TransactionRecords
    decisions: Decisions
    pool: Pool
    clock: Clock
    chance: Chance

    def look(self, pending: Iterable[Prepared]) -> StoreTime | None:
        """Learn of each transaction that is not known to be decided whether it is. 1 GET each, side by side.

        None for those that this process coordinates, until it has begun to decide them.

        Returns the store's time of the last answer; None if it shows none.
        """
        decisions = self.decisions
        unknown = [one.id for one in pending if decisions(one.id) is None and one.id not in decisions.unsent]
        answers = list(map(self.records.read, unknown)) if len(unknown) == 1 else self._read_all(unknown)
        for transaction, answer in zip(unknown, answers, strict=True):
            if answer.committed is not None:
                self.decisions.learn(transaction, committed=answer.committed)
        return max((answer.time for answer in answers if answer.time is not None), default=None)

    def clear(self, by: Sequence[Prepared], until: float) -> bool:
        """Wait until it is known what became of each of some pending transactions; whether it is, at `until`.

        One that is not decided for TRANSACTION_ABANDONED_SECONDS after this process first met it is aborted, or at once
        if it began OLD_MS before, by the store's time: that is always safe, and only a matter of patience. 1 GET for
        each and each look, none for those of this process, and 1 PUT to abort one. Raises UnavailableError.
        """
        wait = WAIT_SECONDS_FIRST
        while True:
            time = self.look([one for one in by if one.id not in self.decisions.own])
            open_ = [one for one in by if self.decisions(one.id) is None]
            now = self.clock.monotonic()
            old = [
                one
                for one in open_
                if now - self.decisions.met(one.id, now) >= TRANSACTION_ABANDONED_SECONDS
                or (time is not None and time - transaction_began(one.id) >= OLD_MS)
            ]
            for one in old:
                self._try_abort(one, is_last=now >= until)
            if all(self.decisions(one.id) is not None for one in open_):
                return True
            if now >= until:
                return False
            pause(self.clock, min(wait * (0.5 + self.chance.fraction()), max(until - now, 0.0)))
            wait = min(2 * wait, WAIT_SECONDS_MAX)

    def judge(self, pending: Sequence[Prepared], *, before: str = "") -> bool:
        """Learn what became of some pending transactions, and abort the abandoned; whether one of them is decided.

        So are those whose ids are below `before`. 1 GET for each not known to be decided, and 1 PUT to abort one.
        Raises UnavailableError.
        """
        if not pending:
            return False
        self.look(pending)
        now = self.clock.monotonic()
        for one in pending:
            if self.decisions(one.id) is None:
                age = now - self.decisions.met(one.id, now)
                if one.id < before or age >= TRANSACTION_ABANDONED_SECONDS:
                    self.abort(one)
        return any(self.decisions(one.id) is not None for one in pending)

    def abort(self, one: Prepared) -> bool:
        """Have a transaction aborted, unless it is decided; whether it committed. Costs as `TransactionRecords.decide`.

        Raises UnavailableError.
        """
        try:
            committed = self.records.decide(
                one.id, one.event.participants, committed=False, deadline=self.clock.monotonic()
            )
        except OutcomeUnknownError as error:
            raise UnavailableError(error.what, reason=error.reason, fix="retry", key=error.key) from error
        self.decisions.learn(one.id, committed=committed)
        return committed

    def _try_abort(self, one: Prepared, *, is_last: bool) -> None:
        try:
            self.abort(one)
        except UnavailableError:
            if is_last:
                raise

    def _read_all(self, transactions: Sequence[str]) -> list[RecordAnswer]:
        return list(self.pool.map(self.records.read, transactions))
