"""Moments: which changes had been made by then, which blocks may have some, and how they are shown."""

from __future__ import annotations

import msgspec
import pytest

from tests.engine.past_rig import Bench
from tests.engine.rig import Rig, insert, remove, save
from tests.engine.stage_rig import MANUAL
from wormdb.engine.moments import AsOf, check_begun, view_at
from wormdb.errors import InvalidRequestError, SnapshotTooOldError

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
