from __future__ import annotations

from typing import Any

import pytest

from tests.bql.update.cases import NOW
from wormdb.bql.parse import parse_filter
from wormdb.bql.update.update import parse_update
from wormdb.bql.update.upsert import check_replacement, equality_document, upsert_document
from wormdb.errors import InvalidRequestError
from wormdb.format.kinds import equal

# Filter, update, the document that is inserted when nothing matched.
CASES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"a": 1}, {"$set": {"b": 2}}, {"a": 1, "b": 2}),
    ({"a": {"$eq": 1}}, {"$set": {"b": 2}}, {"a": 1, "b": 2}),
    ({"_id": 7}, {"$inc": {"n": 1}}, {"_id": 7, "n": 1}),
    ({"id": 7, "A": 1}, {"$inc": {"n": 1}}, {"_id": 7, "A": 1, "n": 1}),
    ({}, {"$setOnInsert": {"id": 7, "a": 1}}, {"_id": 7, "a": 1}),
    ({"_id": 7}, {"$setOnInsert": {"_id": 7, "a": 1}}, {"_id": 7, "a": 1}),
    # fields in the order of their paths, those of the update behind
    ({"c": 1, "a": 2}, {"$set": {"b": 3}}, {"a": 2, "c": 1, "b": 3}),
    # dotted paths make documents, numbers in them are names
    ({"a.b": 1, "a.c": 2}, {"$set": {"d": 3}}, {"a": {"b": 1, "c": 2}, "d": 3}),
    ({"a.0": 1}, {"$set": {"d": 3}}, {"a": {"0": 1}, "d": 3}),
    # values of all kinds
    ({"a": {"x": 1}, "b": [1, 2], "c": None}, {"$set": {"d": 3}}, {"a": {"x": 1}, "b": [1, 2], "c": None, "d": 3}),
    # within $and; one branch of $or is the branch
    ({"$and": [{"a": 1}, {"$and": [{"b": 2}, {"c": {"$gt": 5}}]}]}, {"$set": {"d": 3}}, {"a": 1, "b": 2, "d": 3}),
    ({"$or": [{"a": 1}]}, {"$set": {"d": 3}}, {"a": 1, "d": 3}),
    ({"a": {"$all": [1]}}, {"$set": {"d": 3}}, {"a": 1, "d": 3}),
    # what is no equality says nothing
    (
        {"a": {"$gt": 1}, "b": {"$in": [1]}, "c": {"$ne": 1}, "e": {"$regex": "x"}, "$or": [{"f": 1}, {"g": 1}]},
        {"$set": {"d": 3}},
        {"d": 3},
    ),
    ({"a": {"$elemMatch": {"b": 1}}, "$nor": [{"c": 1}]}, {"$set": {"d": 3}}, {"d": 3}),
    ({"a": {"$eq": 1, "$lt": 5}}, {"$set": {"d": 3}}, {"a": 1, "d": 3}),
    # the update is applied to the equalities
    ({"a": 1}, {"$inc": {"a": 5}}, {"a": 6}),
    ({"a": [1]}, {"$push": {"a": 2}}, {"a": [1, 2]}),
    ({"a": 1, "b": 2}, {"$unset": {"a": 1}}, {"b": 2}),
    ({"a": [1, 2]}, {"$inc": {"a.$[]": 5}}, {"a": [6, 7]}),
]


@pytest.mark.parametrize(("query", "update", "expected"), CASES)
def test_upserts_begin_with_the_equalities_of_the_filter(
    query: dict[str, Any], update: dict[str, Any], expected: dict[str, Any]
) -> None:
    made = upsert_document(parse_filter(query), parse_update(update), now=NOW)
    assert equal(expected, made), made


@pytest.mark.parametrize(
    ("query", "update", "reason"),
    [
        ({"a": 1, "$and": [{"a": 1}]}, {"$set": {"d": 3}}, "the same value"),
        ({"a": {"$all": [1, 2]}}, {"$set": {"d": 3}}, "the same value"),
        ({"a": {"b": 1}, "a.c": 1}, {"$set": {"d": 3}}, "the same value"),
        ({"_id.x": 1}, {"$set": {"d": 3}}, "a part of an id"),
        ({"_id": 7}, {"$setOnInsert": {"_id": 8}}, "two ids"),
        ({"a": 1}, {"$set": {"a.b": 3}}, "not a document"),
        ({"a": [1]}, {"$set": {"a.$": 3}}, "matched no element"),
        ({"b": 1}, {"$set": {"a.$[]": 3}}, "there is no such field"),
    ],
)
def test_upserts_that_describe_no_document(query: dict[str, Any], update: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidRequestError, match=reason):
        upsert_document(parse_filter(query), parse_update(update), now=NOW)


def test_all_overlaps_are_told_at_once() -> None:
    query = parse_filter({"a": 1, "a.b": 1, "c": 2, "$and": [{"c": 2}]})
    with pytest.raises(InvalidRequestError) as caught:
        equality_document(query)
    assert [problem.path for problem in caught.value.problems] == ["a.b", "c"]


def test_a_replacement_keeps_the_id_and_nothing_else() -> None:
    assert list(check_replacement({"b": 1, "a": (2,)}, identity=7).items()) == [("_id", 7), ("b", 1), ("a", [2])]
    assert list(check_replacement({"b": 1, "id": 7}, identity=7)) == ["_id", "b"]
    assert check_replacement({"b": 1, "_id": 7.0}, identity=7) == {"_id": 7, "b": 1}
    assert check_replacement({"b": 1, "id": 7}) == {"_id": 7, "b": 1}
    assert check_replacement({"b": 1}) == {"b": 1}
    assert check_replacement({}, identity=7) == {"_id": 7}


def test_mistakes_of_replacements() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        check_replacement({"$set": {"a": 1}, "b": 1, "$inc": {}}, identity=7)
    assert [problem.path for problem in caught.value.problems] == ["$set", "$inc"]
    with pytest.raises(InvalidRequestError, match="is not the id 7"):
        check_replacement({"_id": 8}, identity=7)
    with pytest.raises(InvalidRequestError, match="is not the id 7"):
        check_replacement({"_id": 7, "id": 8})
    with pytest.raises(InvalidRequestError, match="mapping"):
        check_replacement([("a", 1)], identity=7)  # type: ignore[arg-type] # that is the mistake
