"""Blocks that overlap, joined column by column, are to the byte those that are merged row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.bulk.stage_rig import MANUAL
from tests.engine.rig import Rig
from wormdb.engine.blocks.write import BlockWriter
from wormdb.engine.bulk import merge as bulk_join
from wormdb.engine.bulk import merge as bulk_merge
from wormdb.engine.bulk.merge import Merger, MergeResult
from wormdb.engine.forward.forward import Sizes
from wormdb.errors import AlreadyExistsError
from wormdb.format import json
from wormdb.format.block import Row
from wormdb.format.columns import ColumnSpec
from wormdb.format.key import encode_key

if TYPE_CHECKING:
    from wormdb.engine.bulk.report import ConflictRule, JobLedger
    from wormdb.format.blocklist import BlockEntry

COLUMNS = (
    ColumnSpec("s", "string"),
    ColumnSpec("d", "double"),
    ColumnSpec("l", "list<int64>"),
    ColumnSpec("j", "json"),
)
IDS = st.integers(0, 60).map(lambda n: f"k{n:02}") | st.text(min_size=1, max_size=3)
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "s": st.text(max_size=9) | st.none() | st.just(7),
        "d": st.floats(allow_nan=False) | st.integers(-3, 3) | st.just("odd"),
        "l": st.lists(st.integers(0, 5), max_size=2),
        "j": st.just({"a": [1, {}]}),
        "pad": st.just("x" * 40),
    },
)
SOURCE = st.dictionaries(IDS, st.tuples(VALUES, st.integers(1, 3)), min_size=1, max_size=12)
Source = dict[str, tuple[dict[str, Any], int]]


def blocks_of(ledger: JobLedger, source: Source, target: int) -> list[BlockEntry]:
    rows = sorted(
        (encode_key(identity), Row(identity, 0, seq, json.encode({"_id": identity, **values})))
        for identity, (values, seq) in source.items()
    )
    return BlockWriter(ledger.shelf, ledger.writer, target, COLUMNS).write(rows)


def told(merged: MergeResult | str) -> object:
    if isinstance(merged, str):
        return merged
    blocks = [(b.sha256, b.sidecar.sha256, b.key_first, b.key_last, b.rows, b.columns) for b in merged.blocks]
    return blocks, merged.dropped, merged.times


def merge(merger: Merger, sources: list[list[BlockEntry]]) -> MergeResult | str:
    try:
        return merger.merge(sources)
    except AlreadyExistsError as error:
        return str(error)


@settings(max_examples=25)
@given(
    st.lists(SOURCE, min_size=2, max_size=5),
    st.sampled_from(["error", "replace", "ignore"]),
    st.sampled_from([200, 700, 100_000]),
    st.sampled_from([1, 3, 10_000]),
    st.sampled_from([2, 3, 32]),
)
def test_joined_blocks_are_merged_blocks(
    sources: list[Source], rule: ConflictRule, target: int, some: int, most: int
) -> None:
    ledger = Rig().ledger(None, MANUAL, Sizes(block_target=target))
    written = [blocks_of(ledger, source, 300) for source in sources]
    merger = Merger(ledger.block_writer(COLUMNS), rule)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bulk_join, "ROUND_ROWS", some)
        patched.setattr(bulk_join, "SOURCES_MAX", most)
        joined = merge(merger, written)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bulk_merge, "can_join", lambda *_: False)
        at_once = merge(merger, written)
        patched.setattr(bulk_merge, "SOURCES_MAX", most)
        in_passes = merge(merger, written)
    assert told(joined) == told(in_passes), "column by column and row by row, passes are the same"
    if rule != "error":  # which of several ids is named depends on what is merged first
        assert told(joined) == told(at_once)


def test_overlapping_blocks_of_texts_are_joined_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the property above compares rows with rows."""
    ledger = Rig().ledger(None, MANUAL, Sizes(block_target=10_000))
    merger = Merger(ledger.block_writer(COLUMNS), "error")
    plain = [blocks_of(ledger, {"a": ({}, 1), "c": ({}, 1)}, 300), blocks_of(ledger, {"b": ({}, 1)}, 300)]
    writer = BlockWriter(ledger.shelf, ledger.writer, 300, COLUMNS)
    gone = writer.write([(encode_key(identity), Row(identity, 0, 2, None)) for identity in ("a", "c")])
    ids: tuple[int | str, ...] = (1, "z")
    mixed = writer.write([(encode_key(one), Row(one, 0, 1, json.encode({"_id": one}))) for one in ids])
    with monkeypatch.context() as patched:
        patched.setattr(Merger, "_rows", None)
        assert [block.rows for block in merger.merge(plain).blocks] == [3]
        for other in (gone, mixed):
            with pytest.raises(TypeError):
                merger.merge([other, plain[1]])
    assert sum(block.deleted for block in merger.merge([gone, plain[1]]).blocks) == 2


@pytest.mark.parametrize(("whole", "some"), [(4, 10**6), (4, 5_000), (0, 5_000)])
def test_long_sources_are_joined_a_row_group_at_a_time(monkeypatch: pytest.MonkeyPatch, whole: int, some: int) -> None:
    """Rows of a source that come after its first row group go where they belong."""
    monkeypatch.setattr(bulk_join, "WHOLE_SOURCES_MAX", whole)
    monkeypatch.setattr(bulk_join, "ROUND_ROWS", some)
    ledger = Rig().ledger(None, MANUAL, Sizes(block_target=10**9))
    one: Source = {f"k{n:06}": ({"d": n}, 1) for n in range(0, 60_000, 3)}
    other: Source = {f"k{n:06}": ({"s": "x"}, 2) for n in range(0, 60_000, 7)}
    sources = [blocks_of(ledger, one, 10**9), blocks_of(ledger, other, 10**9)]
    merged = Merger(ledger.block_writer(COLUMNS), "ignore").merge(sources)
    assert [block.rows for block in merged.blocks] == [len({**one, **other})]
    assert len(merged.times) == len(one.keys() & other.keys())
    assert {row.seq for row in merged.dropped.values()} == {1}, "the first one's stays"
