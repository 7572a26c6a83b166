"""Projections and sorts of the corpus."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bson import Decimal128, MaxKey, Regex

from tests.bql.corpus.documents import INFINITY, NAN, SETS, moment

if TYPE_CHECKING:
    from collections.abc import Iterator


class Select(NamedTuple):
    """What is shown of the documents that a filter finds."""

    documents: str
    filter: dict[str, Any]
    select: dict[str, Any]
    law: str


class Sort(NamedTuple):
    """An order of the documents of a set that a filter finds."""

    documents: str
    filter: dict[str, Any]
    sort: dict[str, int]
    law: str


_PATHS: Final = ("a", "d", "a.b", "a.c", "a.b.c", "d.b", "d.b.c", "e", "a.0", "a.b.d", "x")


def select_cases() -> Iterator[Select]:
    """All of them, in the same order every time."""
    yield from _paths()
    yield from _slices()
    yield from _first_matches()
    yield from _positions()
    yield from _flags()


def _paths() -> Iterator[Select]:
    for flag, law in ((1, "inclusion"), (0, "exclusion")):
        for path in _PATHS:
            for identity in ({}, {"_id": 1}, {"_id": 0}):
                yield Select("shapes", {}, {path: flag} | identity, law)
        for pair in combinations(_PATHS, 2):
            yield Select("shapes", {}, dict.fromkeys(pair, flag), law)
    for written in ({"a": 1, "d": 0}, {"a": 0, "d": 1}, {"a.b": 1, "a.c": 0}, {"a": 1, "_id": 0, "d": 0}):
        yield Select("shapes", {}, written, "mixed")
    nested: tuple[dict[str, Any], ...] = ({"a": {"b": 1}}, {"a": {"b": 0}}, {"a": {"b": {"c": 1}}},
        {"a": {"b": 1, "c": 1}}, {"a": {"b": 1}, "d": 1}, {"a": {}})  # fmt: skip
    for written in nested:
        yield Select("shapes", {}, written, "inclusion")
    identities: tuple[dict[str, Any], ...] = ({}, {"_id": 1}, {"_id": 0}, {"_id": True}, {"_id": 1, "x": 1})
    for written in identities:
        yield Select("shapes", {}, written, "identity")


def _slices() -> Iterator[Select]:
    counts: tuple[Any, ...] = (1, 2, -1, -2, 0, 10, -10, [0, 1], [1, 1], [-1, 1], [-2, 2], [5, 1], [-10, 1])
    for path in ("a", "d", "a.b", "a.c", "a.b.d", "x"):
        for count in counts:
            yield Select("shapes", {}, {path: {"$slice": count}}, "slice")
    for path in ("a", "d", "a.b", "a.c", "a.b.d"):
        for more in ({"_id": 1}, {"_id": 0}, {"e": 1}, {"e": 0}, {"e": 1, "_id": 0}):
            yield Select("shapes", {}, {path: {"$slice": 1}} | more, "slice mode")
    yield Select("shapes", {}, {"a.b": {"$slice": 1}, "a.c": {"$slice": -1}}, "slice")
    yield Select("shapes", {}, {"a.b": {"$slice": 1}, "a.c": 1}, "slice mode")
    yield Select("shapes", {}, {"a.b": {"$slice": 1}, "a.c": 0}, "slice mode")
    odd: tuple[Any, ...] = (
        1.0, 1.9, -1.5, Decimal128("2"), 2**40, NAN, "1", None, True, {}, [], [1], [1, 2, 3], [1, 0], [1, -1],
        ["1", 1], [1, "1"], [1.0, 2.0], [None, 1], Regex("a"),
        [1, 1.5], [1.5, 1], [1, 0.5], INFINITY, -INFINITY, [0, INFINITY],
        1e300, -1e300, Decimal128("1E+6144"), [-1e300, 2], [1, 2**63 - 1],
    )  # fmt: skip
    for operand in odd:
        yield Select("shapes", {}, {"d": {"$slice": operand}}, "slice operand")


def _first_matches() -> Iterator[Select]:
    conditions: tuple[dict[str, Any], ...] = (
        {"b": 1}, {"b": 2}, {"b": {"$gt": 1}}, {"b": {"$gte": 1, "$lt": 3}}, {"b": None},
        {"b": {"$exists": True}}, {"b": {"$exists": False}}, {"b": {"$ne": 1}},
        {"c": 2, "b": 3}, {"$or": [{"b": 3}, {"c": [4]}]}, {"$nor": [{"b": 1}]}, {"b.c": 1}, {"b": {"c": 1}},
        {"0": 2}, {}, {"$gt": 1}, {"$gt": 1, "$lt": 4},
        {"$eq": None}, {"$eq": [3]}, {"$in": ["x", 4]}, {"$nin": [1, 2]}, {"$not": {"$gt": 1}},
        {"$type": "array"}, {"$size": 2}, {"$exists": True}, {"$ne": 1},
        {"$elemMatch": {"b": {"$exists": True}}}, {"$regex": "x"}, {"c": {"$elemMatch": {"$gt": 3}}},
        {"b": {"$in": [2, 5]}}, {"$mod": [2, 0]},
    )  # fmt: skip
    for path in ("a", "d"):
        for inner in conditions:
            yield Select("shapes", {}, {path: {"$elemMatch": inner}}, "elemMatch shown")
    for more in ({"_id": 0}, {"_id": 1}, {"e": 1}, {"e": 0}, {"d": {"$slice": 1}}, {"d": {"$elemMatch": {"b": 2}}}):
        yield Select("shapes", {}, {"a": {"$elemMatch": {"b": {"$gte": 1}}}} | more, "elemMatch mode")
    for operand in (1, None, [], "x", [{"b": 1}], {"$bogus": 1}, {"b": {"$bogus": 1}}, {"$gt": 1, "b": 2}):
        yield Select("shapes", {}, {"a": {"$elemMatch": operand}}, "elemMatch operand")
    for written in ({"a.b": {"$elemMatch": {"c": 1}}}, {"a": {"b": {"$elemMatch": {"c": 1}}}}):
        yield Select("shapes", {}, written, "elemMatch operand")


def _positions() -> Iterator[Select]:
    filters: tuple[dict[str, Any], ...] = (
        {"d": 2}, {"d": {"$gt": 2}}, {"d.b": 2}, {"d": {"$elemMatch": {"b": 3}}},
        {"d": {"$elemMatch": {"b": {"$gt": 1}, "c": 2}}}, {"d": {"$in": [3, 4]}},
        {"d": {"$elemMatch": {"$gt": 1, "$lt": 4}}}, {"d": [3]}, {"d": 4}, {"d": {"$gte": 3, "$lt": 9}},
        {"$and": [{"d": 3}, {"_id": 1}]}, {"d.b": {"$gte": 2}},
    )  # fmt: skip
    for written in filters:
        yield Select("shapes", written, {"d.$": 1}, "positional")
        yield Select("shapes", written, {"d.$": 1, "_id": 0}, "positional")
        yield Select("shapes", written, {"d.$": 1, "a": 1}, "positional")
    for select in ({"d.$": 0}, {"d.$": 1, "a.$": 1}, {"d.$": 1, "a": {"$elemMatch": {"b": 1}}}, {"d.$": "x"},
        {"d.$": {"$slice": 1}}, {"d.$": 1, "e": 0}, {"$": 1}, {"d.$.b": 1}):  # fmt: skip
        yield Select("shapes", {"d": 2}, select, "positional operand")
    for path, value in (("a.b", 1), ("a.b", 2), ("d.b", 3), ("a.b.c", 2), ("a.b.d", 4), ("a.c", 4), ("a.b", 6)):
        yield Select("shapes", {path: value}, {f"{path}.$": 1}, "positional")
    yield Select("shapes", {"a.b": 1}, {"d.$": 1}, "positional operand")
    yield Select("shapes", {}, {"d.$": 1}, "positional operand")


def _flags() -> Iterator[Select]:
    flags: tuple[Any, ...] = (True, False, 1.0, 0.0, -0.0, 2, -1, 0.5, NAN, Decimal128("0"), Decimal128("1"), 2**40)
    for flag in flags:
        yield Select("shapes", {}, {"a": flag}, "flag")
        yield Select("shapes", {}, {"d.b": flag, "_id": flag}, "flag")
    odd: tuple[Any, ...] = ("x", "$a", None, [], [1], moment(1), MaxKey(), {"$bogus": 1}, {"$gt": 1},
        {"$slice": 1, "$elemMatch": {}}, {"$slice": 1, "b": 1})  # fmt: skip
    for flag in odd:
        yield Select("shapes", {}, {"a": flag}, "flag operand")
    for written in ({"": 1}, {"a.": 1}, {".a": 1}, {"a..b": 1}, {"$a": 1}, {"a.$b": 1}, {"a": 1, "a.b": 1},
        {"a.b": 1, "a": 1}, {"a.b": 0, "a": 0}):  # fmt: skip
        yield Select("shapes", {}, written, "path names")


_SORTS: Final[dict[str, tuple[str, ...]]] = {
    "numbers": ("a", "a.b", "_id"),
    "types": ("a", "a.b", "_id"),
    "arrays": ("a", "a.b", "a.c", "a.b.c", "a.0", "a.0.b", "a.1", "a.b.0"),
    "texts": ("a", "a.b"),
    "shop": (*"insfdtvolezcmkyw", "o.x", "o.y", "l.x", "l.y", "l.0.x", "t.1", "_id", "x"),
    "shapes": ("a", "d", "a.b", "d.b", "d.b.c", "a.b.c", "e", "d.0", "d.0.b", "a.0.b"),
}


def sort_cases() -> Iterator[Sort]:
    """All of them, in the same order every time; ids break ties in the direction of the first field."""
    for name, paths in _SORTS.items():
        for path in paths:
            for direction in (1, -1):
                yield _sort(name, {}, {path: direction})
                for start in range(0, len(SETS[name]), 5):
                    if path != "_id" and name != "shop":
                        yield _sort(name, {"_id": {"$gte": start, "$lt": start + 5}}, {path: direction})
        pairs = [pair for pair in permutations(paths, 2) if "_id" not in pair]
        for first, second in pairs[:: 5 if name == "shop" else 3]:
            for signs in ((1, 1), (1, -1), (-1, 1)):
                yield _sort(name, {}, {first: signs[0], second: signs[1]})


def _sort(name: str, written: dict[str, Any], order: dict[str, int]) -> Sort:
    return Sort(name, written, order if "_id" in order else order | {"_id": next(iter(order.values()))}, "order")
