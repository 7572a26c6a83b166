"""Orders of documents: how they are written, and what they mean."""

from __future__ import annotations

from functools import cmp_to_key
from typing import Any

import pytest
from bson import Decimal128, MaxKey, MinKey
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.bql.sort_oracle import NOTHING, Refused, sort_rows
from tests.bql.written import NAMES, SMALL_DOCUMENTS
from wormdb.bql.sorting import SortField, SortSpec, parse_sort, sort_key
from wormdb.errors import InvalidRequestError
from wormdb.format.key import encode_key
from wormdb.format.kinds import MISSING
from wormdb.format.order import compare
from wormdb.settings import SORT_FIELDS_MAX

NAME = SortField(("name",))
AGE_DOWN = SortField(("age",), descending=True)


@pytest.mark.parametrize(
    ("written", "fields"),
    [
        (None, ()),
        ([], ()),
        ({}, ()),
        ("name", (NAME,)),
        ("-age", (AGE_DOWN,)),
        (["name", "-age"], (NAME, AGE_DOWN)),
        (("name", "-age"), (NAME, AGE_DOWN)),
        ([("name", "asc"), ("age", "desc")], (NAME, AGE_DOWN)),
        ([["name", 1], ["age", -1]], (NAME, AGE_DOWN)),
        (("age", "desc"), (AGE_DOWN,)),
        (("age", -1), (AGE_DOWN,)),
        ({"name": 1, "age": -1}, (NAME, AGE_DOWN)),
        ({"name": "ascending", "age": "descending"}, (NAME, AGE_DOWN)),
        ({"field": "age", "order": "desc"}, (AGE_DOWN,)),
        ({"field": 1, "order": -1}, (SortField(("field",)), SortField(("order",), descending=True))),
        ("a.b", (SortField(("a", "b")),)),
        ("id", (SortField(("_id",)),)),
        (["id", "name"], (SortField(("_id",)),)),
        ([("-odd", "asc")], (SortField(("-odd",)),)),
    ],
)
def test_a_sort_is_written_in_many_ways(written: Any, fields: tuple[SortField, ...]) -> None:
    assert parse_sort(written) == SortSpec(fields)


def test_a_sort_has_a_text() -> None:
    assert str(parse_sort([("a.b", 1), ("c", -1)])) == "a.b,-c"
    assert parse_sort(str(parse_sort("-a"))) == parse_sort("-a")


