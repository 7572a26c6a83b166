"""The one tree of errors, its leaves sorted by what the caller does next.

WormError
├── InvalidRequestError       fix the call; nothing was written
│   ├── LimitExceededError    make the value smaller, or split it
│   │   └── TransactionTooLargeError  write less in one transaction
│   ├── MissingExtraError     install the named extra
│   ├── SchemaError           correct the schema; `problems` lists every mistake
│   ├── SchemaMismatchError   the database has another definition: apply yours, or use its own
│   └── ValidationError       correct the document; `problems` lists every field
├── NotFoundError             the thing does not exist
│   ├── ErasedError           the document was erased: nothing brings it back
│   └── RemovedError          the collection is being removed: finish that, or use another name
├── AlreadyExistsError        the thing exists already
│   └── UniqueViolationError  another document has this value of a unique index
├── ConflictError             read again, decide again, retry
│   └── TransactionConflictError  another writer changed what it read or wrote: run it again
├── SnapshotTooOldError       start again from the present state
│   └── TransactionTooOldError    a transaction was open for too long: run it again
├── PermissionDeniedError     get the credentials or the right
├── UnavailableError          nothing was done; retry later
│   └── BarrierError          other processes may still use it: retry later
├── OutcomeUnknownError       it may have happened: look before retrying
├── CorruptionError           bytes are damaged: restore or rebuild the object
├── UnsupportedFormatError    written by a newer wormdb: upgrade
├── UnsupportedStoreError     the store cannot keep our promises: use another
└── ClosedError               open it again

Every error says what, why and the fix. The facts a program needs are fields: `key` names the
object, `reason` says why without the surrounding text, `fix` says what to do.
Messages and fields never hold secrets: stores pass key names, not URLs with signatures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "AlreadyExistsError",
    "BarrierError",
    "ClosedError",
    "ConflictError",
    "CorruptionError",
    "ErasedError",
    "InvalidRequestError",
    "LimitExceededError",
    "MissingExtraError",
    "NotFoundError",
    "OutcomeUnknownError",
    "PermissionDeniedError",
    "Problem",
    "RemovedError",
    "SchemaError",
    "SchemaMismatchError",
    "SnapshotTooOldError",
    "TransactionConflictError",
    "TransactionTooLargeError",
    "TransactionTooOldError",
    "UnavailableError",
    "UniqueViolationError",
    "UnsupportedFormatError",
    "UnsupportedStoreError",
    "ValidationError",
    "WormError",
]


NAMED_CHARS_MAX = 1_000
"""Of what a message calls the thing that it is about."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake of several: where it is, why it is one, and what to do about it."""

    path: str
    reason: str
    fix: str = ""
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        text = f"{_shortened(self.path)}: {self.reason}" if self.path else self.reason
        return f"{text} ({self.fix})" if self.fix else text


def _shortened(text: str) -> str:
    """A name or path that a caller gave may be of any length; a message that is logged may not."""
    if len(text) <= NAMED_CHARS_MAX:
        return text
    half = NAMED_CHARS_MAX // 2
    return f"{text[:half]} … {text[-half:]}"


class WormError(Exception):
    """Root of everything wormdb raises on purpose."""

    default_fix = ""

    def __init__(self, what: str, *, reason: str = "", fix: str = "", key: str | None = None) -> None:
        """`what` failed, because of `reason`; do `fix`. `key` is the object it is about."""
        self.what = what
        self.reason = reason
        self.fix = fix or self.default_fix
        self.key = key
        super().__init__(_shortened(what))

    def __str__(self) -> str:
        what = _shortened(self.what)
        text = f"{what}: {self.reason}" if self.reason else what
        return f"{text} ({self.fix})" if self.fix else text

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions with keyword arguments do not pickle by default, and Spark
        # workers and process pools send errors home by pickle.
        return (_rebuild, (type(self), dict(self.__dict__)))


def _rebuild(kind: type[WormError], state: dict[str, object]) -> WormError:
    error = kind.__new__(kind, state["what"])
    error.__dict__.update(state)
    return error


class InvalidRequestError(WormError):
    """The call cannot work as written; nothing was written. Fix the call.

    `problems` holds every mistake where there can be several; the message shows the first.
    """

    def __init__(
        self,
        what: str,
        *,
        reason: str = "",
        fix: str = "",
        key: str | None = None,
        problems: Iterable[Problem] = (),
    ) -> None:
        """As WormError; without a `reason` the first of `problems` is the reason and the fix."""
        self.problems = tuple(problems)
        if self.problems and not reason:
            first, more = self.problems[0], len(self.problems) - 1
            reason = f"{_shortened(first.path)}: {first.reason}" if first.path else first.reason
            reason += f", and {more} more problem{'s' if more > 1 else ''}" if more else ""
            fix = fix or first.fix
        super().__init__(what, reason=reason, fix=fix, key=key)


