"""How filters are read: every form, every mistake, every limit."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from bson import Decimal128, Regex
from bson.code import Code
from hypothesis import given, settings
from hypothesis import strategies as st

from wormdb.bql.match import compile_filter
from wormdb.bql.parse import FIELD_OPERATORS, LOGICAL_OPERATORS, parse_filter
from wormdb.bql.regex import compile_regex
from wormdb.bql.tree import EVERYTHING, And, Compare, ElemMatch, Exists, In, Not, Or, RegexMatch, Type
from wormdb.errors import InvalidRequestError, LimitExceededError, MissingExtraError
from wormdb.settings import FILTER_CONDITIONS_MAX, FILTER_DEPTH_MAX, FILTER_VALUES_MAX, REGEX_BYTES_MAX

A = ("a",)


@pytest.mark.parametrize(
    ("written", "tree"),
    [
        ({}, EVERYTHING),
        ({"a": 1}, Compare(A, "eq", 1)),
        ({"a.b.0": 1}, Compare(("a", "b", "0"), "eq", 1)),
        ({"id": 1}, Compare(("_id",), "eq", 1)),
        ({"a": {"$ne": 1}}, Not(Compare(A, "eq", 1))),
        ({"a": {"$nin": [2, 1, 2]}}, Not(In(A, (1, 2)))),
        ({"a": {"$in": {1}}}, In(A, (1,))),
        ({"a": {"$in": (3, "x", None)}}, In(A, (None, 3, "x"))),
        ({"a": {"$gt": 1, "$lt": 5}}, And((Compare(A, "gt", 1), Compare(A, "lt", 5)))),
        ({"a": 1, "b": 2}, And((Compare(A, "eq", 1), Compare(("b",), "eq", 2)))),
        ({"$nor": [{"a": 1}]}, Not(Compare(A, "eq", 1))),
        ({"$or": [{"a": 1}, {"a": 2}]}, Or((Compare(A, "eq", 1), Compare(A, "eq", 2)))),
        ({"$and": [{"a": 1}]}, Compare(A, "eq", 1)),
        ({"$not": {"a": 1}}, Not(Compare(A, "eq", 1))),
        ({"a": {"$exists": False}}, Not(Exists(A))),
        ({"a": {"$type": ["number", 2, "string"]}}, Type(A, ("decimal", "double", "int", "long", "string"))),
        ({"a": re.compile("x", re.IGNORECASE)}, RegexMatch(A, "x", "i")),
        ({"a": Regex("x", "mi")}, RegexMatch(A, "x", "im")),
        ({"a": {"$options": "si", "$regex": "x"}}, RegexMatch(A, "x", "is")),
        ({"a": {"$regex": re.compile("x"), "$options": "i"}}, RegexMatch(A, "x", "i")),
        ({"a": Decimal("1.5")}, Compare(A, "eq", Decimal128("1.5"))),
        ({"a": datetime(2024, 1, 1, tzinfo=UTC)}, Compare(A, "eq", datetime(2024, 1, 1, tzinfo=UTC))),
        ({"a": {"$elemMatch": {"$gt": 1}}}, ElemMatch(A, Compare((), "gt", 1), "value")),
        ({"a": {"$elemMatch": {"id": 1}}}, ElemMatch(A, Compare(("id",), "eq", 1), "document")),
        ({"a": {"$all": [{"$elemMatch": {"$gt": 1}}]}}, ElemMatch(A, Compare((), "gt", 1), "value")),
    ],
)
def test_a_filter_becomes_a_tree(written: dict[str, Any], tree: Any) -> None:
    assert parse_filter(written) == tree


def test_within_a_document_id_is_an_ordinary_name() -> None:
    assert parse_filter({"id": 1}, embedded=True) == Compare(("id",), "eq", 1)
    assert parse_filter({"$or": [{"id": 1}, {"$not": {"id": 2}}]}, embedded=True) == Or(
        (Compare(("id",), "eq", 1), Not(Compare(("id",), "eq", 2)))
    )


def problems_of(written: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidRequestError) as caught:
        parse_filter(written)
    assert all(problem.reason and problem.fix for problem in caught.value.problems)
    return [(problem.path, f"{problem.reason}: {problem.fix}") for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("written", "place", "told"),
    [
        ([], "", "a filter is a document"),
        ({5: 1}, "5", "a field name is text"),
        ({"a..b": 1}, "a..b", "empty"),
        ({"": 1}, "", "empty"),
        ({"a.$b": 1}, "a.$b", "starts with $"),
        ({"a": {"$gtt": 1}}, "a.$gtt", "did you mean '$gt'"),
        ({"a": {"$startswith": "x"}}, "a.$startswith", "did you mean '$startsWith'"),
        ({"a": {"$zzzzz": 1}}, "a.$zzzzz", "known are"),
        ({"$orr": []}, "$orr", "did you mean '$or'"),
        ({"$gt": 1}, "$gt", '{"field": {"$gt": …}}'),
        ({"a": {"$gt": 1, "b": 2}}, "a.b", "mixed"),
        ({"a": {"b": 2, "$gt": 1}}, "a.b", "mixed"),
        ({"a": {"$gt": 1, 5: 2}}, "a.5", "mixed"),
        ({"a": {"$or": [{"$gt": 1}]}}, "a.$or", '{"$or": [{"a": …}, …]}'),
        ({"$or": {}}, "$or", "a list of one filter at least"),
        ({"$and": []}, "$and", "a list of one filter at least"),
        ({"$or": [{"a": 1}, 5]}, "$or[1]", "a filter is a document"),
        ({"$or": [{"a": {"$size": "x"}}]}, "$or[0].a.$size", "whole number"),
        ({"$not": 5}, "$not", "a filter is a document"),
        ({"a": {"$not": 5}}, "a.$not", "$ne"),
        ({"a": {"$not": {}}}, "a.$not", "takes operators"),
        ({"a": {"$elemMatch": 5}}, "a.$elemMatch", "takes a document"),
        ({"a": {"$elemMatch": {"$gt": 1, "x": 1}}}, "a.$elemMatch.x", "mixed"),
        ({"a": {"$elemMatch": {"$or": [{"$gt": 1}, {"x": 1}]}}}, "a.$elemMatch.$or[1]", "operators on the element"),
        ({"a": {"$elemMatch": {"$not": 5}}}, "a.$elemMatch.$not", "a filter is a document"),
        ({"a": {"$elemMatch": {"$gt": 1, "$not": 5}}}, "a.$elemMatch.$not", "takes operators"),
        ({"a": {"$all": [{"$elemMatch": {}}, 5]}}, "a.$all[1]", "$elemMatch in every place"),
        ({"a": {"$all": [{"$gt": 5}]}}, "a.$all[0]", "takes values"),
        ({"a": {"$all": 5}}, "a.$all", "takes a list"),
        ({"a": {"$in": "x"}}, "a.$in", "not text"),
        ({"a": {"$in": {"x": 1}}}, "a.$in", "not a document"),
        ({"a": {"$in": [{"$gt": 1}]}}, "a.$in", "an operator stands where a value"),
        ({"a": {"$eq": {"$gt": 1}}}, "a.$eq", "an operator stands where a value"),
        ({"a": {"x": {"$gt": 1}}}, "a", "does not start with $"),
        ({"a": {"$ne": re.compile("x")}}, "a.$ne", "not a regular expression"),
        ({"a": {"$gt": Regex("x")}}, "a.$gt", "not a regular expression"),
        ({"a": {"$contains": Regex("x")}}, "a.$contains", "not a regular expression"),
        ({"a": {"$exists": {"$gt": 1}}}, "a.$exists", "an operator stands where a value"),
        ({"a": {"$exists": object()}}, "a.$exists", "no such type"),
        ({"a": {"$regex": "x", "$options": None}}, "a.$regex", "there is no option null"),
        ({"a": {"$regex": r"(*UCP)\bx"}}, "a.$regex", "words of Unicode"),
        ({"a": {"$size": -1}}, "a.$size", "not negative"),
        ({"a": {"$size": 1.5}}, "a.$size", "whole"),
        ({"a": {"$size": True}}, "a.$size", "not a boolean"),
        ({"a": {"$size": float("nan")}}, "a.$size", "whole"),
        ({"a": {"$mod": [4]}}, "a.$mod", "two numbers"),
        ({"a": {"$mod": [4, 0, 0]}}, "a.$mod", "two numbers"),
        ({"a": {"$mod": [0.9, 0]}}, "a.$mod", "divided by 0"),
        ({"a": {"$mod": [4, "0"]}}, "a.$mod", "not text"),
        ({"a": {"$mod": [float("inf"), 0]}}, "a.$mod", "2^63"),
        ({"a": {"$mod": [2**63, 0]}}, "a.$mod", "2^63"),
        ({"a": {"$type": "strin"}}, "a.$type", "did you mean 'string'"),
        ({"a": {"$type": 99}}, "a.$type", "names or numbers"),
        ({"a": {"$type": True}}, "a.$type", "names or numbers"),
        ({"a": {"$type": []}}, "a.$type", "names no type"),
        ({"a": {"$startsWith": 5}}, "a.$startsWith", "takes text"),
        ({"a": {"$endsWith": Regex("x")}}, "a.$endsWith", "not a regular expression"),
        ({"a": {"$regex": 5}}, "a.$regex", "a pattern as text"),
        ({"a": {"$regex": "(?=x)"}}, "a.$regex", "RE2 says: invalid perl operator: (?="),
        ({"a": {"$regex": r"(a)\1"}}, "a.$regex", "RE2 says"),
        ({"a": {"$regex": "a\0"}}, "a.$regex", "NUL"),
        ({"a": {"$regex": "x", "$options": "q"}}, "a.$regex", "there is no option q"),
        ({"a": {"$regex": "x", "$options": 5}}, "a.$regex", "there is no option int"),
        ({"a": {"$regex": Regex("x", "i"), "$options": "m"}}, "a.$regex", "options of its own"),
        ({"a": {"$regex": "x" * (REGEX_BYTES_MAX + 1)}}, "a.$regex", "REGEX_BYTES_MAX"),
        ({"a": {"$in": [Regex("(?=x)")]}}, "a.$in", "RE2 says"),
        ({"a": Regex("x", "l")}, "a", "there is no option l"),
        ({"a": {"$options": "i"}}, "a.$options", "belongs to $regex"),
        ({"$where": "this.a"}, "$where", "no code runs"),
        ({"$expr": {"$gt": ["$a", 1]}}, "$expr", "no code runs"),
        ({"a": Code("x")}, "a", "no code"),
        ({"a": {"$near": [0, 0]}}, "a.$near", "places"),
        ({"$text": {"$search": "x"}}, "$text", "at the top of the filter"),
        ({"a": {1, 2}}, "a", "a set has no order"),
        ({"a": object()}, "a", "BSON has no such type"),
        ({"a": 2**63}, "a", "2^63"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_a_fix(written: Any, place: str, told: str) -> None:
    ((path, text),) = problems_of(written)
    assert path == place
    assert told in text


def test_all_mistakes_are_told_at_once() -> None:
    written = {"a": {"$gtt": 1, "$size": -1}, "$or": [{"b": {"$in": 5}}, {"c": {"$not": {"$mod": []}}}], "$x": 1}
    places = [path for path, _ in problems_of(written)]
    assert places == ["a.$gtt", "a.$size", "$or[0].b.$in", "$or[1].c.$not.$mod", "$x"]


def test_every_operator_is_known_in_its_place() -> None:
    for name in FIELD_OPERATORS:
        assert all("there is no operator" not in text for _, text in problems_or_none({"a": {name: object()}}))
    for name in LOGICAL_OPERATORS:
        assert all("there is no operator" not in text for _, text in problems_or_none({name: object()}))


def problems_or_none(written: Any) -> list[tuple[str, str]]:
    try:
        parse_filter(written)
    except InvalidRequestError:
        return problems_of(written)
    return []


def nested(levels: int, wrap: Any) -> dict[str, Any]:
    written: dict[str, Any] = {"a": 1}
    for _ in range(levels):
        written = wrap(written)
    return written


@pytest.mark.parametrize(
    "wrap",
    [
        lambda child: {"$and": [child, {"b": 1}]},
        lambda child: {"$not": child},
        lambda child: {"a": {"$elemMatch": child}},
    ],
)
def test_the_depth_is_limited(wrap: Any) -> None:
    deepest = compile_filter(parse_filter(nested(FILTER_DEPTH_MAX - 1, wrap)))
    assert deepest({}) in {True, False}
    with pytest.raises(LimitExceededError, match="FILTER_DEPTH_MAX"):
        parse_filter(nested(FILTER_DEPTH_MAX, wrap))


def test_a_filter_within_itself_ends() -> None:
    written: dict[str, Any] = {}
    written["$and"] = [written, {"a": 1}]
    with pytest.raises(LimitExceededError, match="FILTER_DEPTH_MAX"):
        parse_filter(written)
    inner: dict[str, Any] = {}
    inner["$not"] = inner
    with pytest.raises(LimitExceededError, match="FILTER_DEPTH_MAX"):
        parse_filter({"a": inner})


def test_conditions_and_values_are_limited() -> None:
    parse_filter({"$or": [{"a": number} for number in range(FILTER_CONDITIONS_MAX)]})
    for item in ({"a": 1}, {}, 5, {"a": {"$gt": 1}}):
        with pytest.raises(LimitExceededError, match="FILTER_CONDITIONS_MAX"):
            parse_filter({"$or": [item] * (FILTER_CONDITIONS_MAX + 1)})
    with pytest.raises(LimitExceededError, match="FILTER_VALUES_MAX"):
        parse_filter({"a": {"$in": [1] * (FILTER_VALUES_MAX // 2)}, "b": {"$nin": [2] * (FILTER_VALUES_MAX // 2 + 1)}})


def test_without_re2_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(_: str) -> Any:
        raise ModuleNotFoundError

    compile_regex.cache_clear()
    monkeypatch.setattr("importlib.import_module", absent)
    with pytest.raises(MissingExtraError, match=r"wormdb\[regex\]"):
        parse_filter({"a": {"$regex": "x"}})
    parse_filter({"a": {"$startsWith": "x"}})


@pytest.mark.parametrize(
    ("pattern", "text", "is_found"),
    [
        ("a  b", "ab", True),
        ("a[ ]b", "a b", True),
        ("a[ ]b", "ab", False),
        ("[[:alpha:] ]+ x", "a x", True),
        ("[]  ] x", "]x", True),
        ("[]  ] x", "x", False),
        ("[]  ] x", " x", True),
        (r"[\] ]x", " x", True),
        ("a # b", "a", True),
        ("a \\# b", "a#b", True),
        ("a # b\n c", "ac", True),
        ("[#]", "#", True),
        ("[^ ]x", " x", False),
    ],
)
def test_option_x_leaves_classes_and_escapes_alone(pattern: str, text: str, is_found: bool) -> None:
    assert compile_regex(pattern, "x")(text) is is_found


@settings(max_examples=2 * settings().max_examples)
@given(
    pattern=st.text(alphabet="ab^.é ", max_size=4),
    text=st.text(alphabet="abé^. \n\0", max_size=8),
    options=st.sampled_from(["", "m", "s", "i"]),
)
def test_a_pattern_of_plain_text_is_found_as_any_other(pattern: str, text: str, options: str) -> None:
    flags = {"": 0, "m": re.MULTILINE, "s": re.DOTALL, "i": re.IGNORECASE}[options]
    assert compile_regex(pattern, options)(text) is (re.search(pattern, text, flags) is not None)
