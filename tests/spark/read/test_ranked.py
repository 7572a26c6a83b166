"""The nearest vectors and text searches as tables: the rows, scores and order of a query in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from tests.jobs.rig import empty_place
from tests.spark.read.rig import plan, read
from wormdb.errors import InvalidRequestError
from wormdb.format import json
from wormdb.spark import register
from wormdb.spark.read import ranked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from wormdb import Database

WORDS = ("red", "blue", "running", "shoes", "leather")
FILTERS: list[str | None] = [None, "n<20", '{"tag": {"$in": ["a", "b"]}}', "n>1000"]
SEARCHES = ["red", "run OR shoe", "shoe -red", '"red running"', '{"query": "red", "fields": ["body"]}', "nothing"]


def row(number: int) -> dict[str, Any]:
    body = " ".join(WORDS[number * step % 5] for step in (1, 2, 3))
    vector = [number % 7 - 3.5, number % 3, 1]
    return {"id": number, "n": number, "tag": "abc"[number % 3], "body": body, **({"v": vector} if number % 4 else {})}


def fill(db: Database) -> None:
    things = db["things"]
    things.create_vector_index("v", dimensions=3, distance="euclidean")
    things.create_text_index("body", language="english")
    things.insert_many([row(number) for number in range(40)])
    things.forward()
    things.insert_many([row(number) for number in range(40, 50)])
    things.delete(1)


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    with wormdb.connect(empty_place(), settings=wormdb.Settings(forward="manual")) as made:
        fill(made)
        yield made


def told(rows: list[dict[str, Any]]) -> list[tuple[Any, float, Any]]:
    return [(found["id"], found["_score"], found["n"]) for found in rows]


def found(db: Database, chosen: str | None, **asked: Any) -> list[tuple[Any, float, Any]]:
    return [(row["id"], score, row["n"]) for row, score in db["things"].find(chosen, **asked).scored()]


@settings(max_examples=30)
@given(
    st.lists(st.integers(-4, 4).map(float), min_size=3, max_size=3),
    st.sampled_from([1, 3, 60]),
    st.sampled_from(FILTERS),
    st.sampled_from([None, "red", "run OR shoe"]),
)
def test_the_nearest_are_those_of_a_query(
    db: Database, vector: list[float], k: int, chosen: str | None, search: str | None
) -> None:
    near = {"v": {"vector": vector, "k": k, "exact": True}}
    asked: dict[str, Any] = {"near": near} if search is None else {"near": near, "search": search}
    options: dict[str, Any] = {"near": json.encode(near).decode(), **({} if search is None else {"search": search})}
    given: dict[str, Any] = options if chosen is None else {**options, "filter": chosen}
    assert told(read(url=db.url, collection="things", **given)) == found(db, chosen, **asked)


@pytest.mark.parametrize("chosen", FILTERS)
@pytest.mark.parametrize("search", SEARCHES)
def test_a_search_finds_what_a_query_finds(
    db: Database, search: str, chosen: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranked, "TASK_IDS", 4)
    given: dict[str, Any] = {"search": search} if chosen is None else {"search": search, "filter": chosen}
    asked = json.parse(search, operators=True) if search.startswith("{") else search
    planned = plan(url=db.url, collection="things", **given)
    rows = told(planned.rows())
    assert rows == found(db, chosen, search=asked)
    assert len(planned.shares) == max(1, -(-len(rows) // 4))
    limited = read(url=db.url, collection="things", limit="3", **given)
    assert told(limited) == rows[:3]


def test_the_past_is_searched_too(db: Database) -> None:
    with wormdb.connect(empty_place()) as other:
        fill(other)
        number = other["things"]._ledger.view().number
        for each in range(2, 40):
            other["things"].save({"id": each, "n": -1, "v": [9, 9, 9], "body": "gone"})
        other["things"].forward()
        near = {"v": {"vector": [1, 1, 1], "k": 5}}
        rows = read(url=other.url, collection="things", near=json.encode(near).decode(), as_of=str(number))
        assert told(rows) == found(other, None, near=near, as_of=number)
        assert told(rows)[0][2] > 0
        rows = read(url=other.url, collection="things", search="red", as_of=str(number))
        assert told(rows) == found(other, None, search="red", as_of=number)


def test_columns_may_be_named_with_the_score_and_without(db: Database) -> None:
    near = '{"v": {"vector": [1, 1, 1], "k": 2}}'
    rows = read(url=db.url, collection="things", near=near, columns="_score,tag")
    assert [list(each) for each in rows] == [["_score", "tag"]] * 2
    assert read(url=db.url, collection="things", near=near, columns="n") == [{"n": each["n"]} for each in read(
        url=db.url, collection="things", near=near
    )]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"near": "embedding"}, "it must be a JSON object"),
        ({"near": "{"}, "JSON"),
        ({"near": '{"v": {"vector": [1], "top": 3}}'}, "there is no such option"),
        ({"near": '{"v": {"vector": [1, 2]}}'}, "has 3 dimensions, the vector 2"),
        ({"near": '{"w": {"vector": [1, 2]}}'}, "w"),
        ({"near": '{"v": {"vector": [1, 1, 1], "k": 1001}}'}, "from 1 to 1,000"),
        ({"search": '"red'}, "red"),
        ({"search": "red", "limit": "0"}, "it must be a number"),
        ({"limit": "5"}, "it goes with near or search"),
    ],
)
def test_mistakes_are_told(db: Database, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        read(url=db.url, collection="things", **options)
    assert words in str(raised.value)


def test_a_field_may_be_called_score_where_nothing_is_ranked(db: Database) -> None:
    with wormdb.connect(empty_place()) as other:
        other["things"].insert({"id": 1, "_score": "mine"})
        assert read(url=other.url, collection="things", columns="_score") == [{"_score": "mine"}]


def test_spark_shows_the_best_rows_and_filters_them_afterwards(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    with wormdb.connect(tmp_path) as made:
        fill(made)
        options = {"url": str(tmp_path), "collection": "things"}
        near = '{"v": {"vector": [1, 1, 1], "k": 6}}'
        frame = spark.read.format("worm").options(**options).option("near", near).load()
        rows = [(each.id, each._score, each.n) for each in frame.collect()]
        assert rows == found(made, None, near={"v": {"vector": [1, 1, 1], "k": 6}})
        assert frame.schema["_score"].dataType.simpleString() == "double"
        even = frame.filter("n % 2 = 0").select("id").collect()
        assert [each.id for each in even] == [number for number, _, n in rows if n % 2 == 0]
        searched = spark.read.format("worm").options(**options).option("search", "run -shoe").load()
        assert [(each.id, each._score, each.n) for each in searched.collect()] == found(made, None, search="run -shoe")
        assert searched.count() == len(found(made, None, search="run -shoe"))
