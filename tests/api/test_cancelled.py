"""A commit whose call is ended from outside: it stops at once, and does not ask a store that refuses it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import wormdb
from wormdb.errors import OutcomeUnknownError, UnavailableError
from wormdb.storage.memory import MemoryStore
from wormdb.storage.store import OCTETS, WrappedStore
from wormdb.system.clock import ManualClock
from wormdb.system.deadline import CancelScope, within

if TYPE_CHECKING:
    from wormdb.storage.store import Precondition, PutResult


class Cancelling(WrappedStore):
    """Ends the call when it is asked to write a certain kind of object, and answers nothing."""

    def __init__(self, clock: ManualClock, ends_at: str) -> None:
        super().__init__(MemoryStore(clock=clock))
        self._ends_at = ends_at
        self.scope = CancelScope(clock)
        self.asked = 0
        self.is_armed = False

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        if not self.is_armed or self._ends_at not in key:
            return super().put(key, body, precondition, content_type=content_type)
        self.asked += 1
        assert self.asked < 10, "it asks again and again"
        self.scope.cancel()
        raise OutcomeUnknownError(key, key=key)


def test_a_commit_that_is_cancelled_sends_nothing_again() -> None:
    clock = ManualClock()
    store = Cancelling(clock, "committed/")
    with wormdb.connect(store, clock=clock) as db:
        store.is_armed = True
        before = clock.monotonic()
        with within(store.scope), pytest.raises(OutcomeUnknownError) as caught:
            db["notes"].insert({"id": "a"})
        assert caught.value.commit_id is not None
        assert (store.asked, clock.monotonic()) == (1, before)
        store.is_armed = False
        assert db["notes"].insert({"id": "b"}).rev == 1


def test_a_commit_that_waits_for_room_ends_when_it_is_cancelled() -> None:
    clock = ManualClock()
    store = Cancelling(clock, "/data/")
    settings = wormdb.Settings(forward="manual", tail_entries_max=2, forward_interval_ms=0)
    with wormdb.connect(store, clock=clock, settings=settings) as db:
        for number in range(2):
            db["notes"].insert({"id": f"{number}"})
        store.is_armed = True
        before = clock.monotonic()
        with within(store.scope), pytest.raises(UnavailableError, match="wait to be brought forward"):
            db["notes"].insert({"id": "more"})
        assert (store.asked, clock.monotonic()) == (1, before)
        store.is_armed = False
        assert db["notes"].count() == 2
