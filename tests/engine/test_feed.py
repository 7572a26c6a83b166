from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.engine.rig import PATHS, HookStore, Rig, TimedStore, save
from wormdb.errors import SnapshotTooOldError
from wormdb.settings import KNOWLEDGE_MS_MAX
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from wormdb.engine.feed import Feed


def numbers(feed: Feed) -> list[int]:
    return [record.number for record in feed.poll()]


def trimmed(rig: Rig, count: int) -> None:
    worker = rig.ledger()
    for number in range(count):
        worker.commit(rig.batch(save("x", n=number)))
    worker.forward()
    worker.trim(0)
    rig.clock.advance(7_200)
    assert worker.trim(0) == count


def test_every_entry_comes_once_and_in_order() -> None:
    rig = Rig()
    digest = rig.fill(5)
    feed = rig.ledger().feed(LogNumber(0))
    assert numbers(feed) == [1, 2, 3, 4, 5]
    assert numbers(feed) == []
    rig.fill(3, start=6, previous=digest)
    assert numbers(feed) == [6, 7, 8]


def test_a_feed_begins_behind_a_number() -> None:
    rig = Rig()
    rig.fill(5)
    assert numbers(rig.ledger().feed(LogNumber(3))) == [4, 5]
    assert numbers(rig.ledger().feed(LogNumber(5))) == []


def test_a_feed_that_is_left_in_the_middle_goes_on_there() -> None:
    rig = Rig()
    rig.fill(9)
    feed = rig.ledger().feed(LogNumber(0))
    for record in feed.poll():
        if record.number == 5:
            break
    assert numbers(feed) == [6, 7, 8, 9]


def test_an_idle_poll_is_one_request_and_the_root_is_read_first_and_after_a_minute() -> None:
    rig = Rig()
    store = rig.counted()
    feed = rig.ledger(store).feed(LogNumber(0))

    def poll() -> list[str]:
        before = store.requests
        assert numbers(feed) == []
        return ["root" if trace.key == PATHS.root else "slot" for trace in store.trace[before:]]

    assert poll() == ["slot", "root"]
    assert poll() == ["slot"]
    rig.clock.advance(KNOWLEDGE_MS_MAX / 1000 + 1)
    assert poll() == ["slot", "root"]
    assert poll() == ["slot"]


def test_a_store_without_times_costs_the_root_each_time() -> None:
    rig = Rig()
    store = rig.counted()
    timeless = TimedStore(store, lambda: None)
    feed = rig.ledger(timeless).feed(LogNumber(0))
    numbers(feed)
    before = store.requests
    assert numbers(feed) == []
    assert store.requests - before == 2


def test_entries_that_were_trimmed_unseen_are_told() -> None:
    rig = Rig()
    trimmed(rig, 4)
    with pytest.raises(SnapshotTooOldError, match="entries up to 4 have been trimmed") as caught:
        numbers(rig.ledger().feed(LogNumber(2)))
    assert "things/" in str(caught.value)
    assert numbers(rig.ledger().feed(LogNumber(4))) == []


def test_a_feed_that_slept_while_entries_were_trimmed_is_told_and_not_given_what_lies_there() -> None:
    rig = Rig()
    feed = rig.ledger().feed(LogNumber(0))
    assert numbers(feed) == []
    trimmed(rig, 4)
    rig.fill(1)
    with pytest.raises(SnapshotTooOldError):
        numbers(feed)


def test_a_slow_consumer_is_told_too() -> None:
    """It takes hours for one entry, and the next ones go meanwhile."""
    rig = Rig()
    worker = rig.ledger()
    for number in range(6):
        worker.commit(rig.batch(save("x", n=number)))
    poll = rig.ledger().feed(LogNumber(0)).poll()
    assert next(poll).number == 1
    worker.forward()
    worker.trim(0)
    rig.clock.advance(7_200)
    worker.trim(0)
    with pytest.raises(SnapshotTooOldError):
        list(poll)


@pytest.mark.parametrize("slot", [2, 3, 4, 5, 6])
def test_a_feed_that_is_overtaken_by_a_trim_is_told_and_never_just_ends(slot: int) -> None:
    """The entries it reads were applied long ago, so the next ones may go between two of its requests."""
    rig = Rig()
    worker = rig.ledger()
    for number in range(6):
        worker.commit(rig.batch(save("x", n=number)))
    worker.forward()
    worker.trim(0)
    rig.clock.advance(7_200)
    store = HookStore(rig.store)

    def trim(verb: str, key: str) -> None:
        if key == PATHS.entry(LogNumber(slot)):
            store.before = None
            assert worker.trim(0) == 6

    store.before = trim
    feed = rig.ledger(store).feed(LogNumber(0))
    with pytest.raises(SnapshotTooOldError):
        list(map(numbers, [feed] * 3))
