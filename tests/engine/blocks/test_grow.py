"""How a block list grows: what is merged, what is retired, and how much is written."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.blocks.rig import Folder, key_of, row, rows
from wormdb.engine.blocks.grow import Growth, GrowthResult
from wormdb.engine.blocks.runs import Runs
from wormdb.engine.blocks.tiers import FANOUT, runs_max, written_max
from wormdb.engine.blocks.write import BlockWriter, weight
from wormdb.engine.state.projection import Sizes
from wormdb.errors import UnavailableError
from wormdb.format.columns import ColumnSpec
from wormdb.testing.fault_store import Fault, FaultStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.format.block import Row
    from wormdb.format.blocklist import BlockEntry

WRITES = st.lists(
    st.tuples(st.integers(0, 250), st.integers(1, 8) | st.integers(1, 100), st.booleans()), min_size=1, max_size=10
)
"""Where new rows begin, how many there are, and whether they come as blocks."""


def keys_in(folder: Folder) -> set[str]:
    return {info.key for page in folder.memory.list("c/") for info in page.objects}


def named_by(grown: GrowthResult, folder: Folder) -> set[str]:
    shelf = folder.shelf()
    runs = Runs(shelf, grown.entries, grown.pages)
    blocks = {key for block in runs.blocks() for key in (shelf.block_key(block.name), shelf.sidecar_key(block.name))}
    return blocks | {shelf.page_key(page.name) for page in grown.pages}


def alone(folder: Folder, new: list[tuple[bytes, Row]]) -> int:
    """Bytes of new rows if they are written as they are."""
    other = Folder(folder.sizes)
    return sum(entry.length for entry in other.grow(new, run=1).entries)


@given(WRITES, st.sampled_from([Sizes(4_000, 6_000), Sizes(40_000, 3_000)]))
def test_runs_are_few_and_little_is_written_whatever_comes(writes: list[tuple[int, int, bool]], sizes: Sizes) -> None:
    folder = Folder(sizes)
    expected: dict[bytes, Row] = {}
    retired: set[str] = set()
    total = 0
    for rev, (start, count, is_attached) in enumerate(writes, 1):
        new = rows(range(start, start + count), rev)
        before = named_by(folder.grown, folder)
        if is_attached:
            blocks = BlockWriter(folder.shelf(), folder.writer, sizes.block_target).write(new)
            grown = folder.adopt(blocks, rev)
        else:
            grown = folder.grow(new, rev)
        expected |= dict(new)
        total += alone(folder, new)
        assert set(grown.retired) == before - named_by(grown, folder), "what is no longer named is retired"
        retired |= set(grown.retired)
        runs = folder.runs().runs
        assert len(runs) <= runs_max(max(run.size for run in runs), sizes.run_smallest)
    assert keys_in(folder) == named_by(folder.grown, folder) | retired, "nothing is deleted, nothing is left over"
    assert list(folder.runs().scan()) == sorted(expected.items())
    written = sum(request.bytes_up for request in folder.requests if request.key.endswith(".parquet"))
    assert written <= written_max(total, len(writes), sizes.run_smallest)


def test_small_changes_do_not_write_a_large_run_again() -> None:
    folder = Folder(Sizes(block_target=20_000, run_smallest=4_000))
    folder.grow(rows(range(2_000), pad=100), run=1)
    total = folder.runs().runs[0].size
    large = set(folder.grown.entries)
    folder.taken()
    for rev in range(2, 2 + 3 * FANOUT):
        folder.grow(rows([rev], rev), run=rev)
        assert large <= set(folder.grown.entries)
    assert sum(request.bytes_up for request in folder.requests if request.key.endswith(".parquet")) < total / 2


def test_runs_merge_when_a_tier_is_full_and_tell_what_they_replace() -> None:
    folder = Folder(Sizes(block_target=1 << 20, run_smallest=100_000))
    for rev in range(1, FANOUT):
        grown = folder.grow(rows([1, 10 + rev], rev), run=rev)
        assert (len(grown.entries), grown.retired) == (rev, ())
    before = folder.grown.entries
    folder.taken()
    grown = folder.grow(rows([1], FANOUT), run=FANOUT)
    assert folder.taken() == ["parquet"] * (FANOUT - 1) + ["parquet", "map"]
    (block,) = grown.entries
    assert (block.run, block.level, block.kind, block.rows) == (FANOUT, 1, "base", FANOUT)
    shelf = folder.shelf()
    assert grown.retired == tuple(
        key for entry in before for key in (shelf.block_key(entry.name), shelf.sidecar_key(entry.name))
    )
    assert {found.rev for _, found in folder.runs().scan()} == {1, 2, 3, 4}


def test_what_lies_above_older_runs_is_a_delta() -> None:
    folder = Folder(Sizes(block_target=1 << 20, run_smallest=1))
    folder.grow(rows(range(1_000)), run=1)
    folder.grow(rows([5], 2), run=2)
    assert [(block.run, block.kind, block.level) for block in folder.grown.entries] == [(2, "delta", 0), (1, "base", 0)]


def test_nothing_new_writes_nothing() -> None:
    folder = Folder()
    folder.grow(rows([1, 2]), run=1)
    folder.taken()
    before = folder.grown
    assert folder.grow([], run=2) == GrowthResult(before.entries, before.pages)
    assert folder.adopt([], run=2) == GrowthResult(before.entries, before.pages)
    assert folder.taken() == []


def test_blocks_of_a_job_become_a_run_as_they_are() -> None:
    folder = Folder()
    folder.grow(rows([1, 2, 3], 1), run=1)
    blocks = BlockWriter(folder.shelf(), folder.writer, 600).write(rows(range(2, 30), 0))
    assert len(blocks) > 2
    folder.taken()
    grown = folder.adopt(blocks, run=5)
    assert folder.taken() == []
    assert [(block.name, block.run) for block in grown.entries[: len(blocks)]] == [(block.name, 5) for block in blocks]
    assert [found.rev for _, found in folder.runs().scan()] == [1, *[5] * 28]


def test_attaching_merges_what_stands_below_when_it_is_too_much() -> None:
    folder = Folder(Sizes(block_target=1 << 20, run_smallest=100_000))
    attached: list[BlockEntry] = []
    for rev in range(1, FANOUT + 1):
        attached += BlockWriter(folder.shelf(), folder.writer, 1 << 20).write(rows([0, rev], 0))
        folder.taken()
        folder.adopt(attached[-1:], run=rev)
    grown = folder.grown
    assert folder.taken() == ["parquet"] * (FANOUT - 1) + ["parquet", "map"]
    assert [(block.run, block.rows) for block in grown.entries] == [(FANOUT, 2), (FANOUT - 1, FANOUT)]
    assert {key.rpartition("/")[2].partition(".")[0] for key in grown.retired} == {
        block.name for block in attached[:-1]
    }
    assert [found.rev for _, found in folder.runs().scan()] == [4, 1, 2, 3, 4], "merged rows know their number"


def test_what_something_else_names_is_not_retired() -> None:
    folder = Folder(Sizes(block_target=1 << 20, run_smallest=100_000))
    for rev in range(1, FANOUT):
        folder.grow(rows([rev], rev), run=rev)
    kept = folder.grown.entries[1]
    growth = Growth(folder.runs(), folder.writer, folder.sizes, is_kept=lambda block: block == kept)
    grown = growth.grow(rows([9], 9), run=9)
    assert len(grown.retired) == 2 * (FANOUT - 2)
    assert not any(kept.name in key for key in grown.retired)


def test_pages_of_merged_runs_are_retired_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wormdb.engine.blocks.runs.LIST_INLINE_BYTES_MAX", 0)
    monkeypatch.setattr("wormdb.engine.blocks.runs.LIST_PAGE_BLOCKS", 3)
    folder = Folder(Sizes(block_target=500, run_smallest=1 << 20))
    folder.grow(rows(range(100), 1), run=1)
    assert folder.grown.entries == ()
    first = folder.grown.pages
    assert [page.blocks for page in first[:-1]] == [3] * (len(first) - 1)
    for rev in range(2, FANOUT + 1):
        folder.grow(rows([rev], rev), run=rev)
    shelf = folder.shelf()
    assert {shelf.page_key(page.name) for page in first} < set(folder.grown.retired)
    assert {page.run for page in folder.grown.pages} == {FANOUT}
    assert [found.rev for _, found in folder.runs().scan(key_of(1), key_of(6))] == [1, 2, 3, 4, 1]
    folder.taken()
    assert folder.runs().get(key_of(50)) == row(50)
    assert folder.taken() == ["list", "map", "parquet"]


def test_all_rows_are_shown_when_all_of_the_list_is_written_again() -> None:
    folder = Folder(Sizes(block_target=1 << 20, run_smallest=100_000))
    seen: list[list[int]] = []

    def watch(passing: Iterator[tuple[bytes, Row]]) -> Iterator[tuple[bytes, Row]]:
        seen.append([])
        for key, found in passing:
            seen[-1].append(found.rev)
            yield key, found

    for rev in range(1, FANOUT + 1):
        growth = Growth(folder.runs(), folder.writer, folder.sizes, watch_all=watch)
        folder.grown = growth.grow(rows([0, rev], rev), run=rev)
    assert seen == [[1, 1], [4, 1, 2, 3, 4]], "the first run, and the merge of all"


def test_blocks_have_the_columns_and_members_that_are_asked_for() -> None:
    folder = Folder()
    growth = Growth(
        folder.runs(),
        folder.writer,
        folder.sizes,
        columns=[ColumnSpec("r", "int64")],
        members=lambda found: found.id[:2].encode(),
    )
    grown = growth.grow(rows([1, 2]), run=1)
    (block,) = grown.entries
    assert [column.path for column in block.columns] == ["_id", "r"]
    assert len(list(Runs(folder.shelf(), grown.entries, keyed=False).scan(member=b"k0"))) == 2
    assert list(Runs(folder.shelf(), grown.entries, keyed=False).scan(member=b"k1")) == []


def test_blocks_are_cut_at_the_target_and_do_not_overlap() -> None:
    folder = Folder(Sizes(block_target=1_000, run_smallest=1))
    new = rows(range(60))
    blocks = folder.grow(new, run=1).entries
    assert len(blocks) == -(-60 // -(-1_000 // weight(row(0))))
    assert all(one.key_last < two.key_first for one, two in pairwise(blocks))
    assert sum(block.rows for block in blocks) == 60


@pytest.mark.parametrize("number", [1, 2])
def test_an_object_that_may_not_be_there_is_not_named(number: int) -> None:
    folder = Folder()
    faulty = FaultStore(folder.store, {number: Fault.ANSWER_LOST})
    writer = type(folder.writer)(faulty, folder.pool, folder.writer.misc, folder.writer.chance)
    with pytest.raises(UnavailableError, match="the state is as before"):
        Growth(folder.runs(), writer, folder.sizes).grow(rows([1]), run=1)
