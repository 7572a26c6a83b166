"""Mistakes in services that the simulation must find."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from unittest import mock

from wormdb.engine.log import peers
from wormdb.engine.log.peers import Peer, Peers
from wormdb.jobs.node import claim
from wormdb.jobs.node.claim import Claimant
from wormdb.jobs.node.pace import StoreClock
from wormdb.settings import NODE_WINDOW_MS
from wormdb.storage.readback import Landed, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.storage.store import Probe, Store
    from wormdb.system.types import StoreTime

__all__ = ["MUTANTS", "Mutant"]


@dataclass(frozen=True)
class Mutant:
    """One mistake: what it is, what finds it, and a seed that shows it."""

    name: str
    place: Any
    attribute: str
    mistake: object
    told: str
    seed: int

    @contextmanager
    def apply(self) -> Iterator[None]:
        with mock.patch.object(self.place, self.attribute, self.mistake):
            yield


def by_wall_clock(real: Callable[..., None]) -> Callable[..., None]:
    """A heartbeat is as old as the clocks of two machines say."""

    def read(seen: Peers, node: int, *others: object) -> None:
        real(seen, node, *others)
        peer = seen._known.get(node)
        if peer is not None and peer.heartbeat is not None:
            age = (seen._clock.now_ms() - (peer.heartbeat.misc >> 8) / 1000) / 1000
            seen._known[node] = replace(peer, changed=seen._clock.monotonic() - age)

    return read


def put_always(store: Store, key: str, body: bytes, _: object, *, content_type: str) -> Outcome:
    """A heartbeat replaces whatever is there."""
    done = store.put(key, body, content_type=content_type)
    return Landed(done.version, done.time)


def by_no_answer(clock: StoreClock, time: object) -> None:
    """Windows are those of the machine's own clock."""


def never_dies(peer: Peer) -> float:
    """Whoever was seen once is in the ring for ever."""
    return peer.changed if peer.heartbeat is None or peer.heartbeat.state != "running" else math.inf


def dies_late(real: property) -> property:
    """The dead stay in the ring for one window too long."""

    def dies_at(peer: Peer) -> float:
        return float(real.__get__(peer)) + NODE_WINDOW_MS / 1000

    return property(dies_at)


def always_news(probe: Probe, modified: StoreTime) -> float:
    """What was not seen before was written just now."""
    return 0.0


def never_stopped(before: float, now: float, patience: float) -> bool:
    """A process that was stopped in the middle of a look takes what changed meanwhile for news."""
    return False


def no_watch(claimant: Claimant, peers: Peers, node: int) -> None:
    """A wanted id is taken, whoever has it."""


MUTANTS = [
    Mutant("wall clocks are compared", Peers, "_read", by_wall_clock(Peers._read), "taken over|counts on|waited", 2),
    Mutant("heartbeats are not conditional", claim, "put_classified", put_always, "came back|came after|taken", 1),
    Mutant("windows by the local clock", StoreClock, "observe", by_no_answer, "both had the turn", 4),
    Mutant("the dead stay in the ring", Peer, "dies_at", property(never_dies), "counts on|waited", 0),
    Mutant("the dead stay too long", Peer, "dies_at", dies_late(Peer.__dict__["dies_at"]), "counts on|waited", 10),
    Mutant("last words are news", peers, "_age", always_news, "counts on|waited", 17),
    Mutant("a stop is not noticed", peers, "_is_long_ago", never_stopped, "counts on|waited", 127),
    Mutant("an id is taken without a look", Claimant, "_watch", no_watch, "taken over", 0),
]
