from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.format.path import TRAVERSED, get_direct, parse_path, resolve
from wormdb.format.values import MISSING, equal
from wormdb.limits import DOCUMENT_DEPTH_MAX, FIELD_NAME_BYTES_MAX

# Document, path, values in MongoDB's order of matching.
CASES: list[tuple[dict[str, Any], str, list[Any]]] = [
    # fields of documents
    ({"x": 4, "a": 5}, "a", [5]),
    ({"a": {"b": 5}}, "a.b", [5]),
    ({"a": {"b": {"c": None}}}, "a.b.c", [None]),
    ({"a": {"b": 5}}, "a", [{"b": 5}]),
    ({}, "a", [MISSING]),
    ({"a": {}}, "a.b", [MISSING]),
    ({"a": 4}, "a.b", [MISSING]),
    ({"a": None}, "a.b", [MISSING]),
    ({"a": "text"}, "a.0", [MISSING]),
    ({"a": {"0": 7}}, "a.0", [7]),
    # an array at the end: its elements, then itself
    ({"a": [5, 6]}, "a", [5, 6, [5, 6]]),
    ({"a": []}, "a", [[]]),
    ({"a": {"b": []}}, "a.b", [[]]),
    ({"a": [[1, 2], 3]}, "a", [[1, 2], 3, [[1, 2], 3]]),
    # an array on the way: its documents, one level at each step
    ({"a": [{"b": 5}, 3, {}, {"b": [9, 11]}, {"b": 7}]}, "a.b", [5, MISSING, 9, 11, [9, 11], 7]),
    ({"a": [{"b": [2, 3]}, {"b": [4, 5]}]}, "a.b", [2, 3, [2, 3], 4, 5, [4, 5]]),
    ({"a": [{"b": [{"c": 1}, {"c": 2}]}, {"b": {"c": 3}}]}, "a.b.c", [1, 2, 3]),
    ({"a": [4]}, "a.b", []),
    ({"a": []}, "a.b", []),
    ({"a": [{"b": []}, {"b": []}]}, "a.b.x", []),
    ({"a": [[{"b": 1}]]}, "a.b", []),
    ({"a": [[{"b": 1}], {"b": 2}]}, "a.b", [2]),
    ({"a": [None, {"b": None}]}, "a.b", [None]),
    # positions
    ({"a": [5, 7, 3]}, "a.1", [7]),
    ({"a": [5, 7, 3]}, "a.3", []),
    ({"a": [5, [2, 4], 3]}, "a.1", [[2, 4]]),
    ({"a": [5, [2, 4], 3]}, "a.1.0", [2]),
    ({"a": [[[7]]]}, "a.0.0.0", [7]),
    ({"a": [5, {"b": 4}, 3]}, "a.1.b", [MISSING, 4]),
    ({"a": [5, [{"b": 4}], 3]}, "a.1.b", [4]),
    ({"a": [[{"b": 1}, {"b": 2}]]}, "a.0.b", [1, 2]),
    ({"a": [[{"b": 1}, {"b": 2}]]}, "a.0.1.b", [MISSING, MISSING, 2]),
    ({"a": [{"b": [2, 3]}, {"b": [4, 5]}]}, "a.0.b", [MISSING, 2, 3, [2, 3], MISSING]),
    ({"a": [5]}, "a.00", []),
    ({"a": [5]}, "a.-1", []),
    ({"a": [5]}, "a.99999999999999999999", []),
    ({"a": [5]}, "a.\u0660", []),
    # a name of digits: first as a field of the documents, then as a position
    ({"a": [5, {"1": 4}, 3]}, "a.1", [4, {"1": 4}]),
    ({"a": [{"0": 1}]}, "a.0", [1, {"0": 1}]),
    ({"a": [{"0": [8]}]}, "a.0.0", [8, 8, [8]]),
    ({"a": [{"0": {"b": 1}, "b": 2}]}, "a.0.b", [1, 2]),
]


@pytest.mark.parametrize(("document", "path", "expected"), CASES)
def test_resolve_finds_what_mongodb_finds(document: dict[str, Any], path: str, expected: list[Any]) -> None:
    before = copy.deepcopy(document)
    assert resolve(document, parse_path(path)) == expected
    assert document == before


