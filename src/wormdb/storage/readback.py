"""What became of a conditional write, found by reading the object back.

An answer can get lost, and whatever sits between us and the store may have sent the
request twice, so that a write is told of a conflict with itself. Objects that are written
conditionally hold a write id that never repeats, so equal bytes mean: ours.

======================  =================================  =================================
answer to the put       IfAbsent, found then               IfMatch, found then
======================  =================================  =================================
success                 Landed (nothing is read)           Landed (nothing is read)
refused (412)           ours Landed, else Lost             ours Landed, else Lost
nothing done (503 …)    ours Landed, another Lost,         ours Landed, the expected version
                        nothing NothingThere               NothingThere, else Lost
lost                    ours Landed, another Lost,         ours Landed, the expected version
                        nothing NothingThere               NothingThere, else **Unknown**
======================  =================================  =================================

Unknown, because another's object over IfMatch may lie on top of ours. If the read fails
too, all is Unknown. Nothing is retried here, and no caller may clean up after an Unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from wormdb.errors import (
    AlreadyExistsError,
    ClosedError,
    ConflictError,
    OutcomeUnknownError,
    UnavailableError,
    WormError,
)
from wormdb.storage.store import OCTETS, IfAbsent, IfMatch, Probe, Store, StoredObject

if TYPE_CHECKING:
    from wormdb.system.types import StoreTime, Version

__all__ = ["Landed", "Lost", "NothingThere", "Outcome", "Unknown", "put_classified", "put_swapped"]


@dataclass(frozen=True, slots=True)
class Landed:
    """Our bytes are the object."""

    version: Version
    time: StoreTime | None


@dataclass(frozen=True, slots=True)
class Lost:
    """Our bytes are not there and never will be; `found` is what is, None if it was deleted since."""

    found: StoredObject | None


@dataclass(frozen=True, slots=True)
class NothingThere:
    """Nothing has changed so far. If the answer was lost, it may still land.

    So the only safe next step is the same put again, byte for byte and with the same
    precondition: whichever of the two lands first, the other finds it.
    """

    cause: WormError


@dataclass(frozen=True, slots=True)
class Unknown:
    """It may have happened. `unread` is why the object could not be read back, if that is the reason."""

    cause: WormError
    unread: WormError | None = None


Outcome = Landed | Lost | NothingThere | Unknown


def put_classified(
    store: Store, key: str, body: bytes, precondition: IfAbsent | IfMatch, *, content_type: str = OCTETS
) -> Outcome:
    """Put once and say what became of it. 1 PUT, and 1 GET unless it simply succeeded.

    `body` must hold a write id that never repeats. Raises what says that nothing was even
    tried: InvalidRequestError, PermissionDeniedError, ClosedError.
    """
    try:
        result = store.put(key, body, precondition, content_type=content_type)
    except (AlreadyExistsError, ConflictError, UnavailableError, OutcomeUnknownError) as error:
        cause = error
    else:
        return Landed(result.version, result.time)
    try:
        probe = store.probe(key)
    except ClosedError:
        raise
    except WormError as error:
        return Unknown(cause, error)
    return _classify(probe, body, precondition, cause)


def put_swapped(
    store: Store, key: str, body: bytes, version: Version | None, *, what: str, content_type: str = "application/zstd"
) -> Landed:
    """Replace the object of a version, or of None where there was none, by another. Costs as `put_classified`.

    Raises ConflictError if another version is there now: a loser deletes nothing, because what it wrote may lie
    beneath the one found. Raises UnavailableError if nothing was done, and OutcomeUnknownError, which name `what`, if
    that cannot be told.
    """
    precondition = IfAbsent() if version is None else IfMatch(version)
    outcome = put_classified(store, key, body, precondition, content_type=content_type)
    match outcome:
        case Landed():
            return outcome
        case Lost():
            raise ConflictError(f"the {what} {key}", reason="it was swapped by another", key=key)
        case NothingThere(cause=UnavailableError() as refusal):
            raise refusal
        case NothingThere(cause=cause) | Unknown(cause=cause):
            raise OutcomeUnknownError(f"the swap of {key}", reason=str(cause), key=key) from cause
        case _:
            assert_never(outcome)


def _classify(
    probe: Probe,
    body: bytes,
    precondition: IfAbsent | IfMatch,
    cause: AlreadyExistsError | ConflictError | UnavailableError | OutcomeUnknownError,
) -> Outcome:
    """The table at the top of this module."""
    found = probe.found
    if found is not None and found.body == body:
        return Landed(found.version, probe.time)
    if isinstance(cause, AlreadyExistsError | ConflictError):
        return Lost(found)
    match precondition:
        case IfAbsent():
            return NothingThere(cause) if found is None else Lost(found)
        case IfMatch(version):
            if found is not None and found.version == version:
                return NothingThere(cause)
            return Lost(found) if isinstance(cause, UnavailableError) else Unknown(cause)
        case _:
            assert_never(precondition)
