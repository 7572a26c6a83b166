"""Runs of blocks: what a look-up and a scan answer, and what they cost."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.blocks.rig import Folder, key_of, row, rows
from wormdb.engine.blocks.runs import AttachedBase, RunBase, Runs, held_of, merge_rows, row_of
from wormdb.engine.blocks.write import BlockWriter
from wormdb.engine.state.projection import Sizes
from wormdb.errors import CorruptionError, SnapshotTooOldError
from wormdb.format.block import Row
from wormdb.storage.pool import SerialPool
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from wormdb.format.blocklist import BlockEntry

NUMBERS = st.sets(st.integers(0, 60), max_size=25)
APART = Sizes(block_target=1 << 20, run_smallest=1)
"""Every forwarding of about the same size is a run of its own, of one block."""


@pytest.fixture
def _large_sidecars(monkeypatch: pytest.MonkeyPatch) -> None:
    """None is small enough to be read whole."""
    monkeypatch.setattr("wormdb.engine.blocks.shelf.SIDECAR_WHOLE_BYTES", 0)


def large_block(folder: Folder, count: int = 3_000) -> BlockEntry:
    """One block of many pages, larger than what is read whole."""
    folder.grow(rows(range(0, 2 * count, 2), pad=200), run=1)
    (block,) = folder.grown.entries
    assert block.length > 200_000
    assert block.sidecar.length > 1_000
    return block


@given(st.lists(NUMBERS.filter(bool), max_size=10), NUMBERS, st.tuples(st.integers(0, 60), st.integers(0, 60)))
def test_a_newer_run_hides_older_ones_however_it_is_read(
    writes: list[set[int]], asked: set[int], ends: tuple[int, int]
) -> None:
    folder = Folder(Sizes(block_target=800, run_smallest=3_000))
    expected: dict[bytes, Row] = {}
    for rev, numbers in enumerate(writes, 1):
        new = rows(numbers, rev)
        folder.grow(new, rev)
        expected |= dict(new)
    runs = folder.runs()
    assert list(runs.scan()) == sorted(expected.items())
    keys = {key_of(number) for number in asked}
    assert runs.get_many(keys) == {key: found for key, found in expected.items() if key in keys}
    for key in keys:
        assert runs.get(key) == expected.get(key)
    low, high = key_of(ends[0]), key_of(ends[1])
    between = [(key, found) for key, found in sorted(expected.items()) if low <= key < high]
    assert list(runs.scan(low, high)) == between
    assert list(folder.runs().scan(low)) == [item for item in sorted(expected.items()) if item[0] >= low]


def test_the_newest_of_equal_keys_is_kept() -> None:
    layers = [rows([2, 5], 3), rows([1, 2], 2), rows([2, 5, 6], 1)]
    merged = [(found.id, found.rev) for _, found in merge_rows([iter(layer) for layer in layers])]
    assert merged == [("k000001", 2), ("k000002", 3), ("k000005", 3), ("k000006", 1)]
    assert list(merge_rows([])) == []


# --- what it costs ---


@pytest.mark.usefixtures("_large_sidecars")
def test_a_look_up_in_one_run_reads_the_page_map_alone_and_then_one_page() -> None:
    folder = Folder(APART)
    block = large_block(folder)
    runs = folder.runs()
    folder.taken()
    assert runs.get(key_of(500)) == row(500, pad=200)
    first, second = folder.requests
    assert (first.key, first.bytes_down) == (runs.shelf.sidecar_key(block.sidecar.name), block.sidecar.map_bytes)
    assert second.bytes_down < 64 * 1024
    assert folder.taken() == ["map", "parquet"]
    assert runs.get(key_of(2_500)) == row(2_500, pad=200)
    assert folder.taken() == ["parquet"], "the map is kept"


def test_what_comes_before_the_pages_can_be_read_ahead() -> None:
    folder = Folder(APART)
    folder.grow(rows(range(0, 300, 3)), run=1)
    folder.grow(rows([1, 280], 2), run=2)
    runs = folder.runs()
    folder.taken()
    runs.prepare([key_of(30), key_of(1_000)])
    assert folder.taken() == ["map", "map"]
    assert runs.get(key_of(30)) == row(30)
    assert folder.taken() == ["parquet"]
    runs.prepare([])
    assert folder.taken() == []


@pytest.mark.usefixtures("_large_sidecars")
def test_who_looked_in_vain_once_asks_the_filter_from_then_on() -> None:
    folder = Folder(APART)
    large_block(folder)
    runs = folder.runs()
    folder.taken()
    assert runs.get(key_of(501)) is None
    assert folder.taken() == ["map", "parquet"]
    assert runs.get(key_of(503)) is None
    assert folder.taken() == ["map"], "the filter, and then no page"
    assert [runs.get(key_of(number)) for number in (505, 507, 509)] == [None] * 3
    assert folder.taken() == []


def test_of_several_runs_the_filters_of_the_newer_ones_are_asked() -> None:
    folder = Folder(APART)
    for rev, numbers in enumerate(([*range(0, 300, 3)], [1, 280], [2, 290]), 1):
        folder.grow(rows(numbers, rev), rev)
    assert len(folder.grown.entries) == 3
    runs = folder.runs()
    folder.taken()
    assert runs.get(key_of(30)) == row(30, 1)
    assert folder.taken() == ["map", "map", "map", "parquet"], "two filters, one page map, one page"
    assert runs.get(key_of(280)) == row(280, 2)
    assert folder.taken() == ["parquet"]
    assert runs.get(key_of(31)) is None
    assert folder.taken() == [], "small sidecars came whole, so all three filters deny it"
    assert runs.get(key_of(299)) is None
    assert folder.taken() == [], "no block reaches that far"


def test_many_look_ups_read_no_page_twice_and_none_for_what_is_not_there() -> None:
    folder = Folder(APART)
    large_block(folder)
    runs = folder.runs()
    folder.taken()
    present, absent = [1_000, 1_002, 5_000], [1_001, 3_001, 4_001]
    found = runs.get_many(key_of(number) for number in present + absent)
    assert found == {key_of(number): row(number, pad=200) for number in present}
    assert folder.taken() == ["map", "parquet", "parquet"], "a whole sidecar, and two pages"


def test_a_range_reads_the_pages_that_it_needs() -> None:
    folder = Folder(Sizes(block_target=400_000, run_smallest=1))
    folder.grow(rows(range(6_000), pad=200), run=1)
    blocks = folder.grown.entries
    assert len(blocks) > 3
    runs = folder.runs()
    folder.taken()
    low, high = 100, 140
    assert [found.id for _, found in runs.scan(key_of(low), key_of(high))] == [f"k{n:06d}" for n in range(low, high)]
    assert sum(request.bytes_down for request in folder.requests) < 100_000
    assert folder.taken() == ["map", "parquet"]
    assert len(list(runs.scan(blocks[1].key_first, blocks[3].key_first))) == blocks[1].rows + blocks[2].rows
    assert folder.taken() == ["parquet", "parquet"], "two whole blocks, and nothing of their neighbours"
    assert list(runs.scan(key_of(7_000))) == []
    assert list(runs.scan(key_of(140), key_of(100))) == []
    assert folder.taken() == []


def test_a_scan_reads_a_block_when_it_is_reached() -> None:
    folder = Folder(Sizes(block_target=2_000, run_smallest=1))
    folder.grow(rows(range(100)), run=1)
    assert len(folder.grown.entries) > 3
    walk = folder.runs().scan()
    folder.taken()
    next(walk)
    assert folder.taken() == ["parquet"]
    assert len(list(walk)) == 99
    assert folder.taken() == ["parquet"] * (len(folder.grown.entries) - 1)


def test_a_member_leaves_out_the_blocks_that_do_not_know_it() -> None:
    folder = Folder(APART)
    shelf = folder.shelf()
    entries: list[BlockEntry] = []
    for rev, owner in enumerate((b"a", b"b", b"a"), 1):
        writer = BlockWriter(shelf, folder.writer, 1 << 20, members=partial(_first_of, owner))
        entries += writer.write(rows([0, rev, 9], rev), run=rev)
    runs = Runs(folder.shelf(), entries, keyed=False)
    folder.taken()
    assert [(found.id, found.rev) for _, found in runs.scan(member=b"a")] == [
        ("k000000", 3),
        ("k000001", 1),
        ("k000003", 3),
        ("k000009", 3),
    ]
    assert folder.taken() == ["map", "map", "map", "parquet", "parquet"]
    assert list(runs.scan(member=b"c")) == []
    assert folder.taken() == []
    assert runs.get(key_of(2)) == row(2, 2), "a filter over members is not asked about keys"
    assert runs.get(key_of(2), member=b"b") == row(2, 2)
    assert runs.get(key_of(2), member=b"a") is None


def _first_of(owner: bytes, _: Row) -> bytes:
    return owner


def test_runs_that_share_a_shelf_share_what_it_knows() -> None:
    folder = Folder(APART)
    large_block(folder)
    shelf = folder.shelf()
    folder.runs(shelf).get(key_of(0))
    folder.taken()
    folder.runs(shelf).get(key_of(2))
    assert folder.taken() == ["parquet"]


# --- what a job wrote ---


def test_rows_written_before_their_number_was_known_have_the_number_of_their_run() -> None:
    folder = Folder(Sizes(block_target=1 << 20, run_smallest=1))
    (block,) = BlockWriter(folder.shelf(), folder.writer, 1 << 20).write(rows(range(800), rev=0, pad=100))
    assert (block.rev_first, block.rev_last) == (0, 0)
    folder.adopt([block], run=7)
    revs = {found.rev for _, found in folder.runs().scan()}
    revs |= {found.rev for _, found in folder.runs().scan(key_of(3), key_of(9))}
    assert revs == {7}
    assert {found.rev for found in folder.runs().get_many([key_of(3), key_of(5)]).values()} == {7}
    found = folder.runs().get(key_of(3))
    assert found is not None
    assert found.rev == 7


def test_a_layer_of_a_view_over_the_blocks_of_a_job() -> None:
    from tests.engine.rig import PATHS
    from wormdb.engine.blocks.shelf import Shelf

    folder = Folder()
    shelf = Shelf(folder.store, SerialPool(), PATHS.data)
    entries = BlockWriter(shelf, folder.writer, 500).write(rows(range(10), rev=0))
    base = AttachedBase(folder.store, SerialPool(), PATHS, reversed(entries), LogNumber(9))
    assert base.place is None
    assert [(key, held.rev) for key, held in base.scan(key_of(2), key_of(4))] == [(key_of(2), 9), (key_of(3), 9)]
    held = base.get(key_of(5))
    assert held == held_of(Row("k000005", 9, 1, row(5, 0).document))
    assert base.get(key_of(10)) is None
    assert base.get_many([key_of(5), key_of(11)]) == {key_of(5): held}
    assert row_of(held) == Row("k000005", 9, 1, row(5, 0).document)


def test_deleted_and_trashed_rows_come_back_as_they_were() -> None:
    folder = Folder()
    gone = Row("k000001", 4, 2, None)
    trashed = Row("k000002", 5, 3, None, b'{"_id":"k000002","deletedAt":1,"document":{"_id":"k000002"}}')
    folder.grow([(key_of(1), gone), (key_of(2), trashed)], run=5)
    assert [found for _, found in folder.runs().scan()] == [gone, trashed]
    assert folder.runs().get(key_of(1)) == gone
    assert folder.runs().get(key_of(2)) == trashed


# --- damage ---


@pytest.mark.parametrize("ending", ["parquet", "map"])
def test_an_object_that_is_gone_tells_a_reader_to_start_again(ending: str) -> None:
    folder = Folder(APART)
    block = large_block(folder)
    shelf = folder.shelf()
    folder.memory.delete(f"{shelf.folder}{block.name}.{ending}")
    with pytest.raises(SnapshotTooOldError, match="start again") as raised:
        folder.runs().get(key_of(4))
    assert raised.value.key == f"{shelf.folder}{block.name}.{ending}"
    if ending == "parquet":
        with pytest.raises(SnapshotTooOldError, match=block.name):
            list(folder.runs().scan())


@pytest.mark.parametrize("ending", ["parquet", "map"])
def test_damage_is_noticed_and_named(ending: str) -> None:
    folder = Folder(APART)
    folder.grow(rows(range(40), 1), 1)
    folder.grow(rows([0, 39], 2), 2)
    block = folder.grown.entries[0]
    key = f"{folder.shelf().folder}{block.name}.{ending}"
    body = folder.memory.get(key).body
    for place in range(0, len(body), max(1, len(body) // 50)):
        folder.memory.put(key, body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :])
        runs = folder.runs()
        with pytest.raises(CorruptionError) as raised:
            # A look-up reads the sidecar and one page; the rest of the block is read, and checked, by a scan.
            list(runs.scan()) if ending == "parquet" else runs.get(key_of(20))
        assert raised.value.key == key
    folder.memory.put(key, body[:-1])
    with pytest.raises(CorruptionError):
        list(folder.runs().scan()) if ending == "parquet" else folder.runs().get(key_of(20))


# --- where pages are not mapped ---


def test_without_a_map_of_pages_row_groups_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wormdb.format.page._pages", lambda *_: None)
    monkeypatch.setattr("wormdb.format.block._GROUP_ROWS", 500)
    folder = Folder(APART)
    large_block(folder)
    runs = folder.runs()
    folder.taken()
    assert runs.get(key_of(1_204)) == row(1_204, pad=200)
    assert runs.get_many([key_of(8), key_of(9), key_of(4_000)]) == {
        key_of(8): row(8, pad=200),
        key_of(4_000): row(4_000, pad=200),
    }
    down = sum(request.bytes_down for request in folder.requests)
    assert down < 0.8 * folder.grown.entries[0].length
    expected = [f"k{number:06d}" for number in range(1_998, 3_003, 2)]
    assert [found.id for _, found in runs.scan(key_of(1_998), key_of(3_003))] == expected


# --- the base of a view ---


def test_the_base_of_a_root() -> None:
    from tests.engine.rig import COLLECTION, PATHS
    from wormdb.engine.blocks.grow import Growth
    from wormdb.engine.blocks.shelf import Shelf
    from wormdb.engine.log.root import Place
    from wormdb.format.root import Root

    folder = Folder()
    shelf = Shelf(folder.store, SerialPool(), PATHS.data)
    grown = Growth(Runs(shelf, ()), folder.writer, folder.sizes).grow(rows(range(100)), run=3)
    root = Root(
        path=COLLECTION,
        collection="0" * 32,  # type: ignore[arg-type] # an id of zeros
        revision=1,
        write_id="0" * 32,  # type: ignore[arg-type] # the same
        misc=0,
        hash_applied=bytes(32),
        hash_trimmed=bytes(32),
        definition=b"",
        blocks=grown.entries,
        block_pages=grown.pages,
    )
    place = Place(folder.store, SerialPool(), PATHS, root)
    base = RunBase(place)
    assert base.place is place
    assert base.get(key_of(4)) == held_of(row(4))
    assert base.get(key_of(400)) is None
    assert [key for key, _ in base.scan(key_of(98))] == [key_of(98), key_of(99)]
    folder.taken()
    assert RunBase(place, base.runs.shelf).get(key_of(4)) == held_of(row(4))
    assert folder.taken() == ["parquet"], "a shelf is given on from root to root"