@pytest.mark.parametrize(
    ("document", "path", "expected"),
    [
        ({"a": [5, 6]}, "a", [[5, 6]]),
        ({"a": [{"b": 5}, 3, {}, {"b": [9, 11]}]}, "a.b", [5, MISSING, [9, 11]]),
        ({"a": [[1], 2]}, "a.0", [[1]]),
        ({"a": 1}, "a", [1]),
    ],
)
def test_arrays_at_the_end_stay_whole_when_asked(document: dict[str, Any], path: str, expected: list[Any]) -> None:
    assert resolve(document, parse_path(path), expand=False) == expected


@pytest.mark.parametrize(
    ("document", "path", "expected"),
    [
        ({"a": 5}, "a", 5),
        ({"a": {"b": {"c": 1}}}, "a.b", {"c": 1}),
        ({"a": [1, 2]}, "a", [1, 2]),
        ({"a": {"b": []}}, "a.b", []),
        ({"a": None}, "a", None),
        ({"a": None}, "a.b", MISSING),
        ({"a": 1}, "a.b.c", MISSING),
        ({}, "a.b", MISSING),
        ({"a": {"0": 3}}, "a.0", 3),
        ({"a": [1]}, "a.0", TRAVERSED),
        ({"a": []}, "a.b", TRAVERSED),
        ({"a": {"b": [{"c": 1}]}}, "a.b.c", TRAVERSED),
    ],
)
def test_get_direct_gives_one_value_or_says_why_not(document: dict[str, Any], path: str, expected: Any) -> None:
    actual = get_direct(document, parse_path(path))
    assert actual is expected if expected in (MISSING, TRAVERSED) else equal(expected, actual)


_names = st.sampled_from(["a", "b", "0", "1"])
_trees = st.recursive(
    st.integers(0, 3) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=12,
)


def _model(value: Any, path: tuple[str, ...], *, implicit: bool) -> list[Any]:
    """MongoDB's rule, written a second time as one recursion on the value at hand."""
    if not path:
        return [*value, value] if isinstance(value, list) and implicit else [value]
    if isinstance(value, dict):
        return _model(value[path[0]], path[1:], implicit=True) if path[0] in value else [MISSING]
    if not isinstance(value, list):
        return [MISSING] if implicit else []
    found: list[Any] = []
    for place, element in enumerate(value):
        if isinstance(element, dict):
            found += _model(element, path, implicit=True)
        if str(place) == path[0]:
            found += _model(element, path[1:], implicit=False)
    return found


@given(st.dictionaries(_names, _trees, max_size=3), st.lists(_names, min_size=1, max_size=4))
def test_resolve_agrees_with_a_model(document: dict[str, Any], names: list[str]) -> None:
    path = tuple(names)
    assert resolve(document, path) == _model(document, path, implicit=True)


@given(st.dictionaries(_names, _trees, max_size=3), st.lists(_names, min_size=1, max_size=4))
def test_a_direct_value_is_all_that_resolve_finds(document: dict[str, Any], names: list[str]) -> None:
    path = tuple(names)
    direct = get_direct(document, path)
    if direct is not TRAVERSED:
        assert resolve(document, path, expand=False) == [direct]


@pytest.mark.parametrize(
    ("text", "path"), [("a", ("a",)), ("a.0.b", ("a", "0", "b")), ("é. ", ("é", " ")), ("a$", ("a$",))]
)
def test_paths_are_split_at_dots(text: str, path: tuple[str, ...]) -> None:
    assert parse_path(text) == path


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "$a", "a.$", "a.$[]", "a\0", "\ud800", 5, None, b"a"])
def test_bad_paths_are_refused(text: Any) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_path(text)
    assert caught.value.fix


@pytest.mark.parametrize("step", [-1, 0, 1])
def test_paths_are_limited_in_depth_and_names(step: int) -> None:
    deep = ".".join(["a"] * (DOCUMENT_DEPTH_MAX + step))
    long = "a." + "x" * (FIELD_NAME_BYTES_MAX + step)
    for text in (deep, long):
        if step <= 0:
            assert ".".join(parse_path(text)) == text
        else:
            with pytest.raises(LimitExceededError):
                parse_path(text)


def test_the_sentinels_read_well() -> None:
    assert repr(TRAVERSED) == str(TRAVERSED) == "TRAVERSED"
