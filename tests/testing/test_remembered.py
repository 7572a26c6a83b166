"""Remembered blocks: the same objects and the same answers as without, made once."""

from __future__ import annotations

from unittest import mock

import pytest

from tests.engine.sweeps.commits import World, database_on, state_of
from tests.simulation import remembered
from tests.simulation.remembered import remembered_blocks
from wormdb.errors import CorruptionError
from wormdb.format.block import write_block
from wormdb.format.blockread import read_documents
from wormdb.storage.conditions import ensure_conditions
from wormdb.storage.memory import _Entry
from wormdb.system.clock import SeededChance


@pytest.fixture(autouse=True, scope="module")
def _conditions() -> None:
    """The once-a-process question to the store is no part of an operation."""
    ensure_conditions(World(), SeededChance(0))


def filled() -> World:
    """Blocks of two forwardings, with a deletion among them; the same objects each time."""
    world = World()
    things = database_on(world, seed=3)["things"]
    things.insert_many({"id": f"d{number}", "n": number} for number in range(5))
    things.forward()
    things.delete("d1")
    things.save({"id": "d2", "n": 20})
    things.forward()
    return world


def bodies(world: World) -> dict[str, bytes]:
    return {key: entry.body for key, entry in world._shelf.entries.items()}


def test_objects_and_answers_are_the_same() -> None:
    plain = filled()
    with remembered_blocks():
        once, twice = filled(), filled()
        states = [state_of(once, "things"), state_of(twice, "things")]
    assert bodies(once) == bodies(twice) == bodies(plain)
    assert states == [state_of(plain, "things")] * 2


def test_equal_blocks_are_made_once() -> None:
    writes, reads = mock.Mock(side_effect=write_block), mock.Mock(side_effect=read_documents)
    with (
        mock.patch.object(remembered, "write_block", writes),
        mock.patch.object(remembered, "read_documents", reads),
        remembered_blocks(),
    ):
        world = filled()
        state_of(world, "things")
        counts = writes.call_count, reads.call_count
        assert min(counts) > 0
        state_of(filled(), "things")
        state_of(world, "things")
        assert (writes.call_count, reads.call_count) == counts


def test_other_rows_are_another_block() -> None:
    with remembered_blocks():
        worlds = [World(), World(), World()]
        for world, identity in zip(worlds, (1, 1.5, 2), strict=True):
            things = database_on(world, seed=3)["things"]
            things.insert({"id": identity, "n": 1})
            things.forward()
        assert len({str(state_of(world, "things")) for world in worlds}) == 3


def test_damage_is_seen_each_time() -> None:
    with remembered_blocks():
        world = filled()
        state_of(world, "things")
        for key, entry in list(world._shelf.entries.items()):
            if key.endswith(".parquet"):
                body = entry.body[:-1] + bytes([entry.body[-1] ^ 1])
                world._shelf.entries[key] = _Entry(body, entry.version, entry.modified)
        for _ in range(2):
            with pytest.raises(CorruptionError):
                state_of(world, "things")
