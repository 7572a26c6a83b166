"""One object copied to another key or store: there is no verb for it, so its bytes pass through here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wormdb.errors import AlreadyExistsError, NotFoundError, OutcomeUnknownError, UnavailableError
from wormdb.storage.store import ByteRange, IfAbsent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.storage.store import ObjectInfo, Store

__all__ = ["copy_object"]

PUT_BYTES_MAX: Final = 64 * 1024 * 1024
"""A larger object is copied in pieces."""
PIECE_BYTES: Final = 8 * 1024 * 1024
_TRIES_MAX: Final = 5


def copy_object(source: Store, info: ObjectInfo, target: Store, key: str) -> bool:
    """Copy an object that never changes, unless one of its name is there; False if it is gone. 1 GET and 1 PUT.

    More of both above PUT_BYTES_MAX. Raises UnavailableError.
    """
    try:
        if info.size > PUT_BYTES_MAX:
            target.upload(key, _StoredPieces(source, info))
            return True
        body = source.get(info.key).body
    except NotFoundError as error:
        if error.key != info.key:
            raise
        return False
    for _ in range(_TRIES_MAX):
        try:
            target.put(key, body, IfAbsent())
        except AlreadyExistsError:
            return True  # names never repeat: it is the same
        except OutcomeUnknownError:
            continue
        return True
    raise UnavailableError(f"object {key}", reason="the store does not answer", fix="do it again")


class _StoredPieces:
    """A large object as parts of an upload."""

    def __init__(self, store: Store, info: ObjectInfo) -> None:
        self._store = store
        self._key = info.key
        self.size = info.size

    def parts(self) -> Iterator[bytes]:
        for place in range(0, self.size, PIECE_BYTES):
            yield self._store.get_range(self._key, ByteRange(place, min(PIECE_BYTES, self.size - place)))
