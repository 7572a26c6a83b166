"""Updates of the corpus: every operator with ordinary and odd operands, on every kind of value, by every way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bson import Decimal128, MaxKey, MinKey, ObjectId, Regex, Timestamp

from tests.bql.corpus.documents import INFINITY, NAN, moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Change(NamedTuple):
    """An update of the documents that a filter finds; ids are numbers from 0."""

    values: list[dict[str, Any]]
    filter: dict[str, Any]
    update: dict[str, Any]
    law: str
    filters: Sequence[dict[str, Any]] = ()
    many: bool = False
    upsert: bool = False


def change_cases() -> Iterator[Change]:
    """All of them, in the same order every time."""
    yield from _fields()
    yield from _numbers()
    yield from _bounds()
    yield from _pushes()
    yield from _push_sorts()
    yield from _sets()
    yield from _pulls()
    yield from _pops()
    yield from _renames()
    yield from _ways()
    yield from _several()
    yield from _upserts()
    yield from _mistakes()


_KINDS: Final[tuple[Any, ...]] = (None, True, 1, 1.5, Decimal128("2"), "x", [], [1, 2], {}, {"b": 1}, moment(1))


def _one(value: Any, update: dict[str, Any], law: str, **more: Any) -> Change:
    """One document with the value under `a`; an Ellipsis for none."""
    return Change([{} if value is ... else {"a": value}], {}, update, law, **more)


def _fields() -> Iterator[Change]:
    for old in (..., *_KINDS):
        for new in (None, 1, 1.0, "x", [1], {"b": 1}):
            yield _one(old, {"$set": {"a": new}}, "set")
        yield _one(old, {"$set": {"a.b": 7}}, "way")
        yield _one(old, {"$set": {"a.0": 7}}, "way")
        yield _one(old, {"$set": {"a.3": 7}}, "padding")
        yield _one(old, {"$unset": {"a": ""}}, "unset")
        yield _one(old, {"$unset": {"a.b": 1}}, "unset")
        yield _one(old, {"$unset": {"a.0": 1}}, "unset")
        yield _one(old, {"$setOnInsert": {"a": 9}}, "setOnInsert")
    for value in (True, {"$type": "date"}, {"$type": "timestamp"}, "date", {}, {"$type": "x"}, None,
        {"$type": "date", "b": 1}):  # fmt: skip
        if value not in (True, {"$type": "date"}, {"$type": "timestamp"}):
            yield _one(1, {"$currentDate": {"a": value}}, "currentDate")
    for written in ({"b": 2, "c": 3}, {"c": 3, "b": 2}, {"z.y": 1, "z.x": 2}, {"10": 1, "9": 2, "b": 3}):
        yield _one(1, {"$set": written}, "new fields")


def _numbers() -> Iterator[Change]:
    values: tuple[Any, ...] = (..., 0, 5, -3, 2.5, -0.0, 2**31 - 1, 2**53, 2**63 - 1, -(2**63), NAN, INFINITY,
        Decimal128("1.10"), Decimal128("NaN"), 0.1)  # fmt: skip
    operands: tuple[Any, ...] = (1, -1, 0, 2, 0.5, 0.1, 2**40, Decimal128("0.1"), Decimal128("3"), NAN, -INFINITY)
    for operator in ("$inc", "$mul"):
        for old in values:
            for operand in operands:
                yield _one(old, {operator: {"a": operand}}, "arithmetic")
        for old in (None, True, "1", [], [1], {}, moment(1), {"b": 1}):
            yield _one(old, {operator: {"a": 2}}, "not a number")
            yield _one(old, {operator: {"a.b": 2}}, "way")
            yield _one(old, {operator: {"a.0": 2}}, "way")
        for operand in (None, True, "1", [], {}, moment(1), [1], MinKey()):
            yield _one(5, {operator: {"a": operand}}, "not a number")


def _bounds() -> Iterator[Change]:
    values: tuple[Any, ...] = (..., None, 1, 1.0, 2.5, NAN, Decimal128("1"), "x", {}, [1], [3], True, moment(2),
        Timestamp(1, 1), ObjectId("65a000000000000000000001"), MinKey(), MaxKey())  # fmt: skip
    for operator in ("$min", "$max"):
        for old in values:
            for new in (None, 1, 2, "y", [2], {"b": 1}, moment(1), MaxKey()):
                yield _one(old, {operator: {"a": new}}, "bounds")


def _pushes() -> Iterator[Change]:
    values: tuple[Any, ...] = (..., [], [1, 2], [[1]], None, 1, "x", {}, {"0": 1})
    for old in values:
        for new in (3, None, [3], {"b": 1}):
            yield _one(old, {"$push": {"a": new}}, "push")
        yield _one(old, {"$push": {"a": {"$each": [3, 4]}}}, "push")
        yield _one(old, {"$push": {"a": {"$each": []}}}, "push")
    for array in ([1, 2, 3], [], [3, 1, 2]):
        for position in (0, 1, 2, 3, 9, -1, -2, -9, 1.0, Decimal128("1"), 1.5, "1", None, True, NAN):
            yield _one(array, {"$push": {"a": {"$each": [7, 8], "$position": position}}}, "position")
        for cut in (0, 1, 2, 4, 9, -1, -2, -9, 2.0, Decimal128("2"), 1.5, "1", None, NAN):
            yield _one(array, {"$push": {"a": {"$each": [7, 0], "$slice": cut}}}, "push slice")
        for order in (1, -1, 1.0, 0, 2, "x", None, True, {}, {"b": 1}, {"b": 2}, [1]):
            yield _one(array, {"$push": {"a": {"$each": [7, 0], "$sort": order}}}, "push sort")
        for modifiers in ({"$sort": 1, "$slice": 2}, {"$sort": -1, "$slice": -2}, {"$position": 0, "$slice": 2},
            {"$position": 1, "$sort": 1, "$slice": 3}):  # fmt: skip
            yield _one(array, {"$push": {"a": {"$each": [7, 0]} | modifiers}}, "push")


def _push_sorts() -> Iterator[Change]:
    mixed = [3, "x", None, [1], {"b": 2}, True, 1.5]
    for order in (1, -1):
        yield _one(mixed, {"$push": {"a": {"$each": [moment(1), {"b": 1}, [0]], "$sort": order}}}, "push sort")
    rows = [{"b": 2, "c": 1}, {"b": 1, "c": 2}, {"c": 0}, {"b": 2, "c": 0}]
    for sort in ({"b": 1}, {"b": -1}, {"b": 1, "c": 1}, {"b": 1, "c": -1}, {"c": 1}, {"b.c": 1}, {"x": 1}):
        yield _one(rows, {"$push": {"a": {"$each": [{"b": 0, "c": 9}], "$sort": sort}}}, "push sort")
    odd: tuple[Any, ...] = ({"$each": 1}, {"$each": None}, {"$each": {}}, {"$slice": 1},
        {"$each": [1], "$bogus": 1}, {"$each": [1], "b": 1}, {"$position": 0})  # fmt: skip
    for operand in odd:
        yield _one([1], {"$push": {"a": operand}}, "push operand")


def _sets() -> Iterator[Change]:
    values: tuple[Any, ...] = (..., [], [1, 2], [1, 1], [{"b": 1}], [[1]], [None], None, 1, {})
    for old in values:
        for new in (1, 1.0, Decimal128("1"), 3, None, [1], {"b": 1}, {"b": 1.0}, True, "1"):
            yield _one(old, {"$addToSet": {"a": new}}, "addToSet")
        yield _one(old, {"$addToSet": {"a": {"$each": [1, 5, 5, 2]}}}, "addToSet")
        yield _one(old, {"$addToSet": {"a": {"$each": []}}}, "addToSet")
    for operand in ({"$each": 1}, {"$each": [1], "$slice": 1}, {"$slice": 1}, {"$each": [1], "b": 1}):
        yield _one([1], {"$addToSet": {"a": operand}}, "push operand")
    yield _one([{"b": 1, "c": 2}], {"$addToSet": {"a": {"c": 2, "b": 1}}}, "addToSet")


def _pulls() -> Iterator[Change]:
    array: list[Any] = [1, 2, 3.0, "x", None, [1, 2], [6], {"b": 1, "c": 1}, {"b": 2}, {"b": [1, 5]}, True, "xy"]
    conditions: tuple[Any, ...] = (
        1, 3, "x", None, [1, 2], [2, 1], {"b": 1}, {"b": 2}, {"b": {"$gt": 1}}, {"b": 5},
        {"b": {"$exists": False}}, {"$gt": 1}, {"$gte": 2, "$lt": 6}, {"$in": [1, "x", None]},
        {"$nin": [1, 2]}, {"$ne": 1}, {"$eq": [6]}, {"$regex": "x"}, Regex("^x$"), {"$exists": True},
        {"$type": "string"}, {"$size": 2}, {"$not": {"$gt": 1}}, {"$elemMatch": {"$gt": 5}},
        {"$or": [{"b": 2}, {"c": 1}]}, {"b": 1, "c": 1}, {"c": 1, "b": 1}, {}, [], True, 1.0, Decimal128("1"),
        {"$all": [6]}, {"b": {"$elemMatch": {"$gt": 4}}}, {"$mod": [2, 0]},
    )  # fmt: skip
    for condition in conditions:
        yield _one(array, {"$pull": {"a": condition}}, "pull")
    values: tuple[Any, ...] = (..., None, 1, "x", {}, [], {"b": 1})
    for old in values:
        yield _one(old, {"$pull": {"a": 1}}, "pull")
        yield _one(old, {"$pull": {"a.b": 1}}, "pull")
    for operand in ({"$bogus": 1}, {"b": {"$bogus": 1}}, {"$gt": 1, "b": 1}, {"$in": 1}, {"$size": -1}):
        yield _one([1], {"$pull": {"a": operand}}, "pull operand")


def _pops() -> Iterator[Change]:
    values: tuple[Any, ...] = (..., [], [1], [1, 2, 3], [[1], 2], None, 1, {})
    for old in values:
        for side in (1, -1, 1.0, -1.0, Decimal128("1"), Decimal128("-1")):
            yield _one(old, {"$pop": {"a": side}}, "pop")
    odd: tuple[Any, ...] = (0, 2, -2, 1.5, True, "1", None, [], {}, NAN, INFINITY, Decimal128("1.5"))
    for side in odd:
        yield _one([1, 2], {"$pop": {"a": side}}, "pop operand")


def _renames() -> Iterator[Change]:
    both: dict[str, Any] = {"a": {"b": 1}, "c": 2, "l": [{"b": 1}]}
    for old, new in (("a", "z"), ("a", "c"), ("c", "a.c"), ("a.b", "b"), ("a.b", "a.z"), ("a.b", "z.y"),
        ("x", "y"), ("a.x", "y"), ("c.x", "y"), ("a", "a"), ("a", "a.b"), ("a.b", "a")):  # fmt: skip
        yield Change([both], {}, {"$rename": {old: new}}, "rename")
    wrong: tuple[tuple[str, Any], ...] = (
        ("l.b", "z"), ("l.0", "z"), ("c", "l.b"), ("c", "l.0"), ("l.x", "z"), ("c", "c.d"), ("a", ""), ("", "a"),
        ("a", "$z"), ("a", 1), ("a", None),
    )  # fmt: skip
    for old, name in wrong:
        yield Change([both], {}, {"$rename": {old: name}}, "rename")


_ROWS: Final[list[dict[str, Any]]] = [{"b": 1, "c": [1, 2]}, {"b": 2, "c": [3, 4]}, {"b": 3}]


def _ways() -> Iterator[Change]:
    changes: tuple[tuple[str, Any], ...] = (("$set", 9), ("$inc", 10), ("$unset", ""), ("$mul", 2), ("$min", 2),
        ("$max", 2))  # fmt: skip
    conditions: tuple[Any, ...] = (2, {"$gte": 2}, {"$gt": 1, "$lt": 3}, {"$in": [2, 3]}, {"$ne": 2},
        {"$elemMatch": {"$gt": 1}}, 9)  # fmt: skip
    for operator, operand in changes:
        for condition in conditions:
            yield Change([{"a": [1, 2, 3]}], {"a": condition}, {operator: {"a.$": operand}}, "matched")
        yield Change([{"a": [1, 2, 3]}], {}, {operator: {"a.$[]": operand}}, "every")
        yield Change([{"a": []}], {}, {operator: {"a.$[]": operand}}, "every")
        for inner in ({"x": 2}, {"x": {"$gte": 2}}, {"x": {"$gt": 5}}, {"$or": [{"x": 1}, {"x": 3}]},
            {"x": {"$ne": 2}}):  # fmt: skip
            yield Change([{"a": [1, 2, 3]}], {}, {operator: {"a.$[x]": operand}}, "filtered", [inner])
        yield Change([{"a": _ROWS}], {"a.b": 2}, {operator: {"a.$.b": operand}}, "matched")
        yield Change([{"a": _ROWS}], {"a": {"$elemMatch": {"b": {"$gt": 1}}}}, {operator: {"a.$.b": operand}},
            "matched")  # fmt: skip
        yield Change([{"a": _ROWS}], {}, {operator: {"a.$[].b": operand}}, "every")
        yield Change([{"a": _ROWS}], {}, {operator: {"a.$[x].b": operand}}, "filtered", [{"x.b": {"$gte": 2}}])
        yield Change([{"a": _ROWS[:2]}], {}, {operator: {"a.$[].c.$[]": operand}}, "every")
        yield Change([{"a": _ROWS[:2]}], {}, {operator: {"a.$[x].c.$[y]": operand}}, "filtered",
            [{"x.b": 2}, {"y": {"$gt": 3}}])  # fmt: skip
        yield Change([{"a": _ROWS}], {}, {operator: {"a.1.b": operand}}, "way")
        for value in (1, None, {"b": 1}, "x"):
            yield Change([{"a": value}], {}, {operator: {"a.$[]": operand}}, "every")
        yield Change([{"b": 1}], {}, {operator: {"a.$[]": operand}}, "every")
    for array in ("a.$", "a.$[]", "a.$[x]"):
        filters = [{"x.b": 2}] if "x" in array else []
        for operator, operand in (("$push", 7), ("$pop", 1), ("$pull", 3), ("$addToSet", 3),
            ("$push", {"$each": [8, 9], "$slice": -2})):  # fmt: skip
            yield Change([{"a": _ROWS[:2]}], {"a.b": 2}, {operator: {f"{array}.c": operand}}, "matched", filters)
    wrong: tuple[tuple[str, list[dict[str, Any]]], ...] = (
        ("$set", []), ("a.$[x]", []), ("a.$[]", [{"x": 1}]), ("a.$[x]", [{"y": 1}]),
        ("a.$[x]", [{"x": 1}, {"x": 2}]), ("a.$[x]", [{"x": 1, "y": 2}]), ("a.$[x]", [{}]),
        ("a.$[x].$", [{"x": 1}]), ("a.$.b.$", []), ("$[]", []), ("a.$[X y]", [{"X y": 1}]),
        ("a.$[x]", [{"x": {"$bogus": 1}}]), ("a.$", []), ("b.$", []),
    )  # fmt: skip
    for path, filters in wrong:
        yield Change([{"a": [1, 2], "b": 1}], {}, {"$set": {path: 1}}, "way operand", filters)


def _several() -> Iterator[Change]:
    three: list[dict[str, Any]] = [{"a": 1, "b": "x"}, {"a": 2, "b": "x"}, {"a": 3, "b": "y"}]
    filters: tuple[dict[str, Any], ...] = ({}, {"b": "x"}, {"a": {"$gt": 1}}, {"a": 9},
        {"$or": [{"a": 1}, {"b": "y"}]}, {"a": {"$in": [1, 3]}})  # fmt: skip
    updates: tuple[dict[str, Any], ...] = (
        {"$set": {"c": 1}}, {"$inc": {"a": 10}}, {"$unset": {"b": ""}, "$inc": {"a": 1}}, {"$rename": {"b": "z"}},
        {"$set": {"b": "q"}, "$max": {"a": 2}},
        {"$push": {"l": 1}, "$set": {"m.n": 1}}, {"$set": {"a": 1}, "$setOnInsert": {"d": 1}},
    )  # fmt: skip
    for written in filters:
        for update in updates:
            for many in (False, True):
                yield Change(three, written, update, "several", many=many)


def _upserts() -> Iterator[Change]:
    some: list[dict[str, Any]] = [{"a": 1}]
    filters: tuple[dict[str, Any], ...] = (
        {"a": 5}, {"a": {"$eq": 5}}, {"a": {"$gt": 5}}, {"a": 5, "b": "x"}, {"a.b": 5},
        {"$and": [{"a": 5}, {"b": 6}]}, {"$or": [{"a": 5}, {"a": 6}]}, {"a": {"$in": [5, 6]}},
        {"a": {"$ne": 1}}, {"a": {"$exists": False}}, {"a": None, "b": 1}, {"a": [5]}, {"a": {"b": 5}},
        {"a": {"$all": [5]}}, {"a": {"$not": {"$lt": 9}}}, {"a": {"$elemMatch": {"b": 1}}},
        {"a": 5, "a.b": 6}, {"$and": [{"a": 5}, {"a": 6}]}, {"$and": [{"a": 5}, {"a": 5}]}, {"_id": 7},
        {"_id": 7, "a": 5}, {"a": {"$regex": "zz"}}, {"a": {"$size": 9}}, {"$nor": [{"a": 1}]},
    )  # fmt: skip
    updates: tuple[dict[str, Any], ...] = ({"$set": {"c": 1}}, {"$setOnInsert": {"c": 1, "d": 2}},
        {"$inc": {"c": 2}}, {"$push": {"l": 1}}, {"$set": {"a": 9}}, {"$unset": {"a": 1}})  # fmt: skip
    for written in filters:
        for update in updates:
            yield Change(some, written | ({} if "_id" in written else {"_id": 7}), update, "upsert", upsert=True)
    yield Change(some, {"a": 1}, {"$set": {"c": 1}, "$setOnInsert": {"d": 1}}, "upsert", upsert=True)
    yield Change(some, {"a": 5, "_id": 7}, {"$setOnInsert": {"_id": 8}}, "upsert", upsert=True)


def _mistakes() -> Iterator[Change]:
    operators = ("$set", "$unset", "$inc", "$mul", "$min", "$max", "$push", "$addToSet", "$pull", "$pop",
        "$rename", "$currentDate", "$setOnInsert")  # fmt: skip
    odd: tuple[Any, ...] = (1, None, "x", [], True)
    for operator in operators:
        for operand in odd:
            yield _one(1, {operator: operand}, "update operand")
        yield _one(1, {operator: {}}, "empty update")
    two: tuple[dict[str, Any], ...] = (
        {"$set": {"a": 1}, "$inc": {"a": 1}}, {"$set": {"a": 1, "a.b": 2}},
        {"$set": {"a.b": 1}, "$unset": {"a": ""}}, {"$set": {"a.b": 1, "a.c": 2}},
        {"$rename": {"a": "b"}, "$set": {"b": 1}},
        {"$rename": {"a": "b"}, "$set": {"a": 1}}, {"$set": {"a": 1}, "b": 2}, {"b": 2}, {}, {"$bogus": {"a": 1}},
        {"$set": {"_id": 9}}, {"$set": {"_id": 0}}, {"$inc": {"_id": 1}}, {"$unset": {"_id": ""}},
        {"$set": {"": 1}}, {"$set": {"a.": 1}}, {"$set": {".a": 1}}, {"$set": {"a..b": 1}}, {"$set": {"$a": 1}},
        {"$set": {"a.$b": 1}}, {"$set": {"a": {"$b": 1}}}, {"$set": {"a": 1}, "$set2": {"b": 1}},
    )  # fmt: skip
    for update in two:
        yield _one({"b": 1}, update, "conflict")
