"""Who has the short name of a collection in the folders at the root of a bucket.

`org/customers/` and `archive/customers/` would both keep their oplog in `.oplog/customers/`. The first one to ask has
the name for ever, and says so in an object; any other uses its whole path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.errors import AlreadyExistsError, OutcomeUnknownError, PermissionDeniedError
from wormdb.storage.store import IfAbsent

if TYPE_CHECKING:
    from wormdb.storage.store import Store

__all__ = ["CLAIMS", "claim_name", "known_owner"]

CLAIMS: Final = ".worm.names/"
"""The folder of the claims: one object for each short name."""


class _Claim(msgspec.Struct, frozen=True):
    collection: str


_DECODER: Final = msgspec.json.Decoder(_Claim)


def claim_name(store: Store, last: str, collection: str) -> str:
    """The folder of `collection` (ends with /) in root layouts: `last` and / if nobody else has it, else all of it.

    1 PUT; 1 GET more if the name is taken or the answer is lost. Asked again, the answer is the same.
    """
    key = f"{CLAIMS}{last}"
    try:
        store.put(key, msgspec.json.encode(_Claim(collection)), IfAbsent(), content_type="application/json")
    except PermissionDeniedError:
        return collection
    except (AlreadyExistsError, OutcomeUnknownError):
        return f"{last}/" if known_owner(store, last) == collection else collection
    return f"{last}/"


def known_owner(store: Store, last: str) -> str | None:
    """The collection that has a short name; None if nobody claimed it. 1 GET."""
    found = store.probe(f"{CLAIMS}{last}").found
    try:
        return None if found is None else _DECODER.decode(found.body).collection
    except msgspec.MsgspecError:
        return None