class LimitExceededError(InvalidRequestError):
    """A value is over a named limit of `wormdb.settings`. Make it smaller, or split it."""


class TransactionTooLargeError(LimitExceededError):
    """A transaction would write more than `transaction_bytes` of the settings. Nothing was written."""

    default_fix = "write less in one transaction, or raise transaction_bytes in the settings"


class MissingExtraError(InvalidRequestError):
    """A feature needs an optional package. Install the extra that the message names."""


class SchemaError(InvalidRequestError):
    """A schema has mistakes. Correct them; `worm lint` shows them all."""


class SchemaMismatchError(InvalidRequestError):
    """The database has another definition of this model; `problems` lists the differences."""

    default_fix = "run `worm schema apply`, or connect without a schema to use the stored one"


class ValidationError(InvalidRequestError):
    """A document does not fit its model; `problems` lists every field. Correct the document."""


class NotFoundError(WormError):
    """The object, document or name does not exist."""


class RemovedError(NotFoundError):
    """The collection is being removed, and its name is not free before that is done; nothing was written."""

    default_fix = "finish it with db.drop(name) or `worm drop`: then the name is free again"


class ErasedError(NotFoundError):
    """The document was erased, by `Collection.erase`: nothing is kept but that it was, and when."""

    default_fix = "nothing brings it back; a new document may have its id"


class AlreadyExistsError(WormError):
    """The object, document or name exists already; the existing one was not touched."""


class UniqueViolationError(AlreadyExistsError):
    """Another document has this value of a unique index: `index`, `field`, `value` and `owner` say which."""

    def __init__(self, *, index: str, field: str, value: object, owner: object) -> None:
        """`owner` is the id of the document that has `value` in `field`."""
        self.index = index
        self.field = field
        self.value = value
        self.owner = owner
        super().__init__(f"Unique constraint violation: {field}={value!r} already exists on entity {owner!r}")


class ConflictError(WormError):
    """Another writer changed it first. Read it again, decide again, retry."""

    default_fix = "read it again and retry"


class TransactionConflictError(ConflictError):
    """Another writer changed what a transaction read or wrote; nothing of it was written. Run it again.

    `collection` is where, `key` the id of the document as JSON, None if that is not known, and `by` the actor of the
    change or the id of the transaction in the way, None if it did not say.
    """

    default_fix = "run it again: db.run() does that by itself"

    def __init__(
        self,
        what: str,
        *,
        reason: str = "",
        fix: str = "",
        key: str | None = None,
        collection: str = "",
        by: str | None = None,
    ) -> None:
        """As WormError, with the collection, the document and the writer that was faster, as far as known."""
        self.collection = collection
        self.by = by
        super().__init__(what, reason=reason, fix=fix, key=key)


class SnapshotTooOldError(WormError):
    """What a reader held on to is gone: a cursor lived too long, or the log before a number was trimmed."""

    default_fix = "start again from the present state"


class TransactionTooOldError(SnapshotTooOldError):
    """A transaction was open for longer than `transaction_seconds` of the settings. Nothing was written."""

    default_fix = "run it again and do less in it, or raise transaction_seconds in the settings"


class PermissionDeniedError(WormError):
    """The store refused the credentials or the right."""

    default_fix = "check the credentials and the rights on this bucket; `worm doctor URL` tests each right"


class UnavailableError(WormError):
    """The store did not serve the request, and it had no effect. Retry later."""

    default_fix = "retry later"


class BarrierError(UnavailableError):
    """Other processes may still use a collection that was removed; nothing was deleted."""


class OutcomeUnknownError(WormError):
    """The write may have happened, and may still happen. Look before retrying.

    `commit_id` names a commit for `resolve`; it is None for a write of a bare object.
    """

    default_fix = "read the object before retrying: the write may have landed, or may still land"

    def __init__(
        self, what: str, *, reason: str = "", fix: str = "", key: str | None = None, commit_id: str | None = None
    ) -> None:
        """As WormError, with the commit to ask about."""
        self.commit_id = commit_id
        super().__init__(what, reason=reason, fix=fix, key=key)


class CorruptionError(WormError):
    """Stored bytes are not what was written. `key` names the damaged object."""

    default_fix = "restore the object from a backup, or rebuild it if it is a projection of the log"


class UnsupportedFormatError(WormError):
    """The object was written by a newer version of wormdb."""

    default_fix = "upgrade wormdb: pip install --upgrade wormdb"


class UnsupportedStoreError(WormError):
    """The store does not honour what wormdb's safety rests on."""

    default_fix = "use a store with conditional writes; `worm doctor URL` shows what is missing"


class ClosedError(WormError):
    """The object was closed, or belongs to another process since a fork."""

    default_fix = "open it again"
