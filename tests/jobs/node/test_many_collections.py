"""One node with many collections: idle ones cost next to nothing, and no call of `work` takes long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.jobs.node.rig import Rig, live
from wormdb.jobs.node.pace import Pace
from wormdb.jobs.node.watchlist import Watchlist
from wormdb.storage.store import WrappedStore

if TYPE_CHECKING:
    from wormdb.jobs.node.node import Node
    from wormdb.storage.store import Precondition, Probe, PutResult, Store
    from wormdb.system.clock import ManualClock

MANY = 120
REQUEST_SECONDS = 0.05


class Distant(WrappedStore):
    """Every look at an object and every write takes a while."""

    def __init__(self, inner: Store, clock: ManualClock) -> None:
        super().__init__(inner)
        self._clock = clock

    def probe(self, key: str) -> Probe:
        self._clock.advance(REQUEST_SECONDS)
        return super().probe(key)

    def put(
        self,
        key: str,
        body: bytes,
        precondition: Precondition | None = None,
        *,
        content_type: str = "application/octet-stream",
    ) -> PutResult:
        self._clock.advance(REQUEST_SECONDS)
        return super().put(key, body, precondition, content_type=content_type)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def filled(rig: Rig, count: int, *, is_settled: bool) -> None:
    database = rig.database()
    for number in range(count):
        collection = database[f"org/c{number:04}"]
        collection.insert({"id": "x"})
        if is_settled:
            collection.forward()


def test_a_first_look_at_settled_collections_is_three_requests_each(rig: Rig) -> None:
    filled(rig, MANY, is_settled=True)
    node = rig.started()
    before = node.database.cost()
    node.work()
    used = node.database.cost() - before
    # A LIST to find it, its root and the slot behind it; beside them the search of the folders above, and one upkeep.
    assert used.lists <= MANY + 10
    assert used.gets <= 2 * MANY + 20
    assert used.puts <= 1
    assert not [each for each in node.watchlist.known.values() if each.is_hot]
    # What is idle takes no memory but its name.
    assert len(node.database._ledgers.opened()) <= 2


def test_what_has_entries_is_brought_forward_among_many_that_have_none(rig: Rig) -> None:
    filled(rig, MANY, is_settled=True)
    rig.database()["org/c0045"].insert({"id": "y"})
    node = rig.started()
    live(rig, 10, node)
    assert node.watchlist.known["org/c0045/"].rounds == 1
    assert node.watchlist.known["org/c0045/"].number == 2


def test_the_first_upkeep_of_many_is_spread(rig: Rig) -> None:
    filled(rig, MANY, is_settled=True)
    node = rig.started()
    live(rig, 60, node)
    kept_up = [each for each in node.watchlist.known.values() if each.rounds]
    assert 0 < len(kept_up) <= 62
    live(rig, MANY + 60, node)
    assert all(each.rounds for each in node.watchlist.known.values())


def test_a_call_ends_after_an_interval_and_none_is_left_out(rig: Rig) -> None:
    filled(rig, 100, is_settled=False)
    node = rig.node(store=Distant(rig.store, rig.clock))
    node.start()
    longest, calls = 0.0, 0
    while any(each.rounds == 0 for each in node.watchlist.known.values()) or not calls:
        began = rig.clock.monotonic()
        node.work()
        longest = max(longest, rig.clock.monotonic() - began)
        node.beat()
        rig.clock.advance(0.01)
        calls += 1
        assert calls < 100
        rounds = [each.rounds for each in node.watchlist.known.values()]
        assert max(rounds) - min(rounds) <= 1  # nobody has a second turn before all have had one
    assert calls > 1
    survey = 2 * 100 * REQUEST_SECONDS
    assert longest <= survey + node.pace.interval + 30 * REQUEST_SECONDS


def test_names_are_taken_in_at_once() -> None:
    watchlist = Watchlist(Pace())
    before = watchlist.known
    watchlist.add(f"c{number:05}/" for number in reversed(range(20_000)))
    assert list(watchlist.known) == sorted(watchlist.known)
    assert len(watchlist.known) == 20_000
    assert before == {}
    same = watchlist.known
    watchlist.add(["c00001/"])
    assert watchlist.known is same


def test_a_failed_look_is_kept_with_its_collection(rig: Rig) -> None:
    filled(rig, 40, is_settled=True)
    rig.store.put("org/c0007/.worm.db/block0", b"no root")
    node: Node = rig.started()
    live(rig, 5, node)
    failing = {each.prefix for each in node.watchlist.known.values() if each.error}
    assert failing == {"org/c0007/"}
