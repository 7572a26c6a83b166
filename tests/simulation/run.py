"""Run several nodes of the real code in one process, in virtual time, from a seed.

`python -m tests.simulation.run --seeds 0:5000` runs seeds; the same seed gives the same run, to the byte. A run
sends clients, a forwarder, trimmers, watchers and a resolver against one collection, through a network that drops,
repeats and delays, on nodes that stop for hours, crash and have wrong clocks. Afterwards every answer
that a client got is held against the log that was really written.
"""

from __future__ import annotations

import argparse
import gc
import logging
import sys
from collections import Counter
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING
from unittest import mock

from tests.engine.sweeps.projections import odd_merges, tiny_lists
from tests.simulation.client import Client
from tests.simulation.collecting import clean_up, short_lives
from tests.simulation.history import audit
from tests.simulation.nodes import World, reckless_turns, tiny_objects
from tests.simulation.plan import FOCUSES, HOUR_MS, Plan
from tests.simulation.projections import check_root, check_succession
from tests.simulation.rebuild import check_rebuilt
from tests.simulation.replay import Violation
from tests.simulation.scheduler import ProcessCrash, Scheduler, cooperative_locks
from tests.simulation.store import COLLECTION, LATE_MS_MAX, PATHS, Bucket, TraceLine
from tests.simulation.times import check_times
from tests.simulation.watcher import WATCHERS, Watcher
from tests.simulation.workloads import WORKLOADS
from wormdb.engine.commit import readers
from wormdb.engine.commit.operations import CommitId
from wormdb.engine.commit.resolve import Fate as CommitFate
from wormdb.errors import OutcomeUnknownError, UnavailableError
from wormdb.settings import LOG_RETENTION_MS_MIN
from wormdb.storage.conditions import forget_conditions
from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.simulation.history import Call
    from tests.simulation.nodes import Node
    from tests.simulation.replay import Replay
    from tests.simulation.workloads import Workload
    from wormdb.format.event import Event

__all__ = ["Report", "SimulationFailed", "main", "no_collection", "run_seed"]

RETENTION_MS = LOG_RETENTION_MS_MIN
DAWN_MS = 2.5 * HOUR_MS
TRACE_SHOWN = 60
ROOTS_LOOKED_AT = 1
REBUILT_EACH = 3
OVERTIME_SECONDS = 1.0
BY_ROWS = ("update many", "delete many")
"""Calls whose time begins anew with the rows of another try."""
READS_MAX = 25
READER_REST_MS = 60.0
OF_THE_ENGINE = ("scan", "as of", "define", "create index", "drop index", "owners", "ask", "near", "search")
"""Calls of a simulation that go to the engine directly, are streams, or several: each request has its own time."""


@dataclass(frozen=True, slots=True)
class Report:
    """What one run was."""

    seed: int
    workload: str
    digest: str
    """The hash of the whole trace."""
    trace: tuple[TraceLine, ...]
    calls: int
    entries: int
    trimmed: int
    zombies: int
    hours: float
    outcomes: dict[str, int]
    events: dict[str, int]
    """How many events of each kind the log has."""


class SimulationFailed(AssertionError):  # noqa: N818 - read as a sentence in a test report
    """A seed broke a promise; the message shows the end of its trace."""

    def __init__(
        self, seed: int, workload: str, cause: BaseException, trace: Sequence[TraceLine], command: str = ""
    ) -> None:
        """`cause` is what was found, `command` what repeats it."""
        self.seed = seed
        self.workload = workload
        self.cause = cause
        self.trace = tuple(trace)
        shown = "\n".join(str(line) for line in trace[-TRACE_SHOWN:])
        super().__init__(
            f"seed {seed} ({workload}): {type(cause).__name__}: {cause}\n"
            f"the last {min(TRACE_SHOWN, len(trace))} of {len(trace)} lines of its trace:\n{shown}\n"
            f"again: {command or f'python -m tests.simulation.run --seeds {seed}:1 --workload {workload}'}"
        )


