"""Deleting the beginning of the log: the root first, then the entries, and only by the store's time."""

from __future__ import annotations

import pytest

from tests.engine.rig import PATHS, HookStore, Rig, TimedStore, contents, save
from wormdb.engine.commit.operations import Pending
from wormdb.engine.state.trim import with_mark
from wormdb.errors import ConflictError, CorruptionError, UnavailableError
from wormdb.format.event import FilesSwitched, JobAborted, JobOpened, SchemaChanged
from wormdb.format.root import AppliedMark, Root
from wormdb.settings import LOG_RETENTION_MS_MIN, MARKS_MAX
from wormdb.system.types import LogNumber, StoreTime, WriteId
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash

HOUR = LOG_RETENTION_MS_MIN / 1000


def log_of(rig: Rig, count: int, *, start: int = 0) -> None:
    worker = rig.ledger()
    for number in range(start, start + count):
        worker.commit(rig.batch(save("x", n=number)))


def root(rig: Rig) -> Root:
    found = rig.register.read().root
    assert found is not None
    return found


def test_the_root_is_swapped_before_anything_is_deleted() -> None:
    rig = Rig()
    log_of(rig, 3)
    rig.ledger().forward()
    rig.ledger().trim(0)
    rig.clock.advance(HOUR)
    store = rig.counted()
    assert rig.ledger(store).trim(0) == 3
    assert [(trace.verb, trace.key) for trace in store.trace] == [
        ("probe", PATHS.root),
        ("put", PATHS.root),
        ("list", PATHS.entries),
        ("delete_many", PATHS.entry(LogNumber(1))),
    ]
    assert (root(rig).trimmed, root(rig).applied) == (3, 3)
    assert root(rig).hash_trimmed == root(rig).hash_applied


def test_a_log_without_a_root_is_left_alone() -> None:
    rig = Rig()
    log_of(rig, 3)
    store = rig.counted()
    assert rig.ledger(store).trim(0) == 0
    assert [trace.verb for trace in store.trace] == ["probe"]
    assert rig.slots() == [1, 2, 3]


@pytest.mark.parametrize(
    ("retention_ms", "seconds", "deleted"),
    [
        (0, HOUR - 0.001, 0),
        (0, HOUR, 3),
        (2 * LOG_RETENTION_MS_MIN, 2 * HOUR - 0.001, 0),
        (2 * LOG_RETENTION_MS_MIN, 2 * HOUR, 3),
    ],
)
def test_entries_stay_for_the_retention_but_never_under_an_hour(
    retention_ms: int, seconds: float, deleted: int
) -> None:
    rig = Rig()
    log_of(rig, 3)
    rig.ledger().forward()
    rig.clock.advance(10 * HOUR)
    assert rig.ledger().trim(retention_ms) == 0, "nobody has noted yet when they were applied"
    rig.clock.advance(seconds)
    assert rig.ledger().trim(retention_ms) == deleted
    assert len(rig.slots()) == 3 - deleted


def test_only_what_was_applied_goes() -> None:
    rig = Rig()
    log_of(rig, 3)
    rig.ledger().forward()
    log_of(rig, 2, start=3)
    rig.ledger().trim(0)
    rig.clock.advance(HOUR)
    assert rig.ledger().trim(0) == 3
    assert rig.slots() == [4, 5]
    assert contents(rig.ledger().view()) == {"x": (5, 5, {"n": 4})}


def test_what_was_applied_lately_stays_while_the_older_part_goes() -> None:
    rig = Rig()
    log_of(rig, 3)
    rig.ledger().forward()
    rig.ledger().trim(0)
    rig.clock.advance(HOUR)
    log_of(rig, 2, start=3)
    rig.ledger().forward()
    assert rig.ledger().trim(0) == 3
    assert rig.slots() == [4, 5]
    record, _ = rig.log.read(LogNumber(4))
    assert record is not None
    assert root(rig).hash_trimmed == record.entry.previous
    rig.clock.advance(HOUR)
    assert rig.ledger().trim(0) == 2
    assert contents(rig.ledger().view()) == {"x": (5, 5, {"n": 4})}


def test_the_local_clock_does_not_matter() -> None:
    rig = Rig()
    log_of(rig, 1)
    rig.ledger().forward()
    now = [1_000_000]
    ledger = rig.ledger(TimedStore(rig.store, lambda: now[0]))
    ledger.trim(0)
    rig.clock.advance(100 * HOUR)
    assert ledger.trim(0) == 0
    now[0] += LOG_RETENTION_MS_MIN
    assert ledger.trim(0) == 1


def test_a_store_that_shows_no_time_is_never_trimmed() -> None:
    rig = Rig()
    log_of(rig, 1)
    rig.ledger().forward()
    ledger = rig.ledger(TimedStore(rig.store, lambda: None))
    for _ in range(3):
        assert ledger.trim(0) == 0
        rig.clock.advance(100 * HOUR)


def test_what_an_earlier_run_left_behind_goes_with_the_next() -> None:
    rig = Rig()
    log_of(rig, 5)
    rig.ledger().forward()
    rig.ledger().trim(0)
    rig.clock.advance(HOUR)
    crashing = FaultStore(rig.store, {4: Fault.CRASH_BEFORE})
    with pytest.raises(SimulatedCrash):
        rig.ledger(crashing).trim(0)
    assert (root(rig).trimmed, rig.slots()) == (5, [1, 2, 3, 4, 5])
    assert rig.ledger().trim(0) == 5
    assert rig.slots() == []


