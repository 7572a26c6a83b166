"""Real threads of one process on one collection: the log they leave is one sequence in which nothing is lost."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.simulation.replay import Replay
from wormdb.api.database import Database
from wormdb.engine.log.paths import EnginePaths
from wormdb.settings import Settings
from wormdb.storage.memory import MemoryStore
from wormdb.storage.meter import MeteredStore
from wormdb.storage.pool import SerialPool
from wormdb.system.clock import SeededChance, SystemChance, SystemClock
from wormdb.system.types import LogNumber
from wormdb.testing.latency_store import NO_LATENCY, Latency, LatencyStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document

THREADS = 8
STEPS = 25
NAMES = ("x", "y")
SLOW_PUTS = replace(NO_LATENCY, put=Latency(2))


def pick(chance: SeededChance, *choices: str) -> str:
    return choices[int(chance.fraction() * len(choices))]


def careful(things: Collection[Document], chance: SeededChance, done: list[str]) -> None:
    """Keep what a call gave, change it, save it; read it anew only when told that it changed."""
    held: dict[str, Document] = {}
    for step in range(STEPS):
        name = pick(chance, *NAMES)
        try:
            if name not in held:
                found = things.find_by_id(name)
                if found is None:
                    continue
                held[name] = found
            held[name]["n"] = held[name].get("n", 0) + 1
            held[name] = things.save(held[name])
            done.append(f"{name} {held[name].rev} {held[name].seq}")
        except wormdb.ConflictError:
            held.pop(name)
        if step % 5 == 4:
            things.forward()


def careless(things: Collection[Document], chance: SeededChance, done: list[str]) -> None:
    """Save and delete without looking, in batches with an id twice too."""
    for _ in range(STEPS):
        name = pick(chance, *NAMES)
        match pick(chance, "save", "save", "delete", "twice", "filter"):
            case "save":
                saved = things.save({"id": name, "n": -1})
                done.append(f"{name} {saved.rev} {saved.seq}")
            case "delete":
                things.delete(name)
            case "twice":
                with things.batch() as batch:
                    batch.save({"id": name, "n": -2}).save({"id": name, "n": -3})
            case _:
                things.update_many({"n": {"$lt": 0}}, {"$set": {"n": -4}})


@pytest.mark.parametrize("seed", range(3))
def test_no_thread_overwrites_what_it_has_not_seen(seed: int) -> None:
    inner = MemoryStore()
    clock, chance = SystemClock(), SystemChance()
    # Commits take long enough that threads wait, and share entries.
    store = MeteredStore(LatencyStore(inner, clock=clock, chance=chance, profile=SLOW_PUTS), clock=clock)
    done: list[str] = []
    database = Database(
        store,
        SerialPool(),
        settings=Settings(forward_interval_ms=0),
        schema=None,
        actor=None,
        clock=clock,
        chance=chance,
    )
    with database:
        things = database["things"]
        for name in NAMES:
            things.save({"id": name, "n": 0})
        chances = [SeededChance(100 * seed + number) for number in range(THREADS)]
        works: list[Callable[..., None]] = [careful, careless]
        threads = [
            threading.Thread(target=works[number % 2], args=(things, chances[number], done))
            for number in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        replay = replayed(inner)
        final = replay.states[-1].bodies()
        assert {document.id for document in things.find()} == set(final)
        assert things.count() == len(final)
        for name in NAMES:
            expected = [(change.seq, change.number) for change in replay.past_of(name)]
            assert [(entry.seq, entry.rev) for entry in things.get_history(name)] == expected
    assert any(len(entry.batches) > 1 for entry in replay.entries), "no two batches shared an entry"
    versions = [f"{change.id} {change.number} {change.seq}" for change in replay.happened]
    assert len(done) == len(set(done)), "two commits gave out the same version"
    assert set(done) <= set(versions)


def replayed(store: MemoryStore) -> Replay:
    """The log in the store, which must be one sequence of whole images."""
    paths = EnginePaths.of_collection("things/")
    bodies: dict[int, bytes] = {}
    while True:
        try:
            bodies[len(bodies) + 1] = bytes(store.get(paths.entry(LogNumber(len(bodies) + 1))).body)
        except wormdb.NotFoundError:
            return Replay(bodies, "things/", unattached)


def unattached(name: str) -> Any:
    raise AssertionError(f"no batch was large enough to be staged: {name}")
