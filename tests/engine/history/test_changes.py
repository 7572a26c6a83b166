"""History as a projection: what is written, that merging loses and changes nothing, what it costs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.history.rig import NOBODY, SMALL, Bench, key_of
from tests.engine.rig import PATHS
from wormdb.engine.blocks.runs import Runs, runs_of
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.blocks.tiers import runs_max
from wormdb.engine.history.changes import member_of, past_of
from wormdb.engine.state.projection import ProjectionResult, Sizes
from wormdb.format.entry import LoggedBatch, LoggedChange
from wormdb.format.event import SnapshotTaken
from wormdb.format.past import SnapshotMark, Version, decode_past, encode_past
from wormdb.storage.memory import MemoryStore
from wormdb.storage.pool import SerialPool
from wormdb.testing.fault_store import FaultStore

if TYPE_CHECKING:
    from wormdb.format.block import Row


def stored(bench: Bench) -> list[Row]:
    """Every row that the root's blocks hold, run by run, as they lie there."""
    if bench.root is None:
        return []
    shelf = Shelf(bench.store, SerialPool(), PATHS.history)
    return [
        row
        for run in runs_of(bench.root.history, bench.root.history_pages)
        for _, row in Runs(shelf, run.entries, run.pages, keyed=False).scan()
    ]


def named(bench: Bench) -> set[str]:
    """Keys of the objects of history that the root names."""
    assert bench.root is not None
    shelf = Shelf(bench.store, SerialPool(), PATHS.history)
    runs = Runs(shelf, bench.root.history, bench.root.history_pages)
    blocks = {key for block in runs.blocks() for key in (shelf.block_key(block.name), shelf.sidecar_key(block.name))}
    return blocks | {shelf.page_key(page.name) for page in bench.root.history_pages}


batches = st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from(["put", "delete", "take"])), max_size=6)


