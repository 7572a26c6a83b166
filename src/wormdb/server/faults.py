"""Errors of the database as replies: the prefix that programs look at, and one line for people."""

from __future__ import annotations

from typing import Any, Final

from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    OutcomeUnknownError,
    PermissionDeniedError,
    UnavailableError,
    UniqueViolationError,
    WormError,
)
from wormdb.format import json
from wormdb.format.kinds import ObjectId
from wormdb.server.replies import Fault

__all__ = ["fault_of", "no_bucket", "unknown_argument", "unsupported_argument", "wrong_count"]

_WRONG_TYPE: Final = "the index takes this type only"


def fault_of(error: WormError) -> Fault:
    """The reply for an error that a call raised."""
    match error:
        case UniqueViolationError():
            return Fault(f"Duplicate key: '{error.field}' {_shown(error.value)}", "DUPLICATEKEY")
        case AlreadyExistsError() if error.key is not None:
            return Fault(f"Duplicate key: _id '{_shown(json.decode(error.key.encode(), name='id'))}'", "DUPLICATEKEY")
        case ConflictError():
            return Fault(
                f"Transaction not committed due to conflict with another transaction: {error}", "NOT_COMMITTED"
            )
        case OutcomeUnknownError():
            named = f" {error.commit_id}" if error.commit_id is not None else ""
            return Fault(f"Transaction may or may not have committed:{named} {error}", "COMMIT_UNKNOWN_RESULT")
        case PermissionDeniedError():
            return Fault(str(error), "NOPERM")
        case UnavailableError():
            return Fault(str(error), "TRYAGAIN")
        case _ if error.reason == _WRONG_TYPE:
            return Fault(f"Index type mismatch: {error.what}", "INDEXTYPE_MISMATCH")
        case _:
            return Fault(str(error))


def _shown(value: Any) -> str:
    if isinstance(value, ObjectId | str):
        return str(value)
    try:
        return json.encode(value).decode()
    except WormError:
        return repr(value)


def wrong_count(name: str) -> Fault:
    """Too few or too many arguments."""
    return Fault(f"wrong number of arguments for '{name}' command")


def unknown_argument(word: str) -> Fault:
    """A word that is no option of any command."""
    return Fault(f"Unknown '{word}' argument")


def unsupported_argument(word: str) -> Fault:
    """An option of other commands."""
    return Fault(f"'{word}' is an unsupported argument")


def no_bucket(name: str) -> Fault:
    """A bucket that is not there."""
    return Fault(f"No such bucket: '{name}'", "NOSUCHBUCKET")
