"""Readable files follow the log."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest

from tests.files.writer_rig import Process, World, check_files, readable, schema_of
from wormdb.engine.log.paths import ENGINE_FOLDER
from wormdb.testing.fault_store import FaultStore

LAYOUTS = [
    {"layout": "inline"},
    {"layout": "collection"},
    {"layout": "root"},
    {"layout": "root", "snapshots": "inline"},
]


@pytest.mark.parametrize("storage", LAYOUTS, ids=lambda storage: "+".join(storage.values()))
def test_files_follow_the_log(storage: dict[str, str]) -> None:
    schema, world = schema_of(storage), World()
    process = Process.on(world, schema)
    customers = process.customers
    customers.insert({"id": "a", "name": "Ada", "status": "active", "tags": ["vip", "x"], "email": "a@x"})
    process.publish()
    check_files(world, schema)
    customers.insert({"id": "b", "name": "Bo", "born": datetime(1980, 1, 2, tzinfo=UTC), "address": {"city": "Ulm"}})
    for number in range(5):
        customers.save({"id": "a", "name": f"Ada {number}", "status": "gone", "email": "a@x"})
    process.publish()
    check_files(world, schema)
    customers.delete("b")
    customers.snapshot("a")
    process.publish()
    check_files(world, schema)
    customers.restore("b")
    customers.rollback("a", to_seq=2)
    process.publish()
    check_files(world, schema)
    customers.delete("a")
    process.publish()
    customers.purge("a")
    customers.insert({"id": "a", "name": "New"})
    process.publish()
    check_files(world, schema)
    assert ".worm" in readable(world)


def test_many_saves_cost_one_write_for_each_file() -> None:
    indexes = {
        "byStatus": {"field": "status"},
        "byEmail": {"field": "email", "unique": True},
        "byName": {"field": "name"},
    }
    schema, world = schema_of(indexes=indexes), World()
    store = FaultStore(world)
    process = Process.on(store, schema)
    for number in range(100):
        process.customers.save(
            {"id": f"{number:03}", "name": f"N {number}", "email": f"{number}@x", "status": "active"}
        )
    process.bring()
    before = store.requests
    process.publish()
    made = [trace for trace in store.trace[before:] if ENGINE_FOLDER not in trace.key]
    assert Counter(trace.verb for trace in made if trace.key != ".worm") == {"put": 100 + 100 + 5}
    assert [trace.verb for trace in made if trace.key == ".worm"] == ["probe", "put"]
    check_files(world, schema)
    before = store.requests
    process.publish()
    assert not [trace for trace in store.trace[before:] if trace.verb not in {"probe", "get"}], "nothing is new"


def test_a_document_saved_many_times_is_written_once() -> None:
    schema, world = schema_of(), World()
    store = FaultStore(world)
    process = Process.on(store, schema)
    process.customers.insert({"id": "a", "name": "0"})
    process.publish()
    for number in range(20):
        process.customers.save({"id": "a", "name": str(number)})
    process.bring()
    before = store.requests
    process.publish()
    made = Counter(trace.key for trace in store.trace[before:] if trace.verb == "put")
    assert made["org/customers/a/profile.json"] == 1
    assert sum(count for key, count in made.items() if ".oplog/" in key) == 20
    assert max(made.values()) == 1
    check_files(world, schema)
