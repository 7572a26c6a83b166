"""Filters and sorts on a command line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from bson import ObjectId
from hypothesis import given
from hypothesis import strategies as st

from wormdb.bql.parse import parse_filter
from wormdb.bql.sorting import parse_sort
from wormdb.bql.text import parse_filter_text, parse_sort_text
from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.settings import FILTER_CONDITIONS_MAX
from wormdb.testing.strategies import strings

if TYPE_CHECKING:
    from wormdb.bql.tree import Filter


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("", {}),
        ("  ", {}),
        ("status=active", {"status": "active"}),
        ("status=active,tags~vip", {"status": "active", "tags": {"$contains": "vip"}}),
        ("amount>100", {"amount": {"$gt": 100}}),
        ("amount>=100", {"amount": {"$gte": 100}}),
        ("amount<1e3", {"amount": {"$lt": 1000.0}}),
        ("amount<=-0.5", {"amount": {"$lte": -0.5}}),
        ("a!=5", {"a": {"$ne": 5}}),
        (" a = 5 , b > 6 ", {"a": 5, "b": {"$gt": 6}}),
        ("a.b.0=x", {"a.b.0": "x"}),
        ("id=7", {"_id": 7}),
        ("a=true", {"a": True}),
        ("a=false", {"a": False}),
        ("a=null", {"a": None}),
        ("a!=null", {"a": {"$ne": None}}),
        ('a="true"', {"a": "true"}),
        ("a='5'", {"a": "5"}),
        ("a=True", {"a": "True"}),
        ("a=007", {"a": "007"}),
        ("a=1.", {"a": "1."}),
        ("a=+1", {"a": "+1"}),
        (r"a=\5", {"a": "5"}),
        (r"a=x\,y", {"a": "x,y"}),
        (r"a=x\\y", {"a": "x\\y"}),
        (r"a=x\ny", {"a": "x\ny"}),
        ('name="Smith, John"', {"name": "Smith, John"}),
        (r'name="say \"hi\""', {"name": 'say "hi"'}),
        ("name='it\\'s'", {"name": "it's"}),
        ("name=O'Neil", {"name": "O'Neil"}),
        ("name=New York", {"name": "New York"}),
        ('a=""', {"a": ""}),
        ("a=b=c", {"a": "b=c"}),
        ("a~>", {"a": {"$contains": ">"}}),
        ('a="="', {"a": "="}),
        (r"a=\==", {"a": "=="}),
        ('"odd=name"=1', {"odd=name": 1}),
        (r"odd\=name=1", {"odd=name": 1}),
        ("at>2024-01-31", {"at": {"$gt": datetime(2024, 1, 31, tzinfo=UTC)}}),
        ("at>2024-01-31T10:30Z", {"at": {"$gt": datetime(2024, 1, 31, 10, 30, tzinfo=UTC)}}),
        ("at>2024-01-31 10:30:05.25", {"at": {"$gt": datetime(2024, 1, 31, 10, 30, 5, 250000, tzinfo=UTC)}}),
        ("at=2024-01-31T01:00:00+01:00", {"at": datetime(2024, 1, 31, tzinfo=UTC)}),
        ('at="2024-01-31"', {"at": "2024-01-31"}),
        ("at=2024-01", {"at": "2024-01"}),
        ('tags=["a","b,]"],c=1', {"tags": ["a", "b,]"], "c": 1}),
        ('_id={"$oid":"507f1f77bcf86cd799439011"}', {"_id": ObjectId("507f1f77bcf86cd799439011")}),
        ('a={"x": {"y": [1]}} ', {"a": {"x": {"y": [1]}}}),
        (' {"a": {"$gt": 5}, "$or": [{"b": 1}]}', {"a": {"$gt": 5}, "$or": [{"b": 1}]}),
        ("é=ü", {"é": "ü"}),
    ],
)
def test_a_text_becomes_the_same_tree_as_a_filter(text: str, written: dict[str, Any]) -> None:
    assert parse_filter_text(text) == parse_filter(written)


@pytest.mark.parametrize(
    ("text", "mistakes"),
    [
        ("status", [(7, "operator is missing")]),
        ("=5", [(1, "field is missing")]),
        ("a=1,", [(5, "field is missing")]),
        ("a=1,,b=2", [(5, "field is missing")]),
        (",", [(1, "field is missing"), (2, "field is missing")]),
        ("a=", [(3, "value is missing")]),
        ("a>,b=1", [(3, "value is missing")]),
        ("a==", [(3, "begins with =")]),
        ("a==5,b>= =6,c===7", [(3, "begins with ="), (10, "begins with ="), (15, "begins with =")]),
        ("a!5", [(2, "operator is missing")]),
        ("a..b=1,c", [(1, "empty"), (9, "operator is missing")]),
        ('a="x', [(3, "quote is not closed")]),
        ('a="x" y', [(7, "comma is missing")]),
        ("a=x\\", [(4, "nothing follows")]),
        ("a=[1,2", [(3, "not closed")]),
        ("a=[1,,2]", [(3, "")]),
        ('a={"$gt":1}', [(3, "$gt")]),
        ("a=2024-13-01", [(3, "not a date")]),
        ("a=9223372036854775808", [(3, "2^63")]),
        ("a=" + "9" * 5000, [(3, "64 bits")]),
        ("$a=1", [(1, "starts with $")]),
    ],
)
def test_a_mistake_is_told_with_its_column(text: str, mistakes: list[tuple[int, str]]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_filter_text(text)
    found = caught.value.problems
    assert [problem.path for problem in found] == [f"column {column}" for column, _ in mistakes]
    assert all(told in problem.reason for problem, (_, told) in zip(found, mistakes, strict=True))
    assert all(problem.fix for problem in found)


def test_the_message_points_at_the_mistake() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_filter_text("status=active,tags vip")
    assert str(caught.value) == (
        "the filter cannot be read\n"
        "  status=active,tags vip\n"
        "                        ^\n"
        "column 23: an operator is missing (write one of >= <= != = > < ~)"
    )


def test_the_caret_stands_below_the_place_in_a_long_text() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_filter_text(f"a={'x' * 500},b,c={'y' * 500}")
    _, shown, caret, _ = str(caught.value).split("\n")
    assert len(shown) < 130
    assert shown[caret.index("^") - 1] == "b"


def test_mistakes_in_json_are_those_of_filters() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_filter_text('{"a": {"$gtt": 1}}')
    assert [problem.path for problem in caught.value.problems] == ["a.$gtt"]
    with pytest.raises(InvalidRequestError, match="line 1, column"):
        parse_filter_text('{"a": ')


def test_conditions_are_limited() -> None:
    parse_filter_text(",".join(["a=1"] * FILTER_CONDITIONS_MAX))
    with pytest.raises(LimitExceededError, match="FILTER_CONDITIONS_MAX"):
        parse_filter_text(",".join(["a=1"] * (FILTER_CONDITIONS_MAX + 1)))


SIGNS = {"=": "$eq", ">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte", "!=": "$ne", "~": "$contains"}


def quoted(text: str, quote: str) -> str:
    return quote + text.replace("\\", "\\\\").replace(quote, f"\\{quote}") + quote


@given(
    parts=st.lists(
        st.tuples(st.sampled_from(["a", "b.c", "x y", "odd,name", "'q'"]), st.sampled_from(sorted(SIGNS)), strings()),
        min_size=1,
        max_size=4,
    ),
    quote=st.sampled_from("\"'"),
)
def test_whatever_is_quoted_is_text(parts: list[tuple[str, str, str]], quote: str) -> None:
    text = ",".join(f"{quoted(name, quote)}{sign}{quoted(value, quote)}" for name, sign, value in parts)
    written = {"$and": [{name: {SIGNS[sign]: value}} for name, sign, value in parts]}
    assert parse_filter_text(text) == parse_filter(written)


@given(text=st.text(alphabet="ab=<>!~,\"'\\[]{}:.$ 1-", max_size=20))
def test_any_text_is_read_or_refused_with_a_fix(text: str) -> None:
    tree, fix = read_or_fix(text)
    assert fix if tree is None else parse_filter(tree.to_filter()) == tree


def read_or_fix(text: str) -> tuple[Filter | None, str]:
    try:
        return parse_filter_text(text), ""
    except InvalidRequestError as error:
        return None, error.fix


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("", None),
        ("name", "name"),
        ("name:asc", "name"),
        ("name:desc", "-name"),
        ("-name", "-name"),
        (" a , -b.c ,d:desc", ["a", "-b.c", "-d"]),
        ("a:b", [("a:b", 1)]),
        ("a:b:desc", [("a:b", -1)]),
    ],
)
def test_a_sort_is_typed(text: str, written: Any) -> None:
    assert parse_sort_text(text) == parse_sort(written)


@pytest.mark.parametrize("text", [",", "a,,b", "-", "a,a:desc"])
def test_a_mistake_of_a_sort_is_told(text: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_sort_text(text)
    assert caught.value.problems
