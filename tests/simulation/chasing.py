"""A simulated run in which the log grows as fast as it is read: `python -m tests.simulation.chasing 0:100 [wide]`.

Readers of one node share their probes, while entries of others land between these, as many or more than are asked for.
Every read must come to an end, and see whatever was there when it began. Most runs have rounds of a few slots, so that
short tails are long ones; `wide` runs have those of every process, and tails of 256 to 2000 entries to begin with.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING
from unittest import mock

from tests.simulation.client import Client
from tests.simulation.history import audit
from tests.simulation.nodes import World
from tests.simulation.replay import Violation
from tests.simulation.run import SimulationFailed, no_collection
from tests.simulation.scheduler import START_MS, ProcessCrash, Scheduler, cooperative_locks
from tests.simulation.store import COLLECTION, PATHS, Bucket, Weather
from wormdb.engine.commit import readers
from wormdb.engine.log import entries
from wormdb.errors import OutcomeUnknownError, UnavailableError
from wormdb.format.entry import Entry, LoggedBatch, LoggedChange, encode_entry
from wormdb.settings import MIB, TAIL_PROBES_MAX, Settings
from wormdb.storage.conditions import forget_conditions
from wormdb.storage.store import IfAbsent
from wormdb.system.clock import SeededChance
from wormdb.system.types import LogNumber, WriteId

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.nodes import Node
    from wormdb.storage.store import Probe
    from wormdb.system.clock import Chance

__all__ = ["Chases", "play_chases", "run_chasing"]

NARROW = 4
READS = 4
"""Of each reader, at most."""
SPEEDS = (0.5, 1.1, 1.1, 1.5)
"""Entries that land for each slot that is asked for, on average, if one probe at a time is on its way."""
ENTRIES_MAX = 8000
"""What others write in a run of short rounds at most. Only a reader that goes on for as long as they do comes there."""
ENTRIES_ENOUGH = 400
"""From here on no more reads begin: the log grows by a factor with each."""
STALE_SHARE = 0.3


@dataclass
class Flood:
    """Writers that are never seen: before a slot is asked for, some of their entries have landed."""

    bucket: Bucket
    chance: Chance
    share: float
    """Of the slots asked for at which they write: less, where several ask for the same."""
    speed: float
    """Of each slot asked for; 0 while they rest."""
    gust: int
    """So many times as many entries come at once, and as seldom."""
    left: int
    """Entries that they have still to write; none is left only if a reader went on for ever."""

    def __post_init__(self) -> None:
        """Nothing is written yet."""
        self._seq = 0
        self._body: bytes | None = None
        self._probe = self.bucket.objects.probe

    def probe(self, key: str) -> Probe:
        """Answer as the store does, after some more entries."""
        if key.startswith(PATHS.entries):
            size = 1 + self.chance.fraction() * (self.gust - 1)
            is_now = self.chance.fraction() < self.share / size
            self.write(min(self.left, int(size * self.speed + self.chance.fraction()) if is_now else 0))
        return self._probe(key)

    def write(self, count: int) -> None:
        """Append entries; who wrote them knows at once that they are there."""
        for _ in range(count):
            self.left -= 1
            self._append()

    def _append(self) -> None:
        bucket, number = self.bucket, self.bucket.highest + 1
        self._seq += 1
        body = json.dumps({"_id": "flood", "n": self._seq}, separators=(",", ":")).encode()
        write_id = WriteId(f"{number:032x}")
        change = LoggedChange(id=b'"flood"', seq=self._seq, before=self._body, after=body)
        last = bucket.entries.get(number - 1)
        entry = Entry(
            number=number,
            write_id=write_id,
            misc=(START_MS + int(bucket.scheduler.now)) * 1000 << 8,
            node=0,
            previous=bytes(32) if last is None else sha256(last).digest(),
            batches=(LoggedBatch(id=write_id, changes=(change,)),),
        )
        self._body, key = body, PATHS.entry(LogNumber(number))
        stored = encode_entry(entry, collection=COLLECTION)
        bucket.objects.put(key, stored, IfAbsent())
        bucket.written(key, stored)


class Chases:
    """One seed."""

    def __init__(self, seed: int, *, is_wide: bool = False) -> None:
        chance = SeededChance(seed)
        self.width = TAIL_PROBES_MAX if is_wide else NARROW
        self.probes = (1, 1, 2, 4)[int(4 * chance.fraction())]
        self.is_steady = chance.fraction() < 0.5
        """Whether others never rest: then no reader finds the end."""
        self.tail = int(self.width * (1 + 7 * chance.fraction()))
        scheduler = Scheduler(SeededChance(seed + 1), events_max=2_000_000)
        weather = Weather(refused=(0.0, 0.0, 0.004)[int(3 * chance.fraction())])
        bucket = Bucket(scheduler, SeededChance(seed + 2), Weather())
        settings = Settings(
            commit_seconds=2, read_seconds=3600, forward="manual", tail_entries_max=1_000_000, cache_bytes=MIB
        )
        self.world = World(seed, scheduler, bucket, chance, settings)
        self._scale = 8 if is_wide else 1
        gust = 1 if chance.fraction() < 0.5 else 6 * self.width
        most = self.tail + ENTRIES_MAX * self._scale
        self.flood = Flood(bucket, SeededChance(seed + 4), 1 / min(self.probes, 2), 0.0, gust, most)
        self._weather = weather
        self._readers = 2 + int(5 * chance.fraction())

    def play(self) -> None:
        """Raises Violation, and what the engine raises where nothing is expected."""
        forget_conditions()
        world = self.world
        probes = mock.patch.object(readers, "PROBES_MAX", self.probes)
        width = mock.patch.object(entries, "TAIL_PROBES_MAX", self.width)
        flooded = mock.patch.object(world.bucket.objects, "probe", self.flood.probe)
        with no_collection(), probes, width, flooded, cooperative_locks(world.scheduler):
            world.scheduler.spawn("director", self._direct)
            world.scheduler.run()

    def _direct(self) -> None:
        world, scheduler = self.world, self.world.scheduler
        self.flood.write(self.tail)
        distance = NARROW / self.width
        node, other = world.node("node", distance), world.node("other", distance)
        world.bucket.weather, self.flood.speed = self._weather, self._speed()
        for number in range(self._readers):
            self._spawn(f"reader{number}", node, READS, self._read)
        self._spawn("writer", node, READS, lambda client: client.save({"_id": "a", "v": client.new_value()}))
        self._spawn("other", other, 1, self._read)
        self._spawn("keeper", other, 1, self._keep)
        self._spawn("nemesis", node, 1, lambda client: client.node.ledger.forget())
        while world.workers:
            scheduler.sleep(1_000)
        world.bucket.weather, self.flood.speed = Weather(), 0.0
        self._finish([node, other, world.node("fresh", is_right=True)])

    def _speed(self) -> float:
        speed = SPEEDS[int(len(SPEEDS) * self.world.chance.fraction())]
        if self.is_steady:
            return max(speed, 1.1)
        return speed if self.world.likely(0.6) else 0.0

    def _spawn(self, name: str, node: Node, steps: int, act: Callable[[Client], object]) -> None:
        world, client = self.world, Client(self.world, node)
        world.workers += 1

        def body() -> None:
            for step in range(steps):
                world.scheduler.sleep(world.between(0, 3_000 / self._scale))
                if step and world.bucket.highest > ENTRIES_ENOUGH * self._scale:
                    break
                with world.scheduler.inside(node.process):
                    act(client)
                self.flood.speed = self._speed()
            world.workers -= 1

        world.scheduler.spawn(name, body)

    def _read(self, client: Client) -> None:
        kind = "stale" if self.world.likely(STALE_SHARE) else "scan"
        client.look(kind if self.world.likely(0.9) else "at least")

    def _keep(self, client: Client) -> None:
        with suppress(UnavailableError, OutcomeUnknownError, ProcessCrash):
            client.node.ledger.forward()

    def _finish(self, nodes: list[Node]) -> None:
        world, bucket = self.world, self.world.bucket
        if not self.flood.left:
            raise Violation(f"a reader went on for as long as others wrote: to entry {bucket.highest}")
        for node in nodes:
            with world.scheduler.inside(node.process):
                Client(world, node).scan()
            call = world.history.calls[-1]
            if call.outcome != "ok" or call.result[0] != bucket.highest:
                raise Violation(f"{node.name} does not see the end of the log: {call.label}")
        if bucket.broken:
            raise Violation("; ".join(bucket.broken))
        audit(world.history, bucket.replay())


def play_chases(seed: int, *, is_wide: bool = False) -> Chases:
    """Run one seed. Raises Violation, and what the engine raises where nothing is expected."""
    played = Chases(seed, is_wide=is_wide)
    played.play()
    return played


def run_chasing(seed: int, workload: str, focus: str | None) -> None:
    """Run a seed, for a list of mutants. Raises SimulationFailed."""
    played = Chases(seed, is_wide=focus == "wide")
    try:
        played.play()
    except Exception as error:
        raise SimulationFailed(seed, workload, error, played.world.bucket.trace) from error


if __name__ == "__main__":
    first, _, seeds = sys.argv[1].partition(":")
    failed = 0
    for one in range(int(first), int(first) + int(seeds)):
        try:
            play_chases(one, is_wide="wide" in sys.argv[2:])
        except Exception as error:  # noqa: BLE001 - all seeds are tried
            failed += 1
            sys.stdout.write(f"seed {one}: {type(error).__name__}: {str(error)[:900]}\n")
    sys.stdout.write(f"{seeds} seeds, {failed} failed\n")
    sys.exit(1 if failed else 0)
