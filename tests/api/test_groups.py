"""$group, $unwind and computed fields: mongomock gives the same, and so does every way to the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mongomock
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import wormdb
from wormdb.bql.stages import ScoredRow, parse_stages, run_stages
from wormdb.errors import LimitExceededError
from wormdb.format.key import encode_key
from wormdb.format.kinds import Decimal128, equal
from wormdb.storage.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document

VALUES = st.sampled_from([0, 1, 2, 7, -3, 2.5, "x", "y", None, [], [1, 2], ["x"], [1, None], {"b": 1}])
ROWS = st.lists(
    st.dictionaries(st.sampled_from(["a", "b", "g"]), VALUES, max_size=3)
    | st.fixed_dictionaries(
        {"g": st.sampled_from(["u", "v"]), "a": st.integers(-5, 5), "t": st.lists(st.integers(0, 3), max_size=3)}
    ),
    max_size=8,
).map(lambda rows: [{"_id": number, **row} for number, row in enumerate(rows)])
PATHS = st.sampled_from(["$a", "$b", "$g", "$t", "$_id", "$g.b"])
KEYS = st.one_of(st.none(), PATHS, st.just({"x": "$a"}), st.just({"x": "$g", "y": "$b"}))
FUNCTIONS = st.one_of(
    st.tuples(st.sampled_from(["$sum", "$avg", "$min", "$max", "$push"]), PATHS).map(lambda pair: {pair[0]: pair[1]}),
    st.sampled_from([{"$sum": 1}, {"$sum": 2}, {"$push": {"i": "$_id"}}, {"$first": "$_id"}, {"$last": "$_id"}]),
)
GROUPS = st.tuples(KEYS, st.dictionaries(st.sampled_from(["m", "n", "o"]), FUNCTIONS, max_size=3)).map(
    lambda pair: {"$group": {"_id": pair[0], **pair[1]}}
)
BEFORE = st.lists(
    st.sampled_from(
        [
            {"$match": {"a": {"$gte": 0}}},
            {"$unwind": "$t"},
            {"$unwind": "$a"},
            {"$unwind": {"path": "$t", "preserveNullAndEmptyArrays": True}},
            {"$addFields": {"b": {"$ifNull": ["$a", "none"]}}},
            {"$project": {"a": 1, "g": 1, "b": {"$ifNull": ["$g", "none"]}}},
        ]
    ),
    max_size=2,
)


def made(stages: list[Any], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list(
        run_stages(parse_stages([{"$match": {}}, {"$match": {}}, *stages]), (ScoredRow(row, None) for row in rows))
    )


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: encode_key(row.get("_id")))


@settings(max_examples=300)
@given(ROWS, BEFORE, GROUPS)
def test_groups_are_those_of_mongodb(rows: list[dict[str, Any]], before: list[Any], group: dict[str, Any]) -> None:
    other: Any = mongomock.MongoClient()["x"]["rows"]
    if rows:
        other.insert_many([dict(row) for row in rows])
    try:
        # Of no rows MongoDB makes no group, and mongomock one.
        expected = list(other.aggregate([*before, group])) if list(other.aggregate(before)) else []
    except TypeError:  # mongomock has no order of values of different types
        reject()
    assert in_order(made([*before, group], rows)) == in_order(expected)


def test_a_group_of_fields_is_the_same_from_columns_and_from_rows(things: Collection[Document]) -> None:
    for key in (None, "$g", "$n", "$sub.x", "$_id", "$missing", "$tags"):
        for part in (
            {},
            {"n": {"$sum": 1}},
            {"a": {"$sum": "$n"}, "b": {"$avg": "$d"}, "c": {"$min": "$g"}, "d": {"$max": "$_id"}},
        ):
            group = {"$group": {"_id": key, **part}}
            for match in ({}, {"n": {"$gt": 1}}, {"n": 77}):
                quick = things.aggregate([{"$match": match}, group])
                plain = things.aggregate([{"$match": match}, {"$skip": 0}, group])
                assert parse_stages([{"$match": match}, group]).tally is not None
                assert parse_stages([{"$match": match}, {"$skip": 0}, group]).tally is None
                assert len(quick) == len(plain)
                assert all(equal(one, other) for one, other in zip(quick, plain, strict=True)), group


@pytest.fixture(scope="module")
def things() -> Iterator[Collection[Document]]:
    with wormdb.connect(MemoryStore()) as database:
        made = database["things"]
        kinds = [1, 1.0, Decimal128("1.0"), "1", "x", None, [1, 2], {"a": 1}, True]
        rows = [
            {
                "id": n,
                "g": kinds[n % 9],
                "n": n % 5,
                "d": Decimal128(f"{n}.10"),
                "sub": {"x": n % 2},
                "tags": ["a"] * (n % 2),
            }
            for n in range(40)
        ]
        made.insert_many([*rows, {"id": 100}])
        made.forward()
        made.insert_many([{"id": 101, "g": "x", "n": 2.5}])
        yield made


def test_a_group_directly_behind_the_filter_costs_what_its_aggregation_costs() -> None:
    with wormdb.connect(MemoryStore()) as database:
        made = database["things"]
        made.insert_many([{"id": number, "g": number % 3, "n": number} for number in range(50)])
        made.forward()
        made.aggregate(group_by="g", sum="n")
        before = database.cost()
        rows = made.aggregate([{"$group": {"_id": "$g", "s": {"$sum": "$n"}}}])
        after = database.cost()
        assert [row["s"] for row in rows] == [sum(range(0, 50, 3)), sum(range(1, 50, 3)), sum(range(2, 50, 3))]
        assert (after.gets - before.gets, after.puts - before.puts) == (1, 0)


def test_no_rows_are_no_group() -> None:
    with wormdb.connect(MemoryStore()) as database:
        assert database["none"].aggregate([{"$group": {"_id": None, "n": {"$sum": 1}}}]) == []
        assert database["none"].aggregate([{"$skip": 0}, {"$group": {"_id": None, "n": {"$sum": 1}}}]) == []


def test_too_many_groups_and_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wormdb.bql.row_stages.GROUPS_MAX", 3)
    rows = [{"_id": number} for number in range(4)]
    for group, words in (
        ({"_id": "$_id"}, "too many groups"),
        ({"_id": None, "all": {"$push": "$_id"}}, "too many values of a \\$push"),
        ({"_id": None, "all": {"$addToSet": "$_id"}}, "too many values of an \\$addToSet"),
    ):
        with pytest.raises(LimitExceededError, match=words):
            made([{"$group": group}], rows)


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        (
            [{"$unwind": {"path": "$t", "includeArrayIndex": "at", "preserveNullAndEmptyArrays": True}}],
            [
                {"_id": 1, "t": "x", "at": 0},
                {"_id": 1, "t": "y", "at": 1},
                {"_id": 2, "at": None},
                {"_id": 3, "t": "z", "at": None},
            ],
        ),
        (
            [{"$unwind": "$t"}, {"$sortByCount": "$t"}],
            [{"_id": "x", "count": 1}, {"_id": "y", "count": 1}, {"_id": "z", "count": 1}],
        ),
        (
            [{"$group": {"_id": None, "all": {"$addToSet": "$t"}, "n": {"$count": {}}}}],
            [{"_id": None, "all": ["z", [], ["x", "y"]], "n": 3}],
        ),
        (
            [{"$match": {"_id": 3}}, {"$addFields": {"sub.deep": "$t", "t": "$$REMOVE"}}],
            [{"_id": 3, "sub": {"deep": "z"}}],
        ),
        ([{"$limit": 1}, {"$project": {"_id": 0, "id": "$_id"}}], [{"_id": 1}]),
        ([{"$limit": 1}, {"$project": {"_id": 0, "n": {"$size": "$t"}}}], [{"n": 2}]),
        ([{"$limit": 1}, {"$project": {"t": {"$slice": ["$t", -1]}}}], [{"_id": 1, "t": ["y"]}]),
        ([{"$limit": 1}, {"$project": {"t": {"$slice": 1}}}], [{"_id": 1, "t": ["x"]}]),
        ([{"$limit": 1}, {"$project": {"new": {"a": "$t"}}}], [{"_id": 1, "new": {"a": ["x", "y"]}}]),
        ([{"$limit": 1}, {"$replaceWith": {"it": "$t"}}], [{"it": ["x", "y"]}]),
    ],
    ids=str,
)
def test_stages_that_mongomock_lacks_do_what_the_manual_says(stages: list[Any], expected: list[Any]) -> None:
    rows: list[dict[str, Any]] = [{"_id": 1, "t": ["x", "y"]}, {"_id": 2, "t": []}, {"_id": 3, "t": "z"}]
    assert made(stages, rows) == expected
