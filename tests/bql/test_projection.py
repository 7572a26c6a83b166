from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from wormdb.bql.parse import parse_filter
from wormdb.bql.positions import compile_positions
from wormdb.bql.projection import fields_needed, parse_projection, project, write_projection
from wormdb.errors import InvalidRequestError
from wormdb.format.kinds import equal
from wormdb.settings import PROJECTION_PATHS_MAX

DOCUMENT: dict[str, Any] = {"_id": 1, "a": 2, "b": {"x": 1, "y": 2}, "c": [{"x": 1, "y": 2}, 5, {"y": 3}, [{"x": 4}]]}
STUDENTS: dict[str, Any] = {"_id": 1, "s": [{"n": "ann", "g": 7}, {"n": "bob", "g": 9}, {"n": "cy", "g": 9}], "z": 0}

# Why, document, projection, what is shown.
CASES: list[tuple[str, dict[str, Any], Any, dict[str, Any]]] = [
    ("none shows all", DOCUMENT, None, DOCUMENT),
    ("an empty document shows all", DOCUMENT, {}, DOCUMENT),
    ("an empty list shows the id", DOCUMENT, [], {"_id": 1}),
    ("a list of names", DOCUMENT, ["a"], {"_id": 1, "a": 2}),
    ("names twice", DOCUMENT, ["a", "a"], {"_id": 1, "a": 2}),
    ("an inclusion shows the id", DOCUMENT, {"a": 1}, {"_id": 1, "a": 2}),
    ("any number but 0 is yes", DOCUMENT, {"a": 2.5}, {"_id": 1, "a": 2}),
    ("true is yes", DOCUMENT, {"a": True}, {"_id": 1, "a": 2}),
    ("the id can be left out", DOCUMENT, {"a": 1, "_id": 0}, {"a": 2}),
    ("id is _id", DOCUMENT, {"a": 1, "id": False}, {"a": 2}),
    ("the id alone", DOCUMENT, {"_id": 1}, {"_id": 1}),
    ("all but the id", {"_id": 1, "a": 2}, {"_id": 0}, {"a": 2}),
    ("the id and an exclusion", {"_id": 1, "a": 2, "b": 3}, {"_id": 1, "a": 0}, {"_id": 1, "b": 3}),
    ("what is not there is not shown", DOCUMENT, {"q": 1}, {"_id": 1}),
    ("the order is the document's", {"_id": 1, "b": 2, "a": 3}, {"a": 1, "b": 1}, {"_id": 1, "b": 2, "a": 3}),
    ("the id stays where it is", {"b": 2, "_id": 1}, {"b": 1}, {"b": 2, "_id": 1}),
    ("null is shown", {"a": None}, {"a": 1}, {"a": None}),
    ("a part of a document", DOCUMENT, {"b.x": 1, "_id": 0}, {"b": {"x": 1}}),
    ("nested is dotted", DOCUMENT, {"b": {"x": 1}, "_id": 0}, {"b": {"x": 1}}),
    ("nested and dotted", {"a": {"b": {"c": 1, "d": 2}}}, {"a": {"b.c": 1}}, {"a": {"b": {"c": 1}}}),
    ("a document without the part is empty", {"b": {"y": 1}}, {"b.x": 1}, {"b": {}}),
    ("a value has no part", {"b": 5}, {"b.x": 1}, {}),
    ("null has no part", {"b": None}, {"b.x": 1}, {}),
    ("elements that are no documents go", DOCUMENT, {"c.x": 1, "_id": 0}, {"c": [{"x": 1}, {}, [{"x": 4}]]}),
    ("an empty array stays", {"c": []}, {"c.x": 1}, {"c": []}),
    ("numbers are names", {"c": [{"0": 1}, 2]}, {"c.0": 1}, {"c": [{"0": 1}]}),
    ("a field is left out", DOCUMENT, {"b": 0, "c": 0}, {"_id": 1, "a": 2}),
    ("a part is left out", {"b": {"x": 1, "y": 2}, "a": 1}, {"b.x": 0}, {"b": {"y": 2}, "a": 1}),
    (
        "a part is left out of arrays at every level, other elements stay",
        {"c": [{"x": 1, "y": 2}, 5, [{"x": 4}]]},
        {"c.x": 0},
        {"c": [{"y": 2}, 5, [{}]]},
    ),
    ("a value loses nothing", {"b": 5}, {"b.x": 0}, {"b": 5}),
    ("a part of an id", {"_id": {"x": 1, "y": 2}, "a": 1}, {"_id.x": 1}, {"_id": {"x": 1}}),
    ("two levels in one document", {"a": {"b": 1, "c": 2, "d": 3}}, {"a.b": 1, "a.d": 1}, {"a": {"b": 1, "d": 3}}),
    # $slice
    (
        "the first, and all other fields",
        {"_id": 1, "a": [1, 2, 3], "b": 4},
        {"a": {"$slice": 2}},
        {"_id": 1, "a": [1, 2], "b": 4},
    ),
    ("the last", {"a": [1, 2, 3]}, {"a": {"$slice": -2}}, {"a": [2, 3]}),
    ("more than there are", {"a": [1]}, {"a": {"$slice": -5}}, {"a": [1]}),
    ("none", {"a": [1]}, {"a": {"$slice": 0}}, {"a": []}),
    ("skip and limit", {"a": [1, 2, 3, 4]}, {"a": {"$slice": [1, 2]}}, {"a": [2, 3]}),
    ("skip from the end", {"a": [1, 2, 3, 4]}, {"a": {"$slice": [-3, 2]}}, {"a": [2, 3]}),
    ("skip before the start", {"a": [1, 2, 3]}, {"a": {"$slice": [-9, 2]}}, {"a": [1, 2]}),
    ("skip after the end", {"a": [1]}, {"a": {"$slice": [5, 2]}}, {"a": []}),
    ("what is no array stays", {"a": 5}, {"a": {"$slice": 1}}, {"a": 5}),
    (
        "with an inclusion",
        {"_id": 1, "a": [1, 2], "b": 3, "c": 4},
        {"a": {"$slice": 1}, "b": 1},
        {"_id": 1, "a": [1], "b": 3},
    ),
    ("with an exclusion", {"a": [1, 2], "b": 3, "c": 4}, {"a": {"$slice": 1}, "b": 0}, {"a": [1], "c": 4}),
    ("without the id", {"_id": 1, "a": [1, 2], "b": 3}, {"a": {"$slice": 1}, "_id": 0}, {"a": [1], "b": 3}),
    ("dotted", {"a": {"b": [1, 2], "c": 3}}, {"a.b": {"$slice": 1}}, {"a": {"b": [1], "c": 3}}),
    (
        "in documents of an array",
        {"a": [{"b": [1, 2]}, {"b": [3]}]},
        {"a.b": {"$slice": -1}},
        {"a": [{"b": [2]}, {"b": [3]}]},
    ),
    # $elemMatch
    ("the first that matches", STUDENTS, {"s": {"$elemMatch": {"g": 9}}}, {"_id": 1, "s": [{"n": "bob", "g": 9}]}),
    ("no match: no field", STUDENTS, {"s": {"$elemMatch": {"g": 1}}}, {"_id": 1}),
    (
        "all conditions on one",
        STUDENTS,
        {"s": {"$elemMatch": {"g": 9, "n": "cy"}}},
        {"_id": 1, "s": [{"n": "cy", "g": 9}]},
    ),
    ("conditions on values", {"a": [1, 5, 9]}, {"a": {"$elemMatch": {"$gt": 3}}}, {"a": [5]}),
    ("what is no array is not shown", {"a": 5}, {"a": {"$elemMatch": {"$gt": 3}}}, {}),
    (
        "behind the other fields",
        STUDENTS,
        {"s": {"$elemMatch": {"g": 7}}, "z": 1},
        {"_id": 1, "z": 0, "s": [{"n": "ann", "g": 7}]},
    ),
    (
        "beside $slice alone it shows all other fields too",
        {"_id": 1, "a": [1, 5], "b": [1, 2], "c": 3},
        {"a": {"$elemMatch": {"$gt": 3}}, "b": {"$slice": 1}},
        {"_id": 1, "a": [5], "b": [1], "c": 3},
    ),
    ("beside the id left out it is an inclusion", STUDENTS, {"s": {"$elemMatch": {"g": 1}}, "_id": 0}, {}),
    ("with an exclusion", STUDENTS, {"s": {"$elemMatch": {"g": 7}}, "z": 0}, {"_id": 1, "s": [{"n": "ann", "g": 7}]}),
]


