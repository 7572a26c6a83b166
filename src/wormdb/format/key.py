"""Values as bytes that compare as the values do: keys of indexes and of sorts.

    compare(a, b) < 0   if and only if   encode_key(a) < encode_key(b)
    compare(a, b) == 0  if and only if   encode_key(a) == encode_key(b)

A key is a tag byte (the number of the value's `Kind`) and a body. No key is a proper prefix of
another, so keys can be joined: joined keys compare component by component, a joined prefix selects
a range, and the complement of a key's bytes turns its order round. The byte table is in
docs/format/values.md.

A number is the greatest double that is not above it, as eight bytes in order, and 00 if it is that
double; otherwise 01 and the decimal digits, which tell apart the numbers between two doubles.
"""

from __future__ import annotations

import struct
from decimal import Decimal
from math import inf, isnan, nextafter
from typing import TYPE_CHECKING, Any, Final

from wormdb.errors import LimitExceededError
from wormdb.format.kinds import Binary, Decimal128, Document, Kind, ObjectId, Regex, Timestamp, kind_of
from wormdb.format.wrappers import milliseconds, regex_options
from wormdb.settings import INDEX_KEY_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime


__all__ = ["check_index_key", "encode_key", "encode_keys", "prefix_end"]

_COMPLEMENT: Final = bytes(range(255, -1, -1))
_END: Final = b"\0"
_EXACT: Final = b"\0"
_BETWEEN: Final = b"\1"
_TAG: Final = {kind: bytes((kind,)) for kind in Kind}
_NUMBER_TAG: Final = _TAG[Kind.NUMBER]
_STRING_TAG: Final = _TAG[Kind.STRING]
_NAN_BODY: Final = bytes(9)
_DOUBLE: Final = struct.Struct(">d").pack
_UINT64: Final = struct.Struct(">Q").pack
_UINT32: Final = struct.Struct(">I").pack
_UINT16: Final = struct.Struct(">H").pack
_EXACT_INT: Final = 2**53
_SIGN_BIT: Final = 2**63
_EXPONENT_BIAS: Final = 2**15


def encode_key(value: Any, *, descending: bool = False) -> bytes:
    """The key of one normalized value, or of MISSING; `descending` turns its order round.

    Strings that start with a text have keys that start with the text's key without its last byte.
    Raises InvalidRequestError for anything but a normalized value. No requests.
    """
    if type(value) is str and not descending:
        data = value.encode()
        if b"\0" not in data and b"\1" not in data:
            return _STRING_TAG + data + _END
    key = _encode(value)
    return key.translate(_COMPLEMENT) if descending else key


def encode_keys(values: Sequence[Any]) -> list[bytes]:
    """The keys of many values, ascending: faster than one by one where all are text. No requests.

    Raises InvalidRequestError for anything but a normalized value.
    """
    if set(map(type, values)) == {str}:
        texts = "".join(values)
        if "\0" not in texts and "\1" not in texts:
            marked = "\1".join(values).encode().replace(b"\1", _END + b"\1" + _STRING_TAG)
            return (_STRING_TAG + marked + _END).split(b"\1")
    return [_encode(value) for value in values]


def prefix_end(key: bytes) -> bytes | None:
    """The least key above every key that starts with `key`; None if there is no such key."""
    stem = key.rstrip(b"\xff")
    return stem[:-1] + bytes((stem[-1] + 1,)) if stem else None


def check_index_key(key: bytes, *, index: str) -> bytes:
    """`key` itself; LimitExceededError naming the index if it is over INDEX_KEY_BYTES_MAX."""
    if len(key) > INDEX_KEY_BYTES_MAX:
        raise LimitExceededError(
            f"a key of index {index} takes {len(key)} bytes",
            reason=f"INDEX_KEY_BYTES_MAX is {INDEX_KEY_BYTES_MAX}",
            fix="shorten the indexed value, or index another field",
        )
    return key


