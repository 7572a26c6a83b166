from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wormdb.engine.tree.definition import EMPTY, rows_of
from wormdb.errors import InvalidRequestError
from wormdb.format.kinds import MISSING, equal
from wormdb.format.path import parse_path, resolve


def rows(document: dict[str, Any], *fields: str) -> list[tuple[Any, ...]]:
    return rows_of(document, [parse_path(field) for field in fields])


@pytest.mark.parametrize(
    ("document", "field", "values"),
    [
        ({"a": 1}, "a", [1]),
        ({"a": None}, "a", [None]),
        ({}, "a", [MISSING]),
        ({"a": {"b": 1}}, "a.b", [1]),
        ({"a": {"b": 1}}, "a", [{"b": 1}]),
        ({"a": 7}, "a.b", [MISSING]),
        ({"a": [1, 2, 1]}, "a", [1, 2, 1]),
        ({"a": []}, "a", [EMPTY]),
        ({"a": [[]]}, "a", [[]]),
        ({"a": [[1, 2], 3]}, "a", [[1, 2], 3]),
        ({"a": [None]}, "a", [None]),
        ({"a": []}, "a.b", [MISSING]),
        ({"a": [1]}, "a.b", [MISSING]),
        ({"a": [1, {"b": 2}, {"c": 3}]}, "a.b", [2, MISSING]),
        ({"a": [{"b": [1, 2]}, {"b": []}]}, "a.b", [1, 2, EMPTY]),
        ({"a": [[{"b": 1}]]}, "a.b", [MISSING]),
        ({"a": ["x", "y"]}, "a.1", ["y"]),
        ({"a": ["x", "y"]}, "a.2", [MISSING]),
        ({"a": ["x", [1, 2]]}, "a.1", [[1, 2]]),
        ({"a": [{"b": 1}, {"b": 2}]}, "a.1.b", [2]),
        ({"a": [[{"b": 1}]]}, "a.0.b", [1]),
        ({"a": {"0": "name"}}, "a.0", ["name"]),
        ({"a": [{"0": "name"}, 5]}, "a.0", ["name", {"0": "name"}]),
        ({"a": [5, {"0": "name"}]}, "a.0", [5, "name"]),
        ({"a": [[1, 2], {"0": 3}]}, "a.0", [[1, 2], 3]),
        ({"a": ["x"]}, "a.00", [MISSING]),
    ],
)
def test_values_of_one_field(document: dict[str, Any], field: str, values: list[Any]) -> None:
    assert rows(document, field) == [(value,) for value in values]


@pytest.mark.parametrize(
    ("document", "fields", "expected"),
    [
        ({"a": 1, "b": 2}, ("a", "b"), [(1, 2)]),
        ({"b": 2}, ("a", "b"), [(MISSING, 2)]),
        ({"a": [1, 2], "b": 3}, ("a", "b"), [(1, 3), (2, 3)]),
        ({"a": [], "b": 3}, ("a", "b"), [(EMPTY, 3)]),
        ({"a": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]}, ("a.x", "a.y"), [(1, 2), (3, 4)]),
        ({"a": [{"x": 1}, {"y": 4}, 5]}, ("a.x", "a.y"), [(1, MISSING), (MISSING, 4)]),
        ({"a": [5, {"x": 1}]}, ("a", "a.x"), [(5, MISSING), ({"x": 1}, 1)]),
        ({"a": [{"x": [1, 2], "y": 3}]}, ("a.x", "a.y"), [(1, 3), (2, 3)]),
        ({"a": ["x", "y"], "b": [1, 2]}, ("a.0", "b"), [("x", 1), ("x", 2)]),
        ({"a": ["x", "y"]}, ("a.0", "a.1"), [("x", "y")]),
    ],
)
def test_rows_of_several_fields(document: dict[str, Any], fields: tuple[str, ...], expected: list[Any]) -> None:
    assert rows(document, *fields) == expected


@pytest.mark.parametrize(
    ("document", "fields"),
    [
        ({"a": [1], "b": [2]}, ("a", "b")),
        ({"a": [], "b": []}, ("a", "b")),
        ({"a": [{"x": [1], "y": [2]}]}, ("a.x", "a.y")),
    ],
)
def test_two_arrays_are_refused_with_the_way_out(document: dict[str, Any], fields: tuple[str, ...]) -> None:
    with pytest.raises(InvalidRequestError, match="two fields of one index are arrays") as caught:
        rows(document, *fields)
    assert "one index for each" in caught.value.fix


nests = st.recursive(
    st.none() | st.integers(0, 3) | st.text("xy", max_size=1),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "0", "1"]), inner, max_size=3)
    ),
    max_leaves=12,
)
documents = st.dictionaries(st.sampled_from(["a", "b"]), nests, max_size=2)
paths = st.lists(st.sampled_from(["a", "b", "0", "1"]), min_size=1, max_size=3).map(tuple)


def among(value: Any, values: list[Any]) -> bool:
    return any(equal(value, other) for other in values)


@given(documents, paths)
def test_whatever_a_query_compares_has_a_row(document: dict[str, Any], path: tuple[str, ...]) -> None:
    """Every value of `resolve` is a row, but whole arrays, for which their first element stands."""
    values = [value for (value,) in rows_of(document, [path])]
    for value in resolve(document, path):
        if value is MISSING:
            assert MISSING in values or any(segment.isdigit() for segment in path)
        elif value == [] and EMPTY in values:
            continue
        elif isinstance(value, list) and value and not among(value, values):
            assert among(value[0], values)
        else:
            assert among(value, values)


@given(documents, paths)
def test_no_row_is_made_up(document: dict[str, Any], path: tuple[str, ...]) -> None:
    found = resolve(document, path)
    for (value,) in rows_of(document, [path]):
        if value is EMPTY:
            assert [] in found
        elif value is not MISSING:
            assert among(value, found)
