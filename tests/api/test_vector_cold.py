"""The nearest vectors in a process that knows nothing: which requests depend on which, and how many there are."""

from __future__ import annotations

from array import array
from collections import Counter
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import wormdb
from benchmarks.rounds import call_cold
from wormdb.engine.lists import shelf
from wormdb.format.vector import pack_vector
from wormdb.query.sources.ahead import MAPS_AHEAD
from wormdb.settings import KIB
from wormdb.storage.memory import MemoryStore
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.rounds import ColdCall

DIMENSIONS = 24
COUNT = 6_000
VECTORS = np.random.default_rng(5).normal(size=(COUNT + 4, DIMENSIONS)).astype(np.float32)
K = 10
CANDIDATES = 12
"""Of K: two more, because codes put few of the best behind others."""


def filled(block_bytes: int) -> tuple[MemoryStore, int]:
    """A store with a ready index, and how many blocks documents are in."""
    store = MemoryStore()
    settings = wormdb.Settings(forward="manual", block_bytes=block_bytes)
    # It stays open: closing it would close the store.
    made = wormdb.connect(store, settings=settings, clock=ManualClock())["things"]
    made.insert_many([{"id": row, "v": pack_vector(array("f", VECTORS[row].tolist()))} for row in range(COUNT)])
    made.forward()
    made.create_vector_index("v", dimensions=DIMENSIONS)
    place = made._ledger.view().place
    assert place is not None
    return store, len(place.root.blocks)


def ask(vector: Any, select: list[str] | None) -> Callable[[wormdb.Database], object]:
    near = {"v": {"vector": vector, "k": K}}
    return lambda database: list(database["things"].find(near=near, select=select).scored())


def kinds(call: ColdCall, number: int) -> Counter[str]:
    """What a round asks for: ends of names; the log has none."""
    return Counter(key.rpartition("/")[2].partition(".")[2] or key.rpartition("/")[2] for key in call.keys(number))


@pytest.mark.parametrize(("block_bytes", "blocks"), [(1 << 24, 1), (112 * KIB, 14)])
def test_a_cold_search_is_four_rounds_of_few_requests(
    block_bytes: int, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where lists are too large to be read whole, of many blocks, and for whole documents."""
    monkeypatch.setattr(shelf, "WHOLE_BYTES_MAX", 64 * KIB)
    monkeypatch.setattr(shelf, "GAP_BYTES_MAX", 0)
    store, found = filled(block_bytes)
    assert found == blocks <= MAPS_AHEAD
    for own, select in product(VECTORS[COUNT:], (["_id"], None)):
        call = call_cold(store, ask(own, select))
        assert call.rounds == 4
        first, second, third, fourth = (kinds(call, number) for number in (1, 2, 3, 4))
        assert first == {"block0": 1}
        (log,) = set(second) - {"map", "trained", "run"}
        assert second == {log: 1, "map": blocks, "trained": 1, "run": 1}
        assert set(third) == {"run"}
        assert third["run"] <= shelf.RANGES_MANY
        assert set(fourth) == {"parquet"}
        assert fourth["parquet"] <= CANDIDATES
        assert call.requests <= 1 + 3 + blocks + shelf.RANGES_MANY + CANDIDATES
        assert call.widest <= wormdb.Settings().pool_threads


def test_of_very_many_blocks_their_maps_are_a_round_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading them all at once would be more requests than the search itself."""
    monkeypatch.setattr(shelf, "WHOLE_BYTES_MAX", 64 * KIB)
    store, blocks = filled(24 * KIB)
    assert blocks > MAPS_AHEAD
    call = call_cold(store, ask(VECTORS[COUNT], ["_id"]))
    assert call.rounds == 5
    assert set(kinds(call, 4)) == {"map"}
    assert kinds(call, 4)["map"] <= CANDIDATES
    assert set(kinds(call, 5)) == {"parquet"}


def test_small_lists_are_read_whole_and_save_a_round() -> None:
    store, blocks = filled(1 << 24)
    call = call_cold(store, ask(VECTORS[COUNT], ["_id"]))
    assert call.rounds == 3
    assert call.requests <= 1 + 3 + blocks + CANDIDATES
