"""Random filters whose conditions are crowded on few paths and values, so that rules meet often."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from bson import Decimal128, MaxKey, MinKey, Regex
from hypothesis import strategies as st

from wormdb.bql.tree import (
    EVERYTHING,
    NOTHING,
    All,
    And,
    Compare,
    Contains,
    ElemMatch,
    EndsWith,
    Exists,
    Filter,
    In,
    Mod,
    Not,
    Or,
    RegexMatch,
    Size,
    StartsWith,
    Type,
)
from wormdb.format.key import encode_key

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    Path = tuple[str, ...]

NUMBERS: list[Any] = [0, 1, 2, 3, 1.0, 1.5, Decimal128("1.0"), Decimal128("2.5"), math.nan, -1, 2**53 + 1, math.inf]
SCALARS: list[Any] = [None, *NUMBERS, True, False, "", "a", "ab", "b", MinKey(), MaxKey(), Regex("a"), b"x"]
WHOLE: list[Any] = [[], [1], [1, 2], [[1]], {}, {"b": 1}, {"b": [1, 2]}, [None], [{"b": 1}], [{"b": 2}, {"b": 0}]]
VALUES = st.sampled_from([0, 1, 2, 3]) | st.sampled_from(SCALARS) | st.sampled_from(WHOLE)
COMPARED = VALUES.filter(lambda value: not isinstance(value, Regex))
TYPES = ["int", "long", "double", "decimal", "string", "null", "array", "object", "bool", "regex", "javascript"]
PATHS: list[Path] = [("a",), ("a",), ("a",), ("b",), ("a", "b"), ("a", "0"), ("_id",)]
INNER: list[Path] = [("b",), ("0",), ("_id",), ("b", "0")]


def _distinct(values: list[Any]) -> tuple[Any, ...]:
    by_key = {encode_key(value): value for value in values}
    return tuple(by_key[key] for key in sorted(by_key))


LISTS = st.lists(VALUES, max_size=4).map(_distinct)


def _leaves(path: SearchStrategy[Path]) -> SearchStrategy[Filter]:
    bounds = st.builds(Compare, path, st.sampled_from(["gt", "gte", "lt", "lte"]), COMPARED)
    equal = st.builds(Compare, path, st.just("eq"), VALUES)
    listed = st.builds(In, path, LISTS)
    types = st.lists(st.sampled_from(TYPES), min_size=1, max_size=4).map(lambda names: tuple(sorted(set(names))))
    texts = st.sampled_from(["", "a", "ab", "b"])
    return st.one_of(
        bounds,
        bounds,
        equal,
        equal,
        listed,
        listed,
        st.builds(All, path, LISTS),
        st.builds(Exists, path),
        st.builds(Type, path, types),
        st.builds(Size, path, st.integers(0, 2)),
        st.builds(Mod, path, st.sampled_from([2, -2, 3]), st.integers(-2, 2)),
        st.builds(RegexMatch, path, st.sampled_from(["a", "^a", "b"]), st.sampled_from(["", "i"])),
        st.builds(Contains, path, COMPARED),
        st.builds(StartsWith, path, texts),
        st.builds(EndsWith, path, texts),
        st.sampled_from([EVERYTHING, NOTHING]),
    )


def _combined(leaves: SearchStrategy[Filter], size: int) -> SearchStrategy[Filter]:
    def more(inner: SearchStrategy[Filter]) -> SearchStrategy[Filter]:
        lists = st.lists(inner, min_size=2, max_size=4).map(tuple)
        return st.one_of(st.builds(And, lists), st.builds(Or, lists), st.builds(Not, inner))

    signed = st.one_of(leaves, leaves.map(Not))
    return st.recursive(signed, more, max_leaves=size)


_ELEMENTS = _combined(_leaves(st.just(())), 4)
_FIELDS = _combined(_leaves(st.sampled_from(INNER)), 4)


def _elem_matches(path: SearchStrategy[Path]) -> SearchStrategy[Filter]:
    return st.builds(ElemMatch, path, _ELEMENTS, st.just("value")) | st.builds(
        ElemMatch, path, _FIELDS, st.just("document")
    )


_TOP = _leaves(st.sampled_from(PATHS))
TREES = _combined(st.one_of(_TOP, _TOP, _TOP, _TOP, _elem_matches(st.sampled_from(PATHS))), 8)
"""Filters on a, b, a.b, a.0 and _id."""

IDS: list[Any] = [0, 1, 2, 1.5, "a", "ab", True, b"x", Decimal128("2.5")]
_PLAIN = st.sampled_from([0, 1, 2, 3]) | st.sampled_from(SCALARS)
_INNER_VALUES = _PLAIN | st.lists(_PLAIN, max_size=3)
_EMBEDDED = st.dictionaries(st.sampled_from(["b", "0", "_id"]), _INNER_VALUES, max_size=2)
_ARRAYS = st.lists(st.one_of(_PLAIN, _PLAIN, _EMBEDDED, st.lists(_PLAIN, max_size=2)), max_size=3)
_FLAT = st.one_of(_PLAIN, st.dictionaries(st.sampled_from(["b", "0"]), _PLAIN, max_size=2))


def _documents(value: SearchStrategy[Any], other: SearchStrategy[Any]) -> SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"_id": st.sampled_from(IDS)}, optional={"a": value, "b": other})


_ANY = st.one_of(_PLAIN, _EMBEDDED, _ARRAYS, _ARRAYS, st.sampled_from(WHOLE))
DOCUMENTS = st.lists(_documents(_ANY, _ANY), min_size=1, max_size=8)
WITHOUT_ARRAYS = st.lists(_documents(_FLAT, _FLAT), min_size=1, max_size=8)
ARRAYS_IN_B = st.lists(_documents(_FLAT, _ANY), min_size=1, max_size=8)


def size_of(tree: Filter) -> int:
    """How long a filter is: its nodes and the values of its lists beyond the first."""
    if isinstance(tree, And | Or):
        return 1 + sum(map(size_of, tree.filters))
    if isinstance(tree, Not | ElemMatch):
        return 1 + size_of(tree.filter)
    return max(1, len(tree.values)) if isinstance(tree, In | All) else 1
