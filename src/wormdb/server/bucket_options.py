"""What a bucket was made with beside its collection: which ids documents may have. One small object for each bucket.

It is written before the bucket is made, so that a server that finds the bucket finds it too, and once more by the one
that made it, whatever it says then: so one that comes too late with another choice finds another version than the one
that it read before it looked for the bucket, and leaves it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from wormdb.errors import ConflictError
from wormdb.storage.readback import put_swapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.storage.store import Store, StoredObject
    from wormdb.system.clock import Chance

__all__ = ["IdRule", "propose_ids", "read_ids", "settle_ids"]

IdRule = Literal["objectid", "any"]
_FOLDER: Final = ".worm.buckets/"
_TRIES: Final = 8


class _BucketOptions(msgspec.Struct):
    ids: IdRule = "objectid"
    write: str = ""
    """Never the same twice, so that a lost answer can be told."""


def _key(prefix: str) -> str:
    folder, _, name = prefix.rstrip("/").rpartition("/")
    return f"{folder}/{_FOLDER}{name}" if folder else f"{_FOLDER}{name}"


def read_ids(store: Store, prefix: str) -> IdRule:
    """Which ids documents of the bucket in a folder may have. 1 GET."""
    return _told(store.probe(_key(prefix)).found)


def _told(found: StoredObject | None) -> IdRule:
    try:
        return "objectid" if found is None else msgspec.json.decode(found.body, type=_BucketOptions).ids
    except msgspec.MsgspecError:
        return "objectid"


def propose_ids(store: Store, prefix: str, ids: IdRule, chance: Chance, *, is_made: Callable[[], bool]) -> None:
    """Have it say `ids` unless the bucket is made. 1 GET, what `is_made` costs, and 1 PUT if it says something else.

    Raises ConflictError after many losses.
    """
    _write(store, prefix, ids, chance, lambda found: _told(found) == ids or is_made())


def settle_ids(store: Store, prefix: str, ids: IdRule, chance: Chance) -> None:
    """Have it say `ids`, by the one that made the bucket. 1 GET and 1 PUT. Raises ConflictError after many losses."""
    _write(store, prefix, ids, chance, lambda _: False)


def _write(
    store: Store, prefix: str, ids: IdRule, chance: Chance, is_done: Callable[[StoredObject | None], bool]
) -> None:
    key = _key(prefix)
    for _ in range(_TRIES):
        found = store.probe(key).found
        if is_done(found):  # asked after the look: what is written is this version's successor
            return
        body = msgspec.json.encode(_BucketOptions(ids, chance.token(16).hex()))
        version = None if found is None else found.version
        try:
            put_swapped(store, key, body, version, what="bucket", content_type="application/json")
        except ConflictError:
            continue
        return
    raise ConflictError(f"the options of {prefix}", reason="others change them all the time")
