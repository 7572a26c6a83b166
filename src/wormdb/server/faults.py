"""Errors of the database as replies: the prefix that programs look at, and one line for people."""

from __future__ import annotations

import re
from typing import Any, Final

from wormdb.errors import (
    AlreadyExistsError,
    BarrierError,
    ConflictError,
    OutcomeUnknownError,
    PermissionDeniedError,
    RemovedError,
    TransactionTooLargeError,
    TransactionTooOldError,
    UnavailableError,
    UniqueViolationError,
    WormError,
)
from wormdb.format import json
from wormdb.format.bson_types import bson_type_of, stored_in_model
from wormdb.format.kinds import ObjectId
from wormdb.server.index_names import shown_name
from wormdb.server.replies import ErrorReply

__all__ = ["being_removed", "fault_of", "no_bucket", "unknown_argument", "unsupported_argument", "wrong_count"]

_WRONG_TYPE: Final = "the index takes this type only"
_MISMATCH: Final = re.compile(r"index (\S+): (.+?)=(.*) is no (\w+)", re.DOTALL)
_NO_VECTOR: Final = re.compile(r"document .*: (.+?) is no vector of the index", re.DOTALL)
_WRONG_VECTORS: Final = (
    (re.compile(r"it must have ([\d,]+) numbers, not ([\d,]+)"), r"requires \1 dimensions but got \2"),
    (re.compile(r"it must be an array of numbers, not .*"), "must be an array"),
    (re.compile(r"(number \d+ must be a number, not .*)"), r"must contain only double elements: \1"),
)
"""Why a value is no vector, and how Kronotop says so."""
_PREFIXES: Final = (
    (TransactionTooOldError, "TRANSACTION_TOO_OLD"),
    (TransactionTooLargeError, "TRANSACTION_TOO_LARGE"),
    (BarrierError, "BARRIERNOTSATISFIED"),
    (PermissionDeniedError, "NOPERM"),
    (UnavailableError, "TRYAGAIN"),
)
"""What the message of an error begins with, where it is told as it is; the first that fits counts."""


def fault_of(error: WormError) -> ErrorReply:
    """The reply for an error that a call raised."""
    match error:
        case UniqueViolationError():
            return ErrorReply(f"Duplicate key: '{error.field}' {_shown(error.value)}", "DUPLICATEKEY")
        case AlreadyExistsError() if error.key is not None:
            return ErrorReply(
                f"Duplicate key: _id '{_shown(json.decode(error.key.encode(), name='id'))}'", "DUPLICATEKEY"
            )
        case ConflictError():
            return ErrorReply(
                f"Transaction not committed due to conflict with another transaction: {error}", "NOT_COMMITTED"
            )
        case OutcomeUnknownError():
            named = f" {error.commit_id}" if error.commit_id is not None else ""
            return ErrorReply(f"Transaction may or may not have committed:{named} {error}", "COMMIT_UNKNOWN_RESULT")
        case RemovedError():
            return being_removed(error.what.rstrip("/").rpartition("/")[2].rpartition(" ")[2])
        case _ if error.reason == _WRONG_TYPE:
            return ErrorReply(f"Index type mismatch: {_mismatch(error.what)}", "INDEXTYPE_MISMATCH")
        case _ if (refused := _NO_VECTOR.fullmatch(error.what)) is not None:
            return ErrorReply(f"Vector field '{refused[1]}' {_wrong_vector(error.reason)}")
        case _:
            return ErrorReply(str(error), next((each for kind, each in _PREFIXES if isinstance(error, kind)), "ERR"))


def _mismatch(what: str) -> str:
    found = _MISMATCH.fullmatch(what)
    if found is None:
        return what
    name, selector, value, alias = found.groups()
    kind = stored_in_model(alias).upper() if bson_type_of(alias) == alias else alias
    return f"index '{shown_name(name)}' expects '{kind}', but selector '{selector}' matched {value}"


def _wrong_vector(reason: str) -> str:
    for pattern, told in _WRONG_VECTORS:
        if found := pattern.fullmatch(reason):
            return found.expand(told).replace(",", "") if found.re.groups == 2 else found.expand(told)
    return f"cannot be indexed: {reason}"


def _shown(value: Any) -> str:
    if isinstance(value, ObjectId | str):
        return str(value)
    try:
        return json.encode(value).decode()
    except WormError:
        return repr(value)


def wrong_count(name: str) -> ErrorReply:
    """Too few or too many arguments."""
    return ErrorReply(f"wrong number of arguments for '{name}' command")


def unknown_argument(word: str) -> ErrorReply:
    """A word that is no option of any command."""
    return ErrorReply(f"Unknown '{word}' argument")


def unsupported_argument(word: str) -> ErrorReply:
    """An option of other commands."""
    return ErrorReply(f"'{word}' is an unsupported argument")


def being_removed(name: str) -> ErrorReply:
    """A bucket that was removed, and not purged yet."""
    return ErrorReply(f"Bucket '{name}' is being removed", "BUCKETBEINGREMOVED")


def no_bucket(name: str) -> ErrorReply:
    """A bucket that is not there."""
    return ErrorReply(f"No such bucket: '{name}'", "NOSUCHBUCKET")
