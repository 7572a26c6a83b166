"""Jobs whose blocks overlap are attached as tasks wrote them; forwarding makes one run of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.bulk.rig import Loading, Plain, after_job, run_job
from tests.engine.bulk.stage_rig import MANUAL, SMALL, check_state, entries, logger
from tests.engine.rig import PATHS, Rig, contents, save
from wormdb.engine.blocks.runs import is_run, runs_of
from wormdb.engine.bulk import attach as bulk_attach
from wormdb.engine.bulk import task as bulk_task
from wormdb.engine.bulk.report import BulkTarget, decode_report
from wormdb.engine.load import JobSpec, attach
from wormdb.engine.state.view import id_key
from wormdb.errors import AlreadyExistsError
from wormdb.format.blocklist import BlockEntry
from wormdb.format.event import JobAttached
from wormdb.maintenance.gc.retired import attached_names
from wormdb.system.types import LogNumber
from wormdb.testing.fault_store import Fault
from wormdb.testing.sweep import sweep

if TYPE_CHECKING:
    from tests.engine.bulk.rig import Rows
    from wormdb.engine.bulk.report import ConflictRule
    from wormdb.format.root import Root
    from wormdb.storage.store import Store
    from wormdb.testing.sweep import SweepCase

CRASH, LOST = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER), (Fault.ANSWER_LOST, Fault.LANDS_LATE)
WIDE = "x" * 200
TASKS: list[Rows] = [
    [(f"k{number:02}", {"task": task, "pad": WIDE}) for number in range(task, 24, 3)] for task in range(3)
]
"""Each from the first ids to the last, none in common."""


def attached(rig: Rig) -> JobAttached:
    (event,) = [event for entry in entries(rig) for event in entry.events if isinstance(event, JobAttached)]
    return event


def root_of(rig: Rig) -> Root:
    """The root after forwarding."""
    logger(rig).forward()
    place = logger(rig).view().place
    assert place is not None
    return place.root


def stored(rig: Rig) -> set[str]:
    return {info.key for page in rig.store.list(PATHS.data) for info in page.objects}


def test_blocks_that_overlap_are_attached_as_tasks_wrote_them() -> None:
    rig = Rig()
    loading = Loading(rig)
    target = loading.open()
    assert isinstance(target, BulkTarget)
    reports = [loading.task(target, place, rows) for place, rows in enumerate(TASKS)]
    before = stored(rig)
    outcome = loading.attach(target, reports)
    assert stored(rig) == before
    written = {block.name for report in reports for block in decode_report(report).blocks}
    assert {block.name for block in attached(rig).blocks} == written
    assert len(runs_of(attached(rig).blocks)) == 3
    after = after_job({}, TASKS, outcome.number)
    assert isinstance(after, dict)
    check_state(rig, after)
    root = root_of(rig)
    check_state(rig, after)
    assert is_run(sorted(root.blocks, key=lambda block: block.key_first))
    assert {block.run for block in root.blocks} == {outcome.number}
    # History and whoever follows the log go on reading what the entry names.
    assert {block.name for block in root.attached} == written


def test_feed_and_history_tell_each_document_once() -> None:
    rig = Rig()
    run_job(rig, TASKS)
    ledger = logger(rig)
    ids = {f'"{identity}"'.encode() for rows in TASKS for identity, _ in rows}
    for _ in range(2):
        (record,) = [one for one in ledger.feed(LogNumber(0)).poll() if one.number == ledger.view().number]
        told = [change.id for _, change in ledger.feed(LogNumber(0)).changes(record)]
        assert sorted(told) == told
        assert (len(told), set(told)) == (24, ids)
        parts = ledger.feed_parts()
        places = [(place, change.id) for place, _, change in parts.changes(record)]
        assert [place for place, _ in places] == list(range(24))
        assert {identity for _, identity in places} == ids
        assert [change.id for _, _, change in parts.changes(record, 5, 9)] == [one for _, one in places[5:9]]
        history = ledger.history(ledger.view())
        assert {len(history.versions(id_key(identity))) for identity in ids} == {1}
        ledger.forward()


@pytest.mark.parametrize("rule", ["error", "replace", "ignore"])
def test_an_id_that_two_tasks_have_is_settled_by_the_rule(rule: ConflictRule) -> None:
    rig = Rig()
    tasks = [*TASKS, [("k05", {"again": True, "pad": WIDE})]]
    expected = after_job({}, tasks, 0, rule)
    if expected == "AlreadyExistsError":
        with pytest.raises(AlreadyExistsError, match="k05"):
            run_job(rig, tasks, rule)
        return
    outcome = run_job(rig, tasks, rule)
    told = after_job({}, tasks, outcome.number, rule)
    assert isinstance(told, dict)
    check_state(rig, told)
    assert len(runs_of(attached(rig).blocks)) == 1


def test_more_layers_than_may_be_are_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_attach, "BULK_LAYERS_MAX", 2)
    rig = Rig()
    run_job(rig, TASKS)
    assert len(runs_of(attached(rig).blocks)) == 1


def test_a_task_with_more_runs_than_may_be_sends_no_digests_of_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_task, "BULK_LAYERS_MAX", 2)
    rig = Rig()
    loading = Loading(rig)
    target = loading.open()
    assert isinstance(target, BulkTarget)
    reports = [loading.task(target, place, rows, every=2) for place, rows in enumerate(TASKS)]
    assert {decode_report(report).ids for report in reports} == {None}
    loading.attach(target, reports)
    assert len(runs_of(attached(rig).blocks)) == 1


def test_a_little_that_overlaps_is_one_block() -> None:
    rig = Rig()
    loading = Loading(rig)
    target = loading.open()
    assert isinstance(target, BulkTarget)
    reports = [loading.task(target, place, [(f"k{place}", {}), (f"z{place}", {})]) for place in range(3)]
    attach(rig.ledger(None, MANUAL), target, reports, Plain(), loading.spec)
    assert [block.rows for block in attached(rig).blocks] == [6]


def test_one_row_that_somebody_changed_is_settled_again() -> None:
    rig = Rig()
    loading = Loading(rig, spec=JobSpec("the job", "test", "replace"))
    target = loading.open()
    assert isinstance(target, BulkTarget)
    reports = [loading.task(target, place, rows) for place, rows in enumerate(TASKS)]
    logger(rig, limits=MANUAL).commit(rig.batch(save("k07", by="another")))
    before = contents(logger(rig).view())
    outcome = loading.attach(target, reports)
    told = after_job(before, TASKS, outcome.number, "replace")
    assert isinstance(told, dict)
    check_state(rig, told)


ROWS = st.lists(st.tuples(st.integers(0, 40).map(lambda n: f"k{n:02}"), st.just({"pad": WIDE})), max_size=12)


@given(st.lists(ROWS, min_size=2, max_size=4), st.integers(2, 6), st.sampled_from(["error", "replace", "ignore"]))
def test_as_they_are_or_as_one_run_is_the_same(tasks: list[Rows], every: int, rule: ConflictRule) -> None:
    """Before forwarding and after it, in every process."""
    results = []
    for layers in (16, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bulk_attach, "BULK_LAYERS_MAX", layers)
            rig = Rig()
            try:
                run_job(rig, tasks, rule, every=every)
            except AlreadyExistsError as error:
                results.append(str(error))
                continue
            seen = contents(logger(rig).view())
            sample = attached(rig).sample
            root = root_of(rig)
            assert contents(logger(rig).view()) == seen
            assert is_run(sorted(root.blocks, key=lambda block: block.key_first))
            results.append(str((seen, sample, root.rows, root.sample)))
    assert results[0] == results[1]


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param((Fault.CRASH_AFTER,), id="crash"),
        pytest.param((*CRASH, *LOST, Fault.UNAVAILABLE_503), id="all", marks=pytest.mark.long),
    ],
)
def test_every_fault_while_they_become_one_run(faults: tuple[Fault, ...]) -> None:
    tasks = [rows[:3] for rows in TASKS[:2]]
    after = after_job({}, tasks, 2)

    def make() -> Store:
        rig = Rig()
        run_job(rig, tasks)
        return rig.store

    def operate(store: Store) -> LogNumber:
        return Rig(seed=5).ledger(store, MANUAL, SMALL).forward()

    def check(case: SweepCase[LogNumber]) -> None:
        rig = Rig(seed=77)
        rig.store = case.inner  # type: ignore[assignment] # the one without faults
        assert contents(logger(rig).view()) == after, case.label
        assert len(runs_of(root_of(rig).blocks)) == 1, case.label
        assert contents(logger(rig).view()) == after, case.label

    assert sweep(make, operate, check, faults=faults) > 10 * len(faults)


def test_nothing_that_the_log_names_is_garbage() -> None:
    rig = Rig()
    run_job(rig, TASKS)
    root_of(rig)
    place = logger(rig).view().place
    assert place is not None
    named = set(attached_names(place, entries(rig)))
    assert named <= stored(rig)
    assert {f"{PATHS.data}{block.name}.parquet" for block in place.root.attached} <= named


def test_runs_of_parts_that_overlap() -> None:
    def block(first: str, last: str, run: int = 7) -> BlockEntry:
        rig = Rig()
        loading = Loading(rig)
        target = loading.open()
        assert isinstance(target, BulkTarget)
        (made,) = decode_report(loading.task(target, 0, [(first, {}), (last, {})])).blocks
        return BlockEntry(**{name: getattr(made, name) for name in made.__struct_fields__} | {"run": run})

    wide, early, late, older = block("a", "z"), block("b", "c"), block("d", "e"), block("a", "b", run=3)
    runs = runs_of([late, wide, older, early])
    assert [(run.through, run.parts) for run in runs] == [(7, (wide,)), (7, (early, late)), (3, (older,))]
