"""A second evaluator of filters: slow, and short enough to be read against MongoDB's documentation.

It works on filters as they are written, looks at one operator at a time, and shares with the package only the order
of values, the reading of paths and RE2.
"""

from __future__ import annotations

import re
from datetime import datetime
from decimal import ROUND_DOWN, Context
from typing import Any

from bson import Binary, Decimal128, MaxKey, MinKey, ObjectId, Regex, Timestamp

from wormdb.bql.regex import compile_regex
from wormdb.format.kinds import MISSING, Kind, kind_of
from wormdb.format.order import compare
from wormdb.format.path import resolve
from wormdb.format.wrappers import regex_options

CODES: dict[int, Any] = {
    1: float,
    2: str,
    3: dict,
    4: list,
    5: (bytes, Binary),
    6: (),
    7: ObjectId,
    8: bool,
    9: datetime,
    10: type(None),
    11: Regex,
    17: Timestamp,
    19: Decimal128,
    -1: MinKey,
    127: MaxKey,
}
ALIASES = {
    "double": [1],
    "string": [2],
    "object": [3],
    "array": [4],
    "binData": [5],
    "objectId": [7],
    "bool": [8],
    "date": [9],
    "null": [10],
    "regex": [11],
    "int": [16],
    "timestamp": [17],
    "long": [18],
    "decimal": [19],
    "minKey": [-1],
    "maxKey": [127],
    "number": [1, 16, 18, 19],
    "undefined": [6],
}

COMPLEMENTS = {"$ne": "$eq", "$nin": "$in"}
LOGICAL = {"$and", "$or", "$nor"}


def matches(document: dict[str, Any], written: dict[str, Any], *, top: bool = True) -> bool:
    """Whether the document matches all that is written."""
    for name, operand in written.items():
        if name == "$and":
            holds = all(matches(document, child, top=top) for child in operand)
        elif name == "$or":
            holds = any(matches(document, child, top=top) for child in operand)
        elif name == "$nor":
            holds = not any(matches(document, child, top=top) for child in operand)
        elif name == "$not":
            holds = not matches(document, operand, top=top)
        else:
            path = tuple(name.split("."))
            if top and path[0] == "id":
                path = ("_id", *path[1:])
            each, whole = resolve(document, path), resolve(document, path, expand=False)
            holds = _field(each, whole, operand)
        if not holds:
            return False
    return True


def _field(each: list[Any], whole: list[Any], operand: Any) -> bool:
    if isinstance(operand, dict) and any(name.startswith("$") for name in operand):
        return all(_operator(each, whole, name, value, operand) for name, value in operand.items())
    if isinstance(operand, Regex):
        return any(_regex(value, operand.pattern, regex_options(operand)) for value in each)
    return any(_equal(value, operand) for value in each)


def _operator(each: list[Any], whole: list[Any], name: str, operand: Any, beside: dict[str, Any]) -> bool:
    if name in COMPLEMENTS:
        return not _operator(each, whole, COMPLEMENTS[name], operand, beside)
    if name in {"$size", "$contains", "$elemMatch"}:
        return any(_about_whole(value, name, operand) for value in whole)
    match name:
        case "$exists":
            return any(value is not MISSING for value in each) == _is_true(operand)
        case "$options":
            return True
        case "$not":
            return not _field(each, whole, operand)
        case "$all":
            return bool(operand) and all(_all_item(each, whole, item) for item in operand)
        case "$regex":
            return any(_regex(value, operand, beside.get("$options", "")) for value in each)
    return any(_about_each(value, name, operand) for value in each)


def _about_each(value: Any, name: str, operand: Any) -> bool:
    match name:
        case "$eq":
            return _equal(value, operand)
        case "$in":
            return any(_equal_or_regex(value, item) for item in operand)
        case "$type":
            return _typed(value, operand)
        case "$mod":
            return _mod(value, *operand)
        case "$startsWith":
            return isinstance(value, str) and value[: len(operand)] == operand
        case "$endsWith":
            return isinstance(value, str) and value[max(0, len(value) - len(operand)) :] == operand
    return _ordered(value, name, operand)


