"""The source in a real session: SQL, joins, nested fields, the past, a folder and a bucket."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from wormdb.spark import register

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from wormdb import Database

SCHEMA: dict[str, Any] = {
    "schemaVersion": "1.0",
    "models": {
        "Customer": {
            "path": "@customers/(id:string)",
            "fields": {
                "name": {"type": "string"},
                "age": {"type": "integer"},
                "born": {"type": "datetime"},
                "balance": {"type": "decimal"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "address": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}},
                },
            },
            "indexes": {"byAge": {"field": "age"}},
        },
        "Order": {
            "path": "@orders/(id:string)",
            "fields": {"customer": {"type": "string"}, "total": {"type": "number"}},
        },
    },
}
BORN = datetime(1980, 2, 3, 4, 5, 6, 789_000, tzinfo=UTC)


def fill(url: str) -> Database:
    """300 customers, two thirds of them in blocks, some changed and some deleted since; and their orders."""
    db = wormdb.connect(url, schema=SCHEMA, apply=True, settings=wormdb.Settings(forward="manual", block_bytes=9_000))
    customers, orders = db.model("Customer"), db.model("Order")
    for start in (0, 200):
        customers.insert_many([customer(n) for n in range(start, start + (200 if start == 0 else 100))])
        if start == 0:
            db.forward()
    customers.delete_many({"age": {"$gte": 45, "$lt": 50}})
    customers.update_many({"age": 7}, {"$set": {"name": "seven"}})
    orders.insert_many([{"id": f"o{n}", "customer": f"c{n % 50:03}", "total": n / 4} for n in range(120)])
    return db


def customer(n: int) -> dict[str, Any]:
    return {
        "id": f"c{n:03}",
        "name": f"name {n}",
        "age": n % 60,
        "born": BORN + timedelta(days=n),
        "balance": Decimal(n) / 4,
        "tags": ["a", "b", "c"][: n % 4],
        **({"address": {"city": f"city {n % 7}", "zip": n}} if n % 5 else {}),
    }


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Database:
    return fill(str(tmp_path_factory.mktemp("shop")))


def load(spark: SparkSession, db: Database, model: str = "Customer", **options: str) -> DataFrame:
    return spark.read.format("worm").options(url=db.url, model=model, **options).load()


def ids(frame: DataFrame) -> list[str]:
    return sorted(row.id for row in frame.select("id").collect())


def found(db: Database, *asked: dict[str, Any], **options: Any) -> list[str]:
    return sorted(document.id for document in db.model("Customer").find_all(*asked, **options))


def test_rows_are_those_of_find_all(spark: SparkSession, db: Database) -> None:
    rows = {row.id: row for row in load(spark, db).collect()}
    assert sorted(rows) == found(db)
    for document in db.model("Customer").find_all():
        row = rows[document.id]
        assert (row.name, row.age, row.tags) == (document["name"], document["age"], document["tags"])
        assert row.born.replace(tzinfo=UTC) == document["born"]
        assert row.balance == document["balance"].to_decimal()
        address = document.get("address")
        assert (row.address and row.address.asDict()) == address


def test_scans_of_one_frame_do_not_meet_each_others_filters(spark: SparkSession, db: Database) -> None:
    """Spark up to 4.3 keeps what the filters of one scan chose for the other scans of the same frame."""
    frame = load(spark, db)
    few, many = frame.filter("id < 'c010'"), frame.filter("id >= 'c010'")
    assert (few.count(), frame.count()) == (10, len(found(db)))
    assert few.union(many).count() == len(found(db))


def test_sql_joins_and_nested_fields(spark: SparkSession, db: Database) -> None:
    load(spark, db).createOrReplaceTempView("customers")
    load(spark, db, "Order").createOrReplaceTempView("orders")
    rows = spark.sql(
        "select c.address.city, count(*) n, sum(o.total) total, max(size(c.tags)) tags "
        "from customers c join orders o on o.customer = c.id where c.address.zip > 3 group by 1 order by 1"
    ).collect()
    totals: dict[str, list[float]] = {}
    people = {document.id: document for document in db.model("Customer").find_all()}
    for order in db.model("Order").find_all():
        person = people.get(order["customer"])
        if person is not None and person.get("address", {}).get("zip", 0) > 3:
            totals.setdefault(person["address"]["city"], []).append(order["total"])
    assert [(row.city, row.n, row.total) for row in rows] == [
        (city, len(of), sum(of)) for city, of in sorted(totals.items())
    ]


def test_filters_of_the_source_and_of_spark(spark: SparkSession, db: Database) -> None:
    asked = {"age": {"$in": [7, 8]}}
    frame = load(spark, db, filter='{"age": {"$in": [7, 8]}}', columns="id, age")
    assert frame.columns == ["id", "age"]
    assert ids(frame) == found(db, asked)
    pushing = load(spark, db, pushdown="on").filter("age in (7, 8) and address.zip > 100")
    assert ids(pushing) == found(db, {**asked, "address.zip": {"$gt": 100}})


def test_a_schema_of_the_user_chooses_the_columns(spark: SparkSession, db: Database) -> None:
    frame = spark.read.format("worm").schema("balance decimal(9,2), id string, address string, _doc string")
    row = frame.load(db.url, model="Customer").filter("id = 'c006'").first()
    assert row is not None
    assert (row.balance, row.address) == (Decimal("1.50"), '{"city":"city 6","zip":6}')
    assert row["_doc"].startswith('{"_id":"c006"')


def test_the_moment_of_a_snapshot_over_several_collections(spark: SparkSession, tmp_path: Path) -> None:
    db = fill(str(tmp_path))

    def pay(tx: wormdb.Transaction, total: float) -> None:
        tx.model("Order").insert({"id": f"paid {total}", "customer": "c006", "total": total})
        tx.model("Customer").update_one({"id": "c006"}, {"$inc": {"age": 1}})

    db.run(lambda tx: pay(tx, 1000))
    with db.snapshot(["Customer", "Order"]) as moment:
        numbers = moment.numbers
        age = moment.model("Customer").find_by_id("c006")["age"]
    db.run(lambda tx: pay(tx, 2000))
    orders = load(spark, db, "Order", as_of=str(numbers["orders/"])).filter("total >= 1000")
    assert ids(orders) == ["paid 1000"]
    row = load(spark, db, as_of=str(numbers["customers/"])).filter("id = 'c006'").first()
    assert row is not None
    assert row.age == age
    assert ids(load(spark, db, "Order").filter("total >= 1000")) == ["paid 1000", "paid 2000"]


def test_the_past(spark: SparkSession, db: Database) -> None:
    for moment in (3, 1):
        assert ids(load(spark, db, as_of=str(moment))) == found(db, as_of=moment)


def test_mistakes_are_shown_with_their_fix(spark: SparkSession, db: Database) -> None:
    with pytest.raises(Exception, match=r"Unknown model: Custmer.*Customer"):
        load(spark, db, "Custmer")


@pytest.mark.s3
def test_a_bucket(spark: SparkSession, s3_url: str) -> None:
    register(spark)
    with fill(s3_url) as db:
        frame = load(spark, db)
        assert ids(frame) == found(db)
        assert ids(load(spark, db, filter='{"id": {"$gt": "c250"}}')) == found(db, {"id": {"$gt": "c250"}})
        plan = frame._jdf.queryExecution().toString()
        assert "SECRET" not in plan.upper()


def test_a_collection_without_a_model_is_a_table_of_its_frequent_paths(spark: SparkSession, tmp_path: Path) -> None:
    with wormdb.connect(str(tmp_path / "free"), settings=wormdb.Settings(forward="manual")) as db:
        things = db["things"]
        things.insert_many([{"id": f"t{n}", "n": n, "place": {"city": f"city {n % 3}"}} for n in range(50)])
        things.insert({"id": "rare", "only": "here"})
        things.forward()
        frame = spark.read.format("worm").options(url=db.url, collection="things").load()
        assert {"id", "n", "place.city"} <= {*frame.columns}
        assert sorted(row.id for row in frame.where("n >= 48").collect()) == ["t48", "t49"]
        cities = frame.groupBy("`place.city`").count().collect()
        assert sorted((row["place.city"], row["count"]) for row in cities if row["place.city"]) == [
            ("city 0", 17),
            ("city 1", 17),
            ("city 2", 16),
        ]
