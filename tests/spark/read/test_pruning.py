"""A filter reads only the blocks it must: requests are counted."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import datasource as pushed

import wormdb
from tests.spark.read.rig import plan, read
from wormdb.engine.state.view import id_key
from wormdb.format.json import encode
from wormdb.jobs import place, state

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wormdb import Database

ROWS = 4_000
MODEL: dict[str, Any] = {
    "path": "@orders/(id:string)",
    "fields": {"day": {"type": "integer"}, "name": {"type": "string"}, "price": {"type": "number"}},
    "indexes": {"byName": {"field": "name"}},
}


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Orders in blocks of about 400, so that each value of `day` is in one block; the last ones in the tail."""
    folder = tmp_path_factory.mktemp("orders")
    tuned = wormdb.Settings(forward="manual", forward_interval_ms=0, block_bytes=110_000)
    schema = {"schemaVersion": "1.0", "models": {"Order": MODEL}}
    with wormdb.connect(folder, schema=schema, apply=True, settings=tuned) as opened:
        orders = opened.model("Order")
        orders.insert_many(
            [
                {"id": f"o{n:05}", "day": n // 100, "name": f"n{n}", "price": float(n), "pad": "p" * 100 + str(n * n)}
                for n in range(ROWS)
            ]
        )
        opened.forward()
        orders.insert({"id": "o99999", "day": 10, "name": "n10", "price": 10.0})
        yield opened


def scanned(db: Database, *asked: pushed.Filter, **options: Any) -> tuple[list[str], int]:
    """The ids that a scan read, and how many blocks it asked the store for, by a process that knows none."""
    place._open.clear()
    state._opened.cache_clear()
    seen: set[str] = set()
    metered = place.Where(db.url, "Order", None).open()._metered
    metered._hook = lambda request: seen.add(request.key)
    reading = plan(pushed=asked, url=db.url, model="Order", columns="id,price", **options)
    rows = reading.rows()
    return [row["id"] for row in rows], sum("/data/" in key and key.endswith(".parquet") for key in seen)


def count_of_blocks(db: Database) -> int:
    root = db.model("Order")._access.view().place
    assert root is not None
    return len(root.root.blocks)


def test_all_blocks_are_read_without_filters_each_once(db: Database) -> None:
    ids, blocks = scanned(db)
    assert (len(ids), blocks) == (ROWS + 1, count_of_blocks(db))
    assert blocks > 5


@pytest.mark.parametrize(
    ("asked", "written", "blocks_max"),
    [
        ([pushed.EqualTo(("id",), "o00123")], {"id": "o00123"}, 1),
        ([pushed.In(("id",), ("o00123", "o03900"))], {"id": {"$in": ["o00123", "o03900"]}}, 2),
        (
            [pushed.GreaterThanOrEqual(("id",), "o01000"), pushed.LessThan(("id",), "o01050")],
            {"id": {"$gte": "o01000", "$lt": "o01050"}},
            2,
        ),
        ([pushed.LessThan(("price",), 20.0)], {"price": {"$lt": 20}}, 1),
        ([pushed.GreaterThan(("price",), 3_990.0)], {"price": {"$gt": 3_990}}, 1),
    ],
)
def test_a_filter_reads_only_the_blocks_it_must(
    db: Database, asked: list[pushed.Filter], written: dict[str, Any], blocks_max: int
) -> None:
    wanted = {document.id for document in db.model("Order").find_all(written)}
    ids, blocks = scanned(db, *asked)
    assert wanted <= set(ids)
    assert blocks <= blocks_max
    ids, blocks = scanned(db, filter=encode(written).decode())
    assert wanted == set(ids)
    assert blocks <= blocks_max


def test_a_value_of_an_index_reads_the_pages_of_its_documents(db: Database) -> None:
    reading = plan(pushed=[pushed.EqualTo(("name",), "n10")], url=db.url, model="Order")
    assert [share.value.keys for share in reading.shares] == [(id_key(b'"o00010"'), id_key(b'"o99999"'))]
    assert sorted(row["id"] for row in reading.rows()) == ["o00010", "o99999"]
    nothing = plan(pushed=[pushed.EqualTo(("name",), "nobody")], url=db.url, model="Order")
    assert nothing.rows() == []


def test_nan_is_the_greatest_number_for_spark(tmp_path: Path) -> None:
    with wormdb.connect(tmp_path, settings=wormdb.Settings(forward_interval_ms=0)) as db:
        db["values"].create_index("x")
        db["values"].insert_many([{"_id": "a", "x": 1.0}, {"_id": "b", "x": nan}])
        db.forward(["values"])
        asked = [pushed.GreaterThan(("x",), 5.0)]
        assert "b" in {row["id"] for row in read(pushed=asked, url=db.url, collection="values")}


def test_tasks_share_a_large_block_by_its_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wormdb.jobs.shares.TASK_BYTES_MIN", 1_000)
    with wormdb.connect(tmp_path, settings=wormdb.Settings(forward_interval_ms=0)) as db:
        db["rows"].insert_many([{"_id": n} for n in range(35_000)])
        db.forward(["rows"])
        reading = plan(url=db.url, collection="rows", columns="id", partitions="2")
        counts = [sum(batch.num_rows for batch in reading.reader.read(share)) for share in reading.shares]
        assert (len(counts), sum(counts)) == (2, 35_000)
        assert min(counts) > 10_000
