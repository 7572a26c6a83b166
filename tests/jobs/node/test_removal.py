"""Nodes and removals: they show what they have seen, and finish a purge that broke off."""

from __future__ import annotations

import pytest

from tests.jobs.node.rig import Rig, live
from wormdb.engine.log.paths import EnginePaths
from wormdb.errors import BarrierError
from wormdb.format.root import Root, decode_root
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash

HOUR = 3_600
PATHS = EnginePaths.of_collection("things/")


def filled(rig: Rig) -> None:
    things = rig.database()["things"]
    things.insert_many([{"id": f"t{number}"} for number in range(5)])
    things.forward()
    things.insert({"id": "later"})


def entries(rig: Rig) -> list[str]:
    return [info.key for page in rig.store.list(PATHS.entries) for info in page.objects]


def root_of(rig: Rig) -> Root:
    return decode_root(rig.store.get(PATHS.root).body, name="root", path="things/")


def test_the_barrier_holds_until_a_minute_is_over_and_every_node_shows_the_entry() -> None:
    rig = Rig()
    filled(rig)
    one, two = rig.started(), rig.started()
    live(rig, 30, one, two)
    removal = rig.database().removal("things")
    number = removal.remove()
    with pytest.raises(BarrierError, match="0 s ago"):
        removal.check_barrier()
    rig.clock.advance(61)
    one.beat()
    two.beat()
    with pytest.raises(BarrierError, match=rf"node \d has not shown entry {number} yet"):
        removal.check_barrier()
    live(rig, 200, one, two)
    removal.check_barrier()
    for node in (one, two):
        (shown,) = [each for each in node.watchlist.written(rig.clock.monotonic()) if each.collection == "things/"]
        assert (shown.number, shown.removed, shown.error) == (number, True, "")
    assert removal.is_removed()
    assert removal.purge().number == number


def test_a_node_shows_a_removal_with_the_next_look_at_its_heart() -> None:
    rig = Rig()
    filled(rig)
    node = rig.started()
    live(rig, 30, node)
    rig.database().removal("things").remove()
    (watched,) = [each for each in node.watchlist.known.values() if each.prefix == "things/"]
    node._workload.round(watched, with_upkeep=False)
    before = node.beats
    node.beat()
    node.beat()
    assert node.beats == before + 1


def test_a_node_purges_nothing_that_was_only_removed() -> None:
    rig = Rig()
    filled(rig)
    before = len(entries(rig))
    node = rig.started()
    live(rig, 30, node)
    rig.database().removal("things").remove()
    live(rig, 5 * HOUR, node)
    assert len(entries(rig)) == before + 1
    assert rig.database().removal("things").is_removed()


@pytest.mark.parametrize("is_known", [True, False])
def test_a_node_finishes_a_purge_that_broke_off_and_deletes_the_last_entries(is_known: bool) -> None:
    rig = Rig()
    filled(rig)
    node = rig.started() if is_known else None
    if node is not None:
        live(rig, 30, node)
    rig.database().removal("things").remove()
    root = root_of(rig)
    for number in range(1, 40):
        if root.closed is not None:
            break
        store = FaultStore(rig.store, {number: Fault.CRASH_BEFORE})
        with pytest.raises(SimulatedCrash):
            rig.database(store=store).removal("things").purge()
        root = root_of(rig)
    assert root.closed is not None
    node = node or rig.started()
    live(rig, 3 * HOUR, node)
    found = root_of(rig)
    assert (found.closed, found.removed, found.removed_at) == (None, root.applied, None)
    assert entries(rig) == []
    assert rig.database().collections() == []
    assert rig.database()["things"].insert({"id": "new"}).rev == root.applied + 1
    live(rig, HOUR, node)
    assert rig.database()["things"].parquet_files().lag_entries == 0
