"""The types of values: BSON's, each in one plain Python form.

Normalized values (see `wormdb.format.values.normalize`) are of exactly these types:

None, bool, int (64 bit), float, str, bytes, Binary (subtype not 0), datetime (UTC, milliseconds),
ObjectId, Decimal128, dict (key order counts), list, Regex, Timestamp, MinKey, MaxKey.

No other module of this layer imports `bson`, so that its absence or another package of that name is
noticed here.

Python's own equality is a trap here: True == 1 == 1.0, and {"a": 1, "b": 2} == {"b": 2, "a": 1}.
Use `equal` for identity of values and `wormdb.format.order.compare` for MongoDB's order.
"""

from __future__ import annotations

import enum
from datetime import UTC, datetime
from math import isnan
from typing import Any, Final, NoReturn

from wormdb.errors import InvalidRequestError, WormError

try:
    from bson import Binary, Code, DatetimeMS, DBRef, Decimal128, MaxKey, MinKey, ObjectId, Regex, Timestamp
    from bson.errors import BSONError
except ImportError as error:  # the unrelated package `bson` shadows pymongo's
    raise WormError(
        "wormdb cannot use the installed package `bson`",
        reason="it is not the one that pymongo brings: ObjectId or Decimal128 is missing",
        fix="pip uninstall -y bson pymongo && pip install pymongo",
    ) from error

__all__ = [
    "MISSING",
    "BSONError",
    "Binary",
    "Code",
    "DBRef",
    "DatetimeMS",
    "Decimal128",
    "Document",
    "Kind",
    "MaxKey",
    "MinKey",
    "Missing",
    "ObjectId",
    "Regex",
    "Timestamp",
    "equal",
    "kind_of",
]

Document = dict[str, Any]
"""A normalized document; the order of its keys is part of its value."""


class Missing(enum.Enum):
    """The class of `MISSING`, which stands for a field that is not there."""

    MISSING = enum.auto()

    def __repr__(self) -> str:
        return "MISSING"

    __str__ = __repr__

    def __bool__(self) -> bool:
        return False


MISSING: Final = Missing.MISSING
"""A field that is not there: less than null in the order, never stored."""


class Kind(enum.IntEnum):
    """Brackets of types in MongoDB's order; the numbers are the tag bytes of `wormdb.format.key`."""

    MINKEY = 0x08
    MISSING = 0x10
    NULL = 0x18
    NUMBER = 0x20
    STRING = 0x28
    DOCUMENT = 0x30
    ARRAY = 0x38
    BINARY = 0x40
    OBJECTID = 0x48
    BOOLEAN = 0x50
    DATE = 0x58
    TIMESTAMP = 0x60
    REGEX = 0x68
    MAXKEY = 0x70


_KINDS: Final[dict[type, Kind]] = {
    MinKey: Kind.MINKEY,
    Missing: Kind.MISSING,
    type(None): Kind.NULL,
    bool: Kind.BOOLEAN,  # before int: True is not 1
    int: Kind.NUMBER,
    float: Kind.NUMBER,
    Decimal128: Kind.NUMBER,
    str: Kind.STRING,
    dict: Kind.DOCUMENT,
    list: Kind.ARRAY,
    bytes: Kind.BINARY,
    Binary: Kind.BINARY,
    ObjectId: Kind.OBJECTID,
    datetime: Kind.DATE,
    Timestamp: Kind.TIMESTAMP,
    Regex: Kind.REGEX,
    MaxKey: Kind.MAXKEY,
}


def kind_of(value: Any) -> Kind:
    """The bracket of a normalized value; raises InvalidRequestError for other types."""
    kind = _KINDS.get(type(value))
    if kind is None:
        _refuse_kind(value)
    return kind


def _refuse_kind(value: Any) -> NoReturn:
    raise InvalidRequestError(
        f"{type(value).__name__} is not a normalized value", fix="pass it through normalize() first"
    )


def equal(a: Any, b: Any) -> bool:
    """Whether two normalized values are the same value: same type, key order, bits.

    1 and 1.0 differ, True and 1, 0.0 and -0.0, Decimal128("1.0") and Decimal128("1.00"), bytes and
    Binary; NaN equals NaN.
    """
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(value, b[name]) for name, value in a.items())
    if isinstance(a, list):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, float):
        return (isnan(a) and isnan(b)) or (a == b and str(a) == str(b))
    if isinstance(a, Regex):
        return bool(a.pattern == b.pattern and a.flags == b.flags)
    if isinstance(a, datetime):
        return bool(a == b and a.tzinfo is UTC and b.tzinfo is UTC)
    return bool(a == b)
