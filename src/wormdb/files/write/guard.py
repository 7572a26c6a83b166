"""Write a readable file so that an older state never replaces a newer one.

Every file says of which log number it is: entities as `_rev`, all others as `log`. A new file is created; one that is
there is read, and replaced only if it shows an older state, and only as it was read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.errors import AlreadyExistsError, ConflictError, OutcomeUnknownError, UnavailableError
from wormdb.storage.store import IfAbsent, IfMatch, Store
from wormdb.system.types import Version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb.storage.pool import Pool

__all__ = ["FileDraft", "WrittenFile", "number_in", "put_all", "put_guarded"]

_ATTEMPTS_MAX: Final = 8
_REFUSALS_MAX: Final = 3
_JSON: Final = "application/json"


class _Entity(msgspec.Struct):
    number: int | None = msgspec.field(name="_rev", default=None)


class _Other(msgspec.Struct):
    number: int | None = msgspec.field(name="log", default=None)


_ENTITY: Final = msgspec.json.Decoder(_Entity)
_OTHER: Final = msgspec.json.Decoder(_Other)


@dataclass(frozen=True, slots=True)
class FileDraft:
    """A file as it should be, by a state of log number `number`."""

    key: str
    body: bytes
    number: int
    is_entity: bool = False
    is_new: bool = False
    """Whether nothing is likely to be there."""
    version: str | None = None
    """The store's, of what is there, if it is known."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """What is there now; `is_newer` if it shows a newer state than the draft."""

    version: Version
    is_newer: bool = False


def put_guarded(store: Store, draft: FileDraft) -> WrittenFile:
    """Write a file, unless one of a newer state is there.

    1 PUT if the draft is new or knows the version and both are so; otherwise 1 GET and 1 PUT, or 1 GET if the bytes are
    there already. Raises UnavailableError.
    """
    precondition, refusals = _first(draft), 0
    for _ in range(_ATTEMPTS_MAX):
        if precondition is None:
            found = store.probe(draft.key).found
            if found is None:
                precondition = IfAbsent()
            elif found.body == draft.body:
                return WrittenFile(found.version)
            elif number_in(found.body, is_entity=draft.is_entity) > draft.number:
                return WrittenFile(found.version, is_newer=True)
            else:
                precondition = IfMatch(found.version)
        try:
            return WrittenFile(store.put(draft.key, draft.body, precondition, content_type=_JSON).version)
        except (AlreadyExistsError, ConflictError, OutcomeUnknownError):
            precondition = None
        except UnavailableError:
            # A store that is asked for much now and then refuses one of many; the look at the file waits its turn.
            refusals += 1
            if refusals > _REFUSALS_MAX:
                raise
            precondition = None
    raise UnavailableError(
        f"the file {draft.key}", reason="others wrote it every time", fix="forward again", key=draft.key
    )


def put_all(store: Store, pool: Pool, drafts: Iterable[FileDraft]) -> list[WrittenFile]:
    """Write files side by side, as `put_guarded` does; what became of each, in order."""
    return list(pool.map(lambda draft: put_guarded(store, draft), drafts))


def _first(draft: FileDraft) -> IfAbsent | IfMatch | None:
    if draft.version is not None:
        return IfMatch(Version(draft.version))
    return IfAbsent() if draft.is_new else None


def number_in(body: bytes, *, is_entity: bool) -> int:
    """The log number of a file; -1 if it has none, so that any file of wormdb replaces it."""
    try:
        found = (_ENTITY if is_entity else _OTHER).decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return -1
    return -1 if found.number is None else found.number
