"""The `$` forms of extended JSON, one function to write and one to read each.

A document never holds a field whose name starts with `$`, so an object with such a key is always one
of these forms, and anything else is an error. Reading takes the canonical forms too.
"""

from __future__ import annotations

import binascii
import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import DecimalException
from math import isinf, isnan
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import msgspec

from wormdb.format.kinds import Binary, Decimal128, MaxKey, MinKey, ObjectId, Regex, Timestamp

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "READERS",
    "WRITERS",
    "MalformedError",
    "TooDeepError",
    "milliseconds",
    "moment",
    "regex_options",
    "stored_date",
    "write_double",
]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]{0,18})", re.ASCII)
_NUMBER: Final = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?", re.ASCII)
_NOT_FINITE: Final = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_DATE: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[-+][0-9]{2}:?[0-9]{2})", re.ASCII
)
_NO_MOMENT: Final = "its value must be a moment of the years 1 to 9999"
_OBJECTID: Final = re.compile(r"[0-9a-fA-F]{24}", re.ASCII)
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
_SUBTYPE: Final = re.compile(r"[0-9a-fA-F]{1,2}", re.ASCII)
_OPTIONS: Final = {
    "i": re.IGNORECASE,
    "l": re.LOCALE,
    "m": re.MULTILINE,
    "s": re.DOTALL,
    "u": re.UNICODE,
    "x": re.VERBOSE,
}
_UINT32_MAX: Final = 2**32 - 1


class MalformedError(Exception):
    """JSON that is not a value; `wormdb.format.json` turns it into an error of the public tree."""


class TooDeepError(MalformedError):
    """JSON that is nested deeper than a document may be."""


def milliseconds(date: datetime) -> int:
    """Milliseconds since 1970 of an aware date, exactly."""
    return (date - _EPOCH) // _MILLISECOND


def moment(count: int) -> datetime:
    """The date `count` milliseconds after 1970; raises OverflowError outside the years 1 to 9999."""
    return _EPOCH + timedelta(milliseconds=count)


def stored_date(date: datetime) -> datetime:
    """A date as it was read, in UTC and cut to milliseconds; MalformedError if it has no zone or leaves the years."""
    if date.tzinfo is not UTC:
        if date.tzinfo is None:
            raise MalformedError(_NO_MOMENT)
        try:
            date = date.astimezone(UTC)
        except OverflowError as error:
            raise MalformedError(_NO_MOMENT) from error
    excess = date.microsecond % 1000
    return date.replace(microsecond=date.microsecond - excess) if excess else date


def regex_options(expression: Regex[Any]) -> str:
    """The flags as letters in alphabetic order."""
    return "".join(letter for letter, flag in _OPTIONS.items() if expression.flags & flag)


# --- writing ---


def write_double(value: float) -> dict[str, Any]:
    """The form of a float that JSON has no number for: NaN and the infinities."""
    assert isnan(value) or isinf(value)
    return {"$numberDouble": "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"}


def _write_date(value: datetime) -> dict[str, Any]:
    if value.year < 1970:
        return {"$date": {"$numberLong": str(milliseconds(value))}}
    text = value.isoformat(timespec="milliseconds") if value.microsecond else value.isoformat()
    return {"$date": text.removesuffix("+00:00") + "Z"}


def _write_binary(value: bytes) -> dict[str, Any]:
    subtype = value.subtype if isinstance(value, Binary) else 0
    return {"$binary": {"base64": binascii.b2a_base64(value, newline=False).decode(), "subType": f"{subtype:02x}"}}


def _write_regex(value: Regex[Any]) -> dict[str, Any]:
    return {"$regularExpression": {"pattern": value.pattern, "options": regex_options(value)}}


WRITERS: Final[dict[type, Callable[[Any], dict[str, Any]]]] = {
    datetime: _write_date,
    bytes: _write_binary,
    Binary: _write_binary,
    ObjectId: lambda value: {"$oid": str(value)},
    Decimal128: lambda value: {"$numberDecimal": str(value)},
    Timestamp: lambda value: {"$timestamp": {"t": value.time, "i": value.inc}},
    Regex: _write_regex,
    MinKey: lambda _: {"$minKey": 1},
    MaxKey: lambda _: {"$maxKey": 1},
}
"""For each type that JSON lacks, the function that writes it."""


