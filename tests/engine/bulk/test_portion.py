"""Batches of columns and batches of rows of one job, in any order, against documents that are there or were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.engine.bulk.rig import after_job
from tests.engine.bulk.stage_rig import MANUAL, REFUSALS, SCHEMA, SMALL, State, check_state, logger
from tests.engine.rig import Rig, contents, insert, remove
from wormdb.api.document import PlainCodec
from wormdb.api.write import Writer
from wormdb.engine.bulk import task as bulk_task
from wormdb.engine.bulk.columns import ColumnMaker, TaskChance, job_clock
from wormdb.engine.bulk.report import BulkTarget, decode_report
from wormdb.engine.bulk.rows import BatchWriter
from wormdb.engine.bulk.task import BulkTask
from wormdb.engine.forward.forward import Sizes
from wormdb.engine.load import BulkOutcome, JobSpec, attach, open_job
from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from tests.engine.bulk.rig import Rows
    from wormdb.engine.bulk.report import ConflictRule

COLUMNS = pa.schema([("_id", pa.string()), ("n", pa.int64()), ("email", pa.string())])
IDS = st.integers(0, 9).map(lambda n: f"k{n:02}")
VALUES = st.fixed_dictionaries({"n": st.integers(0, 3)}, optional={"email": st.integers(0, 40).map(lambda n: f"{n}@x")})
BATCH = st.lists(st.tuples(IDS, VALUES), min_size=1, max_size=5)
TASK = st.lists(st.tuples(BATCH, st.booleans()), max_size=3)
"""Batches, and whether each goes by rows."""
Task = list[tuple["Rows", bool]]


def writer_of(rig: Rig, target: BulkTarget, number: int, sizes: Sizes = SMALL) -> BatchWriter:
    clock, chance = job_clock(target.started_ms), TaskChance(SeededChance(3), "ulid", number)
    documents: Writer[Any] = Writer("things", None, PlainCodec(), origin="", clock=clock, chance=chance)
    task = BulkTask(rig.ledger(None, MANUAL, sizes), target, documents, number)
    return BatchWriter(task, maker=ColumnMaker(None, clock, chance))


def written(rig: Rig, target: BulkTarget, number: int, task: Task) -> bytes:
    writer = writer_of(rig, target, number)
    for rows, by_rows in task:
        documents = [{"_id": identity, **values} for identity, values in rows]
        batch = pa.RecordBatch.from_pylist(documents, schema=COLUMNS)
        if not by_rows:
            assert writer._maker is not None
            assert writer._maker.columns(batch) is not None, "it goes by columns"
        writer.add(documents if by_rows else batch)
    return writer.task.report()


def run(rig: Rig, tasks: list[Task], rule: ConflictRule, *, overwrite: bool) -> BulkOutcome:
    ledger = rig.ledger(None, MANUAL, SMALL)
    target = open_job(ledger, JobSpec("job", "test", rule, overwrite))
    assert isinstance(target, BulkTarget)
    reports = [written(rig, target, number, task) for number, task in enumerate(tasks)]
    documents = writer_of(rig, target, 0).task.documents
    return attach(rig.ledger(None, MANUAL, SMALL), target, reports, documents)


@settings(max_examples=30)
@given(
    st.dictionaries(IDS, VALUES, max_size=5),
    st.sets(IDS, max_size=2),
    st.lists(TASK, min_size=1, max_size=3),
    st.sampled_from(["error", "replace", "ignore"]),
    st.booleans(),
)
def test_a_job_is_the_same_by_columns_and_by_rows(
    earlier: dict[str, Any], deleted: set[str], tasks: list[Task], rule: ConflictRule, overwrite: bool
) -> None:
    rig = Rig()
    plain = logger(rig, limits=MANUAL)
    plain.commit(rig.batch(events=(SCHEMA,)))
    emails: set[str] = set()
    for identity, values in earlier.items():
        if values.get("email") not in emails:
            plain.commit(rig.batch(insert(identity, **values)))
            emails |= {values["email"]} if "email" in values else set()
    plain.commit(rig.batch(*(remove(identity) for identity in sorted(deleted)), insert("z", email="99@x")))
    before: State = contents(plain.view())
    rows = [[row for batch, _ in task for row in batch] for task in tasks]
    given = [row for some in rows for row in some]
    ids = [identity for identity, _ in given]
    # Of rows with one id, one that changes the document goes before one that does not.
    assume(not any(ids.count(i) > 1 and i in before and before[i][2] == values for i, values in given))
    expected = after_job(before, rows, 0, rule, overwrite=overwrite)
    if isinstance(expected, str):
        with pytest.raises(tuple(REFUSALS.values())):
            run(rig, tasks, rule, overwrite=overwrite)
        check_state(rig, before, plain)
        return
    outcome = run(rig, tasks, rule, overwrite=overwrite)
    told = after_job(before, rows, outcome.number, rule, overwrite=overwrite)
    assert isinstance(told, dict)
    check_state(rig, told, plain)


@pytest.mark.parametrize("first_by_rows", [True, False])
def test_of_one_id_the_later_batch_counts(first_by_rows: bool) -> None:
    rig = Rig()
    task: Task = [([("a", {"n": 1})], first_by_rows), ([("a", {"n": 2})], not first_by_rows)]
    run(rig, [task], "replace", overwrite=False)
    assert contents(rig.ledger(None, MANUAL, SMALL).view())["a"][2] == {"n": 2}


def test_documents_with_new_ids_become_whole_blocks_as_they_come() -> None:
    rig = Rig()
    target = open_job(rig.ledger(None, MANUAL, SMALL), JobSpec("job", "test"))
    assert isinstance(target, BulkTarget)
    writer = writer_of(rig, target, 0, Sizes(block_target=2_000))
    for start in range(0, 100, 7):
        writer.add(pa.RecordBatch.from_pydict({"n": list(range(start, start + 7))}))
    report = decode_report(writer.task.report())
    *full, last = [block.rows for block in report.blocks]
    assert len(set(full)) == 1, "all but the last are of one size"
    assert last <= full[0]
    assert sum(full) + last == 105
    keys = [key for block in report.blocks for key in (block.key_first, block.key_last)]
    assert keys == sorted(keys)


def test_a_task_of_very_many_portions_makes_one_run_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    target = open_job(rig.ledger(None, MANUAL, SMALL), JobSpec("job", "test", "replace"))
    assert isinstance(target, BulkTarget)
    monkeypatch.setattr(bulk_task, "BULK_PORTION_BYTES", 1)
    task: Task = [([("a", {"n": n}), (f"k{n:02}", {"n": n})], False) for n in range(4)]
    runs = decode_report(written(rig, target, 0, task)).runs
    assert [sum(block.rows for block in run) for run in runs] == [2, 2, 2, 2]
    monkeypatch.setattr(bulk_task, "PORTIONS_MAX", 3)
    runs = decode_report(written(rig, target, 0, task)).runs
    assert [sum(block.rows for block in run) for run in runs] == [5]