@pytest.mark.parametrize(
    ("written", "places"),
    [
        (5, [""]),
        ("", [""]),
        ("-", [""]),
        ("$a", [""]),
        ({"a": 2}, ["a"]),
        ({"a": True}, ["a"]),
        ({"a": None, "b": "up"}, ["a", "b"]),
        ([("a", "up"), ("b..c", 1), 5], ["[0]", "[1]", "[2]"]),
        (["a", "-a"], ["[1]"]),
        (["id", "_id"], ["[1]"]),
        ([f"f{number}" for number in range(SORT_FIELDS_MAX + 1)], [""]),
    ],
)
def test_every_mistake_of_a_sort_is_told(written: Any, places: list[str]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_sort(written)
    assert [problem.path for problem in caught.value.problems] == places
    assert all(problem.fix for problem in caught.value.problems)


def ordered(written: Any, values: list[Any]) -> list[Any]:
    documents = [{"_id": number, "a": value} for number, value in enumerate(values) if value is not MISSING]
    documents += [{"_id": number} for number, value in enumerate(values) if value is MISSING]
    documents.sort(key=sort_key(parse_sort(written)), reverse=False)
    return [document.get("a", MISSING) for document in documents]


MIXED = [MinKey(), [], None, -1, Decimal128("0.5"), 1.5, "a", {"x": 1}, [[1]], b"b", False, True, MaxKey()]


def test_types_come_in_the_order_of_mongodb() -> None:
    assert ordered("a", MIXED[::-1]) == MIXED
    assert ordered("-a", MIXED) == MIXED[::-1]


def test_a_missing_field_sorts_as_null_and_an_empty_array_below() -> None:
    assert ordered("a", [0, MISSING, [], None]) == [[], MISSING, None, 0]
    assert ordered("-a", [[], MISSING, None, 0]) == [0, None, MISSING, []]


def test_of_an_array_the_least_or_the_greatest_element_counts() -> None:
    assert ordered("a", [4, [5, 1], 0, [9, 3]]) == [0, [5, 1], [9, 3], 4]
    assert ordered("-a", [6, [5, 1], 0, [9, 3]]) == [[9, 3], 6, [5, 1], 0]


def test_ties_are_broken_by_id_in_the_direction_of_the_first_field() -> None:
    documents = [{"_id": number, "a": 1, "b": number % 2} for number in (3, 1, 2, 4)]

    def ids(written: Any) -> list[int]:
        return [document["_id"] for document in sorted(documents, key=sort_key(parse_sort(written)))]

    assert ids("a") == [1, 2, 3, 4]
    assert ids("-a") == [4, 3, 2, 1]
    assert ids(["a", "-b"]) == [1, 3, 2, 4]
    assert ids(["-a", "b"]) == [4, 2, 3, 1]
    assert ids(None) == [1, 2, 3, 4]
    assert ids("-id") == [4, 3, 2, 1]


def test_fields_of_one_array_are_taken_from_one_element() -> None:
    first = {"_id": 1, "a": [{"x": 1, "y": 9}, {"x": 2, "y": 0}]}
    second = {"_id": 2, "a": {"x": 1, "y": 5}}
    assert sorted([first, second], key=sort_key(parse_sort(["a.x", "a.y"]))) == [second, first]


def test_fields_of_two_arrays_are_sorted_too() -> None:
    key = sort_key(parse_sort(["a", "-b"]))
    assert key({"_id": 1, "a": [3, 1], "b": [2, 7]}) == key({"_id": 1, "a": 1, "b": 7})


PATHS = st.lists(NAMES, min_size=1, max_size=3).map(tuple).filter(lambda path: path[0] not in {"id", "1"})
SPECS = st.lists(st.builds(SortField, PATHS, st.booleans()), min_size=1, max_size=3, unique_by=lambda field: field.path)


ITEMS = st.recursive(
    st.sampled_from([None, 0, 1, 2, "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["v", "w"]), inner, max_size=2),
    max_leaves=8,
)
ITEM_PATHS = [
    "items",
    "items.v",
    "items.0",
    "items.1",
    "items.0.v",
    "items.1.v",
    "items.v.0",
    "items.0.0",
    "items.0.v.w",
]


def first_key(document: dict[str, Any], fields: list[SortField]) -> bytes:
    """The key by which the oracle sorts; documents that it refuses are left out."""
    try:
        rows = sort_rows(document, [field.path for field in fields])
    except Refused:
        assume(False)
    return min(
        b"".join(
            encode_key(MISSING if value is NOTHING else value, descending=field.descending)
            for value, field in zip(row, fields, strict=True)
        )
        for row in rows
    )


@settings(max_examples=4 * settings().max_examples)
@given(
    items=st.lists(ITEMS, max_size=3) | ITEMS,
    written=st.lists(st.sampled_from(ITEM_PATHS), min_size=1, max_size=2, unique=True),
    down=st.booleans(),
)
def test_positions_and_what_documents_lack_sort_as_in_mongodb(items: Any, written: list[str], down: bool) -> None:
    fields = [SortField(tuple(path.split(".")), descending=down) for path in written]
    document = {"_id": 1, "items": items}
    assert sort_key(SortSpec(tuple(fields)))(document) == first_key(document, fields) + encode_key(1, descending=down)


@settings(max_examples=2 * settings().max_examples)
@given(document=SMALL_DOCUMENTS, fields=SPECS)
def test_the_key_is_the_first_of_those_that_an_index_of_mongodb_would_hold(
    document: dict[str, Any], fields: list[SortField]
) -> None:
    identity = encode_key(document.get("_id"), descending=fields[0].descending)
    if type(document.get("_id")) not in {list, dict}:
        assert sort_key(SortSpec(tuple(fields)))(document) == first_key(document, fields) + identity


@pytest.mark.parametrize(
    ("path", "values", "ids"),
    [
        # no such position, an element without the field, and no array at all are null; then what is there
        (
            "items.0.v",
            [[{"v": 2}], [], [{"w": 1}, {"v": 0}], MISSING, [{"v": 1}, {"v": 9}], [7], 5],
            [1, 2, 3, 5, 6, 4, 0],
        ),
        ("items.1", [[5, 2], [9], [5, None], [], [0, 1]], [1, 2, 3, 4, 0]),
        # an element that is no document counts as null, whatever the others have
        ("items.v", [[{"v": 2}, 5], [{"v": 1}], [5], [{"v": 3}, {}]], [0, 2, 3, 1]),
        # an array at a position is one value, and an empty one is below null
        ("items.0", [[[1, 2]], [None], [[]], [3]], [2, 1, 3, 0]),
    ],
)
def test_what_documents_lack_comes_first(path: str, values: list[Any], ids: list[int]) -> None:
    documents = [{"_id": place} | ({} if one is MISSING else {"items": one}) for place, one in enumerate(values)]
    assert [one["_id"] for one in sorted(documents, key=sort_key(parse_sort(path)))] == ids


@given(documents=st.lists(st.dictionaries(st.just("a"), st.sampled_from(MIXED)), max_size=8), down=st.booleans())
def test_sorting_by_key_is_sorting_by_comparison(documents: list[dict[str, Any]], down: bool) -> None:
    def value(document: dict[str, Any]) -> Any:
        found = document.get("a")
        return MISSING if found == [] else found[0] if isinstance(found, list) else found

    def by_comparison(one: dict[str, Any], other: dict[str, Any]) -> int:
        order = compare(value(one), value(other)) or compare(one["_id"], other["_id"])
        return -order if down else order

    numbered = [document | {"_id": number} for number, document in enumerate(documents)]
    expected = sorted(numbered, key=cmp_to_key(by_comparison))
    assert sorted(numbered, key=sort_key(parse_sort("-a" if down else "a"))) == expected
