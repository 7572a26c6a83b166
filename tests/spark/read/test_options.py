"""What a source takes and refuses, and which columns it has: no JVM needed."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from bson import ObjectId
from pyspark.sql import types as spark

import wormdb
from tests.spark.read.rig import plan, read
from wormdb.errors import InvalidRequestError, NotFoundError, SnapshotTooOldError
from wormdb.jobs.place import Where

if TYPE_CHECKING:
    from pathlib import Path

    from wormdb import Database

MODEL: dict[str, Any] = {
    "path": "#org/@people/(id:string)",
    "fields": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "score": {"type": "number"},
        "vip": {"type": "boolean"},
        "born": {"type": "datetime"},
        "balance": {"type": "decimal"},
        "photo": {"type": "binary"},
        "boss": {"type": "objectid"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "homes": {"type": "array", "items": {"type": "object", "properties": {"city": {"type": "string"}}}},
        "address": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "geo": {"type": "object"}, "zip": {"type": "integer"}},
        },
        "free": {"type": "object"},
        "anything": {"type": "any"},
        "list": {"type": "array"},
    },
}
DDL = (
    "struct<id:string,name:string,age:bigint,score:double,vip:boolean,born:timestamp,balance:decimal(38,18),"
    "photo:binary,boss:string,tags:array<string>,homes:array<struct<city:string>>,"
    "address:struct<city:string,geo:string,zip:bigint>,free:string,anything:string,list:string,"
    "createdAt:timestamp,updatedAt:timestamp>"
)


@pytest.fixture
def db(tmp_path: Path) -> Database:
    schema = {"schemaVersion": "1.0", "models": {"Person": MODEL}}
    return wormdb.connect(tmp_path, schema=schema, apply=True)


def test_columns_are_those_of_the_model(db: Database) -> None:
    born = datetime(1990, 1, 2, tzinfo=UTC)
    boss = ObjectId()
    person = {
        "id": "ann",
        "name": "Ann",
        "age": 34,
        "score": 2,
        "vip": True,
        "born": born,
        "balance": Decimal("12.50"),
        "photo": b"jpg",
        "boss": boss,
        "tags": ["a", "b"],
        "homes": [{"city": "Rome"}, {}],
        "address": {"city": "Rome", "geo": {"lat": 1.5}},
        "free": {"k": [1]},
        "anything": {"x": 1},
        "list": [1, "a"],
    }
    db.model("Person").insert(person)
    for _ in range(2):
        reading = plan(url=db.url, model="Person")
        assert reading.schema.simpleString() == DDL
        (row,) = reading.rows()
        assert row.pop("createdAt") == row.pop("updatedAt") > born
        assert row == {
            **person,
            "score": 2.0,
            "boss": str(boss),
            "homes": [{"city": "Rome"}, {"city": None}],
            "address": {"city": "Rome", "geo": '{"lat":1.5}', "zip": None},
            "free": '{"k":[1]}',
            "anything": '{"x":1}',
            "list": '[1,"a"]',
        }
        db.forward()


def test_columns_without_a_schema_are_those_that_documents_have(tmp_path: Path) -> None:
    with wormdb.connect(tmp_path, settings=wormdb.Settings(forward_interval_ms=0)) as db:
        logs = db["logs"]
        logs.insert_many([{"_id": n, "text": f"t{n}", "n": n / 2 if n % 2 else n, "x": [n]} for n in range(20)])
        for _ in range(2):
            reading = plan(url=db.url, collection="logs")
            assert reading.schema.simpleString() == "struct<id:bigint,text:string,n:double,x:array<bigint>>"
            found = {row["id"]: row for row in reading.rows()}
            assert found[3] == {"id": 3, "text": "t3", "n": 1.5, "x": [3]}
            db.forward(["logs"])
        logs.insert({"_id": 99, "text": 7, "late": {"a": 1}})
        reading = plan(url=db.url, collection="logs")
        assert [field.dataType.simpleString() for field in reading.schema if field.name in ("text", "late")] == [
            "string",
            "string",
        ]
        found = {row["id"]: row for row in reading.rows()}
        assert (found[3]["text"], found[99]["text"], found[99]["late"]) == ('"t3"', "7", '{"a":1}')


def test_a_value_that_does_not_fit_is_null_and_whole_in_the_document(db: Database) -> None:
    db.model("Person").insert({"id": "ann", "name": "Ann", "balance": Decimal("1e-25")})
    (row,) = read(url=db.url, model="Person", columns="id, balance, _doc, _rev")
    assert (row["id"], row["balance"], row["_rev"]) == ("ann", None, db.model("Person").find_by_id("ann").rev)  # type: ignore[union-attr]  # it is there
    assert '"balance":{"$numberDecimal":"1E-25"}' in row["_doc"]


def test_dotted_columns_read_less_than_the_whole(db: Database) -> None:
    db.model("Person").insert({"id": "ann", "address": {"city": "Rome", "zip": 7}})
    assert read(url=db.url, model="Person", columns="address.city,address.zip") == [
        {"address.city": "Rome", "address.zip": 7}
    ]


def test_a_state_is_pinned_when_it_is_loaded(db: Database) -> None:
    people = db.model("Person")
    people.insert({"id": "ann", "age": 1})
    reading = plan(url=db.url, model="Person", columns="id,age")
    people.save({"id": "ann", "age": 2})
    people.insert({"id": "bob", "age": 3})
    db.forward()
    assert reading.rows() == [{"id": "ann", "age": 1}]
    assert len(read(url=db.url, model="Person")) == 2


def test_a_long_tail_is_read_by_each_worker(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wormdb.engine.commit.pinned.ENTRIES_BYTES_MAX", 100)
    people = db.model("Person")
    people.insert({"id": "ann"})
    people.insert({"id": "bob"})
    reading = plan(url=db.url, model="Person", columns="id")
    assert reading.reader.scan.state.pinned.entries is None
    people.delete("ann")
    assert reading.rows() == [{"id": "ann"}, {"id": "bob"}]


def test_an_empty_model_has_no_rows_and_all_its_columns(db: Database) -> None:
    reading = plan(url=db.url, model="Person")
    assert (reading.rows(), reading.schema.simpleString()) == ([], DDL)


def test_outer_parts_of_a_path_are_given_as_json(tmp_path: Path) -> None:
    model = {"path": "@orgs/(org:string)/@notes/(id:string)", "fields": {"text": {"type": "string"}}}
    schema = {"schemaVersion": "1.0", "models": {"Note": model}}
    with wormdb.connect(tmp_path, schema=schema) as db:
        db.model("Note", org="acme").insert({"id": "n1", "text": "hi"})
        assert read(url=db.url, model="Note", outer='{"org": "acme"}', columns="id") == [{"id": "n1"}]
        assert read(url=db.url, model="Note", outer='{"org": "other"}', columns="id") == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "it is not said where the database is"),
        ({"url": "URL", "path": "elsewhere", "model": "Person"}, "two places"),
        ({"url": "URL"}, "either the option model or the option collection"),
        ({"url": "URL", "model": "Person", "collection": "x"}, "either the option model or the option collection"),
        ({"url": "URL", "model": "Person", "aws_secret_access_key": "x"}, r"looks like a secret.*spark\.wormdb\.env"),
        ({"url": "URL", "model": "Person", "colums": "id"}, "no such option.*columns"),
        ({"url": "URL", "model": "Person", "columns": "nmae"}, "no such field.*name"),
        ({"url": "URL", "model": "Person", "columns": "id,id"}, "named twice"),
        ({"url": "URL", "model": "Person", "outer": "[1]"}, "must be a JSON object"),
        ({"url": "URL", "model": "Person", "partitions": "none"}, "it must be a number"),
        ({"url": "URL", "model": "Person", "pushdown": "maybe"}, "auto, on or off"),
        ({"url": "URL", "model": "Person", "filter": '{"age": {"$gtt": 1}}'}, "gtt"),
        ({"url": "URL", "model": "Person", "as_of": "99"}, "the newest entry is"),
        ({"url": "URL", "collection": "nothing"}, "nothing was ever written there"),
    ],
)
def test_mistakes_are_named_before_anything_runs(db: Database, options: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {name: db.url if value == "URL" else value for name, value in options.items()}
    with pytest.raises(InvalidRequestError, match=message):
        plan(**given)


def test_a_filter_may_use_functions_of_the_collection(db: Database) -> None:
    """What they stand for is sent to workers, so that all of them ask the same."""
    people = db.model("Person")
    people.insert_many([{"id": f"p{number}", "age": number} for number in range(30)])
    people.functions.register("isAdult", "age>=18")
    for _ in range(2):
        rows = read(url=db.url, model="Person", columns="id,age", filter='{"$fn": "isAdult"}')
        assert sorted(row["age"] for row in rows) == list(range(18, 30))
        people.forward()
    with pytest.raises(NotFoundError, match="Function 'other' is not registered"):
        plan(url=db.url, model="Person", filter='{"$fn": "other"}')


def test_an_unknown_model_is_not_found(db: Database) -> None:
    with pytest.raises(NotFoundError, match=r"Persn.*Person"):
        plan(url=db.url, model="Persn")


def test_columns_and_a_schema_exclude_each_other(db: Database) -> None:
    schema = spark.StructType([spark.StructField("id", spark.StringType())])
    with pytest.raises(InvalidRequestError, match="a schema was given too"):
        plan(schema, url=db.url, model="Person", columns="id")
    odd = spark.StructType([spark.StructField("age", spark.DateType())])
    with pytest.raises(InvalidRequestError, match=r"column age as date.*timestamp"):
        plan(odd, url=db.url, model="Person")
    strict = spark.StructType([spark.StructField("age", spark.LongType(), nullable=False)])
    with pytest.raises(InvalidRequestError, match=r"column age as NOT NULL.*may lack it"):
        plan(strict, url=db.url, model="Person")
    wrong = spark.StructType([spark.StructField("_rev", spark.StringType())])
    with pytest.raises(InvalidRequestError, match="column _rev as string"):
        plan(wrong, url=db.url, model="Person")


def test_the_past_before_history_is_refused_by_the_driver(db: Database) -> None:
    db.model("Person").insert({"id": "ann"})
    with pytest.raises((SnapshotTooOldError, InvalidRequestError)):
        plan(url=db.url, model="Person", as_of="2999-01-01T00:00:00Z")


def test_variables_for_the_store_are_in_no_text() -> None:
    where = Where.of({"url": "s3://b", "model": "M"}, {"AWS_SECRET_ACCESS_KEY": "hush"}, ())
    assert "hush" not in repr(where)
