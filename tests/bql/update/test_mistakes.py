"""Every mistake of an update is told, with its position, before anything is applied."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bql.update.cases import NOW
from wormdb.bql.parse import parse_filter
from wormdb.bql.update.update import apply_update, parse_update
from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.settings import DOCUMENT_DEPTH_MAX, INT_MAX, UPDATE_PATHS_MAX

# Update, array filters, the position and a part of the reason of each mistake in order.
CASES: list[tuple[Any, Any, list[tuple[str, str]]]] = [
    ([{"$set": {"a": 1}}], None, [("", "document of operators")]),
    ({}, None, [("", "no operator")]),
    ({"a": 1}, None, [("", "no operator")]),
    ({"$set": {"a": 1}, "b": 2}, None, [("b", "mixed")]),
    ({"$sett": {"a": 1}}, None, [("$sett", "no operator $sett")]),
    ({"$pullAll": {"a": 1}}, None, [("$pullAll.a", "takes a list")]),
    ({"$bit": {"a": 5}}, None, [("$bit.a", "takes and, or, xor")]),
    ({"$bit": {"a": {"nand": 5}}}, None, [("$bit.a", "takes and, or, xor")]),
    ({"$bit": {"a": {"or": 0.5}}}, None, [("$bit.a", "takes and, or, xor")]),
    ({"$bit": {"a": {}}}, None, [("$bit.a", "takes and, or, xor")]),
    ({"$set": 5}, None, [("$set", "document of fields")]),
    ({"$unset": [5]}, None, [("$unset.5", "text")]),
    ({"$unset": "a"}, None, [("$unset", "document of fields")]),
    ({"$set": {"_id": 1}}, None, [("$set._id", "never changes")]),
    ({"$set": {"id": 1}}, None, [("$set.id", "never changes")]),
    ({"$unset": {"_id": 1}}, None, [("$unset._id", "never changes")]),
    ({"$inc": {"_id.x": 1}}, None, [("$inc._id.x", "never changes")]),
    ({"$setOnInsert": {"_id.x": 1}}, None, [("$setOnInsert._id.x", "never changes")]),
    ({"$rename": {"a": "_id"}}, None, [("$rename.a", "never changes")]),
    ({"$rename": {"id": "a"}}, None, [("$rename.id", "never changes")]),
    # paths
    ({"$set": {"": 1}}, None, [("$set.", "empty")]),
    ({"$set": {"a..b": 1}}, None, [("$set.a..b", "empty")]),
    ({"$set": {"a.": 1}}, None, [("$set.a.", "empty")]),
    ({"$set": {"$": 1}}, None, [("$set.$", "no array stands before")]),
    ({"$set": {"$[]": 1}}, None, [("$set.$[]", "no array stands before")]),
    ({"$set": {"a.$x": 1}}, None, [("$set.a.$x", "starts with $")]),
    ({"$set": {"a.$[1x]": 1}}, None, [("$set.a.$[1x]", "starts with $")]),
    ({"$set": {"a.$.b.$": 1}}, None, [("$set.a.$.b.$", "two segments")]),
    ({"$set": {"a.$[].b.$": 1}}, None, [("$set.a.$[].b.$", "several elements")]),
    ({"$set": {5: 1}}, None, [("$set.5", "text")]),
    ({"$set": {".".join(["a"] * 101): 1}}, None, [("$set." + ".".join(["a"] * 101), "too deep")]),
    # operands
    ({"$set": {"a": {"$x": 1}}}, None, [("$set.a", "does not start with $")]),
    ({"$set": {"a": {1, 2}}}, None, [("$set.a", "a set has no order")]),
    ({"$inc": {"a": "1"}}, None, [("$inc.a", "takes a number, not a string")]),
    ({"$inc": {"a": True}}, None, [("$inc.a", "takes a number, not a boolean")]),
    ({"$inc": {"a": INT_MAX + 1}}, None, [("$inc.a", "over 64 bits")]),
    ({"$mul": {"a": None}}, None, [("$mul.a", "takes a number, not null")]),
    ({"$min": {"a": object()}}, None, [("$min.a", "no such type")]),
    ({"$currentDate": {"a": False}}, None, [("$currentDate.a", "takes true")]),
    ({"$currentDate": {"a": {"$type": "time"}}}, None, [("$currentDate.a", "takes true")]),
    ({"$currentDate": {"a": {"$type": ["date"]}}}, None, [("$currentDate.a", "takes true")]),
    ({"$currentDate": {"a": {"$type": "date", "b": 1}}}, None, [("$currentDate.a", "takes true")]),
    ({"$pop": {"a": 2}}, None, [("$pop.a", "1 for the last")]),
    ({"$pop": {"a": True}}, None, [("$pop.a", "1 for the last")]),
    ({"$pop": {"a": []}}, None, [("$pop.a", "1 for the last")]),
    ({"$push": {"a": {"$slice": 1}}}, None, [("$push.a", "belong to $each")]),
    ({"$push": {"a": {"$each": 1}}}, None, [("$push.a.$each", "takes a list")]),
    ({"$push": {"a": {"$each": [], "$slice": 1.5}}}, None, [("$push.a.$slice", "whole number")]),
    ({"$push": {"a": {"$each": [], "$position": "0"}}}, None, [("$push.a.$position", "whole number")]),
    ({"$push": {"a": {"$each": [], "$sort": 2}}}, None, [("$push.a.$sort", "1 or -1")]),
    ({"$push": {"a": {"$each": [], "$sort": {}}}}, None, [("$push.a.$sort", "no field")]),
    (
        {"$push": {"a": {"$each": [], "$sort": {"b": "up", "$c": 1}}}},
        None,
        [
            ("$push.a.$sort.b", "1 or -1"),
            ("$push.a.$sort.$c", "starts with $"),
        ],
    ),
    ({"$push": {"a": {"$each": [], "$limit": 2}}}, None, [("$push.a.$limit", "no such modifier")]),
    ({"$addToSet": {"a": {"$each": [], "$slice": 2}}}, None, [("$addToSet.a.$slice", "$each only")]),
    ({"$addToSet": {"a": {"$each": "x"}}}, None, [("$addToSet.a.$each", "takes a list")]),
    ({"$pull": {"a": {"$gtt": 2}}}, None, [("$pull.a.$gtt", "no operator $gtt")]),
    ({"$pull": {"a": {"b": {"$size": "x"}}}}, None, [("$pull.a.b.$size", "")]),
    ({"$rename": {"a": 5}}, None, [("$rename.a", "text")]),
    ({"$rename": {"a": "a"}}, None, [("$rename.a", "the old one")]),
    ({"$rename": {"a.$[]": "b"}}, None, [("$rename.a.$[]", "through arrays")]),
    ({"$rename": {"a": "b.$"}}, None, [("$rename.a", "through arrays")]),
    # conflicts
    ({"$set": {"a": 1}, "$inc": {"a": 1}}, None, [("$inc.a", "the same value")]),
    ({"$set": {"a": 1, "a.b": 1}}, None, [("$set.a.b", "the same value")]),
    ({"$set": {"a.b": 1}, "$unset": {"a": 1}}, None, [("$unset.a", "the same value")]),
    ({"$rename": {"a": "b"}, "$set": {"a": 1}}, None, [("$set.a", "the same value")]),
    ({"$rename": {"a": "b"}, "$set": {"b.c": 1}}, None, [("$set.b.c", "the same value")]),
    ({"$rename": {"a": "a.b"}}, None, [("$rename.a.b", "the same value")]),
    ({"$set": {"a.$[]": 1, "a.0": 1}}, None, [("$set.a.0", "the same value")]),
    ({"$set": {"a.$[]": 1, "a.$": 1}}, None, [("$set.a.$", "the same value")]),
    ({"$set": {"a.$[].b": 1}, "$inc": {"a.$[].b": 1}}, None, [("$inc.a.$[].b", "the same value")]),
    (
        {"$set": {"a": 1, "b": 1}, "$inc": {"a.x": 1, "b": 1}},
        None,
        [("$inc.a.x", "the same value"), ("$inc.b", "the same value")],
    ),
    # array filters
    ({"$set": {"a.$[x]": 1}}, None, [("$set.a.$[x]", "no array filter x")]),
    ({"$set": {"a": 1}}, [{"x": 1}], [("array_filters", "x is not used")]),
    ({"$set": {"a.$[x]": 1}}, {"x": 1}, [("array_filters", "are a list"), ("$set.a.$[x]", "no array filter x")]),
    ({"$set": {"a.$[x]": 1}}, [{"x": 1}, {"x.b": 2}], [("array_filters[1]", "another array filter x")]),
    ({"$set": {"a.$[x]": 1}}, [{"x": 1}, {}], [("array_filters[1]", "not none")]),
    ({"$set": {"a.$[x]": 1}}, [{"x": 1}, {"x": 1, "y": 2}], [("array_filters[1]", "not x, y")]),
    ({"$set": {"a.$[x]": 1}}, [{"x": 1}, {"$or": [{"p": 1}, {"q": 2}]}], [("array_filters[1]", "not p, q")]),
    ({"$set": {"a.$[x]": 1}}, [{"x": 1}, {"1x": 1}], [("array_filters[1]", "not 1x")]),
    ({"$set": {"a.$[x]": 1}}, [{"x": 1}, 5], [("array_filters[1]", "not none")]),
    (
        {"$set": {"a.$[x]": 1}},
        [{"x": {"$gtt": 1}}],
        [("array_filters[0].x.$gtt", "no operator"), ("$set.a.$[x]", "no array filter x")],
    ),
    # all at once
    (
        {"$foo": {"a": 1}, "$inc": {"a": "x", "b..c": 1}, "$set": {"_id": 5}, "d": 1},
        None,
        [("$foo", ""), ("$inc.a", "number"), ("$inc.b..c", "empty"), ("$set._id", "never"), ("d", "mixed")],
    ),
]


@pytest.mark.parametrize(("update", "filters", "expected"), CASES)
def test_mistakes_name_position_reason_and_fix(update: Any, filters: Any, expected: list[tuple[str, str]]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_update(update, array_filters=filters)
    problems = caught.value.problems
    assert [path for path, _ in expected] == [problem.path for problem in problems]
    for (_, part), problem in zip(expected, problems, strict=True):
        assert part in problem.reason
        assert problem.fix


def test_dollar_needs_a_condition_on_its_array_where_the_query_is_known() -> None:
    query = parse_filter({"a.b": 5, "c": {"$exists": True}, "d": {"$not": {"$gt": 1}}, "e": {"$size": 1}})
    assert parse_update({"$set": {"a.$.x": 1}}, query=query).arrays == ("a",)
    update = {"$set": {"a.$.x": 1, "c.$": 1, "d.$": 1, "e.$": 1, "f.$": 1}}
    with pytest.raises(InvalidRequestError) as caught:
        parse_update(update, query=query)
    assert [problem.path for problem in caught.value.problems] == ["$set.c.$", "$set.d.$", "$set.e.$", "$set.f.$"]


def test_an_id_may_be_set_on_insert() -> None:
    update = parse_update({"$setOnInsert": {"id": 7}})
    assert apply_update(update, {"a": 1}, now=NOW, is_insert=True) == {"a": 1, "_id": 7}


def test_more_conflicts_than_are_told_are_still_an_error() -> None:
    names = [f"f{number}" for number in range(50)]
    with pytest.raises(InvalidRequestError) as caught:
        parse_update({"$set": dict.fromkeys(names, 1), "$inc": dict.fromkeys(names, 1)})
    assert 1 <= len(caught.value.problems) <= 50


def test_too_many_fields_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="UPDATE_PATHS_MAX"):
        parse_update({"$set": {f"f{number}": 1 for number in range(UPDATE_PATHS_MAX + 1)}})


def test_errors_of_documents_name_id_operator_and_path() -> None:
    update = parse_update({"$inc": {"a.$[].n": 1}})
    with pytest.raises(InvalidRequestError) as caught:
        apply_update(update, {"_id": "k7", "a": [{"n": 1}, {"n": "x"}]}, now=NOW)
    assert "$inc" in caught.value.what
    assert "'k7'" in caught.value.what
    assert [problem.path for problem in caught.value.problems] == ["a.1.n"]


def test_limits_have_an_error_of_their_own() -> None:
    with pytest.raises(LimitExceededError, match="over 64 bits"):
        apply_update(parse_update({"$inc": {"a": 1}}), {"a": INT_MAX}, now=NOW)
    with pytest.raises(LimitExceededError, match="ARRAY_PADDING_MAX"):
        apply_update(parse_update({"$set": {"a.99999999": 1}}), {"a": []}, now=NOW)


def test_the_deepest_path_can_be_used() -> None:
    update = parse_update({"$set": {".".join(["a"] * DOCUMENT_DEPTH_MAX): 1}})
    value: Any = apply_update(update, {}, now=NOW)
    for _ in range(DOCUMENT_DEPTH_MAX):
        value = value["a"]
    assert value == 1