@pytest.mark.parametrize(("why", "document", "written", "expected"), CASES, ids=[case[0] for case in CASES])
def test_projections(why: str, document: dict[str, Any], written: Any, expected: dict[str, Any]) -> None:
    before = copy.deepcopy(document)
    shown = project(parse_projection(written), document)
    assert equal(expected, shown), shown
    assert shown is not document
    assert equal(before, document)


@pytest.mark.parametrize(
    ("query", "written", "expected"),
    [
        ({"s.g": 9}, {"s.$": 1}, {"_id": 1, "s": [{"n": "bob", "g": 9}]}),
        (
            {"s": {"$elemMatch": {"g": 9, "n": "cy"}}},
            {"s.$": True, "z": 1},
            {"_id": 1, "s": [{"n": "cy", "g": 9}], "z": 0},
        ),
        ({"s.n": "ann"}, {"s.$": 1, "_id": 0}, {"s": [{"n": "ann", "g": 7}]}),
    ],
)
def test_the_element_that_the_query_matched(
    query: dict[str, Any], written: dict[str, Any], expected: dict[str, Any]
) -> None:
    tree = parse_filter(query)
    projection = parse_projection(written, query=tree)
    assert projection.arrays == ("s",)
    assert equal(expected, project(projection, STUDENTS, matched=compile_positions(tree, projection.arrays)(STUDENTS)))