# --- reading ---


def _text(payload: Any, pattern: re.Pattern[str]) -> str:
    if not isinstance(payload, str) or not pattern.fullmatch(payload):
        raise MalformedError("its value has the wrong form")
    return payload


def _parts(payload: Any, first: str, second: str) -> tuple[Any, Any]:
    if not isinstance(payload, dict) or payload.keys() != {first, second}:
        raise MalformedError(f"its value is an object of {first} and {second}")
    return payload[first], payload[second]


def _read_int(payload: Any, bits: int) -> int:
    value = int(_text(payload, _INTEGER))
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise MalformedError(f"its value does not fit in {bits} bits")
    return value


def _read_double(payload: Any) -> float:
    if isinstance(payload, str) and payload in _NOT_FINITE:
        return _NOT_FINITE[payload]
    value = float(_text(payload, _NUMBER))
    if isinf(value):
        raise MalformedError("its value is too large for a double")
    return value


def _read_decimal(payload: Any) -> Decimal128:
    text = payload if isinstance(payload, str) and payload in _NOT_FINITE else _text(payload, _NUMBER)
    try:
        return Decimal128(text)
    except DecimalException as error:
        raise MalformedError("Decimal128 holds 34 digits and exponents from -6176 to 6111") from error


def _read_date(payload: Any) -> datetime:
    try:
        if isinstance(payload, dict) and payload.keys() == {"$numberLong"}:
            return moment(_read_int(payload["$numberLong"], 64))
        return stored_date(datetime.fromisoformat(_text(payload, _DATE)))
    except (ValueError, OverflowError) as error:
        raise MalformedError(_NO_MOMENT) from error


def _read_binary(payload: Any) -> bytes | Binary:
    text, subtype = _parts(payload, "base64", "subType")
    number = int(_text(subtype, _SUBTYPE), 16)
    data = _read_base64(text)
    return Binary(data, number) if number else data


def _read_base64(text: Any) -> bytes:
    if type(text) is str:
        # A third of the time of binascii, which takes one padding sign too many besides: that may have been stored.
        with suppress(msgspec.ValidationError):
            return msgspec.convert(text, bytes)
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except (ValueError, TypeError) as error:
        raise MalformedError("its value is not base64") from error


def _read_timestamp(payload: Any) -> Timestamp:
    time, increment = _parts(payload, "t", "i")
    if not all(type(part) is int and 0 <= part <= _UINT32_MAX for part in (time, increment)):
        raise MalformedError("t and i are integers of 32 bits without sign")
    return Timestamp(time, increment)


def _read_regex(payload: Any) -> Regex[str]:
    pattern, options = _parts(payload, "pattern", "options")
    if not isinstance(pattern, str) or "\0" in pattern:
        raise MalformedError("the pattern must be text without NUL")
    if not isinstance(options, str) or not set(options) <= _OPTIONS.keys():
        raise MalformedError("the options are letters of i, l, m, s, u, x")
    return Regex(pattern, options)


def _read_one(payload: Any, result: Any) -> Any:
    if type(payload) is not int or payload != 1:
        raise MalformedError("its value is 1")
    return result


READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "$oid": lambda payload: ObjectId(_text(payload, _OBJECTID)),
    "$date": _read_date,
    "$numberInt": lambda payload: _read_int(payload, 32),
    "$numberLong": lambda payload: _read_int(payload, 64),
    "$numberDouble": _read_double,
    "$numberDecimal": _read_decimal,
    "$binary": _read_binary,
    "$uuid": lambda payload: Binary(UUID(_text(payload, _UUID)).bytes, 4),
    "$timestamp": _read_timestamp,
    "$regularExpression": _read_regex,
    "$minKey": lambda payload: _read_one(payload, MinKey()),
    "$maxKey": lambda payload: _read_one(payload, MaxKey()),
}
"""For each `$` key, the function that reads its value; raises MalformedError."""
