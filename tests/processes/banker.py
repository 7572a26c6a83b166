"""A process that transfers money until its input ends: python -m tests.processes.banker URL NAME FOLDER SECONDS.

A transfer is one transaction over up to three collections: two accounts, and a receipt that tells who paid whom how
much. Each thread begins it in its journal, does it, and notes what it was told; now and then it looks at all accounts
at one moment.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.processes.journal import Journal, read_deeds
from tests.processes.workers import PAUSE_SECONDS, work_until_the_end
from wormdb.errors import ConflictError, OutcomeUnknownError, SnapshotTooOldError, UnavailableError
from wormdb.system.clock import SeededChance, SystemClock

if TYPE_CHECKING:
    from collections.abc import Mapping

    import wormdb

__all__ = ["ACCOUNTS", "BALANCE", "BANKS", "RECEIPTS", "THREADS", "added_up", "check_moment"]

BANKS = ("bank/east", "bank/north", "bank/west")
RECEIPTS = "bank/receipts"
ACCOUNTS = tuple(f"account-{number}" for number in range(8))
BALANCE = 1_000
THREADS = 4
LOOKS_EACH = 5


def added_up(receipts: list[dict[str, Any]]) -> Counter[tuple[str, str]]:
    """What accounts should hold after some receipts."""
    balances = Counter({(bank, account): BALANCE for bank in BANKS for account in ACCOUNTS})
    for receipt in receipts:
        balances[tuple(receipt["payer"])] -= receipt["amount"]
        balances[tuple(receipt["payee"])] += receipt["amount"]
    return balances


def check_moment(moment: Any, *, receipts: bool) -> None:
    """Raise AssertionError unless all the money is there, and where the receipts of the same moment say."""
    found = {(bank, each.id): each["balance"] for bank in BANKS for each in moment[bank].find({})}
    assert sum(found.values()) == BALANCE * len(BANKS) * len(ACCOUNTS), f"the sum is {sum(found.values())}: {found}"
    if receipts:
        expected = added_up([dict(receipt) for receipt in moment[RECEIPTS].find({})])
        wrong = {key: (found[key], expected[key]) for key in found if found[key] != expected[key]}
        assert not wrong, f"balances that are not what the receipts of the same moment say: {wrong}"


class Banker:
    """One thread's work."""

    def __init__(self, db: wormdb.Database, name: str, folder: Path) -> None:
        path = folder / f"{name}.jsonl"
        self._db: Any = db
        self._name = name
        self._count = len(read_deeds(path))
        self._journal = Journal(path)
        self._chance = SeededChance(int.from_bytes(f"{name} {self._count}".encode()))

    def step(self) -> None:
        token = f"{self._name}-{self._count}"
        self._count += 1
        if self._count % LOOKS_EACH == 0:
            self._look()
        self._journal.note(token=token, verb="transfer", target=token)
        try:
            self._transfer(token)
        except OutcomeUnknownError as error:
            self._journal.note(token=token, outcome="unknown", reason=str(error))
            self._journal.note(token=token, outcome=self._resolve(error))
        except (UnavailableError, ConflictError, SnapshotTooOldError) as error:
            self._journal.note(token=token, outcome="refused", reason=f"{type(error).__name__}: {error}")
        else:
            self._journal.note(token=token, outcome="acknowledged")

    def _one(self, choices: tuple[str, ...]) -> str:
        return choices[int(self._chance.fraction() * len(choices))]

    def _transfer(self, token: str) -> None:
        payer, payee = ((self._one(BANKS), self._one(ACCOUNTS)) for _ in range(2))
        amount = 1 + int(self._chance.fraction() * 20)
        with self._db.transaction() as tx:
            for (bank, account), step in ((payer, -amount), (payee, amount)):
                document = tx[bank].find_by_id(account)
                document["balance"] += step
                tx[bank].save(document)
            tx[RECEIPTS].insert({"id": token, "payer": list(payer), "payee": list(payee), "amount": amount})

    def _look(self) -> None:
        try:
            with self._db.snapshot([*BANKS, RECEIPTS]) as moment:
                check_moment(moment, receipts=self._chance.fraction() < 0.3)
        except (UnavailableError, SnapshotTooOldError, ConflictError):
            return

    def _resolve(self, error: OutcomeUnknownError) -> str:
        while True:
            try:
                return str(self._db.resolve(error.commit_id, settle=True))
            except UnavailableError:
                SystemClock().sleep(self._chance.fraction() * PAUSE_SECONDS)


def judge_receipts(deeds: Mapping[str, Any], receipts: list[dict[str, Any]]) -> list[str]:
    """What is wrong with a run: transfers that were acknowledged and are not there, or refused and are."""
    there = {receipt["id"] for receipt in receipts}
    problems = [f"{receipt} was begun by no journal" for receipt in sorted(there - set(deeds))]
    for token, deed in deeds.items():
        about = f"{token}, {' then '.join(deed.told) or 'never answered'}"
        if deed.outcome in {"acknowledged", "committed"} and token not in there:
            problems.append(f"{about}: lost")
        if deed.outcome in {"refused", "not committed"} and token in there:
            problems.append(f"{about}: it happened ({deed.reason})")
    return problems


def main(url: str, name: str, folder: Path, seconds: float) -> int:
    return work_until_the_end(url, name, seconds, threads=THREADS, hire=lambda db, own: Banker(db, own, folder))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), float(sys.argv[4])))