def test_the_element_that_the_query_matched_in_documents() -> None:
    projection = parse_projection({"a.b.$": 1})
    assert project(projection, {"a": {"b": [1, 2], "c": 3}}, matched={"a.b": 1}) == {"a": {"b": [2]}}
    assert project(projection, {"a": {"b": 5}}) == {"a": {"b": 5}}
    with pytest.raises(InvalidRequestError, match="matched no element"):
        project(projection, {"a": {"b": [1, 2]}})


# Projection, position and part of the reason of each mistake.
@pytest.mark.parametrize("written", [*(written for _, _, written, _ in CASES if written is not None), {"a.$": 1}])
def test_a_projection_can_be_written_and_read_again(written: Any) -> None:
    projection = parse_projection(written)
    assert parse_projection(write_projection(projection)) == projection


MISTAKES: list[tuple[Any, list[tuple[str, str]]]] = [
    ("a", [("", "a list of names")]),
    ([5], [("[0]", "text")]),
    (["a", ""], [("[1]", "empty")]),
    (["a", "a.b", "c"], [("[1]", "overlaps with a")]),
    ({"a.b": 1, "a": 1}, [("a", "overlaps with a.b")]),
    ({"id": 1, "_id": 0}, [("_id", "overlaps with _id")]),
    ({"a": 1, "b": 0, "c": 0}, [("b", "both shown"), ("c", "both shown")]),
    ({"a": 0, "_id": 0, "b": 1}, [("b", "both shown")]),
    ({"a": "$b"}, [("a", "expected")]),
    ({"a": None}, [("a", "expected")]),
    ({"a": {}}, [("a", "empty document")]),
    ({"a": {"b": "x"}}, [("a.b", "expected")]),
    ({"a": {"$slice": "x"}}, [("a.$slice", "takes a number")]),
    ({"a": {"$slice": True}}, [("a.$slice", "takes a number")]),
    ({"a": {"$slice": [1]}}, [("a.$slice", "two numbers")]),
    ({"a": {"$slice": [1, 0]}}, [("a.$slice", "1 at least")]),
    ({"a": {"$slice": [1, 2, 3]}}, [("a.$slice", "two in a list")]),
    ({"a": {"$slice": 1, "$elemMatch": {}}}, [("a", "one operator")]),
    ({"a.$": 1, "b": {"$elemMatch": {"c": 1}}}, [("a.$", "beside $elemMatch")]),
    ({"a": {"$slize": 1}}, [("a.$slize", "no operator $slize")]),
    ({"a": {"$elemMatch": 5}}, [("a.$elemMatch", "takes a document")]),
    ({"a": {"$elemMatch": {"b": {"$gtt": 1}}}}, [("a.$elemMatch.b.$gtt", "no operator $gtt")]),
    ({"a.b": {"$elemMatch": {"c": 1}}}, [("a.b.$elemMatch", "at the top only")]),
    ({"a.$": 0}, [("a.$", "only shows")]),
    ({"a.$": 1, "b.$": 1}, [("b.$", "only one array")]),
    ({"a.$": 1, "a.b": 1}, [("a.b", "overlaps with a")]),
    ({"a.$": 1, "b": 0}, [("b", "both shown")]),
    ({"a.$.b": 1}, [("a.$.b", "starts with $")]),
    ({"$": 1}, [("$", "starts with $")]),
    ({5: 1}, [("5", "text")]),
]


