"""The documents that the cases of the corpus are about, in sets of one subject each."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from bson import Binary, Decimal128, MaxKey, MinKey, ObjectId, Regex, Timestamp

NAN: Final = float("nan")
INFINITY: Final = float("inf")


def _numbered(values: list[Any]) -> list[dict[str, Any]]:
    """One document for each value, under `a`; an Ellipsis makes a document without the field."""
    return [{"_id": number} if value is ... else {"_id": number, "a": value} for number, value in enumerate(values)]


def moment(day: int, millisecond: int = 0) -> datetime:
    """A date of January 2026."""
    return datetime(2026, 1, day, 12, 30, 0, millisecond * 1000, tzinfo=UTC)


NUMBERS: Final = _numbered([
    0, 1, -1, 2, 3, 2.0, 2.5, -2.5, -0.0, 0.1, 1e300, INFINITY, -INFINITY, NAN,
    2**31 - 1, 2**31, 2**53, 2**53 + 1, float(2**53), 2**63 - 1, -(2**63), float(2**63),
    Decimal128("2"), Decimal128("2.50"), Decimal128("0.1"), Decimal128("-0"), Decimal128("NaN"), Decimal128("Infinity"),
    Decimal128("1E+40"), None, ..., True, False, "2", "", [1, 2], [2.5, "x"], [], [[2]], [NAN], [Decimal128("2")],
    {"b": 2},
])  # fmt: skip

TYPES: Final = _numbered([
    None, ..., True, False, 0, 7, 2**40, 1.5, Decimal128("1.5"), "", "x", "é", {}, {"b": 1}, {"b": "x", "c": 1},
    [], [1], ["x"],
    b"", b"\x01\x02", b"\x02", Binary(b"\x01\x02", 5), ObjectId("65a000000000000000000001"),
    ObjectId("65a000000000000000000002"),
    moment(1), moment(2), moment(2, 5), Timestamp(1, 1), Timestamp(1, 2), Timestamp(2, 0), Regex("x"),
    Regex("x", "i"), MinKey(),
    MaxKey(), [None], [True, 7], [MinKey()], [MaxKey()], [moment(2)], [Timestamp(1, 2)], [Regex("x")], [b"\x02"],
    [[]], [{}],
    [ObjectId("65a000000000000000000001")], [Decimal128("1.5"), "x"], [{"b": 1}], [[1], ["x"]],
])  # fmt: skip

ARRAYS: Final = _numbered([
    [], [1], [1, 2], [2, 1], [1, 1], [[1]], [[1, 2]], [[]], [[], 1], [None], [None, 1], [{"b": 1}],
    [{"b": 1}, {"b": 2}], [{"b": [1, 2]}],
    [[{"b": 1}]], [{"b": 1}, [{"b": 2}]], 1, 2, None, ..., {}, {"b": 1}, {"b": [1, 2]}, {"b": [[1], [2]]},
    [[1], [2]], ["x", "y"],
    [[["x"]]], [{}], [1, "x", None], {"0": 1}, [{"0": 1}], {"b": None}, [{"b": None}], [{"b": {"c": 1}}],
    {"b": [{"c": 1}, {"c": 2}]},
    [{"b": [{"c": 1}]}, {"b": [{"c": 2}]}], [3, 4, 5], [1, 10], [{"b": 1, "c": 2}, {"b": 2, "c": 1}], [[[1, 2], 3]],
])  # fmt: skip

TEXTS: Final = _numbered([
    "", "a", "A", "ab", "AB", "abc", "b", "ba", "a\nb", "a\n", "\na", "a b", "a\tb", "a1", "12", "1_2", "é", "É",
    "élan", "naïve", "ß", "\u017f", "K", "Straße", "日本", "𝄞", "e\u0301", "a.b", "a+b", "(a)", "^a", "a$",
    "\\a", "x" * 40, "a\r\n", "a\x0bb", "a\u00a0b", "٣", "Ω", "ω",
    None, ..., 1, ["a", "é"], ["x", 1], [["a"]], [], Regex("a"), Regex("a", "i"), {"b": "a"}, "foo bar", "Foo",
    "foobar", "barfoo",
])  # fmt: skip


def _row(number: int) -> dict[str, Any]:
    """A document as a shop would have it: each field has one type, and some are missing or null."""
    row: dict[str, Any] = {
        "_id": number,
        "i": number * 7 % 10 - 3,
        "n": (number * 5 % 13 - 4) / 2,
        "s": ("ann", "bob", "Cyd", "dan", "eve", "", "böb")[number * 3 % 7],
        "f": number % 3 == 0,
        "d": moment(1 + number * 11 % 28, number % 4),
        "t": [("vip", "new", "old", "vip2", "x")[(number + step) % 5] for step in range(number % 4)],
        "v": [(number * step) % 9 for step in range(1, 1 + number % 5)],
        "o": {"x": number * 3 % 8, "y": ("k", "l", "m")[number % 3]},
        "l": [{"x": (number + step) % 4, "y": ("p", "q")[(number + step) % 2]} for step in range(number % 3)],
        "e": [],
        "c": "same",
        "z": None,
        "m": Decimal128(f"{number * 4 % 11 - 3}.{number % 3}0"),
        "k": ObjectId(f"65a0000000000000000000{number % 20:02}"),
        "y": bytes([number % 5, number % 3]),
        "w": (0.0, -0.0, 1.0, 2.5, NAN, INFINITY, -INFINITY, float(2**53), 1e300, -7.25, 0.1)[number % 11],
    }
    if number % 11 == 5:
        row |= {"i": None, "s": None, "d": None, "v": None, "o": {"x": None, "y": None}}
    absent = "ntow" if number % 9 == 4 else "islcmky" if number % 13 == 6 else ""
    return {name: value for name, value in row.items() if name not in absent}


SHOP: Final = [_row(number) for number in range(60)]

SHAPES: Final = [
    {"_id": 0, "a": {"b": 1, "c": [1, 2, 3]}, "d": 4},
    {"_id": 1, "a": [{"b": 1, "c": [1, 2, 3]}, {"b": 2, "c": [4]}, 5], "d": [1, 2, 3, 4]},
    {"_id": 2, "a": [[{"b": [1, 2], "c": [3, 4]}], {"b": [5, 6], "c": 7}], "d": [[1, 2], [3]]},
    {"_id": 3, "d": {"b": {"c": 1, "d": 2}}, "a": None},
    {"_id": 4, "a": [1, "x", None, [2, 3], {"b": {"c": 1}}], "d": []},
    {"_id": 5, "a": {"b": [{"c": 1, "d": [1, 2]}, {"c": 2, "d": [3, 4]}, 3], "c": {}}},
    {"_id": 6, "a": "x", "d": moment(3)},
    {"_id": 7, "d": [{"b": 1}, {"b": 2}, {"b": 3, "c": 2}], "a": [], "e": 1},
]

SETS: Final[dict[str, list[dict[str, Any]]]] = {
    "numbers": NUMBERS,
    "types": TYPES,
    "arrays": ARRAYS,
    "texts": TEXTS,
    "shop": SHOP,
    "shapes": SHAPES,
}
"""All sets by name."""
