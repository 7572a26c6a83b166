"""Transactions of a session, and the clock of the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wormdb.server.commands import Command
from wormdb.server.replies import Fault

if TYPE_CHECKING:
    from wormdb.server.session import Session

__all__ = ["TRANSACTION_COMMANDS"]


def begin(session: Session, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the words
    """BEGIN."""
    if session.transaction is not None:
        raise Fault("there is already a transaction in progress.", "TRANSACTION")
    raise Fault("transactions are not served by this version: each command is one.", "TRANSACTION")


def refuse(session: Session, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes both
    """COMMIT, ROLLBACK and others without BEGIN."""
    raise Fault("there is no transaction in progress.", "TRANSACTION")


def tick(session: Session, words: list[bytes]) -> Any:
    """TICK [FRESH]."""
    database = session.service.database
    if len(words) > 1:
        if words[1].upper() != b"FRESH":
            raise Fault(f"Unknown '{words[1].decode('utf-8', 'replace').upper()}' argument")
        database.store.probe(".worm.schema.json")
    return int(database._ledgers.misc.next())  # noqa: SLF001 - this package is a part of the database


def _one(name: str, syntax: str, summary: str, run: Any, most: int | None = 0, least: int = 0) -> Command:
    return Command(name, syntax, summary, run, least=least, most=most, place="thread", group="transaction")


TRANSACTION_COMMANDS: Final = (
    _one("BEGIN", "", "Refused: transactions are not served yet.", begin),
    _one("COMMIT", "[RETURNING committed-version|versionstamp …]", "Commit the transaction.", refuse, None),
    _one("ROLLBACK", "", "Give up the transaction.", refuse),
    _one("GETREADVERSION", "", "The state that the transaction reads.", refuse),
    _one("GETAPPROXIMATESIZE", "", "How much the transaction writes, about.", refuse),
    _one("SNAPSHOTREAD", "ON|OFF", "Leave what is only read out of the check for conflicts.", refuse, 1, 1),
    _one("TICK", "[FRESH]", "A number that grows with time, greater than those of all commits seen.", tick, 1),
)
