"""Two services that do the same work at once: before every request of one, the other does a whole round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.jobs.node.rig import Rig, live
from tests.maintenance.rival_store import Before
from wormdb.api.schema import read_schema
from wormdb.engine.log.paths import EnginePaths, node_key
from wormdb.errors import ConflictError, NotFoundError
from wormdb.format.heartbeat import decode_heartbeat
from wormdb.jobs.node.pace import Pace
from wormdb.storage.conditions import ensure_conditions
from wormdb.system.clock import SeededChance
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.jobs.node.node import Node
    from wormdb.jobs.node.rounds import Round
    from wormdb.storage.store import Store

DAY = 86_400.0
PATHS = EnginePaths.of_collection("notes/")
LEFT = f"{PATHS.data}0000000000000001-00000000.parquet"
PACE = Pace(breath_seconds=0.0)
MODEL = {
    "path": "@notes/(id:string)/[note].json",
    "id": "given",
    "fields": {"text": {"type": "string"}},
    "indexes": {"byText": {"field": "text"}},
    "softDelete": {"enabled": True, "ttl": 2},
}
KEPT = {"schemaVersion": "1.0", "sourceOfTruth": "local", "models": {"Note": MODEL}}


@dataclass
class World:
    """A bucket with all that a round can do: entries, garbage of two kinds, and a trash of which some expired."""

    rig: Rig = field(default_factory=Rig)
    rounds: list[Round] = field(default_factory=list)
    running: Node | None = None
    restored: bool = False

    def __post_init__(self) -> None:
        ensure_conditions(self.rig.store, SeededChance(0))
        notes = self.notes()
        for name in ("kept", "old", "older", "back", "new"):
            notes.insert({"id": name, "text": name})
            notes.forward()
        notes.delete("older")
        notes.forward()
        notes.delete("old")
        notes.delete("back")
        self.rig.store.put(LEFT, b"of a writer that crashed")
        self.rig.database().gc(["notes"])
        self.rig.clock.advance(1.5 * DAY)
        notes.delete("new")
        self.rig.clock.advance(DAY)
        notes.save({"id": "late", "text": "late"})

    def notes(self) -> Collection[Document]:
        database = self.rig.database()
        database._declared.schema = read_schema(KEPT)
        return database.model("Note")

    def check(self, *, purged: int | None = 3) -> None:
        """Everything was done once, and nothing else: whoever did it."""
        assert [each.error for each in self.rounds if each.error] == []
        if purged is not None:
            assert sum(each.purged for each in self.rounds) == purged
        database = self.rig.database()
        assert database.status(["notes"])[0].lag_entries <= 2  # what was purged or restored since
        database.forward(["notes"])
        assert database.verify(["notes"])[0].is_sound
        assert self.rig.store.probe(LEFT).found is None
        notes = self.notes()
        assert {found.id: found["text"] for found in notes.find({"text": {"$in": ["kept", "late"]}})} == {
            "kept": "kept",
            "late": "late",
        }
        assert [each.id for each in notes.list_trashed()] == ["new"]

    def state(self, node: int) -> str:
        return decode_heartbeat(self.rig.store.get(node_key(node)).body, name="heartbeat", node=node).state


Act = Callable[["World", "Store"], object]


def at_every_request(act: Act, rival: Callable[[World], object], step: int) -> Iterator[World]:
    """Worlds in which `rival` acted before one of the requests of `act`: each, or one of `step` and the last ones.

    The last ones are those that purge.
    """
    alone = World()
    counting = Before(alone.rig.store, 0, lambda: None)
    act(alone, counting)
    assert counting.requests > 20
    numbers = {*range(step, counting.requests, step), *range(counting.requests - 3, counting.requests + 1)}
    for number in sorted(numbers):
        tried = World()
        act(tried, Before(tried.rig.store, number, partial(rival, tried)))
        yield tried


def once(tried: World, store: Store | None = None) -> None:
    """One round of a process of its own, as cron starts it."""
    tried.rounds += tried.rig.node(pace=PACE, store=store).run_once()


def upkeep(tried: World, store: Store | None = None) -> None:
    """One round of a node that runs, whose turn it is."""
    node = tried.rig.node(pace=PACE, store=store)
    node.start()
    node._workload.discover()
    tried.rounds += [node._workload.round(each, with_upkeep=True) for each in node.watchlist.known.values()]
    assert node.is_well


STEPS = pytest.mark.parametrize("step", [25, pytest.param(1, marks=pytest.mark.long)])


@STEPS
def test_two_nodes_purge_and_collect_at_once(step: int) -> None:
    for tried in at_every_request(upkeep, upkeep, step):
        tried.check()


@STEPS
def test_what_is_restored_is_not_purged(step: int) -> None:
    outcomes: Counter[bool] = Counter()

    def restore(tried: World) -> None:
        try:
            tried.notes().restore("back")
        except NotFoundError:
            outcomes[False] += 1
        else:
            outcomes[True] += 1
            tried.restored = True

    for tried in at_every_request(upkeep, restore, step):
        tried.check(purged=3 - tried.restored)
        found = tried.notes().find_by_id("back")
        assert (found is not None) is tried.restored
    assert min(outcomes[False], outcomes[True]) > 0


@STEPS
def test_one_round_beside_a_node_that_runs(step: int) -> None:
    def goes_on(tried: World) -> None:
        node = tried.running = tried.rig.started(pace=PACE)
        live(tried.rig, 2 * PACE.interval, node)

    for tried in at_every_request(once, goes_on, step):
        assert tried.running is not None
        live(tried.rig, 2 * PACE.look_seconds, tried.running)
        tried.check(purged=None)
        assert tried.running.is_well
        assert tried.running.ring() == (tried.running.id,)
        assert {tried.state(node) for node in (0, 1)} == {"running", "stopped"}


@pytest.mark.parametrize("fault", [Fault.CRASH_AFTER, pytest.param(Fault.ANSWER_LOST, marks=pytest.mark.long)])
@STEPS
def test_one_round_that_is_cut_off_beside_a_node_that_runs(step: int, fault: Fault) -> None:
    number, is_reached = 0, True
    while is_reached:
        number += step
        tried = World()
        running = tried.rig.started(pace=PACE)
        store = FaultStore(tried.rig.store, {number: fault})
        with suppress(SimulatedCrash):
            tried.rig.node(pace=PACE, store=store).run_once()
        is_reached = store.requests >= number
        live(tried.rig, DAY / 24 + 2 * PACE.look_seconds, running)
        tried.check(purged=None)
        assert running.is_well
        assert running.ring() == (0,)
    assert number > 20


def test_one_round_with_the_id_of_a_node_that_runs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    running = rig.started(3)
    sleep = rig.clock.sleep

    def sleep_and_beat(seconds: float) -> None:
        sleep(seconds)
        running.beat()

    monkeypatch.setattr(rig.clock, "sleep", sleep_and_beat)
    with pytest.raises(ConflictError, match="node 3 is in use by"):
        rig.node(3).run_once()
    assert running.is_well