@settings(max_examples=30)
@given(st.lists(batches, min_size=1, max_size=16), st.booleans())
def test_merging_keeps_every_row_as_it_was(steps: list[list[tuple[str, str]]], paged: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if paged:
            patch.setattr("wormdb.engine.blocks.runs.LIST_INLINE_BYTES_MAX", 0)
        bench = Bench()
        written: set[bytes] = set()
        for step in steps:
            before = bench.number
            for identity, op in step:
                if op == "take":
                    bench.take(identity)
                else:
                    bench.write(identity, op)
            written |= {encode_past(row) for _, row in past_of(bench.log[before:])}
            bench.forward()
            cells = [row.cell for row in stored(bench)]
            assert len(cells) == len(set(cells)) == len(written)
            assert set(cells) == written
            assert_sound(bench)


def assert_sound(bench: Bench) -> None:
    """What is named is there, what was retired is not named, runs are few, and filters know the documents."""
    if bench.root is None:
        return
    keys = {info.key for page in bench.store.list(PATHS.history) for info in page.objects}
    assert named(bench) == keys - set(bench.retired)
    runs = runs_of(bench.root.history, bench.root.history_pages)
    assert len(runs) <= runs_max(max((run.size for run in runs), default=0), SMALL.run_smallest)
    shelf = Shelf(bench.store, SerialPool(), PATHS.history)
    for block in Runs(shelf, bench.root.history, bench.root.history_pages).blocks():
        _, filters = shelf.learn((), [block])
        members = {member_of(row) for _, row in Runs(shelf, [block]).scan()}
        assert len(filters[block.name]) == len(members)
        assert all(filters[block.name].might_contain(member) for member in members)


def test_runs_are_merged_after_some_forwardings() -> None:
    bench = Bench()
    for number in range(16):
        bench.write("xy"[number % 2], "put")
        bench.forward()
    assert bench.root is not None
    assert len({block.run for block in bench.root.history}) < 8
    assert bench.retired
    assert max(block.level for block in bench.root.history) >= 1


def test_rows_are_the_changes_with_who_made_them() -> None:
    bench = Bench(replace(SMALL, block_target=1 << 20))
    bench.write("b", "put", actor="ada")
    bench.write("a", "put", "put", "delete", snapshot=True, actor="bob")
    bench.take("b", actor="eve")
    bench.forward()
    rows = [decode_past(row.cell, name="x") for row in stored(bench)]
    (mark,) = bench.marks[key_of("b")]
    assert rows == [*bench.versions[key_of("a")], *bench.versions[key_of("b")], mark]
    assert [row.actor for row in rows] == ["bob", "bob", "bob", "ada", "eve"]
    assert [row.op for row in rows if isinstance(row, Version)] == ["create", "update", "delete", "create"]
    assert bench.root is not None
    (block,) = bench.root.history
    assert (block.rev_first, block.rev_last, block.rows) == (1, 3, 5)
    assert {column.path for column in block.columns} == {"_id", "op", "ts", "actor", "snapshot"}


def test_metadata_goes_with_a_version() -> None:
    bench = Bench()
    entry = bench.commit(LoggedChange(id=b'"a"', seq=1, after=b'{"_id":"a"}'))
    batch = msgspec.structs.replace(entry.batches[0], meta=b'{"why":"test"}')
    bench.log[0] = msgspec.structs.replace(entry, batches=(batch,))
    bench.forward()
    (version,) = bench.history().versions(key_of("a"))
    assert version.meta == b'{"why":"test"}'


def test_marks_of_one_version_in_one_entry_are_one() -> None:
    bench = Bench()
    bench.write("a", "put")
    event = SnapshotTaken(id=b'"a"', seq=1)
    entry = bench.commit(events=[event, event], actor="ada")
    bench.forward()
    (snapshot,) = bench.history().snapshots(key_of("a"))
    assert snapshot.taken == SnapshotMark(b'"a"', 1, 2, entry.misc, "ada")
    bench.take("a", actor="bob")
    (snapshot,) = bench.history().snapshots(key_of("a"))
    assert snapshot.taken is not None
    assert (snapshot.taken.rev, snapshot.taken.actor) == (3, "bob")


def test_who_took_a_snapshot_is_left_out_if_the_entry_does_not_tell() -> None:
    bench = Bench()
    bench.write("a", "put", actor="ada")
    entry = bench.commit(events=[SnapshotTaken(id=b'"a"', seq=1)], actor="ada")
    change = LoggedChange(id=b'"b"', seq=1, after=b'{"_id":"b"}')
    others = (LoggedBatch(id=NOBODY, actor="bob", changes=(change,)), LoggedBatch(id=NOBODY, actor="eve"))
    for batches_, actor in [(others[:1], "ada"), (others, None)]:
        grouped = msgspec.structs.replace(entry, batches=entry.batches + batches_)
        (mark,) = [row for _, row in past_of([grouped]) if isinstance(row, SnapshotMark)]
        assert mark.actor == actor


def test_a_forwarding_costs_two_puts_and_no_get_while_nothing_is_merged() -> None:
    store = FaultStore(MemoryStore())
    bench = Bench(Sizes(), store)
    verbs = []
    for _ in range(4):
        for identity in "abc":
            bench.write(identity, "put")
        seen = len(store.trace)
        bench.forward()
        verbs.append([trace.verb for trace in store.trace[seen:]])
    # The fourth run of a tier is written together with the three before it.
    assert verbs == [["put"] * 2] * 3 + [["get"] * 3 + ["put"] * 2]
    assert len(bench.retired) == 6


def test_entries_without_changes_write_nothing() -> None:
    store = FaultStore(MemoryStore())
    bench = Bench(store=store)
    bench.commit()
    outcome = bench.forward()
    assert outcome is not None
    assert (outcome.fields, outcome.retired) == ({"history": (), "history_pages": ()}, ())
    assert store.trace == ()


def test_what_a_job_attached_is_not_written_again() -> None:
    store = FaultStore(MemoryStore())
    bench = Bench(store=store)
    bench.load("a", "b", actor="ada")
    seen = len(store.trace)
    assert bench.forward() == ProjectionResult()
    assert store.trace[seen:] == ()
    assert bench.history().versions(key_of("a")) == bench.versions[key_of("a")]
