"""The bill that is estimated is held to what the same work costs when it is metered; and what is used is counted."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING

import pytest

import wormdb
from benchmarks.metered import Rig, documents
from tests.engine.lists.vectors import as_rows, make_clusters
from wormdb.cli.main import run
from wormdb.engine.lists import centroids, definition
from wormdb.engine.lists.probes import count_probes
from wormdb.errors import InvalidRequestError
from wormdb.jobs import costs
from wormdb.jobs.costs import DAYS, PRICE_LISTS, Workload, measure_usage, predict
from wormdb.settings import Settings
from wormdb.storage.meter import S3_STANDARD
from wormdb.storage.open import open_store
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from pathlib import Path

FACTOR = 2.0
"""What docs promise: counts of requests are right within it."""

# Documents before, documents in a commit, seconds between two, minutes, indexes, collections.
LOADS = [
    (0, 1, 60, 20, 0, 1),
    (0, 1, 1, 5, 0, 1),
    (500, 1, 60, 10, 1, 1),
    (500, 10, 10, 5, 1, 1),
    pytest.param(3_000, 10, 10, 15, 1, 1, marks=pytest.mark.long),
    pytest.param(5_000, 100, 20, 60, 2, 1, marks=pytest.mark.long),
    (0, 1, 0, 60, 0, 1),
    (0, 1, 0, 60, 0, 20),
]


@pytest.mark.parametrize(("before", "batch", "seconds", "minutes", "indexes", "collections"), LOADS)
def test_requests_are_estimated_within_the_factor(
    before: int, batch: int, seconds: int, minutes: int, indexes: int, collections: int
) -> None:
    waiting = documents(1_000_000)
    with Rig() as rig:
        users = rig.database["users"]
        for number in range(1, collections):
            rig.database[f"c{number}"].insert({"id": "a"})
        users.insert_many(list(islice(waiting, max(before, 1))))
        for field in ("email", "number")[:indexes]:
            users.create_index(field, unique=True)
        rig.database.forward(["users"])
        rig.serve()
        rig.pass_time(700)
        mark = rig.used()
        commits = minutes * 60 // seconds if seconds else 0
        for _ in range(commits):
            users.insert_many(list(islice(waiting, batch)))
            rig.pass_time(seconds)
        if not seconds:
            rig.pass_time(minutes * 60)
        found = rig.used() - mark
    a_day = 24 * 60 / minutes
    bill = predict(
        Workload(
            documents=before + commits * batch,
            writes_per_day=commits * batch * a_day,
            batch=batch,
            indexes=indexes,
            collections=collections,
        )
    )
    month = a_day * DAYS
    requests = sum(bill.count(unit) for unit in ("put", "get", "list"))
    dollars = sum(item.dollars for item in bill.items if item.unit != "bytes")
    assert 1 / FACTOR <= requests / (found.requests * month) <= FACTOR
    assert 1 / FACTOR <= dollars / (found.dollars_at(S3_STANDARD) * month) <= FACTOR
    assert 1 / FACTOR <= bill.count("put") / (found.puts * month) <= FACTOR


def test_reads_are_estimated_within_the_factor() -> None:
    with Rig() as rig:
        users = rig.database["users"]
        ids = [str(number) for number in range(500)]
        users.insert_many([{"id": name, "text": "x" * 500} for name in ids])
        rig.database.forward(["users"])
        users.find_by_id("0")
        mark = rig.used()
        for name in ids[::5]:
            users.find_by_id(name)
        found = rig.used() - mark
    bill = predict(Workload(reads_per_day=100, nodes=0))
    assert 1 / FACTOR <= bill.count("get") / DAYS / found.gets <= FACTOR
    assert found.requests == found.gets


def test_transactions_are_estimated_within_the_factor() -> None:
    with Rig() as rig:
        for name in ("accounts", "savings"):
            rig.database[name].insert_many([{"id": str(number), "n": 0} for number in range(100)])
        rig.database.forward(["accounts", "savings"])
        mark = rig.used()
        for number in range(100):
            with rig.database.transaction() as tx:
                for name in ("accounts", "savings"):
                    tx[name].update_one({"id": str(number)}, {"$inc": {"n": 1}})
        found = rig.used() - mark
    bill = predict(Workload(transactions_per_day=100, nodes=0))
    assert 1 / FACTOR <= bill.count("put") / DAYS / found.puts <= FACTOR
    assert 1 / FACTOR <= bill.count("get") / DAYS / found.gets <= FACTOR


def test_searches_and_lists_of_vectors_are_estimated_within_the_factor() -> None:
    count, dimensions = 2_000, 16
    rows = as_rows(make_clusters(count + 200, dimensions, seed=3))
    with Rig() as rig:
        things = rig.database["things"]
        things.insert_many(rows[:count])
        things.create_vector_index("v", dimensions=dimensions)
        stored, before = rig.stored()["indexes"], rig.counted.copy()
        for start in range(count, count + 200, 10):
            things.insert_many(rows[start : start + 10])
            things.forward()
        written = rig.counted - before
        mark = rig.used()
        for row in rows[:50]:
            things.find(near={"v": {"vector": row["v"]}}, select=["_id"]).to_list()
        asked = rig.used() - mark
    workload = Workload(
        documents=count,
        vector_indexes=1,
        dimensions=dimensions,
        searches_per_day=50,
        writes_per_day=200,
        batch=10,
        nodes=0,
    )
    bill = predict(workload)
    counted = {(item.name, item.unit): item.count for item in bill.items}
    assert 1 / 3 <= counted["vectors", "bytes"] / stored <= 3
    assert 1 / FACTOR <= counted["searches", "get"] / DAYS / asked.gets <= FACTOR
    # By these numbers a writer brings its log forward once for 1,000 commits; here it was once for each of 20.
    scale = 20 / (20 / Settings().forward_entries * DAYS)
    assert 1 / FACTOR <= counted["forwarding: vectors", "put"] * scale / written["put", "indexes"] <= FACTOR
    assert 1 / FACTOR <= counted["forwarding: vectors", "get"] * scale / written["get", "indexes"] <= FACTOR
    large = {**{name: getattr(workload, name) for name in Workload.__dataclass_fields__}, "documents": 1e7, "nodes": 1}
    dollars = predict(Workload(**large)).dollars
    for name in ("vector_indexes", "dimensions", "searches_per_day", "writes_per_day"):
        assert predict(Workload(**{**large, name: large[name] * 2})).dollars > dollars, name


def test_what_is_said_of_lists_is_what_the_engine_does() -> None:
    assert (costs.LIST_ROWS, costs.LISTS_STALE) == (centroids.LIST_ROWS, definition.STALE)
    lists = 10_000
    assert count_probes(lists, None) == costs.LISTS_READ * lists**0.5


def test_storage_is_estimated_within_a_factor_of_three() -> None:
    waiting = list(documents(2_000))
    with Rig() as rig:
        users = rig.database["users"]
        users.create_index("email", unique=True)
        users.insert_many(waiting)
        rig.database.forward(["users"])
        found = rig.stored()
    size = sum(len(json.dumps(document)) for document in waiting) / len(waiting)
    bill = predict(Workload(documents=len(waiting), bytes=size, indexes=1))
    estimated = {item.name: item.count for item in bill.items if item.unit == "bytes"}
    assert 1 / 3 <= estimated["documents"] / found["data"] <= 3
    assert 1 / 3 <= estimated["indexes"] / found["indexes"] <= 3
    assert 1 / 3 <= estimated["history"] / found["history"] <= 3


def test_more_of_anything_costs_more_and_larger_batches_less() -> None:
    base = Workload(
        documents=1e6,
        writes_per_day=1e5,
        batch=10,
        reads_per_day=1e5,
        collections=2,
        indexes=1,
        transactions_per_day=100,
    )
    dollars = predict(base).dollars
    numbers = {name: getattr(base, name) for name in Workload.__dataclass_fields__}
    for name in (
        "documents",
        "bytes",
        "writes_per_day",
        "reads_per_day",
        "nodes",
        "indexes",
        "months",
        "transactions_per_day",
    ):
        assert predict(Workload(**{**numbers, name: numbers[name] * 2})).dollars > dollars, name
    for name in ("batch", "keep_days", "versions"):
        assert (
            predict(Workload(**{**numbers, "months": 12, name: 20})).dollars
            < predict(Workload(**{**numbers, "months": 12})).dollars
        ), name
    assert len({predict(base, prices).dollars for prices in PRICE_LISTS.values()}) == len(PRICE_LISTS)


@pytest.mark.parametrize(("name", "value"), [("batch", 0), ("documents", -1), ("bytes", float("nan")), ("nodes", 1e30)])
def test_numbers_that_cannot_be_are_refused(name: str, value: float) -> None:
    with pytest.raises(InvalidRequestError, match=name):
        Workload(**{name: value})


def test_the_command_prints_the_bill_and_its_formulas(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["cost", "--documents", "1e6", "--writes-per-day", "1e4", "--batch", "10", "--reads-per-day", "1e5"]
    assert run(words) == 0
    plain = capsys.readouterr().out
    assert "in all $" in plain
    assert "writes / batch" not in plain
    assert run([*words, "--explain"]) == 0
    assert "writes / batch" in " ".join(capsys.readouterr().out.split())
    assert run([*words, "--json", "--store", "azure"]) == 0
    bill = json.loads(capsys.readouterr().out)
    assert bill["dollars"] == pytest.approx(sum(item["dollars"] for item in bill["items"]))
    assert "Azure" in bill["prices"]
    assert run(["cost", "--batch", "0"]) == 2


def test_what_is_used_is_counted_by_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with wormdb.connect(tmp_path) as database:
        database["things"].insert_many([{"id": str(number)} for number in range(10)])
        database.forward(["things"])
    clock = SystemClock()
    with open_store(str(tmp_path)) as store:
        found = measure_usage(store, now_ms=clock.now_ms())
        later = measure_usage(store, now_ms=clock.now_ms() + 30 * 86_400_000)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    kinds = {kind.name: kind for kind in found.kinds}
    assert kinds["log"].objects == 1
    assert kinds["roots"].objects == 1
    assert sum(kind.objects for kind in found.kinds) <= len(files)
    assert sum(kind.written for kind in found.kinds) == sum(kind.objects for kind in found.kinds)
    assert sum(kind.written for kind in later.kinds) == 0
    assert found.storage_dollars == pytest.approx(S3_STANDARD.of_storage(found.bytes))
    assert run(["cost", str(tmp_path), "--used"]) == 0
    assert "documents" in capsys.readouterr().out
    assert run(["cost", str(tmp_path), "--used", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bytes"] == found.bytes
    assert run(["cost", "--used"]) == 2
    assert run(["cost", str(tmp_path)]) == 2
    assert "add --used" in capsys.readouterr().err
