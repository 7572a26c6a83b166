"""What must hold of services in a simulated run: of their heartbeats, their turns, and how soon one takes over."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.simulation.replay import Violation
from tests.simulation.scheduler import START_MS
from tests.simulation.store import PATHS, Bucket
from wormdb.engine.log.paths import NODES_FOLDER
from wormdb.format.heartbeat import decode_heartbeat
from wormdb.settings import NODE_INTERVALS_LIVE, NODE_WINDOW_MS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wormdb.format.heartbeat import Heartbeat
    from wormdb.jobs.node.pace import Pace

__all__ = [
    "Ring",
    "RoundStart",
    "SeenHeartbeat",
    "ServiceBucket",
    "judge_beats",
    "judge_rings",
    "judge_rounds",
    "judge_takeover",
]

SLACK_MS = 3_000.0
"""What requests and their retries may take."""
EARLY_MS = 1_500.0
"""By how much a node may count as dead too early: the store shows whole seconds, and clocks drift."""
DRIFT, LATE_MS = 1.02, 1_500.0
"""By how much clocks differ, and by how much a node may look at the others too late, because it is busy."""
EDGES_MS = (1_800.0, 4_500.0)
"""Where in a window all nodes know which one it is: they know the store's time by whole seconds."""


@dataclass(frozen=True, slots=True)
class SeenHeartbeat:
    """A heartbeat that was written, when."""

    time: float
    heartbeat: Heartbeat


@dataclass(frozen=True, slots=True)
class RoundStart:
    """A round that a node began, and which nodes it believed to live."""

    time: float
    node: int | None
    ring: tuple[int, ...]
    silence: float


@dataclass(frozen=True, slots=True)
class Ring:
    """Which nodes one believed to live, when."""

    time: float
    node: int | None
    ring: tuple[int, ...]
    stood_ms: float
    """For how long its monotonic clock stood still in its life, because its machine was suspended."""


@dataclass
class ServiceBucket(Bucket):
    """A bucket that also remembers every heartbeat, and when each log entry came and was applied."""

    beats: list[SeenHeartbeat] = field(default_factory=list)
    newest_beats: dict[int, SeenHeartbeat] = field(default_factory=dict)
    came: dict[int, float] = field(default_factory=dict)
    applied: dict[int, float] = field(default_factory=dict)

    def written(self, key: str, body: bytes) -> None:
        """Witness an object that was just written."""
        super().written(key, body)
        now = self.scheduler.now
        if key.startswith(NODES_FOLDER):
            node = int(key.removeprefix(NODES_FOLDER))
            beaten = SeenHeartbeat(now, decode_heartbeat(body, name=key, node=node))
            self.beats.append(beaten)
            self.newest_beats[node] = beaten
        elif key.startswith(PATHS.entries):
            self.came.setdefault(int(key.removeprefix(PATHS.entries)), now)
        elif key == PATHS.root:
            for number in range(1, self.roots[-1].applied + 1):
                self.applied.setdefault(number, now)


def judge_beats(beats: Sequence[SeenHeartbeat]) -> None:
    """Raise Violation if an incarnation came back, went back, or took the id of one that lived."""
    by_node: dict[int, list[SeenHeartbeat]] = {}
    for beaten in beats:
        by_node.setdefault(beaten.heartbeat.node, []).append(beaten)
    for node, own in by_node.items():
        over: set[str] = set()
        for before, after in pairwise(own):
            old, new = before.heartbeat, after.heartbeat
            if old.incarnation == new.incarnation:
                if new.sequence <= old.sequence:
                    raise Violation(f"node {node}: heartbeat {new.sequence} came after {old.sequence}")
                continue
            over.add(old.incarnation)
            if new.incarnation in over:
                raise Violation(f"node {node}: incarnation {new.incarnation} came back")
            lives_ms = NODE_INTERVALS_LIVE * old.interval_ms * 0.97 - EARLY_MS
            if old.state == "running" and after.time - before.time < lives_ms:
                silence = (after.time - before.time) / 1000
                raise Violation(
                    f"node {node} was taken over {silence:.1f} s after a heartbeat every {old.interval_ms} ms"
                )


def judge_rounds(began: Sequence[RoundStart], window_ms: int) -> None:
    """Raise Violation if two nodes that saw the same ring began rounds in the same window, away from its edges."""
    found: dict[tuple[int, tuple[int, ...]], int | None] = {}
    for each in began:
        window, offset = divmod(START_MS + each.time, window_ms)
        is_edge = not EDGES_MS[0] <= offset <= EDGES_MS[1]
        if is_edge or each.silence > 2 * window_ms / 1000 or len(each.ring) == 1:
            continue
        other = found.setdefault((int(window), each.ring), each.node)
        if other != each.node:
            raise Violation(f"nodes {other} and {each.node} both had the turn at {each.time / 1000:.1f} s")


def judge_rings(rings: Sequence[Ring], newest: Mapping[int, SeenHeartbeat], since: float, pace: Pace) -> None:
    """Raise Violation if a node counted on one that was dead for long enough, at a time when all were left in peace.

    A last heartbeat is seen up to an interval after it was written, or an idle one if it is of before that time; from
    then on it counts.
    """
    for each in rings:
        for other in set(each.ring) - {each.node}:
            last = newest[other]
            is_recent = last.time >= since - DRIFT * pace.interval_ms
            unseen_ms = pace.interval_ms * (1 if is_recent else pace.idle_factor)
            lives_ms = DRIFT * (NODE_INTERVALS_LIVE * last.heartbeat.interval_ms + unseen_ms)
            silence = each.time - last.time
            if each.time >= since and silence > lives_ms + LATE_MS + each.stood_ms:
                raise Violation(f"node {each.node} counts on node {other}, which is silent for {silence / 1000:.1f} s")


def judge_takeover(bucket: ServiceBucket, began: float, ended: float) -> None:
    """Raise Violation if an entry waited for more than two windows while one node was left to bring it forward."""
    patience = 2 * NODE_WINDOW_MS + SLACK_MS
    for number, came in bucket.came.items():
        waited = bucket.applied.get(number, ended) - max(came, began)
        if waited > patience:
            raise Violation(f"entry {number} waited {waited / 1000:.1f} s for the node that was left")
