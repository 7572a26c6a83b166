"""Expressions: the values that MongoDB's manual gives, one by one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from wormdb.bql.expressions import parse_expression
from wormdb.bql.mistakes import Mistakes
from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.format.kinds import MISSING, Decimal128, ObjectId, equal
from wormdb.settings import INT_MAX

AT = datetime(2026, 2, 3, 4, 5, 6, 789000, UTC)
ROW: dict[str, Any] = {
    "_id": 7,
    "n": 6,
    "f": 2.5,
    "d": Decimal128("1.10"),
    "big": INT_MAX,
    "zero": 0,
    "null": None,
    "text": "Grüße, ab",
    "yes": True,
    "at": AT,
    "oid": ObjectId("5" * 24),
    "list": [3, 1, 2],
    "empty": [],
    "mixed": [1, "x", None, 2.5],
    "docs": [{"k": "a", "v": 1}, {"k": "b"}, {"k": "c", "v": 3}],
    "sub": {"x": 1, "y": {"z": 2}},
}


def value(written: Any) -> Any:
    mistakes = Mistakes()
    expression = parse_expression(written, mistakes, "e")
    mistakes.settle("the expression cannot be used")
    return expression(ROW)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("$n", 6),
        ("$id", 7),
        ("$_id", 7),
        ("$sub.y.z", 2),
        ("$sub.nothing", MISSING),
        ("$docs.k", ["a", "b", "c"]),
        ("$docs.v", [1, 3]),
        ("$$ROOT.n", 6),
        ("$$CURRENT.n", 6),
        ("$$ROOT", ROW),
        ("$$REMOVE", MISSING),
        ("plain", "plain"),
        (5, 5),
        ({"$literal": "$n"}, "$n"),
        ({"a": "$n", "b": {"c": "$nothing", "d": 1}}, {"a": 6, "b": {"d": 1}}),
        (["$n", "$nothing"], [6, None]),
        ({"$add": ["$n", 1, 2]}, 9),
        ({"$add": ["$n", 0.5]}, 6.5),
        ({"$add": ["$d", 1]}, Decimal128("2.10")),
        ({"$add": ["$n", "$null"]}, None),
        ({"$add": ["$n", "$nothing"]}, None),
        ({"$add": ["$at", 1000]}, AT.replace(second=7)),
        ({"$subtract": ["$n", 10]}, -4),
        ({"$subtract": ["$at", "$at"]}, 0),
        ({"$subtract": ["$at", 6000]}, AT.replace(second=0)),
        ({"$multiply": ["$n", 2, 0.5]}, 6.0),
        ({"$divide": ["$n", 4]}, 1.5),
        ({"$divide": ["$n", 3]}, 2.0),
        ({"$divide": ["$d", 2]}, Decimal128("0.55")),
        ({"$mod": [-7, 3]}, -1),
        ({"$mod": [7, -3]}, 1),
        ({"$mod": [7.5, 2]}, 1.5),
        ({"$abs": -3}, 3),
        ({"$abs": ["$null"]}, None),
        ({"$ceil": "$f"}, 3.0),
        ({"$floor": "$f"}, 2.0),
        ({"$round": "$f"}, 2.0),
        ({"$round": [3.5]}, 4.0),
        ({"$round": [2.345, 1]}, 2.3),
        ({"$round": [1250, -2]}, 1200),
        ({"$trunc": [-2.7]}, -2.0),
        ({"$trunc": ["$d", 1]}, Decimal128("1.1")),
        ({"$eq": ["$n", 6.0]}, True),
        ({"$eq": ["$nothing", None]}, False),
        ({"$ne": ["$n", 6]}, False),
        ({"$gt": ["$text", 5]}, True),
        ({"$gte": ["$n", 6]}, True),
        ({"$lt": ["$nothing", None]}, True),
        ({"$lte": ["$n", 5]}, False),
        ({"$cmp": ["$n", 7]}, -1),
        ({"$and": ["$n", "$yes"]}, True),
        ({"$and": ["$n", "$zero", {"$divide": [1, 0]}]}, False),
        ({"$and": []}, True),
        ({"$or": ["$null", "$nothing", "$zero", 0.0, Decimal128("0")]}, False),
        ({"$or": ["", {"$divide": [1, 0]}]}, True),
        ({"$not": ["$zero"]}, True),
        ({"$not": "$n"}, False),
        ({"$cond": [{"$gt": ["$n", 5]}, "many", "few"]}, "many"),
        ({"$cond": {"if": "$null", "then": 1, "else": "$nothing"}}, MISSING),
        ({"$ifNull": ["$nothing", "$null", "$n"]}, 6),
        ({"$ifNull": ["$nothing", "$null"]}, None),
        ({"$switch": {"branches": [{"case": "$zero", "then": 1}, {"case": "$n", "then": 2}]}}, 2),
        ({"$switch": {"branches": [{"case": "$zero", "then": 1}], "default": 3}}, 3),
        ({"$concat": ["$text", "!"]}, "Grüße, ab!"),
        ({"$concat": ["$text", "$nothing"]}, None),
        ({"$toUpper": "$text"}, "GRüßE, AB"),
        ({"$toLower": "$text"}, "grüße, ab"),
        ({"$toUpper": "$null"}, ""),
        ({"$strLenCP": "$text"}, 9),
        ({"$substrCP": ["$text", 2, 3]}, "üße"),
        ({"$substrCP": ["$text", 7, -1]}, "ab"),
        ({"$substrCP": ["$nothing", 0, 1]}, ""),
        ({"$split": ["$text", ", "]}, ["Grüße", "ab"]),
        ({"$toString": "$n"}, "6"),
        ({"$toString": 1.0}, "1"),
        ({"$toString": "$f"}, "2.5"),
        ({"$toString": True}, "true"),
        ({"$toString": "$oid"}, "5" * 24),
        ({"$toString": "$at"}, "2026-02-03T04:05:06.789Z"),
        ({"$toString": "$null"}, None),
        ({"$size": "$list"}, 3),
        ({"$size": [["$n", 1]]}, 2),
        ({"$isArray": "$list"}, True),
        ({"$isArray": "$n"}, False),
        ({"$arrayElemAt": ["$list", -1]}, 2),
        ({"$arrayElemAt": ["$list", 9]}, MISSING),
        ({"$arrayElemAt": ["$null", 0]}, None),
        ({"$first": "$list"}, 3),
        ({"$last": "$empty"}, MISSING),
        ({"$in": [1.0, "$list"]}, True),
        ({"$in": ["x", "$list"]}, False),
        ({"$slice": ["$list", 2]}, [3, 1]),
        ({"$slice": ["$list", -2]}, [1, 2]),
        ({"$slice": ["$list", 1, 1]}, [1]),
        ({"$slice": ["$list", -9, 2]}, [3, 1]),
        ({"$concatArrays": ["$list", "$empty", ["x"]]}, [3, 1, 2, "x"]),
        ({"$concatArrays": ["$list", "$null"]}, None),
        ({"$mergeObjects": ["$sub", {"x": 9}, "$null"]}, {"x": 9, "y": {"z": 2}}),
        ({"$mergeObjects": "$docs"}, {"k": "c", "v": 3}),
        ({"$sum": "$list"}, 6),
        ({"$sum": ["$n", "$list", 1]}, 7),
        ({"$sum": "$mixed"}, 3.5),
        ({"$avg": "$list"}, 2.0),
        ({"$avg": "$empty"}, None),
        ({"$min": "$list"}, 1),
        ({"$max": ["$n", "$null", 9]}, 9),
        ({"$filter": {"input": "$docs", "as": "d", "cond": {"$gte": ["$$d.v", 1]}}}, [ROW["docs"][0], ROW["docs"][2]]),
        ({"$filter": {"input": "$list", "cond": {"$gt": ["$$this", "$sub.x"]}}}, [3, 2]),
        ({"$filter": {"input": "$null", "cond": True}}, None),
        ({"$map": {"input": "$docs", "as": "d", "in": "$$d.v"}}, [1, None, 3]),
        ({"$map": {"input": "$list", "in": {"$multiply": ["$$this", "$n"]}}}, [18, 6, 12]),
        ({"$reduce": {"input": "$list", "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}}, 6),
        ({"$reduce": {"input": "$nothing", "initialValue": 0, "in": "$$this"}}, None),
        ({"$year": "$at"}, 2026),
        ({"$month": "$at"}, 2),
        ({"$dayOfMonth": "$at"}, 3),
        ({"$dayOfWeek": "$at"}, 3),
        ({"$dayOfYear": "$at"}, 34),
        ({"$hour": "$at"}, 4),
        ({"$minute": "$at"}, 5),
        ({"$second": "$at"}, 6),
        ({"$millisecond": "$at"}, 789),
        ({"$year": "$null"}, None),
        (
            {"$dateToString": {"date": "$at", "format": "%Y-%m-%d %%%H:%M:%S.%L %j %u %w %G-%V %z"}},
            "2026-02-03 %04:05:06.789 034 2 3 2026-06 +0000",
        ),
        ({"$dateToString": {"date": "$nothing", "onNull": "never"}}, "never"),
        ({"$dateTrunc": {"date": "$at", "unit": "day"}}, datetime(2026, 2, 3, tzinfo=UTC)),
        ({"$dateTrunc": {"date": "$at", "unit": "week"}}, datetime(2026, 2, 1, tzinfo=UTC)),
        ({"$dateTrunc": {"date": "$at", "unit": "quarter"}}, datetime(2026, 1, 1, tzinfo=UTC)),
        ({"$dateTrunc": {"date": "$at", "unit": "hour"}}, datetime(2026, 2, 3, 4, tzinfo=UTC)),
    ],
    ids=str,
)
def test_an_expression_has_the_value_that_the_manual_says(written: Any, expected: Any) -> None:
    found = value(written)
    assert found is expected if expected is MISSING else equal(found, expected), found


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ({"$divide": ["$n", "$zero"]}, "it divides by zero"),
        ({"$mod": ["$n", 0]}, "it divides by zero"),
        ({"$add": ["$n", "$text"]}, "it takes numbers, not str"),
        ({"$add": ["$at", "$at"]}, "one date at most"),
        ({"$concat": ["$n"]}, "it takes text, not int"),
        ({"$size": "$nothing"}, "the value is missing"),
        ({"$size": "$n"}, "the value is int"),
        ({"$year": "$text"}, "it takes a date, not str"),
        ({"$switch": {"branches": [{"case": False, "then": 1}]}}, "no branch is true"),
        ({"$dateToString": {"date": "$at", "format": "%Q"}}, "there is no %Q"),
        ({"$dateTrunc": {"date": "$at", "unit": "age"}}, "there is no unit 'age'"),
        ({"$round": ["$f", 1000]}, "from -20 to 100"),
        ({"$map": {"input": "$n", "in": 1}}, "its input must be an array"),
        ({"$mergeObjects": ["$n"]}, "it takes documents"),
    ],
    ids=str,
)
def test_a_value_that_an_operator_does_not_take_is_refused(written: Any, words: str) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        value(written)
    assert words in str(raised.value)
    assert raised.value.fix


def test_an_integer_over_64_bits_is_never_another_number() -> None:
    for written in ({"$add": ["$big", 1]}, {"$multiply": ["$big", 2]}, {"$round": ["$big", -1]}):
        with pytest.raises(LimitExceededError, match="64 bits"):
            value(written)


def test_an_expression_is_nested_only_so_deep() -> None:
    written: Any = 1
    for _ in range(300):
        written = {"$abs": written}
    with pytest.raises(InvalidRequestError, match="levels deep"):
        value(written)
