"""History over a view: versions, snapshots, states as of a moment; against a dict, and what it costs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from bson import ObjectId
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.history.rig import Bench, key_of
from tests.engine.rig import PATHS
from wormdb.engine.history.read import SnapshotVersion
from wormdb.engine.state.moments import AsOf
from wormdb.engine.state.projection import Sizes
from wormdb.errors import CorruptionError, InvalidRequestError, SnapshotTooOldError
from wormdb.format.past import misc_ms
from wormdb.testing.fault_store import FaultStore

IDS: list[Any] = ["a", "b", "ba", 1, 2.5, ObjectId("0123456789abcdef01234567"), True]

identities = st.sampled_from(IDS)
operations = st.lists(st.sampled_from(["put", "put", "delete", "restore", "purge"]), min_size=1, max_size=3)
actors = st.sampled_from([None, "ada", "bob"])
actions = st.one_of(
    st.tuples(st.just("write"), identities, operations, st.booleans(), actors),
    st.tuples(st.just("write"), identities, operations, st.booleans(), actors),
    st.tuples(st.just("take"), identities, actors),
    st.tuples(st.just("load"), st.lists(identities, min_size=1, max_size=4, unique_by=str), actors, st.booleans()),
    st.tuples(st.just("forward")),
)


def run(bench: Bench, action: tuple[Any, ...]) -> None:
    match action:
        case ("write", identity, ops, snapshot, actor):
            bench.write(identity, *ops, snapshot=snapshot, actor=actor)
        case ("take", identity, actor):
            bench.take(identity, actor)
        case ("load", loaded, actor, remove):
            bench.load(*loaded, actor=actor, remove=remove)
        case _:
            bench.forward()


@settings(max_examples=40)
@given(st.lists(actions, min_size=5, max_size=40), st.sampled_from([1, 2, 40]), st.integers(0, 40))
def test_history_equals_a_dict_with_history(script: list[tuple[Any, ...]], every: int, through: int) -> None:
    bench = Bench()
    for place, action in enumerate(script):
        run(bench, action)
        if place % every == every - 1:
            bench.forward()
    if through < bench.number and (bench.root is None or through > bench.root.applied):
        bench.forward(through)
    history = bench.history()
    for identity in IDS:
        key = key_of(identity)
        expected = bench.versions.get(key, [])
        assert history.versions(key) == expected
        taken = {mark.seq: mark for mark in bench.marks.get(key, ())}
        assert history.snapshots(key) == [
            SnapshotVersion(version, taken.get(version.seq))
            for version in expected
            if version.snapshot or version.seq in taken
        ]
        assert history.version(key, len(expected) + 1) is None
        for version in expected[-1:]:
            assert history.version(key, version.seq) == version
    assert_moments(bench)


def assert_moments(bench: Bench) -> None:
    history = bench.history()
    cut = sorted(map(key_of, IDS))[2:5]
    for number in range(bench.number + 1):
        expected = bench.state(number)
        as_of = AsOf.number(number)
        assert list(history.scan(as_of)) == sorted(expected.items())
        inside = [(key, held) for key, held in sorted(expected.items()) if cut[0] <= key < cut[2]]
        assert list(history.scan(as_of, cut[0], cut[2])) == inside
        assert history.at(cut[1], as_of) == expected.get(cut[1])
        if number:
            moment = AsOf.time(misc_ms(bench.log[number - 1].misc), now_ms=bench.clock.now_ms())
            if expected:
                assert list(history.scan(moment)) == sorted(expected.items())
                assert history.at(cut[1], moment) == expected.get(cut[1])


def grown(count: int = 12, every: int = 3) -> Bench:
    """Documents x and y change by turns; what came last is in the tail."""
    bench = Bench()
    for number in range(count):
        bench.write("xy"[number % 2], "put")
        if number % every == every - 1:
            bench.forward()
    return bench


# --- moments ---


def test_an_entry_to_come_is_refused() -> None:
    bench = grown()
    with pytest.raises(InvalidRequestError, match="the newest entry is 12") as caught:
        bench.history().at(key_of("x"), AsOf.number(13))
    assert "up to 12" in caught.value.fix


def test_a_time_to_come_is_refused_when_the_scan_is_asked_for() -> None:
    bench = grown()
    now = bench.clock.now_ms()
    with pytest.raises(InvalidRequestError, match="in the future"):
        bench.history().scan(AsOf.time(now + 1, now_ms=now))
    assert bench.history().at(key_of("x"), AsOf.time(now, now_ms=now)) == bench.state(12)[key_of("x")]


def test_a_version_made_by_a_clock_ahead_of_ours_can_be_asked_for() -> None:
    bench = grown()
    made = misc_ms(bench.log[-1].misc)
    assert dict(bench.history().scan(AsOf.time(made, now_ms=made - 5))) == bench.state(12)


@pytest.mark.parametrize("forwarded", [0, 1, 12])
def test_a_time_before_history_is_refused(forwarded: int) -> None:
    bench = Bench()
    for _ in range(12):
        bench.write("x", "put")
    bench.forward(forwarded)
    first, now = misc_ms(bench.log[0].misc), bench.clock.now_ms()
    for ask in (bench.history().at, lambda _, as_of: bench.history().scan(as_of)):
        with pytest.raises(SnapshotTooOldError, match=r"history begins at 2023-11-14T22:13:20\.001Z") as caught:
            ask(key_of("x"), AsOf.time(first - 1, now_ms=now))
        assert "later" in caught.value.fix


def test_a_time_before_what_a_job_attached_first_is_refused() -> None:
    bench = Bench()
    bench.load("x", "y")
    bench.write("x", "put")
    bench.forward()
    first, now = misc_ms(bench.log[0].misc), bench.clock.now_ms()
    assert dict(bench.history().scan(AsOf.time(first, now_ms=now))) == bench.state(1)
    with pytest.raises(SnapshotTooOldError):
        bench.history().scan(AsOf.time(first - 1, now_ms=now))


def test_an_entry_before_history_is_refused() -> None:
    bench = grown()
    assert bench.root is not None
    bench.root = msgspec.structs.replace(bench.root, history_from=4)
    history = bench.history()
    assert history.at(key_of("x"), AsOf.number(4)) == bench.state(4)[key_of("x")]
    with pytest.raises(SnapshotTooOldError, match="history begins after entry 4") as caught:
        history.scan(AsOf.number(3))
    assert "entry 4" in caught.value.fix


def test_before_the_first_entry_there_was_nothing() -> None:
    bench = grown()
    assert list(bench.history().scan(AsOf.number(0))) == []
    assert bench.history().at(key_of("x"), AsOf.number(0)) is None
    with pytest.raises(SnapshotTooOldError):
        bench.history().at(key_of("x"), AsOf.number(-1))


def test_an_empty_collection_has_an_empty_history() -> None:
    history, now = Bench().history(), 1_700_000_000_000
    assert history.versions(key_of("x")) == []
    assert history.snapshots(key_of("x")) == []
    assert list(history.scan(AsOf.time(now, now_ms=now))) == []
    assert history.at(key_of("x"), AsOf.number(0)) is None


# --- damage ---


def without_run(bench: Bench, lost: int, *, history_from: int = 0) -> Bench:
    assert bench.root is not None
    kept = tuple(block for block in bench.root.history if block.run != lost)
    other = Bench(store=bench.store)
    other.log, other.versions = bench.log, bench.versions
    other.root = msgspec.structs.replace(bench.root, history=kept, history_from=history_from)
    return other


def test_a_missing_run_is_noticed() -> None:
    bench = grown(25)
    assert bench.root is not None
    runs = {block.run for block in bench.root.history}
    assert len(runs) > 1
    for lost in runs:
        with pytest.raises(CorruptionError, match=r'things/.worm.db/history/ .* of document "x" does not follow'):
            without_run(bench, lost).history().versions(key_of("x"))


def test_a_history_that_begins_late_may_lack_first_versions() -> None:
    bench = grown(25)
    assert bench.root is not None
    oldest = min(block.run for block in bench.root.history)
    # What history begins with is the newest version until then, in a run that is kept.
    later = min(version.rev for version in bench.versions[key_of("x")] if version.rev > oldest)
    late = without_run(bench, oldest, history_from=later)
    expected = [version for version in bench.versions[key_of("x")] if version.rev >= later]
    assert expected[0].seq > 1
    assert late.history().versions(key_of("x")) == expected
    with pytest.raises(CorruptionError):
        without_run(bench, oldest, history_from=later - 1).history().versions(key_of("x"))


def test_a_forgotten_job_is_damage() -> None:
    bench = Bench()
    bench.load("x")
    bench.forward()
    assert bench.root is not None
    bench.root = msgspec.structs.replace(bench.root, jobs=())
    with pytest.raises(CorruptionError, match="forgotten the job that entry 1 attached"):
        bench.history().versions(key_of("x"))


# --- cost ---


@pytest.fixture(scope="module")
def three_runs() -> Bench:
    """Three runs of a block each: document k000 is in all of them, the others in one."""
    bench = Bench(Sizes(block_target=1 << 20, run_smallest=1 << 30))
    for run_number in range(3):
        bench.write("k000", "put")
        for number in range(1, 100):
            bench.write(f"k{number:03}-{run_number}", "put")
        bench.forward()
    assert bench.root is not None
    assert len(bench.root.history) == 3
    return bench


def seen(store: FaultStore) -> list[str]:
    """The requests, by verb and kind of object."""
    return [f"{trace.verb} {trace.key.removeprefix(PATHS.history).rpartition('.')[2]}" for trace in store.trace]


@pytest.mark.parametrize(("identity", "runs"), [("k000", 3), ("k050-1", 1)])
def test_a_document_costs_a_page_for_each_run_that_has_it(three_runs: Bench, identity: str, runs: int) -> None:
    store = FaultStore(three_runs.store)
    history, key = three_runs.history(store), key_of(identity)
    assert history.versions(key) == three_runs.versions[key]
    assert seen(store) == ["get_ranges map"] * 3 + ["get_ranges parquet"] * runs
    history.versions(key)
    history.snapshots(key)
    assert history.at(key, AsOf.number(three_runs.number - 1)) == three_runs.state(three_runs.number - 1)[key]
    assert seen(store)[3 + runs :] == ["get_ranges parquet"] * (3 * runs)


def test_a_document_that_never_was_costs_no_page(three_runs: Bench) -> None:
    store = FaultStore(three_runs.store)
    history = three_runs.history(store)
    absent = [f"k050-{number}" for number in range(3, 13)]
    assert [history.versions(key_of(identity)) for identity in absent] == [[]] * 10
    # One in 256 is looked for in vain; none of these is.
    assert seen(store) == ["get_ranges map"] * 3


def test_runs_that_began_later_are_not_read(three_runs: Bench) -> None:
    key = key_of("k000")
    for count, number in [(1, 100), (2, 101), (2, 200), (3, 201)]:
        time = AsOf.time(misc_ms(three_runs.log[number - 1].misc), now_ms=three_runs.clock.now_ms())
        for as_of in (AsOf.number(number), time):
            store = FaultStore(three_runs.store)
            assert dict(three_runs.history(store).scan(as_of)) == three_runs.state(number)
            assert seen(store) == ["get parquet"] * count
            store = FaultStore(three_runs.store)
            assert three_runs.history(store).at(key, as_of) == three_runs.state(number)[key]
            assert seen(store) == ["get_ranges map"] * count + ["get_ranges parquet"] * count


def test_a_long_history_of_one_document_is_one_read_of_its_pages() -> None:
    bench = Bench(Sizes(block_target=1 << 24, run_smallest=1 << 30))
    for number in range(600):
        bench.write("x", *["put"] * 10)
        if number % 20 == 0:
            bench.write(f"w{number}", "put")
            bench.write(f"y{number}", "put")
    bench.forward()
    store = FaultStore(bench.store)
    assert bench.history(store).versions(key_of("x")) == bench.versions[key_of("x")]
    assert seen(store) == ["get_ranges map", "get_ranges parquet"]


def test_what_the_tail_and_the_view_tell_costs_nothing() -> None:
    bench = grown(12, every=5)
    store = FaultStore(bench.store)
    history = bench.history(store)
    assert bench.root is not None
    assert bench.root.applied == 10
    for number in (10, 11, 12):
        list(history.scan(AsOf.number(number)))
        history.at(key_of("x"), AsOf.number(number))
    assert seen(store) == []


def test_reading_where_history_begins_costs_a_page_of_the_list_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wormdb.engine.blocks.runs.LIST_INLINE_BYTES_MAX", 0)
    bench = grown(12)
    assert bench.root is not None
    assert bench.root.history == ()
    assert len(bench.root.history_pages) > 1
    store = FaultStore(bench.store)
    early = AsOf.time(misc_ms(bench.log[0].misc) - 1, now_ms=bench.clock.now_ms())
    with pytest.raises(SnapshotTooOldError):
        bench.history(store).scan(early)
    assert seen(store) == ["get list"]
    store = FaultStore(bench.store)
    first = min(page.rev_last for page in bench.root.history_pages)
    assert dict(bench.history(store).scan(AsOf.number(first))) == bench.state(first)
    assert seen(store).count("get list") == sum(page.rev_first <= first for page in bench.root.history_pages) == 1
    assert_moments(bench)
    for key, versions in bench.versions.items():
        assert bench.history().versions(key) == versions
