"""Node ids: claimed, kept, lost and taken over, by compare-and-set and the store's own times."""

from __future__ import annotations

import pytest

from tests.jobs.node.rig import Rig, live
from wormdb.engine.log.paths import node_key
from wormdb.engine.log.peers import Peers
from wormdb.errors import ConflictError, InvalidRequestError
from wormdb.format.heartbeat import Heartbeat, decode_heartbeat
from wormdb.jobs.node.claim import remove_node
from wormdb.jobs.node.pace import Pace
from wormdb.storage.conditions import ensure_conditions
from wormdb.system.clock import SeededChance
from wormdb.testing.fault_store import Fault, FaultStore, SimulatedCrash

INTERVAL = 5.0


@pytest.fixture
def rig() -> Rig:
    return Rig()


def heartbeat(rig: Rig, node: int) -> Heartbeat:
    return decode_heartbeat(rig.store.get(node_key(node)).body, name="heartbeat", node=node)


def test_the_lowest_free_id_is_taken(rig: Rig) -> None:
    one, two, three = (rig.started() for _ in range(3))
    assert (one.id, two.id, three.id) == (0, 1, 2)
    two.stop()
    assert rig.started().id == 1


def test_an_id_that_nobody_can_have_is_refused_before_anything_is_written(rig: Rig) -> None:
    with pytest.raises(InvalidRequestError, match="node id 256: it must be an integer between 0 and 255"):
        rig.node(256).start()
    with pytest.raises(InvalidRequestError, match="-1"):
        rig.node(-1).start()
    assert [info for page in rig.store.list(".worm.nodes/") for info in page.objects] == []


def test_a_node_is_not_started_twice(rig: Rig) -> None:
    node = rig.started()
    with pytest.raises(InvalidRequestError, match="it was started before"):
        node.start()


def test_a_heartbeat_says_what_others_need(rig: Rig) -> None:
    node = rig.started(3)
    found = heartbeat(rig, 3)
    assert (found.node, found.sequence, found.state, found.interval_ms) == (3, 1, "running", 5000)
    assert found.incarnation == node.incarnation
    assert found.misc & 255 == 0  # it became node 3 after this one
    assert found.name.startswith("process ")
    rig.clock.advance(INTERVAL)
    node.beat()
    assert heartbeat(rig, 3).misc & 255 == 3
    assert heartbeat(rig, 3).sequence == 2
    node.stop()
    assert heartbeat(rig, 3).state == "stopped"


