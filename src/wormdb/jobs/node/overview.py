"""All nodes of a database as another process sees them: for `worm node list`. Writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from wormdb.engine.log.peers import Peer, Peers
from wormdb.jobs.node.pace import StoreClock
from wormdb.jobs.node.rounds import turn_of, window_of
from wormdb.jobs.node.shards import SHARDS, named_shards, order_of, shard_of
from wormdb.settings import NODE_WINDOW_MS
from wormdb.system.clock import Clock, SystemClock

if TYPE_CHECKING:
    from wormdb.api.database import Database

__all__ = ["CollectionTurn", "NodeStatus", "Overview", "overview_of"]


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node."""

    node: int
    state: Literal["live", "dead", "stopped", "removed", "unreadable"]
    incarnation: str
    sequence: int
    age_seconds: float
    """Since its heartbeat last changed, by the store's time."""
    interval_ms: int
    version: str
    name: str
    address: str = ""
    """Where it serves clients; empty if it does not."""
    shards: tuple[int, ...] = ()
    """Of which it is the primary."""


@dataclass(frozen=True, slots=True)
class CollectionTurn:
    """One collection: whose turn it is, and what waits."""

    collection: str
    turn: int | None
    """The node that looks after it in this window; None if none lives."""
    number: int
    lag_entries: int
    lag_bytes: int
    errors: dict[str, str]
    """What nodes say that fails, by their ids as text."""
    shard: int = 0
    server: int | None = None
    """The node that serves this shard first; None if none serves."""


@dataclass(frozen=True, slots=True)
class Overview:
    """The services of a database."""

    nodes: tuple[NodeStatus, ...]
    collections: tuple[CollectionTurn, ...]


def overview_of(database: Database, *, window_ms: int = NODE_WINDOW_MS, clock: Clock | None = None) -> Overview:
    """Every node and every collection now.

    1 LIST and 1 GET for each node, as `Database.collections`, as `Database.status` for each collection, and 1 GET.
    """
    clock = clock or SystemClock()
    peers, time = Peers(database.store, clock), StoreClock(clock)
    peers.look()
    known = peers.known()
    names = {*database.collections()}
    errors: dict[str, dict[str, str]] = {}
    for node, peer in known.items():
        for written in () if peer.heartbeat is None else peer.heartbeat.written:
            names.add(written.collection)
            if written.error and node in peers.live():
                errors.setdefault(written.collection, {})[str(node)] = written.error
    found = database.status(sorted(name.rstrip("/") for name in names))
    time.observe(peers.time)
    ring, window = peers.live(), window_of(time.now_ms(), window_ms)
    servers = [node for node in ring if (beat := known[node].heartbeat) is not None and beat.address]
    primaries = [order_of(shard, servers)[0] for shard in range(SHARDS)] if servers else [None] * SHARDS
    return Overview(
        tuple(
            _status(
                node,
                peer,
                clock.monotonic(),
                is_live=node in ring,
                shards=tuple(shard for shard, primary in enumerate(primaries) if primary == node),
            )
            for node, peer in known.items()
        ),
        tuple(
            CollectionTurn(
                each.prefix,
                turn_of(each.prefix, ring, window) if ring else None,
                each.number,
                each.lag_entries,
                each.lag_bytes,
                errors.get(each.prefix, {}),
                shard,
                primaries[shard],
            )
            for each in found
            for shard in (named_shards(database.store, each.prefix) or (shard_of(each.prefix),))[:1]
        ),
    )


def _status(node: int, peer: Peer, now: float, *, is_live: bool, shards: tuple[int, ...]) -> NodeStatus:
    heartbeat = peer.heartbeat
    age = round(max(0.0, now - peer.changed), 1)
    if heartbeat is None:
        return NodeStatus(node, "unreadable", "", 0, age, 0, "", "")
    state: Literal["live", "dead", "stopped", "removed"] = "live" if is_live else "dead"
    if heartbeat.state != "running":
        state = heartbeat.state
    return NodeStatus(
        node,
        state,
        heartbeat.incarnation,
        heartbeat.sequence,
        age,
        heartbeat.interval_ms,
        heartbeat.version,
        heartbeat.name,
        heartbeat.address,
        shards,
    )
