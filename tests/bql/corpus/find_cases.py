"""Filters of the corpus: every operator with ordinary and odd operands, on every kind of value and path.

Each case names the law of MongoDB's manual (`laws.py`) by which it is settled where oracles disagree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bson import Binary, Decimal128, MaxKey, MinKey, ObjectId, Regex, Timestamp

from tests.bql.corpus.documents import INFINITY, NAN, moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bql.corpus.chance import Dice

COMPARISONS: Final = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")
ORDERS: Final = COMPARISONS[2:]


class Find(NamedTuple):
    """A filter on a set of documents, and the law that settles it."""

    documents: str
    filter: dict[str, Any]
    law: str


def find_cases(dice: Dice) -> Iterator[Find]:
    """All of them, in the same order every time."""
    yield from _numbers()
    yield from _types()
    yield from _type_names()
    yield from _arrays()
    yield from _elements()
    yield from _texts()
    yield from _expressions()
    yield from _odd_operands()
    yield from _logic()
    yield from _shop()
    yield from _combined(dice)


def _numbers() -> Iterator[Find]:
    operands: list[Any] = [
        0, -0.0, 1, 2, 2.0, 2.5, -2.5, 0.1, 1e300, NAN, INFINITY, -INFINITY, 2**31, 2**53, 2**53 + 1,
        float(2**53), 2**63 - 1,
        -(2**63), float(2**63), Decimal128("2"), Decimal128("2.5"), Decimal128("0.1"), Decimal128("NaN"),
        Decimal128("-Infinity"),
        Decimal128("1E+40"),
    ]  # fmt: skip
    for operand in operands:
        for operator in COMPARISONS:
            yield Find("numbers", {"a": {operator: operand}}, "numbers")
        yield Find("numbers", {"a": {"$in": [operand]}}, "numbers")
        yield Find("numbers", {"a": {"$not": {"$gte": operand}}}, "not")
        yield Find("numbers", {"a": {"$all": [operand]}}, "all")
        yield Find("numbers", {"a": {"$elemMatch": {"$eq": operand}}}, "elemMatch value")
    for low, high in ((0, 2), (2, 2.5), (-1, 1), (2.5, 0), (NAN, NAN), (2**53, 2**53 + 1), (Decimal128("0.1"), 2)):
        for lower, upper in (("$gt", "$lt"), ("$gte", "$lte"), ("$gte", "$lt")):
            yield Find("numbers", {"a": {lower: low, upper: high}}, "and")
        yield Find("numbers", {"a": {"$in": [low, high, "2"]}}, "in")
        yield Find("numbers", {"a": {"$nin": [low, high, None]}}, "in")
    divisors = [2, -2, 3, 2.0, 2.9, Decimal128("3"), 2**40, -(2**63), 0, 0.5, NAN, INFINITY, 2.0**63, "2", None,
        True, Decimal128("NaN")]  # fmt: skip
    for divisor in divisors:
        for remainder in (0, 1, -1, 1.9, Decimal128("1")):
            yield Find("numbers", {"a": {"$mod": [divisor, remainder]}}, "mod")
    for operand in ([], [2], [2, 0, 1], 2, None, {}, "2", [2, None], [2, "0"], [2, NAN]):
        yield Find("numbers", {"a": {"$mod": operand}}, "mod")


def _types() -> Iterator[Find]:
    operands: list[Any] = [
        None, True, False, 0, 7, 1.5, Decimal128("1.5"), "", "x", "y", {}, {"b": 1}, {"b": 1.0},
        {"c": 1, "b": "x"}, {"b": "x", "c": 1}, [], [1],
        ["x"], [None], [[]], b"", b"\x02", b"\x01\x02", Binary(b"\x01\x02", 5),
        ObjectId("65a000000000000000000001"), moment(2), moment(2, 5),
        Timestamp(1, 2), MinKey(), MaxKey(),
    ]  # fmt: skip
    for operand in operands:
        law = "ends" if isinstance(operand, MinKey | MaxKey) else "null" if operand is None else "bracket"
        for operator in COMPARISONS:
            yield Find("types", {"a": {operator: operand}}, law)
        yield Find("types", {"a": operand}, "equality")
        for operator in ("$in", "$nin", "$all"):
            yield Find("types", {"a": {operator: [operand]}}, "in" if operator != "$all" else "all")
        for operator in ("$eq", "$gte", "$lt"):
            yield Find("types", {"a": {"$elemMatch": {operator: operand}}}, "elemMatch value")
        yield Find("types", {"a": {"$not": {"$lte": operand}}}, "not")
    for operator in ORDERS:
        yield Find("types", {"a": {operator: Regex("x")}}, "regex operand")
    yield Find("types", {"a": {"$ne": Regex("x")}}, "regex operand")
    yield Find("types", {"a": {"$eq": Regex("x")}}, "regex value")
    for low, high in ((MinKey(), MaxKey()), (MinKey(), 7), (7, MaxKey()), (MaxKey(), MinKey()), ("", {}),
        (moment(1), moment(2))):  # fmt: skip
        for lower, upper in (("$gt", "$lt"), ("$gte", "$lte")):
            yield Find("types", {"a": {lower: low, upper: high}}, "ends")
            yield Find("types", {"a": {"$elemMatch": {lower: low, upper: high}}}, "ends")


def _type_names() -> Iterator[Find]:
    names = (
        "double", "string", "object", "array", "binData", "undefined", "objectId", "bool", "date", "null",
        "regex", "dbPointer", "javascript",
        "symbol", "javascriptWithScope", "int", "timestamp", "long", "decimal", "minKey", "maxKey", "number",
    )  # fmt: skip
    codes: tuple[Any, ...] = (*range(1, 20), -1, 127)
    for name in (*names, *codes):
        yield Find("types", {"a": {"$type": name}}, "type")
        yield Find("types", {"a": {"$type": [name, "string"]}}, "type")
        yield Find("types", {"a": {"$not": {"$type": name}}}, "type")
    for several in (["int", "long"], ["number", "array"], [2, 4], ["null", 8.0], ["minKey", "maxKey"],
        [1, "bool", 16], ["string", "string"]):  # fmt: skip
        for path in ("a", "a.b", "a.0"):
            yield Find("types", {path: {"$type": several}}, "type")
        yield Find("types", {"a": {"$elemMatch": {"$type": several}}}, "elemMatch value")
        yield Find("numbers", {"a": {"$type": several}}, "type")
    odd: tuple[Any, ...] = (
        [], [[]], None, True, 0, -2, 20, 99, 128, 255, 2.0, 2.5, Decimal128("2"), Decimal128("2.5"), NAN,
        INFINITY, "String", "", "missing", {}, {"a": 1},
        ["string", "x"], ["string", None], ["string", 2.5], ["string", True], [["string"]], Regex("string"), 2**40,
    )  # fmt: skip
    for operand in odd:
        yield Find("types", {"a": {"$type": operand}}, "type operand")


def _arrays() -> Iterator[Find]:
    operands: tuple[Any, ...] = (1, 2, None, "x", [], [1], [1, 2], [[1]], {}, {"b": 1}, {"c": 1})
    paths = ("a", "a.b", "a.0", "a.1", "a.0.b", "a.b.0", "a.0.0", "a.b.c")
    for path in paths:
        law = "elements" if path == "a" else "path"
        for operand in operands:
            for operator in COMPARISONS:
                yield Find("arrays", {path: {operator: operand}}, law)
        for operand in ([1], [1, 2], [None], [[1]], [[], "x"], [{"b": 1}], []):
            for operator in ("$in", "$nin", "$all"):
                yield Find("arrays", {path: {operator: operand}}, "all" if operator == "$all" else "in")
        for size in range(4):
            yield Find("arrays", {path: {"$size": size}}, "size")
        for flag in (True, False):
            yield Find("arrays", {path: {"$exists": flag}}, "exists")
        for name in ("array", "object", "int", "null"):
            yield Find("arrays", {path: {"$type": name}}, "type")
        yield Find("arrays", {path: {"$mod": [2, 1]}}, "mod")
        yield Find("arrays", {path: {"$gt": 8, "$lt": 5}}, "and")
        yield Find("arrays", {path: {"$gte": 1, "$lte": 1}}, "and")


def _elements() -> Iterator[Find]:
    about_values: tuple[dict[str, Any], ...] = (
        {"$gt": 1}, {"$gt": 1, "$lt": 3}, {"$gt": 8, "$lt": 5}, {"$eq": None}, {"$eq": [1]}, {"$ne": 1},
        {"$in": [1, [1]]}, {"$nin": [1, None]},
        {"$exists": True}, {"$exists": False}, {"$type": "array"}, {"$size": 1}, {"$size": 0},
        {"$not": {"$gt": 1}}, {"$not": {"$exists": True}},
        {"$elemMatch": {"$gt": 1}}, {"$elemMatch": {"b": 1}}, {"$all": [1]}, {"$regex": "x"}, {"$mod": [2, 1]},
        {"$lte": {}}, {"$gte": []},
    )  # fmt: skip
    about_documents: tuple[dict[str, Any], ...] = (
        {}, {"b": 1}, {"b": {"$gt": 1}}, {"b": None}, {"b": {"$exists": False}}, {"b": {"$ne": 1}},
        {"b": 1, "c": 2}, {"b": [1, 2]}, {"0": 1},
        {"b": {"$elemMatch": {"c": 1}}}, {"b.c": 1}, {"b.0": 1}, {"$or": [{"b": 2}, {"c": 2}]},
        {"$and": [{"b": 1}, {"c": 2}]}, {"$nor": [{"b": 1}]},
        {"b": {"$in": [2, None]}}, {"b": {"$not": {"$gt": 1}}}, {"0": {"$exists": True}}, {"0.b": 1},
        {"b": {"$size": 2}}, {"b": {"$type": "number"}},
    )  # fmt: skip
    for path in ("a", "a.b", "a.0", "a.b.0"):
        for inner in about_values:
            yield Find("arrays", {path: {"$elemMatch": inner}}, "elemMatch value")
        for inner in about_documents:
            yield Find("arrays", {path: {"$elemMatch": inner}}, "elemMatch document")
    for inner in (*about_values[:6], *about_documents[:8]):
        yield Find("arrays", {"a": {"$not": {"$elemMatch": inner}}}, "not")
        yield Find("arrays", {"a": {"$all": [{"$elemMatch": inner}]}}, "all")
        yield Find("arrays", {"a": {"$all": [{"$elemMatch": inner}, {"$elemMatch": {"b": 2}}]}}, "all")
    for operand in (1, None, "x", [], [1], True, Regex("x"), {"$gt": 1, "b": 1}, {"b": 1, "$gt": 1}, {"$bogus": 1}):
        yield Find("arrays", {"a": {"$elemMatch": operand}}, "elemMatch operand")
    for listed in ([{"$elemMatch": {"b": 1}}, 1], [1, {"$elemMatch": {"b": 1}}], [{"$gt": 1}], [{"b": 1}, {"$gt": 1}]):
        yield Find("arrays", {"a": {"$all": listed}}, "all")


PATTERNS: Final = (
    "a", "^a", "a$", "^a$", "", "^", "$", "^$", "b|é", "[ab]+", "(a)(b)", "a.b", r"a\.b", "a+b", r"a\+b",
    r"\(a\)", r"\^a", r"a\$", r"\\a", "^.$",
    "^..$", r"\d", r"^\d+$", r"\w", r"^\w+$", r"\W", r"\s", r"\S", r"\b", r"\ba", r"a\b", r"\bfoo\b", r"\D",
    "[[:alpha:]]", "^[[:alpha:]]+$",
    "[[:digit:]]", "[[:space:]]", "[[:upper:]]", "[[:^alpha:]]", "[^a]", "[a-c]", "[é]", "[à-ü]", "é", "É", "ß",
    "SS", "k", "s", "ω", "日", "^日本$",
    r"\x{e9}", r"\xe9", r"\p{L}", r"\p{Lu}", r"\p{Ll}", r"\p{N}", r"\p{Greek}", r"\P{L}", r"\p{^L}", r"\pL",
    r"^\p{L}+$", r"\p{Han}", "x{40}", "x{41}", "a*",
    "(?i)ab", "(?m)^b", "(?s)a.b", "(?:ab)+", "a{2,}", "foo(bar)?", "^foo", "bar$", "^(foo|bar)", r"\Aa", r"a\z",
    r"\Qa.b\E", "a b", "a\tb", r"a\tb",
    r"\n", r"a\nb", r"\v", r"a\vb", r"\h", r"\R", r"\N", r"a\Z", "#|a$", r"#|\s", "a #|b$",
)  # fmt: skip
_BROKEN: Final = ("(", "[", "*a", "a{2", "a)", "(?<name", r"\p{Nope}", "(?=a)", r"(a)\1", "a**", "[b-a]",
    "(?<!a)b", "(*UCP)\\w", "(*UTF)a")  # fmt: skip


def _texts() -> Iterator[Find]:
    for pattern in PATTERNS:
        for options in ("", "i", "m", "s"):
            if options in {"", "i"} or (set(pattern) & set("^$.") and "\\" not in pattern):
                written = {"$regex": pattern} | ({"$options": options} if options else {})
                yield Find("texts", {"a": written}, "regex")
    for operator in COMPARISONS:
        for text in ("a", "", "é", "B", "日"):
            yield Find("texts", {"a": {operator: text}}, "bracket")


def _expressions() -> Iterator[Find]:
    for pattern in _BROKEN:
        yield Find("texts", {"a": {"$regex": pattern}}, "regex operand")
    for pattern in ("a b", "a # b\nb", "[a ] b", r"a\ b", "a b c"):
        yield Find("texts", {"a": {"$regex": pattern, "$options": "x"}}, "regex")
        yield Find("texts", {"a": {"$regex": pattern, "$options": "xi"}}, "regex")
    for expression in (Regex("a"), Regex("a", "i"), Regex("^a", "m"), Regex("é", "i"), Regex("")):
        yield Find("texts", {"a": expression}, "regex")
        yield Find("texts", {"a": {"$in": [expression, 1]}}, "in")
        yield Find("texts", {"a": {"$nin": [expression, None]}}, "in")
        yield Find("texts", {"a": {"$not": expression}}, "not")
        yield Find("texts", {"a": {"$all": [expression]}}, "all")
        yield Find("texts", {"a": {"$regex": expression}}, "regex")
        yield Find("texts", {"a": {"$regex": expression, "$options": "i"}}, "regex operand")
        yield Find("texts", {"a": {"$elemMatch": {"$regex": expression}}}, "elemMatch value")
    odd: tuple[Any, ...] = (1, None, True, [], {}, ["a"], NAN, moment(1))
    for operand in odd:
        yield Find("texts", {"a": {"$regex": operand}}, "regex operand")
        yield Find("texts", {"a": {"$regex": "a", "$options": operand}}, "regex operand")
    for options in ("u", "iu", "g", "ii", "ix", "I", ""):
        yield Find("texts", {"a": {"$regex": "a", "$options": options}}, "regex operand")
    yield Find("texts", {"a": {"$options": "i"}}, "regex operand")


def _odd_operands() -> Iterator[Find]:
    odd: tuple[Any, ...] = (
        None, True, False, 0, 1, -1, 2, 1.0, 2.0, 1.5, -0.0, NAN, INFINITY, 2**40, Decimal128("0"),
        Decimal128("1"), Decimal128("2"), Decimal128("1.5"),
        Decimal128("NaN"), "", "x", "1", [], [1], {}, {"b": 1}, b"", moment(1), Timestamp(0, 0), Regex("x"),
        ObjectId("65a000000000000000000001"), MinKey(), MaxKey(),
    )  # fmt: skip
    for operand in odd:
        yield Find("arrays", {"a": {"$exists": operand}}, "exists operand")
        yield Find("arrays", {"a.b": {"$exists": operand}}, "exists operand")
        yield Find("arrays", {"a": {"$size": operand}}, "size operand")
        yield Find("arrays", {"a": {"$not": operand}}, "not operand")
        if not isinstance(operand, list):
            for operator in ("$in", "$nin", "$all"):
                yield Find("arrays", {"a": {operator: operand}}, "list operand")
            for operator in ("$and", "$or", "$nor"):
                yield Find("arrays", {operator: operand}, "logic operand")
    for operator in ("$in", "$nin", "$all", "$eq", "$gt"):
        yield Find("arrays", {"a": {operator: [{"$gt": 1}] if operator in {"$in", "$nin",
            "$all"} else {"$gt": 1}}}, "list operand")  # fmt: skip
    lists: tuple[list[Any], ...] = ([1], [None], [[]], [{"a": 1}, 2], [{"$gt": 1}], [{}], [{}, {"a": 1}])
    for operator in ("$and", "$or", "$nor"):
        for listed in lists:
            yield Find("arrays", {operator: listed}, "logic operand")
        yield Find("arrays", {"a": {operator: [{"$gt": 1}]}}, "logic operand")
    for written in ({"$gt": 1}, {"$bogus": 1}, {"a": {"$bogus": 1}}, {"a": {"$gt": 1, "b": 2}},
        {"a": {"b": 2, "$gt": 1}}, {"$where": "1"}, {"$not": 1}):  # fmt: skip
        yield Find("arrays", written, "unknown")


def _logic() -> Iterator[Find]:
    simple: tuple[dict[str, Any], ...] = ({"a": 1}, {"a": {"$gt": 1}}, {"a.b": 1}, {"a": None},
        {"a": {"$exists": False}}, {"a": {"$size": 2}})  # fmt: skip
    for first in simple:
        for second in simple:
            for operator in ("$and", "$or", "$nor"):
                yield Find("arrays", {operator: [first, second]}, "logic")
        yield Find("arrays", {"$nor": [first]}, "logic")
        yield Find("arrays", {"$and": [{"$or": [first, {"a": "x"}]}, {"$nor": [first, {"a": 2}]}]}, "logic")
    yield Find("arrays", {}, "logic")
    operators: tuple[dict[str, Any], ...] = ({"$gt": 1}, {"$in": [1, 2]}, {"$exists": True}, {"$type": "array"},
        {"$eq": None}, {"$all": [1, 2]}, {"$ne": 1})  # fmt: skip
    for inner in operators:
        for path in ("a", "a.b", "a.0"):
            yield Find("arrays", {path: {"$not": inner}}, "not")
            yield Find("arrays", {path: {"$not": inner, "$ne": [1]}}, "not")
        yield Find("arrays", {"a": {"$not": {"$not": inner}}}, "not")


_SHOP_OPERANDS: Final[dict[str, tuple[Any, ...]]] = {
    "i": (0, 2.0, 5, -3, None, 1.5, Decimal128("4"), "2", MinKey(), MaxKey()),
    "n": (0, 0.5, -2, 4.5, None, NAN, Decimal128("0.5"), MaxKey()),
    "s": ("bob", "", "Cyd", "böb", None, "c", 1, MinKey()),
    "f": (True, False, None, 1),
    "d": (moment(5, 1), moment(12), None, "2026-01-05"),
    "t": ("vip", "x", None, ["vip"], [], ["vip", "new"], "v"),
    "v": (0, 3, 8, None, [], [4], 2.5),
    "o": ({"x": 1, "y": "l"}, {}, None, {"y": "l", "x": 1}),
    "o.x": (1, 3, None, 2.0),
    "o.y": ("l", None, "k"),
    "l": ({"x": 1, "y": "q"}, None, []),
    "l.x": (1, 3, None),
    "l.y": ("p", None),
    "l.0.x": (1, 2, None),
    "e": ([], None, 1),
    "c": ("same", "other", None),
    "z": (None, 1),
    "m": (Decimal128("1.10"), 1, 1.1, None, Decimal128("NaN"), -3, Decimal128("4.0"), MinKey()),
    "k": (ObjectId("65a000000000000000000007"), None, "65a000000000000000000007", MaxKey()),
    "y": (b"\x01\x02", b"", None, b"\x01\x01", Binary(b"\x01\x01", 5)),
    "w": (0, -0.0, NAN, INFINITY, -INFINITY, 2**53 + 1, 2.5, Decimal128("0.1"), None, MaxKey()),
    "_id": (0, 7, 59.0, 60, "7", None, [7]),
}


def _shop() -> Iterator[Find]:
    for path, operands in _SHOP_OPERANDS.items():
        for operand in operands:
            law = "ends" if isinstance(operand, MinKey | MaxKey) else "null" if operand is None else "bracket"
            for operator in COMPARISONS:
                yield Find("shop", {path: {operator: operand}}, law)
        yield Find("shop", {path: {"$in": list(operands)}}, "in")
        yield Find("shop", {path: {"$nin": list(operands[:2])}}, "in")
        yield Find("shop", {path: {"$exists": True}}, "exists")
        yield Find("shop", {path: {"$exists": False}}, "exists")
        yield Find("shop", {path: {"$gt": operands[0], "$lt": operands[1]}}, "and")
        yield Find("shop", {path: {"$gt": operands[1], "$lt": operands[0]}}, "and")
        yield Find("shop", {"$and": [{path: operands[0]}, {path: operands[1]}]}, "and")
        yield Find("shop", {path: {"$type": ["string", "number", "bool"]}}, "type")
        yield Find("shop", {path: {"$type": "null"}}, "type")
    for path, size in (("t", 0), ("t", 2), ("v", 3), ("l", 1), ("e", 0), ("e", 1), ("c", 1)):
        yield Find("shop", {path: {"$size": size}}, "size")
    for path in ("t", "s", "v", "o.y"):
        for pattern in ("vip", "^v", "b$", "^bob$", "Y"):
            yield Find("shop", {path: {"$regex": pattern}}, "regex")
            yield Find("shop", {path: {"$regex": pattern, "$options": "i"}}, "regex")
    for inner in ({"$gt": 2, "$lt": 5}, {"$gt": 5, "$lt": 2}, {"$ne": 0}, {"$in": [0, 8]}):
        yield Find("shop", {"v": {"$elemMatch": inner}}, "elemMatch value")
    for fields in ({"x": 1, "y": "q"}, {"x": {"$gt": 1}}, {"y": {"$ne": "p"}}, {"x": None}):
        yield Find("shop", {"l": {"$elemMatch": fields}}, "elemMatch document")


def _combined(dice: Dice) -> Iterator[Find]:
    """Two or three conditions at a time, chosen by dice: what one finds, another must not spoil."""
    paths = list(_SHOP_OPERANDS)
    for _ in range(240):
        yield Find("shop", _combination(dice, lambda: _condition(dice, paths, _SHOP_OPERANDS)), "logic")
    few: dict[str, tuple[Any, ...]] = {path: (1, 2, None, [1], "x", {"b": 1}, []) for path in ("a", "a.b", "a.0",
        "a.b.c", "a.0.b")}  # fmt: skip
    for _ in range(160):
        yield Find("arrays", _combination(dice, lambda: _condition(dice, list(few), few)), "logic")


def _combination(dice: Dice, condition: Any) -> dict[str, Any]:
    parts = [condition() for _ in range(2 + dice.below(2))]
    kind = dice.below(5)
    if kind < 2:
        return {"$and": parts}
    if kind == 2:
        return {"$or": parts}
    if kind == 3:
        return {"$nor": parts[:2]}
    return {"$or": [{"$and": parts[:2]}, {"$nor": parts[1:]}]}


def _condition(dice: Dice, paths: list[str], operands: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    path = dice.one_of(paths)
    operand, other = dice.one_of(operands[path]), dice.one_of(operands[path])
    kind = dice.below(12)
    if kind < 6:
        return {path: {COMPARISONS[kind]: operand}}
    if kind == 6:
        return {path: {"$in": [operand, other]}}
    if kind == 7:
        return {path: {"$nin": [operand, other]}}
    if kind == 8:
        return {path: {"$not": {dice.one_of(COMPARISONS): operand}}}
    if kind == 9:
        return {path: {"$all": [operand, other]}}
    if kind == 10:
        return {path: {"$exists": dice.below(2) == 0}}
    return {path: {"$gte": operand, "$lte": other}}
