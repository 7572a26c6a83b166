"""One client whose clock is ahead: it is told so by a server, and others do not go on from its time."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.jobs.node.rig import Skewed
from wormdb.api.database import Database
from wormdb.errors import UnavailableError
from wormdb.format.wrappers import moment
from wormdb.settings import Settings
from wormdb.storage.folder.store import LocalStore
from wormdb.storage.memory import MemoryStore
from wormdb.storage.meter import MeteredStore
from wormdb.storage.pool import SerialPool
from wormdb.system.clock import ManualClock, SeededChance

if TYPE_CHECKING:
    from pathlib import Path

    from wormdb.storage.store import Store
    from wormdb.system.clock import Clock

DAY_MS = 86_400_000


def database(store: Store, clock: Clock, seed: int = 1) -> Database:
    return Database(
        MeteredStore(store, clock=clock),
        SerialPool(),
        settings=Settings(forward="manual", forward_interval_ms=0),
        schema=None,
        actor=None,
        clock=clock,
        chance=SeededChance(seed),
    )


@pytest.mark.parametrize("is_warm", [False, True])
def test_a_server_tells_that_a_clock_is_ahead(is_warm: bool) -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    right = database(store, clock)["t"]
    right.insert({"id": "a"})
    wrong = database(store, Skewed(clock, 10 * DAY_MS), 2)["t"]
    if is_warm:
        assert wrong.count() == 1
    with pytest.raises(UnavailableError, match=r"864000 s ahead of the store's; nothing was written \(set the clock"):
        wrong.insert({"id": "b"})
    assert [document.id for document in right.find({})] == ["a"]
    assert wrong.find_by_id("a") is not None


@pytest.mark.parametrize("skew_ms", [-3650 * DAY_MS, -DAY_MS, 3_000_000])
def test_a_clock_that_is_behind_or_a_little_ahead_may_write(skew_ms: int) -> None:
    """Nobody's times go back by that."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    right, wrong = database(store, clock)["t"], database(store, Skewed(clock, skew_ms), 2)["t"]
    for number in range(3):
        right.insert({"id": f"r{number}"})
        wrong.insert({"id": f"w{number}"})
    times = [entry.misc for entry in right._access.ledger.view().overlay.entries(right._access.ledger.view().number)]
    assert times == sorted(set(times))


def test_a_process_that_was_suspended_is_not_ahead() -> None:
    """Its monotonic clock stood still, so that it takes the store for late; one look tells."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    things = database(store, clock)["t"]
    things.insert({"id": "a"})
    clock.jump(10 * 3600)
    things.insert({"id": "b"})
    assert things.count() == 2


@pytest.mark.parametrize("forwards", ["nobody", "wrong", "right", "both"])
def test_a_folder_with_entries_of_the_future_heals(tmp_path: Path, forwards: str) -> None:
    """In a folder nobody tells. Entries of others have their own times, and what was acknowledged is there now."""
    clock = ManualClock()
    skewed = Skewed(clock, 3650 * DAY_MS)
    right = database(LocalStore(tmp_path, clock=clock), clock)
    wrong = database(LocalStore(tmp_path, clock=skewed), skewed, 2)
    right["t"].insert({"id": "before", "n": 1})
    wrong["t"].insert({"id": "of the wrong clock", "n": 2})
    if forwards in ("wrong", "both"):
        wrong.forward()
    clock.advance(60)
    right["t"].insert({"id": "mine", "n": 3})
    mine_ms = clock.now_ms()
    clock.advance(60)
    if forwards in ("right", "both"):
        right.forward()
    clock.advance(60)
    for reader in (right["t"], database(LocalStore(tmp_path, clock=clock), clock, 3)["t"]):
        (change,) = reader.get_history("mine")
        assert change.ts == moment(mine_ms)
        now = moment(clock.now_ms())
        assert [document.id for document in reader.scan(as_of=now)] == ["before", "mine", "of the wrong clock"]
        assert reader.find_by_id("mine", as_of=now) is not None
        assert reader.find_by_id("of the wrong clock", as_of=moment(mine_ms)) is not None, "it came before"
        earlier = moment(mine_ms) - timedelta(seconds=1)
        assert [document.id for document in reader.scan(as_of=earlier)] == ["before"]
        assert reader.count(as_of=earlier) == 1
    right.forward()
    assert [finding for verified in right.verify() for finding in verified.findings] == []
