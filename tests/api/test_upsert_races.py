"""Two that upsert by the same filter at once: one inserts, and the other finds what that inserted."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.rig import HookStore
from tests.engine.sweeps.commits import World
from wormdb.api.database import Database
from wormdb.settings import Settings
from wormdb.storage.meter import MeteredStore
from wormdb.storage.pool import SerialPool
from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.storage.store import Store


def people(store: Store, world: World, seed: int, **settings: Any) -> Collection[Document]:
    database = Database(
        MeteredStore(store, clock=world.manual),
        SerialPool(),
        settings=Settings(forward="manual", **settings),
        schema=None,
        actor=None,
        clock=world.manual,
        chance=SeededChance(seed),
    )
    return database["people"]


def upsert(of: Collection[Document]) -> object:
    return of.update_one({"mail": "a@x"}, {"$inc": {"n": 1}}, upsert=True)


def staged(of: Collection[Document]) -> object:
    return of.insert_many([{"mail": "a@x", "n": 1, "pad": "p" * 900} for _ in range(1)] + [{"pad": "p" * 9_000}])


def moved(of: Collection[Document]) -> object:
    return of.update_one({"mail": "b@x"}, {"$set": {"mail": "a@x"}})


RIVALS: dict[str, Callable[[Collection[Document]], object]] = {
    "upsert": upsert,
    "insert": lambda of: of.insert({"mail": "a@x", "n": 1}),
    "a change of another document": moved,
    "a large batch": staged,
}


@pytest.mark.parametrize("seconds", [0, 120])
@pytest.mark.parametrize("is_forwarded", [False, True])
@pytest.mark.parametrize("rival", RIVALS)
def test_what_a_rival_brings_in_between_is_found(rival: str, is_forwarded: bool, seconds: int) -> None:
    """At each request of an upsert; what comes before its entry is seen by it, so that there is one document."""
    for at in range(1, 30):
        world = World()
        people(world, world, 1).insert_many([{"mail": "b@x", "n": 1}, {"mail": "c@x"}])
        store, others = HookStore(world), people(world, world, 2, stage_bytes=3_000)
        own, requests = people(store, world, 3, commit_seconds=1_000), 0

        def before(*_: str) -> None:
            nonlocal requests
            requests += 1
            if requests == at:  # noqa: B023 - called in this round
                RIVALS[rival](others)  # noqa: B023 - as above
                if is_forwarded:
                    others.forward()  # noqa: B023 - as above
                world.manual.advance(seconds)  # noqa: B023 - as above

        store.before = before
        upsert(own)
        found = people(world, world, 4).find({"mail": "a@x"}).to_list()
        done = requests < at
        assert [one.get("n") for one in found] == ([1] if done else [2]), at
        if done:
            assert at > 2
            return
    raise AssertionError("it does not end")


def test_threads_of_one_process_upsert_one_document() -> None:
    world = World()
    own = people(world, world, 1, commit_seconds=60)
    threads = [threading.Thread(target=upsert, args=(own,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (found,) = people(world, world, 4).find({"mail": "a@x"}).to_list()
    assert found["n"] == 6
