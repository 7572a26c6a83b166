"""Simulate services: several nodes of the real code that are killed, stopped and set wrong, and clients that write.

`run_service_seed(seed)` plays one run in virtual time, from a seed. First the weather is bad and machines are hurt;
then all nodes but one die for good, and the one that is left has to take over. Afterwards every heartbeat that was ever
written, every round and every answer to a client is judged.
"""

from __future__ import annotations

import gc
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING
from unittest import mock

from tests.simulation.draws import Draws
from tests.simulation.nodes import tiny_objects
from tests.simulation.projections import check_root
from tests.simulation.replay import Violation
from tests.simulation.scheduler import Process, ProcessClock, ProcessCrash, Scheduler, cooperative_locks
from tests.simulation.service_judge import (
    DRIFT,
    Ring,
    RoundStart,
    ServiceBucket,
    judge_beats,
    judge_rings,
    judge_rounds,
    judge_takeover,
)
from tests.simulation.store import CALM, COLLECTION, PATHS, SimStore, Weather
from wormdb.api.database import Database
from wormdb.errors import ConflictError, OutcomeUnknownError, UnavailableError, WormError
from wormdb.jobs.node.node import Node
from wormdb.jobs.node.pace import Pace
from wormdb.jobs.node.rounds import Rounds
from wormdb.settings import MIB, NODE_INTERVALS_LIVE, Settings
from wormdb.storage.conditions import forget_conditions
from wormdb.storage.meter import MeteredStore
from wormdb.storage.pool import SerialPool
from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.jobs.node.rounds import Round
    from wormdb.jobs.node.watchlist import WatchedCollection

__all__ = ["PACE", "ServiceReport", "run_service_seed"]

# Clients write to a collection without a model, which nodes find by searching only.
PACE = Pace(
    breath_seconds=0.0,
    shared_seconds=0.0,
    retry_seconds_max=10.0,
    look_seconds=20.0,
    busy_seconds=20.0,
    discover_seconds=60.0,
)
STORM_MS = 90_000.0
CALM_MS = 30_000.0
SETTINGS = Settings(forward="manual", forward_interval_ms=0, cache_bytes=MIB, commit_seconds=10.0)


@dataclass(frozen=True, slots=True)
class ServiceReport:
    """What one run was."""

    seed: int
    machines: int
    kills: int
    pauses: int
    claims: int
    """Incarnations that wrote a heartbeat."""
    refused: int
    """Processes that were told that their id is in use, at the start or later."""
    rounds: int
    acknowledged: int
    unknown: int
    entries: int
    trace: tuple[str, ...] = field(repr=False, default=())


class _Machine:
    """A place where one process at a time runs, with clocks of its own."""

    def __init__(self, run: _Run, name: str, wanted: int | None) -> None:
        self.name = name
        self.wanted = wanted
        self._run = run
        self._skew_ms = run.between(-600_000, 600_000) if run.likely(0.7) else 0.0
        self._drift = run.between(0.99, 1.01)
        self.is_doomed = False
        self.begin()

    def begin(self) -> None:
        run = self._run
        self.process = Process(self.name)
        self.clock = ProcessClock(run.scheduler, self.process, skew_ms=self._skew_ms, drift=self._drift)
        self.chance = SeededChance(int.from_bytes(run.chance.token(8), "big"))
        store = SimStore(run.bucket, self.process, self.clock)
        self.database = Database(
            MeteredStore(store, clock=self.clock),
            SerialPool(),
            settings=SETTINGS,
            schema=None,
            actor=None,
            clock=self.clock,
            chance=self.chance,
        )
        self.node = Node(self.database, node=self.wanted, pace=PACE, clock=self.clock, chance=self.chance)

    def jump(self, jump_ms: float) -> None:
        self._skew_ms += jump_ms
        self.clock.skew_ms = self._skew_ms


