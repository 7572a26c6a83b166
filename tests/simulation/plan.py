"""What a seed makes of a run: how many nodes, which faults, how long they rest.

Each fault is off, rare or common, drawn on its own, so that runs differ in kind. Some runs are aimed at the places
where protocols like this one have broken before: writes that land hours late (`late`), all nodes waking at once
with old knowledge while the log is trimmed (`dawn`), many threads that commit together and fail (`crowd`), many
that write while others bring the log forward and build indexes (`busy`), and many that read beside a few that write
(`readers`). One kind of run (`clocks`) is on a folder,
whose time is told by processes with clocks that are set by days, ahead and back. In `silent` runs, which no seed
chooses by itself, a lost request is never answered, so that only deadlines end calls. No seed chooses `readers` either,
but in many runs some threads only read; nor `offers`, in which writers take no turns, and offer and take batches by
chance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.simulation.store import Weather
from wormdb.settings import BLOCK_BYTES_TARGET, LOG_RETENTION_MS_MIN, MIB, READ_SECONDS, STAGE_BYTES, Settings

if TYPE_CHECKING:
    from wormdb.system.clock import Chance

__all__ = ["FOCUSES", "HOUR_MS", "Plan"]

HOUR_MS = 3_600_000.0
DAY_MS = 24 * HOUR_MS
FOCUSES = ("late", "dawn", "crowd", "busy", "clocks", "silent", "readers", "offers")
SHARES = {"late": 0.1, "dawn": 0.25, "crowd": 0.35, "busy": 0.45, "clocks": 0.6}
"""Below which draw a run is aimed at what."""
TINY_STAGE_BYTES = 360
"""Batches of two documents and more are staged."""
TINY_BLOCK_BYTES = 300
"""A block has a few documents."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One run, before it begins."""

    weather: Weather
    nodes: int
    distance: float
    """How many times longer than the others' the requests of the clients' nodes take."""
    threads: int
    """Clients on each node."""
    is_long: bool
    """Whether clients rest for so long that the log is trimmed under them."""
    pauses: bool
    crashes: bool
    jumps: bool
    """Whether clocks are set while their nodes run."""
    bursts: bool
    clerks: int
    """Machines that resolve unknown outcomes, and often stop in the middle of it."""
    resolves: bool
    """Whether others resolve unknown outcomes too."""
    has_keeper: bool
    """Whether the housekeeping has a node of its own, so that the clients' nodes know nothing new while they rest."""
    commit_seconds: float
    forward_entries: int
    tail_entries_max: int
    dawn: float
    """How often a rest ends at the moment when many others do."""
    dawn_of_trimmers: float
    read_seconds: float = READ_SECONDS
    steps: int = 6
    """Calls of each client."""
    is_reckless: bool = False
    """Whether writers take no turns, and offer and take batches by chance."""
    moment_ms: float = 300.0
    """How long a client does nothing between two calls at most, mostly."""
    stage_bytes: int = STAGE_BYTES
    block_bytes: int = BLOCK_BYTES_TARGET
    readers: int = 0
    """Threads on each node that only read, beside the clients."""
    probes: int = 4
    """Probes of the log that the readers of a node have on their way at once."""
    jump_ms: float = 600_000.0
    """By how much a clock is set at most, either way."""

    @classmethod
    def draw(cls, chance: Chance, focus: str | None = None) -> Plan:
        """The plan of a seed; without a `focus` the seed chooses one, or none."""

        def one_of(*choices: float) -> float:
            return choices[int(chance.fraction() * len(choices))]

        plan = cls(
            weather=_weather(chance),
            nodes=int(one_of(1, 2, 2, 3, 3)),
            distance=one_of(1, 1, 20),
            threads=int(one_of(1, 1, 2, 2, 3)),
            is_long=chance.fraction() < 0.75,
            pauses=chance.fraction() < 0.7,
            crashes=chance.fraction() < 0.5,
            jumps=chance.fraction() < 0.5,
            bursts=chance.fraction() < 0.3,
            clerks=1,
            resolves=chance.fraction() < 0.7,
            has_keeper=chance.fraction() < 0.5,
            commit_seconds=one_of(0.1, 2, 30),
            forward_entries=int(one_of(5, 15, 1000)),
            tail_entries_max=int(one_of(20, 1000)),
            dawn=0.3,
            dawn_of_trimmers=one_of(0.1, 0.9),
        )
        drawn = chance.fraction()
        focus = focus or next((name for name, below in SHARES.items() if drawn < below), None)
        if focus == "late":
            plan = replace(plan, weather=Weather(late=0.2, twice=0.1), has_keeper=True, forward_entries=5)
            plan = replace(
                plan,
                nodes=2,
                threads=2,
                steps=15,
                is_long=True,
                dawn=0.1,
                dawn_of_trimmers=0.1,
                crashes=False,
                bursts=False,
            )
            return replace(plan, pauses=True, clerks=3, resolves=False, commit_seconds=0.1)
        if focus == "dawn":
            plan = replace(plan, weather=replace(plan.weather, slow=0.0, shows_time=True), distance=20)
            plan = replace(plan, nodes=2, threads=2, is_long=True, dawn=0.6, dawn_of_trimmers=0.9, has_keeper=True)
            return replace(plan, steps=9)
        if focus == "crowd":
            plan = replace(plan, weather=replace(plan.weather, refused=0.3), commit_seconds=0.1, is_long=False)
            return replace(plan, nodes=2, threads=4, steps=8)
        if focus == "silent":
            weather = Weather(dropped=0.1, answer_lost=0.1, late=0.05, slow=0.05, is_silent=True)
            plan = replace(plan, weather=weather, commit_seconds=2, read_seconds=3, forward_entries=1000)
            plan = replace(plan, tail_entries_max=1000, is_long=False, pauses=False, crashes=False, jumps=False)
            return replace(plan, nodes=2, threads=4, steps=8, distance=1)
        if focus == "readers":
            weather = replace(plan.weather, refused=min(plan.weather.refused, 0.03))
            plan = replace(plan, weather=weather, is_long=False, commit_seconds=2, bursts=False)
            return replace(plan, nodes=2, threads=3, steps=10, readers=5)
        if focus == "offers":
            plan = replace(plan, is_reckless=True, moment_ms=20.0, is_long=chance.fraction() < 0.3)
            plan = replace(plan, distance=one_of(1, 5), commit_seconds=one_of(0.5, 2, 30), has_keeper=True)
            return replace(plan, nodes=3, threads=2, steps=10)
        if focus == "busy":
            plan = replace(plan, weather=Weather(late=0.01, twice=0.03, slow=0.03), commit_seconds=30, is_long=False)
            return replace(plan, nodes=2, threads=4, steps=8, distance=1, crashes=False, bursts=False)
        if focus == "clocks":
            weather = replace(plan.weather, shows_time=True, is_folder=True, slow=0.0, late=0.0, twice=0.0)
            plan = replace(plan, weather=weather, nodes=3, threads=1, steps=12, has_keeper=False, forward_entries=5)
            return replace(plan, jumps=True, jump_ms=20 * DAY_MS, commit_seconds=30, dawn_of_trimmers=0.1)
        return plan

    def sized(self, chance: Chance) -> Plan:
        """With sizes that a few documents reach, in some runs."""
        staged, cut, days = chance.fraction() < 0.4, chance.fraction() < 0.4, chance.fraction() < 0.3
        readers, probes = (0, 0, 3)[int(3 * chance.fraction())], (1, 1, 2, 4)[int(4 * chance.fraction())]
        return replace(
            self,
            readers=self.readers or readers,
            probes=probes,
            stage_bytes=TINY_STAGE_BYTES if staged and not self.weather.is_silent else STAGE_BYTES,
            block_bytes=TINY_BLOCK_BYTES if cut else BLOCK_BYTES_TARGET,
            jump_ms=20 * DAY_MS if days else self.jump_ms,
        )

    @property
    def settings(self) -> Settings:
        """Of all nodes: small enough that every limit is met."""
        return Settings(
            commit_seconds=self.commit_seconds,
            read_seconds=self.read_seconds,
            # Work on a whole collection goes on while the store answers, and so beyond the deadline of a commit.
            forward="manual" if self.weather.is_silent else "inline",
            forward_interval_ms=0,
            forward_entries=self.forward_entries,
            tail_entries_max=self.tail_entries_max,
            log_retention_ms=LOG_RETENTION_MS_MIN,
            cache_bytes=MIB,
            stage_bytes=self.stage_bytes,
            block_bytes=self.block_bytes,
        )

    @property
    def calm(self) -> Weather:
        """The same store while nothing goes wrong."""
        return Weather(is_folder=self.weather.is_folder)

    @property
    def keeper_ms(self) -> tuple[float, float]:
        """Between which times the housekeepers rest."""
        return (HOUR_MS / 8, HOUR_MS / 1.5) if self.is_long else (500.0, 10_000.0)


def _weather(chance: Chance) -> Weather:
    def level(common: float) -> float:
        return (0.0, common / 4, common)[int(chance.fraction() * 3)]

    return Weather(
        refused=level(0.12),
        dropped=level(0.05),
        answer_lost=level(0.1),
        late=level(0.15),
        twice=level(0.15),
        slow=level(0.05),
        shows_time=chance.fraction() < 0.9,
        one_write_a_second=chance.fraction() < 0.2,
        is_torn=chance.fraction() < 0.3,
    )