def test_a_second_process_is_refused_as_soon_as_the_first_beats(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    first = rig.started(3)
    sleep = rig.clock.sleep

    def sleep_and_beat(seconds: float) -> None:
        sleep(seconds)
        first.beat()

    monkeypatch.setattr(rig.clock, "sleep", sleep_and_beat)
    began = rig.clock.monotonic()
    with pytest.raises(ConflictError, match=r"node 3 is in use by process \d+ on .*, incarnation ") as caught:
        rig.node(3).start()
    assert str(first.incarnation)[:8] in str(caught.value)
    assert rig.clock.monotonic() - began <= INTERVAL + 1
    assert first.lost is None


def test_a_dead_node_is_taken_over_after_three_intervals_and_never_comes_back(rig: Rig) -> None:
    first = rig.started(3)
    rig.clock.advance(4.0)
    began = rig.clock.monotonic()
    second = rig.node(3)
    second.start()
    waited = rig.clock.monotonic() - began
    assert 3 * INTERVAL - 4.0 - 1.0 <= waited <= 3 * INTERVAL - 4.0 + 1.0
    assert not first.is_well
    with pytest.raises(ConflictError, match="node 3 is in use by"):
        first.beat()
    assert first.ended.is_set()
    assert first.lost is not None
    first.stop()
    assert heartbeat(rig, 3).incarnation == second.incarnation


@pytest.mark.parametrize("skew_ms", [600_000, -600_000])
def test_the_clocks_of_machines_do_not_matter(rig: Rig, skew_ms: int) -> None:
    first, second = rig.started(), rig.started(skew_ms=skew_ms)
    assert (first.id, second.id) == (0, 1)
    live(rig, 61, first, second)
    assert first.ring() == second.ring() == (0, 1)
    assert abs(second.time.offset_ms - skew_ms) < 1000
    for _ in range(3):
        live(rig, INTERVAL, first, second)
        assert first.has_turn("c/") is not second.has_turn("c/")


def test_a_heartbeat_that_was_removed_ends_its_node(rig: Rig) -> None:
    node = rig.started(7)
    rig.store.delete(node_key(7))
    rig.clock.advance(INTERVAL)
    with pytest.raises(ConflictError, match="node 7 was removed: its heartbeat is gone"):
        node.beat()
    with pytest.raises(InvalidRequestError, match="node 7: it has no heartbeat"):
        remove_node(rig.store, Peers(rig.store, rig.clock), 7)


def test_a_removed_node_stops_and_its_id_is_free_at_once(rig: Rig) -> None:
    node = rig.started(7)
    assert remove_node(rig.store, Peers(rig.store, rig.clock), 7).state == "removed"
    began = rig.clock.monotonic()
    second = rig.started(7)
    assert rig.clock.monotonic() == began
    rig.clock.advance(INTERVAL)
    with pytest.raises(ConflictError, match="node 7 is in use by"):
        node.beat()
    assert second.is_well


def test_an_unreadable_heartbeat_keeps_its_id(rig: Rig) -> None:
    rig.store.put(node_key(0), b"{}")
    rig.store.put(".worm.nodes/notes.txt", b"")
    assert rig.started().id == 1
    with pytest.raises(ConflictError, match="node 0 is in use by an unreadable heartbeat"):
        rig.node(0).start()


@pytest.mark.parametrize("fault", list(Fault))
def test_a_fault_at_any_request_of_a_start_and_some_heartbeats(fault: Fault) -> None:
    """Whatever happens, the newest heartbeat is the node's own or it knows better, and the id can be had again."""
    number, is_reached = 0, True
    while is_reached:
        number += 1
        rig = Rig()
        ensure_conditions(rig.store, SeededChance(0))
        store = FaultStore(rig.store, {number: fault}, late_after=3)
        node = rig.node(5, store=store, pace=Pace(idle_factor=1))
        try:
            node.start()
            for _ in range(4):
                rig.clock.advance(INTERVAL)
                node.beat()
        except SimulatedCrash:
            pass
        except ConflictError:
            assert fault in {Fault.RACE_412, Fault.LANDS_LATE}, number
        else:
            assert node.is_well, (number, fault)
            assert heartbeat(rig, 5).incarnation == node.incarnation
            assert heartbeat(rig, 5).sequence >= 3
        is_reached = store.requests >= number
        if fault is not Fault.RACE_412:  # the rival leaves what nobody can read
            assert rig.started(5).id == 5
    assert number > 5


def test_a_lone_node_always_has_the_turn_and_two_share_it(rig: Rig) -> None:
    one = rig.started()
    names = [f"c{number}/" for number in range(50)]
    assert all(one.has_turn(name) for name in names)
    two = rig.started()
    live(rig, 61, one, two)
    assert one.ring() == two.ring() == (0, 1)
    for _ in range(4):
        turns = [(one.has_turn(name), two.has_turn(name)) for name in names]
        assert all(first is not second for first, second in turns)
        assert 10 <= sum(first for first, _ in turns) <= 40
        before = turns
        live(rig, INTERVAL, one, two)
        assert [one.has_turn(name) for name in names] == [second for _, second in before]


def test_a_node_whose_heartbeats_do_not_get_through_has_no_turn(rig: Rig) -> None:
    one = rig.started()
    rig.clock.advance(3 * INTERVAL + 1)
    assert not one.is_well
    assert not one.has_turn("c/")
    one.beat()
    assert one.has_turn("c/")
