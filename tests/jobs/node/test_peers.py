"""Who lives, for somebody who did not look for a while: what is news for it may be the last words of the dead."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeVar

import pytest

from tests.jobs.node.rig import Rig, live
from wormdb.engine.log.paths import NODES_FOLDER, node_key
from wormdb.engine.log.peers import Peers
from wormdb.jobs.node.pace import Pace
from wormdb.storage.store import WrappedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.storage.store import ListPage, ObjectInfo, Probe, Store

T = TypeVar("T")

INTERVAL = 5.0
ALWAYS_BUSY = Pace(idle_factor=1)


class Stopping(WrappedStore):
    """The process that asks for heartbeats is stopped right before or after one of its requests."""

    def __init__(self, inner: Store, stop: Callable[[], None], *, lists_versions: bool = True) -> None:
        super().__init__(inner)
        self.stops_at: tuple[int, Literal["before", "after"]] = (0, "before")
        """At which request from now on; 0 for none."""
        self.stopped = 0
        self._stop = stop
        self._lists_versions = lists_versions

    def _request(self, key: str, request: Callable[[], T]) -> T:
        if not key.startswith(NODES_FOLDER):
            return request()
        number, moment = self.stops_at
        self.stops_at = (number - 1, moment)
        self._stop_if(number == 1 and moment == "before")
        answer = request()
        self._stop_if(number == 1 and moment == "after")
        return answer

    def _stop_if(self, is_now: bool) -> None:
        if is_now:
            self.stopped += 1
            self._stop()

    def probe(self, key: str) -> Probe:
        return self._request(key, lambda: self._inner.probe(key))

    def head(self, key: str) -> ObjectInfo:
        return self._request(key, lambda: self._inner.head(key))

    def list(
        self, prefix: str = "", *, after: str | None = None, delimiter: Literal["/"] | None = None
    ) -> Iterator[ListPage]:
        for page in self._request(prefix, lambda: list(self._inner.list(prefix, after=after, delimiter=delimiter))):
            objects = page.objects
            if not self._lists_versions:
                objects = tuple(replace(info, version=None) for info in objects)
            yield replace(page, objects=objects)


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


@pytest.mark.parametrize("lists_versions", [True, False])
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", range(1, 6))
@pytest.mark.parametrize("way", ["look", "follow"])
def test_a_process_that_is_stopped_at_any_request_takes_no_last_words_for_news(
    rig: Rig, way: str, number: int, moment: Literal["before", "after"], lists_versions: bool
) -> None:
    nodes = [rig.started(pace=ALWAYS_BUSY) for _ in range(3)]

    def stop() -> None:
        """All beat once more, and only the last one lives."""
        for beats in (nodes, *[nodes[2:]] * 11):
            rig.clock.advance(INTERVAL)
            for node in beats:
                node.beat()

    store = Stopping(rig.store, stop, lists_versions=lists_versions)
    peers = Peers(store, rig.clock)
    peers.look()
    rig.clock.advance(INTERVAL)
    for node in nodes:
        node.beat()
    store.stops_at = (number, moment)
    if way == "look":
        peers.look()
    else:
        peers.follow(2 * INTERVAL)
    if not store.stopped:
        assert number > len(nodes) + (way == "look")  # it was asked for each of them
        assert peers.live() == (0, 1, 2)
        return
    # The one that lives is not seen where it was asked for before the stop; where it was seen, it lives.
    known, there = peers.known()[2], rig.store.head(node_key(2))
    assert peers.live() == ((2,) if known.version == there.version else ())
    peers.look()
    assert peers.live() == (2,)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_node_that_is_stopped_while_it_follows_another_does_not_count_on_its_last_words(
    rig: Rig, moment: Literal["before", "after"]
) -> None:
    one = rig.started(pace=ALWAYS_BUSY)

    def stop() -> None:
        rig.clock.advance(INTERVAL)
        one.beat()
        rig.clock.advance(11 * INTERVAL)

    store = Stopping(rig.store, stop)
    two = rig.node(pace=ALWAYS_BUSY, store=store)
    two.start()
    live(rig, 61, one, two)
    lists = two.database.cost().lists
    rig.clock.advance(INTERVAL)
    one.beat()
    store.stops_at = (1, moment)
    two.work()
    assert store.stopped
    assert two.database.cost().lists == lists  # it was about to follow, not to list
    assert two.ring() == (1,)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("lists_versions", [True, False])
def test_a_process_that_is_stopped_while_it_chooses_an_id_takes_none_from_a_node_that_lives(
    rig: Rig, number: int, lists_versions: bool
) -> None:
    one = rig.started(pace=ALWAYS_BUSY)

    def stop() -> None:
        for _ in range(12):
            rig.clock.advance(INTERVAL)
            one.beat()

    store = Stopping(rig.store, stop, lists_versions=lists_versions)
    store.stops_at = (number, "before")
    two = rig.node(pace=ALWAYS_BUSY, store=store)
    two.start()
    assert store.stopped
    assert (one.id, two.id) == (0, 1)
    live(rig, 2 * INTERVAL, one, two)
    assert one.lost is None
