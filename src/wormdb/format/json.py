"""Values as relaxed extended JSON, version 2: bytes in and out, exactly.

Plain documents take msgspec's fast path both ways. Two facts make that safe:

- msgspec writes dates, bytes and numbers that are not finite in forms of its own, and offers the
  other types to a hook. So one flat pass over the values looks for these three before the bytes
  are used.
- Every extended form starts with a key `"$…"`. Bytes without a `$` hold none, and neither too many
  brackets nor nineteen digits in a row means neither too deep a nest nor an integer over 64 bits.

Where a key occurs twice in one object, the last one wins, as JSON readers do.
"""

from __future__ import annotations

import re
from datetime import datetime
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

import msgspec

from wormdb.errors import CorruptionError, InvalidRequestError, LimitExceededError
from wormdb.format.wrappers import READERS, WRITERS, MalformedError, TooDeepError, write_double
from wormdb.limits import DOCUMENT_BYTES_MAX, DOCUMENT_DEPTH_MAX, INT_MAX, INT_MIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wormdb.format.kinds import Document

__all__ = ["decode", "decode_document", "encode", "encode_document", "parse"]


# --- writing ---


def encode(value: Any) -> bytes:
    """A normalized value as compact UTF-8 JSON.

    Raises InvalidRequestError for a type that is no value, LimitExceededError for a nest without
    end. No requests.
    """
    try:
        data = _encoder.encode(value)
        return _encoder.encode(_wrapped(value)) if _needs_wrapping(value) else data
    except RecursionError as error:
        raise _too_deep() from error


def encode_document(document: Document) -> bytes:
    """`encode` for a whole document; LimitExceededError also over DOCUMENT_BYTES_MAX. No requests."""
    assert type(document) is dict
    data = encode(document)
    if len(data) > DOCUMENT_BYTES_MAX:
        raise LimitExceededError(
            f"the document takes {len(data)} bytes as JSON",
            reason=f"DOCUMENT_BYTES_MAX is {DOCUMENT_BYTES_MAX}",
            fix="split it, or store large parts as blobs",
        )
    return data


def _write_other(value: Any) -> dict[str, Any]:
    write = WRITERS.get(type(value))
    if write is None:
        raise InvalidRequestError(
            f"{type(value).__name__} is not a normalized value", fix="pass it through normalize()"
        )
    return write(value)


_encoder: Final = msgspec.json.Encoder(enc_hook=_write_other)
_NATIVE: Final = frozenset({str, int, bool, type(None)})
_OWN_FORM: Final = frozenset({datetime, bytes})


def _needs_wrapping(value: Any) -> bool:
    """Whether msgspec wrote something in `value` differently from extended JSON."""
    containers: list[Iterable[Any]] = [(value,)]
    for values in containers:
        for item in values:
            kind = type(item)
            if kind in _NATIVE:
                continue
            if kind is float:
                if not isfinite(item):
                    return True
            elif kind is dict:
                containers.append(item.values())
            elif kind is list:
                containers.append(item)
            elif kind in _OWN_FORM:
                return True
    return False


