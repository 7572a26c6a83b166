"""Operators of expressions that take values and give one: arithmetic, comparison, text, arrays, dates.

As in MongoDB, most give null where an operand is null or missing, and refuse a value of another type. Text changes
between capitals and small letters in ASCII only. Dates are in UTC; integers stay integers, up to 64 bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING, Any, Final, NoReturn

from wormdb.bql.accumulators import Average, Extreme, Sum
from wormdb.bql.numbers import add, is_number, multiply, to_decimal128
from wormdb.errors import InvalidRequestError
from wormdb.format.kinds import MISSING, Decimal128, ObjectId
from wormdb.format.order import compare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["FUNCTIONS", "Function", "is_true", "refuse"]

_MANY: Final = 1_000
"""How many operands an operator takes that takes any number."""


@dataclass(frozen=True, slots=True)
class Function:
    """One operator: how many operands it takes, or which options, and what it gives."""

    work: Callable[..., Any]
    least: int
    most: int
    fix: str
    options: Mapping[str, bool] | None = None
    """Named operands, and whether each must be there; None: operands are a list."""


def refuse(name: str, reason: str, fix: str) -> NoReturn:
    """Raise InvalidRequestError for a value that an operator does not take."""
    raise InvalidRequestError(f"{name} of a row", reason=reason, fix=fix)


def is_true(value: Any) -> bool:
    """Whether a condition holds: not for false, 0, null and missing."""
    if value is None or value is MISSING or value is False:
        return False
    return not (is_number(value) and compare(value, 0) == 0)


def _lacks(*values: Any) -> bool:
    return any(value is None or value is MISSING for value in values)


# --- numbers ---


def _check_numbers(name: str, *values: Any) -> None:
    for value in values:
        if not is_number(value):
            kind = type(value).__name__
            refuse(name, f"it takes numbers, not {kind}", 'choose rows with {"$match": {field: {"$type": "number"}}}')


def _shift(name: str, moment: datetime, milliseconds: Any) -> datetime:
    _check_numbers(name, milliseconds)
    try:
        return moment + timedelta(milliseconds=round(float(str(milliseconds))))
    except (OverflowError, ValueError):
        refuse(name, "the date is outside of the years 1 to 9999", "add less")


def _add(*values: Any) -> Any:
    if _lacks(*values):
        return None
    dates = [value for value in values if type(value) is datetime]
    if len(dates) > 1:
        refuse("$add", "it takes one date at most", 'use {"$subtract": […]} for the time between two')
    numbers = [value for value in values if type(value) is not datetime]
    _check_numbers("$add", *numbers)
    total: Any = 0
    for number in numbers:
        total = add(total, number)
    return _shift("$add", dates[0], total) if dates else total


def _subtract(a: Any, b: Any) -> Any:
    if _lacks(a, b):
        return None
    if type(a) is datetime:
        if type(b) is datetime:
            return (a - b) // timedelta(milliseconds=1)
        _check_numbers("$subtract", b)
        return _shift("$subtract", a, multiply(b, -1))
    _check_numbers("$subtract", a, b)
    return add(a, multiply(b, -1))


def _multiply(*values: Any) -> Any:
    if _lacks(*values):
        return None
    _check_numbers("$multiply", *values)
    product: Any = 1
    for value in values:
        product = multiply(product, value)
    return product


def _divide(a: Any, b: Any) -> Any:
    if _lacks(a, b):
        return None
    _check_numbers("$divide", a, b)
    if compare(b, 0) == 0:
        refuse("$divide", "it divides by zero", 'use {"$cond": [{"$eq": [divisor, 0]}, null, {"$divide": …}]}')
    if isinstance(a, Decimal128) or isinstance(b, Decimal128):
        return to_decimal128(_decimal(a) / _decimal(b))
    return a / b


def _mod(a: Any, b: Any) -> Any:
    if _lacks(a, b):
        return None
    _check_numbers("$mod", a, b)
    if compare(b, 0) == 0:
        refuse("$mod", "it divides by zero", "give another divisor")
    if isinstance(a, Decimal128) or isinstance(b, Decimal128):
        return to_decimal128(_decimal(a) % _decimal(b))
    if isinstance(a, int) and isinstance(b, int):
        return int(math.copysign(1, a)) * (abs(a) % abs(b))
    return math.fmod(a, b)


def _decimal(number: Any) -> Decimal:
    return number.to_decimal() if isinstance(number, Decimal128) else Decimal(str(number))


def _abs(value: Any) -> Any:
    if _lacks(value):
        return None
    _check_numbers("$abs", value)
    return to_decimal128(abs(value.to_decimal())) if isinstance(value, Decimal128) else abs(value)


def _rounder(name: str, rounding: str) -> Callable[..., Any]:
    def rounded(value: Any, place: Any = 0) -> Any:
        if _lacks(value, place):
            return None
        _check_numbers(name, value)
        if type(place) is not int or not -20 <= place <= 100:
            refuse(name, "its place must be a whole number from -20 to 100", "write 2")
        if isinstance(value, float) and not math.isfinite(value):
            return value
        exact = value.to_decimal() if isinstance(value, Decimal128) else Decimal(value)
        if not exact.is_finite() or (isinstance(value, int) and place >= 0):
            return value
        shifted = exact.scaleb(place)
        whole = shifted.to_integral_value(rounding=rounding).scaleb(-place) if abs(shifted) < _EXACT else exact
        if isinstance(value, Decimal128):
            return to_decimal128(whole)
        return float(whole) if isinstance(value, float) else add(int(whole), 0)  # refuses what is over 64 bits

    return rounded


_EXACT: Final = Decimal(10) ** 27
"""Numbers beyond have no fraction that a decimal context of 28 digits could round."""


# --- comparison ---


def _comparison(passes: Callable[[int], bool]) -> Callable[[Any, Any], bool]:
    return lambda a, b: passes(compare(a, b))


# --- text ---


def _text(name: str, value: Any) -> str:
    if type(value) is not str:
        refuse(name, f"it takes text, not {type(value).__name__}", 'write {"$toString": "$field"}')
    return str(value)


def _concat(*values: Any) -> Any:
    if _lacks(*values):
        return None
    return "".join(_text("$concat", value) for value in values)


_CAPITALS: Final = {ord("a") + place: ord("A") + place for place in range(26)}
_SMALL: Final = {capital: small for small, capital in _CAPITALS.items()}


def _casing(name: str, letters: dict[int, int]) -> Callable[[Any], str]:
    return lambda value: "" if _lacks(value) else _text(name, value).translate(letters)


def _length(value: Any) -> int:
    return len(_text("$strLenCP", value))


def _part(value: Any, begin: Any, count: Any) -> str:
    if _lacks(value):
        return ""
    text = _text("$substrCP", value)
    if type(begin) is not int or type(count) is not int or begin < 0:
        refuse("$substrCP", "its place and its length must be whole numbers, the place of 0 or more", "write 0")
    return text[begin:] if count < 0 else text[begin : begin + count]


def _split(value: Any, by: Any) -> Any:
    if _lacks(value, by):
        return None
    if by == "":
        refuse("$split", "it needs a text to split by", 'write " "')
    return _text("$split", value).split(_text("$split", by))


def _to_string(value: Any) -> Any:
    if _lacks(value):
        return None
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is float:
        return repr(value).removesuffix(".0")
    if type(value) is datetime:
        return _date_to_string(date=value)
    if type(value) in {str, int, ObjectId, Decimal128}:
        return str(value)
    refuse("$toString", f"it does not take {type(value).__name__}", "leave it as it is")


# --- arrays ---


def _array(name: str, value: Any) -> list[Any]:
    if type(value) is not list:
        kind = "missing" if value is MISSING else type(value).__name__
        refuse(
            name, f"it takes an array, and the value is {kind}", f'write {{"{name}": {{"$ifNull": ["$field", []]}}}}'
        )
    return value


def _at(value: Any, place: Any) -> Any:
    if _lacks(value, place):
        return None
    if type(place) is not int:
        refuse("$arrayElemAt", "its place must be a whole number", "write 0")
    items = _array("$arrayElemAt", value)
    return items[place] if -len(items) <= place < len(items) else MISSING


def _slice(value: Any, begin: Any, count: Any = None) -> Any:
    if _lacks(value):
        return None
    items = _array("$slice", value)
    if type(begin) is not int or (count is not None and (type(count) is not int or count < 1)):
        refuse("$slice", "its place and its length must be whole numbers, the length of 1 or more", "write 5")
    if count is None:
        return items[:begin] if begin >= 0 else items[begin:]
    start = begin if begin >= 0 else max(0, len(items) + begin)
    return items[start : start + count]


def _concat_arrays(*values: Any) -> Any:
    if _lacks(*values):
        return None
    return [item for value in values for item in _array("$concatArrays", value)]


def _merge(*values: Any) -> Any:
    merged: dict[str, Any] = {}
    for value in values:
        for part in value if type(value) is list and len(values) == 1 else [value]:
            if _lacks(part):
                continue
            if type(part) is not dict:
                refuse("$mergeObjects", f"it takes documents, not {type(part).__name__}", "name fields with documents")
            merged |= part
    return merged


def _over(make: Callable[[], Any]) -> Callable[..., Any]:
    """An accumulator as a function: of the elements of one array, or of several values."""

    def work(*values: Any) -> Any:
        tally = make()
        items: Iterable[Any] = values[0] if len(values) == 1 and type(values[0]) is list else values
        for item in items:
            tally.add(item)
        return tally.result()

    return work


# --- dates ---


def _moment(name: str, value: Any) -> datetime:
    if type(value) is ObjectId:
        return value.generation_time
    if type(value) is not datetime:
        refuse(name, f"it takes a date, not {type(value).__name__}", "store dates as dates")
    return value


def _date_part(name: str, part: Callable[[datetime], int]) -> Callable[[Any], Any]:
    return lambda value: None if _lacks(value) else part(_moment(name, value))


_FORMATS: Final[dict[str, Callable[[datetime], str]]] = {
    "Y": lambda at: f"{at.year:04}",
    "m": lambda at: f"{at.month:02}",
    "d": lambda at: f"{at.day:02}",
    "H": lambda at: f"{at.hour:02}",
    "M": lambda at: f"{at.minute:02}",
    "S": lambda at: f"{at.second:02}",
    "L": lambda at: f"{at.microsecond // 1000:03}",
    "j": lambda at: f"{at.timetuple().tm_yday:03}",
    "u": lambda at: str(at.isoweekday()),
    "w": lambda at: str(at.isoweekday() % 7 + 1),
    "G": lambda at: f"{at.isocalendar().year:04}",
    "V": lambda at: f"{at.isocalendar().week:02}",
    "z": lambda _: "+0000",
    "Z": lambda _: "+0",
    "%": lambda _: "%",
}


def _date_to_string(date: Any, format: Any = "%Y-%m-%dT%H:%M:%S.%LZ", onNull: Any = None) -> Any:  # noqa: A002, N803 - MongoDB's names
    if _lacks(date):
        return onNull
    if _lacks(format):
        return None
    moment, written = _moment("$dateToString", date), _text("$dateToString", format)
    pieces = written.split("%")
    shown, place = [pieces[0]], 1
    while place < len(pieces):
        if not pieces[place] and place + 1 < len(pieces):  # %%
            shown += ["%", pieces[place + 1]]
            place += 2
            continue
        letter = pieces[place][:1]
        if letter not in _FORMATS:
            refuse("$dateToString", f"there is no %{letter}", f"known are: {', '.join(_FORMATS)}")
        shown += [_FORMATS[letter](moment), pieces[place][1:]]
        place += 1
    return "".join(shown)


_UNITS: Final = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")


def _date_trunc(date: Any, unit: Any) -> Any:
    if _lacks(date, unit):
        return None
    moment = _moment("$dateTrunc", date)
    if unit not in _UNITS:
        refuse("$dateTrunc", f"there is no unit {unit!r:.40}", f"known are: {', '.join(_UNITS)}")
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    found: dict[str, datetime] = {
        "year": day.replace(month=1, day=1),
        "quarter": day.replace(month=(moment.month - 1) // 3 * 3 + 1, day=1),
        "month": day.replace(day=1),
        "day": day,
        "hour": moment.replace(minute=0, second=0, microsecond=0),
        "minute": moment.replace(second=0, microsecond=0),
        "second": moment.replace(microsecond=0),
    }
    # A week begins on Sunday; the first of all would begin before the first year.
    return (
        found[unit]
        if unit != "week"
        else max(day, _FIRST_SUNDAY) - timedelta(days=max(day, _FIRST_SUNDAY).isoweekday() % 7)
    )


_FIRST_SUNDAY: Final = datetime(1, 1, 7, tzinfo=UTC)


def _of(work: Callable[..., Any], least: int, most: int | None = None, *, fix: str = "") -> Function:
    most = least if most is None else most
    count = f"{least}" if least == most else f"{least} to {most}" if most < _MANY else f"{least} or more"
    return Function(work, least, most, fix or f"give it {count} operand{'' if count == '1' else 's'} in a list")


def _part_of_date(name: str, part: Callable[[datetime], int]) -> tuple[str, Function]:
    return name, _of(_date_part(name, part), 1)


FUNCTIONS: Final[Mapping[str, Function]] = {
    "$add": _of(_add, 1, _MANY),
    "$subtract": _of(_subtract, 2),
    "$multiply": _of(_multiply, 1, _MANY),
    "$divide": _of(_divide, 2),
    "$mod": _of(_mod, 2),
    "$abs": _of(_abs, 1),
    "$ceil": _of(_rounder("$ceil", ROUND_CEILING), 1),
    "$floor": _of(_rounder("$floor", ROUND_FLOOR), 1),
    "$round": _of(_rounder("$round", ROUND_HALF_EVEN), 1, 2),
    "$trunc": _of(_rounder("$trunc", ROUND_DOWN), 1, 2),
    "$eq": _of(_comparison(lambda side: side == 0), 2),
    "$ne": _of(_comparison(lambda side: side != 0), 2),
    "$gt": _of(_comparison(lambda side: side > 0), 2),
    "$gte": _of(_comparison(lambda side: side >= 0), 2),
    "$lt": _of(_comparison(lambda side: side < 0), 2),
    "$lte": _of(_comparison(lambda side: side <= 0), 2),
    "$cmp": _of(compare, 2),
    "$not": _of(lambda value: not is_true(value), 1),
    "$concat": _of(_concat, 1, _MANY),
    "$toUpper": _of(_casing("$toUpper", _CAPITALS), 1),
    "$toLower": _of(_casing("$toLower", _SMALL), 1),
    "$strLenCP": _of(_length, 1),
    "$substrCP": _of(_part, 3),
    "$split": _of(_split, 2),
    "$toString": _of(_to_string, 1),
    "$size": _of(lambda value: len(_array("$size", value)), 1),
    "$isArray": _of(lambda value: type(value) is list, 1),
    "$arrayElemAt": _of(_at, 2),
    "$first": _of(lambda value: _at(value, 0), 1),
    "$last": _of(lambda value: _at(value, -1), 1),
    "$in": _of(lambda value, items: any(compare(value, item) == 0 for item in _array("$in", items)), 2),
    "$slice": _of(_slice, 2, 3),
    "$concatArrays": _of(_concat_arrays, 1, _MANY),
    "$mergeObjects": _of(_merge, 1, _MANY),
    "$sum": _of(_over(Sum), 1, _MANY),
    "$avg": _of(_over(Average), 1, _MANY),
    "$min": _of(_over(lambda: Extreme(-1)), 1, _MANY),
    "$max": _of(_over(lambda: Extreme(1)), 1, _MANY),
    **dict(
        (
            _part_of_date("$year", lambda at: at.year),
            _part_of_date("$month", lambda at: at.month),
            _part_of_date("$dayOfMonth", lambda at: at.day),
            _part_of_date("$dayOfWeek", lambda at: at.isoweekday() % 7 + 1),
            _part_of_date("$dayOfYear", lambda at: at.timetuple().tm_yday),
            _part_of_date("$hour", lambda at: at.hour),
            _part_of_date("$minute", lambda at: at.minute),
            _part_of_date("$second", lambda at: at.second),
            _part_of_date("$millisecond", lambda at: at.microsecond // 1000),
        )
    ),
    "$dateToString": Function(
        _date_to_string,
        1,
        1,
        'write {"date": "$at", "format": "%Y-%m-%d"}',
        {"date": True, "format": False, "onNull": False},
    ),
    "$dateTrunc": Function(_date_trunc, 1, 1, 'write {"date": "$at", "unit": "day"}', {"date": True, "unit": True}),
}
"""Every operator that takes values and gives one, by its name."""
