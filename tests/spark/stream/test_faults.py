"""A micro-batch with any fault at any request of its commit, tried again: it is there once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import types as spark

from tests.engine.sweeps.commits import World, database_on
from wormdb.engine.commit.operations import Insert, Remove
from wormdb.format.event import StreamAdvanced
from wormdb.jobs import place
from wormdb.jobs.place import Where
from wormdb.spark.stream.rows import RowOperation
from wormdb.spark.stream.sink import StreamWriter, TaskRows
from wormdb.system.types import LogNumber
from wormdb.testing.fault_store import Fault
from wormdb.testing.sweep import SweepCase, sweep

if TYPE_CHECKING:
    from wormdb.storage.store import Store

QUERY = "9a512e23-222e-4f18-8a6b-abe00f80d83f"
URL = "memory://stream-faults"
SINK = StreamWriter(Where(URL, None, "copies"), spark.StructType([spark.StructField("id", spark.StringType())]))
FIRST = [
    TaskRows(
        QUERY,
        (RowOperation(Insert(b'"a"', b'{"_id":"a","n":1}'), None), RowOperation(Insert(b'"b"', b'{"_id":"b"}'), None)),
        1,
    )
]
SECOND = [
    TaskRows(QUERY, (RowOperation(Insert(b'"a"', b'{"_id":"a","n":2}'), None),), 2),
    TaskRows(QUERY, (RowOperation(Remove(b'"b"'), None), RowOperation(Insert(b'"c"', b'{"_id":"c"}'), None)), 3),
]


def commit(store: Store, batch: int, seed: int, stage_bytes: int) -> None:
    """One try to commit a micro-batch, by a process that knows nothing."""
    opened = database_on(store, seed=seed, stage_bytes=stage_bytes, forward="manual")
    place._open[os.getpid(), URL, ()] = opened
    try:
        SINK.commit([*(FIRST, SECOND)[batch]], batch)
    finally:
        del place._open[os.getpid(), URL, ()]


MOST = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.ANSWER_LOST, Fault.LANDS_LATE, Fault.UNAVAILABLE_503)


@pytest.mark.parametrize(
    ("stage_bytes", "faults"),
    [(100, (Fault.CRASH_AFTER, Fault.LANDS_LATE)), (1_000_000, MOST)],
    ids=["staged", "small"],
)
def test_every_fault_at_every_request(stage_bytes: int, faults: tuple[Fault, ...]) -> None:
    def make() -> Store:
        world = World()
        commit(world, 0, 1, stage_bytes)
        return world

    def check(case: SweepCase[None]) -> None:
        seen = found(case.inner)
        assert seen[0] in ({"a": {"id": "a", "n": 1}, "b": {"id": "b"}}, {"a": {"id": "a", "n": 2}, "c": {"id": "c"}})
        if case.error is None:
            assert seen[1] == [0, 1], case.label
        for seed in (3, 4):
            commit(case.inner, 1, seed, stage_bytes)
            assert found(case.inner) == ({"a": {"id": "a", "n": 2}, "c": {"id": "c"}}, [0, 1]), case.label

    assert sweep(make, lambda store: commit(store, 1, 2, stage_bytes), check, faults=faults) > 20


def found(store: Store) -> tuple[dict[str, object], list[int]]:
    """The documents, and which micro-batches entries say they are."""
    copies = database_on(store, seed=99)["copies"]
    entries = copies._ledger.entries(LogNumber(0), copies._ledger.view().number)
    assert entries is not None
    told = [event.batch for entry in entries for event in entry.events if isinstance(event, StreamAdvanced)]
    return {document.id: dict(document) for document in copies.find_all()}, told
