from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.format.path import TRAVERSED, get_direct, parse_path, resolve
from wormdb.format.values import MISSING, equal
from wormdb.settings import DOCUMENT_DEPTH_MAX, FIELD_NAME_BYTES_MAX

# Document, path, values in MongoDB's order of matching.
CASES: list[tuple[dict[str, Any], str, list[Any]]] = [
    # fields of documents
    ({"door": 23, "shelf": 26}, "shelf", [26]),
    ({"shelf": {"book": 26}}, "shelf.book", [26]),
    ({"shelf": {"book": {"page": None}}}, "shelf.book.page", [None]),
    ({"shelf": {"book": 26}}, "shelf", [{"book": 26}]),
    ({}, "shelf", [MISSING]),
    ({"shelf": {}}, "shelf.book", [MISSING]),
    ({"shelf": 23}, "shelf.book", [MISSING]),
    ({"shelf": None}, "shelf.book", [MISSING]),
    ({"shelf": "oak"}, "shelf.0", [MISSING]),
    ({"shelf": {"0": 32}}, "shelf.0", [32]),
    # an array at the end: its elements, then itself
    ({"shelf": [26, 29]}, "shelf", [26, 29, [26, 29]]),
    ({"shelf": []}, "shelf", [[]]),
    ({"shelf": {"book": []}}, "shelf.book", [[]]),
    ({"shelf": [[14, 17], 20]}, "shelf", [[14, 17], 20, [[14, 17], 20]]),
    # an array on the way: its documents, one level at each step
    (
        {"shelf": [{"book": 26}, 20, {}, {"book": [38, 44]}, {"book": 32}]},
        "shelf.book",
        [26, MISSING, 38, 44, [38, 44], 32],
    ),
    ({"shelf": [{"book": [17, 20]}, {"book": [23, 26]}]}, "shelf.book", [17, 20, [17, 20], 23, 26, [23, 26]]),
    ({"shelf": [{"book": [{"page": 14}, {"page": 17}]}, {"book": {"page": 20}}]}, "shelf.book.page", [14, 17, 20]),
    ({"shelf": [23]}, "shelf.book", []),
    ({"shelf": []}, "shelf.book", []),
    ({"shelf": [{"book": []}, {"book": []}]}, "shelf.book.door", []),
    ({"shelf": [[{"book": 14}]]}, "shelf.book", []),
    ({"shelf": [[{"book": 14}], {"book": 17}]}, "shelf.book", [17]),
    ({"shelf": [None, {"book": None}]}, "shelf.book", [None]),
    # positions
    ({"shelf": [26, 32, 20]}, "shelf.1", [32]),
    ({"shelf": [26, 32, 20]}, "shelf.3", []),
    ({"shelf": [26, [17, 23], 20]}, "shelf.1", [[17, 23]]),
    ({"shelf": [26, [17, 23], 20]}, "shelf.1.0", [17]),
    ({"shelf": [[[32]]]}, "shelf.0.0.0", [32]),
    ({"shelf": [26, {"book": 23}, 20]}, "shelf.1.book", [MISSING, 23]),
    ({"shelf": [26, [{"book": 23}], 20]}, "shelf.1.book", [23]),
    ({"shelf": [[{"book": 14}, {"book": 17}]]}, "shelf.0.book", [14, 17]),
    ({"shelf": [[{"book": 14}, {"book": 17}]]}, "shelf.0.1.book", [MISSING, MISSING, 17]),
    ({"shelf": [{"book": [17, 20]}, {"book": [23, 26]}]}, "shelf.0.book", [MISSING, 17, 20, [17, 20], MISSING]),
    ({"shelf": [26]}, "shelf.00", []),
    ({"shelf": [26]}, "shelf.-1", []),
    ({"shelf": [26]}, "shelf.99999999999999999999", []),
    ({"shelf": [26]}, "shelf.\u0660", []),
    # a name of digits: first as a field of the documents, then as a position
    ({"shelf": [26, {"1": 23}, 20]}, "shelf.1", [23, {"1": 23}]),
    ({"shelf": [{"0": 14}]}, "shelf.0", [14, {"0": 14}]),
    ({"shelf": [{"0": [35]}]}, "shelf.0.0", [35, 35, [35]]),
    ({"shelf": [{"0": {"book": 14}, "book": 17}]}, "shelf.0.book", [14, 17]),
]


@pytest.mark.parametrize(("document", "path", "expected"), CASES)
def test_resolve_finds_what_mongodb_finds(document: dict[str, Any], path: str, expected: list[Any]) -> None:
    before = copy.deepcopy(document)
    assert resolve(document, parse_path(path)) == expected
    assert document == before


@pytest.mark.parametrize(
    ("document", "path", "expected"),
    [
        ({"shelf": [26, 29]}, "shelf", [[26, 29]]),
        ({"shelf": [{"book": 26}, 20, {}, {"book": [38, 44]}]}, "shelf.book", [26, MISSING, [38, 44]]),
        ({"shelf": [[14], 17]}, "shelf.0", [[14]]),
        ({"shelf": 14}, "shelf", [14]),
    ],
)
def test_arrays_at_the_end_stay_whole_when_asked(document: dict[str, Any], path: str, expected: list[Any]) -> None:
    assert resolve(document, parse_path(path), expand=False) == expected


@pytest.mark.parametrize(
    ("document", "path", "expected"),
    [
        ({"shelf": 26}, "shelf", 26),
        ({"shelf": {"book": {"page": 14}}}, "shelf.book", {"page": 14}),
        ({"shelf": [14, 17]}, "shelf", [14, 17]),
        ({"shelf": {"book": []}}, "shelf.book", []),
        ({"shelf": None}, "shelf", None),
        ({"shelf": None}, "shelf.book", MISSING),
        ({"shelf": 14}, "shelf.book.page", MISSING),
        ({}, "shelf.book", MISSING),
        ({"shelf": {"0": 20}}, "shelf.0", 20),
        ({"shelf": [14]}, "shelf.0", TRAVERSED),
        ({"shelf": []}, "shelf.book", TRAVERSED),
        ({"shelf": {"book": [{"page": 14}]}}, "shelf.book.page", TRAVERSED),
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
