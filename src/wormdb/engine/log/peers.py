"""The services of a database as one process sees them: which there are, and which live.

A node is judged by its heartbeat: it lives while that changes, timed on the monotonic clock of the reader. What a
listing shows, or what changed while the process did not look, is as old as the store's own times say; the clocks of two
machines are never compared.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wormdb.engine.log.clock import NODE_MAX
from wormdb.engine.log.paths import NODES_FOLDER, node_key
from wormdb.errors import CorruptionError, WormError
from wormdb.format.heartbeat import decode_heartbeat
from wormdb.settings import NODE_INTERVALS_LIVE, NODE_WINDOW_MS, NODES_LOOK_SECONDS

if TYPE_CHECKING:
    from wormdb.format.heartbeat import Heartbeat
    from wormdb.storage.store import ObjectInfo, Probe, Store
    from wormdb.system.clock import Clock
    from wormdb.system.types import StoreTime, Version

__all__ = ["Peer", "Peers", "Services"]

log = logging.getLogger(__name__)

_PATIENCE = 2 * NODE_WINDOW_MS / 1000
"""Seconds: a process that waits longer for an answer may have been stopped meanwhile."""
_ASKS_MAX = 3
"""How often a heartbeat is asked for while the answers take longer than that."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One heartbeat as it was read. `heartbeat` is None if it cannot be read."""

    heartbeat: Heartbeat | None
    version: Version
    changed: float
    """Since when it is as it is, on the monotonic clock of this process."""
    seen: float
    """When the last request was sent whose answer showed it like this, on the same clock."""

    @property
    def dies_at(self) -> float:
        """When it counts as dead, if it does not change: of one that was stopped, at once."""
        if self.heartbeat is None or self.heartbeat.state != "running":
            return self.changed
        return self.changed + NODE_INTERVALS_LIVE * self.heartbeat.interval_ms / 1000


class Peers:
    """What is known of all nodes. For one thread."""

    def __init__(self, store: Store, clock: Clock) -> None:
        """Nothing is read yet."""
        self._store = store
        self._clock = clock
        self._known: dict[int, Peer] = {}
        self.time: StoreTime | None = None
        """The store's, in the last answer that showed it."""

    def look(self, but: int | None = None) -> None:
        """Learn of every node, `but` one. 1 LIST, and 1 GET for each heartbeat that changed.

        1 HEAD more for one that changed after the LIST, if that was long ago when the GET was answered.
        """
        began = self._clock.monotonic()
        found = [info for page in self._store.list(NODES_FOLDER) for info in page.objects]
        there: set[int] = set()
        for info in found:
            node = _node_of(info.key)
            if node is None or node == but:
                continue
            there.add(node)
            known = self._known.get(node)
            if known is None or info.version is None or info.version != known.version:
                self._read(node, _PATIENCE, began, info)
            else:
                self._known[node] = replace(known, seen=began)
        self._known = {node: peer for node, peer in self._known.items() if node in there}

    def follow(self, patience: float, but: int | None = None) -> None:
        """Look again at the nodes that live, `but` one. 1 GET each.

        1 HEAD more for one that changed, if it was not seen for more than `patience` seconds.
        """
        for node in self.live():
            if node != but:
                self._read(node, patience, self._known[node].seen)

    def read(self, node: int) -> Peer | None:
        """Look again at one node; None if it has no heartbeat. 1 GET, and 1 HEAD as `follow`."""
        known = self._known.get(node)
        self._read(node, _PATIENCE, self._clock.monotonic() if known is None else known.seen)
        return self._known.get(node)

    def get(self, node: int) -> Peer | None:
        """What is known of a node. No requests."""
        return self._known.get(node)

    def known(self) -> dict[int, Peer]:
        """Every node with a heartbeat, by id. No requests."""
        return dict(sorted(self._known.items()))

    def live(self) -> tuple[int, ...]:
        """The ids of the nodes that live, in order. No requests."""
        now = self._clock.monotonic()
        return tuple(node for node, peer in sorted(self._known.items()) if now < peer.dies_at)

    def _read(self, node: int, patience: float, seen: float, listed: ObjectInfo | None = None) -> None:
        """Read a heartbeat. At `seen` it was as `listed` shows it, or as it is known."""
        key = node_key(node)
        asked, probe = self._ask(key)
        self.time = probe.time or self.time
        if probe.found is None:
            self._known.pop(node, None)
            return
        known, now, version = self._known.get(node), self._clock.monotonic(), probe.found.version
        if known is not None and known.version == version:
            self._known[node] = replace(known, seen=asked)
            return
        is_dated = listed is not None and listed.version == version
        if not is_dated and probe.time is not None and _is_long_ago(seen, now, patience):
            listed = self._store.head(key)
        changed = now
        if listed is not None and listed.version in {None, version}:
            # After a pause, a reader finds last heartbeats of nodes that ended: news for it, but not of now.
            changed -= _age(probe, listed.modified)
        try:
            heartbeat = decode_heartbeat(probe.found.body, name=key, node=node)
        except CorruptionError as error:
            log.warning("node %d is left out: %s", node, error)
            heartbeat = None
        since = changed if known is None else max(changed, known.changed)
        self._known[node] = Peer(heartbeat, version, since, asked)

    def _ask(self, key: str) -> tuple[float, Probe]:
        """When a heartbeat was asked for, and the answer: one that came so soon that it tells of now, if there is one.

        The process may be stopped between any two of its steps, so that only the time after an answer shows it.
        """
        asks = 0
        while True:
            asks += 1
            asked = self._clock.monotonic()
            probe = self._store.probe(key)
            if asks == _ASKS_MAX or not _is_long_ago(asked, self._clock.monotonic(), _PATIENCE):
                return asked, probe


def _is_long_ago(before: float, now: float, patience: float) -> bool:
    """Whether the last look is so long ago that what is new now may have been there for long."""
    return now - before > patience


def _age(probe: Probe, modified: StoreTime) -> float:
    """For how many seconds an object is as it is, by the store's own times; 0 if it shows none."""
    return 0.0 if probe.time is None else max(0.0, (probe.time - modified) / 1000)


def _node_of(key: str) -> int | None:
    name = key.removeprefix(NODES_FOLDER)
    is_id = name.isascii() and name.isdecimal() and str(int(name)) == name
    return int(name) if is_id and int(name) <= NODE_MAX else None


# --- What a client knows of services: whether there are any that look after the database.


class Services:
    """The services of one database, asked for rarely."""

    def __init__(self, store: Store, clock: Clock) -> None:
        """Nothing is read yet."""
        self._store = store
        self._clock = clock
        self._peers = Peers(store, clock)
        self._looked: float | None = None

    def are_live(self) -> bool:
        """Whether a node lives, as far as is known. 1 LIST and 1 GET a node, once a minute at most.

        A client that may not look, or cannot, has no services.
        """
        now = self._clock.monotonic()
        if self._looked is None or now - self._looked >= NODES_LOOK_SECONDS:
            # First, so that a failure is not tried again at once.
            self._looked = now
            try:
                self._peers.look()
            except WormError as error:
                log.info("services are not looked for: %s", error)
                self._peers = Peers(self._store, self._clock)
        return bool(self._peers.live())
