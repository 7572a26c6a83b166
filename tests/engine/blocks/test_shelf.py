"""What a folder of blocks keeps in memory, and how much at most."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.engine.blocks.rig import Folder, key_of, row, rows
from wormdb.engine.blocks.shelf import BoundedCache
from wormdb.engine.state.projection import Sizes
from wormdb.errors import NotFoundError
from wormdb.storage.memory import MemoryStore

if TYPE_CHECKING:
    from wormdb.storage.store import ByteRange


def test_keys() -> None:
    shelf = Folder().shelf()
    assert shelf.block_key("a") == "c/.worm.db/data/a.parquet"
    assert shelf.sidecar_key("a") == "c/.worm.db/data/a.map"
    assert shelf.page_key("a") == "c/.worm.db/data/a.list"


def test_what_was_used_longest_ago_goes_first() -> None:
    kept: BoundedCache[int] = BoundedCache(4_000)
    for number in range(3):
        kept.keep(str(number), number, 500)
    assert kept.find("0") == 0
    kept.keep("3", 3, 1_000)
    assert [kept.find(str(number)) for number in range(4)] == [0, None, 2, 3]
    kept.keep("huge", 9, 10_000)
    assert [kept.find(name) for name in ("0", "2", "3", "huge")] == [None] * 4, "what is too large is not kept"
    kept.keep("a", 1, 500)
    kept.keep("a", 2, 500)
    kept.keep("b", 2, 2_000)
    assert (kept.find("a"), kept.find("b")) == (1, 2), "nothing is counted twice"


def test_sidecars_are_forgotten_when_there_are_too_many() -> None:
    folder = Folder(Sizes(block_target=3_000, run_smallest=1))
    folder.grow(rows(range(300)), run=1)
    blocks = folder.grown.entries
    assert len(blocks) > 8
    shelf = folder.shelf(memory_bytes_max=5_000)
    runs = folder.runs(shelf)
    for _ in range(2):
        for block in blocks:
            runs.get(block.key_first)
    kept = [block for block in blocks if shelf.known_map(block) is not None]
    assert 0 < len(kept) < len(blocks) / 2
    folder.taken()
    assert runs.get(blocks[0].key_first) == row(0)
    assert folder.taken() == ["map", "parquet"]
    assert runs.get(blocks[0].key_last) is not None
    assert folder.taken() == ["parquet"]


@pytest.mark.parametrize("wanted", ["map", "filter", "both"])
def test_the_half_of_a_sidecar_that_is_wanted_is_read(wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wormdb.engine.blocks.shelf.SIDECAR_WHOLE_BYTES", 0)
    folder = Folder()
    folder.grow(rows(range(20)), run=1)
    block = folder.grown.entries[0]
    shelf = folder.shelf()
    folder.taken()
    maps, filters = shelf.learn([block] * (wanted != "filter"), [block] * (wanted != "map"))
    (request,) = folder.requests
    half = {"map": block.sidecar.map_bytes, "filter": block.sidecar.length - block.sidecar.map_bytes}
    assert request.bytes_down == half.get(wanted, block.sidecar.length)
    assert [len(maps), len(filters)] == [wanted != "filter", wanted != "map"]
    assert all(page_map.rows == block.rows for page_map in maps.values())
    assert all(membership.might_contain(block.key_last) for membership in filters.values())
    folder.taken()
    shelf.learn([block], [block])
    assert folder.taken() == ([] if wanted == "both" else ["map"])
    assert (shelf.known_map(block) is None, shelf.known_filter(block) is None) == (False, False)


def test_a_missing_bucket_is_not_a_snapshot_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder()
    folder.grow(rows([1]), run=1)

    def refuse(_: MemoryStore, key: str, spans: list[ByteRange]) -> tuple[bytes, ...]:
        raise NotFoundError(f"bucket of {key} and {len(spans)} ranges", key=None)

    monkeypatch.setattr(MemoryStore, "get_ranges", refuse)
    with pytest.raises(NotFoundError, match="bucket"):
        folder.runs().get(key_of(1))


def test_many_threads_share_a_shelf() -> None:
    folder = Folder(Sizes(block_target=3_000, run_smallest=1))
    folder.grow(rows(range(200)), run=1)
    runs = folder.runs(folder.shelf(memory_bytes_max=6_000))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda number: runs.get(key_of(number % 200)), range(1_000)))
    assert found == [row(number % 200) for number in range(1_000)]
