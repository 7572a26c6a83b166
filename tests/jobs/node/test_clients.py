"""Clients that write in the background leave forwarding to services, and only while these do it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.jobs.node.rig import Rig
from wormdb.engine.forward.keeper import LEFT_SECONDS, Background
from wormdb.engine.ledger import Ledger
from wormdb.engine.log.peers import Services
from wormdb.errors import PermissionDeniedError
from wormdb.settings import NODES_LOOK_SECONDS, Settings
from wormdb.storage.store import WrappedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.storage.store import ListPage

FORWARD_ENTRIES = 3
SETTINGS = Settings(forward="manual", forward_interval_ms=0, forward_entries=FORWARD_ENTRIES)


class AtOnce(Background):
    """Work in the background that is done before the caller goes on, so that a test sees it."""

    def submit(self, name: str, work: Callable[[], object]) -> None:
        assert name == "a/"
        work()


class Client:
    """A process on a cloud store: it forwards in the background."""

    def __init__(self, rig: Rig) -> None:
        database = rig.database(SETTINGS)
        runtime = database._ledgers.runtime
        background = AtOnce()
        self.runtime = replace(
            runtime,
            limits=replace(runtime.limits, mode="background"),
            background=background,
            services=Services(database.store, rig.clock),
        )
        self.ledger = Ledger("a/", self.runtime)
        database._ledgers._opened["a/"] = self.ledger
        self.collection = database["a"]
        self._number = 0

    def write(self, count: int) -> None:
        for _ in range(count):
            self._number += 1
            self.collection.insert({"id": self._number})

    @property
    def applied(self) -> int:
        state = self.ledger._register.read()
        return state.applied


@pytest.fixture
def rig() -> Rig:
    return Rig()


def looks(rig: Rig) -> int:
    return sum(each.kind == "list" and each.key == ".worm.nodes/" for each in rig.requests)


def test_without_services_a_client_forwards_by_itself(rig: Rig) -> None:
    client = Client(rig)
    client.write(2)
    assert looks(rig) == 0
    client.write(1)
    assert (client.applied, looks(rig)) == (3, 1)
    client.write(9)
    assert (client.applied, looks(rig)) == (12, 1)
    rig.clock.advance(NODES_LOOK_SECONDS)
    client.write(3)
    assert (client.applied, looks(rig)) == (15, 2)


def test_while_services_live_they_do_it(rig: Rig) -> None:
    node = rig.started()
    client = Client(rig)
    client.write(5)
    assert client.applied == 0
    node.work()
    assert client.applied == 5
    rig.clock.advance(LEFT_SECONDS)
    client.write(2)
    assert client.applied == 5, "two entries are no reason to forward"
    client.write(2)
    assert client.applied == 5, "they have two windows again"


def test_if_the_lag_does_not_fall_a_client_does_it(rig: Rig) -> None:
    rig.started()  # and it never works
    client = Client(rig)
    client.write(5)
    rig.clock.advance(LEFT_SECONDS - 1)
    client.write(1)
    assert client.applied == 0
    rig.clock.advance(1)
    client.write(1)
    assert client.applied == 7


@pytest.mark.parametrize("is_stopped", [True, False])
def test_dead_and_stopped_services_count_for_nothing(rig: Rig, *, is_stopped: bool) -> None:
    node = rig.started()
    if is_stopped:
        node.stop()
    else:
        rig.clock.advance(16)
    client = Client(rig)
    client.write(3)
    assert client.applied == 3


def test_a_client_that_may_not_list_forwards_by_itself(rig: Rig) -> None:
    class Denied(WrappedStore):
        def list(self, prefix: str = "", **options: object) -> Iterator[ListPage]:
            raise PermissionDeniedError(f"listing of {prefix}", reason=str(options))

    rig.started()
    services = Services(Denied(rig.store), rig.clock)
    assert not services.are_live()
    assert Services(rig.store, rig.clock).are_live()


def test_a_client_that_closes_leaves_readable_files_to_services(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.started()
    client = Client(rig)
    client.write(1)
    keeper = client.ledger._keeper
    published: list[int] = []
    keeper._publish = published.append
    monkeypatch.setattr(type(keeper), "_keeps_files", True)
    client.ledger.finish()
    assert published == []
    keeper._services = None
    client.ledger.finish()
    assert published == [1]
