"""A write that one server hands to another, with a fault at every request of either: done once, or told as unknown."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal

import bson
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

import wormdb
from tests.server.conftest import running
from tests.server.several import CutProxy, bucket_of, joined
from wormdb.server.service import open_served
from wormdb.settings import Settings
from wormdb.storage.memory import MemoryStore
from wormdb.storage.store import WrappedStore
from wormdb.system.clock import SystemClock
from wormdb.testing.fault_store import Fault, FaultStore
from wormdb.testing.sweep import FAULTS, sweep

if TYPE_CHECKING:
    from wormdb.storage.store import Store
    from wormdb.testing.sweep import SweepCase

BUCKET = bucket_of(2, [1, 2])
"""Of node 2: node 1 hands writes on."""
FEW = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.ANSWER_LOST, Fault.LANDS_LATE, Fault.UNAVAILABLE_503)
ALL = tuple(fault for fault in FAULTS if fault is not Fault.RACE_412)
"""Rivals are the servers themselves: that one writes what is no entry is another subject."""
WRITES: dict[str, tuple[Any, ...]] = {
    "insert": ("BUCKET.INSERT", BUCKET, "DOCS", bson.encode({"n": 1})),
    "insert with an id": ("BUCKET.INSERT", BUCKET, "DOCS", bson.encode({"_id": bson.ObjectId("6" * 24), "n": 1})),
    "update": ("BUCKET.UPDATE", BUCKET, '{"n":0}', '{"$inc":{"n":1},"$push":{"seen":1}}'),
    "delete": ("BUCKET.DELETE", BUCKET, '{"n":0}'),
    "upsert": ("BUCKET.UPDATE", BUCKET, '{"n":1}', '{"$inc":{"seen":1},"upsert":true}'),
}
Outcome = Literal["done", "refused", "unknown"]
Side = Literal["owner", "sender"]
Way = Literal["pass", "before", "after"]


class SharedStore(WrappedStore):
    """One store for several servers, each of which closes it."""

    def close(self) -> None:
        pass


def make() -> Store:
    """A bucket with one document."""
    store = SharedStore(MemoryStore(None, clock=SystemClock()))
    with open_served(store, settings=Settings()) as database:
        database[BUCKET].insert({"_id": bson.ObjectId("1" * 24), "n": 0})
    return store


def ask(store: Store, side: Side, way: Way, words: tuple[Any, ...]) -> Outcome:
    """Have a client write through a server that hands it on; the store of one of the two servers is faulty."""
    assert isinstance(store, FaultStore)
    plain = store._inner
    with ExitStack() as stack:
        second = stack.enter_context(running(store if side == "owner" else plain))
        proxy = CutProxy(second.address[1])
        stack.callback(proxy.close)
        proxy.mode = way
        first = joined(stack, store if side == "sender" else plain, 1, {2: f"resp://127.0.0.1:{proxy.port}"})
        made: Any = redis.Redis(port=first.address[1], socket_timeout=60, retry=Retry(NoBackoff(), 0))
        client = stack.enter_context(made)
        try:
            client.execute_command(*words)
        except redis.ResponseError as error:
            is_unknown = str(error).startswith("COMMIT_UNKNOWN_RESULT") or "internal error" in str(error)
            return "unknown" if is_unknown else "refused"
        return "done"


def times(store: Store, kind: str) -> int:
    """How often a write was done, as its documents and the log tell."""
    with wormdb.connect(store) as database:
        changes = [change for change in database[BUCKET].watch() if change.after != {"id": change.id, "n": 0}]
        rows = database[BUCKET].find_all()
    match kind:
        case "update":
            (row,) = rows
            assert row["n"] == len(row.get("seen", []))
            return len(row.get("seen", []))
        case "delete":
            return len(changes)
        case "upsert":
            assert len(rows) <= 2
            return sum(row.get("seen", 0) for row in rows)
        case _:
            return sum(row["n"] for row in rows)


def swept(side: Side, way: Way, kind: str, faults: tuple[Fault, ...]) -> dict[Outcome, int]:
    seen: dict[Outcome, int] = {"done": 0, "refused": 0, "unknown": 0}

    def check(case: SweepCase[Outcome]) -> None:
        found = times(case.inner, kind)
        if case.result is None:
            assert found == 0, "a server did not start"
            return
        seen[case.result] += 1
        if case.result == "done":
            assert found == 1, case.label
        elif case.result == "refused":
            assert found == 0, case.label
        else:
            assert found <= 1, case.label

    sweep(make, lambda store: ask(store, side, way, WRITES[kind]), check, faults=faults)
    return seen


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("side", "way"), [("owner", "pass"), ("sender", "pass"), ("sender", "before")])
def test_a_handed_update_is_done_once_or_told_as_unknown(side: Side, way: Way) -> None:
    seen = swept(side, way, "update", FEW)
    assert seen["done"] > len(FEW)
    if side == "owner":
        assert seen["unknown"] == 0, "the server that handed it on finds out, whatever became of the owner"


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", WRITES)
@pytest.mark.parametrize(
    ("side", "way"),
    [("owner", "pass"), ("owner", "after"), ("sender", "pass"), ("sender", "before"), ("sender", "after")],
)
def test_every_handed_write_is_done_once_or_told_as_unknown(side: Side, way: Way, kind: str) -> None:
    assert swept(side, way, kind, ALL)["done"] > len(ALL)
