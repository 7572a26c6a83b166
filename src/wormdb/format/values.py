"""The value model: what may be stored, and `normalize`, which brings it into one plain form.

Callers hand in whatever Python has: tuples, OrderedDict, Int64, dates in any zone. `normalize` makes
a fresh deep copy in the exact types of `wormdb.format.kinds` that shares nothing mutable with the
caller, or refuses with the dotted path, the reason and the fix. Limits are checked before
recursion, so neither a self-referencing list nor a hostile nest can exhaust the stack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, DecimalException
from enum import Enum
from typing import Any, Final, NoReturn
from uuid import UUID

from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.format.kinds import (
    MISSING,
    Binary,
    Code,
    DatetimeMS,
    DBRef,
    Decimal128,
    Document,
    Kind,
    MaxKey,
    MinKey,
    Missing,
    ObjectId,
    Regex,
    Timestamp,
    equal,
    kind_of,
)
from wormdb.settings import (
    DOCUMENT_BYTES_MAX,
    DOCUMENT_DEPTH_MAX,
    DOCUMENT_KEYS_MAX,
    FIELD_NAME_BYTES_MAX,
    INT_MAX,
    INT_MIN,
)

__all__ = [
    "MISSING",
    "Binary",
    "Decimal128",
    "Document",
    "Kind",
    "MaxKey",
    "MinKey",
    "Missing",
    "ObjectId",
    "Regex",
    "Timestamp",
    "are_field_names",
    "equal",
    "kind_of",
    "normalize",
    "normalize_document",
]


_VALUES_MAX: Final = DOCUMENT_BYTES_MAX // 2
"""Values in one document: each needs two bytes of JSON at least. Stops a list that holds itself ten
times over on every level, which would be copied out to more values than there are atoms."""

_REGEX_FLAGS: Final = re.IGNORECASE | re.LOCALE | re.MULTILINE | re.DOTALL | re.UNICODE | re.VERBOSE

# Where a value stands: None, or (where its container stands, its name or position there). Made into
# text only when something is refused.
_Place = tuple[Any, object] | None


def normalize(value: Any, *, path: str = "", plain: Callable[[Any], Any] | None = None) -> Any:
    """A fresh deep copy of `value` in plain types; `path` says where it stands, for messages.

    tuple becomes list, any Mapping dict, Decimal Decimal128, UUID Binary of subtype 4, Binary of
    subtype 0 bytes, re.Pattern Regex; dates become UTC, cut to milliseconds; subclasses of int,
    float and str become the plain type; every NaN of Decimal128 becomes the one that JSON can write.
    `plain` is asked first about all that JSON and BSON do not have as it is: it gives back what
    stands for a value, whose parts are looked at in turn, or the value itself.

    Raises InvalidRequestError for what BSON or a dotted path cannot express and LimitExceededError
    for what is too deep, too wide or too large; both name the dotted path. No requests.
    """
    kind = type(value)
    if plain is None and (
        (kind is str and value.isascii()) or kind in _KEPT or (kind is int and INT_MIN <= value <= INT_MAX)
    ):
        return value
    return _Copier(plain).copy(value, 0, (None, path) if path else None)


def normalize_document(mapping: Mapping[str, Any], *, plain: Callable[[Any], Any] | None = None) -> Document:
    """`normalize` for a whole document; InvalidRequestError also if it is not a mapping. No requests."""
    if not isinstance(mapping, Mapping):
        _refuse(mapping, None, reason="a document must be a mapping of field names to values", fix="pass a dict")
    return _Copier(plain).mapping(mapping, 1, None)


def are_field_names(names: Iterable[str]) -> bool:
    """Whether `normalize` takes all of these as names of fields. No requests."""
    try:
        for name in names:
            if name not in _NAMES:
                _field_names((name,), None)
    except InvalidRequestError:
        return False
    return True


class _Copier:
    """One run of `normalize`: counts values down so that shared parts cannot blow up."""

    __slots__ = ("_left", "_plain")

    def __init__(self, plain: Callable[[Any], Any] | None) -> None:
        self._left = _VALUES_MAX
        self._plain = plain

    def copy(self, value: Any, level: int, place: _Place) -> Any:
        kind = type(value)
        if kind is dict:
            return self.mapping(value, level + 1, place)
        if kind is list:
            return self.sequence(value, level + 1, place)
        if self._plain is not None and (stands := self._plain(value)) is not value:
            return self.copy(stands, level, place)
        if (convert := _CONVERT.get(kind)) is not None:
            return convert(value, place)
        if isinstance(value, Mapping):
            return self.mapping(value, level + 1, place)
        if isinstance(value, list | tuple):
            return self.sequence(value, level + 1, place)
        return _convert_subclass(value, place)

    def mapping(self, mapping: Mapping[Any, Any], level: int, place: _Place) -> Document:
        count = len(mapping)
        self._left -= count
        if level > DOCUMENT_DEPTH_MAX or self._left < 0 or count > DOCUMENT_KEYS_MAX:
            self._exceeded(count, level, place)
        try:
            document = dict(zip(map(_known_name, mapping), mapping.values(), strict=True))
        except KeyError:
            document = dict(zip(_field_names(mapping, place), mapping.values(), strict=True))
        for name, value in document.items():
            kind = type(value)
            if kind is str:
                if value.isascii():
                    continue
            elif kind in _KEPT or (kind is int and INT_MIN <= value <= INT_MAX):
                continue
            elif kind is dict:
                document[name] = self.mapping(value, level + 1, (place, name))
                continue
            document[name] = self.copy(value, level, (place, name))
        return document

    def sequence(self, values: Iterable[Any], level: int, place: _Place) -> list[Any]:
        values = list(values)
        self._left -= len(values)
        if level > DOCUMENT_DEPTH_MAX or self._left < 0:
            self._exceeded(0, level, place)
        for position, value in enumerate(values):
            kind = type(value)
            if kind is str:
                if value.isascii():
                    continue
            elif kind in _KEPT or (kind is int and INT_MIN <= value <= INT_MAX):
                continue
            elif kind is dict:
                values[position] = self.mapping(value, level + 1, (place, position))
                continue
            values[position] = self.copy(value, level, (place, position))
        return values

    def _exceeded(self, fields: int, level: int, place: _Place) -> NoReturn:
        if level > DOCUMENT_DEPTH_MAX:
            _exceed("nested too deep", f"DOCUMENT_DEPTH_MAX is {DOCUMENT_DEPTH_MAX} levels", place, "flatten it")
        if self._left < 0:
            _exceed("too many values", f"one document holds at most {_VALUES_MAX}", place, "split the document")
        _exceed(f"{fields} fields on one level", f"DOCUMENT_KEYS_MAX is {DOCUMENT_KEYS_MAX}", place, "use an array")


_KEPT: Final = frozenset({type(None), bool, float, ObjectId, Timestamp, MinKey, MaxKey})


_NAMES: Final[dict[str, str]] = {}
_NAMES_MAX: Final = 4096
_known_name: Final = _NAMES.__getitem__
# Names that were found good, as plain str. Documents of a collection share their names, so most are
# checked by one look-up, and all documents share one copy of each name.


def _field_names(mapping: Iterable[Any], place: _Place) -> list[str]:
    names = [_field_name(name, place) for name in mapping]
    if len(_NAMES) + len(names) > _NAMES_MAX:
        _NAMES.clear()
    _NAMES.update(zip(names, names, strict=True) if len(names) <= _NAMES_MAX else ())
    return names


def _field_name(key: Any, place: _Place) -> str:
    if not isinstance(key, str):
        _refuse(key, place, reason="a field name must be a string", fix="use text for the name")
    name = str.__str__(key)
    if len(name) > FIELD_NAME_BYTES_MAX or len(_text(name, place).encode()) > FIELD_NAME_BYTES_MAX:
        reason = f"FIELD_NAME_BYTES_MAX is {FIELD_NAME_BYTES_MAX}"
        _exceed(f"field name {_short(name)} is too long", reason, place, "use a shorter name")
    fault = next((why for found, why in _NAME_FAULTS if found(name)), None)
    if fault is not None:
        _refuse(name, place, reason=f"a field name {fault}", fix="rename the field")
    return name


_NAME_FAULTS: Final[tuple[tuple[Callable[[str], bool], str], ...]] = (
    (lambda name: not name, "is not empty, or no dotted path could reach it"),
    (lambda name: name.startswith("$"), "does not start with $, which marks operators and extended JSON"),
    (lambda name: "\0" in name, "holds no NUL"),
    (lambda name: "." in name, "holds no dot, or no dotted path could reach it"),
)


def _convert_subclass(value: Any, place: _Place) -> Any:
    for kinds, reason, fix in _REFUSED:
        if isinstance(value, kinds):
            _refuse(value, place, reason=reason, fix=fix)
    convert = next((convert for kind, convert in _CONVERT.items() if isinstance(value, kind)), None)
    if convert is None:
        _refuse(value, place, reason="BSON has no such type", fix=_conversion(value))
    return convert(value, place)


def _integer(value: int, place: _Place) -> int:
    if not INT_MIN <= value <= INT_MAX:
        _exceed("integer over 64 bits", f"{_short(value)} is not in -2^63..2^63-1", place, "use Decimal128 or a string")
    return int(value)


def _text(value: str, place: _Place) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        reason = "it holds half of a surrogate pair, which is not a character"
        _refuse(value, place, reason=reason, fix="clean the text")
    return str.__str__(value)


def _binary(value: Binary, _: _Place) -> Binary | bytes:
    return bytes(value) if value.subtype == 0 else Binary(bytes(value), value.subtype)


def _date(value: datetime, place: _Place) -> datetime:
    if type(value) is datetime and value.tzinfo is UTC and not value.microsecond % 1000 and not value.fold:
        return value
    try:
        if value.utcoffset() is None:
            reason = "it must have a time zone"
            _refuse(value, place, reason=reason, fix="use datetime.now(UTC), or replace(tzinfo=…)")
        moment = value.astimezone(UTC)
        milliseconds = moment.microsecond // 1000
        day = (moment.year, moment.month, moment.day)
        return datetime(*day, moment.hour, moment.minute, moment.second, milliseconds * 1000, tzinfo=UTC)
    except (ValueError, TypeError, OverflowError):
        _refuse(value, place, reason="it must lie in the years 1 to 9999 in UTC", fix="store null, or text")


def _decimal(value: Decimal | Decimal128, place: _Place) -> Decimal128:
    try:
        # By way of text, as JSON does it: odd encodings of NaN and zero become the usual ones.
        return Decimal128(str(Decimal128(value) if isinstance(value, Decimal) else value))
    except DecimalException:
        reason = "Decimal128 holds 34 digits and exponents from -6176 to 6111"
        _refuse(value, place, reason=reason, fix="round it, or store text")


def _regex(value: Regex[Any], place: _Place) -> Regex[str]:
    pattern, flags = value.pattern, int(value.flags)
    if not isinstance(pattern, str) or "\0" in pattern:
        _refuse(value, place, reason="the pattern of a regular expression must be text without NUL", fix="use a str")
    if flags & ~int(_REGEX_FLAGS):
        _refuse(value, place, reason="BSON knows the flags i, l, m, s, u and x only", fix="remove the others")
    return Regex(_text(pattern, place), flags)


# Looked up by exact type first, then by isinstance in this order.
_CONVERT: Final[dict[type, Callable[[Any, _Place], Any]]] = {
    type(None): lambda value, _: value,
    bool: lambda value, _: value,
    int: _integer,
    float: lambda value, _: float(value),
    str: _text,
    datetime: _date,
    ObjectId: lambda value, _: ObjectId(value.binary),
    Decimal128: _decimal,
    Decimal: _decimal,
    Binary: _binary,
    bytes: lambda value, _: bytes(value),
    bytearray: lambda value, _: bytes(value),
    memoryview: lambda value, _: bytes(value),
    UUID: lambda value, _: Binary(value.bytes, 4),
    Regex: _regex,
    re.Pattern: _regex,
    Timestamp: lambda value, _: Timestamp(value.time, value.inc),
    MinKey: lambda _value, _: MinKey(),
    MaxKey: lambda _value, _: MaxKey(),
}

_REFUSED: Final[tuple[tuple[type | tuple[type, ...], str, str], ...]] = (
    (Code, "no code is stored in a bucket", "store its text as str"),
    (DBRef, "references between collections are not resolved", "store the id"),
    (DatetimeMS, "dates are datetime here", "call as_datetime() on it"),
    (Missing, "a missing field is not stored", "leave the field out"),
    ((set, frozenset), "a set has no order", "use a list"),
)


_CONVERSIONS: Final[tuple[tuple[type | tuple[type, ...], str], ...]] = (
    (date, "use a datetime, or text"),
    ((time, timedelta), "store text, or a number of seconds"),
    (Enum, "store its value"),
)


def _conversion(value: object) -> str:
    """How to store what is not stored as it is."""
    if type(value).__module__.partition(".")[0] == "numpy":
        return "call .item() or .tolist() on it"
    known = (fix for kinds, fix in _CONVERSIONS if isinstance(value, kinds))
    return next(known, "convert it to a type of BSON first")


def _short(value: object) -> str:
    """A few characters of `value` for a message; nothing whose repr could fail or be huge."""
    if isinstance(value, str | bytes):
        return repr(value[:60])
    if not isinstance(value, int):
        return ""
    return f"{int(value)}" if value.bit_length() <= 128 else f"a number of {value.bit_length()} bits"


def _dotted(place: _Place) -> str:
    names: list[str] = []
    while place is not None:
        place, name = place
        names.append(str(name))
    return ".".join(reversed(names)) or "the top level"


def _refuse(value: object, place: _Place, *, reason: str, fix: str) -> NoReturn:
    what = " ".join(filter(None, (type(value).__name__, _short(value), "at", _dotted(place), "cannot be stored")))
    raise InvalidRequestError(what, reason=reason, fix=fix)


def _exceed(what: str, reason: str, place: _Place, fix: str) -> NoReturn:
    raise LimitExceededError(f"{what} at {_dotted(place)}", reason=reason, fix=fix)