class _Run(Draws):
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = SeededChance(seed)
        self._fortune = SeededChance(seed + 3)
        """Decides which machine is hurt, apart from what others draw: a seed stays what it is when code moves on."""
        self.scheduler = Scheduler(SeededChance(seed + 1))
        self.bucket = ServiceBucket(self.scheduler, SeededChance(seed + 2), CALM)
        self.suspends = seed % 3 == 0
        self.is_over = False
        self.kills = self.pauses = self.refused = self.unknown = 0
        self.acknowledged: set[str] = set()
        self.refusals: set[str] = set()
        self.bumps = self.bumps_unknown = 0
        self.began: list[RoundStart] = []
        self.rings: list[Ring] = []
        self.machines: list[_Machine] = []

    # --- what runs ---

    def play(self) -> None:
        forget_conditions()
        with ExitStack() as stack:
            stack.enter_context(tiny_objects())
            stack.enter_context(cooperative_locks(self.scheduler))
            stack.enter_context(mock.patch.object(Rounds, "round", self._witnessed(Rounds.round)))
            self.scheduler.spawn("director", self._direct)
            self.scheduler.run()
        self._judge()

    def _witnessed(self, real: Callable[..., Round]) -> Callable[..., Round]:
        def witnessed(workload: Rounds, watched: WatchedCollection, *, with_upkeep: bool) -> Round:
            node = workload._turns
            assert isinstance(node, Node)
            self.began.append(RoundStart(self.scheduler.now, node.id, node.ring(), node.silence))
            return real(workload, watched, with_upkeep=with_upkeep)

        return witnessed

    def _direct(self) -> None:
        count = 2 + int(self.chance.fraction() * 3)
        # With wanted ids some of them want the same one, and one of these has to go.
        ids = [None, *(int(self.chance.fraction() * 3) for _ in range(count - 1))]
        wanted = [None] * count if self.likely(0.4) else ids
        self.machines = [_Machine(self, f"node{number}", each) for number, each in enumerate(wanted)]
        for machine in self.machines:
            self.scheduler.spawn(machine.name, partial(self._serve, machine))
        for number in range(2):
            self.scheduler.spawn(f"client{number}", partial(self._write, _Machine(self, f"client{number}", None)))
        self.scheduler.sleep(self.between(2_000, 20_000))
        self.bucket.weather = self._weather()
        ends = self.scheduler.now + STORM_MS
        while self.scheduler.now < ends:
            self.scheduler.sleep(1_000 + 19_000 * self._fortune.fraction())
            self._hurt(self.machines[int(self._fortune.fraction() * count)])
        self._leave_one()
        self.is_over = True

    def _weather(self) -> Weather:
        def level(most: float) -> float:
            return (0.0, most / 4, most)[int(self.chance.fraction() * 3)]

        return Weather(
            refused=level(0.1), dropped=level(0.04), answer_lost=level(0.08), late=level(0.08), twice=level(0.1)
        )

    def _hurt(self, machine: _Machine) -> None:
        now, kind = self.scheduler.now, int(self._fortune.fraction() * 4)
        pause_ms, is_at_request = 6_000 + 54_000 * self._fortune.fraction(), self._fortune.fraction() < 0.5
        if machine.process.dead or machine.process.paused_until > now:
            return
        if kind == 0:
            self.bucket.note(f"{machine.name} is killed")
            self.kills += 1
            self.scheduler.kill(machine.process)
        elif kind == 1:
            machine.jump(self.between(-600_000, 600_000))
        else:
            self.bucket.note(f"{machine.name} stops for {pause_ms / 1000:.0f} s")
            self.pauses += 1
            if is_at_request:
                machine.process.pause_at_request = (1, pause_ms)
            else:
                self.scheduler.pause(machine.process, pause_ms, suspended=self.suspends and self.likely(0.5))

    def _leave_one(self) -> None:
        """Good weather, and all nodes but one die for good; that one has to bring forward what clients write."""
        self.bucket.weather = CALM
        self.scheduler.sleep(65_000)
        survivor = self.machines[int(self.chance.fraction() * len(self.machines))]
        for machine in self.machines:
            if machine is not survivor:
                machine.is_doomed = True
        # One that was refused all the time, because another has its id, must now get it.
        self.scheduler.sleep(self.between(0, 5_000))
        for machine in self.machines:
            if machine.is_doomed:
                self.scheduler.kill(machine.process)
        killed = self.scheduler.now
        heard = [self.bucket.newest_beats[node] for node in self.bucket.newest_beats]
        longest = max((NODE_INTERVALS_LIVE * each.heartbeat.interval_ms for each in heard), default=0)
        seen = killed + DRIFT * longest + 7_000
        self.scheduler.sleep(seen - killed)
        self.scheduler.sleep(CALM_MS)
        judge_rings(self.rings, self.bucket.newest_beats, killed, PACE)
        judge_takeover(self.bucket, seen, self.scheduler.now)

    def _serve(self, machine: _Machine) -> None:
        """Processes of one machine, one after the other."""
        while not self.is_over and not machine.is_doomed:
            machine.begin()
            try:
                with self.scheduler.inside(machine.process):
                    machine.node.start()
                    self.scheduler.spawn(f"{machine.name}.beats", partial(self._beat, machine, machine.node))
                    while self._goes_on(machine.node):
                        self._witness_ring(machine)
                        machine.clock.sleep(machine.node.work())
            except ProcessCrash:
                pass
            except ConflictError:
                self.refused += 1
            except WormError as error:
                self.bucket.note(f"could not start: {error}")
            self.refused += machine.node.lost is not None
            self.scheduler.sleep(self.between(0, 10_000))

    def _witness_ring(self, machine: _Machine) -> None:
        node, stood_ms = machine.node, machine.process.suspended_ms
        self.rings.append(Ring(self.scheduler.now, node.id, node.ring(), stood_ms))

    def _goes_on(self, node: Node) -> bool:
        return not self.is_over and not node.ended.is_set()

    def _beat(self, machine: _Machine, node: Node) -> None:
        try:
            with self.scheduler.inside(machine.process):
                while self._goes_on(node):
                    machine.clock.sleep(node.beat())
        except (ProcessCrash, ConflictError):
            return

    def _write(self, machine: _Machine) -> None:
        number = 0
        collection = machine.database[COLLECTION.rstrip("/")]
        with self.scheduler.inside(machine.process):
            while not self.is_over:
                number += 1
                token = f"{machine.name}-{number}"
                is_bump = number % 4 == 0
                try:
                    if is_bump:
                        collection.update_one({"_id": "sum"}, {"$inc": {"n": 1}}, upsert=True)
                    else:
                        collection.insert({"id": token})
                except OutcomeUnknownError:
                    self.unknown += 1
                    self.bumps_unknown += is_bump
                except (UnavailableError, ConflictError):
                    if not is_bump:
                        self.refusals.add(token)
                else:
                    self.bumps += is_bump
                    self.acknowledged |= set() if is_bump else {token}
                machine.clock.sleep(self.between(0.5, 5.0))

    # --- what is judged ---

    def _judge(self) -> None:
        if self.bucket.broken:
            raise Violation("; ".join(self.bucket.broken))
        judge_beats(self.bucket.beats)
        if not self.suspends:
            judge_rounds(self.began, PACE.interval_ms)
        replay = self.bucket.replay()
        there = set(replay.states[-1].bodies())
        if lost := self.acknowledged - {name.strip('"') for name in there}:
            raise Violation(f"acknowledged and lost: {sorted(lost)}")
        if ghosts := self.refusals & {name.strip('"') for name in there}:
            raise Violation(f"refused and there: {sorted(ghosts)}")
        total = (replay.states[-1].document("sum") or {"n": 0})["n"]
        if not self.bumps <= total <= self.bumps + self.bumps_unknown:
            raise Violation(f"{self.bumps} additions were acknowledged, {self.bumps_unknown} unknown: sum {total}")
        check_root(self.bucket.objects, PATHS, self.bucket.roots[-1], replay)

    def report(self) -> ServiceReport:
        incarnations: set[str] = {beat.heartbeat.incarnation for beat in self.bucket.beats}
        return ServiceReport(
            seed=self.seed,
            machines=len(self.machines),
            kills=self.kills,
            pauses=self.pauses,
            claims=len(incarnations),
            refused=self.refused,
            rounds=len(self.began),
            acknowledged=len(self.acknowledged) + self.bumps,
            unknown=self.unknown,
            entries=len(self.bucket.entries),
            trace=tuple(str(line) for line in self.bucket.trace),
        )


def run_service_seed(seed: int) -> ServiceReport:
    """Play one seed. Raises Violation, with the end of its trace, if a promise was broken."""
    run = _Run(seed)
    was_enabled = gc.isenabled()
    gc.disable()  # when garbage goes depends on what the process did before, and it may still ask a store
    try:
        run.play()
    except Violation as found:
        shown = "\n".join(str(line) for line in run.bucket.trace[-60:])
        raise Violation(f"seed {seed}: {found}\n{shown}") from found
    finally:
        if was_enabled:
            gc.enable()
    return run.report()