@pytest.mark.parametrize(("written", "expected"), MISTAKES)
def test_mistakes(written: Any, expected: list[tuple[str, str]]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_projection(written)
    assert [path for path, _ in expected] == [problem.path for problem in caught.value.problems]
    for (_, part), problem in zip(expected, caught.value.problems, strict=True):
        assert part in problem.reason
        assert problem.fix


def test_dollar_needs_a_condition_where_the_query_is_known() -> None:
    with pytest.raises(InvalidRequestError, match="no condition on a"):
        parse_projection({"a.$": 1}, query=parse_filter({"b": 1}))


def test_too_many_parts_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="PROJECTION_PATHS_MAX"):
        parse_projection([f"f{number}" for number in range(PROJECTION_PATHS_MAX + 1)])


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (None, None),
        ({"a": 0}, None),
        ({"a": {"$slice": 1}}, None),
        (["a", "b.c"], {"_id", "a", "b.c"}),
        ({"a.b": 1, "_id": 0}, {"a.b"}),
        ({"a": {"$slice": 1}, "b": 1}, {"_id", "a", "b"}),
        ({"a": {"$elemMatch": {"b": 1}}, "c": 1}, {"_id", "a", "c"}),
        ({"c.$": 1}, {"_id", "c"}),
    ],
)
def test_fields_needed(written: Any, expected: set[str] | None) -> None:
    assert fields_needed(parse_projection(written)) == expected


# --- an independent model: paths are shown or left out one by one ---

NAMES = st.sampled_from(["a", "b", "_id"])
VALUES = st.recursive(
    st.sampled_from([0, 1, "s", None]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(NAMES, VALUES, max_size=3)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(".".join)


def leaves_of(value: Any, place: tuple[str | int, ...]) -> list[tuple[tuple[str | int, ...], Any]]:
    """All values that hold no other, and all empty or not containers, with where they stand."""
    found: list[tuple[tuple[str | int, ...], Any]] = [(place, value)]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        found += leaves_of(inner, (*place, name))
    return found


def is_shown(place: tuple[str | int, ...], value: Any, paths: list[str]) -> bool:
    """Whether an inclusion shows what stands there: at or below a path, or a container on the way to one."""
    names = [name for name in place if isinstance(name, str)]
    for path in paths:
        parts = path.split(".")
        shorter = min(len(names), len(parts))
        if names[:shorter] == parts[:shorter] and (len(names) >= len(parts) or isinstance(value, dict | list)):
            return True
    return False


@given(DOCUMENTS, st.lists(PATHS, min_size=1, max_size=3))
def test_inclusions_show_what_is_at_the_paths(document: dict[str, Any], paths: list[str]) -> None:
    try:
        projection = parse_projection(paths)
    except InvalidRequestError:
        assume(False)
    shown = project(projection, document)
    # Positions shift where elements go, so places are compared by names alone, values in their order.
    named = [*paths, "_id"] if not any(path.split(".")[0] == "_id" for path in paths) else paths
    kept = [
        (tuple(name for name in place if isinstance(name, str)), value)
        for place, value in leaves_of(document, ())
        if is_shown(place, value, named)
    ]
    found = [(tuple(n for n in place if isinstance(n, str)), value) for place, value in leaves_of(shown, ())]
    assert [place for place, _ in kept] == [place for place, _ in found]
    for (_, left), (_, right) in zip(kept, found, strict=True):
        assert type(left) is type(right)
        if not isinstance(left, dict | list):
            assert left == right


@given(DOCUMENTS, st.lists(PATHS, min_size=1, max_size=3))
def test_exclusions_leave_out_what_is_at_the_paths(document: dict[str, Any], paths: list[str]) -> None:
    try:
        projection = parse_projection(dict.fromkeys(paths, 0))
    except InvalidRequestError:
        assume(False)
    split = [path.split(".") for path in paths]

    def pruned(value: Any, names: list[str]) -> Any:
        if isinstance(value, list):
            return [pruned(item, names) for item in value]
        if isinstance(value, dict):
            return {name: pruned(item, [*names, name]) for name, item in value.items() if [*names, name] not in split}
        return value

    assert equal(pruned(document, []), project(projection, document))