def _wrapped(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        return {name: _wrapped(item) for name, item in value.items()}
    if kind is list:
        return [_wrapped(item) for item in value]
    if kind is float:
        return value if isfinite(value) else write_double(value)
    write = WRITERS.get(kind)
    return value if write is None else write(value)


# --- reading ---


def decode(data: bytes | memoryview, *, name: str) -> Any:
    """The value that `data` holds; CorruptionError naming the object `name` if it holds none.

    Takes canonical extended JSON too. No requests.
    """
    try:
        return _read(bytes(data), _no_operator)
    except (msgspec.MsgspecError, MalformedError, UnicodeError, RecursionError) as error:
        raise CorruptionError(f"{name} holds no valid JSON", reason=_reason(error), key=name) from error


def decode_document(data: bytes | memoryview, *, name: str) -> Document:
    """`decode` for a whole document; CorruptionError also if it is not an object. No requests."""
    document = decode(data, name=name)
    if type(document) is not dict:
        raise CorruptionError(f"{name} holds no document", reason="its JSON is not an object", key=name)
    return document


def parse(text: str, *, operators: bool = False) -> Any:
    """The value of JSON that a person typed; `operators` lets keys such as `$gt` through.

    Raises InvalidRequestError with line and column, LimitExceededError. No requests.
    """
    try:
        return _read(text.encode(), _is_operator if operators else _no_operator)
    except (TooDeepError, RecursionError) as error:
        raise _too_deep() from error
    except (msgspec.MsgspecError, MalformedError, UnicodeError) as error:
        place = _position(text, str(error)) if isinstance(error, msgspec.MsgspecError) else ""
        raise InvalidRequestError(
            f"this is not valid JSON{place}", reason=_reason(error), fix='see "Values" in the docs for the forms'
        ) from error


_decoder: Final = msgspec.json.Decoder()
# Digits become 0 and both brackets one, so that one search each finds long numbers and deep nests.
_SHAPE: Final = bytes.maketrans(b"123456789{", b"000000000[")
_LONG_NUMBER: Final = b"0" * len(str(INT_MAX))
_BYTE: Final = re.compile(r" \(byte ([0-9]+)\)")


def _no_operator(_: str) -> bool:
    return False


def _is_operator(name: str) -> bool:
    return name not in READERS


def _read(data: bytes, passes: Callable[[str], bool]) -> Any:
    """Decode; `passes` says which keys that start with `$` are ordinary ones."""
    value = _decoder.decode(data)
    if (b"$" in data and b'"$' in data) or (b"\\" in data and b"\\u0024" in data):
        return _checked(value, 1, passes)
    shape = data.translate(_SHAPE)
    if shape.count(b"[") > DOCUMENT_DEPTH_MAX or _LONG_NUMBER in shape:
        return _checked(value, 1, passes)
    return value


def _checked(value: Any, level: int, passes: Callable[[str], bool]) -> Any:
    """`value` with extended forms read, and its limits checked; `level` is its own if it is a container."""
    kind = type(value)
    if kind is int:
        if not INT_MIN <= value <= INT_MAX:
            raise MalformedError("an integer does not fit in 64 bits")
        return value
    if kind is not dict and kind is not list:
        return value
    if kind is dict and len(value) == 1:
        (name,) = value
        if (read := READERS.get(name)) is not None:
            return _read_form(read, name, value[name])
    if level > DOCUMENT_DEPTH_MAX:
        raise TooDeepError
    if kind is list:
        return [_checked(item, level + 1, passes) for item in value]
    for name in value:
        if name.startswith("$") and not passes(name):
            raise MalformedError(f"{name[:40]} is no form of extended JSON here")
    return {name: _checked(item, level + 1, passes) for name, item in value.items()}


def _read_form(read: Callable[[Any], Any], name: str, payload: Any) -> Any:
    try:
        return read(payload)
    except MalformedError as error:
        raise MalformedError(f"{name}: {error}") from error


def _too_deep() -> LimitExceededError:
    return LimitExceededError(
        "the value is nested too deep", reason=f"DOCUMENT_DEPTH_MAX is {DOCUMENT_DEPTH_MAX} levels", fix="flatten it"
    )


def _reason(error: Exception) -> str:
    if isinstance(error, TooDeepError | RecursionError):
        return f"it is nested deeper than DOCUMENT_DEPTH_MAX, {DOCUMENT_DEPTH_MAX} levels"
    if isinstance(error, UnicodeError):
        return "it is not UTF-8"
    return _BYTE.sub("", str(error))


def _position(text: str, message: str) -> str:
    found = _BYTE.search(message)
    data = text.encode()
    before = data[: int(found[1])].decode(errors="replace") if found else text
    column = len(before) - before.rfind("\n")
    return f" at line {before.count(chr(10)) + 1}, column {column}"