def run_seed(seed: int, workload: str | None = None, focus: str | None = None, *, collects: bool = False) -> Report:
    """Run one seed; by default it chooses the workload and what the run is aimed at. Raises SimulationFailed.

    With `collects` some nodes also collect garbage, of which no trace may be left at the end.
    """
    names = sorted(WORKLOADS)
    name = workload or names[seed % len(names)]
    run = _Run(seed, WORKLOADS[name], focus, collects=collects)
    try:
        with no_collection():
            run.play()
    except Exception as error:
        raise SimulationFailed(seed, name, error, run.world.bucket.trace) from error
    return run.report(name)


@contextmanager
def no_collection() -> Iterator[None]:
    """Leave cyclic garbage alone: when it goes depends on what the process did before, and it may still ask a store."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
            gc.collect(0)


class _Run:
    """One seed, from its first request to its last check."""

    def __init__(self, seed: int, workload: Workload, focus: str | None, *, collects: bool = False) -> None:
        chance = SeededChance(seed)
        self._workload = workload
        self._plan = Plan.draw(chance, focus).sized(SeededChance(seed + 3))
        scheduler = Scheduler(SeededChance(seed + 1))
        bucket = Bucket(scheduler, SeededChance(seed + 2), self._plan.calm)
        self.world = World(seed, scheduler, bucket, chance, self._plan.settings)
        self._watchers: list[Watcher] = []
        self._collects = collects
        self._replay: Replay | None = None

    def play(self) -> None:
        forget_conditions()
        probes = mock.patch.object(readers, "PROBES_MAX", self._plan.probes)
        turns = reckless_turns() if self._plan.is_reckless else nullcontext()
        lives = short_lives() if self._collects else nullcontext()
        with tiny_objects(), tiny_lists(), odd_merges(), probes, turns, lives:
            with cooperative_locks(self.world.scheduler):
                self.world.scheduler.spawn("director", self._direct)
                self.world.scheduler.run()
            self._look_at_projections()

    def report(self, workload: str) -> Report:
        bucket, history = self.world.bucket, self.world.history
        lines = "\n".join(f"{line.time:.3f} {line.who} {line.what}" for line in bucket.trace)
        outcomes: dict[str, int] = {}
        for call in history.calls:
            outcomes[call.outcome] = outcomes.get(call.outcome, 0) + 1
        return Report(
            seed=self.world.seed,
            workload=workload,
            digest=sha256(lines.encode()).hexdigest(),
            trace=tuple(bucket.trace),
            calls=len(history.calls),
            entries=len(bucket.entries),
            trimmed=bucket.trimmed,
            zombies=len(bucket.zombies),
            hours=self.world.scheduler.now / HOUR_MS,
            outcomes=dict(sorted(outcomes.items())),
            events=dict(sorted(Counter(type(event).__name__ for event in self._events()).items())),
        )

    def _events(self) -> list[Event]:
        return [event for entry in (self._replay.entries if self._replay else ()) for event in entry.events]

    # --- the parts of a run, one after the other ---

    def _direct(self) -> None:
        world, plan = self.world, self._plan
        nodes = [world.node(f"node{number}", plan.distance) for number in range(plan.nodes)]
        with world.scheduler.inside(nodes[0].process):
            self._workload.begin(Client(world, nodes[0]))
        world.bucket.weather = self._plan.weather
        for node in nodes:
            for thread in range(plan.threads):
                self._spawn_client(node, f"{node.name}-{thread}")
            for thread in range(plan.readers):
                self._spawn_reader(node, f"{node.name}-reader{thread}")
        self._spawn_keepers(nodes)
        while world.workers:
            world.scheduler.sleep(60_000)
        # Whatever is still on the wire lands, in the worst order the seed could think of.
        world.bucket.weather = replace(plan.calm, shows_time=plan.weather.shows_time)
        world.scheduler.sleep(1.1 * LATE_MS_MAX)
        self._finish(nodes)

    def _spawn_client(self, node: Node, name: str) -> None:
        client = Client(self.world, node)
        self.world.workers += 1

        def body() -> None:
            for _ in range(self._plan.steps):
                self.world.scheduler.sleep(self._rest_ms())
                self._guarded(node, lambda: self._workload.step(client))
            self.world.workers -= 1

        self.world.scheduler.spawn(name, body)

    def _spawn_reader(self, node: Node, name: str) -> None:
        """A thread that only reads, for as long as others write."""
        world, client = self.world, Client(self.world, node)

        def body() -> None:
            for _ in range(READS_MAX):
                world.scheduler.sleep(world.between(0, READER_REST_MS))
                if not world.workers:
                    return
                self._guarded(node, lambda: client.look(world.pick("read", "scan", "scan", "stale", "at least")))

        world.scheduler.spawn(name, body)

    def _spawn_keepers(self, nodes: list[Node]) -> None:
        """Start all nodes that are not clients; they stop when the last client has."""
        world, plan = self.world, self._plan
        least, most = plan.keeper_ms
        keepers = [world.node("keeper")] if plan.has_keeper else nodes

        def some(among: Sequence[Node] = tuple(nodes)) -> Node:
            return among[int(world.chance.fraction() * len(among))]

        def trim(node: Node) -> None:
            node.ledger.trim(RETENTION_MS)

        for number in range(2):
            act = partial(self._keep_some, keepers, lambda node: node.ledger.forward())
            self._every(f"forwarder{number}", 2 * least, 2 * most, act)
        for number in range(2):
            act = partial(self._keep, some(keepers), trim)
            self._every(f"trimmer{number}", least, most, act, dawn=plan.dawn_of_trimmers)
        for number in range(2 if self._collects else 0):
            act = partial(self._keep, some(keepers), lambda node: node.collect())
            self._every(f"collector{number}", least / 2, most / 2, act)
        if plan.resolves:
            self._every("resolver", least / 2, most, lambda: self._resolve_one(some()))
        for number in range(plan.clerks):
            clerk = world.node(f"clerk{number}")
            self._every(clerk.name, least / 8, most / 4, partial(self._resolve_sleepily, clerk))
        for number, kind in enumerate(WATCHERS):
            watcher = Watcher(world, some(), kind=kind)
            self._watchers.append(watcher)
            self._every(f"watcher{number}", least, 2 * most, partial(self._guarded, watcher.node, watcher.look))
        self._every("nemesis", max(least / 2, 10_000), max(most, 120_000), lambda: self._hurt(some()))

    def _every(
        self, name: str, least: float, most: float, act: Callable[[], None], *, dawn: float | None = None
    ) -> None:
        """A task that acts again and again, with rests between; `dawn` of them end at dawn."""
        world = self.world
        dawn = self._plan.dawn if dawn is None else dawn

        def body() -> None:
            while world.workers:
                is_dawn = self._plan.is_long and world.likely(dawn)
                world.scheduler.sleep(self._until_dawn_ms() if is_dawn else world.between(least, most))
                if world.workers:
                    act()

        world.scheduler.spawn(name, body)

    def _rest_ms(self) -> float:
        """How long a client does nothing: a moment, mostly; in a long run sometimes most of an hour, or until dawn."""
        world = self.world
        if not self._plan.is_long or world.likely(0.65):
            return world.between(0, self._plan.moment_ms)
        if world.likely(self._plan.dawn):
            return self._until_dawn_ms()
        return world.between(1_000, 90_000) if world.likely(0.4) else world.between(60_000, HOUR_MS)

    def _until_dawn_ms(self) -> float:
        """Until a moment at which many wake up, each with its own old knowledge."""
        world = self.world
        return DAWN_MS - world.scheduler.now % DAWN_MS + world.between(0, 4_000)

    # --- what the tasks do ---

    def _guarded(self, node: Node, act: Callable[[], None]) -> None:
        """Do something on a node; if it dies meanwhile, start it again after a while."""
        if node.process.dead:
            node.start()
        try:
            with self.world.scheduler.inside(node.process):
                act()
        except ProcessCrash:
            self.world.scheduler.sleep(self.world.between(0, 5_000))

    def _keep(self, node: Node, act: Callable[[Node], object]) -> None:
        """Housekeeping may fail; it is tried again another time."""

        def attempt() -> None:
            with suppress(UnavailableError, OutcomeUnknownError):
                act(node)

        self._guarded(node, attempt)

    def _keep_some(self, nodes: Sequence[Node], act: Callable[[Node], object]) -> None:
        self._keep(nodes[int(self.world.chance.fraction() * len(nodes))], act)

    def _resolve_one(self, node: Node) -> None:
        world = self.world
        if not world.unknown:
            return
        call = world.unknown.pop(int(world.chance.fraction() * len(world.unknown)))
        settle = world.likely(0.5)
        self._guarded(node, lambda: self._resolve(node, call, settle=settle))

    def _resolve_sleepily(self, node: Node) -> None:
        """On a machine that often stops in the middle, for as long as the log takes to be trimmed."""
        world = self.world
        if self._plan.is_long and self._plan.pauses and world.likely(0.7):
            node.process.pause_at_request = (1 + int(world.chance.fraction() * 2), world.between(1, 4) * HOUR_MS)
        self._resolve_one(node)

    def _resolve(self, node: Node, call: Call, *, settle: bool) -> None:
        assert call.commit_id is not None
        commit = CommitId.parse(call.commit_id)
        try:
            fate = node.collection.resolve(call.commit_id, settle=settle)
        except UnavailableError:
            self.world.unknown.append(call)
            return
        except ProcessCrash:
            self.world.unknown.append(call)
            raise
        self.world.bucket.note(f"call {call.number} is {fate}")
        if fate is CommitFate.UNKNOWN:
            if settle and commit.slot > self.world.bucket.trimmed:
                raise Violation(f"{call.label}: settled, and still unknown")
            if not settle:
                self.world.unknown.append(call)
            return
        slots = range(commit.slot, commit.slot + commit.more + 1)
        call.slot = next((slot for slot in slots if self.world.bucket.holds(slot, commit.batch)), commit.slot)
        self.world.history.resolved(call, committed=fate is CommitFate.COMMITTED)

    def _hurt(self, node: Node) -> None:
        world, plan = self.world, self._plan
        kinds = [kind for kind in ("pauses", "crashes", "jumps", "bursts") if getattr(plan, kind)]
        if not kinds or node.process.paused_until > world.scheduler.now:
            return
        kind = world.pick(*kinds)
        if kind == "pauses":
            self._pause(node)
        elif kind == "crashes":
            world.bucket.note(f"{node.name} crashes")
            world.scheduler.kill(node.process)
        elif kind == "jumps":
            world.bucket.note(f"the clock of {node.name} is set")
            node.jump(world.between(-plan.jump_ms, plan.jump_ms))
        else:
            world.bucket.weather = replace(self._plan.weather, refused=0.7)
            world.scheduler.sleep(world.between(1_000, 60_000))
            if world.workers:
                world.bucket.weather = self._plan.weather

    def _pause(self, node: Node) -> None:
        world = self.world
        pause_ms = world.between(61_000, 600_000)
        if self._plan.is_long and world.likely(0.6):
            pause_ms = world.between(HOUR_MS, 3 * HOUR_MS)
        if world.likely(0.5):
            node.process.pause_at_request = (1, pause_ms)
            return
        world.bucket.note(f"{node.name} stops for {pause_ms / 1000:.0f} s")
        world.scheduler.pause(node.process, pause_ms, suspended=world.likely(0.5))

    # --- afterwards ---

    def _finish(self, nodes: list[Node]) -> None:
        world = self.world
        for node in world.nodes:
            node.set_right()
        fresh = world.node("fresh", is_right=True)
        with world.scheduler.inside(fresh.process):
            for call in [call for call in world.history.calls if call.outcome == "unknown" and call.commit_id]:
                self._resolve(fresh, call, settle=True)
        self._see_the_same([*nodes, fresh])
        self._all_write([*nodes, fresh])
        with world.scheduler.inside(fresh.process):
            fresh.ledger.forward()
        self._see_the_same([world.node("reopened"), *nodes])
        if self._collects:
            clean_up(world)
        replay = self._replay = world.bucket.replay()
        if world.bucket.broken:
            raise Violation("; ".join(world.bucket.broken))
        audit(world.history, replay)
        self._check_times()
        with world.scheduler.inside(fresh.process):
            check_times(world, fresh, replay)
        self._workload.check(world, replay)
        self._check_definition(fresh, replay)
        for watcher in self._watchers:
            for _ in range(2):  # what one look plans another reads
                self._guarded(watcher.node, watcher.look)
            watcher.check(replay)

    def _check_times(self) -> None:
        """Where only deadlines end calls, each of them has ended in time."""
        plan = self._plan
        if not plan.weather.is_silent:
            return
        once = max(plan.commit_seconds, plan.read_seconds) + OVERTIME_SECONDS
        for call in self.world.history.calls:
            longest = once + plan.commit_seconds if call.verb in BY_ROWS else once
            if call.seconds > longest and call.verb not in OF_THE_ENGINE:
                raise Violation(f"{call.label}: it took {call.seconds:.1f} s")

    def _look_at_projections(self) -> None:
        """Some roots of the run say what the log says; and so does a new one, made from the log alone."""
        world, replay = self.world, self._replay
        assert replay is not None
        roots = world.bucket.roots
        chosen = {len(roots) - 1}
        if not self._collects:  # of older roots objects are gone
            chosen |= {int(world.chance.fraction() * len(roots)) for _ in range(ROOTS_LOOKED_AT)}
        for place in sorted(chosen):
            check_root(world.bucket.objects, PATHS, roots[place], replay)
            if place and not self._collects:
                check_succession(world.bucket.objects, PATHS, roots[place - 1], roots[place])
        if not world.bucket.trimmed and world.seed % REBUILT_EACH == 0:
            check_rebuilt(world.bucket.objects, COLLECTION, replay, world.settings)

    def _see_the_same(self, nodes: list[Node]) -> None:
        """Every node, also one that slept through it all, sees the end of the log."""
        for node in nodes:
            self._guarded(node, Client(self.world, node).scan)
            call = self.world.history.calls[-1]
            if call.outcome != "ok" or call.result[0] != self.world.bucket.highest:
                raise Violation(f"{node.name} does not see the end of the log: {call.label}")

    def _all_write(self, nodes: list[Node]) -> None:
        """Now that nothing is wrong any more, every node can write."""
        for node in nodes:
            client = Client(self.world, node)
            self._guarded(node, client.scan)
            self._guarded(node, partial(self._workload.end, client))
            call = self.world.history.calls[-1]
            if call.outcome != "ok":
                raise Violation(f"{node.name} cannot write in calm weather: {call.label}")

    def _check_definition(self, node: Node, replay: Replay) -> None:
        with self.world.scheduler.inside(node.process):
            body = node.ledger.view().definition.body
        if body != replay.states[-1].definition:
            raise Violation(f"the definition is {body!r}, the log says {replay.states[-1].definition!r}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run seeds and print each that fails; the exit code is 1 if any did."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.run", description=main.__doc__)
    parser.add_argument("--seeds", default="0:100", help="first:count")
    parser.add_argument("--workload", choices=sorted(WORKLOADS), help="instead of the one that the seed chooses")
    parser.add_argument("--focus", choices=FOCUSES, help="instead of the one that the seed chooses")
    parser.add_argument("--gc", action="store_true", help="let nodes collect garbage too")
    parser.add_argument("--trace", action="store_true", help="print the whole trace of every run")
    options = parser.parse_args(arguments)
    logging.getLogger("wormdb").addHandler(logging.NullHandler())
    first, count = (int(part) for part in options.seeds.split(":"))
    failed = 0
    for seed in range(first, first + count):
        try:
            report = run_seed(seed, options.workload, options.focus, collects=options.gc)
        except SimulationFailed as failure:
            failed += 1
            lines = failure.trace if options.trace else ()
            sys.stdout.write("".join(f"{line}\n" for line in lines) + f"{failure}\n\n")
            continue
        if options.trace:
            sys.stdout.write("".join(f"{line}\n" for line in report.trace))
    sys.stdout.write(f"{count} seeds, {failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
