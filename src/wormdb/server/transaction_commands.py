"""Transactions of a session, and the clock of the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wormdb.server.commands import Command
from wormdb.server.replies import OK, ErrorReply
from wormdb.server.session import SessionTransaction

if TYPE_CHECKING:
    from wormdb.api.transaction import Isolation, Transaction
    from wormdb.server.session import ClientSession

__all__ = ["TRANSACTION_COMMANDS"]


def _open(session: ClientSession) -> Transaction:
    if session.transaction is None:
        raise ErrorReply("there is no transaction in progress.", "TRANSACTION")
    return session.transaction.open


def begin(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the words
    """BEGIN."""
    if session.transaction is not None:
        raise ErrorReply("there is already a transaction in progress.", "TRANSACTION")
    isolation: Isolation = "snapshot" if session.is_snapshot_read else "serializable"
    # Threads of a server work for all sessions; a session has one command at a time.
    made = session.service.database.transaction(isolation=isolation, is_bound=False)
    session.transaction = SessionTransaction(made)
    return OK


def commit(session: ClientSession, words: list[bytes]) -> Any:
    """COMMIT [RETURNING committed-version|versionstamp …]."""
    wanted = _returning(words[1:])
    transaction = _open(session)
    try:
        done = transaction.commit()
    finally:
        session.end_transaction()
    # Each collection has a log of its own: of several the greatest number is told, as GETREADVERSION does.
    number = max((each.since for each in done.collections.values()), default=-1)
    told = {"committed-version": number, "versionstamp": done.id or None}
    found = [told[name] for name in wanted]
    return OK if not found else found[0] if len(found) == 1 else found


def _returning(words: list[bytes]) -> list[str]:
    if not words:
        return []
    names = [word.decode("utf-8", "replace").lower() for word in words]
    if names[0] != "returning" or len(names) == 1:
        raise ErrorReply(
            f"Unknown '{names[0].upper()}' argument" if names[0] != "returning" else "RETURNING needs a name"
        )
    for name in names[1:]:
        if name not in ("committed-version", "versionstamp"):
            raise ErrorReply(f"Unknown '{name.upper()}' argument")
    return names[1:]


def rollback(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the words
    """ROLLBACK."""
    _open(session)
    session.end_transaction()
    return OK


def read_version(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the words
    """GETREADVERSION."""
    return max(_open(session).numbers.values(), default=0)


def approximate_size(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the words
    """GETAPPROXIMATESIZE."""
    return _open(session).size


def snapshot_read(session: ClientSession, words: list[bytes]) -> Any:
    """SNAPSHOTREAD ON|OFF."""
    choice = words[1].upper()
    if choice not in (b"ON", b"OFF"):
        raise ErrorReply(f"Unknown '{choice.decode('utf-8', 'replace')}' argument")
    session.is_snapshot_read = choice == b"ON"
    if session.transaction is not None:
        session.transaction.open.isolation = "snapshot" if session.is_snapshot_read else "serializable"
    return OK


def tick(session: ClientSession, words: list[bytes]) -> Any:
    """TICK [FRESH]."""
    database = session.service.database
    if len(words) > 1:
        if words[1].upper() != b"FRESH":
            raise ErrorReply(f"Unknown '{words[1].decode('utf-8', 'replace').upper()}' argument")
        database.store.probe(".worm.schema.json")
    return int(database._ledgers.misc.next())  # noqa: SLF001 - this package is a part of the database


def _one(name: str, syntax: str, summary: str, run: Any, most: int | None = 0, least: int = 0) -> Command:
    return Command(name, syntax, summary, run, least=least, most=most, place="thread", group="transaction")


TRANSACTION_COMMANDS: Final = (
    _one("BEGIN", "", "Begin a transaction over any buckets and namespaces.", begin),
    _one("COMMIT", "[RETURNING committed-version|versionstamp …]", "Commit the transaction.", commit, None),
    _one("ROLLBACK", "", "Give up the transaction.", rollback),
    _one("GETREADVERSION", "", "The log number of the state that the transaction reads.", read_version),
    _one("GETAPPROXIMATESIZE", "", "How many bytes the transaction writes, about.", approximate_size),
    _one("SNAPSHOTREAD", "ON|OFF", "Leave what is only read out of the check for conflicts.", snapshot_read, 1, 1),
    _one("TICK", "[FRESH]", "A number that grows with time, greater than those of all commits seen.", tick, 1),
)
