"""Documents that end, with a fault at every request and a rival before it: each ends once, and no write is lost."""

from __future__ import annotations

import operator
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from wormdb.settings import Settings
from wormdb.storage.memory import MemoryStore
from wormdb.storage.store import WrappedStore
from wormdb.system.clock import ManualClock, SeededChance
from wormdb.testing.fault_store import Fault
from wormdb.testing.sweep import sweep

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.api.database import Database
    from wormdb.storage.store import Store
    from wormdb.testing.sweep import SweepCase

START = datetime(2026, 1, 1, tzinfo=UTC)
IS_LONG = os.environ.get("WORMDB_STRIDE") == "1"
FAULTS = tuple(Fault) if IS_LONG else (Fault.ANSWER_LOST,)


class Bucket:
    """A store in which three of five documents are over, and its clock."""

    def __init__(self) -> None:
        self.clock = ManualClock(int(START.timestamp() * 1000))
        self.store = MemoryStore(clock=self.clock)
        database = self.opened(self.store)
        things = database["things"]
        things.create_index("email", unique=True)
        things.expire("at")
        for number in range(5):
            seconds = 10 if number < 3 else 1_000
            things.insert(
                {"_id": f"d{number}", "email": f"e{number}", "at": START + timedelta(seconds=seconds), "n": number}
            )
            if number == 1:
                things.forward()
        self.clock.advance(10)

    def opened(self, store: Store, seed: int = 1) -> Database:
        return wormdb.connect(store, clock=self.clock, chance=SeededChance(seed), settings=Settings(forward="manual"))


def remove(database: Database) -> None:
    database["things"]._access.ledger.expiry.remove()


def forward(database: Database) -> None:
    database["things"].forward()


def insert_same_id(database: Database) -> None:
    database["things"].insert({"_id": "d0", "email": "new"})


def insert_same_email(database: Database) -> None:
    database["things"].insert({"_id": "x", "email": "e2"})


def upsert(database: Database) -> None:
    database["things"].update_one({"_id": "d1"}, {"$set": {"email": "again"}}, upsert=True)


OPERATIONS = [
    insert_same_email,
    *(pytest.param(one, marks=pytest.mark.long) for one in (remove, forward, insert_same_id, upsert)),
]
named = operator.attrgetter("__name__")
ADDED = {"insert_same_id": "d0", "insert_same_email": "x", "upsert": "d1"}


def check_bucket(bucket: Bucket, name: str, *, is_done: bool) -> None:
    """Whatever happened: nothing that is over is seen, and when all is brought forward each has ended once."""
    things = bucket.opened(bucket.store, 3)["things"]
    added = ADDED.get(name)
    alive = {one["id"] for one in things.find({})}
    assert alive - {added} == {"d3", "d4"}
    if is_done and added is not None:
        assert added in alive
    assert things.count() == len(alive)
    things.forward()
    changes = list(things.watch())
    ends = [(one.id, one.seq) for one in changes if one.op == "expire"]
    assert sorted(ends) == [("d0", 2), ("d1", 2), ("d2", 2)]
    assert {one["id"] for one in things.find({})} == alive
    assert [found for one in bucket.opened(bucket.store, 4).verify() for found in one.findings] == []


@pytest.mark.parametrize("operation", OPERATIONS, ids=named)
def test_a_fault_at_every_request_leaves_each_document_to_end_once(operation: Callable[[Database], None]) -> None:
    buckets: list[Bucket] = []

    def make() -> Store:
        buckets.append(Bucket())
        return buckets[-1].store

    def check(case: SweepCase[Any]) -> None:
        check_bucket(buckets[-1], operation.__name__, is_done=case.error is None)

    def run(store: Store) -> None:
        operation(buckets[-1].opened(store, 2))

    assert sweep(make, run, check, faults=FAULTS) > len(FAULTS)


class Rival(WrappedStore):
    """Calls another process before one of the requests."""

    def __init__(self, inner: Store, number: int, rival: Callable[[], object]) -> None:
        super().__init__(inner)
        self._left = number
        self._rival = rival

    def put(self, *given: Any, **named: Any) -> Any:
        self._step()
        return super().put(*given, **named)

    def probe(self, *given: Any, **named: Any) -> Any:
        self._step()
        return super().probe(*given, **named)

    def _step(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._rival()

    @property
    def is_over(self) -> bool:
        """Whether there were fewer requests."""
        return self._left > 0


@pytest.mark.parametrize(
    "rival", [remove, pytest.param(insert_same_id, marks=pytest.mark.long)], ids=lambda one: one.__name__
)
@pytest.mark.parametrize(
    "operation", [remove, insert_same_email, pytest.param(upsert, marks=pytest.mark.long)], ids=lambda one: one.__name__
)
def test_a_rival_at_every_request_leaves_each_document_to_end_once(
    operation: Callable[[Database], None], rival: Callable[[Database], None]
) -> None:
    for number in range(1, 100):
        bucket = Bucket()
        store = Rival(bucket.store, number, lambda: rival(bucket.opened(bucket.store, 5)))  # noqa: B023 - called at once
        operation(bucket.opened(store, 2))
        things = bucket.opened(bucket.store, 3)["things"]
        things.forward()
        ends = sorted((one.id, one.seq) for one in things.watch() if one.op == "expire")
        assert ends == [("d0", 2), ("d1", 2), ("d2", 2)], number
        assert {one["id"] for one in things.find({})} >= {"d3", "d4", *filter(None, [ADDED.get(operation.__name__)])}
        if store.is_over:
            return
    raise AssertionError("it did not end")
