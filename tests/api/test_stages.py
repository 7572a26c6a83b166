"""Aggregations by stages: what they give is what a query and plain Python give, and every mistake is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mongomock
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from wormdb.bql.stages import ScoredRow, parse_stages, run_stages
from wormdb.errors import InvalidRequestError, NotFoundError
from wormdb.storage.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document

ROWS = [
    {
        "id": number,
        "lang": "de" if number % 3 else "en",
        "n": number % 4,
        "title": title,
        "v": [number - 3.0, 1.0],
        "w": [number, 9],
    }
    for number, title in enumerate(["red shoes", "blue shoes", "red boots", "a lamp", "the red red lamp", "shoes", "x"])
]
NEAR = {"path": "v", "queryVector": [1, 1], "limit": 4}


@pytest.fixture(scope="module")
def things() -> Iterator[Collection[Document]]:
    with wormdb.connect(MemoryStore()) as database:
        made = database["things"]
        made.create_vector_index("v", dimensions=2, distance="euclidean")
        made.create_vector_index("w", dimensions=2, distance="cosine", name="byAngle")
        made.create_text_index("title", language="english")
        made.insert_many(ROWS[:5])
        made.forward()
        made.insert_many(ROWS[5:])
        yield made


def scored(found: Any) -> list[tuple[Any, float]]:
    return [(row["id"], score) for row, score in found.scored()]


@pytest.mark.parametrize(
    "stages",
    [
        [{"$match": {"n": 1}}],
        [{"$vectorSearch": NEAR}],
        [{"$vectorSearch": NEAR}, {"$project": {"title": 1, "score": {"$meta": "vectorSearchScore"}}}],
        [{"$match": {"$text": {"$search": "red"}}}, {"$addFields": {"score": {"$meta": "textScore"}}}],
        [{"$match": {}}, {"$unset": "v"}, {"$sort": {"_id": -1}}, {"$limit": 3}],
    ],
)
def test_rows_have_their_id_under_both_names(things: Collection[Document], stages: list[dict[str, Any]]) -> None:
    rows = things.aggregate(stages)
    assert rows
    for row in rows:
        found = things.find_by_id(row["id"])
        assert found is not None
        assert row["_id"] == row.get("_id") == getattr(row, "id") == found["_id"] == found.id  # noqa: B009 - as users write it
        assert "_id" not in dict(row)


def test_rows_without_an_id_have_it_under_no_name(things: Collection[Document]) -> None:
    last: tuple[dict[str, Any], ...] = ({"$project": {"_id": 0, "n": 1}}, {"$count": "n"})
    for stage in last:
        for row in things.aggregate([{"$match": {}}, stage]):
            assert row.get("_id") is None
            with pytest.raises(KeyError, match="_id"):
                row["_id"]


def test_a_vector_search_is_a_query_with_near(things: Collection[Document]) -> None:
    near = {"v": {"vector": [1, 1], "k": 4}}
    shown = {"$project": {"title": 1, "score": {"$meta": "vectorSearchScore"}}}
    for more in ({}, {"exact": True}, {"numCandidates": 100}):
        rows = things.aggregate([{"$vectorSearch": {**NEAR, "index": "v", **more}}, shown])
        assert [list(row) for row in rows] == [["id", "title", "score"]] * 4
        assert [(row["id"], row["score"]) for row in rows] == scored(things.find(near=near))
    german = things.aggregate([{"$vectorSearch": {**NEAR, "index": "v", "filter": {"lang": "de"}}}, shown])
    assert [(row["id"], row["score"]) for row in german] == scored(things.find({"lang": "de"}, near=near))


def test_the_index_that_is_named_says_the_distance(things: Collection[Document]) -> None:
    for name, path in (("v", "v"), ("byAngle", "w")):
        asked = {**NEAR, "index": name, "path": path}
        stages: list[Any] = [{"$vectorSearch": asked}, {"$set": {"s": {"$meta": "vectorSearchScore"}}}]
        near = {path: {"vector": [1, 1], "k": 4}}
        assert [(row["id"], row["s"]) for row in things.aggregate(stages)] == scored(things.find(near=near))
    with pytest.raises(NotFoundError, match="did you mean 'byAngle'"):
        things.aggregate([{"$vectorSearch": {**NEAR, "index": "byAngel"}}])
    with pytest.raises(NotFoundError, match="vector index 'text'"):
        things.aggregate([{"$vectorSearch": {**NEAR, "index": "text"}}])
    with pytest.raises(InvalidRequestError, match="index v is of v"):
        things.aggregate([{"$vectorSearch": {**NEAR, "index": "v", "path": "w"}}])


def test_a_match_with_text_has_scores_that_can_be_shown_and_sorted_by(things: Collection[Document]) -> None:
    score = {"$meta": "textScore"}
    match = {"$match": {"$text": {"$search": "red shoe"}, "lang": "de"}}
    expected = scored(things.find({"$text": {"$search": "red shoe"}, "lang": "de"}))
    rows = things.aggregate([match, {"$sort": {"score": score}}, {"$project": {"score": score}}])
    assert [(row["id"], row["score"]) for row in rows] == expected
    rows = things.aggregate([match, {"$addFields": {"s": score}}, {"$sort": {"n": 1}}])
    assert [row["n"] for row in rows] == sorted(row["n"] for row in rows)
    assert {row["id"]: row["s"] for row in rows} == dict(expected)
    late: list[Any] = [match, {"$unset": ["v", "title"]}, {"$sort": {"x": score}}, {"$limit": 2}]
    assert [row["id"] for row in things.aggregate(late)] == [identity for identity, _ in expected][:2]
    assert things.aggregate([match, {"$count": "n"}]) == [{"n": len(expected)}]
    assert things.aggregate([match, {"$match": {"n": 77}}, {"$count": "n"}]) == []


def test_rows_of_a_vector_search_are_filtered_and_cut_afterwards(things: Collection[Document]) -> None:
    stages: list[Any] = [
        {"$vectorSearch": {**NEAR, "index": "v"}},
        {"$match": {"lang": "de"}},
        {"$skip": 1},
        {"$limit": 1},
    ]
    found = [row["id"] for row in things.find(near={"v": {"vector": [1, 1], "k": 4}})]
    german = [identity for identity in found if ROWS[identity]["lang"] == "de"]
    assert [row["id"] for row in things.aggregate(stages)] == german[1:2]


FIELDS = st.sampled_from(["n", "lang", "title", "w"])
STAGES = st.one_of(
    st.sampled_from([{"$match": {"n": {"$gt": 1}}}, {"$match": {"lang": "de"}}, {"$match": {}}, {"$count": "all"}]),
    st.dictionaries(FIELDS, st.just(1), min_size=1, max_size=2).map(lambda shown: {"$project": {"_id": 1, **shown}}),
    st.lists(FIELDS, min_size=1, max_size=2, unique=True).map(lambda names: {"$unset": names}),
    st.tuples(st.sampled_from(["n", "lang"]), st.sampled_from([1, -1])).map(
        lambda pair: {"$sort": {pair[0]: pair[1], "_id": 1}}
    ),
    st.integers(0, 4).map(lambda number: {"$skip": number}),
    st.integers(1, 6).map(lambda number: {"$limit": number}),
)


@settings(max_examples=150)
@given(st.lists(STAGES, max_size=5))
def test_stages_are_those_of_mongodb(things: Collection[Document], stages: list[dict[str, Any]]) -> None:
    other: Any = mongomock.MongoClient()["x"]["things"]
    other.insert_many([{"_id": row["id"], **{name: row[name] for name in row if name != "id"}} for row in ROWS])
    # Mongomock has no $unset, which is short for an exclusion.
    known = [{"$project": dict.fromkeys(each["$unset"], 0)} if "$unset" in each else each for each in stages]
    expected = list(other.aggregate(known))
    found = [_plain(row) for row in things.aggregate(stages)]
    # The two sides differ in where they count nothing: MongoDB gives no row, and mongomock one of 0.
    assert found == [row for row in expected if row != {"all": 0}]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    shown = {"_id" if name == "id" else name: value for name, value in row.items()}
    return {name: value for name, value in shown.items() if name not in {"createdAt", "updatedAt"}}


@pytest.mark.parametrize(
    ("stages", "path", "words"),
    [
        ([{"$match": {}}, {"$vectorSearch": NEAR}], "[1].$vectorSearch", "it must be the first stage"),
        ([{"$limit": 1}, {"$match": {"$text": {"$search": "x"}}}], "[1].$match.$text", "only the first stage"),
        ([{"$vectorSearch": {**NEAR, "k": 3}}], "[0].$vectorSearch.k", "there is no such option"),
        ([{"$vectorSearch": {**NEAR, "limit": 0}}], "[0].$vectorSearch.limit", "from 1 to 1,000"),
        ([{"$vectorSearch": {**NEAR, "limit": 1_001}}], "[0].$vectorSearch.limit", "from 1 to 1,000"),
        ([{"$vectorSearch": {**NEAR, "numCandidates": 3}}], "[0].$vectorSearch.numCandidates", "from limit to 10,000"),
        ([{"$vectorSearch": {**NEAR, "path": 3}}], "[0].$vectorSearch.path", "the name of a field"),
        ([{"$vectorSearch": {**NEAR, "index": 3}}], "[0].$vectorSearch.index", "the name of a vector index"),
        ([{"$vectorSearch": {**NEAR, "queryVector": "x"}}], "[0].$vectorSearch.queryVector", "array of numbers"),
        ([{"$vectorSearch": {**NEAR, "exact": 1}}], "[0].$vectorSearch.exact", "true or false"),
        ([{"$vectorSearch": {**NEAR, "filter": 3}}], "[0].$vectorSearch.filter", "it must be a document"),
        (
            [{"$vectorSearch": {**NEAR, "filter": {"$text": {"$search": "x"}}}}],
            "[0].$vectorSearch.filter",
            "find(near=…, search=…)",
        ),
        ([{"$vectorSearch": 3}], "[0].$vectorSearch", "it must be a document"),
        ([{"$search": {}}], "[0].$search", "there is no such stage"),
        ([{"$group": {"n": {"$sum": 1}}}], "[0].$group", "it must have an _id"),
        ([{"$group": {"_id": None, "n": {"$summ": 1}}}], "[0].$group.n.$summ", "there is no such accumulator"),
        ([{"$group": {"_id": None, "n": 3}}], "[0].$group.n", "has one accumulator"),
        ([{"$group": {"_id": None, "a.b": {"$sum": 1}}}], "[0].$group.a.b", "at the top"),
        ([{"$group": {"_id": None, "id": {"$sum": 1}}}], "[0].$group.id", "id and _id are one field"),
        ([{"$group": {"_id": {"$frob": "$a"}}}], "[0].$group._id.$frob", "there is no operator $frob of expressions"),
        ([{"$group": {"_id": None, "n": {"$count": 1}}}], "[0].$group.n.$count", "an empty document"),
        ([{"$unwind": "tags"}], "[0].$unwind", "with a $"),
        ([{"$unwind": {"path": "$tags", "keep": 1}}], "[0].$unwind.keep", "there is no such option"),
        ([{"$unwind": {"path": "$t", "preserveNullAndEmptyArrays": 1}}], "[0].$unwind.preserve", "true or false"),
        ([{"$replaceRoot": "$a"}], "[0].$replaceRoot", "it has a newRoot"),
        ([{"$addFields": {"a": {"$add": ["$b", {"$frob": 1}]}}}], "[0].$addFields.a.$add[1].$frob", "no operator"),
        ([{"$addFields": {"a": {"$subtract": [1]}}}], "[0].$addFields.a.$subtract", "it has 1 operands"),
        ([{"$addFields": {"a": {"$cond": [1, 2]}}}], "[0].$addFields.a.$cond", "it has 2 operands"),
        ([{"$addFields": {"a": {"$switch": {"branches": []}}}}], "[0].$addFields.a.$switch", "a list of branches"),
        ([{"$addFields": {"a": {"$ifNull": "$b"}}}], "[0].$addFields.a.$ifNull", "a list of values"),
        ([{"$addFields": {"a": {"$add": [1], "$abs": 1}}}], "[0].$addFields.a", "stands alone"),
        ([{"$addFields": {"a": "$$NOW"}}], "[0].$addFields.a", "there is no variable $$NOW"),
        ([{"$addFields": {"a": {"$map": {"input": "$b"}}}}], "[0].$addFields.a.$map", "it has no in"),
        ([{"$addFields": {"a": {"$dateToString": "$b"}}}], "[0].$addFields.a.$dateToString", "a document of options"),
        ([{"$project": {"b": 0, "a": "$c"}}], "[0].$project", "a computed field goes with fields that are shown"),
        ([{"$lookup": {"from": "x"}}], "[0].$lookup", "there is no such stage (use populate, or a second query"),
        ([{"$out": "x"}], "[0].$out", "there is no such stage (write the rows yourself"),
        ([{"$facet": {}}], "[0].$facet", "there is no such stage (call aggregate once for each"),
        ([{"$mach": {}}], "[0].$mach", "there is no such stage"),
        ([{"$match": {}, "$limit": 1}], "[0]", "a document with one name"),
        ([{"$project": {"s": {"$meta": "textScore"}}}], "[0].$project.s", "rows have no textScore"),
        (
            [{"$match": {"$text": {"$search": "x"}}}, {"$sort": {"s": {"$meta": "vectorSearchScore"}}}],
            "[1].$sort",
            "rows have no vectorSearchScore",
        ),
        ([{"$vectorSearch": NEAR}, {"$set": {"s": {"$meta": "searchScore"}}}], "[1].$set.s", "there is no"),
        (
            [{"$vectorSearch": NEAR}, {"$project": {"v": 0, "s": {"$meta": "vectorSearchScore"}}}],
            "[1].$project",
            "goes with fields that are shown",
        ),
        ([{"$sort": {"n": 7}}], "[0].$sort", ""),
        ([{"$sort": {}}], "[0].$sort", "a document of fields"),
        ([{"$skip": -1}], "[0].$skip", "0 or more"),
        ([{"$limit": 0}], "[0].$limit", "1 or more"),
        ([{"$count": "a.b"}], "[0].$count", "the name of a field"),
        ([{"$unset": 3}], "[0].$unset", "a field, or a list of fields"),
        ([{"$match": {"n": {"$gtt": 1}}}, {"$limit": 1}], "", ""),
        ([{"$limit": 1}, {"$match": {"n": {"$gtt": 1}}}], "[1].$match", ""),
        ("[]", "", "stages are a list"),
    ],
)
def test_mistakes_are_told_with_their_place(things: Collection[Document], stages: Any, path: str, words: str) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        things.aggregate(stages)
    assert words in str(raised.value)
    assert any(problem.path.startswith(path) for problem in raised.value.problems)


def test_stages_go_with_no_other_arguments(things: Collection[Document]) -> None:
    with pytest.raises(InvalidRequestError, match="stages and count together"):
        things.aggregate([], count=True)  # type: ignore[call-overload]  # this is what is tested


def test_the_past_and_snapshots_take_stages() -> None:
    with wormdb.connect(MemoryStore()) as database:
        made = database["things"]
        made.insert_many(ROWS)
        made.create_vector_index("v", dimensions=2)
        number = made._ledger.view().number
        made.delete_many({})
        assert len(made.aggregate([{"$vectorSearch": NEAR}], as_of=number)) == 4
        assert made.aggregate([{"$vectorSearch": NEAR}]) == []
        with database.snapshot() as then:
            made.insert_many(ROWS)
            assert then["things"].aggregate([{"$limit": 1}]) == []
        assert len(made.aggregate([])) == 7


def test_an_index_that_is_not_there_is_told(things: Collection[Document]) -> None:
    with pytest.raises(InvalidRequestError, match="no vector index on z is ready"):
        things.aggregate([{"$vectorSearch": {**NEAR, "path": "z"}}])
    with pytest.raises(InvalidRequestError, match="has 2 dimensions, the vector 3"):
        things.aggregate([{"$vectorSearch": {**NEAR, "index": "v", "queryVector": [1, 2, 3]}}])


def test_a_score_alone_is_shown_with_the_id() -> None:
    asked = parse_stages([{"$vectorSearch": NEAR}, {"$project": {"s": {"$meta": "vectorSearchScore"}}}])
    assert list(run_stages(asked, [ScoredRow({"_id": 1, "a": 2}, 0.5)])) == [{"_id": 1, "s": 0.5}]
    asked = parse_stages([{"$vectorSearch": NEAR}, {"$project": {"_id": 0, "s": {"$meta": "vectorSearchScore"}}}])
    assert list(run_stages(asked, [ScoredRow({"_id": 1, "a": 2}, 0.5)])) == [{"s": 0.5}]
