"""Who lives, for somebody who did not look for a while: what is news for it may be the last words of the dead."""

from __future__ import annotations

import pytest

from tests.service.service_rig import Rig, live
from wormdb.engine.peers import Peers
from wormdb.service.pace import Pace

INTERVAL = 5.0
ALWAYS_BUSY = Pace(idle_factor=1)


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.mark.parametrize("silence", [0.0, 9.0, 14.0, 16.0, 60.0])
def test_a_heartbeat_that_changed_is_as_old_as_the_store_says(rig: Rig, silence: float) -> None:
    node = rig.started(pace=ALWAYS_BUSY)
    peers = Peers(rig.store, rig.clock)
    peers.look()
    rig.clock.advance(INTERVAL)
    node.beat()
    rig.clock.advance(silence)
    peers.look()
    assert peers.live() == ((0,) if silence < 3 * INTERVAL else ())
    rig.clock.advance(3 * INTERVAL - silence)
    assert peers.live() == ()


def test_what_changed_is_not_older_than_what_was_there_before(rig: Rig) -> None:
    """Whatever the store says of times: a store may set its clock too."""
    node = rig.started(pace=ALWAYS_BUSY)
    peers = Peers(rig.store, rig.clock)
    rig.clock.advance(INTERVAL)
    peers.look()
    before = peers.known()[0]
    node.beat()
    rig.clock.jump(3600)
    peers.look()
    after = peers.known()[0]
    assert after.version != before.version
    assert after.changed == before.changed


def test_a_node_that_waited_for_its_id_does_not_count_on_who_died_meanwhile(rig: Rig) -> None:
    one, two = rig.started(pace=ALWAYS_BUSY), rig.started(3, pace=ALWAYS_BUSY)
    live(rig, 2 * INTERVAL, one)
    rig.clock.advance(0.5)
    two.beat()
    waiting = rig.node(3, pace=ALWAYS_BUSY)
    sleep, is_first = rig.clock.sleep, True

    def sleep_after_one_more_heartbeat(seconds: float) -> None:
        nonlocal is_first
        sleep(seconds)
        if is_first:
            rig.clock.advance(INTERVAL)
            one.beat()
        is_first = False

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rig.clock, "sleep", sleep_after_one_more_heartbeat)
        waiting.start()
    live(rig, 2 * INTERVAL, waiting)
    for _ in range(14):
        assert waiting.ring() == (3,)
        live(rig, INTERVAL, waiting)


def test_a_node_that_waited_for_its_id_counts_on_who_lives(rig: Rig) -> None:
    one, _ = rig.started(pace=ALWAYS_BUSY), rig.started(3, pace=ALWAYS_BUSY)
    waiting = rig.node(3, pace=ALWAYS_BUSY)
    sleep = rig.clock.sleep

    def sleep_and_beat(seconds: float) -> None:
        sleep(seconds)
        one.beat()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rig.clock, "sleep", sleep_and_beat)
        waiting.start()
    waiting.work()
    assert waiting.ring() == (0, 3)


def test_a_node_that_slept_lists_the_others_and_one_that_did_not_reads_them(rig: Rig) -> None:
    one, two = rig.started(pace=ALWAYS_BUSY), rig.started(pace=ALWAYS_BUSY)
    live(rig, 61, one, two)
    assert one.ring() == two.ring() == (0, 1)
    before = two.database.cost().lists
    live(rig, 3 * INTERVAL, one, two)
    assert two.database.cost().lists == before
    live(rig, 2 * INTERVAL, one)
    rig.clock.advance(3 * INTERVAL)
    two.work()
    assert two.ring() == (1,)
    assert two.database.cost().lists == before + 1
