"""The log by numbers and places: what any part gives is that part of the whole, for small and for attached batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.rig import PATHS, Rig, entry_at, insert, remove, save
from wormdb.engine import feed as feed_parts
from wormdb.engine.blocks import fetch as blockfetch
from wormdb.engine.commit import pinned
from wormdb.engine.feed import places_of
from wormdb.engine.forward.forward import Sizes
from wormdb.engine.history import read as past_reader
from wormdb.errors import SnapshotTooOldError
from wormdb.format import block
from wormdb.format.past import operation_of
from wormdb.storage.store import IfAbsent
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from wormdb.engine.ledger import Ledger


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups of a few rows, none of them in a block that is read whole, and few look-ups."""
    monkeypatch.setattr(block, "_GROUP_ROWS", 8)
    monkeypatch.setattr(blockfetch, "BLOCK_WHOLE_BYTES", 0)
    monkeypatch.setattr(feed_parts, "ROWS_AT_ONCE", 10)
    monkeypatch.setattr(past_reader, "LOOK_UPS_MAX", 3)


def filled(rig: Rig) -> Ledger:
    """Three small entries, and two jobs: one of new documents, one that replaces and deletes some."""
    ledger = rig.ledger(sizes=Sizes(block_target=2_000), stage_bytes=500)
    ledger.commit(rig.batch(insert("k10", n=-1), insert("k11", n=-2)))
    ledger.commit(rig.batch(*(save(f"k{n:02}", n=n, pad="p" * 50) for n in range(60))))
    ledger.commit(rig.batch(remove("k12")))
    ledger.forward()
    later = [save(f"k{n:02}", n=-n, pad="q" * 50) for n in range(8, 30)]
    ledger.commit(rig.batch(*later, remove("k40"), actor="ann"))
    return ledger


def told(ledger: Ledger) -> list[list[tuple[Any, ...]]]:
    """Of each entry what the feed tells of its changes."""
    feed = ledger.feed(LogNumber(0))
    return [[_shown(batch, change) for batch, change in feed.changes(record)] for record in feed.poll()]


def _shown(batch: Any, change: Any) -> tuple[Any, ...]:
    return batch.actor, operation_of(change), change.id, change.seq, change.before, change.after


def test_parts_are_parts_of_what_the_feed_tells() -> None:
    ledger = filled(Rig())
    whole = told(ledger)
    assert [len(changes) for changes in whole] == [2, 0, 60, 1, 0, 23]

    @settings(max_examples=60)
    @given(st.integers(0, 5), st.integers(0, 70), st.integers(0, 70))
    def check(entry: int, start: int, size: int) -> None:
        parts = ledger.feed_parts()
        record = parts.record(entry + 1)
        found = list(parts.changes(record, start, min(start + size, places_of(record))))
        assert places_of(record) == len(whole[entry])
        assert [_shown(batch, change) for _, batch, change in found] == whole[entry][start : start + size]
        assert [place for place, _, _ in found] == list(range(start, start + len(found)))

    check()
    parts = ledger.feed_parts()
    assert [record.number for record in parts.records(1, 5)] == [2, 3, 4, 5]
    everything = [[_shown(b, c) for _, b, c in parts.changes(record)] for record in parts.records(0, 6)]
    assert everything == whole


def test_nobody_looks_for_what_was_before_if_nobody_wants_it() -> None:
    rig = Rig()
    filled(rig)
    store = rig.counted()
    ledger = rig.ledger(store)
    parts = ledger.feed_parts()
    found = [change.before for _, _, change in parts.changes(parts.record(6), with_before=False)]
    assert found == [None] * 23
    assert not [request for request in store.trace if "history" in str(request)]
    assert [change.before for _, _, change in parts.changes(parts.record(6))] != found
    assert [request for request in store.trace if "history" in str(request)]


def test_an_entry_that_is_gone_is_named() -> None:
    rig = Rig()
    ledger = filled(rig)
    with pytest.raises(SnapshotTooOldError, match=r"entry 7 of the log of .*it has been removed"):
        ledger.feed_parts().record(7)
    ledger.forward()
    ledger.trim(0)
    rig.clock.advance(7_200)
    ledger.trim(0)
    with pytest.raises(SnapshotTooOldError, match=r"entry 1 of the log of .*up to 6 have been trimmed"):
        list(ledger.feed_parts().records(0, 6))


def test_a_late_write_in_a_trimmed_slot_is_no_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """However the log is read by numbers: by parts, for a state that was pinned, and for a job that catches up."""
    monkeypatch.setattr(pinned, "ENTRIES_BYTES_MAX", 0)
    rig = Rig()
    ledger = rig.ledger()
    ledger.commit(rig.batch(save("a")))
    ledger.forward()
    ledger.commit(rig.batch(save("b")))
    sent, first = ledger.pin(ledger.view()), rig.log.read(LogNumber(1))[0]
    assert first is not None
    ledger.forward()
    ledger.trim(0)
    rig.clock.advance(7_200)
    assert ledger.trim(0) == 2
    rig.store.put(PATHS.entry(LogNumber(2)), entry_at(2, first.hash), IfAbsent())
    for read in (
        lambda: ledger.feed_parts().record(2),
        lambda: list(ledger.feed_parts().records(1, 2)),
        lambda: rig.ledger().unpin(sent),
    ):
        with pytest.raises(SnapshotTooOldError, match="trimmed"):
            read()
    assert ledger.entries(LogNumber(1), LogNumber(2)) is None
