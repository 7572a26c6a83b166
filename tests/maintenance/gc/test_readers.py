"""Readers whose objects were removed: they go on from the newest root; only what that one needs is damage."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.maintenance.gc.rig import DAY, HOUR
from tests.maintenance.wreck import PATHS, PREFIX, collection_on, database_on, root_of, thing, whole_world
from wormdb.errors import CorruptionError, SnapshotTooOldError, UniqueViolationError
from wormdb.settings import CURSOR_MS_MAX, RETIRED_MS, ROOT_MS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.engine.sweeps.commits import World
    from wormdb.api.collection import Collection
    from wormdb.api.document import Document


@cache
def _replaced() -> World:
    world = whole_world()
    database = database_on(world, world, seed=31)
    things = database.model("Thing")
    for number in range(70, 85):
        things.insert(thing(number, pad="n" * 300))
        things.forward()
    for _ in range(3):
        database.gc([PREFIX])
        world.manual.advance(HOUR)
    return world


def replaced(world: World) -> None:
    """Others replace all that there is, and remove it."""
    after = _replaced().copy()
    world.manual.advance((after.manual.now_ms() - world.manual.now_ms()) / 1000)
    world._shelf.entries, world._shelf.keys = after._shelf.entries, after._shelf.keys


def find(things: Collection[Document]) -> None:
    assert [one["age"] for one in things.find_all("age>=1000", sort="age")][:2] == [1000, 1005]


def get(things: Collection[Document]) -> None:
    found = things.find_by_id("t007")
    assert found is not None
    assert found["age"] == 7


def save(things: Collection[Document]) -> None:
    things.save(thing(7, city="new"))
    with pytest.raises(UniqueViolationError):
        things.insert(thing(300, email="e8@x"))


def history(things: Collection[Document]) -> None:
    assert len(things.get_history("t005")) == 2


def forward(things: Collection[Document]) -> None:
    things.insert(thing(301))
    things.forward()
    assert things.count() > 40


@pytest.mark.parametrize("act", [find, get, save, history, forward], ids=lambda act: act.__name__)
def test_a_process_that_slept_goes_on(act: Callable[[Collection[Document]], None]) -> None:
    world = whole_world()
    things = collection_on(world)
    things.find_by_id("t001")  # so that it stands on the root of now
    replaced(world)
    act(things)


def test_a_process_that_asks_all_the_time_does_not_stay_on_an_old_root() -> None:
    world = whole_world()
    things, others = collection_on(world), database_on(world, world, seed=32)
    before = set(_keys(world))
    for number in range(70, 82):
        others.model("Thing").insert(thing(number, pad="n" * 300))
        others.model("Thing").forward()
        others.gc([PREFIX])
        for _ in range(10):
            world.manual.advance(59)
            things._ledger.view()
    assert len(before - set(_keys(world))) > 20
    view = things._ledger.known()
    assert len([held for _, held in view.scan() if held.document is not None]) == view.count
    for act in (find, get, save):
        act(things)


@pytest.mark.parametrize("act", [find, get, save], ids=lambda act: act.__name__)
def test_what_the_newest_root_needs_is_damage(act: Callable[[Collection[Document]], None]) -> None:
    world = whole_world()
    root = root_of(world)
    blocks = [key for key in _keys(world) if key.startswith(PATHS.data) and key.endswith((".parquet", ".map"))]
    world.delete_many(blocks)
    with pytest.raises(CorruptionError, match="newest root needs it"):
        act(collection_on(world))
    assert root_of(world) == root


def test_a_cursor_lives_shorter_than_what_it_reads() -> None:
    assert CURSOR_MS_MAX + ROOT_MS_MAX < RETIRED_MS
    world = whole_world()
    things = collection_on(world)
    with things.cursor(batch_size=5) as cursor:
        before = cursor.next_batch()
        world.manual.advance(CURSOR_MS_MAX / 1000 - 1)
        database = database_on(world, world, seed=33)
        for number in range(70, 76):
            database.model("Thing").insert(thing(number, pad="n" * 300))
            database.model("Thing").forward()
            database.gc([PREFIX])
        rest = list(cursor)
        assert len({one["id"] for one in [*before, *rest]}) == len(before) + len(rest) == 44
        world.manual.advance(2)
        with pytest.raises(SnapshotTooOldError):
            cursor.next_batch()


def test_a_pinned_state_that_is_too_old_says_so() -> None:
    world = whole_world()
    ledger = collection_on(world)._ledger
    pinned = ledger.pin(ledger.view())
    replaced(world)
    world.manual.advance(DAY)
    with pytest.raises(SnapshotTooOldError, match="its root has been replaced"):
        list(collection_on(world, seed=40)._ledger.unpin(pinned).scan())


def _keys(world: World) -> list[str]:
    return [found.key for page in world.list(PATHS.folder) for found in page.objects]