def _about_whole(value: Any, name: str, operand: Any) -> bool:
    if name == "$contains" and isinstance(value, str):
        return isinstance(operand, str) and value.find(operand) >= 0
    if not isinstance(value, list):
        return False
    match name:
        case "$size":
            return compare(len(value), operand) == 0
        case "$contains":
            return any(_equal(element, operand) for element in value)
        case "$elemMatch":
            return any(_element(element, operand) for element in value)
    raise AssertionError(name)


def _element(element: Any, operand: dict[str, Any]) -> bool:
    if operand and all(name.startswith("$") and name not in LOGICAL for name in operand):
        return _field([element], [element], operand)
    if len(operand) == 1 and (name := next(iter(operand))) in LOGICAL and _are_operators(operand[name]):
        found = [_field([element], [element], child) for child in operand[name]]
        return {"$and": all(found), "$or": any(found), "$nor": not any(found)}[name]
    if isinstance(element, list):
        element = {str(place): item for place, item in enumerate(element)}
    return isinstance(element, dict) and matches(element, operand, top=False)


def _are_operators(children: list[dict[str, Any]]) -> bool:
    return all(name.startswith("$") and name not in LOGICAL and name != "$not" for child in children for name in child)


def _all_item(each: list[Any], whole: list[Any], item: Any) -> bool:
    if isinstance(item, dict) and set(item) == {"$elemMatch"}:
        return _operator(each, whole, "$elemMatch", item["$elemMatch"], item)
    return any(_equal_or_regex(value, item) for value in each)


def _equal(value: Any, operand: Any) -> bool:
    return compare(None if value is MISSING else value, operand) == 0


def _equal_or_regex(value: Any, item: Any) -> bool:
    return _equal(value, item) or (isinstance(item, Regex) and _regex(value, item.pattern, regex_options(item)))


def _ordered(value: Any, name: str, operand: Any) -> bool:
    if operand in (MinKey(), MaxKey()):
        return _told(compare(value, operand), name)
    if value is MISSING:
        value = None
    if kind_of(value) is not kind_of(operand):
        return False
    if _is_nan(value) != _is_nan(operand):
        return False
    return _told(compare(value, operand), name)


def _told(order: int, name: str) -> bool:
    return {"$gt": order > 0, "$gte": order >= 0, "$lt": order < 0, "$lte": order <= 0}[name]


def _is_nan(value: Any) -> bool:
    if isinstance(value, Decimal128):
        return bool(value.to_decimal().is_nan())
    return isinstance(value, float) and value != value  # noqa: PLR0124 - only NaN differs from itself


def _typed(value: Any, operand: Any) -> bool:
    named = operand if isinstance(operand, list) else [operand]
    codes = [code for name in named for code in (ALIASES[name] if isinstance(name, str) else [name])]
    for code in map(_whole, codes):
        if code in {16, 18}:
            if type(value) is int and (-(2**31) <= value < 2**31) == (code == 16):
                return True
        elif isinstance(value, CODES[code]) and (code != 1 or type(value) is float):
            return True
    return False


def _is_true(operand: Any) -> bool:
    return not (operand is None or operand is False or (kind_of(operand) is Kind.NUMBER and compare(operand, 0) == 0))


def _whole(code: Any) -> int:
    return int(code.to_decimal() if isinstance(code, Decimal128) else code)


def _mod(value: Any, divisor: int, remainder: int) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal128):
        return False
    exact = Context(prec=10_000)
    number = value.to_decimal() if isinstance(value, Decimal128) else exact.create_decimal(value)
    if not number.is_finite():
        return False
    whole = number.quantize(exact.create_decimal(1), rounding=ROUND_DOWN, context=exact)
    if not -(2**63) <= whole < 2**63:
        return False
    return bool(exact.remainder(whole, exact.create_decimal(int(divisor))) == int(remainder))


def _regex(value: Any, pattern: str, options: str) -> bool:
    if isinstance(value, Regex):
        ours = Regex(pattern, options)
        return value.pattern == pattern and value.flags & ~re.UNICODE == ours.flags & ~re.UNICODE
    return isinstance(value, str) and compile_regex(pattern, options)(value)