def test_more_than_a_page_goes_page_by_page() -> None:
    rig = Rig()
    log_of(rig, 7)
    rig.ledger().forward()
    rig.ledger().trim(0)
    rig.clock.advance(HOUR)
    store = FaultStore(rig.store, page_keys=2)
    assert rig.ledger(store).trim(0) == 7
    assert [trace.verb for trace in store.trace].count("delete_many") == 4
    assert rig.slots() == []


def test_a_lost_swap_deletes_nothing() -> None:
    rig = Rig()
    log_of(rig, 3)
    rig.ledger().forward()
    rig.ledger().trim(0)
    rig.clock.advance(HOUR)
    store = HookStore(rig.store)

    def rival(verb: str, key: str) -> None:
        if verb == "put":
            store.before = None
            log_of(rig, 1, start=3)
            rig.ledger().forward()

    store.before = rival
    assert rig.ledger(store).trim(0) == 0
    assert rig.slots() == [1, 2, 3, 4]
    assert root(rig).trimmed == 0


def test_a_swap_that_did_not_happen_deletes_nothing() -> None:
    rig = Rig()
    log_of(rig, 3)
    rig.ledger().forward()
    rig.ledger().trim(0)
    rig.clock.advance(HOUR)
    with pytest.raises(UnavailableError):
        rig.ledger(FaultStore(rig.store, {2: Fault.UNAVAILABLE_503})).trim(0)
    assert rig.slots() == [1, 2, 3]


def test_a_hole_in_what_was_applied_is_damage_and_stops_the_trim() -> None:
    rig = Rig()
    log_of(rig, 3)
    rig.ledger().forward()
    rig.ledger().trim(0)
    rig.clock.advance(HOUR)
    log_of(rig, 1, start=3)
    rig.ledger().forward()
    rig.store.delete(PATHS.entry(LogNumber(3)))
    with pytest.raises(CorruptionError) as caught:
        rig.ledger().trim(0)
    assert caught.value.key == PATHS.entry(LogNumber(3))
    assert rig.slots() == [1, 2, 4]


def test_marks_are_noted_once_for_each_number_and_thinned_out() -> None:
    rig = Rig()
    log_of(rig, 1)
    rig.ledger().forward()
    first = root(rig)
    assert with_mark(None, StoreTime(5)) == ()
    assert with_mark(first, None) == ()
    assert with_mark(first, StoreTime(5)) == (AppliedMark(1, 5),)
    import msgspec

    many = tuple(AppliedMark(number, number) for number in range(1, MARKS_MAX + 1))
    crowded = msgspec.structs.replace(first, applied=MARKS_MAX + 1, marks=many)
    thinned = with_mark(crowded, StoreTime(999))
    assert len(thinned) < MARKS_MAX
    assert thinned[-1] == AppliedMark(MARKS_MAX + 1, 999)
    assert list(thinned) == sorted(thinned, key=lambda mark: mark.number)
    assert set(thinned[:-1]) <= set(many)
    again = msgspec.structs.replace(crowded, applied=MARKS_MAX)
    assert with_mark(again, StoreTime(999)) == many


def test_a_conflict_is_no_error_of_the_caller() -> None:
    """Somebody else swapped the root: they, or the next run, will trim."""
    rig = Rig()
    log_of(rig, 1)
    rig.ledger().forward()
    store = HookStore(rig.store)

    def refuse(verb: str, key: str) -> None:
        if verb == "put":
            rig.ledger().trim(0)
            raise ConflictError(key)

    store.before = refuse
    assert rig.ledger(store).trim(0) == 0


MODEL = b'{"Thing":{"path":"@things/(id:any)/[thing].json"}}'


@pytest.mark.parametrize(
    ("kept", "floor", "left"), [(True, 0, [1, 2, 3, 4]), (True, 2, [3, 4]), (True, 9, []), (False, 0, [])]
)
def test_what_is_not_in_readable_files_yet_stays(kept: bool, floor: int, left: list[int]) -> None:
    rig = Rig()
    events = (SchemaChanged(definition=MODEL), FilesSwitched(enabled=kept, name="things/"))
    rig.ledger().commit(rig.batch(save("x", n=0), events=events))
    log_of(rig, 3)
    rig.ledger().forward()
    rig.ledger().trim(0)
    rig.clock.advance(HOUR)
    ledger = rig.ledger(trim_floor=lambda collection: LogNumber(floor))
    assert ledger.trim(0) == 4 - len(left)
    assert rig.slots() == left
    assert root(rig).trimmed == 4 - len(left)
    assert contents(rig.ledger().view()) == contents(ledger.view())


def test_the_log_since_the_opening_of_a_job_stays_while_it_is_open() -> None:
    """The job is checked against it when it is attached, and its age is that of its entry."""
    rig = Rig()
    log_of(rig, 2)
    job = WriteId("1" * 32)
    rig.ledger().commit(Pending("2" * 32, events=(JobOpened(job=job, kind="batch", base=2),)))
    log_of(rig, 2, start=2)
    rig.ledger().forward()
    rig.ledger().trim(0)
    rig.clock.advance(2 * HOUR)
    rig.ledger().trim(0)
    assert rig.slots() == [3, 4, 5]
    rig.ledger().commit(Pending("3" * 32, events=(JobAborted(job=job, reason="it was enough"),)))
    rig.ledger().forward()
    rig.ledger().trim(0)
    assert rig.slots() == [6]
