"""Moments: which changes had been made by then, which blocks may have some, and how they are shown."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.bulk.stage_rig import MANUAL
from tests.engine.history.rig import Bench
from tests.engine.rig import Rig, insert, remove, save
from wormdb.engine.log.clock import MiscClock
from wormdb.engine.state.moments import AsOf, check_begun, following_dates, view_at
from wormdb.errors import InvalidRequestError, SnapshotTooOldError
from wormdb.format.entry import Entry
from wormdb.format.past import misc_ms
from wormdb.format.root import DateCorrection, Root
from wormdb.settings import DATED_MAX
from wormdb.system.clock import ManualClock
from wormdb.system.types import Misc, WriteId

SECOND = 1_700_000_000_000


def misc(ms: int, us: int = 0) -> int:
    return (ms * 1000 + us) << 8 | 255


def test_a_time_has_all_of_its_millisecond() -> None:
    as_of = AsOf.time(SECOND, now_ms=SECOND)
    assert as_of.has(99, misc(SECOND, 999))
    assert not as_of.has(1, misc(SECOND + 1))


def test_a_number_has_its_own_entry() -> None:
    assert AsOf.number(7).has(7, misc(SECOND))
    assert not AsOf.number(7).has(8, 0)


def test_a_moment_shows_itself() -> None:
    assert str(AsOf.number(7)) == "entry 7"
    assert str(AsOf.time(SECOND + 5, now_ms=SECOND)) == "2023-11-14T22:13:20.005Z"
    assert str(AsOf.time(10**18, now_ms=SECOND)) == f"{10**18} ms"


def test_a_time_that_no_calendar_has_is_refused_as_any_other() -> None:
    bench = Bench()
    bench.write("x", "put")
    for forwarded in (False, True):
        if forwarded:
            bench.forward()
        with pytest.raises(InvalidRequestError, match="in the future"):
            view_at(bench.view(), AsOf.time(10**18, now_ms=SECOND))
        assert view_at(bench.view(), AsOf.time(-(10**18), now_ms=SECOND)) is None
    with pytest.raises(
        SnapshotTooOldError, match=r"-1000000000000000000 ms: history begins at 2023-11-14T22:13:20\.000Z"
    ):
        check_begun(AsOf.time(-(10**18), now_ms=SECOND), SECOND)


@pytest.mark.parametrize("stage_bytes", [1, 10**9])
def test_an_earlier_view_has_as_many_documents_as_there_were(stage_bytes: int) -> None:
    rig = Rig()
    ledger = rig.ledger(limits=MANUAL, stage_bytes=stage_bytes)
    for operations in ([insert(1), insert(2)], [insert(3)], [remove(1), remove(2)], [save(3, n=1), save(4)]):
        ledger.commit(rig.batch(*operations))
    view = ledger.view()
    assert view.overlay.attached(view.number) or stage_bytes > 1
    for number in range(view.base_number, view.number + 1):
        then = view_at(view, AsOf.number(number))
        assert then is not None
        assert then.count == sum(held.document is not None for _, held in then.scan())


def test_a_root_newer_than_the_next_entry_hides_nothing() -> None:
    """The next writer's clock may be behind the one of whoever wrote the root."""
    bench = Bench()
    bench.write("x", "put")
    behind = bench.misc.next()
    bench.clock.advance(5)
    bench.forward()
    entry = bench.log[0]
    bench.log.append(msgspec.structs.replace(entry, number=2, misc=behind))
    then = (behind >> 8) // 1000
    assert bench.root is not None
    assert bench.root.misc > behind
    view = view_at(bench.view(), AsOf.time(then, now_ms=bench.clock.now_ms()))
    assert view is not None
    assert view.number == 2


# --- clocks that were ahead ---

MINUTES = st.integers(-20, 20).map(lambda days: days * 1_440) | st.integers(-150, 150)
"""By how much a clock is wrong: by days, or by about as much as is still followed."""
ACTS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["entry", "entry", "root"]), MINUTES, st.integers(0, 5_000)),
    min_size=1,
    max_size=12,
)


@given(ACTS)
def test_the_state_at_a_time_is_that_after_the_last_entry_made_by_then(acts: list[tuple[int, str, int, int]]) -> None:
    """Processes whose clocks are set by days write entries and roots; each knows all that is there."""
    clocks = [ManualClock() for _ in range(3)]
    writers = [MiscClock(clock) for clock in clocks]
    entries: list[Entry] = []
    root = None
    roots: list[Root] = []
    for number, act, minutes, passed_ms in acts:
        for clock in clocks:
            clock.advance(passed_ms / 1000)
        clocks[number].jump(minutes * 60 - (clocks[number].now_ms() - SECOND) / 1000)
        for seen in [*(each.misc for each in entries), *(each.misc for each in roots[-1:])]:
            writers[number].observe(Misc(seen))
        made = writers[number].next()
        if act == "entry":
            entries.append(bench_entry(len(entries) + 1, made))
        else:
            applied = 0 if root is None else root.applied
            dated = following_dates(root, entries[applied:], len(entries), made)
            root = bench_root(len(entries), made, dated, entries[-1].misc if entries else 0)
            roots.append(root)
    tail = entries[0 if root is None else root.applied :]
    view: Any = SimpleNamespace(
        number=len(entries),
        overlay=SimpleNamespace(entries=lambda _: tail),
        place=None if root is None else SimpleNamespace(root=root),
    )
    view.bare = view
    told = [*(each.misc for each in entries), *(each.misc for each in roots)]
    for ms in {misc_ms(each) + step for each in told for step in (-1, 0, 1)}:
        expected = [each.number for each in entries if misc_ms(each.misc) <= ms]
        expected += [each.applied for each in roots if misc_ms(each.misc) <= ms]
        as_of = AsOf.time(ms, now_ms=ms).over(view)
        there = [each.number for each in entries if as_of.has(each.number, each.misc)]
        assert there == list(range(1, max(expected, default=0) + 1))


def test_dates_stay_few() -> None:
    root = bench_root(0, misc(SECOND), ())
    for number in range(1, 2 * DATED_MAX):
        entry = bench_entry(number, misc(SECOND + 10**9 + number))
        root = bench_root(number, misc(SECOND + number), following_dates(root, [entry], number, misc(SECOND + number)))
    assert len(root.dated) == DATED_MAX
    assert root.dated[-1] == DateCorrection(2 * DATED_MAX - 1, SECOND + 2 * DATED_MAX - 1)
    lower = following_dates(root, (), root.applied, misc(SECOND))
    assert lower == (DateCorrection(root.applied, SECOND),), "one that says more makes others needless"


def bench_entry(number: int, made: int) -> Entry:
    return Entry(number=number, write_id=WriteId("0" * 32), misc=made, node=0, previous=bytes(32), batches=())


def bench_root(applied: int, made: int, dated: tuple[DateCorrection, ...], entered: int = 0) -> Root:
    return Root(
        path="t/",
        collection=WriteId("0" * 32),
        revision=1,
        write_id=WriteId("0" * 32),
        misc=made,
        applied=applied,
        hash_applied=bytes(32),
        hash_trimmed=bytes(32),
        definition=b"",
        dated=dated,
        entered=entered,
    )
