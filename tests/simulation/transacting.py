"""Run several machines of the real code against several collections, in virtual time, from a seed.

`python -m tests.simulation.transacting --seeds 0:1000` runs seeds; the same seed gives the same run, to the byte.
Coordinators crash, stop for minutes or for hours, and lose answers at any request, while others write, read,
define, load, bring forward, trim and collect. Afterwards every answer is held against the moments at which calls took
effect.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING
from unittest import mock

from tests.simulation.collecting import short_lives
from tests.simulation.exchanges import EXCHANGES, Teller, plain
from tests.simulation.nodes import reckless_turns, tiny_objects
from tests.simulation.plan import FOCUSES, HOUR_MS, Plan
from tests.simulation.replay import Violation
from tests.simulation.run import SimulationFailed, no_collection
from tests.simulation.scheduler import ProcessCrash, Scheduler, cooperative_locks
from tests.simulation.serial import check_serial
from tests.simulation.store import LATE_MS_MAX, Weather
from tests.simulation.wide import COLLECTIONS, RECORDS, WideBucket, WideWorld
from wormdb.engine.commit import readers
from wormdb.errors import (
    ConflictError,
    NotFoundError,
    OutcomeUnknownError,
    SnapshotTooOldError,
    UnavailableError,
)
from wormdb.settings import LOG_RETENTION_MS_MIN
from wormdb.storage.conditions import forget_conditions
from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.simulation.store import TraceLine
    from tests.simulation.wide import Machine

__all__ = ["TransactingReport", "main", "run_transacting"]

NEMESIS_MS = (10_000.0, 120_000.0)
READER_REST_MS = 200.0
READS = ("look", "look", "look_around", "snapshot", "snapshot", "audit")
ROUNDS = 3
TRIES = 5
"""Of a call in calm weather: the first of a process may be too slow, and finds what others left in its way."""
OPEN_SECONDS = (30.0, 60.0, 60.0)
RUSH = "rush"
"""A focus of these runs alone: many threads at once in calm weather, and no housekeeping."""
RUSHED = {
    "weather": Weather(slow=0.05), "nodes": 2, "threads": 6, "readers": 0, "steps": 7, "distance": 1, "is_long": False,
    "pauses": False, "crashes": False, "jumps": False, "bursts": False, "commit_seconds": 30, "moment_ms": 40.0,
}  # fmt: skip
LEFT_MS = 3_700_000.0
FAILED = (UnavailableError, OutcomeUnknownError)
"""What housekeeping may meet; it is done again another time."""
REMOVED = (*FAILED, ConflictError, NotFoundError, SnapshotTooOldError)
"""The same where collections are dropped in the middle of it, RemovedError among them."""


@dataclass(frozen=True, slots=True)
class TransactingReport:
    """What one run was."""

    seed: int
    workload: str
    digest: str
    trace: tuple[TraceLine, ...]
    outcomes: dict[str, int]
    """How many calls of each kind had which outcome."""
    transactions: int
    committed: int
    trimmed: int
    second_records: int
    hours: float
    refusals: dict[str, int]


def run_transacting(seed: int, workload: str | None = None, focus: str | None = None) -> TransactingReport:
    """Run one seed; by default it chooses the workload and what the run is aimed at. Raises SimulationFailed."""
    names = sorted(EXCHANGES)
    name = workload or names[seed % len(names)]
    run = _TransactingRun(seed, name, focus)
    try:
        with no_collection():
            run.play()
    except Exception as error:
        command = f"python -m tests.simulation.transacting --seeds {seed}:1 --workload {name}"
        raise SimulationFailed(seed, name, error, run.world.bucket.trace, command) from error
    return run.report()


class _TransactingRun:
    """One seed, from its first request to its last check."""

    def __init__(self, seed: int, workload: str, focus: str | None) -> None:
        chance = SeededChance(seed)
        self._workload = workload
        self._is_rush = focus == RUSH
        plan = Plan.draw(chance, "busy" if self._is_rush else focus).sized(SeededChance(seed + 3))
        self._plan = replace(plan, **RUSHED) if self._is_rush else plan  # type: ignore[arg-type] # fields of a plan
        scheduler = Scheduler(SeededChance(seed + 1))
        # A store that shows its time at first and never again is none that there is.
        self._calm = replace(self._plan.calm, shows_time=self._plan.weather.shows_time)
        bucket = WideBucket(scheduler, SeededChance(seed + 2), self._calm)
        settings = replace(self._plan.settings, transaction_seconds=OPEN_SECONDS[int(chance.fraction() * 3)])
        self.world = WideWorld(seed, scheduler, bucket, chance, settings)

    def play(self) -> None:
        forget_conditions()
        probes = mock.patch.object(readers, "PROBES_MAX", self._plan.probes)
        turns = reckless_turns() if self._plan.is_reckless else nullcontext()
        with tiny_objects(), probes, turns, short_lives(), cooperative_locks(self.world.scheduler):
            self.world.scheduler.spawn("director", self._direct)
            self.world.scheduler.run()

    def report(self) -> TransactingReport:
        bucket, deeds = self.world.bucket, self.world.deeds
        lines = "\n".join(f"{line.time:.3f} {line.who} {line.what}" for line in bucket.trace)
        return TransactingReport(
            seed=self.world.seed,
            workload=self._workload,
            digest=sha256(lines.encode()).hexdigest(),
            trace=tuple(bucket.trace),
            outcomes=dict(sorted(Counter(f"{deed.name.split('-')[0]} {deed.outcome}" for deed in deeds).items())),
            transactions=len(bucket.participants),
            committed=sum(bucket.decided.values()),
            trimmed=sum(bucket.trimmed_of(name) > 0 for name in COLLECTIONS),
            second_records=len(bucket.second_records),
            hours=self.world.scheduler.now / HOUR_MS,
            refusals=dict(sorted(self.world.refusals.items())),
        )

    # --- the parts of a run, one after the other ---

    def _direct(self) -> None:
        world, plan = self.world, self._plan
        machines = [world.machine(f"node{number}", plan.distance) for number in range(max(2, plan.nodes))]
        with world.scheduler.inside(machines[0].process):
            Teller(world, machines[0]).begin()
        world.bucket.weather = plan.weather
        for machine in machines:
            for thread in range(plan.threads):
                self._spawn(machine, f"{machine.name}-{thread}", EXCHANGES[self._workload], plan.steps)
            for thread in range(plan.readers):
                self._spawn(machine, f"{machine.name}-reader{thread}", READS, 2 * plan.steps)
        if not self._is_rush:
            self._spawn_keepers(machines)
        while world.workers:
            world.scheduler.sleep(60_000)
        world.bucket.weather = self._calm
        if not self._is_rush:
            world.scheduler.sleep(1.1 * LATE_MS_MAX)
        self._finish(machines)

    def _spawn(self, machine: Machine, name: str, choices: Sequence[str], steps: int) -> None:
        teller, world = Teller(self.world, machine), self.world
        world.workers += 1

        def body() -> None:
            for _ in range(steps):
                world.scheduler.sleep(self._rest_ms())
                self._guarded(machine, getattr(teller, world.pick(*choices)))
            world.workers -= 1

        world.scheduler.spawn(name, body)

    def _spawn_keepers(self, machines: list[Machine]) -> None:
        world, plan = self.world, self._plan
        least, most = plan.keeper_ms
        keepers = [world.machine("keeper")] if plan.has_keeper else machines

        def some() -> Machine:
            return keepers[int(world.chance.fraction() * len(keepers))]

        def trim(machine: Machine) -> None:
            for name in COLLECTIONS:
                machine.db._ledger(f"{name}/").trim(LOG_RETENTION_MS_MIN)

        acts: dict[str, Callable[[Machine], object]] = {
            "forwarder": lambda machine: machine.db.forward(COLLECTIONS),
            "trimmer": trim,
            "collector": lambda machine: machine.db.gc(),
        }
        for name, act in acts.items():
            for number in range(2):
                self._every(f"{name}{number}", least, most, partial(self._keep_some, keepers, act))
        self._every("resolver", least / 2, most, lambda: self._resolve_one(some()))
        self._every("nemesis", *NEMESIS_MS, lambda: self._hurt(machines))

    def _every(self, name: str, least: float, most: float, act: Callable[[], None]) -> None:
        world = self.world

        def body() -> None:
            while world.workers:
                world.scheduler.sleep(world.between(least, most))
                if world.workers:
                    act()

        world.scheduler.spawn(name, body)

    def _rest_ms(self) -> float:
        world = self.world
        if not self._plan.is_long or world.likely(0.7):
            return world.between(0, self._plan.moment_ms)
        return world.between(1_000, 90_000) if world.likely(0.5) else world.between(60_000, HOUR_MS)

    # --- what the tasks do ---

    def _guarded(self, machine: Machine, act: Callable[[], object]) -> None:
        """Do something on a machine; if it dies meanwhile, start it again after a while."""
        if machine.process.dead:
            machine.start()
        try:
            with self.world.scheduler.inside(machine.process):
                act()
        except ProcessCrash:
            self.world.scheduler.sleep(self.world.between(0, 5_000))

    def _keep(self, machine: Machine, act: Callable[[Machine], object]) -> None:
        def attempt() -> None:
            with suppress(*(REMOVED if self._workload == "drops" else FAILED)):
                act(machine)

        self._guarded(machine, attempt)

    def _keep_some(self, keepers: list[Machine], act: Callable[[Machine], object]) -> None:
        self._keep(keepers[int(self.world.chance.fraction() * len(keepers))], act)

    def _resolve_one(self, machine: Machine) -> None:
        world = self.world
        known = sorted(world.unknown)
        if known:
            commit_id = known[int(world.chance.fraction() * len(known))]
            self._guarded(machine, lambda: self._resolve(machine, commit_id, settle=world.likely(0.5)))

    def _resolve(self, machine: Machine, commit_id: str, *, settle: bool) -> None:
        """Ask what became of a call. Raises Violation if it was told wrong."""
        world, deed = self.world, self.world.unknown[commit_id]
        if not commit_id.startswith("tx-"):
            return
        try:
            fate = str(machine.db.resolve(commit_id, settle=settle))
        except UnavailableError:
            return
        world.bucket.note(f"{deed.name} is {fate}")
        if fate == "unknown":
            return
        took_effect = deed.name in world.bucket.effects
        if (fate == "committed") != took_effect:
            raise Violation(f"{deed.label}: resolved as {fate}, took effect: {took_effect}")
        deed.returned, deed.outcome = world.tick(), "ok" if took_effect else "no"
        world.unknown.pop(commit_id, None)

    def _hurt(self, machines: list[Machine]) -> None:
        world, plan = self.world, self._plan
        machine = machines[int(world.chance.fraction() * len(machines))]
        kinds = [kind for kind in ("pauses", "crashes", "jumps", "bursts") if getattr(plan, kind)]
        if not kinds or machine.process.paused_until > world.scheduler.now:
            return
        kind = world.pick(*kinds)
        if kind == "pauses":
            pause_ms = world.between(1_000, 600_000)
            if plan.is_long and world.likely(0.6):
                pause_ms = world.between(HOUR_MS, 3 * HOUR_MS)
            machine.process.pause_at_request = (1 + int(world.chance.fraction() * 6), pause_ms)
        elif kind == "crashes":
            world.bucket.note(f"{machine.name} crashes")
            world.scheduler.kill(machine.process)
        elif kind == "jumps":
            machine.jump(world.between(-plan.jump_ms, plan.jump_ms))
        else:
            world.bucket.weather = replace(plan.weather, refused=0.7)
            world.scheduler.sleep(world.between(1_000, 60_000))
            if world.workers:
                world.bucket.weather = plan.weather

    # --- afterwards ---

    def _finish(self, machines: list[Machine]) -> None:
        world = self.world
        for machine in world.machines:
            machine.set_right()
        fresh = world.machine("fresh", is_right=True)
        with world.scheduler.inside(fresh.process):
            for commit_id in sorted(world.unknown):
                self._resolve(fresh, commit_id, settle=True)
            for name in COLLECTIONS:
                if fresh.db.removal(name).is_removed():
                    fresh.db.drop(name)
        for machine in [*machines, fresh]:
            teller = Teller(world, machine)
            for act in (teller.end, teller.snapshot):
                if not any(self._succeeds(machine, act) for _ in range(TRIES)):
                    raise Violation(f"{machine.name} gets nothing done in calm weather: {world.deeds[-1].label}")
        self._check(fresh)

    def _succeeds(self, machine: Machine, act: Callable[[], object]) -> bool:
        self._guarded(machine, act)
        return self.world.deeds[-1].outcome == "ok"

    def _check(self, fresh: Machine) -> None:
        world, bucket = self.world, self.world.bucket
        if bucket.broken:
            raise Violation("; ".join(bucket.broken))
        for deed in world.deeds:
            deed.effect = bucket.effects.get(deed.name)
        moments = check_serial(world.deeds)
        last = moments.states[-1]
        with world.scheduler.inside(fresh.process):
            for _ in range(0 if self._is_rush else ROUNDS):
                fresh.db.forward(COLLECTIONS)
                world.scheduler.sleep(LEFT_MS)
                fresh.db.gc()
            reopened = world.machine("reopened", is_right=True)
        with world.scheduler.inside(reopened.process):
            for name in COLLECTIONS:
                found = {(name, document.id): plain(document) for document in reopened.db[name].find({})}
                wanted = {key: values for key, values in last.items() if key[0] == name}
                if found != wanted:
                    raise Violation(f"{name} is {found} in the end, and should be {wanted}")
                bucket.replay_of(name)
            verified = () if self._is_rush else reopened.db.verify(COLLECTIONS)
            damage = [one for found in verified for one in found.findings if one.kind != "list"]
        if damage:
            raise Violation(f"verify finds {damage}")
        left = [key for key in self._records_left() if key.removeprefix(RECORDS) not in bucket.second_records]
        if left and bucket.weather.shows_time and not self._is_rush:
            raise Violation(f"records are left: {left}")
        if bucket.broken:
            raise Violation("; ".join(bucket.broken))

    def _records_left(self) -> list[str]:
        pages = self.world.bucket.objects.list(RECORDS)
        return [found.key for page in pages for found in page.objects if not found.key.endswith("floor")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run seeds and print each that fails; the exit code is 1 if any did."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.transacting", description=main.__doc__)
    parser.add_argument("--seeds", default="0:100", help="first:count")
    parser.add_argument("--workload", choices=sorted(EXCHANGES), help="instead of the one that the seed chooses")
    parser.add_argument("--focus", choices=(*FOCUSES, RUSH), help="instead of the one that the seed chooses")
    parser.add_argument("--trace", action="store_true", help="print the whole trace of every run")
    parser.add_argument("--stop", action="store_true", help="at the first that fails")
    options = parser.parse_args(arguments)
    logging.getLogger("wormdb").addHandler(logging.NullHandler())
    first, count = (int(part) for part in options.seeds.split(":"))
    failed, outcomes = 0, Counter[str]()
    for seed in range(first, first + count):
        try:
            report = run_transacting(seed, options.workload, options.focus)
        except SimulationFailed as failure:
            failed += 1
            lines = failure.trace if options.trace else ()
            sys.stdout.write("".join(f"{line}\n" for line in lines) + f"{failure}\n\n")
            if options.stop:
                break
            continue
        outcomes.update(report.outcomes)
        if options.trace:
            sys.stdout.write("".join(f"{line}\n" for line in report.trace))
    sys.stdout.write(f"{count} seeds, {failed} failed; {dict(sorted(outcomes.items()))}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
