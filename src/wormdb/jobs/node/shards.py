"""Where writers prefer to meet: each collection is of one of 16 shards, and each shard has an order of servers.

A shard owns nothing. The first live server of its order is its primary: what several servers write to a collection is
cheapest if one of them commits it. Any process may write to any collection at any time; compare-and-set is the safety.

The order follows from the ids of nodes alone (rendezvous hashing), so that every process finds the same one, and when a
server comes or goes only the shards that it is first of move. `wormdb.jobs.node.rounds.turn_of` moves every few
seconds, on purpose, and cannot serve for this.
"""

from __future__ import annotations

import logging
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Final
from zlib import crc32

import msgspec

from wormdb.engine.log.paths import EnginePaths

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb.storage.store import Store

__all__ = ["SHARDS", "STANDBYS", "name_shards", "named_shards", "order_of", "shard_of"]

log = logging.getLogger(__name__)

SHARDS: Final = 16
_Shard = Annotated[int, msgspec.Meta(ge=0, lt=16)]
STANDBYS: Final = 2
"""Servers that are named behind the primary."""


def shard_of(collection: str) -> int:
    """The shard of a collection, by its folder, which ends with /. No requests."""
    return crc32(collection.encode()) % SHARDS


def order_of(shard: int, nodes: Iterable[int]) -> tuple[int, ...]:
    """Nodes in the order in which they serve a shard: the primary first. No requests."""
    return tuple(sorted(nodes, key=lambda node: (_weight(shard, node), node), reverse=True))


def _weight(shard: int, node: int) -> bytes:
    return blake2b(b"%d/%d" % (shard, node), digest_size=8).digest()


# --- shards that a collection was made with, if any were named: one small object beside its log, which goes with it


def name_shards(store: Store, collection: str, shards: Iterable[int]) -> None:
    """Say which shards a collection is of, in place of the one that follows from its name. 1 PUT."""
    body = msgspec.json.encode(sorted(set(shards)))
    store.put(_named_key(collection), body, content_type="application/json")


def named_shards(store: Store, collection: str) -> tuple[int, ...]:
    """The shards that were named for a collection; none if none were, or they cannot be read. 1 GET."""
    found = store.probe(_named_key(collection)).found
    if found is None:
        return ()
    try:
        return msgspec.json.decode(found.body, type=tuple[_Shard, ...])
    except msgspec.DecodeError as error:
        log.warning("shards of %s are left out: %s", collection, error)
        return ()


def _named_key(collection: str) -> str:
    return f"{EnginePaths.of_collection(collection).folder}shards"