def _encode(value: Any) -> bytes:
    kind = type(value)
    if kind is str:
        return _STRING_TAG + _text(value)
    if kind is float or kind is int:
        return _NUMBER_TAG + _number(value)
    bracket = kind_of(value)
    return _TAG[bracket] + _BODIES[bracket](value)


def _text(text: str) -> bytes:
    data = text.encode()
    if b"\0" in data or b"\1" in data:
        data = data.replace(b"\1", b"\1\2").replace(b"\0", b"\1\1")
    return data + _END


# --- numbers ---


def _number(value: float | Decimal128) -> bytes:
    if type(value) is float:
        return _NAN_BODY if isnan(value) else _ordered(value) + _EXACT
    if type(value) is int and -_EXACT_INT <= value <= _EXACT_INT:
        return _ordered(float(value)) + _EXACT
    exact = value.to_decimal() if isinstance(value, Decimal128) else Decimal(value)
    if exact.is_nan():
        return _NAN_BODY
    double = float(exact)
    if not exact.is_finite():
        return _ordered(double) + _EXACT
    as_decimal = Decimal.from_float(double)  # noqa: FURB164 - Decimal() minds the caller's context
    if as_decimal > exact:  # rounded up, possibly to infinity: step down to the double below
        double = nextafter(double, -inf)
    return _ordered(double) + (_EXACT if as_decimal == exact else _BETWEEN + _digits(exact))


def _ordered(double: float) -> bytes:
    """The bits of a double so that bytes compare as doubles: sign flipped, negatives complemented."""
    if double > 0:
        data = _DOUBLE(double)
        return bytes((data[0] | 0x80,)) + data[1:]
    if double == 0:  # either zero
        return b"\x80\0\0\0\0\0\0\0"
    return _DOUBLE(double).translate(_COMPLEMENT)


def _digits(exact: Decimal) -> bytes:
    """Exponent and digits of a finite decimal that is not zero, two digits a byte."""
    sign, digits, _ = exact.as_tuple()
    text = "".join(map(str, digits)).rstrip("0")
    text += "0" * (len(text) % 2)
    pairs = bytes(int(text[place : place + 2]) + 1 for place in range(0, len(text), 2))
    data = _UINT16(exact.adjusted() + _EXPONENT_BIAS) + pairs + _END
    return data.translate(_COMPLEMENT) if sign else data


# --- everything else ---


def _document(document: Document) -> bytes:
    fields = (_TAG[kind_of(value)] + _text(name) + _encode(value) for name, value in document.items())
    return b"".join(fields) + _END


def _array(values: list[Any]) -> bytes:
    return b"".join(map(_encode, values)) + _END


def _binary(value: bytes | Binary) -> bytes:
    subtype = value.subtype if isinstance(value, Binary) else 0
    return _UINT32(len(value)) + bytes((subtype,)) + value


def _date(value: datetime) -> bytes:
    return _UINT64(milliseconds(value) + _SIGN_BIT)


def _timestamp(value: Timestamp) -> bytes:
    return _UINT32(value.time) + _UINT32(value.inc)


def _regex(value: Regex[str]) -> bytes:
    return _text(value.pattern) + _text(regex_options(value))


def _object_id(value: ObjectId) -> bytes:
    return value.binary


def _nothing(_: Any) -> bytes:
    return b""


_BODIES: Final[dict[Kind, Callable[[Any], bytes]]] = {
    Kind.MINKEY: _nothing,
    Kind.MISSING: _nothing,
    Kind.NULL: _nothing,
    Kind.NUMBER: _number,
    Kind.STRING: _text,
    Kind.DOCUMENT: _document,
    Kind.ARRAY: _array,
    Kind.BINARY: _binary,
    Kind.OBJECTID: _object_id,
    Kind.BOOLEAN: lambda value: b"\1" if value else b"\0",
    Kind.DATE: _date,
    Kind.TIMESTAMP: _timestamp,
    Kind.REGEX: _regex,
    Kind.MAXKEY: _nothing,
}
